"""How much of a payload is under way.

Specification: docs/specs/proposals.md, "Behaviour".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.proposals import Proposal
from culm.testing import build_log
from tests.memory import MemoryStore
from tests.proposals.pair import Pair, Side

if TYPE_CHECKING:
    from culm.bamboo import Entry
    from culm.testing import LogBuilder
    from culm.transfer import PayloadReceived

MEBIBYTE = 1 << 20


class Taking(Side):
    """Stores nothing, because payloads of mebibytes in memory, piece by piece, would take most of the time."""

    def put(self, entry: Entry, payload: bytes | None = None) -> None:
        """Let it go."""

    def _add(self, event: PayloadReceived) -> None:
        pass


def asking(held: LogBuilder, *others: LogBuilder) -> Pair:
    """A side that has asked for logs, and one that holds the first entry of one of them."""
    holder = MemoryStore()
    holder.put(held.entries[0], held.payloads[held.entries[0].hash])
    pair = Pair(Taking(proactive=True), Side(proactive=False, store=holder))
    pair.run()
    for log in (held, *others):
        pair.a.connection.propose(Proposal(0, log.identity.public, log.log_id, 1))
    pair.b.take(pair.a.output())
    return pair


def under_way(pair: Pair) -> int:
    """Bytes of data that one more round brings to the taking side: the holder sends all that it has credit for."""
    before = pair.a.received
    pair.b.take(pair.a.output())
    pair.a.take(pair.b.output(limit=64 * MEBIBYTE))
    return pair.a.received - before


@pytest.mark.slow
def test_it_grows_until_news_come() -> None:
    """1 MiB is under way at first, 4 MiB while one payload comes alone, and little once news came beside it."""
    large, news = build_log(1, payload_size=60_000_000), build_log(2, seed=2)
    pair = asking(large, news)
    amounts = [under_way(pair) for _ in range(14)]
    assert amounts[0] == pytest.approx(MEBIBYTE, rel=0.01)
    assert max(amounts) == pytest.approx(4 * MEBIBYTE, rel=0.01)
    for entry in news.entries:
        pair.b.put(entry, news.payloads[entry.hash])
    amounts = [under_way(pair) for _ in range(3)]
    assert amounts[-1] < MEBIBYTE
    pair.run()
    assert len([event for event in pair.a.events if getattr(event, "complete", False)]) == 3


def test_news_go_before_the_rest_of_a_payload() -> None:
    """A proposal that had nothing left to send has the next turn when its log grows, also amid another payload."""
    large, news = build_log(1, payload_size=3_000_000), build_log(1, payload_size=20, seed=2)
    pair = asking(large, news)
    for _ in range(2):  # In the second turn it shows that there is nothing to send of the other log.
        pair.a.take(pair.b.output(limit=100_000))
    pair.b.put(news.entries[0], news.payloads[news.entries[0].hash])
    pair.b.take(pair.a.output())
    sent = pair.b.output(limit=100_000)
    payload = news.payloads[news.entries[0].hash]
    assert 0 < sent.index(payload) < 400


def test_a_piece_fits_its_credit() -> None:
    """All that is written of a payload goes out with the credit there is: nothing is left for a packet of its own."""
    large = build_log(1, payload_size=3_000_000)
    pair = asking(large)
    sent = pair.b.output(limit=64 * MEBIBYTE)
    assert MEBIBYTE - 100 < len(sent) < MEBIBYTE
    assert pair.b.session.data_to_send() == b""
    assert pair.b.session._mux.queued(1) == 0
