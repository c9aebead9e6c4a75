"""An interest as parts to propose: against a loop over numbers and sizes; and what parts of one must not hide."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from culm.node.proposals.gaps import parts
from culm.ranges import RangeSet, read_range
from tests.models import MARKS, count, models
from tests.node.holdings import ALL, ENTRY, LENGTH, NO, a_store, fill, interests, key, whole_log
from tests.node.quiet import ProposalEnd, talk
from tests.ranges import oracle as range_oracle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.ranges import Range

pytestmark = MARKS

LOG = whole_log()
HERE = range(1, LENGTH + 1)
SIZE = {entry.seq: entry.size for entry in LOG.entries}


def span(item: Range) -> Iterable[int]:
    """The numbers of a range; a path whose end is the newest entry cannot be proposed but with what is between."""
    return range(item.start, LENGTH + 1) if item.is_open else range_oracle.span(item, LENGTH)


def is_proposed(items: Iterable[Range], seq: int, size: int) -> bool:
    """Whether a payload is between the least and the greatest size that any of some ranges wants of a number."""
    some = [item for item in items if item.payloads and seq in span(item) and seq not in item.forbidden]
    most = max((item.size_limit or 2**64 for item in some), default=0)
    return min((item.least_size for item in some), default=0) <= size < most


@models(120)
@given(interest=interests())
def test_parts(interest: RangeSet) -> None:
    """Each number is in one part at most, which wants what any range of the interest wants of it, and no more."""
    count("plans")
    found, items = parts(interest), list(interest)
    for seq in HERE:
        covering = [part for part in found if seq in span(part)]
        assert len(covering) <= 1
        assert any(part.metadata for part in covering) == any(item.metadata and seq in span(item) for item in items)
        for size in (0, 3, 4, 10, 11, 2**63):
            assert any(is_proposed([part], seq, size) for part in covering) == is_proposed(items, seq, size)


def exchanged(ours: list[str], theirs: list[str], interest: RangeSet) -> set[int]:
    """The payloads that one holds after having proposed to another all that is missing of an interest."""
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        fill(near, LOG, ours)
        fill(far, LOG, theirs)
        asks = ProposalEnd(near, interest, calls=True)
        serves = ProposalEnd(far, interest, calls=False)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.proposer.add([key(LOG)])
        talk(asks, serves)
        return {stored.entry.seq for stored in near.entries(key(LOG)) if stored.payload_complete}


@pytest.mark.parametrize("texts", [("1.. max 9", "5.. min 10"), ("1.. max 9 without 40", "5.. min 10 without 30")])
def test_open_ranges_that_want_other_sizes(texts: tuple[str, str]) -> None:
    """A proposal without an end lives for good: what two open ranges want of the same entries comes by one."""
    first, second = map(read_range, texts)
    found = exchanged([NO] * LENGTH, [ALL] * LENGTH, RangeSet([first, second]))
    small = {seq for seq in HERE if SIZE[seq] <= 9 and not first.forbids(seq)}
    assert small | {seq for seq in HERE if seq >= 5 and SIZE[seq] > 9 and not second.forbids(seq)} <= found


def test_gaps_behind_many_that_the_peer_has_too() -> None:
    """However many gaps the peer cannot fill, the one that it can is proposed."""
    ours = [ENTRY if seq % 2 else ALL for seq in HERE]
    assert sum(ours[seq - 1] == ENTRY and SIZE[seq] > 0 for seq in HERE) > 17
    assert LENGTH in exchanged(ours, [ENTRY] * (LENGTH - 1) + [ALL], RangeSet([read_range("1..45")]))
