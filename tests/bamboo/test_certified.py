"""Which entries are certified, and why that makes an author's fork show, on a model of sets and links.

An author writes two histories that part at entry ``fork``. One reader follows an entry of the first history, another
reader one of the second, each with the entry's certificate pool as far as that history reaches. Then they exchange what
they hold. The fork shows if both hold an entry of the same number, or one holds an entry whose link points at the
other's. If only one of them holds anything from the fork on, there is nothing to see: they hold the same history.

Specification: docs/specs/bamboo.md, "Certificate pools".
"""

from collections import Counter
from itertools import combinations, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo.certified import Run, certified_runs, steps_across
from culm.bamboo.lipmaa import certificate_pool, lipmaa, spine

NEWEST = 40  # a spine number: up to here every shape of the link graph occurs three times at growing sizes


class Holding(NamedTuple):
    """A reader's entry with its pool, in a log that reaches ``newest``. Sets of numbers are bits."""

    seq: int
    newest: int
    pool: int

    @property
    def is_complete(self) -> bool:
        """Whether the log reaches the spine number that ends the pool."""
        return self.newest >= spine(self.seq)


LINKS = [0, 0, *(1 << seq - 1 | 1 << lipmaa(seq) for seq in range(2, NEWEST + 1))]


def bits(numbers: list[int]) -> int:
    """A set as bits."""
    return sum(1 << number for number in numbers)


def holdings() -> list[Holding]:
    """For each entry, each pool that it can have, with the shortest log in which it is that."""
    found: dict[tuple[int, int], int] = {}
    for seq in range(1, NEWEST + 1):
        for newest in range(seq, NEWEST + 1):
            found.setdefault((seq, bits(certificate_pool(seq, newest))), newest)
    return [Holding(seq, newest, pool) for (seq, pool), newest in found.items()]


def linked(pool: int, fork: int) -> int:
    """Where links of a pool's entries from the fork on lead, as far as that is not before the fork."""
    found = 0
    for seq in range(fork, NEWEST + 1):
        if pool >> seq & 1:
            found |= LINKS[seq]
    return found >> fork << fork


def outcome(one: int, other: int, fork: int, links: dict[tuple[int, int], int]) -> str:
    """What two readers find out who exchange the pools ``one`` and ``other``."""
    ours, theirs = one >> fork << fork, other >> fork << fork
    if not ours or not theirs:
        return "same history"
    if ours & theirs:
        return "two entries of one number"
    if links[one, fork] & theirs or links[other, fork] & ours:
        return "a link to another entry"
    return "hidden"


def outcomes(found: list[Holding]) -> Counter[tuple[str, bool]]:
    """How often each outcome occurs, by whether both pools are complete."""
    links = {(held.pool, fork): linked(held.pool, fork) for held in found for fork in range(1, NEWEST + 1)}
    counts: Counter[tuple[str, bool]] = Counter()
    for fork in range(1, NEWEST + 1):
        for at, one in enumerate(found):
            for other in found[at:]:
                key = outcome(one.pool, other.pool, fork, links), one.is_complete and other.is_complete
                counts[key] += 1
    return counts


@pytest.mark.slow
def test_no_fork_hides_between_complete_pools() -> None:
    """Over all logs up to 40 entries, all forks and all pairs: with complete pools the fork shows, or there is none.

    The pairs that stay hidden are counted. Each has a log that does not reach the spine number of the entry that is
    followed, so the author has not yet written the entries that would tell. They come as soon as the log grows.
    """
    counts = outcomes(holdings())
    assert counts["hidden", True] == 0
    assert counts["hidden", False] == 32_419
    assert sum(count for (what, _), count in counts.items() if what != "hidden") == 693_381


@pytest.mark.slow
@pytest.mark.parametrize("newest", [14, 27, 40])
def test_histories_of_one_length_hide_nothing(newest: int) -> None:
    """If both histories reach equally far, no fork hides, whether the pools are complete or not."""
    found = [Holding(seq, newest, bits(certificate_pool(seq, newest))) for seq in range(1, newest + 1)]
    counts = outcomes(found)
    assert counts["hidden", True] == counts["hidden", False] == 0
    assert counts["two entries of one number", True] > 0


def test_without_the_upper_half_a_fork_hides() -> None:
    """The example of the log's page: a fork at 5, one reader follows 9 and the other 6, both down to entry 1 only."""
    one, other = (bits([member for member in certificate_pool(seq, 14) if member <= seq]) for seq in (9, 6))
    links = {(pool, 5): linked(pool, 5) for pool in (one, other)}
    assert outcome(one, other, 5, links) == "hidden"
    one, other = (bits(certificate_pool(seq, 14)) for seq in (9, 6))
    links = {(pool, 5): linked(pool, 5) for pool in (one, other)}
    assert outcome(one, other, 5, links) == "two entries of one number"


