"""Server-sent events: everybody who watches gets the same messages; who takes none of them is let go.

A message is made once and put into every viewer's queue. Nobody waits for a viewer: one whose queue is full is dropped.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOM = 16  # messages that wait for one viewer


class Full(Exception):
    """As many watch as may."""


class Viewer:
    """Somebody who watches; ``drop`` ends the connection at once."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(_ROOM)
        self.drop = drop

    def offer(self, message: bytes) -> bool:
        """Put a message into the queue, if there is room."""
        try:
            self._queue.put_nowait(message)
        except asyncio.QueueFull:
            return False
        return True

    async def next(self) -> bytes:
        """The next message."""
        return await self._queue.get()


class Hub:
    """Gives messages to at most so many viewers. ``dropped`` counts those who were too slow."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._viewers: set[Viewer] = set()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._viewers)

    def join(self, drop: Callable[[], None]) -> Viewer:
        """Watch from now on; ``Full`` if there is no room for another viewer."""
        if len(self._viewers) >= self._most:
            raise Full
        viewer = Viewer(drop)
        self._viewers.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Watch no longer."""
        self._viewers.discard(viewer)

    def close(self) -> None:
        """Let everybody go: an empty message is the last one."""
        for viewer in list(self._viewers):
            self.leave(viewer)
            if not viewer.offer(b""):
                viewer.drop()

    def send(self, message: bytes) -> None:
        """Give a message to all."""
        for viewer in [viewer for viewer in self._viewers if not viewer.offer(message)]:
            self.dropped += 1
            self.leave(viewer)
            viewer.drop()


def event(kind: str, value: Any) -> bytes:  # noqa: ANN401 - whatever JSON can say
    """A message: its kind, and a value as JSON, which stands on one line."""
    return f"event: {kind}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


HEARTBEAT = b": still here\n\n"
