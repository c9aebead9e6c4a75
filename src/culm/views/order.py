"""The order in which a view takes entries: the same on all nodes that have the same ones.

Entries of one log come by their sequence numbers. Entries of different logs come in no order of their own, but an entry
can refer to others that it answers. So each entry gets a *height*: one more than the greatest of the entry before it in
its log and of those that it refers to; 1 if there are none. The order is by height, and by hash among equals.

A height depends on what an entry stands on, and not on the time of its arrival. So an entry that comes late has its
place among those that were applied: everything behind that place is repeated, and nothing before it changes. The entry
before is the nearest one in the view, because a node may hold a part of a log. If a gap is filled, the heights behind
it are computed anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Key = tuple[int, bytes]
"""A place in the order: height and hash."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """An entry without a height. ``before``: the hash of the entry before it in its log, None if it is the first."""

    hash: bytes
    before: bytes | None
    references: tuple[bytes, ...]


def heights(unplaced: Iterable[Unplaced], known: Mapping[bytes, int]) -> dict[bytes, int]:
    """The heights of the entries that can be placed; ``known`` has those of placed ones that they stand on.

    The others wait for an entry that is neither known nor among these, or for one that waits. Time and memory grow with
    the number of entries and references.
    """
    waits: dict[bytes, int] = {}
    height: dict[bytes, int] = {}
    above: dict[bytes, list[bytes]] = defaultdict(list)
    ready: list[bytes] = []
    for entry in unplaced:
        below = {*entry.references, *(() if entry.before is None else (entry.before,))}
        missing = [each for each in below if each not in known]
        height[entry.hash] = 1 + max((known[each] for each in below if each in known), default=0)
        for each in missing:
            above[each].append(entry.hash)
        waits[entry.hash] = len(missing)
        if not missing:
            ready.append(entry.hash)
    found: dict[bytes, int] = {}
    while ready:
        placed = ready.pop()
        found[placed] = height[placed]
        for each in above[placed]:
            height[each] = max(height[each], height[placed] + 1)
            waits[each] -= 1
            if not waits[each]:
                ready.append(each)
    return found
