"""When a node collects garbage: often enough for its memory, and not so often that callers could take its time."""

import pytest

from culm.node.sharing import garbage
from culm.node.sharing.garbage import Garbage

MEGABYTE = 1024 * 1024


class Node:
    """A node with a clock that only this test moves. ``takes``: the seconds of a collection."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: float) -> None:
        self.now = 100.0
        self.collected: list[float] = []
        self._takes = takes
        self.garbage = Garbage(self._collect)
        monkeypatch.setattr(garbage, "clock", lambda: self.now)

    def _collect(self) -> None:
        self.now += self._takes
        self.collected.append(self.now)

    def endure(self, calls: int, seconds: float, said: int) -> None:
        """So many calls fail, one each so many seconds, after they said so many bytes."""
        for _ in range(calls):
            self.now += seconds
            self.garbage.ended(said, failed=True)


def test_short_calls_take_a_twentieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand failing calls a second have a node collect garbage for a twentieth of the time, not for half of it."""
    node = Node(monkeypatch, takes=0.02)
    node.endure(10_000, 0.001, said=100)
    assert 15 <= len(node.collected) <= 25  # 25 times 0.02 s are a twentieth of 10 s.


def test_collections_that_take_no_time_need_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a collection is quick, each 32nd failure has one."""
    node = Node(monkeypatch, takes=0.0)
    node.endure(320, 0.001, said=0)
    assert len(node.collected) == 10


def test_much_garbage_is_not_waited_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """What peers said in 16 MB is collected at once, however long the last collection took."""
    node = Node(monkeypatch, takes=10.0)
    node.endure(1, 0.001, said=MEGABYTE)
    node.endure(15, 0.001, said=MEGABYTE)
    assert len(node.collected) == 1
    node.endure(1, 0.001, said=MEGABYTE)
    assert len(node.collected) == 2


def test_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was left during a rest is collected when the next session ends after it."""
    node = Node(monkeypatch, takes=0.1)
    node.endure(2, 0.001, said=2 * MEGABYTE)
    assert len(node.collected) == 1
    node.endure(1, 2.1, said=0)
    assert len(node.collected) == 2
