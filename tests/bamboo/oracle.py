"""What docs/specs/bamboo.md says, written down plainly: slow, obvious, and apart from the code it checks.

Also the strategies that make up logs with everything in them that an author can do wrong.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from culm.bamboo import Entry, Identity, yamf_hash
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Iterable

VECTORS = Path(__file__).parents[1] / "vectors" / "bushbaby"
MAX_U64 = 2**64 - 1
SPINE = [(3**k - 1) // 2 for k in range(1, 42)]

VERIFIED, WAITING, INVALID = "verified", "waiting", "invalid"


def vectors(name: str) -> Any:
    """A vector file made with the deployed Bushbaby peer."""
    return json.loads((VECTORS / f"{name}.json").read_text())


# -- links -----------------------------------------------------------------------------------------------------


@cache
def g(n: int) -> int:
    """The helper of the definition of ``lipmaa``, word for word."""
    for k in range(1, 64):
        if n == (3**k - 1) // 2:
            return k
        if (3 ** (k - 1) - 1) // 2 < n < (3**k - 1) // 2:
            return g(n - (3 ** (k - 1) - 1) // 2)
    raise AssertionError(n)


@cache
def lipmaa(n: int) -> int:
    """The definition of ``lipmaa``, word for word."""
    for k in range(1, 64):
        if n == (3**k - 1) // 2:
            return n - int(3 ** (k - 1))
    return n - int(3 ** g(n) - 1) // 2


def shortest_path_lengths(start: int) -> dict[int, int]:
    """How many links a shortest path from ``start`` down to each lower number takes, by breadth-first search."""
    found = {start: 0}
    reached = [start]
    for here in reached:
        for there in {here - 1, lipmaa(here)} - {0}:
            if there not in found:
                found[there] = found[here] + 1
                reached.append(there)
    return found


# -- verdicts --------------------------------------------------------------------------------------------------


def links(entry: Entry) -> dict[int, bytes]:
    """The numbers an entry links to, each with the hash it expects there."""
    found = {}
    if entry.backlink is not None:
        found[entry.seq - 1] = entry.backlink
    if entry.lipmaalink is not None:
        found[lipmaa(entry.seq)] = entry.lipmaalink
    return found


@lru_cache(maxsize=1 << 18)
def positions(one: Entry, other: Entry) -> tuple[int, ...]:
    """Every number at which two entries of one log contradict each other: the four cases, one after the other."""
    found = []
    if one.seq == other.seq and one.encoded != other.encoded:
        found.append(one.seq)
    for x, y in ((one, other), (other, one)):
        found += [n for n, expected in links(x).items() if links(y).get(n, expected) != expected]
        found += [n for n, expected in links(x).items() if n == y.seq and expected != y.hash]
        if x.is_end and y.seq > x.seq:
            found.append(x.seq)
    return tuple(found)


def fork_position(entries: Iterable[Entry]) -> int | None:
    """The lowest position at which any two of the entries contradict each other."""
    return min((at for pair in combinations(entries, 2) for at in positions(*pair)), default=None)


def connected(entries: Iterable[Entry]) -> set[Entry]:
    """The entries from which a path of links leads to entry 1 over entries held."""
    held = set(entries)
    found: set[Entry] = set()
    while True:
        at = {(entry.seq, entry.hash) for entry in found}
        more = {entry for entry in held if entry.seq == 1 or at & set(links(entry).items())} - found
        if not more:
            return found
        found |= more


def verdicts(entries: Iterable[Entry], lies: Iterable[int] = ()) -> dict[Entry, str]:
    """The state of each entry held; ``lies`` are the numbers of entries whose payload's size was a lie."""
    held = list(entries)
    limit = min((at for at in (fork_position(held), *lies) if at is not None), default=MAX_U64 + 1)
    paths = connected(held)
    return {entry: INVALID if entry.seq >= limit else VERIFIED if entry in paths else WAITING for entry in held}


