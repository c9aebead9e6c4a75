"""How to propose to a peer."""

from __future__ import annotations

from dataclasses import dataclass

from culm.bamboo import MAX_U64
from culm.proposals import EVERYTHING, NOTHING, Eagerness, Wish


@dataclass(frozen=True, slots=True)
class ProposalOptions:
    """How to ask. Sizes are of payloads, in bytes, both included.

    ``mandatory``: no payload may be left out. ``notify_only``: be told what there is. ``notify_above``: be told of
    payloads above this size, instead of getting them. ``greedy``: take, and pass on, payloads before they could be
    checked. ``window``: bytes of history for compressing; 0: none. ``small``: cost the node as little as possible.
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
        """What to ask for."""
        if self.notify_only:
            return NOTHING
        return EVERYTHING if self.notify_above is None else Eagerness(Wish.LIMITED, self.notify_above)
