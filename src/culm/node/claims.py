"""Who fetches what: a log is fetched from one peer at a time, whichever peers offer it.

Sessions of one node share a ``Claims``. Whoever finds a log taken waits its turn, and then looks again at what is still
missing: most often nothing. A session that gets nowhere loses its logs to others who want them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from culm.store import Log

STALL_SECONDS = 10.0
"""Without anything from its peer, after which a session's logs may be fetched by others."""


class Claimant(Protocol):
    """A session, to the others."""

    @property
    def news_at(self) -> float:
        """When its peer sent something of use, on the clock of ``take``."""

    def claim_freed(self, log: Log) -> None:
        """A log that it waits for is free."""


class Claims:
    """Which session fetches which log."""

    def __init__(self) -> None:
        self._holders: dict[Log, Claimant] = {}
        self._held: defaultdict[Claimant, set[Log]] = defaultdict(set)
        self._waiting: defaultdict[Log, dict[Claimant, None]] = defaultdict(dict)

    def take(self, log: Log, claimant: Claimant, now: float) -> bool:
        """Take a log to fetch; False if another session has it, which is then waited for."""
        holder = self._holders.get(log)
        if holder is not None and holder is not claimant:
            if now - holder.news_at <= STALL_SECONDS:
                self._waiting[log][claimant] = None
                return False
            self._held[holder].discard(log)
        self._holders[log] = claimant
        self._held[claimant].add(log)
        self._wait_no_more(log, claimant)
        return True

    def _wait_no_more(self, log: Log, claimant: Claimant) -> None:
        waiting = self._waiting.get(log)
        if waiting is not None:
            waiting.pop(claimant, None)
            if not waiting:
                del self._waiting[log]

    def release(self, log: Log, claimant: Claimant) -> None:
        """A log was fetched, or is not wanted any more."""
        if self._holders.get(log) is claimant:
            del self._holders[log]
            self._held[claimant].discard(log)
            for other in list(self._waiting.pop(log, ())):
                other.claim_freed(log)

    def leave(self, claimant: Claimant) -> None:
        """A session is over."""
        for log in [log for log, waiting in self._waiting.items() if claimant in waiting]:
            self._wait_no_more(log, claimant)
        for log in list(self._held.get(claimant, ())):
            self.release(log, claimant)
        self._held.pop(claimant, None)

    def __len__(self) -> int:
        return len(self._holders)
