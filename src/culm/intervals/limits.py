"""What one connection may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a peer may do, and sizes of what we send.

    ``requests``: requests of the peer that are open at once; it gets credit for so many. ``window``: bytes of item data
    that the peer may send before they are dealt with. ``chunk``: bytes of one response that are sent before the next
    one has its turn. ``logs``: logs without an open request of which is remembered what was exchanged.
    """

    requests: int = 1024
    window: int = 512 * 1024
    chunk: int = 128 * 1024
    logs: int = 4096
