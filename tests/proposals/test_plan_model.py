"""Which items a proposal has, who wants which of them, and what speaks against it: against plain definitions.

Specification: docs/specs/proposals.md, "Items", "Eagerness", "Proposals".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo import MAX_U64, path
from culm.proposals import Eagerness, Proposal, Wish
from culm.proposals.messages import Adjust
from culm.proposals.sequence import Sequence, is_self_contained, outer_seq
from culm.proposals.wishes import Wishes
from tests.bamboo import oracle
from tests.intervals.test_plan_model import above, down
from tests.models import MARKS, count, models

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = MARKS

MOST = 140
NUMBERS = st.integers(1, 45)
Item = tuple[int, bool]


@st.composite
def proposals(draw: st.DrawFn) -> Proposal:
    """Any proposal that can be meant."""
    start = draw(NUMBERS)
    lower: int | None = draw(st.sampled_from(path(start, 1)))
    offset = draw(st.one_of(st.none(), st.integers(0, 9)))
    if offset is not None:
        lower = None
    end = draw(st.one_of(st.none(), st.integers(start, 50)))
    upper = None if end is None else draw(st.one_of(st.just(end), st.integers(end, 125)))
    value = bytes(66) if lower != 1 else None
    sparse, payload_only = draw(st.booleans()) and end is not None, draw(st.sampled_from([False, False, True]))
    return Proposal(0, bytes(32), 0, start, lower, end, upper, value, offset, payload_only=payload_only, sparse=sparse)


def items(proposal: Proposal, end: int | None, upper: int | None) -> list[Item]:
    """The items one by one; of an endless range, up to ``MOST``."""
    start = proposal.start
    found: list[Item] = []
    if proposal.lower is not None:
        found += [(seq, False) for seq in sorted(down(start, 1)) if seq >= proposal.lower]
    numbers: Iterable[int] = range(start, (MOST if end is None else end) + 1)
    if proposal.sparse and end is not None:
        numbers = sorted([end, *down(end, start)])
    for seq in numbers:
        found += [(seq, False), (seq, True)]
    if end is not None:
        found += [(seq, False) for seq in sorted(above(end, 10**6)) if upper is None or seq <= upper]
    if proposal.offset is not None:
        found.remove((start, False))
    return [item for item in found if item[1] or not proposal.payload_only]


@models(400)
@given(proposal=proposals(), data=st.data())
def test_a_sequence_is_its_items(proposal: Proposal, data: st.DataObject) -> None:
    """Items, indexes and their number are those of the definition, also where the end and the pool are lowered."""
    count("plans")
    end, upper = proposal.end, proposal.upper
    if data.draw(st.booleans()):
        end = data.draw(st.integers(proposal.start, 50 if end is None else end))
        upper = data.draw(st.one_of(st.just(end), st.integers(end, 125 if upper is None else max(upper, end))))
    sequence, expected = Sequence.of(proposal, end, upper), items(proposal, end, upper)
    if end is not None:
        assert sequence.total == len(expected)
    assert [sequence.item(index) for index in range(len(expected))] == expected
    assert [sequence.index_of(seq, is_payload=payload) for seq, payload in expected] == list(range(len(expected)))
    there = set(expected)
    absent = {(seq, payload) for seq in range(1, MOST) for payload in (False, True)} - there
    assert not any(sequence.index_of(seq, is_payload=payload) is not None for seq, payload in absent)


@models(200)
@given(proposal=proposals())
def test_what_a_receiver_can_put_together(proposal: Proposal) -> None:
    """A proposal that is self-contained has only links to items before, or to the entry of the expected hash."""
    count("plans")
    if proposal.offset is not None or proposal.payload_only:
        return
    end = proposal.end
    sent, outer, complete = set[int](), outer_seq(proposal), True
    for seq, is_payload in items(proposal, end, proposal.upper):
        if not is_payload:
            target = oracle.lipmaa(seq)
            complete = complete and (target == 0 or target in sent or target == outer)
            sent.add(seq)
    if is_self_contained(proposal):
        assert complete
    elif end is None and not proposal.sparse:
        assert not complete or proposal.start > 30  # what lies beyond ``MOST`` was not looked at


# -- wishes --------------------------------------------------------------------------------------------------------

EAGERNESS = st.one_of(
    st.sampled_from([Eagerness(Wish.ALL), Eagerness(Wish.NOTIFY)]),
    st.integers(0, 60).map(lambda limit: Eagerness(Wish.LIMITED, limit)),
)
ADJUSTMENTS = st.builds(
    lambda eagerness, skip, least, greatest: (eagerness, skip, least, greatest),
    st.one_of(st.none(), EAGERNESS),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 60)),
    st.one_of(st.none(), st.integers(0, 60)),
)


@models(200)
@given(
    first=EAGERNESS,
    bounds=st.sampled_from([(0, MAX_U64), (5, 40), (0, 30)]),
    changes=st.lists(ADJUSTMENTS, max_size=4),
    size=st.integers(0, 65),
)
def test_wishes(
    first: Eagerness,
    bounds: tuple[int, int],
    changes: list[tuple[Eagerness | None, bool, int | None, int | None]],
    size: int,
) -> None:
    """What is sent follows the latest wishes; what may come, any that was ever said. Bounds only become narrower."""
    count("plans")
    said = [first]
    wishes = Wishes.of(Proposal(0, bytes(32), 0, 1, 1, None, None, None, None, first, *bounds))
    least, greatest = bounds
    for eagerness, may_skip, low, high in changes:
        wrong = (low is not None and low < least) or (high is not None and high > greatest)
        problem = wishes.adjust(Adjust(0, eagerness, may_skip, least=low, greatest=high))
        assert (problem is not None) == wrong
        if wrong:
            continue
        said += [eagerness] if eagerness is not None else []
        least, greatest = least if low is None else low, greatest if high is None else high
    latest = said[-1]
    assert (wishes.least, wishes.greatest) == (least, greatest)
    assert wishes.takes_metadata() == _takes(latest, None)
    assert wishes.takes_payload(size) == _takes(latest, size)
    assert wishes.ever_took_metadata() == any(_takes(one, None) for one in said)
    fits = bounds[0] <= size <= bounds[1]
    assert wishes.ever_took_payload(size) == (fits and any(_takes(one, size) for one in said))
    assert wishes.ever_took_notice(size) == (not fits or any(not _takes(one, size) for one in said))
    assert wishes.ever_took_notice(None) == any(one.wish is not Wish.ALL for one in said)


def _takes(eagerness: Eagerness, size: int | None) -> bool:
    """Whether bytes of metadata (None), or of a payload of some size, are to be sent."""
    if eagerness.wish is Wish.NOTIFY:
        return False
    return eagerness.wish is Wish.ALL or size is None or size <= eagerness.limit
