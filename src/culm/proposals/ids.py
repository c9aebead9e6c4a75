"""The peer's ids: its credit for new proposals, and what is left of ids under which none lives.

A proposal is spoken of on two channels that do not wait for each other, and both sides may propose at once. So messages
about an id can arrive when nothing lives under it, without anybody having broken a rule: its marker overtakes the
proposal, the id is used again before the last marker of its first use has come, or the proposal lost against an
overlapping one of ours. For each of these cases the ids that it concerns are remembered. Each memory is bounded by the
credit, because the peer could otherwise make us remember as many ids as it can count.

Specification: docs/specs/proposals.md, "Ids and credit", "Overlapping proposals", "Markers".
"""

from collections.abc import Mapping

from culm.errors import RemoteProtocolError
from culm.proposals.exchange import Exchange
from culm.proposals.states import Said


class PeerIds:
    """Credit, and three kinds of leftovers; each is bounded by the credit that was given.

    ``tombstones``: proposals that fell to one of ours, and which that was. ``early``: markers that came before their
    proposal. ``owed``: ids in use again before the last marker of their use before has come, with how many are due.
    """

    def __init__(self, most: int) -> None:
        self.tombstones: dict[int, int] = {}
        self.early: set[int] = set()
        self.owed: dict[int, int] = {}
        self._most = most
        self._granted = 0
        self._to_grant = 0
        self._forgiven = 0  # of proposals that fell: the peer may count on their credit

    # -- credit ------------------------------------------------------------------------------------------------

    def grant(self, amount: int) -> None:
        """The peer is given credit."""
        self._granted += amount

    def spend(self) -> None:
        """The peer proposes something; ``RemoteProtocolError`` without credit."""
        if self._granted:
            self._granted -= 1
        elif self._forgiven:
            self._forgiven -= 1
        else:
            raise RemoteProtocolError("the peer made a proposal without credit for it")

    def give_back(self) -> int:
        """A proposal of the peer is over: the credit to give it now, once that is as much as it has left."""
        self._to_grant += 1
        if self._to_grant < self._granted:
            return 0
        amount, self._to_grant = self._to_grant, 0
        return amount

    # -- leftovers ---------------------------------------------------------------------------------------------

    def fell(self, proposal_id: int, winner: int) -> None:
        """A proposal of the peer was never made, since one of ours begins earlier."""
        self.tombstones[proposal_id] = winner
        self.early.discard(proposal_id)
        self._forgiven += 1

    def settle(self, exchanges: Mapping[int, Exchange]) -> None:
        """Forget what fell to proposals that were answered.

        One that fell itself will never be: what fell to it is remembered, up to a number.
        """
        for proposal_id, winner in list(self.tombstones.items()):
            exchange = exchanges.get(winner)
            if exchange is not None and exchange.has(Said.ANSWERED):
                del self.tombstones[proposal_id]
        while len(self.tombstones) > 2 * self._most:
            del self.tombstones[next(iter(self.tombstones))]

    def reuse(self, proposal_id: int) -> None:
        """An id is used again, with the last marker of its use before still under way."""
        self.owed[proposal_id] = self.owed.get(proposal_id, 0) + 1

    def pay(self, proposal_id: int) -> bool:
        """A marker came: whether it is one that was owed."""
        due = self.owed.pop(proposal_id, 0)
        if due > 1:
            self.owed[proposal_id] = due - 1
        return due > 0

    def mark_early(self, proposal_id: int) -> bool:
        """A marker came before its proposal: whether it may be remembered."""
        if proposal_id in self.early or len(self.early) >= self._granted:
            return False
        self.early.add(proposal_id)
        return True

    def was_marked(self, proposal_id: int) -> bool:
        """Whether the marker of a new proposal came before it."""
        marked = proposal_id in self.early
        self.early.discard(proposal_id)
        return marked
