"""The sweep of one log: who lacks what, and who has it.

Asking that of every number would be simple, but a log may have 2^64 of them, and one range can cover all. So a line is
swept along the log's numbers. It stops only at *cuts*, the numbers at which what some peer holds or wants begins or
ends. Between two cuts nothing changes for anybody, so one answer holds for the whole stretch. A log costs its cuts, not
its length.

The state between two cuts is a few integers used as bit masks, with a bit for each peer of the log: who has metadata,
who has payloads, who wants them. A cut flips single bits, and "who lacks it" is ``wants & ~has``, for thousands of
peers at once. Neighbouring stretches with the same answer are put together again.

For example, A holds 1 to 100, B holds 1 to 60, and C wants 40 to 120. The cuts are 1, 40, 61, 101 and 121. From 40 to
60 C can be served by A or B, from 61 to 100 by A, and from 101 to 120 by nobody.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import combinations, compress
from typing import NamedTuple

from culm.bamboo import MAX_U64
from culm.ranges import Range
from culm.ranges.algebra import upper
from culm.ranges.runs import Runs, runs_of

METADATA, PAYLOAD = 1, 2
WHOLE = METADATA | PAYLOAD
"""The items of an entry, as bits of a ``content``."""

Sizes = tuple[int, int]
"""Sizes of payloads in bytes: the least that is wanted, and the first that is too large (0: none is)."""

ANY_SIZE: Sizes = (0, 0)
_HAS, _OPEN, _CLOSED = range(3)  # Who has something; who wants what anybody has of it; who wants all of it.

NOBODY = "nobody has it"
SILENT = "who has it uploads nothing"
"""The reasons in the table ``unserved``: nobody holds it, or only peers whose capacity is 0."""


# What a mask is about: one of the kinds above, the item, and the sizes that are wanted. It is a plain tuple, because a
# sweep looks masks up at each cut.
Name = tuple[int, int, Sizes]
Masks = Mapping[Name, int]
# A need while its peers are masks: content, sizes, holders, wanters, reason.
_Masked = tuple[int, Sizes, int, int, str]

Run = tuple[Name, int, int]
"""A run of numbers, from the first to the last one, whose items a peer has or wants."""


class Need(NamedTuple):
    """Items that all ``wanters`` lack and all ``holders`` have and may upload; the names of both are sorted.

    ``reason``: why nobody can give them; empty if there are holders. ``size``: bytes of one entry's items.
    """

    first: int
    last: int
    content: int
    sizes: Sizes
    holders: tuple[str, ...]
    wanters: tuple[str, ...]
    reason: str = ""
    size: int = 0

    @property
    def entries(self) -> int:
        """How many sequence numbers the stretch has."""
        return self.last - self.first + 1


def held_runs(ranges: Iterable[Range]) -> list[Run]:
    """The runs that a peer holds; ``ValueError`` for ranges that cannot be held.

    Nobody holds an open range, since it has no end. What a range with sizes denotes depends on payloads that the
    planner does not see. Only the items of a range count as held, not its certificates.
    """
    found: list[Run] = []
    for item in ranges:
        if item.is_open:
            raise ValueError("an open range cannot be held: give it an end")
        if item.least_size or item.size_limit:
            raise ValueError("what is held cannot be given by payload sizes: name the entries instead")
        found += _runs(item, item.last, _HAS)
    return found


def wanted_runs(ranges: Iterable[Range], newest: int) -> Iterator[Run]:
    """The runs that are wanted, with the certificates for them.

    ``newest`` is the greatest number that anybody holds of the log (0: none); open sparse ranges end there.
    """
    for item in ranges:
        kind = _OPEN if item.is_open or (item.end == MAX_U64 and not item.sparse) else _CLOSED
        yield from _runs(item, newest, kind)
        yield from (((kind, METADATA, ANY_SIZE), seq, seq) for seq in item.certificates(newest))


def _runs(item: Range, newest: int, kind: int) -> Iterator[Run]:
    """The items of a range as runs: the metadata, then the payloads without the forbidden ones."""
    if item.is_empty:
        return
    path, forbidden = item.numbers(newest if item.end is None else item.end), Runs((seq, seq) for seq in item.forbidden)
    for first, last in runs_of(path) if item.sparse else [(item.start, item.last)]:
        if item.metadata:
            yield (kind, METADATA, ANY_SIZE), first, last
        if item.payloads:
            for low, high in forbidden.outside(first, last):
                yield (kind, PAYLOAD, (item.least_size, item.size_limit)), low, high


def sweep(
    held: Mapping[str, Iterable[Range]],
    wanted: Mapping[str, Iterable[Range]],
    serves: Callable[[str], bool],
    sizes: tuple[int, int],
) -> list[Need]:
    """What the peers of a log lack, ascending by number.

    ``serves``: whether a peer uploads anything. ``sizes``: bytes of an entry's metadata and of its payload.
    """
    bytes_of = {METADATA: sizes[0], PAYLOAD: sizes[1], WHOLE: sum(sizes)}
    peers = sorted({*held, *wanted})
    names = cache(lambda mask: tuple(compress(peers, map(int, f"{mask:b}"[::-1]))))
    able = sum(1 << at for at, peer in enumerate(peers) if serves(peer))
    since: dict[_Masked, int] = {}  # the needs that hold now, and from which number on
    found = []
    for cut, masks in _cuts(peers, held, wanted):
        before, since = since, {need: since.get(need, cut) for need in _needs(masks, able)}
        found += [(first, cut - 1, need) for need, first in before.items() if need not in since]
    return [
        Need(first, last, content, of_sizes, names(holders), names(wanters), reason, bytes_of[content])
        for first, last, (content, of_sizes, holders, wanters, reason) in sorted(found)
    ]


def _cuts(
    peers: list[str], held: Mapping[str, Iterable[Range]], wanted: Mapping[str, Iterable[Range]]
) -> Iterator[tuple[int, Masks]]:
    """The cuts, ascending, each with the masks from there on. The last masks are empty, so all needs end."""
    has = {peer: held_runs(of_peer) for peer, of_peer in held.items()}
    newest = max((last for of_peer in has.values() for _, _, last in of_peer), default=0)
    changes: defaultdict[int, list[tuple[Name, int]]] = defaultdict(list)
    for at, peer in enumerate(peers):
        runs: defaultdict[Name, Runs] = defaultdict(Runs)
        for name, first, last in (*has.get(peer, ()), *wanted_runs(wanted.get(peer, ()), newest)):
            runs[name].add(first, last)
        for name, merged in runs.items():
            for first, last in merged:  # The peer's bit flips where a run begins, and again behind its end.
                changes[first].append((name, 1 << at))
                changes[last + 1].append((name, 1 << at))
    masks: defaultdict[Name, int] = defaultdict(int)
    for cut in sorted(changes):
        for name, bit in changes[cut]:
            masks[name] ^= bit
        yield cut, masks


def _needs(masks: Masks, able: int) -> list[_Masked]:
    """What is lacking, and who can give it.

    Metadata and payload are one need where the same peers lack both and the same peers can give both, because that
    makes fewer transfers. Otherwise they are two, so that each can come from any peer that has it.
    """
    givers, wanted, reason = _lacking(masks, METADATA, able)
    left = wanted.get(ANY_SIZE, 0)
    holders, wanted, why = _lacking(masks, PAYLOAD, able)
    found: list[_Masked] = []
    for sizes, wanters in _apart(wanted):
        both = wanters & left if (holders, why) == (givers, reason) else 0
        left &= ~both
        found += [(WHOLE, sizes, holders, both, why), (PAYLOAD, sizes, holders, wanters & ~both, why)]
    found.append((METADATA, ANY_SIZE, givers, left, reason))
    return [need for need in found if need[3]]  # what somebody wants


def _lacking(masks: Masks, content: int, able: int) -> tuple[int, dict[Sizes, int], str]:
    """Who can give something, who lacks it by the sizes that are wanted, and why nobody can give it.

    What nobody has, open ranges do not want.
    """
    has = masks.get((_HAS, content, ANY_SIZE), 0)
    lacking: dict[Sizes, int] = {}
    for (kind, of, sizes), mask in masks.items():
        if mask and of == content and (kind == _CLOSED or (kind == _OPEN and has)):
            lacking[sizes] = lacking.get(sizes, 0) | (mask & ~has)
    return has & able, lacking, "" if has & able else SILENT if has else NOBODY


def _apart(lacking: dict[Sizes, int]) -> list[tuple[Sizes, int]]:
    """Who lacks payloads, every peer under one kind of sizes.

    A peer that wants a payload by several kinds would otherwise be sent it several times. It goes under the smallest
    kind that includes all of them.
    """
    while clash := next((two for two in combinations(lacking, 2) if lacking[two[0]] & lacking[two[1]]), None):
        one, other = clash
        both = lacking[one] & lacking[other]
        lacking |= {one: lacking[one] & ~both, other: lacking[other] & ~both}
        wide = min(one[0], other[0]), upper(one[1], other[1])
        lacking[wide] = lacking.get(wide, 0) | both
    return sorted(lacking.items())
