"""What waits for the peer, and what waits for the owner. Both halves of a connection write here, so order is kept."""

from collections import deque

from culm.intervals.codec import push_message
from culm.intervals.events import Event
from culm.intervals.messages import Message
from culm.types import Buffer


class Outbox:
    """Bytes in the order in which they were written; ``pending`` counts them. ``events``: those for the owner."""

    __slots__ = ("_parts", "events", "pending")

    def __init__(self) -> None:
        self.pending = 0
        self.events: list[Event] = []
        self._parts: deque[Buffer] = deque()

    def send(self, message: Message) -> None:
        """Queue a message."""
        self.write(push_message(message))

    def write(self, data: Buffer) -> None:
        """Queue the data behind an eager message."""
        self._parts.append(data)
        self.pending += len(data)

    def take(self, limit: int) -> bytes:
        """Take about ``limit`` bytes: whole messages, and of data whole chunks, because copying parts is not free."""
        parts: list[Buffer] = []
        size = 0
        while self._parts and size < limit:
            parts.append(self._parts.popleft())
            size += len(parts[-1])
        self.pending -= size
        return b"".join(parts)
