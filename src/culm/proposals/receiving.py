"""The peer's side of the data channel: the current proposal, markers, bytes of payloads.

Data can overtake the control channel: the peer may confirm a proposal of ours and at once send items of it, and the
items arrive first. So an item of a proposal that we made and that nobody answered yet is no offence; reading stops in
front of it until the control channel has said more. Credit bounds what waits meanwhile.

*Lost mode.* Sometimes the meaning of what comes on one proposal is lost, though nobody broke a rule: an entry that only
we think ends the log, bytes of a payload whose size we do not know, an id that is in use again. All messages delimit
themselves, so they are still read, and compressed bytes still feed the history that later ones refer to; but nothing is
kept and no place is checked, until the peer's marker ends the proposal.

What an item means on its proposal is the matter of ``culm.proposals.incoming``.

Specification: docs/specs/proposals.md, "Data channel", "Markers", "Compression".
"""

from collections.abc import Iterator

from culm.bamboo import MAX_U64, Entry, ForkProof, is_authentic
from culm.errors import EncodingError, RemoteProtocolError, Truncated
from culm.proposals import data
from culm.proposals.bodies import Bodies
from culm.proposals.checks import fault_at
from culm.proposals.exchange import Exchange
from culm.proposals.limits import Limits
from culm.proposals.messages import Cancel, Code
from culm.proposals.register import Register
from culm.proposals.sending import Sender
from culm.proposals.setup import Setup
from culm.proposals.states import Event as Step
from culm.proposals.states import Said
from culm.transfer import Source, Window
from culm.types import Buffer, Log

_MANY = 16  # Entries taken in one step from which on it pays to try again at once behind what stopped it.


