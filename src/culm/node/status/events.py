"""Server-sent events: every viewer of the page gets the same messages, and viewers that are too slow are dropped.

A message is made once and put into every viewer's queue. The node never waits for a viewer: if a queue is full, the
connection is closed, and the browser connects again by itself and starts with the present state. So a laptop that went
to sleep costs 16 messages of memory, and no time.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

_ROOM = 16  # Messages that wait for a viewer: some seconds of changes, enough for a short hiccup of its network.


class Full(Exception):
    """The most viewers are connected already."""


class Viewer:
    """A connected viewer and its queue; ``drop`` ends the connection at once."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(_ROOM)
        self.drop = drop

    def offer(self, message: bytes) -> bool:
        """Put a message into the queue; False if the queue is full."""
        try:
            self._queue.put_nowait(message)
        except asyncio.QueueFull:
            return False
        return True

    async def next(self) -> bytes:
        """The next message; an empty one is the last."""
        return await self._queue.get()


class Hub:
    """Sends messages to at most ``most`` viewers. ``dropped`` counts the viewers that were too slow."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._viewers: set[Viewer] = set()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._viewers)

    def join(self, drop: Callable[[], None]) -> Viewer:
        """Add a viewer; ``Full`` if the most viewers are connected."""
        if len(self._viewers) >= self._most:
            raise Full
        viewer = Viewer(drop)
        self._viewers.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer, if it is still there."""
        self._viewers.discard(viewer)

    def close(self) -> None:
        """Disconnect all viewers: with an empty message, or at once if a queue is full."""
        for viewer in list(self._viewers):
            self.leave(viewer)
            if not viewer.offer(b""):
                viewer.drop()

    def send(self, message: bytes) -> None:
        """Send a message to all viewers, and drop those whose queue is full."""
        for viewer in [viewer for viewer in self._viewers if not viewer.offer(message)]:
            self.dropped += 1
            self.leave(viewer)
            viewer.drop()


def event(kind: str, value: Any) -> bytes:  # noqa: ANN401 - whatever JSON can say
    """A message of the event stream: its kind, and a value as JSON, on one line as the format requires."""
    return f"event: {kind}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


HEARTBEAT = b": still here\n\n"
