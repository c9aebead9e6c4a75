"""What is asked for, and what an offer is worth: against a loop over all items of a short log.

Specification: docs/specs/bushbaby.md, "WANT".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo import MAX_U64, lipmaa, path
from culm.node.culm.offers import asked_of, doubted, lacks, offer_of
from culm.node.interests import missing as unmet
from culm.node.interests.missing import EVERYTHING, lacking, missing, resumptions, wanted
from culm.node.interests.policy import Policy
from culm.ranges import RangeSet, read_range
from culm.store import PayloadState, State
from tests.models import MARKS, count, models
from tests.node.holdings import ALL, LENGTH, NO, a_store, fill, holdings, interests, key, ranges, whole_log
from tests.ranges import oracle as range_oracle
from tests.store.dictionary import runs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from culm.ranges import Range
    from tests.store.dictionary import LogModel

pytestmark = MARKS

LOG = whole_log()
HERE = range(1, LENGTH + 1)
HOLDINGS = holdings()


def wants_payload(items: Iterable[Range], seq: int, newest: int, size: int) -> bool:
    """Whether a payload of a size is an item of one of the ranges, in a log that goes up to ``newest``."""
    return any(
        item.payloads
        and seq in range_oracle.span(item, newest)
        and seq not in item.forbidden
        and item.least_size <= size < (item.size_limit or 2**64)
        for item in items
    )


def needs(items: Iterable[Range], newest: int) -> set[int]:
    """The entries of a log of ``newest`` entries that ranges need: those of their items, and all that verifies them."""
    entries = [replace(item, metadata=True) for item in items if not item.is_empty]
    return {item[1] for entry in entries for item in range_oracle.wanted(entry, newest) if isinstance(item[1], int)}


def held_tails(items: Iterable[Range], verified: Collection[int], newest: int) -> set[int]:
    """The entries above the newest one held that its certificate pool needs, if a path without an end is wanted."""
    held = max(verified, default=0)
    if not any(item.sparse and item.is_open and item.start <= held for item in items):
        return set()
    spine = next(each for each in (1, 4, 13, 40, 121) if each >= held)
    return {seq for seq in range_oracle.shortest(spine, held) if held < seq <= newest}


def tails(items: Iterable[Range], verified: Collection[int], newest: int) -> set[int]:
    """The entries above the ends of ranges that their pools need, in a log of ``newest`` entries."""
    closed = [item for item in items if not item.is_open]
    return {seq for item in closed for seq in needs([item], newest) if seq > item.last} | held_tails(
        items, verified, newest
    )


def is_settled(model: LogModel, seq: int) -> bool:
    """Whether nothing of a number is to be asked for, whatever is wanted."""
    return seq in model.settled() or (model.invalid_from is not None and seq >= model.invalid_from)


def spans_where(asked: Callable[[int], bool], low: int, high: int) -> list[tuple[int, int]]:
    """The numbers for which something holds, as spans."""
    return runs_of(seq for seq in range(low, high + 1) if asked(seq))


def within(spans: Iterable[tuple[int, int]], high: int) -> list[tuple[int, int]]:
    """Spans as far as the log goes."""
    return [(low, min(last, high)) for low, last in spans if low <= high]


def stranded(model: LogModel, items: Iterable[Range], newest: int) -> set[int]:
    """The first entries that are not held on the paths of those that are wanted and wait."""
    held, waiting = ({entry.seq for entry in some} for some in (model.payloads, model.in_state(State.WAITING)))
    wanted_ones = {seq for seq in waiting if any(seq in range_oracle.span(item, max(seq, newest)) for item in items)}
    paths = ([below for below in range_oracle.shortest(seq, 1) if below not in waiting] for seq in wanted_ones)
    return {below[0] for below in paths if below and below[0] not in held}


# -- Bushbaby: spans of entries ------------------------------------------------------------------------------------


@models(40)
@given(held=HOLDINGS, interest=interests(), high=st.integers(1, LENGTH), limit=st.integers(1, 9))
def test_missing(held: tuple[list[str], int], interest: RangeSet, high: int, limit: int) -> None:
    """What is asked of a peer that has a log up to a number: whatever an interest needs, and is not held or given up.

    Of an entry that is held its payload is asked for only if it is wanted. The lowest spans come first.
    """
    count("plans")
    with a_store() as store:
        model = fill(store, LOG, *held)
        verified = {entry.seq: entry.size for entry in model.verified()}
        items = list(interest)
        needed = needs(items, high) | held_tails(items, verified, high)

        def asked(seq: int) -> bool:
            if seq not in needed or is_settled(model, seq):
                return False
            return interest == EVERYTHING or seq not in verified or wants_payload(items, seq, high, verified[seq])

        found = missing(store, interest, key(LOG), high, limit)
        everything = missing(store, interest, key(LOG), high, 1000)
    assert sorted(everything) == everything
    assert runs_of(seq for low, last in everything for seq in range(low, last + 1)) == spans_where(asked, 1, high)
    assert sum(last - low + 1 for low, last in everything) == sum(map(asked, range(1, high + 1)))
    assert found == everything[:limit]


@models(40)
@given(held=HOLDINGS, theirs=HOLDINGS, interest=interests(), newest=st.integers(0, LENGTH))
def test_lacking_tails(
    held: tuple[list[str], int], theirs: tuple[list[str], int], interest: RangeSet, newest: int
) -> None:
    """What is asked for of the tails of pools: what is not held or given up, is no item, and may be at the peer.

    Each chain is a path of links without gaps, and begins above its neighbour on the way down.
    """
    count("plans")
    with a_store() as store:
        model = fill(store, LOG, *held)
        verified = {entry.seq for entry in model.verified()}
        ours = {entry.seq for entry in model.payloads}
        there = {seq for seq in HERE if theirs[0][seq - 1] != NO}
        found = unmet.lacking_tails(store, key(LOG), interest, newest, there.__contains__)
    items = list(interest)
    paths = [range_oracle.shortest(chain.high, chain.low) for chain in found]
    asked = [seq for chain in paths for seq in chain]
    assert len(asked) == len(set(asked))
    lacking = {seq for seq in tails(items, verified, LENGTH) & there - ours if not is_settled(model, seq)}
    assert {seq for seq in lacking if not interest.contains_metadata(seq, newest if seq <= newest else MAX_U64)} == set(
        asked
    )
    assert all(range_oracle.shortest(chain.high, chain.below)[-2] == chain.low for chain in found)


@models(40)
@given(interest=interests(), newest=st.integers(0, LENGTH + 5))
def test_wanted(interest: RangeSet, newest: int) -> None:
    """The numbers that an interest needs: those of its items, and of all that verifies them."""
    count("plans")
    found = wanted(interest, newest)
    assert found == runs_of(needs(interest, newest))


# -- the Point-2-Point protocols: items of ranges -------------------------------------------------------------------


@models(40)
@given(
    held=HOLDINGS,
    item=ranges(sparse=False),
    low=st.integers(1, LENGTH),
    limit=st.integers(1, 9),
    bounds=st.sampled_from([(None, None), (4, None), (None, 10), (1, 30), (11, 9)]),
)
def test_lacking(
    held: tuple[list[str], int], item: Range, low: int, limit: int, bounds: tuple[int | None, int | None]
) -> None:
    """The spans of what a dense range denotes and is not held: entries, and payloads of the sizes that are wanted."""
    count("plans")
    least, greatest = bounds
    with a_store() as store:
        model = fill(store, LOG, *held)
        verified = {entry.seq: entry.size for entry in model.verified()}

        def fits(size: int) -> bool:
            return (least or 0) <= size <= (MAX_U64 if greatest is None else greatest)

        def asked(seq: int) -> bool:
            if seq < low or not item.start <= seq <= item.last or is_settled(model, seq):
                return False
            if not item.metadata and (seq in item.forbidden or not _payloads_at_all(item, least, greatest)):
                return False
            return seq not in verified or (wants_payload([item], seq, LENGTH, size := verified[seq]) and fits(size))

        found = lacking(store, key(LOG), item, low, limit, least, greatest)
        everything = lacking(store, key(LOG), item, low, 1000, least, greatest)
    assert found == everything[:limit]
    numbers = [seq for first, last in within(everything, LENGTH) for seq in range(first, last + 1)]
    assert numbers == [seq for seq in HERE if asked(seq)]
    is_open = item.last > LENGTH and (item.metadata or _payloads_at_all(item, least, greatest))
    assert (bool(everything) and everything[-1][1] == item.last > LENGTH) == (
        is_open and (model.invalid_from is None) and item.last == MAX_U64
    )


def _payloads_at_all(item: Range, least: int | None, greatest: int | None) -> bool:
    low = max(item.least_size, least or 0)
    high = min(item.size_limit - 1 if item.size_limit else MAX_U64, MAX_U64 if greatest is None else greatest)
    return item.payloads and low <= high


# -- culm://: offers -----------------------------------------------------------------------------------------------


@models(40)
@given(ours=HOLDINGS, theirs=HOLDINGS, interest=interests())
def test_offers(ours: tuple[list[str], int], theirs: tuple[list[str], int], interest: RangeSet) -> None:
    """An offer says what is held; what is asked of it is what it has and we want; it is of use if we lack any of that.

    Beyond items an offer is of use if it tells of another newest entry than ours, of a fork at a lower place, or of
    entries behind a fork that we know.
    """
    count("plans")
    policy = Policy(interests={key(LOG): interest})
    with a_store() as near, a_store() as far:
        model, other = fill(near, LOG, *ours), fill(far, LOG, *theirs)
        offer = offer_of(far, key(LOG))
        has = {entry.seq for entry in other.verified()}, {entry.seq for entry in other.complete()}
        newest = max(has[0], default=0)
        assert [seq for seq in HERE if offer.held.contains_metadata(seq)] == sorted(has[0])
        assert [seq for seq in HERE if offer.held.contains_payload(seq, 1)] == sorted(has[1])
        assert offer.fork == (other.forked_at or 0)

        asked, items = asked_of(policy, offer), list(interest)
        metadata = {seq for seq in has[0] if interest.contains_metadata(seq, newest)}
        payloads = {entry.seq for entry in other.complete() if wants_payload(items, entry.seq, newest, entry.size)}
        assert {seq for seq in HERE if asked.contains_metadata(seq)} == metadata
        assert {entry.seq for entry in other.complete() if asked.contains_payload(entry.seq, entry.size)} == payloads
        assert not any(asked.contains_payload(seq, size) for seq in set(HERE) - has[1] for size in (0, 5, 30))

        held = {entry.seq: model.payloads[entry].state for entry in model.verified()}
        payloads = {entry.seq for entry in model.verified() if asked.contains_payload(entry.seq, entry.size)}
        of_any_size = {seq for seq in has[1] if any(asked.contains_payload(seq, size) for size in (0, 5, 30))}
        useful = (metadata | of_any_size) - held.keys()  # of what is not held it is not known how large it is
        useful |= {seq for seq in payloads if held.get(seq) in (PayloadState.ABSENT, PayloadState.PARTIAL)}
        useful |= (tails(items, held, LENGTH) & has[0]) - {entry.seq for entry in model.payloads}
        useful = {seq for seq in useful if not is_settled(model, seq)}
        useful |= stranded(model, items, newest) & has[0] if interest != EVERYTHING else set()
        mine = next((entry for entry in model.verified() if entry.seq == newest), None)
        differs = mine is not None and mine not in other.verified()
        lower = bool(offer.fork) and offer.fork < (model.forked_at or MAX_U64)
        goes_on = model.forked_at is not None and model.forked_at <= newest and offer.fork != model.forked_at
        valid = max(held, default=0) if goes_on else 0
        expected = offer.fork if lower else newest if differs else valid if valid in has[0] else None
        assert doubted(near, offer) == expected
        is_useful = len(interest) > 0 and (bool(useful) or expected is not None)
        assert lacks(near, policy, offer) == is_useful, (useful, expected)


@pytest.mark.parametrize(
    ("text", "needed", "is_of_use"),
    [("1..27 sparse metadata", [], False), ("18.. metadata", [17], True), ("1..", [17], True)],
)
def test_what_waits(text: str, needed: list[int], *, is_of_use: bool) -> None:
    """An entry that waits needs its path where it is wanted itself, and nothing where it is beside what is wanted."""
    interest = RangeSet([read_range(text)])
    with a_store() as near, a_store() as far:
        fill(near, LOG, [NO if seq == 17 else ALL for seq in HERE])
        fill(far, LOG, [ALL] * LENGTH)
        assert next(iter(near.logs())).waiting > 0
        assert unmet.stranded(near, key(LOG), interest, LENGTH) == needed
        assert lacks(near, Policy(interests={key(LOG): interest}), offer_of(far, key(LOG))) == is_of_use


@given(st.sets(st.integers(1, 150), min_size=1, max_size=40), st.integers(1, 150), st.integers(0, 160))
def test_where_a_holder_of_parts_can_go_on(numbers: set[int], lacked: int, last: int) -> None:
    """Whatever a holder has verified behind an entry that it lacks is reached from one of the numbers tried.

    That is: the first entry of each run behind the gap is tried, or links to an entry of another such run.
    """
    held = {member for seq in numbers for member in path(seq, 1)} - {lacked}
    verified = {seq for seq in held if held >= set(path(seq, 1))}
    tried = resumptions(lacked, last)
    assert tried == sorted(seq for seq in range(lacked + 1, last + 1) if lipmaa(seq) < lacked)
    starts = {seq for seq in verified if lacked < seq <= last and seq - 1 not in verified}
    assert all(seq in tried or lipmaa(seq) > lacked for seq in starts)
    assert len(tried) <= 12


def test_where_payloads_can_go_on() -> None:
    """If perhaps only the payload is lacking, what links to it is tried, and entries at doubling distances."""
    assert [14, 15, 17, 21, 26, 29, 40] == resumptions(13, 40, has_entry=True)
    assert [] == resumptions(40, 40, has_entry=True)
    assert [2**64 - 1] == resumptions(2**64 - 2, 2**64 - 1, has_entry=True)
