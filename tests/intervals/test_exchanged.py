"""What a connection remembers of logs: bounded, and cheap however many logs a peer asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.bamboo import Identity
from culm.intervals.exchanged import Histories

if TYPE_CHECKING:
    from culm.types import Log

AUTHOR = Identity(bytes(32)).public
MOST = 10


class Kept:
    """Histories with a set of logs in use; ``looks`` counts how often that was asked for."""

    def __init__(self) -> None:
        self.in_use: set[Log] = set()
        self.looks = 0
        self.histories = Histories(MOST, self._in_use)

    def _in_use(self) -> set[Log]:
        self.looks += 1
        return self.in_use

    def ask(self, number: int) -> None:
        """Exchange entry 1 of a log."""
        self.histories.of((AUTHOR, number)).sent.add(1, is_payload=False)

    def has(self, number: int) -> bool:
        """Whether what was exchanged of a log is remembered."""
        return bool(self.histories.of((AUTHOR, number)).sent)


def test_the_log_that_was_asked_for_longest_ago_is_forgotten_first() -> None:
    """Of more logs than are remembered, the newest half of that number is left at least."""
    kept = Kept()
    for number in range(MOST):
        kept.ask(number)
    kept.ask(0)
    kept.ask(MOST)
    assert [number for number in (0, MOST, MOST - 1, 1, 2) if kept.has(number)] == [0, MOST, MOST - 1]


def test_logs_in_use_are_not_forgotten() -> None:
    """However many logs come after them, what was exchanged of logs in use is kept."""
    kept = Kept()
    kept.in_use = {(AUTHOR, number) for number in range(50)}
    for number in range(1000):
        kept.ask(number)
    assert all(kept.has(number) for number in range(50))
    assert not any(kept.has(number) for number in range(50, 900))


def test_many_logs_in_use_cost_no_look_at_all_of_them_for_each() -> None:
    """A peer that asks for ten thousand logs, and has all of them open, makes us go through them some dozen times."""
    kept = Kept()
    for number in range(10_000):
        kept.in_use.add((AUTHOR, number))
        kept.ask(number)
    assert kept.looks < 20
