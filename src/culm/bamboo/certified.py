"""Which verified entries are certified too (docs/specs/bamboo.md, "Certificate pools").

An entry is verified when the lower half of its certificate pool is held: the path from it down to entry 1. It is
*certified* when the upper half is held as well: the path from the next spine number down to it, as far as the log
reaches. Verified entries of two histories of one log can lie side by side in a store without touching each other.
Certified ones cannot, once the log reaches the spine: their pools meet in an entry or in a link.

None of this is stored, because it follows from what is held. Entries are looked at in runs of numbers without a gap.
Links never cross, so the paths from above into a run enter it at O(log) numbers, and all entries between two of these
share the path above. One look at that path decides for all of them.
"""

from bisect import bisect_right
from collections.abc import Sequence

from culm.bamboo.lipmaa import SPINE, certificate_pool, links_across

Run = tuple[int, int]
"""The first and the last of consecutive sequence numbers."""


def certified_runs(verified: Sequence[Run], newest: int) -> list[Run]:
    """The runs of certified entries, given all verified ones (ascending, apart) and the log's newest authentic entry.

    Both in ascending order. Costs O(log^2) steps a run.
    """
    found: list[Run] = []
    starts = [low for low, _ in verified]
    for low, high in verified:
        # Up to the last spine number in the run, every path from the spine lies in the run itself.
        below = max(low - 1, SPINE[bisect_right(SPINE, high) - 1])
        _push(found, low, below)
        for top in sorted(target for target in links_across(high) if target > below):
            above = (member for member in certificate_pool(top, newest) if member > high)
            if all(_is_within(member, verified, starts) for member in above):
                _push(found, below + 1, top)
            below = top
    return found


def _is_within(seq: int, runs: Sequence[Run], starts: list[int]) -> bool:
    at = bisect_right(starts, seq) - 1
    return at >= 0 and seq <= runs[at][1]


def _push(runs: list[Run], low: int, high: int) -> None:
    if low > high:
        return
    if runs and runs[-1][1] == low - 1:
        low = runs.pop()[0]
    runs.append((low, high))
