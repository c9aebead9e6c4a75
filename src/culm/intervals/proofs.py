"""Fork proofs in responses: which may be sent, and which are accepted.

By default a proof may end a response at any point. With *local* forks it may only once the response has come to the
proof's position. A *trust anchor* further asks for a path between the anchor and what caused the fork. Only who has the
entries can judge paths, so a receiver checks what it can: no cause is above the position of its proof.

Specification: docs/specs/intervals.md, "Fork proofs in responses", "Partial fork proofs".
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from culm.bamboo import Entry, ForkProof, is_authentic, linkers
from culm.bamboo.forks import ForkCase
from culm.errors import RemoteProtocolError
from culm.intervals.branch import leads_to
from culm.intervals.interval import At, Forks, Request, start_of
from culm.intervals.items import entry_of_proof
from culm.intervals.messages import End, ProofEntry, Reason
from culm.transfer import HeldLog, Source
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


class Dispute(NamedTuple):
    """A proof that may end a response once that has come to ``position``.

    ``doubted``: the number of the expected hash that a partial proof contradicts.
    """

    position: int
    end: End
    doubted: int | None = None


def next_dispute(
    request: Request, expected: dict[int, bytes], source: Source, held: HeldLog, *, ascending: bool
) -> Dispute | None:
    """The proof that the response comes to first in its direction, of those that the anchor allows.

    ``expected``: the expected hashes that were not found to be right.
    """
    found = []
    if held.is_forked and (proof := _full_proof(request, source, ascending=ascending)) is not None:
        entries = ProofEntry.of(proof.first), ProofEntry.of(proof.second)
        found.append(Dispute(proof.position, End(Reason.FULL_PROOF, entries, grants=True)))
    partial = partial_proof(request.log, expected, source, held, ascending=ascending) if expected else None
    if partial is not None:
        entry, position, doubted = partial
        if request.anchor is None or ascending or position < request.anchor[0]:
            found.append(Dispute(position, End(Reason.PARTIAL_PROOF, (ProofEntry.of(entry),), grants=True), doubted))
    return (min if ascending else max)(found, key=lambda dispute: dispute.position, default=None)


def _full_proof(request: Request, source: Source, *, ascending: bool) -> ForkProof | None:
    """The proof of the first position in a direction; None if none may be sent at any point of the response."""
    for proof in sorted(source.proofs(request.log), key=lambda proof: proof.position, reverse=not ascending):
        if request.forks is Forks.LOCAL and not ascending and _is_above(request, proof.position):
            continue
        if request.anchor is None or _is_anchored(proof, request.anchor, source, ascending=ascending):
            return proof
    return None


def _is_above(request: Request, position: int) -> bool:
    """Whether a place is above where the interval begins: a response that goes down never comes there."""
    start = start_of(request.interval)
    return isinstance(start, At) and position > start.seq


def _is_anchored(proof: ForkProof, anchor: tuple[int, bytes], source: Source, *, ascending: bool) -> bool:
    """Whether the anchor and the cause of a fork are on one path, and the cause lies behind the anchor.

    The cause may lie among entries that are not held, below those of the proof. Where both of these lead down to the
    anchor, the branches part above it, and so does the cause. Where a path leads from the anchor down to one side of
    the contradiction, it goes on to the cause. Where entries for such a path are lacking: no.
    """
    (seq, value), position = anchor, proof.position
    sides = (proof.first, proof.second)
    if ascending:
        are_above = [entry.seq > seq and leads_to(entry, seq, value, source) for entry in sides]
        return position > seq and (any if proof.case is ForkCase.AFTER_END else all)(are_above)
    places = [(entry.seq, entry.hash) for entry in sides]
    places += [(position, dict(entry.links)[position]) for entry in sides if position in dict(entry.links)]
    tops = [kept.entry for kept in source.variants(proof.log, seq) if kept.entry.hash == value]
    return position < seq and any(leads_to(top, *place, source) for top in tops for place in places if place[0] <= seq)


def doubtful(log: Log, expected: dict[int, bytes], source: Source, held: HeldLog) -> dict[int, bytes]:
    """Those of the expected hashes that are not the ones of entries held."""
    return {
        seq: value
        for seq, value in expected.items()
        if held.entries_around(seq) is None or all(kept.entry.hash != value for kept in source.variants(log, seq))
    }


def partial_proof(
    log: Log, expected: dict[int, bytes], source: Source, held: HeldLog, *, ascending: bool = True
) -> tuple[Entry, int, int] | None:
    """An entry that contradicts a doubtful hash, with the position of that and the number the hash is of.

    Of several, the one that a response in that direction comes to first.
    """
    for seq, value in sorted(expected.items(), reverse=not ascending):
        around = held.entries_around(seq)
        variants = [kept.entry for kept in source.variants(log, seq)] if around is not None else []
        if any(entry.hash == value for entry in variants):  # it came since the hash was looked at
            continue
        if variants:
            return variants[0], seq, seq
        for above in linkers(seq):
            if held.entries_around(above) is None:
                continue
            linking = source.variants(log, above)
            if linking and dict(linking[0].entry.links)[seq] != value:
                return linking[0].entry, seq, seq
        end = held.end()
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
