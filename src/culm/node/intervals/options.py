"""How to ask a peer by intervals."""

from __future__ import annotations

from dataclasses import dataclass

from culm.intervals import Forks


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How to ask. Sizes are of payloads, in bytes, both included.

    ``newest``: only so many of the newest entries. ``newest_first``: those first. ``anchor``: sequence number and hash
    of an entry that is trusted, for local forks.
    """

    verified: bool = True
    forks: Forks = Forks.DEFAULT
    anchor: tuple[int, bytes] | None = None
    least_size: int | None = None
    greatest_size: int | None = None
    newest: int | None = None
    newest_first: bool = False
