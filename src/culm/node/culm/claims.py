"""Claims: a log is fetched from one peer at a time, whichever peers offer it.

*The problem.* A node with ten peers hears of a new log of 1 GB from all ten. If each session fetches what is missing,
10 GB come in and nine of them are thrown away.

*The way chosen.* Before a session fetches a log, it *claims* the log, as one takes the only copy of a book from a
library. A session that finds the log claimed waits. When the claim is released, it looks again at what is still
missing, which is most often nothing.

*What can go wrong.* A peer may claim to have a log and then send nothing, by malice or over a dead link. So a claim is
lost, and the next session that wants the log gets it, in two cases:

- The holder's peer has sent no useful message for ``STALL_SECONDS``.
- After ``PATIENCE_SECONDS``, the log has come at less than ``LEAST_PACE`` bytes a second on average. Without this rule,
  one byte now and then would keep a log from us for ever.

A holder that lost its claim is not stopped: what it still brings is as good as from anybody. A claim is a matter of
bandwidth only; that two sessions fetch the same log does no harm.

Specification: docs/specs/culm.md, "What is fetched".
"""

from typing import NamedTuple, Protocol

from culm.types import Log

STALL_SECONDS = 10.0
"""A session whose peer has sent no useful message for so long loses its claims. Well above any pause of a working
network, and well below ``idle_seconds`` (30 s), after which the session would end anyway."""
PATIENCE_SECONDS = 60.0
"""For so long a claim holds however little comes of the log, because a peer may be busy with the logs before it."""
LEAST_PACE = 1024
"""Bytes a second of a log, on average, that keep the claim afterwards. Even a slow radio link does better than that."""


class Claimant(Protocol):
    """What claims need to know of a session."""

    @property
    def news_at(self) -> float:
        """When its peer last sent something of use, on the clock of ``take``."""

    def brought(self, log: Log) -> int:
        """The bytes that have come of a log since it was claimed."""

    def claim_freed(self, log: Log) -> None:
        """A log that the session waits for is free: claim it again if it is still wanted."""


class _Claim(NamedTuple):
    """Who fetches a log, since when, and the sessions that wait for it, in the order in which they came."""

    holder: Claimant
    since: float
    waiting: dict[Claimant, None]

    def is_lost(self, log: Log, now: float) -> bool:
        """Whether another session may take the claim; see the module's two rules."""
        if now - self.holder.news_at > STALL_SECONDS:
            return True
        spent = now - self.since
        return spent > PATIENCE_SECONDS and self.holder.brought(log) < LEAST_PACE * spent


class Claims:
    """Which session of a node fetches which log. The sessions of one node share one object."""

    def __init__(self) -> None:
        self._claims: dict[Log, _Claim] = {}

    def take(self, log: Log, claimant: Claimant, now: float) -> bool:
        """Claim a log; False if another session holds it. The claimant's ``claim_freed`` is then called later."""
        claim = self._claims.get(log) or _Claim(claimant, now, {})
        if claim.holder is not claimant and not claim.is_lost(log, now):
            claim.waiting[claimant] = None
            return False
        claim.waiting.pop(claimant, None)
        self._claims[log] = _Claim(claimant, now, claim.waiting)
        return True

    def release(self, log: Log, claimant: Claimant) -> None:
        """The claimant has fetched a log, or wants it no longer. Ignored if it has lost the claim meanwhile."""
        claim = self._claims.get(log)
        if claim is not None and claim.holder is claimant:
            del self._claims[log]
            for other in list(claim.waiting):
                other.claim_freed(log)

    def leave(self, claimant: Claimant) -> None:
        """A session is over: release all that it holds, and wait for nothing more on its behalf."""
        for claim in self._claims.values():
            claim.waiting.pop(claimant, None)
        for log in list(self._claims):
            self.release(log, claimant)

    def __len__(self) -> int:
        return len(self._claims)
