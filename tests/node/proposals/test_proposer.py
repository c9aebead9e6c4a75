"""What is proposed while something else already happens: plain cases that storms have found."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.proposals import Limits
from culm.proposals.states import Said
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


def ours(end: ProposalEnd) -> list[Exchange]:
    """The proposals of a side that live."""
    return [exchange for exchange in end.session.endpoint.exchanges.values() if exchange.is_ours]
