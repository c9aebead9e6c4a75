"""Which verified entries are certified too (docs/specs/bamboo.md, "Certificate pools").

An entry is verified when the lower half of its certificate pool is held: the path from it down to entry 1. It is
*certified* when the upper half is verified as well: the path from the next spine number down to it, as far as the log
reaches. Verified entries of two histories of one log can lie side by side in a store without touching each other.
Certified ones cannot: from every later entry that is verified a path leads down to them over entries that are held.

None of this is stored, because it follows from what is held. The upper halves of all pools form a tree: each number
but those of the spine has one number above it, from which its pool steps down to it. So an entry is certified if the
entry above it is, or if the log does not reach that far. Entries are looked at in runs of numbers without a gap, from
the newest run down. Links never cross, so the steps from above into a run end at O(log) of its numbers. Whatever such
a step says about the number it ends at, holds for all numbers of the run from there down to where the next step ends.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from itertools import pairwise

from culm.bamboo.lipmaa import SPINE, lipmaa, path, spine

Run = tuple[int, int]
"""The first and the last of neighbouring sequence numbers."""


def steps_across(seq: int) -> list[tuple[int, int]]:
    """The steps of certificate pools from above ``seq`` to ``seq`` or below, as pairs: where to, and where from.

    The highest goal comes first. Steps along the spine are left out, because no pool has them in its upper half.
    """
    above: dict[int, int] = {}
    for start in path(spine(seq + 1), seq + 1):  # descending, and a pool steps down from the highest that links there
        above.setdefault(lipmaa(start), start)
    above.setdefault(seq, seq + 1)
    return sorted(((goal, start) for goal, start in above.items() if _spine_below(seq) < goal <= seq), reverse=True)


def certified_runs(verified: Sequence[Run], newest: int, gaps: Collection[int] = ()) -> list[Run]:
    """The runs of certified entries, given those of all verified ones, and the number of the newest authentic entry.

    Both in ascending order, and apart. For a part of a log, ``newest`` is the part's, and ``gaps`` names the entries
    above it that are not certified. Costs O(log^2) steps a run.
    """
    found: list[Run] = []  # descending
    for low, high in reversed(verified):
        lowest = _spine_below(high)
        for (goal, start), (next_goal, _) in pairwise([*steps_across(high), (lowest, 0)]):
            if goal < low:
                break
            if _is_within(start, found) if start <= newest else start not in gaps:
                _push(found, max(low, next_goal + 1), goal)
        _push(found, low, lowest)  # up to a spine number in the run, every upper half lies in the run itself
    return found[::-1]


def _spine_below(seq: int) -> int:
    """The greatest spine number up to ``seq``."""
    return SPINE[bisect_right(SPINE, seq) - 1]


def _is_within(seq: int, descending: Sequence[Run]) -> bool:
    at = bisect_left(descending, -seq, key=lambda run: -run[0])
    return at < len(descending) and seq <= descending[at][1]


def _push(descending: list[Run], low: int, high: int) -> None:
    if low > high:
        return
    if descending and descending[-1][0] == high + 1:
        high = descending.pop()[1]
    descending.append((low, high))
