"""The register of a connection: which proposals live, what is left of others, and what is said of them.

A proposal is spoken of on two channels that do not wait for each other, and both sides may propose at once. So messages
about an id can arrive when nothing lives under it, without anybody having broken a rule: its marker overtakes the
proposal, the id is used again before the last marker of its first use has come, or the proposal lost against an
overlapping one of ours. For each of these cases the ids that it concerns are remembered. Each memory is bounded by the
credit, because the peer could otherwise make us remember as many ids as it can count.

Specification: docs/specs/proposals.md, "Ids and credit", "Overlapping proposals", "Markers".
"""

from itertools import groupby

from culm.errors import RemoteProtocolError
from culm.proposals.control import push_control
from culm.proposals.data import Marker, push_data
from culm.proposals.events import Event, Freed
from culm.proposals.exchange import Exchange
from culm.proposals.messages import Cancel, ControlMessage, Grant
from culm.proposals.states import Event as Step
from culm.proposals.states import Said
from culm.types import Buffer

_LARGE = 32 * 1024  # Bytes of a piece that are not copied to be one with others.


class Register:
    """The living proposals by their ids, the peer's credit for new ones, and the bytes that wait for each channel.

    ``most``: proposals of the peer that live at once. ``events``: for the owner. Three kinds of leftovers are each
    bounded by the credit that was given. ``tombstones``: proposals that fell to one of ours, and which that was.
    ``early``: markers that came before their proposal. ``owed``: ids in use again before the last marker of their use
    before has come, with how many are due.
    """

    def __init__(self, most: int) -> None:
        self.living: dict[int, Exchange] = {}
        self.events: list[Event] = []
        self.tombstones: dict[int, int] = {}
        self.early: set[int] = set()
        self.owed: dict[int, int] = {}
        self.pending = 0  # bytes that wait for the data channel
        self._most = most
        self._granted = 0
        self._to_grant = most
        self._forgiven = 0  # of proposals that fell: the peer may count on their credit
        self._control = bytearray()
        self._data: list[Buffer] = []
        self._grant()

    # -- what is said ------------------------------------------------------------------------------------------

    def say(self, message: ControlMessage) -> None:
        """Queue a message for the control channel."""
        self._control += push_control(message)

    def put(self, data: Buffer) -> None:
        """Queue bytes for the data channel."""
        self._data.append(data)
        self.pending += len(data)

    def control_to_send(self) -> bytes:
        """Take the bytes for the control channel."""
        data = bytes(self._control)
        self._control.clear()
        return data

    def data_to_send(self) -> list[Buffer]:
        """Take the bytes for the data channel: the small ones joined, the large ones not, as that copies them."""
        data: list[Buffer] = []
        for is_large, group in groupby(self._data, lambda piece: len(piece) >= _LARGE):
            pieces = list(group)
            data += pieces if is_large else [b"".join(pieces)]
        self._data.clear()
        self.pending = 0
        return data

    # -- the end of a proposal -----------------------------------------------------------------------------------

    def cancel(self, exchange: Exchange, message: Cancel) -> None:
        """Cancel a proposal that was not cancelled by us, with a message of any kind."""
        exchange.advance(Step.CANCEL, is_peers=False)
        self.say(message)
        self.mark(exchange)
        self.settle()

    def mark(self, exchange: Exchange) -> None:
        """Send the marker, if it is time for it; and forget the proposal if everything was said.

        The marker of a proposal of ours waits for the peer's answer: the data channel may overtake the control channel,
        and the peer is to know the id when the marker arrives.
        """
        answered = not exchange.is_ours or exchange.has(Said.ANSWERED)
        if exchange.has(Said.CANCEL_SENT) and not exchange.has(Said.MARKER_SENT) and answered:
            exchange.advance(Step.MARK, is_peers=False)
            self.put(push_data(Marker(exchange.id)))
        if exchange.is_over:
            self.free(exchange)

    def free(self, exchange: Exchange) -> None:
        """Everything was said of a proposal: forget it."""
        del self.living[exchange.id]
        self.events.append(Freed(exchange.proposal))
        if not exchange.is_ours:
            self.give_back()

    # -- credit ------------------------------------------------------------------------------------------------

    def spend(self) -> None:
        """The peer proposes something; ``RemoteProtocolError`` without credit."""
        if self._granted:
            self._granted -= 1
        elif self._forgiven:
            self._forgiven -= 1
        else:
            raise RemoteProtocolError("the peer made a proposal without credit for it")

    def give_back(self) -> None:
        """A proposal of the peer is over: give the peer its credit again, once that is as much as the peer has left."""
        self._to_grant += 1
        if self._to_grant >= self._granted:
            self._grant()

    def _grant(self) -> None:
        self._granted += self._to_grant
        self.say(Grant(self._to_grant))
        self._to_grant = 0

    # -- leftovers ---------------------------------------------------------------------------------------------

    def fell(self, proposal_id: int, winner: int) -> None:
        """A proposal of the peer was never made, since one of ours begins earlier."""
        self.tombstones[proposal_id] = winner
        self.early.discard(proposal_id)
        self._forgiven += 1
        self.give_back()

    def settle(self) -> None:
        """Forget what fell to proposals that were answered.

        One that fell itself will never be: what fell to it is remembered, up to a number.
        """
        for proposal_id, winner in list(self.tombstones.items()):
            exchange = self.living.get(winner)
            if exchange is not None and exchange.has(Said.ANSWERED):
                del self.tombstones[proposal_id]
        while len(self.tombstones) > 2 * self._most:
            del self.tombstones[next(iter(self.tombstones))]

    def reuse(self, exchange: Exchange) -> None:
        """The id of a proposal is used again, with the last marker of its use before still under way."""
        self.owed[exchange.id] = self.owed.get(exchange.id, 0) + 1
        self.free(exchange)

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