# -- which entries are certified -------------------------------------------------------------------------------------


def runs_of(numbers: set[int]) -> list[Run]:
    """Numbers as runs without a gap."""
    lows = sorted(number for number in numbers if number - 1 not in numbers)
    highs = sorted(number for number in numbers if number + 1 not in numbers)
    return list(zip(lows, highs, strict=True))


def certified(held: set[int], newest: int) -> set[int]:
    """The definition, entry by entry: everything above it in its pool is held."""
    return {seq for seq in held if all(member in held for member in certificate_pool(seq, newest) if member > seq)}


@pytest.mark.slow
@pytest.mark.parametrize("length", range(1, 15))
def test_certified_runs_of_every_holding(length: int) -> None:
    """Whatever is held of a log of up to 14 entries, and wherever its newest entry is, the definition is met."""
    for chosen in range(1, 1 << length):
        held = {seq for seq in range(1, length + 1) if chosen >> seq - 1 & 1}
        newest = max(held)
        assert certified_runs(runs_of(held), newest) == runs_of(certified(held, newest))


@given(st.sets(st.integers(1, 130), min_size=1), st.integers(0, 250))
def test_certified_runs_of_larger_holdings(held: set[int], more: int) -> None:
    """The same with gaps in logs of several hundred entries, whose newest entries are not verified."""
    newest = max(held) + more
    assert certified_runs(runs_of(held), newest) == runs_of(certified(held, newest))


@given(st.sets(st.integers(1, 130), min_size=1), st.integers(0, 250), st.integers(1, 130))
def test_certified_runs_of_a_part(held: set[int], more: int, cut: int) -> None:
    """The runs of the lower part of a log follow from what is certified of the entries whose pools step into it."""
    newest = max(held) + more
    whole = certified(held, newest)
    part = {seq for seq in held if seq <= cut}
    end = max(part, default=cut)
    gaps = {start for _, start in steps_across(end) if end < start <= newest and start not in whole}
    assert certified_runs(runs_of(part), end, gaps) == runs_of({seq for seq in whole if seq <= cut})


def test_steps_across() -> None:
    """The steps over the end of a part are those of all pools of entries of the part, the highest first."""
    for seq in range(1, 130):
        pools = [certificate_pool(entry) for entry in range(1, seq + 1)]
        steps = {(goal, start) for pool in pools for start, goal in pairwise(pool) if goal <= seq < start}
        assert steps_across(seq) == sorted(steps, reverse=True)


def test_what_is_held_without_a_gap_is_certified() -> None:
    """All of a log is certified; what ends before the log's newest entry lacks what those above it would show."""
    assert certified_runs([(1, 1000)], 1000) == [(1, 1000)]
    assert certified_runs([(1, 10)], 60) == [(1, 4)]
    assert certified_runs([(1, 1), (4, 10)], 60) == [(1, 1), (4, 4)]
    assert certified_runs([(1, 1), (4, 13)], 60) == [(1, 1), (4, 13)]
    assert certified_runs([], 7) == []


@pytest.mark.slow
def test_certified_entries_are_of_one_history() -> None:
    """Where a store cannot see the fork in what it holds of two histories, it has certified entries of one at most.

    Each history is held as a path, or with some of the upper half of a pool. However long the log is does not matter.
    """
    found = {holding.pool for holding in holdings() if holding.newest <= 27}
    found |= {bits([member for member in certificate_pool(seq) if member <= seq]) for seq in range(1, 28)}
    known: dict[int, int] = {}
    hidden = mixed = 0
    for fork in range(1, 28):
        links = {(pool, fork): linked(pool, fork) for pool in found}
        for one, other in combinations(sorted(found), 2):
            if outcome(one, other, fork, links) == "hidden":
                both = one | other
                held = {seq for seq in range(1, 28) if both >> seq & 1}
                certain = known.setdefault(both, bits(sorted(certified(held, max(held)))))
                hidden += 1
                mixed += bool(certain >> fork << fork & one and certain >> fork << fork & other)
    assert (hidden > 1000, mixed) == (True, 0)


def test_certified_runs_at_the_end_of_all_numbers() -> None:
    """The last entries there can be need no more than there can be."""
    last = 2**64 - 1
    assert certified_runs([(last - 5, last)], last) == [(last - 5, last)]
    assert (last - 5, last - 3) not in certified_runs([(last - 5, last - 3)], last)
