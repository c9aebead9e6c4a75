"""Which entries go into which items and messages.

Specification: docs/specs/bushbaby.md, "BAMBOO", "Pacing".
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from culm.bushbaby.grouping import CULM_STYLE, DEPLOYED_STYLE, Style, item_size, items_of, messages_of
from culm.bushbaby.messages import bamboo_size
from culm.bushbaby.options import MAX_PLAINTEXT
from culm.bushbaby.outbox import MESSAGES_A_WRITE, TICK_SECONDS, Outbox


@dataclass(frozen=True)
class Some:
    """An entry of which only the sizes matter."""

    number: int
    encoded: bytes
    size: int


ENTRIES = st.lists(st.tuples(st.integers(170, 322), st.sampled_from([0, 0, 1, 200, 5000, 20_000])), max_size=60).map(
    lambda sizes: [Some(number, bytes(length), size) for number, (length, size) in enumerate(sizes)]
)


@given(ENTRIES, st.sampled_from([CULM_STYLE, DEPLOYED_STYLE]))
def test_every_entry_goes_once_and_in_order(entries: list[Some], style: Style) -> None:
    """Grouping loses nothing and keeps the order; what stands behind empty payloads a second time was sent before."""
    items, left = items_of(entries, style)
    sent = [entry.number for message in messages_of(items, style) for item in message for entry in item]
    first_times = list(dict.fromkeys(sent))
    assert first_times + [entry.number for entry in left] == list(range(len(entries)))
    assert len(sent) == len(first_times) or style.join_empty


@given(ENTRIES)
def test_the_deployed_peers_bounds_are_kept(entries: list[Some]) -> None:
    """No item ends with an empty payload; messages of several items have at most 16,352 bytes, and are few."""
    items, left = items_of(entries, DEPLOYED_STYLE)
    assert all(item[-1].size for item in items)
    assert not any(entry.size for entry in left)
    messages = list(messages_of(items, DEPLOYED_STYLE))
    for message, following in zip(messages, [*messages[1:], []], strict=False):
        size = bamboo_size([item_size(item) for item in message])
        assert len(message) == 1 or size <= MAX_PLAINTEXT
        assert not following or size + item_size(following[0]) > MAX_PLAINTEXT - 16 * (2 + len(message))


def test_a_long_run_of_empty_payloads_is_broken_up() -> None:
    """Sixty empty payloads in a row do not make one message that is too large."""
    entries = [
        Some(0, bytes(300), 10),
        *(Some(number, bytes(300), 0) for number in range(1, 61)),
        Some(61, bytes(300), 1),
    ]
    items, left = items_of(entries, DEPLOYED_STYLE)
    assert left == []
    for message in messages_of(items, DEPLOYED_STYLE):
        assert bamboo_size([item_size(item) for item in message]) <= MAX_PLAINTEXT


def paced(messages: int) -> Outbox:
    """A paced outbox with so many messages of one byte."""
    outbox = Outbox(paced=True)
    for _ in range(messages):
        outbox.add(b"x")
    return outbox


@given(st.lists(st.integers(0, 1000), max_size=50))
def test_the_pace_lets_five_through_a_tick(milliseconds: list[int]) -> None:
    """However often one asks, no more than five messages go in a tick, and at the time it names all five may go."""
    outbox, now, following = paced(1000), 100.0, 100.0
    written: list[float] = []
    for wait in milliseconds:
        now += wait / 1000
        outbox.tell(now)
        written += [now] * len(outbox.take(1000))
        outbox.tell(now)
        due = outbox.next_call()
        assert due is not None
        assert now < due < now + TICK_SECONDS + 1e-6
        following = due
    outbox.tell(following)
    assert len(outbox.take(1000)) == MESSAGES_A_WRITE
    for first, second in zip(written, written[MESSAGES_A_WRITE:], strict=False):
        assert second - first > TICK_SECONDS - 1e-6


def test_the_pace_asks_for_the_time_of_what_was_written() -> None:
    """Messages whose time is not known count for a tick that begins when it is told, and nothing is due before."""
    outbox = paced(MESSAGES_A_WRITE)
    assert outbox.next_call() is None
    assert len(outbox.take(1)) == 1
    assert outbox.next_call() == float("-inf")
    outbox.tell(50.0)
    assert outbox.next_call() is None
    assert len(outbox.take(1000)) == MESSAGES_A_WRITE - 1
    outbox.tell(50.1)
    assert outbox.next_call() is None
    outbox.add(b"x")
    assert outbox.take(1000) == b""
    assert outbox.next_call() == 50.1 + TICK_SECONDS


def test_a_late_message_and_an_early_one_are_no_surplus() -> None:
    """Three messages just before the end of a tick and five just behind it would be eight at once, so they wait."""
    outbox = paced(2)
    outbox.take(1000)
    outbox.tell(1.0)
    for _ in range(10):
        outbox.add(b"x")
    assert len(outbox.take(1000)) == MESSAGES_A_WRITE - 2
    outbox.tell(1.0 + TICK_SECONDS - 0.001)
    outbox.tell(1.0 + TICK_SECONDS + 0.001)
    assert outbox.take(1000) == b""


def test_nothing_follows_a_message_that_keeps_the_peer_busy() -> None:
    """Behind a message with a pause, the next one waits that long; among Culm nodes it does not."""
    outbox = paced(0)
    outbox.add(b"list", 2.0)
    outbox.add(b"x")
    assert outbox.take(1000) == b"list"
    outbox.tell(10.0)
    assert (outbox.take(1000), outbox.next_call()) == (b"", 12.0)
    outbox.tell(12.0)
    assert outbox.take(1000) == b"x"
    outbox = Outbox(paced=False)
    outbox.add(b"list", 2.0)
    outbox.add(b"x")
    assert outbox.take(1000) == b"listx"


def test_a_cut_message_counts_once() -> None:
    """The pace counts messages, however few bytes are taken at a time."""
    outbox = paced(0)
    outbox.add(bytes(100))
    assert sum(len(outbox.take(7)) for _ in range(20)) == 100
    outbox.tell(1.0)
    for _ in range(MESSAGES_A_WRITE):
        outbox.add(b"x")
    assert len(outbox.take(1000)) == MESSAGES_A_WRITE - 1