@cache
def upper_half(seq: int) -> tuple[int, ...]:
    """The upper half of an entry's certificate pool: from the next spine number down to it, by the longest links."""
    at = next(number for k in range(1, 64) if (number := (3**k - 1) // 2) >= seq)
    found = []
    while at > seq:
        found.append(at)
        at = lipmaa(at) if lipmaa(at) >= seq else at - 1
    return tuple(found)


def certified(verified: Iterable[int], newest: int) -> set[int]:
    """The verified numbers whose whole pool is verified, as far as a log with this newest entry reaches."""
    held = set(verified)
    return {seq for seq in held if held.issuperset(member for member in upper_half(seq) if member <= newest)}


# -- logs with defects -----------------------------------------------------------------------------------------


@cache
def honest(length: int, seed: int = 1, log_id: int = 0) -> tuple[tuple[Entry, bytes], ...]:
    """An honest log's entries with their payloads, of some bytes to some hundred; some are empty."""
    if length == 0:
        return ()
    if length < 64:
        return honest(64, seed, log_id)[:length]
    builder = build_log(0, seed=seed, log_id=log_id)
    for seq in range(1, length + 1):
        builder.append(b"" if seq % 7 == 3 else f"{seed}/{log_id}/{seq}".encode() * (1 + seq % 5 * 2))
    return tuple((entry, builder.payloads[entry.hash]) for entry in builder.entries)


def ended(length: int, at: int, seed: int = 1, log_id: int = 0) -> list[tuple[Entry, bytes]]:
    """A log whose author ended it with entry ``at`` and went on as if nothing were."""
    builder = build_log(0, seed=seed, log_id=log_id)
    for entry, payload in honest(length, seed, log_id):
        if entry.seq < at:
            builder.entries.append(entry)
            builder.payloads[entry.hash] = payload
        else:
            builder.append(payload, is_end=entry.seq == at)
    return [(entry, builder.payloads[entry.hash]) for entry in builder.entries]


@st.composite
def broken_logs(
    draw: st.DrawFn, max_length: int = 44, max_extra: int = 6, seed: int = 1, log_id: int = 0, *, lies: bool = False
) -> list[tuple[Entry, bytes]]:
    """A log and, after it, further authentic entries of that log that break its rules in any way.

    The log is honest, or goes on after its end. A further entry links to anything that was made so far for its targets,
    or to entries nobody has. With ``lies`` it may claim another size than its payload has.
    """
    length = draw(st.integers(1, max_length))
    end = draw(st.one_of(st.just(length + 1), st.integers(1, length)))
    items = ended(length, end, seed, log_id)
    identity = Identity(seed.to_bytes(32, "big"))
    for count in range(draw(st.integers(0, max_extra))):
        seq = draw(st.one_of(st.integers(1, length), st.integers(1, length + 3)))

        def link(target: int) -> bytes | None:
            if target == 0:
                return None
            known = [entry.hash for entry, _ in items if entry.seq == target]
            return draw(st.sampled_from([*known, yamf_hash(b"one nobody has"), yamf_hash(b"nor this one")]))

        payload = f"extra {count}".encode()
        entry = identity.create_entry(
            log_id=log_id,
            seq=seq,
            backlink=link(seq - 1),
            lipmaalink=link(lipmaa(seq)),
            size=len(payload) + (draw(st.sampled_from([0, 0, 0, 1, -1])) if lies else 0),
            payload_hash=yamf_hash(payload),
            is_end=draw(st.integers(0, 3)) == 0,
        )
        items.append((entry, payload))
    return items


def subsets(items: list[tuple[Entry, bytes]]) -> st.SearchStrategy[list[tuple[Entry, bytes]]]:
    """Some of the items, in their order: mostly nearly all or about half of them."""
    numbers = st.integers(0, len(items) - 1)
    left_out = st.one_of(st.sets(numbers, max_size=5), st.sets(numbers))
    return left_out.map(lambda out: [item for at, item in enumerate(items) if at not in out])


def sequence_numbers(low: int = 1) -> st.SearchStrategy[int]:
    """Numbers of all magnitudes up to 2^64 - 1, with many that are near the spine, or on a path from it."""
    near_spine = st.builds(lambda s, d: s + d, st.sampled_from(SPINE), st.integers(-5, 5))
    near_power = st.builds(lambda k, d: 2**k + d, st.integers(0, 64), st.integers(-3, 3))
    plain = st.one_of(st.integers(1, 10_000), st.integers(1, MAX_U64))
    return st.one_of(plain, near_spine, near_power).filter(lambda n: low <= n <= MAX_U64)
