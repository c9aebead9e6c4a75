"""What a follower asks a perfect peer for: against the items of its interest, one by one.

Specification: docs/specs/intervals.md, "What a node asks for".
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from culm.bamboo import MAX_U64, path
from culm.intervals import At, Interval, Limits, MetadataOnly, Regular, Single
from culm.node.culm.offers import asked_of, lacks, offer_of
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.intervals.followed import FollowOptions
from culm.ranges import Range, RangeSet
from culm.store import PayloadState
from tests.models import MARKS, count, models
from tests.node.holdings import ALL, ENTRY, LENGTH, NO, a_store, fill, holdings, interests, key, whole_log
from tests.node.interests.test_missing_model import held_tails, needs, tails, wants_payload
from tests.node.quiet import IntervalEnd, talk

if TYPE_CHECKING:
    from culm.store import SQLiteStore
    from tests.store.dictionary import LogModel

pytestmark = MARKS

LOG = whole_log()
HERE = range(1, LENGTH + 1)
SIZE = {entry.seq: entry.size for entry in LOG.entries}
EMPTY = {seq for seq in HERE if not SIZE[seq]}  # payloads that come with their entries
LIMITS = st.sampled_from([None, None, Limits(requests=5, window=300, chunk=60)])


def held(store: SQLiteStore) -> tuple[set[int], set[int]]:
    """The verified entries, and those with their payload."""
    found = list(store.entries(key(LOG)))
    return {stored.entry.seq for stored in found}, {stored.entry.seq for stored in found if stored.payload_complete}


def before(model: LogModel) -> tuple[set[int], set[int], set[int]]:
    """The same of a model, and the entries whose payload was forgotten."""
    return (
        {entry.seq for entry in model.verified()},
        {entry.seq for entry in model.complete()},
        {entry.seq for entry, payload in model.payloads.items() if payload.state is PayloadState.FORGOTTEN},
    )


def _certificates(interval: Interval) -> int:
    """How many entries of certificate pools an interval asks for."""
    match interval:
        case Regular(At(seq, dist)) | Single(seq, dist) | MetadataOnly(seq, False, dist):
            return min(dist, len(path(seq, 1)) - 1)
        case MetadataOnly(_, True, dist):  # a path that ends a pool
            return dist + 1
        case _:
            return 0


def check_repeated(asks: IntervalEnd, serves: IntervalEnd, parts: int) -> None:
    """Of the same part of an interest no metadata comes twice but that of certificates, once for each span."""
    pools = sum(_certificates(request.interval) for request in serves.requested if not request.lazy)
    repeated = sum(asks.arriving.entries.values()) - len(asks.arriving.entries)
    if parts == 1:
        assert repeated <= pools
    assert max(asks.arriving.entries.values(), default=0) <= parts + pools


@models(40)
@given(
    ours=holdings(is_forked=False),
    interest=interests(),
    limits=LIMITS,
    sizes=st.sampled_from([(None, None), (None, None), (4, None), (None, 10)]),
)
@example(  # nothing is behind 45, which says nothing of 40, a member of the pool there
    ours=([*[NO] * 12, ENTRY, ENTRY, *[NO] * 11, ALL, *[NO] * 15, *[ALL] * 4], 0),
    interest=EVERYTHING,
    limits=Limits(requests=5, window=300, chunk=60),
    sizes=(4, None),
)
def test_from_a_peer_that_has_everything(
    ours: tuple[list[str], int], interest: RangeSet, limits: Limits | None, sizes: tuple[int | None, int | None]
) -> None:
    """All of an interest comes that is not held, with what verifies it; nothing that is not wanted, nothing twice."""
    count("sessions")
    options = FollowOptions(least_size=sizes[0], greatest_size=sizes[1])
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        model = fill(near, LOG, *ours)
        far.add(LOG.items())
        entries, payloads, forgotten = before(model)
        waiting = {entry.seq for entry in model.payloads} - entries
        asks, serves = IntervalEnd(near, interest, options, limits=limits), IntervalEnd(far, interest, limits=limits)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.follower.add([key(LOG)])
        talk(asks, serves)
        assert asks.is_done
        found = held(near)

    def fits(seq: int) -> bool:
        return (sizes[0] or 0) <= SIZE[seq] <= (MAX_U64 if sizes[1] is None else sizes[1])

    items = list(interest)
    wanted = {seq for seq in HERE if wants_payload(items, seq, LENGTH, SIZE[seq]) and fits(seq)}
    metadata = {seq for seq in HERE if any(seq in _metadata(item) for item in items)}
    assert metadata <= found[0]
    assert wanted - forgotten <= found[1]
    assert tails(items, [], LENGTH) <= found[0]
    came, fetched = ({seq for _, seq in some} for some in (asks.arriving.entries, asks.arriving.payloads))
    assert came <= needs(items, LENGTH) | waiting | held_tails(items, entries, LENGTH)
    assert came & entries <= fetched - payloads  # there is no interval of payloads alone
    check_repeated(asks, serves, len(items))
    if not any(item.is_open and not (item.payloads or item.sparse) for item in items):  # there is no such interval
        assert fetched <= (wanted - payloads) | EMPTY
    assert max(asks.arriving.payloads.values(), default=1) == 1
    assert all(asks.arriving.bytes[key(LOG), seq] <= SIZE[seq] for seq in HERE)
    assert asks.most_open <= (limits or Limits()).requests


def _metadata(item: Range) -> set[int]:
    return {seq for seq in HERE if item.contains_metadata(seq, LENGTH)}


def _may_have_payload(item: Range, seq: int, newest: int) -> bool:
    return item.payloads and not item.forbids(seq) and item.covers(seq, newest)


@models(40)
@given(ours=holdings(is_forked=False), theirs=holdings(is_forked=False), interest=interests(), limits=LIMITS)
@example(  # 11 is the newest entry held for a moment, and 12 is in its pool
    ours=([*[NO] * 34, ALL, *[NO] * 10], 0),
    theirs=([ENTRY] * 45, 0),
    interest=RangeSet(
        [
            Range(45, 45, sparse=True, payloads=False),
            Range(33, 39, sparse=True, metadata=False, least_size=4, size_limit=11, forbidden=(34, 35, 36)),
            Range(11, None, sparse=True, metadata=False, least_size=4, size_limit=11, forbidden=(18, 19, 41)),
        ]
    ),
    limits=Limits(requests=5, window=300, chunk=60),
)
def test_what_a_peer_offers(
    ours: tuple[list[str], int], theirs: tuple[list[str], int], interest: RangeSet, limits: Limits | None
) -> None:
    """All that a peer has and we want and lack comes, whatever gaps either has; after that it has nothing for us."""
    count("sessions")
    policy = Policy(interests={key(LOG): interest})
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        model, other = fill(near, LOG, *ours), fill(far, LOG, *theirs)
        entries, payloads, forgotten = before(model)
        theirs_entries, theirs_payloads, _ = before(other)
        offer = offer_of(far, key(LOG))
        ranges = asked_of(policy, offer)
        asks, serves = IntervalEnd(near, interest, limits=limits), IntervalEnd(far, interest, limits=limits)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.follower.add_offered(key(LOG), ranges, offer.held)
        talk(asks, serves)
        assert asks.is_done
        found = held(near)
        still = lacks(near, policy, offer)
    items, newest = list(interest), max(theirs_entries, default=0)
    metadata = {seq for seq in theirs_entries if any(item.contains_metadata(seq, newest) for item in items)}
    wanted = {seq for seq in theirs_payloads if wants_payload(items, seq, newest, SIZE[seq])}
    assert metadata <= found[0]
    assert wanted - forgotten <= found[1]
    assert not still
    came, fetched = ({seq for _, seq in some} for some in (asks.arriving.entries, asks.arriving.payloads))
    waiting = {entry.seq for entry in model.payloads} - entries
    # The size of a payload is not known before its entry is held.
    unknown = {seq for seq in theirs_payloads - entries if any(_may_have_payload(item, seq, newest) for item in items)}
    first = metadata | wanted | waiting | unknown
    # An open path's tail moves with the newest entry held. That is another one after each round, and a small window
    # makes many rounds, so the tail of each entry that comes for its own sake may be asked for, too.
    moments = [entries, *({seq} for seq in first if seq > max(entries, default=0))]
    ends = tails(items, theirs_entries | found[0], LENGTH).union(*(held_tails(items, each, LENGTH) for each in moments))
    needed = first | (ends & theirs_entries)
    assert came <= {below for seq in needed for below in path(seq, 1)}
    assert came & entries <= fetched - payloads  # there is no interval of payloads alone
    check_repeated(asks, serves, len(items))
    assert fetched <= (wanted - payloads) | EMPTY
    assert max(asks.arriving.payloads.values(), default=1) == 1
