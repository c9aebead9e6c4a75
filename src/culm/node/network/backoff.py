"""Backoff: how long to wait before a peer is tried again.

Trying again each second is fine for one peer that restarts. But when a server with a thousand callers comes back, all
of them call in the same second, it falls over, and they call in step for ever. So the wait doubles after each failure,
up to a limit, and each wait is shortened by up to a half at random, which spreads the callers out.
"""

from collections.abc import Callable

_MAX_DOUBLINGS = 64  # Far above any real limit; it only keeps the power from overflowing after months of failures.


class Backoff:
    """The waits between attempts to reach one peer, in seconds: from ``first``, doubled each time, up to ``most``.

    ``chance`` gives random numbers from 0 to below 1.
    """

    def __init__(self, first: float, most: float, chance: Callable[[], float]) -> None:
        self._first = first
        self._most = most
        self._chance = chance
        self.failures = 0  # Attempts that failed in a row, as far as they change the wait.

    def failed(self) -> float:
        """Note that an attempt failed; the seconds to wait before the next one."""
        wait = min(self._most, self._first * 2.0**self.failures)
        self.failures = min(self.failures + 1, _MAX_DOUBLINGS)
        return self.jittered(wait)

    def succeeded(self) -> None:
        """Note that a session was good, so that the next failure counts as the first one again."""
        self.failures = 0

    def jittered(self, seconds: float) -> float:
        """Up to a half less than ``seconds``: how long to wait, also after a session that ended well."""
        return seconds * (0.5 + self._chance() / 2)
