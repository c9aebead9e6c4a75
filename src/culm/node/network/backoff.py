"""How long to wait before a peer is tried again: longer each time, never the same for two nodes, never for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_DOUBLINGS = 64


class Backoff:
    """The waits between attempts, in seconds: ``first``, doubled each time up to ``most``, less up to a half by chance.

    ``chance`` gives numbers from 0 to below 1.
    """

    def __init__(self, first: float, most: float, chance: Callable[[], float]) -> None:
        self._first = first
        self._most = most
        self._chance = chance
        self._failures = 0

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""
        return self._failures > 0

    def failed(self) -> float:
        """An attempt failed: how long to wait."""
        wait = min(self._most, self._first * 2.0**self._failures)
        self._failures = min(self._failures + 1, _MAX_DOUBLINGS)
        return self._jittered(wait)

    def succeeded(self) -> None:
        """A session was good: the next failure is a first one again."""
        self._failures = 0

    def after(self, seconds: float) -> float:
        """A session ended well: how long to wait, of so many seconds."""
        return self._jittered(seconds)

    def _jittered(self, wait: float) -> float:
        return wait * (0.5 + self._chance() / 2)
