"""One endpoint of Point-2-Point with proposals. Does no I/O.

Bytes of the two channels go in by ``receive_control`` and ``receive_data``, and come out of ``control_to_send`` and
``data_to_send``; ``culm.proposals.connection`` runs both over one stream. The owner decides two things: what to
propose, and how to answer what the peer proposes. Everything else goes by itself: items are sent once the store has
them and the peer wants them, a proposal that has come to its end is cancelled, and a fork is shown to the peer.

Specification: docs/specs/proposals.md, "Overlapping proposals", "Cancellations", "What is refused".
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from culm.bamboo import MAX_U64, ForkProof, PayloadHasher
from culm.errors import EncodingError, LocalProtocolError, RemoteProtocolError, Truncated
from culm.proposals.checks import check_cancel, fault_at, fork_up_to, objection, what_is_wrong
from culm.proposals.control import MAX_CONTROL_MESSAGE, pull_control
from culm.proposals.events import Cancelled, Dropped, Event, Offered, Refused
from culm.proposals.exchange import Exchange
from culm.proposals.limits import Limits
from culm.proposals.messages import Adjust, Cancel, Code, ControlMessage, Grant, Proposal
from culm.proposals.receiving import Receiver
from culm.proposals.register import Register
from culm.proposals.sending import Sender
from culm.proposals.setup import Setup
from culm.proposals.states import Event as Step
from culm.proposals.states import Said
from culm.transfer import EntryReceived, PayloadFailed, Source, apart, bad_entries, entry_at
from culm.types import Buffer, Log


class Endpoint:
    """One endpoint over two channels.

    ``proactive``: it opened the connection, and its ids are even. ``setup``: what it said of itself. ``peer_setup`` is
    to be called with what the peer said before anything of the data channel is handled. ``together``: give entries that
    come one after the other in one event (``EntriesReceived``), where that saves time.
    """

    def __init__(
        self,
        source: Source,
        *,
        proactive: bool,
        setup: Setup | None = None,
        limits: Limits | None = None,
        together: bool = False,
    ) -> None:
        self.setup = setup or Setup()
        self.limits = limits or Limits()
        self.register = Register(self.limits.proposals)
        self.exchanges = self.register.living
        self.credit = 0  # for proposals of ours
        self.sender = Sender(source, self.limits, self.register)
        self.receiver = Receiver(source, self.limits, self.register, self.sender, proactive=proactive)
        self._source = source
        self._together = together
        self._proactive = proactive
        self._agreed: Setup | None = None
        self._next_id = 0 if proactive else 1
        self._failed: set[str] = set()  # channels on which the peer broke the protocol
        self._control_in = bytearray()
        self._control_read = 0  # bytes of the control channel that were read, to say where a fault is

    def peer_setup(self, theirs: Setup) -> None:
        """The peer's setup came: modes and windows are known."""
        self._agreed = self.setup.agreed(theirs)
        self.sender.agree(self._agreed)
        self.receiver.agree(self._agreed)

    # -- what the owner does -----------------------------------------------------------------------------------

    def may_propose(self, proposal: Proposal) -> bool:
        """Whether there is credit, and no overlapping proposal of the peer waits for an answer."""
        return self.credit > 0 and not self._unanswered(proposal, ours=False)

    def _unanswered(self, proposal: Proposal, *, ours: bool) -> list[Exchange]:
        """The proposals of one side that wait for an answer and overlap with this one."""
        return [
            other
            for other in self.exchanges.values()
            if other.is_ours == ours and not other.has(Said.ANSWERED) and other.proposal.overlaps(proposal)
        ]

    def propose(self, proposal: Proposal, begun: PayloadHasher | None = None) -> int:
        """Propose a range; its id, which takes the place of the one in ``proposal``.

        ``begun``: the hash of the bytes that are held of the start's payload, if the range begins behind them. Without
        it the payload cannot be checked here. ``LocalProtocolError`` unless ``may_propose``.
        """
        if not self.may_propose(proposal):
            raise LocalProtocolError(
                "cannot propose now: there is no credit, or a proposal of the peer that overlaps waits for an answer"
            )
        if proposal.sparse and proposal.end is None:
            raise LocalProtocolError("cannot propose a sparse range without an end: it has no items")
        if (problem := what_is_wrong(proposal)) is not None:
            raise LocalProtocolError(problem)
        proposal = replace(proposal, id=self._next_id)
        self._next_id += 2
        self.credit -= 1
        self.exchanges[proposal.id] = Exchange(proposal, self.limits, is_ours=True, begun=begun)
        self.register.say(proposal)
        return proposal.id

    def is_offered(self, proposal_id: int) -> bool:
        """Whether a proposal of the peer still waits for an answer: the peer may have cancelled it by now."""
        exchange = self.exchanges.get(proposal_id)
        return exchange is not None and not exchange.is_ours and not exchange.has(Said.ANSWERED)

    def confirm(self, message: Adjust) -> None:
        """Confirm a proposal of the peer, saying what we want of it; ``end`` and ``upper`` narrow it for both."""
        exchange = self._exchange(message.id)
        if exchange.is_ours:
            raise LocalProtocolError(f"cannot confirm proposal {message.id}: we made it, so the peer confirms it")
        if message.eagerness is None:
            raise LocalProtocolError(f"cannot confirm proposal {message.id} without saying what we want of it")
        if exchange.proposal.sparse and exchange.end is None and message.end is None:
            raise LocalProtocolError(
                f"cannot confirm proposal {message.id} without an end: a sparse range without one has no items"
            )
        self._adjust(exchange, message, Step.CONFIRM)
        self.sender.queue(exchange)
        self.register.settle()

    def adjust(self, message: Adjust) -> None:
        """Change what we want of a proposal. Its end and upper pool can be lowered in a confirmation only."""
        exchange = self._exchange(message.id)
        if message.end is not None or message.upper is not None:
            raise LocalProtocolError(
                "a range can be narrowed in its confirmation only: cancel the proposal and make another"
            )
        if not exchange.is_ours and not exchange.has(Said.CONFIRMED):
            raise LocalProtocolError(f"cannot adjust proposal {message.id}: confirm it first")
        self._adjust(exchange, message, Step.ADJUST)

    def _adjust(self, exchange: Exchange, message: Adjust, step: Step) -> None:
        if (problem := exchange.range_problem(message)) is not None:
            raise LocalProtocolError(problem)
        exchange.advance(Step.ADJUST, is_peers=False)
        exchange.advance(step, is_peers=False)
        if (problem := exchange.ours.adjust(message)) is not None:
            raise LocalProtocolError(problem)
        exchange.lower(message)
        self.register.say(message)

    def cancel(self, proposal_id: int, code: Code = Code.DO_NOT_RETRY) -> None:
        """Cancel a proposal; nothing happens if we have."""
        exchange = self._exchange(proposal_id)
        if not exchange.has(Said.CANCEL_SENT):
            self.register.cancel(exchange, Cancel(proposal_id, code))

    def _exchange(self, proposal_id: int) -> Exchange:
        exchange = self.exchanges.get(proposal_id)
        if exchange is None:
            raise LocalProtocolError(f"proposal {proposal_id} is over, or was never made")
        return exchange

    def control_to_send(self) -> bytes:
        """Bytes for the control channel."""
        return self.register.control_to_send()

    # -- control channel ---------------------------------------------------------------------------------------

    def receive_control(self, data: Buffer) -> list[Event]:
        """Take bytes of the control channel.

        ``RemoteProtocolError``: drop the connection; ``take_events`` gives the events before the fault.
        """
        return self._guarded("control", self._take_control, data)

    def _guarded(self, channel: str, take: Callable[[Buffer], None], data: Buffer) -> list[Event]:
        """Take bytes. Behind a fault of the control channel data is still taken, as far as it came along with it."""
        if self._failed & {channel, "data"}:
            raise LocalProtocolError("the peer broke the protocol: the connection is over")
        failure: RemoteProtocolError | None = None
        try:
            take(data)
        except RemoteProtocolError as error:
            failure = error
        failure = self._check_signatures() or failure
        if failure is not None:
            self._failed.add(channel)
            raise failure
        return self.take_events()

    def _check_signatures(self) -> RemoteProtocolError | None:
        """Check the entries that came. From a bad one on, only this stays: which payloads proved wrong.

        Their beginnings may be stored already, and have to be dropped again.
        """
        if self._agreed is not None and self._agreed.takes_greedily:
            return None
        events = self.register.events
        bad = next(iter(bad_entries(events)), None)
        if bad is None:
            return None
        events[:] = apart(events)
        at = [isinstance(event, EntryReceived) and event.entry is bad for event in events].index(True)
        events[at:] = [event for event in events[at:] if isinstance(event, PayloadFailed)]
        return RemoteProtocolError(f"entry {bad.seq} has a bad signature")

    def _take_control(self, data: Buffer) -> None:
        self._control_in += data
        at, buffer = 0, self._control_in
        while at < len(buffer):
            try:
                message, size = pull_control(buffer[at : at + MAX_CONTROL_MESSAGE])
                self._handle_control(message)
            except Truncated:
                break
            except (EncodingError, RemoteProtocolError) as error:
                raise fault_at("control", self._control_read + at, error) from None
            at += size
            self.receiver.resume()
        del buffer[:at]
        self._control_read += at

    def _handle_control(self, message: ControlMessage) -> None:
        match message:
            case Grant(amount):
                if self.credit + amount > MAX_U64:
                    raise RemoteProtocolError("the peer granted more credit for proposals than 64 bits hold")
                self.credit += amount
            case Proposal():
                self._take_proposal(message)
            case Adjust():
                self._take_adjust(message)
            case Cancel():
                self._take_cancel(message)

    def _take_proposal(self, proposal: Proposal) -> None:
        self.register.spend()
        if proposal.id % 2 != self._proactive:
            raise RemoteProtocolError(
                f"the peer proposed under id {proposal.id}, but {'odd' if self._proactive else 'even'} ids are its own"
            )
        before = self.exchanges.get(proposal.id)
        if before is not None:
            needed = Said.CANCEL_SENT | Said.MARKER_SENT | Said.CANCEL_RECEIVED
            if not before.has(needed):
                raise RemoteProtocolError(
                    f"the peer proposed under id {proposal.id}, but the proposal of that id is not over"
                )
            self.register.reuse(before)
        if (problem := what_is_wrong(proposal)) is not None:
            raise RemoteProtocolError(problem)
        self.register.tombstones.pop(proposal.id, None)
        if (winner := self._drop_overlapping(proposal)) is not None:
            self.register.fell(proposal.id, winner)
            return
        exchange = Exchange(proposal, self.limits, is_ours=False)
        self.exchanges[proposal.id] = exchange
        if proposal.id in self.register.early:
            self.register.early.discard(proposal.id)
            exchange.advance(Step.MARKED, is_peers=True)
        against = objection(proposal, self._source)
        if against is None:
            self.register.events.append(Offered(proposal))
        else:
            self.register.cancel(exchange, against)
            self.register.events.append(Refused(proposal))

    def _drop_overlapping(self, proposal: Proposal) -> int | None:
        """Of proposals that cross, the one that begins later was never made. Which of ours wins, if one does."""
        for ours in self._unanswered(proposal, ours=True):
            start = ours.proposal.start
            if start < proposal.start or (start == proposal.start and self._proactive):
                return ours.id
            del self.exchanges[ours.id]
            self.receiver.leave(ours)
            self.register.events.append(Dropped(ours.proposal))
        return None

    def _meant(self, message: Adjust | Cancel) -> Exchange | None:
        """The proposal that a message of the peer is about; None if the peer cannot know yet that it was never made."""
        if message.id not in self.exchanges and message.id not in self.register.tombstones:
            verb = "adjusted" if isinstance(message, Adjust) else "cancelled"
            raise RemoteProtocolError(f"the peer {verb} proposal {message.id}, which does not exist")
        return self.exchanges.get(message.id)

    def _take_adjust(self, message: Adjust) -> None:
        exchange = self._meant(message)
        if exchange is None:
            return
        is_confirmation = exchange.is_ours and not exchange.has(Said.CONFIRMED)
        exchange.advance(Step.ADJUSTED, is_peers=True)
        if is_confirmation and message.eagerness is None:
            raise RemoteProtocolError(f"the peer confirmed proposal {message.id} without saying what it wants")
        problem = exchange.range_problem(message) or exchange.theirs.adjust(message)
        if problem is not None:
            raise RemoteProtocolError(problem)
        in_time = exchange.lower(message)
        if is_confirmation:
            exchange.advance(Step.CONFIRM, is_peers=True)
            self.register.settle()
            self.register.mark(exchange)
        if exchange.has(Said.CANCEL_SENT):
            pass  # The adjustment crossed our cancellation on the wire, and changes nothing any more.
        elif not in_time:
            exchange.cursor.index = exchange.total
            self.receiver.lose(exchange, Code.END_OF_RANGE)
        elif is_confirmation and exchange.proposal.sparse and exchange.end is None:
            self.register.cancel(exchange, Cancel(exchange.id, Code.DO_NOT_RETRY))
        else:
            if is_confirmation:
                self.register.events.append(message)
            self.sender.queue(exchange)

    def _take_cancel(self, message: Cancel) -> None:
        exchange = self._meant(message)
        if exchange is None:
            return
        check_cancel(exchange.proposal, message)
        exchange.advance(Step.CANCELLED, is_peers=True)
        self.register.settle()
        self.register.events.append(Cancelled(exchange.proposal, message))
        if not exchange.has(Said.CANCEL_SENT):
            self.register.cancel(exchange, self._reply_to(message, exchange))
        else:
            self.register.mark(exchange)

    def _reply_to(self, message: Cancel, exchange: Exchange) -> Cancel:
        """How we cancel what the peer cancelled. It may not know of the lowest fork that we know of: that is told now.

        It would be told otherwise only by a proposal that the peer does not cancel first, which it does at once. Nor
        does it know of the fork that its own entry shows: it has seen only the hash of ours.
        """
        if message.code is Code.HASH_DIFFERS:
            (theirs,) = message.entries
            ours = entry_at(self._source, theirs.log, theirs.seq)
            if ours is not None and (proof := ForkProof.of(ours, theirs)) is not None:
                return Cancel(exchange.id, Code.FORKED, (proof.first, proof.second))
        lower = None
        if message.code is Code.FORKED and (shown := ForkProof.of(*message.entries)) is not None:
            lower = fork_up_to(exchange.proposal, shown.position - 1, self._source)
        return lower or Cancel(exchange.id, Code.CONFIRMING)

    # -- data channel ------------------------------------------------------------------------------------------

    def receive_data(self, data: Buffer) -> list[Event]:
        """Take bytes of the data channel. ``RemoteProtocolError`` as ``receive_control``."""
        if self._agreed is None:
            raise LocalProtocolError("data of the peer was handed in before its setup")
        return self._guarded("data", self.receiver.take, data)

    def expect_end(self) -> None:
        """The peer ended a channel: ``RemoteProtocolError`` if that was in the middle of a message."""
        if self._control_in or (self.receiver.is_inside_a_message and not self.receiver.is_held):
            raise RemoteProtocolError("the peer ended a channel in the middle of a message")

    def wake(self, logs: Iterable[Log]) -> None:
        """The store has changed what it holds of these logs."""
        self.sender.wake(logs)

    def respond(self, limit: int) -> bool:
        """Write items to send, up to about ``limit`` bytes; whether there may be more to send now."""
        return self.sender.respond(limit)

    def data_to_send(self) -> bytes:
        """Bytes for the data channel."""
        return b"".join(self.register.data_to_send())

    def go_on(self) -> list[Event]:
        """Go on with data that ``receive_data`` has left for later (``Receiver.is_held``), after its events."""
        return self._guarded("data", lambda _: self.receiver.go_on(), b"")

    def take_events(self) -> list[Event]:
        """What happened besides receiving: proposals that ended. After a fault, the events before it."""
        events = list(self.register.events) if self._together else apart(self.register.events)
        self.register.events.clear()
        return events
