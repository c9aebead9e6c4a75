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
from itertools import chain, combinations, compress
from typing import NamedTuple

from culm.ranges import Range
from culm.ranges.algebra import upper
from culm.ranges.runs import Runs
from culm.spark.plan.ranges import ANY_SIZE, METADATA, PAYLOAD, WHOLE, Items, Sizes, wanted_runs

# What a mask is about: whether it is of those who want something, or of those who have it; the content; the sizes of
# payloads that are wanted.
Name = tuple[bool, int, Sizes]
Masks = Mapping[Name, int]

NOBODY = "nobody has it"
SILENT = "who has it uploads nothing"
"""The reasons in the table ``unserved``: nobody holds it, or only peers whose capacity is 0."""


class Need(NamedTuple):
    """Items that all ``wanters`` lack and all ``holders`` have and may upload; the names of both are sorted.

    ``reason``: why nobody can give them; empty if there are holders.
    """

    first: int
    last: int
    content: int
    sizes: Sizes
    holders: tuple[str, ...]
    wanters: tuple[str, ...]
    reason: str = ""

    @property
    def entries(self) -> int:
        """How many sequence numbers the stretch has."""
        return self.last - self.first + 1


class _Masked(NamedTuple):
    """A need while its peers are masks."""

    content: int
    sizes: Sizes
    holders: int
    wanters: int
    reason: str


def sweep(
    held: Mapping[str, Iterable[Items]], wanted: Mapping[str, Iterable[Range]], serves: Callable[[str], bool]
) -> list[Need]:
    """What the peers of a log lack, ascending by number. ``serves``: whether a peer uploads anything."""
    peers = sorted({*held, *wanted})
    names = cache(lambda mask: tuple(compress(peers, map(int, f"{mask:b}"[::-1]))))
    able = sum(1 << at for at, peer in enumerate(peers) if serves(peer))
    since: dict[_Masked, int] = {}  # the needs that hold now, and from which number on
    found = []
    for cut, masks in _cuts(peers, held, wanted):
        before, since = since, {need: since.get(need, cut) for need in _needs(masks, able)}
        found += [(first, cut - 1, need) for need, first in before.items() if need not in since]
    return [
        Need(first, last, need.content, need.sizes, names(need.holders), names(need.wanters), need.reason)
        for first, last, need in sorted(found)
    ]


def _cuts(
    peers: list[str], held: Mapping[str, Iterable[Items]], wanted: Mapping[str, Iterable[Range]]
) -> Iterator[tuple[int, Masks]]:
    """The cuts, ascending, each with the masks from there on. The last masks are empty, so all needs end."""
    everything = {METADATA: Runs(), PAYLOAD: Runs()}
    for run in chain.from_iterable(held.values()):
        everything[run.content].add(run.first, run.last)
    changes: defaultdict[int, list[tuple[Name, int]]] = defaultdict(list)
    for at, peer in enumerate(peers):
        runs: defaultdict[Name, Runs] = defaultdict(Runs)
        for wants, of_peer in ((False, held.get(peer, ())), (True, wanted_runs(wanted.get(peer, ()), everything))):
            for run in of_peer:
                runs[wants, run.content, run.sizes].add(run.first, run.last)
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
    givers, has, reason = _givers(masks, METADATA, able)
    left = masks.get((True, METADATA, ANY_SIZE), 0) & ~has
    holders, has, why = _givers(masks, PAYLOAD, able)
    found = []
    for sizes, wants in _payloads(masks):
        wanters = wants & ~has
        both = wanters & left if (holders, why) == (givers, reason) else 0
        left, wanters = left & ~both, wanters & ~both
        found += [_Masked(WHOLE, sizes, holders, both, why), _Masked(PAYLOAD, sizes, holders, wanters, why)]
    found.append(_Masked(METADATA, ANY_SIZE, givers, left, reason))
    return [need for need in found if need.wanters]


def _givers(masks: Masks, content: int, able: int) -> tuple[int, int, str]:
    """Who can give something, who has it, and why nobody can give it."""
    has = masks.get((False, content, ANY_SIZE), 0)
    return has & able, has, "" if has & able else SILENT if has else NOBODY


def _payloads(masks: Masks) -> list[tuple[Sizes, int]]:
    """By sizes who wants payloads; every peer under one kind of sizes.

    A peer that wants a payload by several kinds would otherwise be sent it several times. It goes under the smallest
    kind that includes all of them.
    """
    found = {sizes: mask for (wants, content, sizes), mask in masks.items() if mask and wants and content == PAYLOAD}
    while clash := next((two for two in combinations(found, 2) if found[two[0]] & found[two[1]]), None):
        one, other = clash
        both = found[one] & found[other]
        found |= {one: found[one] & ~both, other: found[other] & ~both}
        wide = min(one[0], other[0]), upper(one[1], other[1])
        found[wide] = found.get(wide, 0) | both
    return sorted(found.items())
