"""Lipmaa links, paths, certificate pools (docs/specs/bamboo.md, "Lipmaa links", "Certificate pools")."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from culm.bamboo import MAX_U64, certificate_pool, has_lipmaalink, linkers, lipmaa, path, spine
from culm.bamboo.lipmaa import SPINE, links_across
from tests.bamboo import oracle
from tests.bamboo.oracle import sequence_numbers, vectors

FIRST_FORTY = (
    "0 1 2 1 4 5 6 4 8 9 10 8 4 13 14 15 13 17 18 19 17 21 22 23 21 13 26 27 28 26 30 31 32 30 34 35 36 34 26 13"
)
STATED = {100: 99, 121: 40, 1000: 996, 2**63: 2**63 - 1, 2**64 - 1: 2**64 - 5}


def test_deployed_links() -> None:
    """The links of the deployed peer are ours, up to the largest it was asked for."""
    cases = [(case["seq"], case["link"]) for case in vectors("lipmaa")]
    cases += [(int(case["seq"]), int(case["link"])) for case in vectors("lipmaa_large")]

    assert [link for _, link in cases] == [lipmaa(seq) for seq, _ in cases]


def test_deployed_certificate_pools() -> None:
    """The certificate pools of the deployed peer are ours."""
    cases = vectors("lipmaa")

    assert [case["cert_pool"] for case in cases] == [certificate_pool(case["seq"]) for case in cases]


def test_stated_links() -> None:
    """The links the specification spells out are ours."""
    assert [int(link) for link in FIRST_FORTY.split()] == [lipmaa(seq) for seq in range(1, 41)]
    assert STATED == {seq: lipmaa(seq) for seq in STATED}


def test_stated_certificate_pool() -> None:
    """The certificate pool of 23 is the path down from 40 to it and the path from it down to 1."""
    assert [40, 39, 26, 25, 24, 23, 22, 21, 17, 13, 4, 1] == certificate_pool(23)
    assert [26, 25, 24, 23, 22, 21, 17, 13, 4, 1] == certificate_pool(23, 26)
    assert [25, 24, 23, 22, 21, 17, 13, 4, 1] == certificate_pool(23, 25)


def test_stated_spine() -> None:
    """The spine of a number is the smallest (3^k - 1)/2 that is not below it."""
    expected = [1, 4, 4, 4, 13, 13, 40, 40, 121]

    assert expected == [spine(seq) for seq in (1, 2, 3, 4, 5, 13, 14, 40, 41)]


def test_the_definition() -> None:
    """The quick function is the recursive definition for all of 1 to 10,000."""
    numbers = range(1, 10_001)

    assert [oracle.lipmaa(seq) for seq in numbers] == [lipmaa(seq) for seq in numbers]


@given(seq=sequence_numbers())
@settings(deadline=None)
def test_the_definition_far_out(seq: int) -> None:
    """The quick function is the recursive definition up to 2^64 - 1."""
    assert oracle.lipmaa(seq) == lipmaa(seq)


@given(seq=sequence_numbers())
@settings(deadline=None)
def test_has_lipmaalink(seq: int) -> None:
    """A lipmaalink is left out of entry 1 and wherever it would equal the backlink."""
    assert (seq != 1 and oracle.lipmaa(seq) != seq - 1) == has_lipmaalink(seq)


@given(seq=sequence_numbers(), data=st.data())
@settings(deadline=None)
def test_links_never_cross(seq: int, data: st.DataObject) -> None:
    """No link that starts below a number ends below that number's lipmaalink, unless it starts there."""
    long_links = [n for n in path(spine(seq), seq) if lipmaa(n) < n - 1]
    assume(long_links)
    n = data.draw(st.sampled_from(long_links))
    m = data.draw(st.integers(lipmaa(n) + 1, n - 1))

    assert lipmaa(m) >= lipmaa(n)


def test_every_path_passes_the_lipmaa_target() -> None:
    """With the target of a long link taken away, nothing between it and the link's start reaches entry 1."""
    for n in range(2, 125):
        target = lipmaa(n)
        reaches = {1} - {target}
        for m in range(2, n):
            if m != target and {m - 1, lipmaa(m)} & reaches:
                reaches.add(m)

        assert set() == reaches & set(range(target + 1, n))


@given(seq=sequence_numbers(low=2), data=st.data())
@settings(deadline=None)
def test_paths_pass_the_lipmaa_target(seq: int, data: st.DataObject) -> None:
    """The path that is taken from below a long link's start to entry 1 passes that link's target, however far out."""
    n = data.draw(st.sampled_from(path(spine(seq), seq)))
    m = data.draw(st.integers(lipmaa(n), n - 1).filter(bool))

    assert lipmaa(n) in [*path(m, 1), 0]


