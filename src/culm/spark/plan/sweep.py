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
# What a mask is about: whether its peers want something or have it; the content; the sizes that are wanted.
Name = tuple[bool, int, Sizes]
Masks = Mapping[Name, int]

NOBODY = "nobody has it"
SILENT = "who has it uploads nothing"
"""The reasons in the table ``unserved``: nobody holds it, or only peers whose capacity is 0."""


class Items(NamedTuple):
    """A run of items: first and last number, both included, which item of each, and the sizes that are wanted."""

    first: int
    last: int
    content: int
    sizes: Sizes = ANY_SIZE


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


class _Masked(NamedTuple):
    """A need while its peers are masks."""

    content: int
    sizes: Sizes
    holders: int
    wanters: int
    reason: str


def held_runs(ranges: Iterable[Range]) -> list[Items]:
    """The runs that a peer holds; ``ValueError`` for ranges that cannot be held.

    Nobody holds an open range, since it has no end. What a range with sizes denotes depends on payloads that the
    planner does not see. Only the items of a range count as held, not its certificates.
    """
    found: list[Items] = []
    for item in ranges:
        if item.is_open:
            raise ValueError("an open range cannot be held: give it an end")
        if item.least_size or item.size_limit:
            raise ValueError("what is held cannot be given by payload sizes: name the entries instead")
        found += _runs(item, item.last)
    return found


def wanted_runs(ranges: Iterable[Range], held: Mapping[int, Runs]) -> Iterator[Items]:
    """The runs that are wanted, with the certificates for them.

    ``held``: the numbers that anybody holds, by content. An open range wants only these, and if it is sparse, it is the
    path from the newest one.
    """
    newest = max((extent[1] for runs in held.values() if (extent := runs.extent)), default=0)
    for item in ranges:
        certificates = Runs((seq, seq) for seq in item.certificates(newest))
        runs = [*_runs(item, newest), *(Items(first, last, METADATA) for first, last in certificates)]
        is_open = item.is_open or (item.end == MAX_U64 and not item.sparse)
        for run in runs:
            parts = [(run.first, run.last)]
            if is_open:
                missing = Runs(held[run.content].outside(run.first, run.last))
                parts = missing.outside(run.first, run.last)
            yield from (run._replace(first=first, last=last) for first, last in parts)


def _runs(item: Range, newest: int) -> Iterator[Items]:
    """The items of a range as runs: the metadata, then the payloads without the forbidden ones."""
    if item.is_empty:
        return
    path = item.numbers(newest if item.end is None else item.end) if item.sparse else ()
    forbidden = Runs((seq, seq) for seq in item.forbidden)
    for first, last in runs_of(path) if item.sparse else [(item.start, item.last)]:
        if item.metadata:
            yield Items(first, last, METADATA)
        if item.payloads:
            for low, high in forbidden.outside(first, last):
                yield Items(low, high, PAYLOAD, (item.least_size, item.size_limit))


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
    everything = {METADATA: Runs(), PAYLOAD: Runs()}
    has = {peer: held_runs(of_peer) for peer, of_peer in held.items()}
    for run in chain.from_iterable(has.values()):
        everything[run.content].add(run.first, run.last)
    changes: defaultdict[int, list[tuple[Name, int]]] = defaultdict(list)
    for at, peer in enumerate(peers):
        runs: defaultdict[Name, Runs] = defaultdict(Runs)
        for wants, of_peer in ((False, has.get(peer, ())), (True, wanted_runs(wanted.get(peer, ()), everything))):
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
