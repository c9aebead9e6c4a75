"""What one connection may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a peer may do, and sizes of what we send.

    ``proposals``: proposals of the peer that live at once; it gets credit for so many. ``window``: bytes on the data
    channel that the peer may send before they are dealt with. ``chunk``: bytes of one payload that are sent before the
    next proposal has its turn. ``runs``: runs of items that the peer sent which are remembered of one proposal.
    ``hashes``: of entries that came, remembered of one proposal before those that can matter no more are dropped.
    """

    proposals: int = 1024
    window: int = 512 * 1024
    chunk: int = 64 * 1024
    runs: int = 4096
    hashes: int = 256


SMALL = Limits(proposals=16, window=32 * 1024, chunk=8 * 1024, runs=64, hashes=128)
