"""One endpoint of Point-2-Point with proposals (seed 000; docs/protocols/proposals.md). Does no I/O.

Bytes of the two channels go in by ``receive_control`` and ``receive_data``, and come out of ``control_to_send`` and
``data_to_send``. Whoever owns the connection is told of what came and of what the peer proposes; it says what to
propose, and confirms or refuses. Everything else goes by itself: items are sent as they are there and as they are
wanted, what the peer has is caught up with, what has come to its end is cancelled, forks are shown.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from culm.bamboo import MAX_U64, are_authentic
from culm.errors import EncodingError, LocalProtocolError, RemoteProtocolError, Truncated
from culm.proposals.checks import check_cancel, check_proposal, objection
from culm.proposals.control import MAX_CONTROL_MESSAGE, pull_control, push_control
from culm.proposals.data import MAX_DATA_HEAD, pull_data, push_data
from culm.proposals.events import Cancelled, Confirmed, Dropped, Event, Freed, Lost, Offered, Refused
from culm.proposals.exchange import Exchange
from culm.proposals.limits import Limits
from culm.proposals.messages import (
    EVERYTHING,
    Adjust,
    Apology,
    Cancel,
    Code,
    Compressed,
    DataMessage,
    Eagerness,
    Grant,
    Marker,
    Metadata,
    Notify,
    Proposal,
    Raw,
    Skip,
    SkipBytes,
    Switch,
)
from culm.proposals.setup import Modes, Setup
from culm.proposals.states import Event as Step
from culm.proposals.states import Said
from culm.transfer import EntryReceived
from culm.wire.lzfoo import Decoder, Encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.bamboo import PayloadHasher
    from culm.proposals.messages import ControlMessage
    from culm.transfer import Log, Source

Buffer: TypeAlias = bytes | bytearray | memoryview

_LEAST_PIECE = 4096  # bytes of a payload that are sent at once at least, if there are so many
_LEVEL = 5  # of compression
_LEAST_COMPRESSED = 16  # bytes of a payload that are worth trying


class Connection:
    """One endpoint. ``proactive``: it opened the connection, and its ids are even. ``setup``: what it said of itself.

    ``peer_setup`` is to be called with what the peer said before anything of the data channel is handled.
    """

    def __init__(
        self, source: Source, *, proactive: bool, setup: Setup | None = None, limits: Limits | None = None
    ) -> None:
        self.setup = setup or Setup()
        self.limits = limits or Limits()
        self.proactive = proactive
        self.modes: Modes | None = None
        self.exchanges: dict[int, Exchange] = {}
        self.entries_sent = 0
        self._source = source
        self._next_id = 0 if proactive else 1
        self._failed = False
        self._events: list[Event] = []
        # Control channel.
        self.credit = 0  # for proposals of ours
        self._granted = 0  # for those of the peer
        self._to_grant = 0
        self._forgiven = 0  # those of the peer that fell to ours: it may count on their credit
        self._tombstones: dict[int, int] = {}  # proposals of the peer that fell, and which of ours won
        self._early: set[int] = set()  # markers that came before their proposal
        self._owed: dict[int, int] = {}  # ids in use again before the last marker of their use before came
        self._control_in = bytearray()
        self._control_out = bytearray()
        # Data channel.
        self._in: Exchange | None = None
        self._in_lost = False  # what comes is of a proposal that is not known any more
        self._out: Exchange | None = None
        self._data_in = b""
        self._data_out: list[bytes] = []
        self._data_size = 0
        self._body = 0  # bytes of a payload that are still to come, as they stand on the wire
        self._body_of: Exchange | None = None
        self._decoding = False
        self._is_waiting = False  # for a confirmation that data has overtaken
        self._decoder = Decoder(0)
        self._encoder: Encoder | None = None
        self._turns: deque[int] = deque()
        self._grant(self.limits.proposals)

    def peer_setup(self, theirs: Setup) -> None:
        """The peer's setup came: modes and windows are known."""
        self.modes = Modes.of(self.setup, theirs)
        self._decoder = Decoder(self.modes.receive_window)
        if self.modes.send_window:
            self._encoder = Encoder(self.modes.send_window, _LEVEL)

    # -- what the owner does -----------------------------------------------------------------------------------

    def may_propose(self, proposal: Proposal) -> bool:
        """Whether there is credit, and no overlapping proposal of the peer waits for an answer."""
        return self.credit > 0 and not any(
            other.proposal.overlaps(proposal)
            for other in self.exchanges.values()
            if not other.is_ours and not other.has(Said.ANSWERED)
        )

    def propose(self, proposal: Proposal, begun: PayloadHasher | None = None) -> int:
        """Propose a range; its id, which takes the place of the one in ``proposal``.

        ``begun``: the hash of the bytes that are held of the start's payload, if the range begins behind them. Without
        it the payload cannot be checked here. ``LocalProtocolError`` unless ``may_propose``.
        """
        if not self.may_propose(proposal):
            raise LocalProtocolError("no credit, or a proposal of the peer that overlaps is to be answered first")
        if proposal.sparse and proposal.end is None:
            raise LocalProtocolError("a sparse range without an end says nothing")
        check_proposal(proposal)
        proposal = replace(proposal, id=self._next_id)
        self._next_id += 2
        self.credit -= 1
        self.exchanges[proposal.id] = Exchange(proposal, self.limits, is_ours=True, begun=begun)
        self._say(proposal)
        return proposal.id

    def is_offered(self, proposal_id: int) -> bool:
        """Whether a proposal of the peer waits for an answer: it may have been taken back since."""
        exchange = self.exchanges.get(proposal_id)
        return exchange is not None and not exchange.is_ours and not exchange.has(Said.ANSWERED)

    def confirm(
        self,
        proposal_id: int,
        eagerness: Eagerness = EVERYTHING,
        *,
        least: int | None = None,
        greatest: int | None = None,
        may_skip: bool = True,
        end: int | None = None,
        upper: int | None = None,
    ) -> None:
        """Confirm a proposal of the peer, saying what we want of it; ``end`` and ``upper`` narrow it for both."""
        exchange = self._exchange(proposal_id)
        if exchange.is_ours:
            raise LocalProtocolError(f"proposal {proposal_id} is ours")
        if exchange.proposal.sparse and exchange.end is None and end is None:
            raise LocalProtocolError("a sparse range without an end has no items: give it one")
        message = Adjust(proposal_id, eagerness, may_skip, end, upper, least, greatest)
        exchange.advance(Step.CONFIRM, is_peers=False)
        self._adjust(exchange, message)
        self._queue(exchange)
        self._settle_tombstones()

    def adjust(self, message: Adjust) -> None:
        """Change what we want of a proposal. Its end and upper pool can be lowered in a confirmation only."""
        exchange = self._exchange(message.id)
        if message.end is not None or message.upper is not None:
            raise LocalProtocolError("a range that data may flow of is not narrowed: cancel it and propose another")
        if not exchange.is_ours and not exchange.has(Said.CONFIRMED):
            raise LocalProtocolError(f"proposal {message.id} is to be confirmed first")
        self._adjust(exchange, message)

    def _adjust(self, exchange: Exchange, message: Adjust) -> None:
        exchange.advance(Step.ADJUST, is_peers=False)
        problem = exchange.ours.adjust(message)
        if problem is not None:
            raise LocalProtocolError(problem)
        if not exchange.lower(message):
            raise LocalProtocolError("a range was narrowed too late")
        self._say(message)

    def cancel(self, proposal_id: int, code: Code = Code.DO_NOT_RETRY) -> None:
        """Cancel a proposal; nothing happens if we have."""
        exchange = self._exchange(proposal_id)
        if not exchange.has(Said.CANCEL_SENT):
            self._cancel(exchange, Cancel(proposal_id, code))

    def _cancel(self, exchange: Exchange, message: Cancel) -> None:
        exchange.advance(Step.CANCEL, is_peers=False)
        self._say(message)
        self._mark(exchange)
        self._settle_tombstones()

    def _mark(self, exchange: Exchange) -> None:
        """Send the marker, if it is time for it; and forget the proposal if everything was said."""
        answered = not exchange.is_ours or exchange.has(Said.ANSWERED)
        if exchange.has(Said.CANCEL_SENT) and not exchange.has(Said.MARKER_SENT) and answered:
            exchange.advance(Step.MARK, is_peers=False)
            self._put(push_data(Marker(exchange.id)))
            if self._out is exchange:
                self._out = None
        if exchange.is_over:
            self._free(exchange)

    def _free(self, exchange: Exchange) -> None:
        del self.exchanges[exchange.id]
        self._events.append(Freed(exchange.id, exchange.proposal))
        if not exchange.is_ours:
            self._give_back()

    def _exchange(self, proposal_id: int) -> Exchange:
        exchange = self.exchanges.get(proposal_id)
        if exchange is None:
            raise LocalProtocolError(f"there is no proposal {proposal_id}")
        return exchange

    def _say(self, message: ControlMessage) -> None:
        self._control_out += push_control(message)

    def _grant(self, amount: int) -> None:
        self._granted += amount
        self._say(Grant(amount))

    def _give_back(self) -> None:
        """A proposal of the peer is over: its credit goes back as soon as that is urgent."""
        self._to_grant += 1
        if self._to_grant >= self._granted:
            amount, self._to_grant = self._to_grant, 0
            self._grant(amount)

    def control_to_send(self) -> bytes:
        """Bytes for the control channel."""
        data = bytes(self._control_out)
        self._control_out.clear()
        return data

    # -- control channel ---------------------------------------------------------------------------------------

    def receive_control(self, data: Buffer) -> list[Event]:
        """Take bytes of the control channel. ``RemoteProtocolError``: the connection is to be dropped."""
        return self._guarded(self._take_control, data)

    def _guarded(self, take: Callable[[Buffer], None], data: Buffer) -> list[Event]:
        if self._failed:
            raise LocalProtocolError("the peer broke the protocol: the connection is over")
        try:
            take(data)
            return self._authentic()
        except RemoteProtocolError:
            self._failed = True
            self._events.clear()
            raise

    def _authentic(self) -> list[Event]:
        """What happened, once the signatures of the entries that came are checked."""
        events, self._events = self._events, []
        if self.modes is None or not self.modes.takes_greedily:
            entries = [event.entry for event in events if isinstance(event, EntryReceived)]
            if entries and not all(good := are_authentic(entries)):
                raise RemoteProtocolError(f"entry {entries[good.index(False)].seq} has a bad signature")
        return events

    def _take_control(self, data: Buffer) -> None:
        self._control_in += data
        at, buffer = 0, self._control_in
        while at < len(buffer):
            try:
                message, size = pull_control(buffer[at : at + MAX_CONTROL_MESSAGE])
            except Truncated:
                break
            except EncodingError as error:
                raise RemoteProtocolError(f"a control message breaks the format: {error}") from None
            at += size
            self._handle_control(message)
        del buffer[:at]

    def _handle_control(self, message: ControlMessage) -> None:
        match message:
            case Grant(amount):
                if self.credit + amount > MAX_U64:
                    raise RemoteProtocolError("more credit for proposals than 64 bits hold")
                self.credit += amount
            case Proposal():
                self._take_proposal(message)
            case Adjust():
                self._take_adjust(message)
            case Cancel():
                self._take_cancel(message)

    def _take_proposal(self, proposal: Proposal) -> None:
        self._spend_grant()
        if proposal.id % 2 != self.proactive:
            raise RemoteProtocolError(f"proposal {proposal.id} has an id of ours")
        before = self.exchanges.get(proposal.id)
        if before is not None:
            needed = Said.CANCEL_SENT | Said.MARKER_SENT | Said.CANCEL_RECEIVED
            if not before.has(needed):
                raise RemoteProtocolError(f"proposal {proposal.id} lives")
            self._owed[proposal.id] = self._owed.get(proposal.id, 0) + 1
            self._free(before)
        check_proposal(proposal)
        self._tombstones.pop(proposal.id, None)
        if (winner := self._drop_overlapping(proposal)) is not None:
            self._tombstones[proposal.id] = winner
            self._early.discard(proposal.id)
            self._forgiven += 1
            self._give_back()
            return
        exchange = Exchange(proposal, self.limits, is_ours=False)
        self.exchanges[proposal.id] = exchange
        if proposal.id in self._early:
            self._early.discard(proposal.id)
            exchange.advance(Step.MARKED, is_peers=True)
        against = objection(proposal, self._source)
        if against is None:
            self._events.append(Offered(proposal))
        else:
            self._cancel(exchange, against)
            self._events.append(Refused(proposal, against))

    def _spend_grant(self) -> None:
        if self._granted:
            self._granted -= 1
        elif self._forgiven:
            self._forgiven -= 1
        else:
            raise RemoteProtocolError("a proposal without credit for it")

    def _drop_overlapping(self, proposal: Proposal) -> int | None:
        """Of proposals that cross, the one that begins later was never made. Which of ours wins, if one does."""
        for ours in [other for other in self.exchanges.values() if other.is_ours and not other.has(Said.ANSWERED)]:
            if not ours.proposal.overlaps(proposal):
                continue
            start = ours.proposal.start
            falls = start > proposal.start or (start == proposal.start and not self.proactive)
            if not falls:
                return ours.id
            del self.exchanges[ours.id]
            if self._out is ours:
                self._out = None
            self._events.append(Dropped(ours.proposal))
        return None

    def _settle_tombstones(self) -> None:
        """Forget what fell to proposals that were answered.

        One that fell itself will never be: what fell to it is remembered, up to a number.
        """
        for proposal_id, winner in list(self._tombstones.items()):
            exchange = self.exchanges.get(winner)
            if exchange is not None and exchange.has(Said.ANSWERED):
                del self._tombstones[proposal_id]
        while len(self._tombstones) > 2 * self.limits.proposals:
            del self._tombstones[next(iter(self._tombstones))]

    def _take_adjust(self, message: Adjust) -> None:
        exchange = self.exchanges.get(message.id)
        if exchange is None:
            if message.id in self._tombstones:
                return
            raise RemoteProtocolError(f"an adjustment of proposal {message.id}, which there is not")
        is_confirmation = exchange.is_ours and not exchange.has(Said.CONFIRMED)
        exchange.advance(Step.ADJUSTED, is_peers=True)
        if is_confirmation and message.eagerness is None:
            raise RemoteProtocolError("a confirmation that does not say what is wanted")
        problem = exchange.theirs.adjust(message)
        if problem is not None:
            raise RemoteProtocolError(problem)
        in_time = exchange.lower(message)
        if is_confirmation:
            exchange.advance(Step.CONFIRM, is_peers=True)
            self._settle_tombstones()
            self._mark(exchange)
        if exchange.has(Said.CANCEL_SENT):
            return
        if not in_time:
            exchange.outgoing.index = exchange.total
            self._lose(exchange, Code.END_OF_RANGE)
        elif is_confirmation and exchange.proposal.sparse and exchange.end is None:
            self._cancel(exchange, Cancel(exchange.id, Code.DO_NOT_RETRY))
        else:
            if is_confirmation:
                self._events.append(Confirmed(exchange.id))
            self._queue(exchange)
        self._resume()

    def _take_cancel(self, message: Cancel) -> None:
        exchange = self.exchanges.get(message.id)
        if exchange is None:
            if message.id in self._tombstones:
                return
            raise RemoteProtocolError(f"a cancellation of proposal {message.id}, which there is not")
        entries = check_cancel(exchange.proposal, message)
        exchange.advance(Step.CANCELLED, is_peers=True)
        self._settle_tombstones()
        self._events.append(Cancelled(exchange.id, exchange.proposal, message, entries))
        if not exchange.has(Said.CANCEL_SENT):
            self._cancel(exchange, Cancel(exchange.id, Code.CONFIRMING))
        else:
            self._mark(exchange)
        self._resume()

    def expect_end(self) -> None:
        """The peer ends a channel: ``RemoteProtocolError`` in the middle of a message."""
        if self._control_in or self._data_in or self._body:
            raise RemoteProtocolError("the peer ends a channel in the middle of a message")

    def expects_payload(self, size: int) -> bool:
        """Whether the next so many bytes are, as far as can be told, those of a large payload: no entries."""
        return self._in is not None and self._in.incoming.payload_left >= size

    # -- data channel, in --------------------------------------------------------------------------------------

    @property
    def unread(self) -> int:
        """The bytes of the data channel that wait for a confirmation on the control channel."""
        return len(self._data_in) if self._is_waiting else 0

    def receive_data(self, data: Buffer) -> list[Event]:
        """Take bytes of the data channel. ``RemoteProtocolError``: the connection is to be dropped."""
        if self.modes is None:
            raise LocalProtocolError("data before the peer's setup was read")
        return self._guarded(self._take_data, data)

    def _resume(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._take_data(b"")

    def _take_data(self, data: Buffer) -> None:
        buffer = self._data_in + bytes(data) if self._data_in else bytes(data)
        at = 0
        self._data_in = b""
        while at < len(buffer) and not self._is_waiting:
            if self._body:
                taken = buffer[at : at + self._body]
                at += len(taken)
                self._take_body(taken)
                continue
            head = buffer[at : at + MAX_DATA_HEAD]
            try:
                message, size = pull_data(head)
            except Truncated:
                break
            except EncodingError as error:
                raise RemoteProtocolError(f"a data message breaks the format: {error}") from None
            if self._handle_data(message):
                at += size
        self._data_in = buffer[at:]

    def _handle_data(self, message: DataMessage) -> bool:
        """Take a message. False if it is to wait for the control channel."""
        if isinstance(message, Switch):
            self._switch(message.id)
            return True
        if isinstance(message, Marker):
            self._take_marker(message.id)
            return True
        exchange = self._in
        if exchange is None and not self._in_lost:
            raise RemoteProtocolError("an item of no proposal")
        if exchange is not None and not exchange.has(Said.CONFIRMED):
            if exchange.is_ours and not exchange.has(Said.ANSWERED):
                self._is_waiting = True
                return False
            raise RemoteProtocolError(f"an item of proposal {exchange.id}, which was not confirmed")
        if exchange is None or exchange.incoming.lost:
            self._begin_body(message, None)
            return True
        self._take_item(exchange, message)
        if exchange.is_finished(self._source) and not exchange.has(Said.CANCEL_SENT):
            self._cancel(exchange, Cancel(exchange.id, Code.END_OF_RANGE))
        elif isinstance(message, Apology | Skip):
            self._queue(exchange)
        return True

    def _switch(self, proposal_id: int) -> None:
        exchange = self.exchanges.get(proposal_id)
        self._in, self._in_lost = None, False
        if self._owed.get(proposal_id):
            self._in_lost = True
        elif exchange is None:
            if proposal_id not in self._tombstones:
                raise RemoteProtocolError(f"a switch to proposal {proposal_id}, which there is not")
        elif exchange.has(Said.MARKER_RECEIVED):
            raise RemoteProtocolError(f"a switch to proposal {proposal_id}, which the peer has ended")
        else:
            self._in = exchange

    def _take_marker(self, proposal_id: int) -> None:
        exchange = self.exchanges.get(proposal_id)
        if self._owed.get(proposal_id):
            self._owed[proposal_id] -= 1
            if not self._owed[proposal_id]:
                del self._owed[proposal_id]
            self._in_lost = False
            return
        if proposal_id in self._tombstones:
            return
        if exchange is None or exchange.has(Said.MARKER_RECEIVED):
            is_theirs = proposal_id % 2 == self.proactive
            is_next = exchange is None or exchange.has(Said.CANCEL_SENT | Said.MARKER_SENT)
            if not is_theirs or not is_next or proposal_id in self._early or len(self._early) >= self._granted:
                raise RemoteProtocolError(f"a marker of proposal {proposal_id}, which there is not")
            self._early.add(proposal_id)
            return
        exchange.advance(Step.MARKED, is_peers=True)
        if self._in is exchange:
            self._in = None
        if exchange.is_over:
            self._free(exchange)

    def _take_item(self, exchange: Exchange, message: DataMessage) -> None:
        incoming, greedy = exchange.incoming, self.modes is not None and self.modes.takes_greedily
        match message:
            case Metadata():
                incoming.metadata(message, self._source, self._events, greedy=greedy)
            case Raw(count) | Compressed(count):
                if incoming.begin(count, self._source, self._events):
                    self._begin_body(message, exchange)
                else:
                    self._lose(exchange, Code.DO_NOT_RETRY)
                    self._begin_body(message, None)
            case Notify(count):
                incoming.notify(count, self._source, self._events)
            case Skip(why):
                incoming.skip(why, self._source, self._events)
            case SkipBytes(count):
                incoming.skip_bytes(count, self._source)
            case Apology():
                incoming.apologise(self._events, greedy=greedy)

    def _lose(self, exchange: Exchange, code: Code) -> None:
        """What comes of a proposal cannot be followed any more."""
        exchange.incoming.lost = True
        self._events.append(Lost(exchange.id))
        if not exchange.has(Said.CANCEL_SENT):
            self._cancel(exchange, Cancel(exchange.id, code))

    def _begin_body(self, message: DataMessage, exchange: Exchange | None) -> None:
        if isinstance(message, Raw):
            self._body, self._decoding = message.count, False
        elif isinstance(message, Compressed):
            self._body, self._decoding = message.size, True
            self._decode(lambda: self._decoder.begin(message.count))
            if not message.size:
                self._decode(self._decoder.finish)
        self._body_of = exchange

    def _take_body(self, data: bytes) -> None:
        self._body -= len(data)
        exchange, greedy = self._body_of, self.modes is not None and self.modes.takes_greedily
        if not self._decoding:
            if exchange is not None:
                exchange.incoming.body(data, self._events, greedy=greedy)
        else:
            self._decode(lambda: self._decode_to(data, exchange, greedy=greedy))
            if not self._body:
                self._decode(self._decoder.finish)
        if exchange is not None and exchange.is_finished(self._source) and not exchange.has(Said.CANCEL_SENT):
            self._cancel(exchange, Cancel(exchange.id, Code.END_OF_RANGE))

    def _decode_to(self, data: bytes, exchange: Exchange | None, *, greedy: bool) -> None:
        for piece in self._decoder.feed(data):
            if exchange is not None:
                exchange.incoming.body(piece, self._events, greedy=greedy)

    def _decode(self, work: Callable[[], None]) -> None:
        try:
            work()
        except EncodingError as error:
            raise RemoteProtocolError(f"compressed bytes that are wrong: {error}") from None

    # -- data channel, out -------------------------------------------------------------------------------------

    def wake(self, logs: Iterable[Log]) -> None:
        """The store has changed what it holds of these logs."""
        changed = set(logs)
        for exchange in self.exchanges.values():
            if exchange.proposal.log in changed:
                exchange.outgoing.wake()
                self._queue(exchange)

    def _queue(self, exchange: Exchange) -> None:
        if exchange.id not in self._turns:
            self._turns.append(exchange.id)

    def _put(self, data: bytes) -> None:
        self._data_out.append(data)
        self._data_size += len(data)

    @property
    def pending(self) -> int:
        """The bytes of the data channel that wait to be taken by ``data_to_send``."""
        return self._data_size

    @property
    def turns(self) -> int:
        """How many proposals ``respond`` would look at."""
        return len(self._turns)

    def respond(self, limit: int) -> bool:
        """Write items to send, up to about ``limit`` bytes; whether there may be more to send now.

        Reads from the source. Each proposal has its turn, for a chunk at a time.
        """
        if self.modes is None:
            return False
        while self._turns and self._data_size < limit:
            exchange = self.exchanges.get(self._turns.popleft())
            if exchange is not None and exchange.may_send:
                self._send_some(exchange, min(limit, self._data_size + self.limits.chunk))
        return bool(self._turns)

    def _send_some(self, exchange: Exchange, limit: int) -> None:
        outgoing, greedy = exchange.outgoing, self.modes is not None and self.modes.sends_greedily
        while exchange.may_send:
            if self._data_size >= limit:
                self._queue(exchange)
                return
            room = max(limit - self._data_size, _LEAST_PIECE)
            step = outgoing.step(self._source, room, greedy=greedy)
            if step is None:
                self._show_fork(exchange)
                break
            if self._out is not exchange:
                self._out = exchange
                self._put(push_data(Switch(exchange.id)))
            for message in step.messages:
                if not isinstance(message, Raw):
                    self._put(push_data(message))
                    self.entries_sent += isinstance(message, Metadata)
                else:
                    self._put_body(message, step.body)
            outgoing.moved(step)
        if exchange.is_finished(self._source) and not exchange.has(Said.CANCEL_SENT):
            self._cancel(exchange, Cancel(exchange.id, Code.END_OF_RANGE))

    def _show_fork(self, exchange: Exchange) -> None:
        """Nothing more can be sent: if that is because the log is forked here, say so."""
        log, at = exchange.proposal.log, exchange.outgoing.index
        if at >= exchange.total or not self._source.held(log).is_forked:
            return
        seq = exchange.sequence.item(at).seq
        proofs = [proof for proof in self._source.proofs(log) if proof.position <= seq]
        if proofs:
            proof = min(proofs, key=lambda proof: proof.position)
            self._cancel(exchange, Cancel(exchange.id, Code.FORKED, (proof.first, proof.second)))

    def _put_body(self, message: Raw, body: bytes) -> None:
        encoded = None
        if self._encoder is not None and len(body) >= _LEAST_COMPRESSED:
            encoded = self._encoder.encode_if_smaller(body)
        if encoded is not None:
            self._put(push_data(Compressed(len(body), len(encoded))))
            self._put(encoded)
        else:
            self._put(push_data(message))
            self._put(body)

    def data_to_send(self) -> bytes:
        """Bytes for the data channel."""
        data = b"".join(self._data_out)
        self._data_out.clear()
        self._data_size = 0
        return data

    def take_events(self) -> list[Event]:
        """What happened besides receiving: proposals that ended."""
        events, self._events = self._events, []
        return events
