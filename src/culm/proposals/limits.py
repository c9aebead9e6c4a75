"""What one connection may cost.

A peer decides how many proposals it makes and what it sends; these numbers decide how much of that we hold. Its credit
follows from them, so a peer that keeps to the protocol never meets them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a peer may do, and sizes of what we send.

    ``proposals``: proposals of the peer that live at once; it gets credit for so many. ``window``: bytes on the data
    channel that the peer may send before they are dealt with, at most: ``culm.transfer.window`` says when they are
    fewer. ``chunk``: bytes of one proposal that are sent before the next one that waits has its turn. ``runs``: runs of
    items that the peer sent which are remembered of one proposal. ``hashes``: of entries that came, remembered of one
    proposal before those that can matter no more are dropped.
    """

    proposals: int = 1024  # A proposal that lives takes some kilobytes, most of them hashes.
    window: int = 4 * 1024 * 1024  # Enough to keep a fast link busy while a batch is stored.
    chunk: int = 128 * 1024  # A proposal with news waits for one chunk of a large payload only.
    runs: int = 4096  # A peer that sends every other item makes a run of each; what is dropped may be sent twice.
    hashes: int = 256  # Later entries link to about a hundred of them at most; collecting more makes dropping rare.


SMALL = Limits(proposals=16, window=32 * 1024, chunk=8 * 1024, runs=64, hashes=128)
