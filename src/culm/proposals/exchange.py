"""One proposal: what was said of it, what it sends, and where both directions are.

Specification: docs/specs/proposals.md, "Adjustments", "Cursors".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.proposals.incoming import Incoming
from culm.proposals.outgoing import Outgoing
from culm.proposals.sequence import Sequence
from culm.proposals.states import OVER, Event, Said, after, is_allowed
from culm.proposals.wishes import Wishes

if TYPE_CHECKING:
    from culm.bamboo import PayloadHasher
    from culm.proposals.limits import Limits
    from culm.proposals.messages import Adjust, Proposal
    from culm.transfer import Source


_SENDING = Said.CONFIRMED | Said.CANCEL_SENT | Said.CANCEL_RECEIVED


class Exchange:
    """A proposal that lives. ``is_ours``: we made it. ``begun``: the hash of the start's payload up to the offset."""

    def __init__(
        self, proposal: Proposal, limits: Limits, *, is_ours: bool, begun: PayloadHasher | None = None
    ) -> None:
        self.proposal = proposal
        self.is_ours = is_ours
        self.begun = begun
        self.said = Said.NOTHING
        self.end = proposal.end
        self.upper = proposal.upper
        self.ours, self.theirs = Wishes(), Wishes()
        if is_ours:
            self.ours = Wishes.of(proposal)
        else:
            self.theirs = Wishes.of(proposal)
        self.sequence = Sequence.of(proposal, self.end, self.upper)
        self._cut: int | None = None
        self.ended_by_us_alone = False  # the peer may have another entry there, and more behind it
        self.incoming = Incoming(self, limits)
        self.outgoing = Outgoing(self, limits)

    @property
    def id(self) -> int:
        """The synchronization id."""
        return self.proposal.id

    @property
    def total(self) -> int:
        """The number of items: all behind the end of the log are none."""
        return self.sequence.total if self._cut is None else self._cut

    def end_at(self, seq: int, *, is_peers: bool) -> None:
        """The log ends with an entry: there is nothing behind its payload. ``is_peers``: the peer said so."""
        self.ended_by_us_alone = not is_peers
        index = self.sequence.index_of(seq, is_payload=True)
        if index is None:
            index = self.sequence.index_of(seq, is_payload=False)
        if index is not None:
            self._cut = index + 1

    # -- life --------------------------------------------------------------------------------------------------

    def has(self, said: int) -> bool:
        """Whether all of this was said."""
        return self.said & said == said

    def advance(self, event: Event, *, is_peers: bool) -> None:
        """Something was said. If it may not be: ``RemoteProtocolError`` if it is the peer's, else a local one."""
        if not is_allowed(self.said, event):
            kind = RemoteProtocolError if is_peers else LocalProtocolError
            raise kind(f"{event.name.lower()} of proposal {self.id}, which may not be now")
        self.said = after(self.said, event, is_ours=self.is_ours)

    @property
    def is_over(self) -> bool:
        """Whether the cancellation is complete."""
        return self.has(OVER)

    @property
    def may_send(self) -> bool:
        """Whether items may be sent."""
        return self.said & _SENDING == Said.CONFIRMED

    def is_finished(self, source: Source) -> bool:
        """Whether neither side can add anything now: the peer is at the end, and we have nothing that it has not."""
        incoming = self.incoming
        if incoming.index < self.total or not self.said & Said.CONFIRMED or incoming.lost or incoming.is_wrong:
            return False
        return not self.outgoing.can_add(source)

    # -- adjusting ---------------------------------------------------------------------------------------------

    def _lowered(self, message: Adjust) -> tuple[int | None, int | None]:
        """The end and the upper pool with what a message says of them, where that is lower."""
        end, upper = self.end, self.upper
        if message.end is not None and (end is None or message.end < end):
            end = message.end
        if message.upper is not None and (upper is None or message.upper < upper):
            upper = message.upper
        return end, upper

    def range_problem(self, message: Adjust) -> str | None:
        """Why the range cannot be lowered as a message says; None if it can, or is not."""
        end, upper = self._lowered(message)
        if end is not None and end < self.proposal.start:
            return f"an end of proposal {self.id} before its start"
        if upper is not None and (end is None or upper < end):
            return f"an upper end of proposal {self.id} before its end"
        return None

    def lower(self, message: Adjust) -> bool:
        """Lower the end and the upper pool, for both. False if that comes too late: items beyond were passed."""
        end, upper = self._lowered(message)
        if (end, upper) == (self.end, self.upper):
            return True
        sequence = Sequence.of(self.proposal, end, upper)
        if end != self.end and max(self.incoming.index, self.outgoing.highest[0]) > sequence.range_end:
            return False
        self.end, self.upper, self.sequence = end, upper, sequence
        self.incoming.index = min(self.incoming.index, sequence.total)
        self.outgoing.index = min(self.outgoing.index, sequence.total)
        return True
