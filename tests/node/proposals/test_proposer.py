"""What is proposed while something else already happens: plain cases that storms have found."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.proposals.options import ProposalOptions
from culm.proposals import Limits
from culm.proposals.states import Said
from culm.ranges import RangeSet, read_range
from culm.testing.builders import LogBuilder, build_log
from tests.node.holdings import a_store, key
from tests.node.quiet import ProposalEnd, talk

if TYPE_CHECKING:
    from culm.proposals.exchange import Exchange


def test_asking_again_in_the_middle_of_a_payload_proposes_it_only_once() -> None:
    """A proposal that goes on inside a payload brings the rest of it: asking again must not propose that rest again.

    Otherwise each poll would add one more copy of the same bytes, and on a slow link none of them ever arrives.
    """
    log = LogBuilder(build_log(1).identity)
    payload = bytes(range(250)) * 40
    for content in (b"before", payload, b"after"):
        log.append(content)
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        far.add(log.items())
        near.add([*log.items(log.entries[:1]), (log.entries[1], None)])
        sink = near.payload_sink(log.entries[1].place)
        sink.write(payload[:1000])
        sink.close()
        asks = ProposalEnd(near, EVERYTHING, calls=True, limits=Limits(window=400, chunk=60))
        serves = ProposalEnd(far, EVERYTHING, calls=False)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.proposer.add([key(log)])

        for _ in range(10):
            serves.hear(asks.say())
            asks.hear(serves.say())
        assert 0 < asks.arriving.bytes[key(log), 2] < len(payload) - 1000
        asks.proposer.poll()
        talk(asks, serves)

        assert asks.arriving.bytes[key(log), 2] == len(payload) - 1000
        assert asks.most_open == 1
        assert [stored.payload_complete for stored in near.entries(key(log))] == [True, True, True]


def test_an_interest_that_goes_leaves_other_proposals_alone() -> None:
    """Of two logs that are being fetched one is wanted no more: its proposal is cancelled, the other goes on.

    If it were cancelled and made again, each change of an operator's mind would cost what is under way of every log.
    """
    gone, kept = (build_log(30, seed=seed, payload_size=500) for seed in (1, 2))
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        far.add([*gone.items(), *kept.items()])
        asks = ProposalEnd(near, EVERYTHING, calls=True, limits=Limits(window=400, chunk=60))
        serves = ProposalEnd(far, EVERYTHING, calls=False)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.proposer.add([key(gone), key(kept)])
        for _ in range(10):
            serves.hear(asks.say())
            asks.hear(serves.say())
        before = {exchange.proposal.log: exchange.id for exchange in ours(asks)}
        assert {key(gone), key(kept)} == before.keys()

        asks.proposer.reconsider(Policy(interests={key(kept): EVERYTHING}))
        cancelled = {exchange.id: exchange.has(Said.CANCEL_SENT) for exchange in ours(asks)}
        assert {before[key(gone)]: True, before[key(kept)]: False} == cancelled
        talk(asks, serves)

        assert list(range(1, 31)) == [stored.entry.seq for stored in near.entries(key(kept)) if stored.payload_complete]
        assert len(list(near.entries(key(gone)))) < 30


def test_a_narrowed_proposal_is_made_once_at_a_time_and_again_once_it_has_ended() -> None:
    """A peer that follows entry 2 alone lowers the end of our endless proposal to it, and ends it before, with code 84.

    While that lives asking again makes no second one, which the peer would only narrow, too. Once it has ended it must
    be made again: payload 1 is missing, so it still begins there, and nothing else would bring entry 2.
    """
    log = build_log(2, payload_size=30)
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        asks = ProposalEnd(near, EVERYTHING, ProposalOptions(mandatory=True), calls=True)
        serves = ProposalEnd(far, RangeSet([read_range("2")]), calls=False)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.proposer.add([key(log)])
        talk(asks, serves)
        assert [2] == [exchange.end for exchange in ours(asks)]
        for _ in range(3):
            asks.proposer.poll()
            talk(asks, serves)
        assert asks.most_open == 1

        far.add([(log.entries[0], None), *log.items([log.entries[1]])])
        serves.arriving.changed.add(key(log))
        talk(asks, serves)

        assert [False, True] == [stored.payload_complete for stored in near.entries(key(log))]


def test_what_is_behind_an_end_that_the_holder_has_lowered_is_offered() -> None:
    """A peer that follows entry 2 alone gets 1 and 4 from elsewhere: both come, though it has lowered our end to 2."""
    log = build_log(4, payload_size=30)
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        asks = ProposalEnd(near, EVERYTHING, calls=True)
        serves = ProposalEnd(far, RangeSet([read_range("2")]), calls=False)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.proposer.add([key(log)])
        talk(asks, serves)
        assert [2] == [exchange.end for exchange in ours(asks)]

        far.add(log.items([log.entries[0], log.entries[3]]))
        serves.arriving.changed.add(key(log))
        talk(asks, serves)

        assert [1, 4] == [stored.entry.seq for stored in near.entries(key(log)) if stored.payload_complete]


def test_what_is_behind_a_mandatory_payload_and_a_gap_is_offered() -> None:
    """A holder of entry 1 without its payload, and of entry 4, is asked for payload 1 and all behind it: 4 comes.

    Payload 1 may not be skipped, and entry 2 is lacking, so the proposal can bring nothing. It is held up all the same.
    """
    log = build_log(4, payload_size=30)
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        near.add([(log.entries[0], None)])
        far.add([(log.entries[0], None)])
        asks = ProposalEnd(near, EVERYTHING, ProposalOptions(mandatory=True), calls=True)
        serves = ProposalEnd(far, RangeSet([read_range("4..")]), calls=False)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.proposer.add([key(log)])
        talk(asks, serves)

        far.add(log.items([log.entries[3]]))
        serves.arriving.changed.add(key(log))
        talk(asks, serves)

        assert [(1, False), (4, True)] == [(each.entry.seq, each.payload_complete) for each in near.entries(key(log))]
        assert 0 == serves.arriving.entries[key(log), 1] == asks.arriving.entries[key(log), 1]


def test_a_node_that_only_serves_a_log_has_its_newest_entry_compared() -> None:
    """A node that wants nothing of a log holds another entry 1 than its peer, which asks for what is behind entry 2.

    Neither side has anything to send, so the fork shows only if the node names its entry, once all is quiet.
    """
    identity = build_log(1).identity
    theirs, held = LogBuilder(identity), LogBuilder(identity)
    theirs.append(b"one")
    theirs.append(b"two")
    held.append(b"another one")
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        near.add(theirs.items())
        far.add(held.items())
        asks = ProposalEnd(near, RangeSet([read_range("1..3")]), calls=True)
        serves = ProposalEnd(far, RangeSet(), calls=False)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.proposer.add([key(theirs)])
        talk(asks, serves)
        for end in (asks, serves):
            end.proposer.settle()
        talk(asks, serves)

        assert [{1}, {1}] == [{proof.position for proof in store.fork_proofs()} for store in (near, far)]


def ours(end: ProposalEnd) -> list[Exchange]:
    """The proposals of a side that live."""
    return [exchange for exchange in end.session.endpoint.exchanges.values() if exchange.is_ours]
