"""What an endpoint wants of a proposal, now and before (docs/specs/proposals.md, "Eagerness").

An endpoint may change what it wants at any time, and nothing acknowledges the change. So at any moment data may be
under way that was sent by rules that no longer hold, and the receiver cannot tell which rules its sender knew.

Therefore the two directions are judged differently. What *we send* follows the latest wishes of the peer, because
those are what it wants. What *comes* is an offence only if no wishes that we ever told would have allowed it; so the
extremes of everything that was ever told are kept, not only the last state. Sizes make this easy: bounds on the size of
payloads may only get narrower, so the first ones that were told are the widest.
"""

from dataclasses import dataclass, field
from typing import Self

from culm.bamboo import MAX_U64
from culm.proposals.messages import Adjust, Eagerness, Proposal, Wish


@dataclass(slots=True)
class Wishes:
    """The wishes of one endpoint. ``eagerness`` is None until its first word on the proposal."""

    eagerness: Eagerness | None = None
    said: set[Wish] = field(default_factory=set)
    least_limit: int = MAX_U64  # of all that were said
    greatest_limit: int = -1
    least: int = 0
    first_least: int = 0
    greatest: int = MAX_U64
    first_greatest: int = MAX_U64
    may_skip: bool = False

    @classmethod
    def of(cls, proposal: Proposal) -> Self:
        """What a proposal says of its sender."""
        wishes = cls(may_skip=not proposal.mandatory)
        wishes.be(proposal.eagerness)
        wishes.least = wishes.first_least = proposal.least
        wishes.greatest = wishes.first_greatest = proposal.greatest
        return wishes

    def be(self, eagerness: Eagerness) -> None:
        """Note what is wanted from now on."""
        self.eagerness = eagerness
        self.said.add(eagerness.wish)
        if eagerness.wish is Wish.LIMITED:
            self.least_limit = min(self.least_limit, eagerness.limit)
            self.greatest_limit = max(self.greatest_limit, eagerness.limit)

    def adjust(self, message: Adjust) -> str | None:
        """Note a change; what is wrong with it, if anything."""
        least = self.least if message.least is None else message.least
        greatest = self.greatest if message.greatest is None else message.greatest
        if least < self.least:
            return f"a least payload size of {least} after one of {self.least}: it can only grow"
        if greatest > self.greatest:
            return f"a greatest payload size of {greatest} after one of {self.greatest}: it can only shrink"
        is_first = self.eagerness is None
        if message.eagerness is not None:
            self.be(message.eagerness)
        self.may_skip = self.may_skip or message.may_skip
        self.least, self.greatest = least, greatest
        if is_first:
            self.first_least, self.first_greatest = self.least, self.greatest
        return None

    # -- what to send ------------------------------------------------------------------------------------------

    def takes_metadata(self) -> bool:
        """Whether to send metadata now, and not only a notice of it."""
        return self.eagerness is not None and self.eagerness.wish is not Wish.NOTIFY

    @property
    def takes_everything(self) -> bool:
        """Whether to send metadata and every payload now."""
        is_eager = self.eagerness is not None and self.eagerness.wish is Wish.ALL
        return is_eager and not self.least and self.greatest == MAX_U64

    def takes_payload(self, size: int) -> bool:
        """Whether to send the bytes of a payload within the bounds now, and not only a notice of it."""
        if self.eagerness is None or self.eagerness.wish is Wish.NOTIFY:
            return False
        return self.eagerness.wish is Wish.ALL or size <= self.eagerness.limit

    # -- what may come -----------------------------------------------------------------------------------------

    def ever_took_metadata(self) -> bool:
        """Whether metadata may come."""
        return bool(self.said - {Wish.NOTIFY})

    def ever_took_payload(self, size: int) -> bool:
        """Whether bytes of a payload may come."""
        if not self.first_least <= size <= self.first_greatest:
            return False
        return Wish.ALL in self.said or size <= self.greatest_limit

    def ever_took_notice(self, size: int | None) -> bool:
        """Whether a notice of a payload may come instead of its bytes; ``size`` is None if it is not known."""
        if Wish.NOTIFY in self.said:
            return True
        if size is None:
            return Wish.LIMITED in self.said
        return not self.first_least <= size <= self.first_greatest or (
            Wish.LIMITED in self.said and size > self.least_limit
        )
