"""Who fetches what: a log is fetched from one peer at a time, whichever peers offer it.

Sessions of one node share a ``Claims``. Whoever finds a log taken waits its turn, and then looks again at what is still
missing: most often nothing. A session that gets nowhere loses its logs to others who want them, and so it does a log of
which very little comes: whoever sends a byte now and then cannot keep it from us.

Specification: docs/specs/culm.md, "What is fetched".
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from culm.types import Log

STALL_SECONDS = 10.0
"""Without anything from its peer, after which a session's logs may be fetched by others."""
PATIENCE_SECONDS = 60.0
"""That a session may take over a log whatever comes of it; then the least pace goes."""
LEAST_PACE = 1024
"""Bytes a second of a log that a session has to bring, lest others may fetch the log, too."""


class Claimant(Protocol):
    """A session, to the others."""

    @property
    def news_at(self) -> float:
        """When its peer sent something of use, on the clock of ``take``."""

    def brought(self, log: Log) -> int:
        """The bytes that came of a log which it fetches."""

    def claim_freed(self, log: Log) -> None:
        """A log that it waits for is free."""


class _Claim(NamedTuple):
    """Who fetches a log, and since when."""

    holder: Claimant
    since: float

    def is_lost(self, log: Log, now: float) -> bool:
        """Whether others may fetch the log."""
        if now - self.holder.news_at > STALL_SECONDS:
            return True
        spent = now - self.since
        return spent > PATIENCE_SECONDS and self.holder.brought(log) < LEAST_PACE * spent


class Claims:
    """Which session fetches which log."""

    def __init__(self) -> None:
        self._claims: dict[Log, _Claim] = {}
        self._held: defaultdict[Claimant, set[Log]] = defaultdict(set)
        self._waiting: defaultdict[Log, dict[Claimant, None]] = defaultdict(dict)

    def take(self, log: Log, claimant: Claimant, now: float) -> bool:
        """Take a log to fetch; False if another session has it, which is then waited for."""
        claim = self._claims.get(log)
        if claim is not None and claim.holder is not claimant:
            if not claim.is_lost(log, now):
                self._waiting[log][claimant] = None
                return False
            self._held[claim.holder].discard(log)
        self._claims[log] = _Claim(claimant, now)
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
        claim = self._claims.get(log)
        if claim is not None and claim.holder is claimant:
            del self._claims[log]
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
        return len(self._claims)
