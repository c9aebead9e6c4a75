"""Which entries go into which items and messages.

Specification: docs/specs/bushbaby.md, "BAMBOO", "Pacing".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from culm.bushbaby.grouping import CULM_STYLE, DEPLOYED_STYLE, Style, item_size, items_of, messages_of
from culm.bushbaby.limits import MAX_PLAINTEXT
from culm.bushbaby.messages import bamboo_size
from culm.bushbaby.pacing import MESSAGES_A_WRITE, TICK_SECONDS, Pacer


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
    """No item ends with an empty payload; messages of several items have at most 19 entries and 16,352 bytes."""
    items, left = items_of(entries, DEPLOYED_STYLE)
    assert all(item[-1].size for item in items)
    assert not any(entry.size for entry in left)
    for message in messages_of(items, DEPLOYED_STYLE):
        if len(message) > 1:
            assert sum(map(len, message)) <= 19
            assert bamboo_size([item_size(item) for item in message]) <= MAX_PLAINTEXT


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
        assert sum(map(len, message)) <= 19
        assert bamboo_size([item_size(item) for item in message]) <= MAX_PLAINTEXT


@given(st.lists(st.integers(0, 1000), max_size=50))
def test_the_pacer_lets_ten_through_a_tick(milliseconds: list[int]) -> None:
    """However often one asks, no more than ten messages go in a tick, and at the time it names all ten may go."""
    pacer, now = Pacer(), 100.0
    written: list[float] = []
    for wait in milliseconds:
        now += wait / 1000
        pacer.tell(now)
        while pacer.left:
            pacer.hand_out()
            written.append(now)
        pacer.tell(now)
        following = pacer.next_call(waits=True)
        assert following is not None
        assert now < following < now + TICK_SECONDS + 1e-6
        later = replace(pacer)
        later.tell(following)
        assert later.left == MESSAGES_A_WRITE
    for first, second in zip(written, written[MESSAGES_A_WRITE:], strict=False):
        assert second - first > TICK_SECONDS - 1e-6


def test_the_pacer_asks_for_the_time_of_what_was_written() -> None:
    """Messages whose time is not known count for a tick that begins when it is told, and nothing is due before."""
    pacer = Pacer()
    assert pacer.next_call(waits=True) is None
    pacer.hand_out()
    assert pacer.next_call(waits=False) == float("-inf")
    pacer.tell(50.0)
    assert pacer.left == MESSAGES_A_WRITE - 1
    assert pacer.next_call(waits=True) is None
    for _ in range(pacer.left):
        pacer.hand_out()
    pacer.tell(50.1)
    assert pacer.next_call(waits=False) is None
    assert pacer.next_call(waits=True) == 50.0 + TICK_SECONDS
