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


Viewer = asyncio.Queue[bytes]
"""The messages that wait for a connected viewer; an empty one is the last."""


class Hub:
    """Sends messages to at most ``most`` viewers. ``dropped`` counts the viewers that were too slow."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._viewers: dict[Viewer, Callable[[], None]] = {}
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._viewers)

    def join(self, drop: Callable[[], None]) -> Viewer:
        """Add a viewer, whose connection ``drop`` ends at once; ``Full`` if the most viewers are connected."""
        if len(self._viewers) >= self._most:
            raise Full
        viewer = Viewer(_ROOM)
        self._viewers[viewer] = drop
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer, if it is still there."""
        self._viewers.pop(viewer, None)

    def close(self) -> None:
        """Disconnect all viewers: with an empty message, or at once if a queue is full."""
        self.send(b"")
        self._viewers.clear()

    def send(self, message: bytes) -> None:
        """Send a message to all viewers, and drop those whose queue is full."""
        for viewer, drop in list(self._viewers.items()):
            try:
                viewer.put_nowait(message)
            except asyncio.QueueFull:
                self.dropped += 1
                self.leave(viewer)
                drop()


def event(kind: str, value: Any) -> bytes:  # noqa: ANN401 - whatever JSON can say
    """A message of the event stream: its kind, and a value as JSON, on one line as the format requires."""
    return f"event: {kind}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


HEARTBEAT = b": still here\n\n"
