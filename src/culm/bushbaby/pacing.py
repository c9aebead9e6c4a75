"""How fast one may write to the deployed peer (docs/specs/bushbaby.md, "Pacing").

The deployed peer drops a connection when twelve or more small messages arrive in one of its reads. Nothing in the
protocol tells a sender of this, so the only way to be safe is to write few messages at a time: at most ten within a
tick, where a tick begins with the first of them and is long enough for the peer to have read them. Culm nodes have no
such limit and need no pacing.

The pacer cannot read a clock. It counts the messages that are handed out, and learns by ``tell`` what time it was: so
until the owner says the time, nobody knows when the tick of those messages began, and ``next_call`` asks for it at
once.
"""

from dataclasses import dataclass, field

MESSAGES_A_WRITE = 10  # Twelve make the peer drop us; eleven would do, ten leaves a margin.
TICK_SECONDS = 0.15  # The peer's own tick is 101 to 149 ms, so no two writes of ours fall into one of them.


@dataclass(slots=True)
class Pacer:
    """Says how many messages may be written now. Times are seconds of any clock that never goes back."""

    left: int = field(default=MESSAGES_A_WRITE)  # messages that may still go in this tick
    _unknown: int = field(default=0)  # messages handed out since ``tell`` was called: their time is not known yet
    _end: float = field(default=float("-inf"))  # of the tick

    def hand_out(self) -> None:
        """A message goes to the peer."""
        self.left -= 1
        self._unknown += 1

    def next_call(self, *, waits: bool) -> float | None:
        """When ``tell`` has to be called; None: need not be. ``waits``: there are messages that want to go."""
        if self._unknown:
            return float("-inf")
        return self._end if waits and self.left <= 0 else None

    def tell(self, now: float) -> None:
        """It is ``now``: the messages that were handed out are written, and the tick may be over."""
        if now >= self._end:
            self.left = MESSAGES_A_WRITE - self._unknown
            if self._unknown:
                self._end = now + TICK_SECONDS
        self._unknown = 0
