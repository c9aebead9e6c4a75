"""What both sides of a proposal agree on: its range and their wishes; and where we are with sending.

Both sides of one proposal send at the same time, over the same items. So what a side sends and what it receives depend
on each other, and both depend on the range, which may shrink while they are under way: the receiver of a proposal may
narrow it when it confirms, and an entry that ends the log cuts off everything behind it.
"""

from dataclasses import dataclass, field

from culm.bamboo import PayloadHasher
from culm.proposals.messages import Adjust, Proposal
from culm.proposals.sequence import Sequence
from culm.proposals.wishes import Wishes
from culm.ranges.runs import Runs


@dataclass(slots=True)
class Cursor:
    """Where we are with sending.

    ``index`` and ``offset``: the next item, and the bytes of it that are behind (of a payload). ``highest``: the
    farthest both ever were. ``sent``: the entries whose metadata we sent.
    """

    offset: int
    highest: tuple[int, int]
    index: int = 0
    sent: Runs = field(default_factory=Runs)


class Scope:
    """The range of a proposal and the wishes of both sides. ``ours``: of this side, ``theirs``: of the peer.

    ``is_ours``: we made the proposal. ``begun``: the hash of the start's payload up to the offset. ``end`` and
    ``upper`` are those of the proposal until an adjustment lowers them.
    """

    def __init__(self, proposal: Proposal, *, is_ours: bool, begun: PayloadHasher | None = None) -> None:
        self.proposal = proposal
        self.is_ours = is_ours
        self.begun = begun
        self.end = proposal.end
        self.upper = proposal.upper
        self.ours = Wishes.of(proposal) if is_ours else Wishes()
        self.theirs = Wishes() if is_ours else Wishes.of(proposal)
        self.sequence = Sequence.of(proposal, self.end, self.upper)
        self.cursor = Cursor(proposal.offset or 0, (0, proposal.offset or 0))
        self.ended_by_us_alone = False  # the peer may have another entry there, and more behind it
        self._cut: int | None = None  # the number of items, once an entry that ends the log is known

    @property
    def id(self) -> int:
        """The synchronization id."""
        return self.proposal.id

    @property
    def total(self) -> int:
        """The number of items: all behind the end of the log are none."""
        return self.sequence.total if self._cut is None else self._cut

    def end_at(self, seq: int, *, is_peers: bool) -> None:
        """The log ends with this entry, so that nothing follows its payload. ``is_peers``: the peer said so."""
        self.ended_by_us_alone = not is_peers
        index = self.sequence.index_of(seq, is_payload=True)
        if index is None:
            index = self.sequence.index_of(seq, is_payload=False)
        if index is not None:
            self._cut = index + 1

    def lowered(self, message: Adjust) -> tuple[int | None, int | None]:
        """The end and the upper pool with what a message says of them, where that is lower."""
        return _lower(self.end, message.end), _lower(self.upper, message.upper)

    def range_problem(self, message: Adjust) -> str | None:
        """Why the range cannot be lowered as a message says; None if it can, or is not."""
        end, upper = self.lowered(message)
        if end is not None and end < self.proposal.start:
            return f"proposal {self.id} would end at entry {end}, before its start, {self.proposal.start}"
        if upper is not None and end is None:
            return f"an upper pool up to entry {upper} was named for proposal {self.id}, but that has no end"
        if upper is not None and end is not None and upper < end:
            return f"the upper pool of proposal {self.id} would end at entry {upper}, before the range does"
        return None


def _lower(one: int | None, other: int | None) -> int | None:
    """The lower of two bounds; None is no bound."""
    return min((bound for bound in (one, other) if bound is not None), default=None)