@given(start=sequence_numbers(), goal=sequence_numbers())
@settings(deadline=None)
def test_paths_lead_to_their_goal(start: int, goal: int) -> None:
    """A path begins at its start, ends at its goal, takes links only, and is short even for the largest numbers."""
    start, goal = max(start, goal), min(start, goal)
    found = path(start, goal)

    assert (start, goal) == (found[0], found[-1])
    assert all(there in (here - 1, oracle.lipmaa(here)) for here, there in pairwise(found))
    assert len(found) <= 2 * 64 + 64


def test_paths_are_shortest() -> None:
    """Up to 250 no path between two numbers is longer than the shortest that a search finds."""
    for start in range(1, 251):
        lengths = oracle.shortest_path_lengths(start)

        assert lengths == {goal: len(path(start, goal)) - 1 for goal in range(1, start + 1)}


@pytest.mark.slow
def test_linkers() -> None:
    """The linkers of a number are all numbers that link to it, for all of 1 to 3,000."""
    expected: dict[int, list[int]] = {}
    for seq in range(2, 9 * 3000 + 2):
        for target in sorted({seq - 1, oracle.lipmaa(seq)}):
            expected.setdefault(target, []).append(seq)
    numbers = range(1, 3001)

    assert [expected[seq] for seq in numbers] == [linkers(seq) for seq in numbers]


@given(seq=sequence_numbers())
@settings(deadline=None)
def test_linkers_far_out(seq: int) -> None:
    """Up to 2^64 - 1 the linkers of a number link to it, and a number is among the linkers of its targets."""
    found = linkers(seq)

    assert sorted(set(found)) == found
    assert all(seq in (above - 1, oracle.lipmaa(above)) and above <= MAX_U64 for above in found)
    assert all(seq in linkers(target) for target in {seq - 1, oracle.lipmaa(seq)} - {0})


def test_no_linkers_beyond_the_last_number() -> None:
    """Nothing links to entry 2^64 - 1."""
    assert [] == linkers(MAX_U64)


def test_links_across() -> None:
    """``links_across`` is exactly what entries above a number can link to, for all of 1 to 364."""
    for seq in range(1, 365):
        targets = {target for above in range(seq + 1, 1095) for target in (above - 1, oracle.lipmaa(above))}

        assert sorted((t for t in targets if t <= seq), reverse=True) == links_across(seq)


@given(seq=sequence_numbers(), data=st.data())
@settings(deadline=None)
def test_links_across_far_out(seq: int, data: st.DataObject) -> None:
    """Up to 2^64 - 1 no link leads across a number unnoticed, and there are few of them."""
    above = data.draw(st.sampled_from(path(spine(seq), seq)).filter(lambda n: n > 1))
    below = data.draw(st.integers(lipmaa(above), above - 1).filter(bool))
    found = links_across(below)

    assert lipmaa(above) in [*found, 0]
    assert below in found
    assert len(found) <= 2 * len(SPINE)


@given(seq=sequence_numbers(), data=st.data())
@settings(deadline=None)
def test_certificate_pools_far_out(seq: int, data: st.DataObject) -> None:
    """A pool is the path from the spine and the path to 1; what is newer than the newest entry is left out."""
    whole = [*path(spine(seq), seq), *path(seq, 1)[1:]]
    newest = data.draw(st.one_of(st.just(MAX_U64), st.integers(seq, MAX_U64)))

    assert [n for n in whole if n <= newest] == certificate_pool(seq, newest)


def test_pools_of_two_numbers_meet() -> None:
    """Two certificate pools together verify both numbers: a path leads from the larger to 1 through the smaller."""
    for high in range(2, 125):
        for low in range(1, high):
            held = {*certificate_pool(low, high), *certificate_pool(high, high)}

            assert set(path(high, low)) <= held


@pytest.mark.parametrize("seq", [0, -1, SPINE[-1] + 1])
def test_no_sequence_numbers(seq: int) -> None:
    """What cannot be a sequence number is refused by every function here."""
    for call in (lipmaa, linkers, links_across, spine, certificate_pool):
        with pytest.raises(ValueError, match="not a sequence number"):
            call(seq)


def test_no_upward_paths() -> None:
    """There is no path from a number to a greater one."""
    with pytest.raises(ValueError, match="no path from 4 to 13"):
        path(4, 13)


def test_links_at_the_end_of_all_numbers() -> None:
    """The last entry of all links to its predecessor and four back, and nothing links to it."""
    last = 2**64 - 1

    assert [last] == linkers(last - 1)
    assert last in linkers(last - 4)
    assert [] == linkers(last)


@pytest.mark.parametrize(("start", "goal"), [(5, 0), (0, 0), (4, 5), (SPINE[-1] + 1, 1)])
def test_no_path(start: int, goal: int) -> None:
    """There is no entry 0 and none beyond the last spine number, and links lead to lower numbers only."""
    with pytest.raises(ValueError, match=r"sequence number|no path"):
        path(start, goal)
