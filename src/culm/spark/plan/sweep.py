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

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import combinations, compress
from typing import NamedTuple

from culm.ranges import Range
from culm.ranges.algebra import upper
from culm.ranges.runs import Runs
from culm.spark.plan.ranges import ANY_SIZE, METADATA, PAYLOAD, WHOLE, Held, Sizes, Wanted, wanted_runs

# What a mask is about: one of ``_HAS``, ``_WANTS``, ``_CLOSED``; the content; the sizes of payloads that are wanted.
Name = tuple[int, int, Sizes]
Masks = Mapping[Name, int]
# Content, sizes, and masks of who can give it and who lacks it. With a reason nobody can give it.
Need = tuple[int, Sizes, int, int, str]

NOBODY = "nobody has it"
SILENT = "who has it uploads nothing"
"""The reasons in the table ``unserved``: nobody holds it, or only peers whose capacity is 0."""


class Demand(NamedTuple):
    """Items that all ``wanters`` lack and all ``holders`` have and may upload; the names of both are sorted."""

    first: int
    last: int
    content: int
    sizes: Sizes
    holders: tuple[str, ...]
    wanters: tuple[str, ...]

    @property
    def entries(self) -> int:
        """How many sequence numbers the stretch has."""
        return self.last - self.first + 1


class Unserved(NamedTuple):
    """Items that a peer wants and nobody can give."""

    peer: str
    first: int
    last: int
    content: int
    sizes: Sizes
    reason: str


_HAS, _WANTS, _CLOSED = range(3)  # who has something; who wants it; who wants it by a closed range


def sweep(
    held: Mapping[str, Iterable[Held]], wanted: Mapping[str, Iterable[Range]], serves: Callable[[str], bool]
) -> tuple[list[Demand], list[Unserved]]:
    """The items of a log that can be moved, and those that cannot; both ascend by number.

    ``serves``: whether a peer uploads anything.
    """
    peers = sorted({*held, *wanted})
    names = cache(lambda mask: tuple(compress(peers, map(int, f"{mask:b}"[::-1]))))
    able = sum(1 << at for at, peer in enumerate(peers) if serves(peer))
    demands, unserved = [], []
    cuts = _cuts(peers, held, wanted)
    for first, last, (content, sizes, holders, wanters, reason) in _stretches(cuts, able):
        if reason:
            unserved += [Unserved(peer, first, last, content, sizes, reason) for peer in names(wanters)]
        else:
            demands.append(Demand(first, last, content, sizes, names(holders), names(wanters)))
    return demands, unserved


def _stretches(cuts: Iterable[tuple[int, Masks]], able: int) -> list[tuple[int, int, Need]]:
    """All needs with the first and last number for which they hold, ascending."""
    since: dict[Need, int] = {}
    done = []
    for cut, masks in cuts:
        before, since = since, {need: since.get(need, cut) for need in _needs(masks, able)}
        done += [(first, cut - 1, need) for need, first in before.items() if need not in since]
    return sorted(done)


def _cuts(
    peers: list[str], held: Mapping[str, Iterable[Held]], wanted: Mapping[str, Iterable[Range]]
) -> Iterator[tuple[int, Masks]]:
    """The cuts, ascending, each with the masks from there on. The last masks are empty, so all needs end."""
    newest = max((last for of_peer in held.values() for _, last, _ in of_peer), default=0)
    changes: defaultdict[int, list[tuple[Name, int]]] = defaultdict(list)
    for at, peer in enumerate(peers):
        runs: defaultdict[Name, Runs] = defaultdict(Runs)
        for name, first, last in _named(held.get(peer, ()), wanted_runs(wanted.get(peer, ()), newest)):
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


def _named(held: Iterable[Held], wanted: Iterable[Wanted]) -> Iterator[tuple[Name, int, int]]:
    """The runs of a peer, each with the mask that it goes into."""
    for first, last, content in held:
        for part in (METADATA, PAYLOAD):
            if content & part:
                yield (_HAS, part, ANY_SIZE), first, last
    for first, last, content, sizes, is_open in wanted:
        for kind in (_WANTS,) if is_open else (_WANTS, _CLOSED):
            yield (kind, content, sizes), first, last


def _needs(masks: Masks, able: int) -> list[Need]:
    """What is lacking, and who can give it.

    Metadata and payload are one need where the same peers lack both and the same peers can give both, because that
    makes fewer transfers. Otherwise they are two, so that each can come from any peer that has it.
    """
    metadata = masks.get((_WANTS, METADATA, ANY_SIZE), 0), masks.get((_CLOSED, METADATA, ANY_SIZE), 0)
    givers, left, reason = _lacking(masks.get((_HAS, METADATA, ANY_SIZE), 0), able, *metadata)
    found: list[Need] = []
    for sizes, (wants, closed) in _payloads(masks):
        holders, wanters, why = _lacking(masks.get((_HAS, PAYLOAD, ANY_SIZE), 0), able, wants, closed)
        both = wanters & left if holders == givers and why == reason else 0
        left, wanters = left & ~both, wanters & ~both
        if both:
            found.append((WHOLE, sizes, holders, both, why))
        if wanters:
            found.append((PAYLOAD, sizes, holders, wanters, why))
    if left:
        found.append((METADATA, ANY_SIZE, givers, left, reason))
    return found


def _lacking(has: int, able: int, wants: int, closed: int) -> tuple[int, int, str]:
    """Who can give something, who lacks it, and why nobody can give it."""
    if has & able:
        return has & able, wants & ~has, ""
    return (0, wants & ~has, SILENT) if has else (0, closed, NOBODY)  # What nobody holds no open range wants.


def _payloads(masks: Masks) -> list[tuple[Sizes, tuple[int, int]]]:
    """By sizes who wants payloads, and who of them by a closed range; every peer under one kind of sizes.

    A peer that wants a payload by several kinds would otherwise be sent it several times. It goes under the smallest
    kind that includes all of them.
    """
    found = {
        sizes: (mask, masks.get((_CLOSED, PAYLOAD, sizes), 0))
        for (kind, content, sizes), mask in masks.items()
        if mask and kind == _WANTS and content == PAYLOAD
    }
    while clash := len(found) > 1 and next((one for one in combinations(found, 2) if _common(found, *one)), None):
        both = _common(found, *clash)
        closed = (found[clash[0]][1] | found[clash[1]][1]) & both
        for sizes in clash:
            found[sizes] = found[sizes][0] & ~both, found[sizes][1] & ~both
        wide = min(clash[0][0], clash[1][0]), upper(clash[0][1], clash[1][1])
        before = found.get(wide, (0, 0))
        found[wide] = before[0] | both, before[1] | closed
    return sorted(found.items())


def _common(found: Mapping[Sizes, tuple[int, int]], one: Sizes, other: Sizes) -> int:
    return found[one][0] & found[other][0]
