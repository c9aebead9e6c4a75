"""Fork proofs in responses: which may be sent, and which are accepted.

By default a proof may end a response at any point. With *local* forks it may only once the response has come to the
proof's position. A *trust anchor* further asks for a path between the anchor and what caused the fork. Only who has the
entries can judge paths, so a receiver checks what it can: no cause is above the position of its proof.

Specification: docs/specs/intervals.md, "Fork proofs in responses", "Partial fork proofs".
"""

from collections.abc import Callable, Sequence

from culm.bamboo import Entry, ForkProof, is_authentic, linkers, lipmaa
from culm.bamboo.forks import ForkCase
from culm.errors import RemoteProtocolError
from culm.intervals.interval import At, Forks, Request, start_of
from culm.intervals.items import entry_of_proof
from culm.intervals.messages import ProofEntry
from culm.transfer import Source
from culm.types import Log


def is_due(request: Request, *, ascending: bool | None, next_seq: int | None, position: int) -> bool:
    """Whether a proof of a position may end a response whose next item is of ``next_seq``, as far as numbers tell.

    ``next_seq`` is None where all items were sent, or where the requester does not know the start.
    """
    if request.forks is Forks.DEFAULT or ascending is None:
        return True
    if next_seq is not None and (next_seq < position if ascending else next_seq > position):
        return False
    if request.anchor is None:
        return True
    return position > request.anchor[0] if ascending else True


# -- what we send ---------------------------------------------------------------------------------------------------


def full_proof(
    request: Request, source: Source, is_due_at: Callable[[int], bool], *, ascending: bool
) -> ForkProof | None:
    """The proof to end a response with now: of the first position in its direction; None if none may be sent.

    ``is_due_at`` says whether the response has come far enough for a proof of a position.
    """
    found = [
        proof
        for proof in source.proofs(request.log)
        if is_due_at(proof.position)
        and not (request.forks is Forks.LOCAL and not ascending and _is_above(request, proof.position))
        and (request.anchor is None or _is_anchored(proof, request.anchor, source, ascending=ascending))
    ]
    return (min if ascending else max)(found, key=lambda proof: proof.position, default=None)


def _is_above(request: Request, position: int) -> bool:
    """Whether a place is above where the interval begins: a response that goes down never comes there."""
    start = start_of(request.interval)
    return isinstance(start, At) and position > start.seq


def _is_anchored(proof: ForkProof, anchor: tuple[int, bytes], source: Source, *, ascending: bool) -> bool:
    """Whether the anchor and the cause of a fork are on one path. Where entries for that are lacking: no."""
    if proof.case is ForkCase.SAME_NUMBER:
        cause = [proof.first, proof.second]
    elif proof.case is ForkCase.AFTER_END:
        cause = [proof.first]
    else:
        cause = []  # it lies further down the links, among entries that are not held
    log, (seq, value) = (proof.author, proof.log_id), anchor
    if ascending:
        return any(entry.seq > seq and leads_to(entry, seq, value, source) for entry in cause)
    tops = [entry for entry in source.variants(log, seq) if entry.hash == value]
    return any(entry.seq < seq and leads_to(top, entry.seq, entry.hash, source) for entry in cause for top in tops)


def leads_to(entry: Entry, seq: int, value: bytes, source: Source) -> bool:
    """Whether links that are held lead from an entry down to the one of number ``seq`` and hash ``value``."""
    while entry.seq > seq:
        jump = lipmaa(entry.seq)
        target = jump if jump >= seq else entry.seq - 1
        expected = dict(entry.links)[target]
        if target == seq:
            return expected == value
        following = [other for other in source.variants(entry.log, target) if other.hash == expected]
        if not following:
            return False
        entry = following[0]
    return entry.seq == seq and entry.hash == value


def doubtful(log: Log, expected: dict[int, bytes], source: Source) -> dict[int, bytes]:
    """Those of the expected hashes that are not the ones of entries held."""
    held = source.held(log)
    return {
        seq: value
        for seq, value in expected.items()
        if held.entries_around(seq) is None or all(entry.hash != value for entry in source.variants(log, seq))
    }


def partial_proof(log: Log, expected: dict[int, bytes], source: Source) -> tuple[Entry, int, int] | None:
    """An entry that contradicts a doubtful hash, with the position of that and the number the hash is of."""
    for seq, value in sorted(expected.items()):
        around = source.held(log).entries_around(seq)
        held = source.variants(log, seq) if around is not None else []
        if any(entry.hash == value for entry in held):  # it came since the hash was looked at
            continue
        if held:
            return held[0], seq, seq
        for above in linkers(seq):
            if source.held(log).entries_around(above) is None:
                continue
            linking = source.variants(log, above)
            if linking and dict(linking[0].links)[seq] != value:
                return linking[0], seq, seq
        end = source.end_of_log(log)
        if end is not None and end.seq < seq:
            return end, end.seq, seq
    return None


# -- what we accept -------------------------------------------------------------------------------------------------


def check_full(log: Log, items: Sequence[ProofEntry], is_due_at: Callable[[int], bool]) -> tuple[Entry, ...]:
    """The entries of a proof; ``RemoteProtocolError`` if it proves nothing. ``is_due_at`` judges its position."""
    entries = tuple(entry_of_proof(log, item) for item in items)
    proof = ForkProof.of(*entries)
    if not all(map(is_authentic, entries)):
        raise RemoteProtocolError("a fork proof with a bad signature")
    if proof is None:
        raise RemoteProtocolError("a fork proof whose entries agree")
    if not any(map(is_due_at, positions(*entries))):
        raise RemoteProtocolError(f"a fork proof of position {proof.position}, which the request does not allow")
    return entries


def positions(one: Entry, other: Entry) -> list[int]:
    """All positions at which two entries contradict each other."""
    low, high = (one, other) if one.seq <= other.seq else (other, one)
    found = []
    if (low.seq == high.seq and low != high) or (low.is_end and high.seq > low.seq):
        found.append(low.seq)
    by_low = dict(low.links)
    for target, expected in high.links:
        if (target == low.seq and expected != low.hash) or by_low.get(target, expected) != expected:
            found.append(target)
    return found


def check_partial(
    log: Log, item: ProofEntry, expected: dict[int, bytes], is_due_at: Callable[[int], bool]
) -> tuple[Entry, ...]:
    """The entry of a partial proof; ``RemoteProtocolError`` if it contradicts no hash that the request names."""
    entry = entry_of_proof(log, item)
    if not expected:
        raise RemoteProtocolError("the peer sent a partial fork proof, but the request names no hash")
    if not is_authentic(entry):
        raise RemoteProtocolError("a partial fork proof with a bad signature")
    found = []
    links = dict(entry.links)
    for seq, value in expected.items():
        if (entry.seq == seq and entry.hash != value) or links.get(seq, value) != value:
            found.append(seq)
        if entry.is_end and entry.seq < seq:
            found.append(entry.seq)
    if not found:
        raise RemoteProtocolError("a partial fork proof that contradicts no expected hash")
    if not any(map(is_due_at, found)):
        raise RemoteProtocolError(f"a partial fork proof of position {found[0]}, which the request does not allow")
    return (entry,)
