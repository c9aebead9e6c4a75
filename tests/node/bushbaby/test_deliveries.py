"""What was sent to a peer that never confirms anything: when to send it again, and when to ask."""

from __future__ import annotations

import pytest

from culm.node.bushbaby.deliveries import STORED_A_SECOND, Deliveries

LOG, OTHER = (b"a" * 32, 1), (b"b" * 32, 2)


def test_what_was_sent_is_not_sent_again_before_it_can_be_stored() -> None:
    """Of what a peer asks for again only what it was not sent goes; everything, once it had the time and some more."""
    sent = Deliveries()
    assert [(1, 30)] == sent.due(LOG, (1, 30), 100.0)
    sent.sent(LOG, [*range(1, 11), *range(21, 31)], 100.0)
    stored = 100.0 + 20 / STORED_A_SECOND
    assert [(11, 20), (31, 40)] == sent.due(LOG, (5, 40), stored)
    assert [(1, 40)] == sent.due(OTHER, (1, 40), stored)
    assert [(5, 40)] == sent.due(LOG, (5, 40), stored + 5.1)


def test_the_wait_doubles_and_the_third_time_is_the_last() -> None:
    """Each time the wait is longer, and what was sent three times is not sent any more."""
    sent, now, waits = Deliveries(), 0.0, []
    for _ in range(3):
        sent.sent(LOG, [1, 2, 3], now)
        waits.append(next((wait for wait in range(100) if sent.due(LOG, (1, 3), now + wait) == [(1, 3)]), None))
        now += waits[-1] or 0
    assert waits == [6, 11, None]


def test_the_log_sent_last_is_asked_about_until_the_peer_is_silent() -> None:
    """The question comes after some seconds, again if the peer wants what it was sent, and not behind silence."""
    sent = Deliveries()
    assert sent.question(0.0) is None
    sent.sent(OTHER, [1], 0.0)
    sent.sent(LOG, range(1, 61), 0.0)
    assert [sent.question(now) for now in (4.9, 5.0, 7.0)] == [None, LOG, None]
    assert [] == sent.due(LOG, (20, 60), 7.0)
    assert [sent.question(now) for now in (11.0, 14.0, 16.0)] == [None, LOG, None]
    assert not sent.is_taken
    assert sent.question(17.1) is None
    assert sent.is_taken
    assert sent.is_pending(17.1)  # Some peers read the question only when all is stored.
    assert not sent.is_pending(61 / STORED_A_SECOND + 0.1)
    assert sent.unconfirmed == 61
    sent.confirm()
    assert sent.unconfirmed == 0


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_peer_that_hangs_up_early_confirms_nothing(is_silent: bool) -> None:
    """Its end means something only if it did not ask again for what it was sent."""
    sent = Deliveries()
    sent.sent(LOG, [1], 0.0)
    sent.question(5.0)
    if is_silent:
        sent.question(9.0)
    sent.confirm()
    assert sent.unconfirmed == (0 if is_silent else 1)
