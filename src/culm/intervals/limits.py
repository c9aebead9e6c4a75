"""What one connection may cost.

The peer decides how many requests it makes and how fast it sends; these numbers decide how much of that we hold. None
of them is told to the peer as a number: it is granted credit, and what exceeds its credit ends the connection.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a peer may do, and sizes of what we send.

    ``requests``: requests of the peer that are open at once; it gets credit for so many. ``asked``: requests of ours
    that are open at once, however many the peer gives credit for. ``window``: bytes of item data
    that the peer may send before they are dealt with, at most: ``culm.intervals.ours`` says when they are fewer.
    ``chunk``: bytes of one response that are sent before the next one has its turn. ``logs``: so many logs
    without an open request are remembered, with what was exchanged.
    """

    requests: int = (
        1024  # A request that waits for news takes a kilobyte or two, so a peer costs a few megabytes at most.
    )
    asked: int = 4096  # For the same reason. No peer that follows these limits gives credit for so many.
    window: int = 4 * 1024 * 1024  # Enough to keep a fast link busy while a batch is stored; what we may have to hold.
    chunk: int = 512 * 1024  # Long enough that turns cost little, short enough that news wait for one chunk only.
    logs: int = 4096  # To forget one costs sending its entries again where they would have been confirmed.
