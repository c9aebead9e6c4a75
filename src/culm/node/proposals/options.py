"""How to propose to a peer, and what to say of our own wishes when we answer."""

from dataclasses import dataclass

from culm.bamboo import MAX_U64
from culm.proposals import EVERYTHING, NOTHING, Eagerness, Wish


@dataclass(frozen=True, slots=True)
class ProposalOptions:
    """How to ask. Sizes are of payloads, in bytes, both included.

    ``mandatory``: the peer may not skip a payload that it lacks. ``notify_only``: the peer only says what there is.
    ``notify_above``: the peer only says so of payloads above this many bytes. ``greedy``: take payloads, and pass them
    on, before they could be checked, which is faster and lets wrong ones spread. ``window``: bytes of history for
    compressing what we send; 0: no compression. ``small``: use little memory, with smaller limits and no compression.
    """

    least_size: int = 0
    greatest_size: int = MAX_U64
    mandatory: bool = False
    notify_only: bool = False
    notify_above: int | None = None
    greedy: bool = False
    window: int = 0
    small: bool = False

    @property
    def eagerness(self) -> Eagerness:
        """What we ask the peer to do with what it has: send all, send the small ones, or only say what there is."""
        if self.notify_only:
            return NOTHING
        return EVERYTHING if self.notify_above is None else Eagerness(Wish.LIMITED, self.notify_above)
