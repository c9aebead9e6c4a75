"""The link graph: lipmaa links, paths, certificate pools (docs/specs/bamboo.md, "Lipmaa links", "Certificate pools").

With backlinks alone, a reader who wants entry 1,000,000 of a log has to fetch and check all entries before it. So every
entry links to its predecessor and, farther back, to ``lipmaa(seq)``, like express trains beside the local one. Sequence
numbers of the form (3^k - 1)/2 -- 1, 4, 13, 40, ... -- are the *spine*, and each links to the one before::

    1 <------- 4 <------------------------- 13      the spine
                   4 <-- 8 <-- 12 <- 13             between: 8 links to 4, 12 to 8
                   4 <- 5 <- 6 <- 7 <- 8            and backlinks

Between two spine numbers the same picture repeats at a smaller scale. So a path from anywhere to entry 1 takes O(log
seq) links, and everything here is computed by walking the scales downwards, in O(log seq) steps up to 2^64 - 1.

The *certificate pool* of an entry is the set of entries that verify it, and that it verifies: the path from it down to
entry 1, and the path from the next spine number down to it. The pools of any two entries of a log contain a path of
links between the two. So a reader who fetches single entries with their pools can verify each against all others.

Links never cross: whenever ``lipmaa(n) < m < n``, then ``lipmaa(m) >= lipmaa(n)``. So the greedy path (take the
longest link that does not pass the goal) is a shortest one, and every path down from m passes ``lipmaa(n)``.
"""

from bisect import bisect_left
from functools import lru_cache

from culm.bamboo.varu64 import MAX_U64

# SPINE[k] is (3^k - 1)/2. The last one lies beyond 2^64 - 1: no such entry exists, but the pattern goes on to it,
# and the path from there down to a very large number is part of that number's certificate pool.
SPINE: list[int] = [(3**k - 1) // 2 for k in range(43)]


def _check(seq: int) -> None:
    if not 1 <= seq <= SPINE[-1]:
        raise ValueError(f"{seq} is not a sequence number (1 to 2^64 - 1)")


@lru_cache(maxsize=1 << 14)  # worth it because the paths of neighbouring entries go through the same numbers
def lipmaa(seq: int) -> int:
    """The sequence number that the lipmaalink of entry ``seq`` points at; 0 for entry 1.

    Takes O(log seq) steps; ``ValueError`` if ``seq`` is not a sequence number.
    """
    _check(seq)
    scale = bisect_left(SPINE, seq)
    if SPINE[scale] == seq:
        return SPINE[scale - 1]
    # Fold seq into the copy of the pattern it lies in, one scale after the other, until it ends a copy.
    within = seq
    while SPINE[scale] != within:
        scale -= 1
        if within > SPINE[scale]:
            within = (within - 1) % SPINE[scale] + 1
    return seq - SPINE[scale]


def has_lipmaalink(seq: int) -> bool:
    """Whether entry ``seq`` carries a lipmaalink of its own: not entry 1, and not one equal to the backlink."""
    return seq > 1 and lipmaa(seq) < seq - 1


def linkers(seq: int) -> list[int]:
    """All sequence numbers whose backlink or lipmaalink points at ``seq``, ascending (O(log^2) work)."""
    _check(seq)
    found = {seq + 1} if seq < MAX_U64 else set()
    for size in SPINE[1:]:
        # The end of a copy of the pattern links back by the copy's size; a spine number to the spine number before.
        for above in (seq + size, 3 * seq + 1):
            if above <= MAX_U64 and lipmaa(above) == seq:
                found.add(above)
    return sorted(found)


def path(start: int, goal: int) -> list[int]:
    """The shortest path of links from ``start`` down to ``goal``, both included.

    ``ValueError`` unless 1 <= goal <= start.
    """
    _check(goal)
    if goal > start:
        raise ValueError(f"no path from {start} to {goal}: links lead to lower numbers only")
    steps = [start]
    while start > goal:
        jump = lipmaa(start)
        start = jump if jump >= goal else start - 1
        steps.append(start)
    return steps


def links_across(seq: int) -> list[int]:
    """All numbers up to ``seq`` that an entry above ``seq`` can link to, descending: O(log seq) of them.

    Since links never cross, every link from above ``seq`` to ``seq`` or below starts on the path from the spine of
    ``seq + 1`` down to ``seq + 1``: a link that starts beside the path ends above one that the path takes.
    """
    _check(seq)
    targets = {lipmaa(above) for above in path(spine(seq + 1), seq + 1)}
    return sorted((target for target in targets | {seq} if target <= seq), reverse=True)


def spine(seq: int) -> int:
    """The smallest number of the form (3^k - 1)/2 that is not below ``seq``. It may lie beyond 2^64 - 1."""
    _check(seq)
    return SPINE[bisect_left(SPINE, seq)]


def certificate_pool(seq: int, newest: int = MAX_U64) -> list[int]:
    """The certificate pool of ``seq``, descending: the path from its spine down to it, and from it down to 1.

    Members above ``newest`` do not exist yet and are left out.
    """
    top = spine(seq)
    above = path(top, seq)[:-1]
    return [member for member in above if member <= min(newest, MAX_U64)] + path(seq, 1)
