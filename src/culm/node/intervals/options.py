"""How to ask a peer by intervals."""

from dataclasses import dataclass

from culm.intervals import Forks


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How to ask. Sizes are of payloads, in bytes, both included; None: no bound.

    ``verified``: the peer may send only what it has checked. ``newest``: ask only for so many of the newest entries.
    ``newest_first``: ask for the newest entries first. ``anchor``: sequence number and hash of an entry that is
    trusted, so that only forks behind it matter.
    """

    verified: bool = True
    forks: Forks = Forks.DEFAULT
    anchor: tuple[int, bytes] | None = None
    least_size: int | None = None
    greatest_size: int | None = None
    newest: int | None = None
    newest_first: bool = False