class Receiver:
    """Reads what the peer sends. ``proactive``: we opened the connection."""

    def __init__(self, source: Source, limits: Limits, register: Register, sender: Sender, *, proactive: bool) -> None:
        self._source = source
        self._register = register
        self._events = register.events
        self._sender = sender
        self._proactive = proactive
        self._greedy = False
        self._current: Exchange | None = None
        self._is_lost = False  # what comes is of a proposal that is not known any more
        self._is_waiting = False  # for a confirmation that data has overtaken
        self._buffer = b""
        self._read = 0  # bytes that were read, to say where a fault is
        self.window = Window(limits.window)
        self._bodies = Bodies(limits.window)
        self._body_of: Exchange | None = None  # None: bytes that come are only read
        # By log: we hold no entry from the first number to before the second, as of this piece of data. To ask the
        # source about each entry would cost more than to read the entry.
        self._lacking: dict[Log, tuple[int, int]] = {}

    def agree(self, agreed: Setup) -> None:
        """Modes and windows are known: data may come."""
        self._greedy = agreed.takes_greedily
        self._bodies.agree(agreed.receive_window)

    # -- bytes -------------------------------------------------------------------------------------------------

    @property
    def unread(self) -> int:
        """The bytes that wait, for a confirmation on the control channel, or until those before are dealt with."""
        return len(self._buffer) if self._is_waiting or self.is_held else 0

    @property
    def is_held(self) -> bool:
        """Whether more came than is dealt with at once: a few bytes can decode to any number of them."""
        return self._bodies.is_held

    @property
    def is_inside_a_message(self) -> bool:
        """Whether a message came in part."""
        return bool(self._buffer or self._bodies.left)

    @property
    def payload_left(self) -> int:
        """How many of the next bytes are, as far as can be told, those of the payload that has begun: no entries."""
        return 0 if self._current is None else self._current.incoming.payload_left

    def resume(self) -> None:
        """The control channel said something: what waited for that may go on."""
        if self._is_waiting:
            self._is_waiting = False
            self._take(b"")

    def leave(self, exchange: Exchange) -> None:
        """A proposal of ours was never made: nothing can come of it."""
        self.window.over(exchange.id)
        if self._current is exchange:
            self._current = None

    def take(self, piece: Buffer) -> None:
        """Take bytes. ``RemoteProtocolError`` for what may not come."""
        if not self.is_held:
            self._bodies.refill()
        self._take(piece)

    def go_on(self) -> None:
        """What was handed out is dealt with: go on with what is left."""
        self._bodies.refill()
        if self.is_held:
            self._hand_out(self._bodies.go_on())
        self._take(b"")

    def _take(self, piece: Buffer) -> None:
        self._lacking.clear()
        buffer = self._buffer + bytes(piece)
        at = 0
        self._buffer = b""
        # How many messages to take alone before the next step of many; and before the one after it, if that stops soon.
        alone, after = 0, _MANY
        while at < len(buffer) and not (self._is_waiting or self.is_held):
            try:
                if not alone and (plain := self._plain()) is not None:
                    count, size = self._take_many(*plain, memoryview(buffer)[at:])
                    at += size
                    if count < _MANY:  # To try again at once would cost each item a look at all that follows it.
                        alone, after = after, 2 * after
                    continue
                at += self._take_one(buffer, at)
                alone = max(0, alone - 1)
            except Truncated:
                break
            except (EncodingError, RemoteProtocolError) as error:
                raise fault_at("data", self._read + at, error) from None
        self._buffer = buffer[at:]
        self._read += at

    def _take_one(self, buffer: bytes, at: int) -> int:
        """Take a message, or bytes of a payload; how many bytes were read. ``Truncated`` if it is not all there."""
        if self._bodies.left:
            taken = buffer[at : at + self._bodies.left]
            self._hand_out(self._bodies.take(taken))
            return len(taken)
        message, size = data.pull_data(buffer[at : at + data.MAX_DATA_HEAD])
        return size if self._handle(message) else 0

    def _plain(self) -> tuple[Exchange, range] | None:
        """The proposal, and numbers of entries, if these come next with their payloads and need not be looked at."""
        exchange = self._current
        if exchange is None or self._bodies.left or self._greedy or not exchange.has(Said.CONFIRMED):
            return None
        if exchange.ended_by_us_alone or exchange.has(Said.CANCEL_SENT):
            return None
        numbers = exchange.incoming.plain()
        log = exchange.proposal.log
        if not numbers or self._held(log, numbers[0]) is not None:
            return None
        return exchange, numbers[: self._lacking[log][1] - numbers[0]]

    def _take_many(self, exchange: Exchange, numbers: range, data: memoryview) -> tuple[int, int]:
        """Take entries and their payloads as ``_take_one`` would; how many, and of how many bytes."""
        items, size = exchange.incoming.take_plain(numbers, data, self._events)
        self.window.took(exchange.id, size, goes_on=False)
        self._sender.end_if_finished(exchange)
        return items, size

    # -- messages ----------------------------------------------------------------------------------------------

    def _handle(self, message: data.DataMessage) -> bool:
        """Take a message. False if it is to wait for the control channel."""
        if isinstance(message, data.Switch):
            self._switch(message.id)
            return True
        if isinstance(message, data.Marker):
            self._take_marker(message.id)
            return True
        exchange = self._current
        if exchange is None and not self._is_lost:
            raise RemoteProtocolError("the peer sent an item of no proposal: it has switched to none")
        if exchange is not None and not exchange.has(Said.CONFIRMED):
            if exchange.is_ours and not exchange.has(Said.ANSWERED):
                self._is_waiting = True
                return False
            raise RemoteProtocolError(f"the peer sent an item of proposal {exchange.id}, which was not confirmed")
        if exchange is None or exchange.incoming.lost:
            self._begin_body(message, None)
            return True
        self._take_item(exchange, message)
        self._sender.end_if_finished(exchange)
        if isinstance(message, data.Apology | data.Skip | data.Notify):
            # There may be something to send behind that.
            self._sender.queue(exchange)
        return True

    def _switch(self, proposal_id: int) -> None:
        exchange = self._register.living.get(proposal_id)
        if self._current is not None:
            self.window.end_turn(self._current.id)
        self._current, self._is_lost = None, False
        if proposal_id in self._register.owed:
            self._is_lost = True
        elif exchange is None:
            if proposal_id not in self._register.tombstones:
                raise RemoteProtocolError(f"the peer switched to proposal {proposal_id}, which does not exist")
        elif exchange.has(Said.MARKER_RECEIVED):
            raise RemoteProtocolError(
                f"the peer switched to proposal {proposal_id}, but has sent the marker that ends it"
            )
        else:
            self._current = exchange
            self.window.begin_turn(in_payload=exchange.incoming.payload_left > 0)

    def _take_marker(self, proposal_id: int) -> None:
        exchange = self._register.living.get(proposal_id)
        if self._register.pay(proposal_id):
            self._is_lost = False
            return
        if proposal_id in self._register.tombstones:
            return
        if exchange is None or exchange.has(Said.MARKER_RECEIVED):
            is_theirs = proposal_id % 2 == self._proactive
            is_next = exchange is None or exchange.has(Said.CANCEL_SENT | Said.MARKER_SENT)
            if not (is_theirs and is_next and self._register.mark_early(proposal_id)):
                raise RemoteProtocolError(f"the peer sent a marker of proposal {proposal_id}, which does not exist")
            return
        exchange.advance(Step.MARKED, is_peers=True)
        exchange.incoming.end(self._events)
        self.leave(exchange)
        if exchange.is_over:
            self._register.free(exchange)

    def _take_item(self, exchange: Exchange, message: data.DataMessage) -> None:
        incoming = exchange.incoming
        is_understood = not (exchange.ended_by_us_alone and incoming.index >= exchange.total)
        match message:
            case _ if not is_understood:
                pass
            case data.Metadata():
                self._compare(exchange, incoming.metadata(message, self._source, self._events, greedy=self._greedy))
            case data.Raw(count) | data.Compressed(count):
                is_understood = incoming.begin(count, self._source, self._events)
            case data.Notify(count):
                incoming.notify(count, self._events)
            case data.Skip(why):
                incoming.skip(why, self._source, self._events)
            case data.SkipBytes(count):
                incoming.skip_bytes(count, self._source)
            case data.Apology():
                incoming.apologise(self._events, greedy=self._greedy)
        if not is_understood:
            self.lose(exchange, Code.DO_NOT_RETRY)
        self._begin_body(message, exchange if is_understood else None)

    def _compare(self, exchange: Exchange, entry: Entry | None) -> None:
        """If we hold another entry of this number, show the fork (X21).

        Once the store has found it that is too late: a finite proposal may have come to its end before.
        """
        if exchange.incoming.is_astray:
            self.lose(exchange, Code.RESOURCE_LIMIT)  # A new proposal names a hash, which shows the fork.
        if entry is None:
            return
        if exchange.has(Said.CANCEL_SENT):
            return
        ours = self._held(exchange.proposal.log, entry.seq)
        if ours is None or ours.hash == entry.hash or not is_authentic(entry):
            return
        if (proof := ForkProof.of(ours, entry)) is not None:
            self._register.cancel(exchange, Cancel(exchange.id, Code.FORKED, (proof.first, proof.second)))

    def _held(self, log: Log, seq: int) -> Entry | None:
        """The verified entry of a number that we hold, as of this piece of data."""
        low, high = self._lacking.get(log, (0, 0))
        if low <= seq < high:
            return None
        page = self._source.page(log, seq, ascending=True, limit=1)
        entry = page[0].entry if page else None
        self._lacking[log] = seq, MAX_U64 + 1 if entry is None else entry.seq
        return entry if entry is not None and entry.seq == seq else None

    def lose(self, exchange: Exchange, code: Code) -> None:
        """What comes of a proposal cannot be followed any more: it is only read until its marker."""
        exchange.incoming.lost = True
        if not exchange.has(Said.CANCEL_SENT):
            self._register.cancel(exchange, Cancel(exchange.id, code))

    # -- bytes of payloads -------------------------------------------------------------------------------------

    def _begin_body(self, message: data.DataMessage, exchange: Exchange | None) -> None:
        self._bodies.begin(message)
        self._body_of = exchange

    def _hand_out(self, pieces: Iterator[bytes]) -> None:
        exchange = self._body_of
        for piece in pieces:
            if exchange is not None:
                exchange.incoming.body(piece, self._events, greedy=self._greedy)
                self.window.took(exchange.id, len(piece), goes_on=exchange.incoming.payload_left > 0)
        if exchange is not None:
            self._sender.end_if_finished(exchange)
