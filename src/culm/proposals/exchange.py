"""One proposal: what was said of it, what it sends, and where both directions are.

Specification: docs/specs/proposals.md, "Adjustments", "Cursors".
"""

from culm.bamboo import PayloadHasher
from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.proposals.incoming import Incoming
from culm.proposals.limits import Limits
from culm.proposals.messages import Adjust, Proposal
from culm.proposals.outgoing import Outgoing
from culm.proposals.scope import Scope
from culm.proposals.sequence import Sequence
from culm.proposals.states import ANSWERS, OVER, Event, Said, refusal
from culm.transfer import Source

_SENDING = Said.CONFIRMED | Said.CANCEL_SENT | Said.CANCEL_RECEIVED


class Exchange(Scope):
    """A proposal that lives: its scope, what was said of it, and both directions."""

    def __init__(
        self, proposal: Proposal, limits: Limits, *, is_ours: bool, begun: PayloadHasher | None = None
    ) -> None:
        super().__init__(proposal, is_ours=is_ours, begun=begun)
        self.said = Said.NOTHING
        self.incoming = Incoming(self, limits)
        self.outgoing = Outgoing(self, self.incoming)

    # -- life --------------------------------------------------------------------------------------------------

    def has(self, said: int) -> bool:
        """Whether all of this was said."""
        return self.said & said == said

    def advance(self, event: Event, *, is_peers: bool) -> None:
        """Something was said. If it may not be: ``RemoteProtocolError`` if it is the peer's, else a local one."""
        rule = event.value
        if self.said & rule.needs != rule.needs or self.said & rule.excludes:
            kind = RemoteProtocolError if is_peers else LocalProtocolError
            raise kind(refusal(self.id, event, self.said, is_peers=is_peers))
        self.said |= rule.adds | (Said.ANSWERED if event in ANSWERS[self.is_ours] else 0)

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

    def lower(self, message: Adjust) -> bool:
        """Lower the end and the upper pool, for both. False if that comes too late: items beyond were passed."""
        end, upper = self.lowered(message)
        if (end, upper) == (self.end, self.upper):
            return True
        sequence = Sequence.of(self.proposal, end, upper)
        if end != self.end and max(self.incoming.index, self.cursor.highest[0]) > sequence.range_end:
            return False
        self.end, self.upper, self.sequence = end, upper, sequence
        self.incoming.index = min(self.incoming.index, sequence.total)
        self.cursor.index = min(self.cursor.index, sequence.total)
        return True
