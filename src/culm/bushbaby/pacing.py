"""How fast one may write to the deployed peer (bushbaby.md, "Replication as the deployed peer does it").

It disconnects when twelve or more small messages come in one write. So a write takes at most ten messages, and the
next one waits for a tick. Our own nodes need none of this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MESSAGES_A_WRITE = 10
TICK_SECONDS = 0.15


@dataclass(slots=True)
class Pacer:
    """Says how many messages may be written now. Times are seconds of any steady clock."""

    _sent: int = field(default=0)
    _since: float = field(default=float("-inf"))

    def allowed(self, now: float) -> int:
        """How many messages may be written now."""
        if now - self._since >= TICK_SECONDS:
            self._sent, self._since = 0, now
        return MESSAGES_A_WRITE - self._sent

    def wrote(self, messages: int) -> None:
        """Messages were written."""
        self._sent += messages

    def wait(self, now: float) -> float:
        """Seconds until more may be written; 0 for at once."""
        return 0.0 if self.allowed(now) > 0 else max(0.0, self._since + TICK_SECONDS - now)
