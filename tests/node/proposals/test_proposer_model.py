"""What a proposer proposes to a perfect peer: against the items of its interest, one by one.

Specification: docs/specs/proposals.md, "What a node proposes".
"""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import example, given
from hypothesis import strategies as st

from culm.bamboo import MAX_U64, path
from culm.node.interests.missing import EVERYTHING
from culm.node.proposals.options import ProposalOptions
from culm.proposals import Limits
from culm.ranges import Range, RangeSet, read_range
from tests.models import MARKS, count, models
from tests.node.holdings import ALL, ENTRY, FORGOTTEN, LENGTH, NO, a_store, fill, holdings, interests, key
from tests.node.interests.test_missing_model import needs, tails, wants_payload
from tests.node.intervals.test_follower_model import EMPTY, HERE, LOG, SIZE, before, held
from tests.node.proposals.test_gaps import is_proposed, span
from tests.node.quiet import ProposalEnd, talk

pytestmark = MARKS

LIMITS = st.sampled_from([None, None, Limits(proposals=3, window=400, chunk=60)])


@models(40)
@given(
    ours=holdings(is_forked=False),
    interest=interests(),
    limits=LIMITS,
    sizes=st.sampled_from([(0, MAX_U64), (0, MAX_U64), (4, MAX_U64), (0, 10)]),
)
@example(  # of a path only what is missing
    ours=([*[ALL] * 16, NO, *[ALL] * 28], 0),
    interest=RangeSet([read_range("11..43 sparse min 4")]),
    limits=None,
    sizes=(0, MAX_U64),
)
@example(  # what is being sent for one proposal is not offered because another one is held up
    ours=([*[ALL] * 14, *[NO] * 13, *[ALL] * 18], 0),
    interest=EVERYTHING,
    limits=Limits(proposals=3, window=400, chunk=60),
    sizes=(0, MAX_U64),
)
@example(  # a gap that becomes smaller while it is filled
    ours=([ENTRY, ENTRY, ENTRY, NO, *[ENTRY] * 28, NO, *[ENTRY] * 6, NO, *[ENTRY] * 4, FORGOTTEN], 0),
    interest=EVERYTHING,
    limits=Limits(proposals=3, window=400, chunk=60),
    sizes=(0, MAX_U64),
)
@example(  # only entries to come are wanted, and what verifies the next one comes before it
    ours=([NO] * 45, 0),
    interest=RangeSet([Range(43, metadata=False, least_size=4, size_limit=11, forbidden=(43, 44, 45))]),
    limits=None,
    sizes=(0, MAX_U64),
)
def test_from_a_peer_that_has_everything(
    ours: tuple[list[str], int], interest: RangeSet, limits: Limits | None, sizes: tuple[int, int]
) -> None:
    """All of an interest comes that is not held, with what verifies it; nothing that is not wanted, nothing twice."""
    count("sessions")
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        model = fill(near, LOG, *ours)
        far.add(LOG.items())
        entries, payloads, forgotten = before(model)
        waiting = {entry.seq for entry in model.payloads} - entries
        options = ProposalOptions(least_size=sizes[0], greatest_size=sizes[1])
        asks = ProposalEnd(near, interest, options, calls=True, limits=limits)
        serves = ProposalEnd(far, interest, calls=False, limits=limits)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.proposer.add([key(LOG)])
        talk(asks, serves)
        assert asks.is_done
        found = held(near)
    items = list(interest)
    wanted = {seq for seq in HERE if wants_payload(items, seq, LENGTH, SIZE[seq]) and sizes[0] <= SIZE[seq] <= sizes[1]}
    metadata = {seq for seq in HERE if any(item.contains_metadata(seq, LENGTH) for item in items)}
    assert metadata <= found[0]
    assert wanted - forgotten <= found[1]
    assert tails(items, [], LENGTH) <= found[0]
    came, fetched = ({seq for _, seq in some} for some in (asks.arriving.entries, asks.arriving.payloads))
    following = set(path(LENGTH + 1, 1)) if any(item.is_open for item in items) else set()
    between = {seq for seq in HERE if any(seq in span(item) for item in items)}
    assert came <= needs(items, LENGTH) | waiting | between | following
    proposed = {seq for seq in HERE if is_proposed(items, seq, SIZE[seq]) and sizes[0] <= SIZE[seq] <= sizes[1]}
    assert fetched <= (proposed - payloads) | EMPTY
    assert max(asks.arriving.payloads.values(), default=1) == 1
    assert all(asks.arriving.bytes[key(LOG), seq] <= SIZE[seq] for seq in HERE)
    assert asks.most_open <= (limits or Limits()).proposals
