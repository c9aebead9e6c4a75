"""The messages that wait to be sent, and how many of them may go now."""

from collections import deque

from culm.bushbaby.pacing import Pacer
from culm.types import Buffer


class Outbox:
    """Messages in their order. ``pacer``: says how many may go at once; None if any number may."""

    __slots__ = ("_is_cut", "_messages", "pacer")

    def __init__(self, pacer: Pacer | None) -> None:
        self.pacer = pacer
        self._messages: deque[memoryview] = deque()  # of the first one, what is left of it
        self._is_cut = False  # the first message went in part

    def add(self, message: Buffer) -> None:
        """Queue a message; it is not copied, and must not change any more."""
        self._messages.append(memoryview(message))

    def take(self, limit: int) -> bytes:
        """Take at most ``limit`` bytes, as far as the pace allows. Pace counts messages, so a cut one counts once."""
        parts: list[memoryview] = []
        size = 0
        while self._messages and size < limit:
            if self.pacer is not None and not self._is_cut:
                if not self.pacer.left:
                    break
                self.pacer.hand_out()
            part = self._messages[0][: limit - size]
            parts.append(part)
            size += len(part)
            self._is_cut = len(part) < len(self._messages[0])
            if self._is_cut:
                self._messages[0] = self._messages[0][len(part) :]
            else:
                self._messages.popleft()
        return b"".join(parts)

    def next_call(self) -> float | None:
        """When the pacer wants to be told the time; None if there is none, or it need not be."""
        return None if self.pacer is None else self.pacer.next_call(waits=bool(self._messages))

    def tell(self, now: float) -> None:
        """It is ``now``."""
        if self.pacer is not None:
            self.pacer.tell(now)
