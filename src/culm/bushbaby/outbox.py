"""The messages that wait to be sent, and how fast they may go (docs/specs/bushbaby.md, "Pacing").

The deployed peer drops a connection when twelve or more small messages arrive in one of its reads. Nothing in the
protocol tells a sender of this, so the only way to be safe is to write few messages at a time: at most ten within a
tick, where a tick begins with the first of them and is long enough for the peer to have read them. Culm nodes have no
such limit and need no pacing.

The outbox cannot read a clock. It counts the messages that are handed out, and learns by ``tell`` what time it was: so
until the owner says the time, nobody knows when the tick of those messages began, and ``next_call`` asks for it at
once.
"""

from collections import deque

from culm.types import Buffer

MESSAGES_A_WRITE = 10  # Twelve make the peer drop us; eleven would do, ten leaves a margin.
TICK_SECONDS = 0.15  # The peer's own tick is 101 to 149 ms, so no two writes of ours fall into one of them.


class Outbox:
    """Messages in their order. ``paced``: only so many go at once. Times are seconds of a clock that only goes on."""

    __slots__ = ("_is_cut", "_left", "_messages", "_tick_end", "_unknown", "paced")

    def __init__(self, *, paced: bool) -> None:
        self.paced = paced
        self._messages: deque[memoryview] = deque()  # of the first one, what is left of it
        self._is_cut = False  # the first message went in part
        self._left = MESSAGES_A_WRITE  # messages that may still go in this tick
        self._unknown = 0  # messages handed out since ``tell`` was called: their time is not known yet
        self._tick_end = float("-inf")

    def add(self, message: Buffer) -> None:
        """Queue a message; it is not copied, and must not change any more."""
        self._messages.append(memoryview(message))

    def take(self, limit: int) -> bytes:
        """Take at most ``limit`` bytes, as far as the pace allows. Pace counts messages, so a cut one counts once."""
        parts: list[memoryview] = []
        size = 0
        while self._messages and size < limit:
            if self.paced and not self._is_cut:
                if not self._left:
                    break
                self._left -= 1
                self._unknown += 1
            message = self._messages.popleft()
            part = message[: limit - size]
            parts.append(part)
            size += len(part)
            self._is_cut = len(part) < len(message)
            if self._is_cut:
                self._messages.appendleft(message[len(part) :])
        return b"".join(parts)

    def next_call(self) -> float | None:
        """When ``tell`` has to be called; None if it need not be."""
        if self.paced and self._unknown:
            return float("-inf")
        return self._tick_end if self.paced and self._messages and not self._left else None

    def tell(self, now: float) -> None:
        """It is ``now``: the messages that were handed out are written, and the tick may be over."""
        if now >= self._tick_end:
            self._left = MESSAGES_A_WRITE - self._unknown
            if self._unknown:
                self._tick_end = now + TICK_SECONDS
        self._unknown = 0
