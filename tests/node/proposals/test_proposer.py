"""What is proposed while something else already happens: plain cases that storms have found."""

from __future__ import annotations

from contextlib import ExitStack

from culm.node.interests.missing import EVERYTHING
from culm.proposals import Limits
from culm.testing.builders import LogBuilder, build_log
from tests.node.holdings import a_store, key
from tests.node.quiet import ProposalEnd, talk


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
