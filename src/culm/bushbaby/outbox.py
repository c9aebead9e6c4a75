"""The messages that wait to be sent, and how fast they may go (docs/specs/bushbaby.md, "Pacing").

The deployed peer drops a connection when twelve or more small messages arrive in one of its reads. Nothing in the
protocol tells a sender of this, so the only way to be safe is to write few messages at a time: at most five within a
tick. A tick ends when nothing was written for 150 ms, so that the peer has read all of them; counted from the first
message, five at the end of one tick and five at the beginning of the next would go at once. After some messages, such
as a long HAVE, the peer is busy and reads nothing for a while. Their tick is longer (``pause``). Culm nodes have no
such limit and need no pacing.

The outbox cannot read a clock. It counts the messages that are handed out, and learns by ``tell`` what time it was: so
until the owner says the time, nobody knows when the tick of those messages began, and ``next_call`` asks for it at
once.
"""

from collections import deque

from culm.types import Buffer

MESSAGES_A_WRITE = 5  # Twelve make the peer drop us. Two writes may arrive together, so each has less than half.
TICK_SECONDS = 0.15  # The peer's own tick is 101 to 149 ms, so no two writes of ours fall into one of them.


class Outbox:
    """Messages in their order. ``paced``: only so many go at once. Times are seconds of a clock that only goes on."""

    __slots__ = ("_is_cut", "_left", "_messages", "_pause", "_tick_end", "_unknown", "paced")

    def __init__(self, *, paced: bool) -> None:
        self.paced = paced
        self._messages: deque[tuple[memoryview, float]] = deque()  # of the first one, what is left of it
        self._is_cut = False  # the first message went in part
        self._left = MESSAGES_A_WRITE  # messages that may still go in this tick
        self._unknown = 0  # messages handed out since ``tell`` was called: their time is not known yet
        self._pause = 0.0  # Seconds that the tick of the messages handed out takes at least.
        self._tick_end = float("-inf")

    def add(self, message: Buffer, pause: float = 0.0) -> None:
        """Queue a message; it is not copied, and must not change any more.

        If paced, nothing follows it for ``pause`` seconds.
        """
        self._messages.append((memoryview(message), pause))

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
            message, pause = self._messages.popleft()
            part = message[: limit - size]
            parts.append(part)
            size += len(part)
            self._is_cut = len(part) < len(message)
            if self._is_cut:
                self._messages.appendleft((message[len(part) :], pause))
            elif pause:
                self._left, self._pause = 0, pause
        return b"".join(parts)

    def next_call(self) -> float | None:
        """When ``tell`` has to be called; None if it need not be."""
        if self.paced and self._unknown:
            return float("-inf")
        return self._tick_end if self.paced and self._messages and not self._left else None

    def tell(self, now: float) -> None:
        """It is ``now``: the messages that were handed out are written, and the tick may be over."""
        if now >= self._tick_end and not self._pause:
            self._left = MESSAGES_A_WRITE - self._unknown
        if self._unknown:
            self._tick_end = now + max(TICK_SECONDS, self._pause)
        self._unknown, self._pause = 0, 0.0
