"""A connection: both directions of the protocol over one reliable channel, without doing any I/O.

::

    connection = Connection(source)
    request_id = connection.request(author, log_id, interval)      # LocalProtocolError without credit
    for event in connection.receive_data(data, now): ...           # RemoteProtocolError: drop the connection
    connection.respond(limit)                                      # write answers to the peer's requests
    connection.wake([log])                                         # the store has more of a log
    data = connection.data_to_send()

Each side grants the other credit before anything can happen: for requests, and for bytes of item data. Request credit
comes back by itself when a request is over; ``refill`` gives back the credit for data once that is dealt with, so that
a peer can never send more than the owner has room for. Answers take turns, a chunk at a time.

Specification: docs/specs/intervals.md, "Connection state", "Credit", "Ids and the active request", "What is refused".
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, PayloadHasher, are_authentic
from culm.errors import EncodingError, LocalProtocolError, RemoteProtocolError, Truncated
from culm.intervals.adjusting import adjusted_ours, adjusted_theirs
from culm.intervals.codec import MAX_MESSAGE, pull_message, push_message
from culm.intervals.events import (
    Announced,
    Doubted,
    Ended,
    EntryDropped,
    Event,
    Requested,
    RequestEnded,
    Started,
)
from culm.intervals.exchanged import Exchanged
from culm.intervals.interval import Forks, Request
from culm.intervals.limits import Limits
from culm.intervals.messages import (
    Activate,
    Adjust,
    Cancel,
    Eager,
    End,
    Lazy,
    Message,
    Reason,
    RequestCredit,
    ResponseCredit,
)
from culm.intervals.proofs import check_full, check_partial
from culm.intervals.requester import OurRequest
from culm.intervals.responder import Announcement, Data, Over, TheirRequest
from culm.intervals.states import OurEvent, Ours
from culm.intervals.turns import Turns
from culm.ranges.runs import Runs
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived
from culm.wire.connection import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from culm.bamboo import Entry
    from culm.intervals.interval import Interval
    from culm.transfer import Source
    from culm.types import Buffer, Log

_RESERVE = 32 * 1024  # bytes of response credit that large payloads do not take


class Connection:
    """One endpoint. ``source`` is asked for what the peer wants; ``stateless`` speaks the request-response subset.

    Not to be used from two threads at once.
    """

    def __init__(self, source: Source, *, limits: Limits | None = None, stateless: bool = False) -> None:
        self.limits = limits or Limits()
        self.stateless = stateless
        self.request_credit = 0  # requests that we may still send
        self.response_credit = 0  # bytes of item data that we may still send
        self._most_credit = 0  # that there ever was
        self.ours: dict[int, OurRequest] = {}
        self._turns = Turns()
        self.theirs = self._turns.requests  # the peer's, by id
        self._source = source
        self._peer_requests = 0  # credit that the peer has
        self._peer_window = 0
        self._active_ours = 0  # the request of ours that what we receive belongs to
        self._active_theirs = 0  # the request of the peer that what we send belongs to
        self._our_ids = Runs()  # all that were ever used
        self._next_id = 0
        self._exchanged: dict[Log, Exchanged] = {}
        self._buffer = bytearray()
        self._body = 0  # bytes of the present eager message that are to come
        self._out: deque[bytes] = deque()
        self.pending = 0  # bytes that ``data_to_send`` would give
        self._events: list[Event] = []
        self._failed = False
        self.entries_sent = 0  # whose metadata went to the peer as data
        self._grant(self.limits.requests)
        self.refill()

    # -- out ---------------------------------------------------------------------------------------------------

    def data_to_send(self, limit: int = UNLIMITED) -> bytes:
        """Take about ``limit`` bytes for the peer: whole messages, and of data whole chunks."""
        parts: list[bytes] = []
        size = 0
        while self._out and size < limit:
            parts.append(self._out.popleft())
            size += len(parts[-1])
        self.pending -= size
        return b"".join(parts)

    def _send(self, message: Message) -> None:
        self._write_out(push_message(message))

    def _write_out(self, data: bytes) -> None:
        self._out.append(data)
        self.pending += len(data)

    # -- credit ------------------------------------------------------------------------------------------------

    def _grant(self, requests: int) -> None:
        self._peer_requests += requests
        self._send(RequestCredit(requests))

    def refill(self) -> None:
        """Everything received was dealt with: let the peer send a whole window again."""
        amount = self.limits.window - self._peer_window
        if amount * 2 >= self.limits.window:
            self._peer_window += amount
            self._send(ResponseCredit(amount))

    # -- time --------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """None: nothing here waits for a time."""
        return None

    def handle_timer(self, now: float) -> tuple[Event, ...]:  # noqa: ARG002 - nothing is timed here
        """Nothing is due, ever."""
        return ()

    def keep_alive(self) -> None:
        """Queue a grant of no bytes, which has no effect."""
        self._send(ResponseCredit(0))

    # -- our requests ------------------------------------------------------------------------------------------

    def request(
        self,
        author: bytes,
        log_id: int,
        interval: Interval,
        *,
        forks: Forks = Forks.DEFAULT,
        anchor: tuple[int, bytes] | None = None,
        least_size: int | None = None,
        greatest_size: int | None = None,
        payload_offset: int | None = None,
        verified: bool = True,
        lazy: bool = False,
        begun: tuple[Entry, PayloadHasher] | None = None,
    ) -> int:
        """Ask for an interval; the id of the request. See ``Request`` for what can be said.

        ``begun`` tells, for an immediate payload request, which entry the start is, and what the bytes before the
        offset hash to: so that the payload can be checked. ``LocalProtocolError`` if the peer gave no credit for it,
        ``ValueError`` for what a request cannot say.
        """
        if self.request_credit == 0:
            raise LocalProtocolError("the peer has given no credit for another request")
        request = Request(
            self._next_id,
            author,
            log_id,
            interval,
            forks,
            anchor,
            least_size,
            greatest_size,
            payload_offset,
            verified,
            lazy,
        )
        ours = OurRequest(request, self._exchanged_of(request.log), self._source)
        if begun is not None:
            ours.resume(*begun)
        self._open(ours)
        self._send(request)
        return request.id

    def _open(self, ours: OurRequest) -> None:
        self.request_credit -= 1
        self.ours[ours.request.id] = ours
        self._our_ids.add(ours.request.id, ours.request.id)
        self._next_id += 1

    def cancel(self, request_id: int) -> None:
        """Have the peer end a response; what it sends until then still comes. ``LocalProtocolError`` if it is over."""
        self._ours(request_id).advance(OurEvent.CANCEL)
        self._send(Cancel(request_id))

    def adjust(self, request_id: int, seq: int | None = None, offset: int | None = None) -> int:
        """Change a request from lazy to eager or the reverse; the id of the request that takes over.

        ``seq`` is the number of an entry, ``offset`` a byte of its payload (None: its metadata): where the new response
        begins or changes, as docs/specs/intervals.md, "Adjustments", says. An eager response must not begin with a
        payload whose metadata was only announced, since its end could not be found: from lazy to eager, name an entry.
        """
        if self.request_credit == 0:
            raise LocalProtocolError("the peer has given no credit for an adjustment")
        ours = self._ours(request_id)
        if ours.successor is not None:
            raise LocalProtocolError(f"request {request_id} was adjusted already")
        message = Adjust(request_id, self._next_id, seq, offset)
        try:
            successor = adjusted_ours(ours, message, self._source)  # for its request: where it begins is not known yet
        except RemoteProtocolError as error:
            raise LocalProtocolError(str(error)) from None
        ours.advance(OurEvent.ADJUST)
        successor.state = Ours.DEFERRED
        ours.successor = successor
        ours.adjustment = message
        self._open(successor)
        self._send(message)
        return message.new

    def _ours(self, request_id: int) -> OurRequest:
        ours = self.ours.get(request_id)
        if ours is None:
            raise LocalProtocolError(f"there is no request {request_id}")
        return ours

    def _exchanged_of(self, log: Log) -> Exchanged:
        exchanged = self._exchanged.pop(log, None) or Exchanged()
        self._exchanged[log] = exchanged
        if len(self._exchanged) > self.limits.logs:  # the log that was asked for longest ago
            in_use = {ours.request.log for ours in self.ours.values()} | set(self._turns.logs)
            oldest = next((other for other in self._exchanged if other not in in_use and other != log), None)
            if oldest is not None:
                del self._exchanged[oldest]
        return exchanged

    # -- in ----------------------------------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """False: what came was dealt with at once."""
        return False

    def receive_data(self, data: Buffer, now: float) -> Iterator[Event]:  # noqa: ARG002 - nothing is timed here
        """Take bytes from the peer (``culm.wire.connection``).

        All bytes are read at once; the signatures of the entries among them are checked together, when the first event
        is asked for.
        """
        if self._failed:
            raise LocalProtocolError("the peer broke the protocol: the connection is over")
        failure: RemoteProtocolError | None = None
        if self._buffer:
            self._buffer += data
            data, self._buffer = self._buffer, bytearray()
        try:
            with memoryview(data) as view:
                self._take_all(view)
        except RemoteProtocolError as error:
            self._failed = True
            failure = error
        events, self._events = self._events, []
        return self._checked(events, failure)

    def _checked(self, events: list[Event], failure: RemoteProtocolError | None) -> Iterator[Event]:
        try:
            yield from self._authentic(events)
            if failure is not None:
                raise failure
        except RemoteProtocolError:
            self._failed = True
            raise

    def _authentic(self, events: list[Event]) -> Iterator[Event]:
        """The events, up to an entry whose signature is bad; of an unverified response without such entries."""
        entries = [event.entry for event in events if isinstance(event, EntryReceived)]
        if not entries:
            yield from (event for event in events if not self._is_distrusted(event))
            return
        good = dict(zip(map(id, entries), are_authentic(entries), strict=True))
        dropped: set[int] = set()
        for event in events:
            match event:
                case EntryReceived(request_id, entry, verified) if not good[id(entry)]:
                    if verified:
                        raise RemoteProtocolError(f"entry {entry.seq} has a bad signature")
                    dropped.add(id(entry))
                    if request_id in self.ours:
                        self.ours[request_id].distrusted = entry
                    yield EntryDropped(request_id, entry.seq)
                case PayloadReceived(_, entry) | PayloadFailed(_, entry) if id(entry) in dropped:
                    pass
                case _ if not self._is_distrusted(event):
                    yield event

    def _is_distrusted(self, event: Event) -> bool:
        """Whether this is about the payload of an entry that was dropped before."""
        if not isinstance(event, PayloadReceived | PayloadFailed):
            return False
        ours = self.ours.get(event.id)
        return ours is not None and ours.distrusted is event.entry

    def _take_all(self, view: memoryview) -> None:
        at = 0
        while at < len(view):
            if self._body:
                size = min(self._body, len(view) - at)
                self._take_body(view[at : at + size])
                at += size
                continue
            try:
                message, at = self._pull(view, at)
            except Truncated:
                if len(view) - at > MAX_MESSAGE:  # pragma: no cover - no message is so long
                    raise RemoteProtocolError("a message of more than a thousand bytes") from None
                self._buffer += view[at:]
                return
            self._handle(message)

    def _pull(self, view: memoryview, at: int) -> tuple[Message, int]:
        head = bytes(view[at : at + MAX_MESSAGE])
        try:
            message, size = pull_message(head, 0, self)
        except Truncated:
            raise
        except EncodingError as error:
            raise RemoteProtocolError(f"a message breaks the format at its byte {error.offset}: {error}") from None
        return message, at + size

    def expects_payload(self, size: int) -> bool:
        """Whether the next so many bytes are, as far as can be told, those of a large payload: no entries."""
        ours = self.ours.get(self._active_ours)
        return ours is not None and ours.payload_left >= size

    # What the reader of messages asks (``culm.intervals.codec.Context``).

    def starts(self) -> bool:
        """Whether the next eager or lazy message says a start."""
        ours = self.ours.get(self._active_ours)
        return ours is not None and ours.starts

    def has_hash(self, items: int, following: bytes) -> bool:  # noqa: ARG002 - another reader has nothing else
        """Whether a lazy message over so many items carries a hash."""
        ours = self.ours.get(self._active_ours)
        return ours is not None and ours.has_hash(items)

    def _handle(self, message: Message) -> None:
        match message:
            case Eager():
                self._take_eager(message)
            case Lazy():
                self._take_lazy(message)
            case Request():
                self._take_request(message)
            case End():
                self._take_end(message)
            case RequestCredit(amount):
                self.request_credit = _grown(self.request_credit, amount)
            case ResponseCredit(amount):
                self.response_credit = _grown(self.response_credit, amount)
                self._most_credit = max(self._most_credit, self.response_credit)
            case Cancel(request_id):
                self._take_cancel(request_id)
            case Activate(change):
                self._activate_ours(self._active_ours + change)
            case Adjust():
                self._take_adjust(message)

    # -- responses to us ---------------------------------------------------------------------------------------

    def _activate_ours(self, request_id: int) -> None:
        if not 0 <= request_id <= MAX_U64:
            raise RemoteProtocolError("an active request beyond 64 bits")
        self._usable(request_id)
        self._active_ours = request_id

    def _usable(self, request_id: int) -> OurRequest:
        ours = self.ours.get(request_id)
        if ours is None:
            raise RemoteProtocolError(f"something about request {request_id}, which is not open")
        if ours.is_deferred:
            raise RemoteProtocolError(f"something about request {request_id} before the one it follows has ended")
        return ours

    def _progressing(self, start: int | None) -> OurRequest:
        ours = self._usable(self._active_ours)
        if start is not None:
            ours.started(start)
            self._events.append(Started(ours.request.id, start))
        return ours

    def _take_eager(self, message: Eager) -> None:
        if message.count > self._peer_window:
            raise RemoteProtocolError(f"{message.count} bytes of item data, with credit for {self._peer_window}")
        ours = self._progressing(message.start)
        if ours.lazy:
            raise RemoteProtocolError("item data in a response, or part of one, that is lazy")
        self._peer_window -= message.count
        self._body = message.count
        if not message.count:
            self._take_body(memoryview(b""))

    def _take_body(self, data: memoryview) -> None:
        ours = self.ours[self._active_ours]
        ours.take(data, self._events)
        self._body -= len(data)
        ours.has_progress = True
        if ours.is_at_end:
            if self._body:
                raise RemoteProtocolError("bytes beyond the end of the interval")
            self._ours_over(ours, None)

    def _take_lazy(self, message: Lazy) -> None:
        ours = self._progressing(message.start)
        seq, is_other = ours.take_lazy(message)
        ours.has_progress = True
        self._events.append(Announced(ours.request.id, message.items, message.trailing, seq))
        if is_other:
            self._events.append(Doubted(ours.request.log, seq))
        if ours.is_at_end:
            self._ours_over(ours, None)

    def _take_end(self, message: End) -> None:
        ours = self._usable(self._active_ours)
        proof = self._checked_proof(ours, message)
        self._ours_over(ours, message.reason, proof)
        if message.grants:
            self.request_credit = _grown(self.request_credit, 1)
        if message.activates is not None:
            self._activate_ours(message.activates)

    def _checked_proof(self, ours: OurRequest, message: End) -> tuple[Entry, ...]:
        entries: tuple[Entry, ...] = ()
        problem: str | None = None
        if message.reason is Reason.FULL_PROOF:
            entries, problem = check_full(ours.request.log, message.proof, ours.allows_proof)
        elif message.reason is Reason.PARTIAL_PROOF:
            if not ours.expected:
                raise RemoteProtocolError("a partial fork proof for a request that names no hash")
            entry, problem = check_partial(ours.request.log, message.proof[0], ours.expected, ours.allows_proof)
            entries = (entry,)
        if problem is not None:
            raise RemoteProtocolError(problem)
        return entries

    def _ours_over(self, ours: OurRequest, reason: Reason | None, proof: tuple[Entry, ...] = ()) -> None:
        request_id = ours.request.id
        ours.advance(OurEvent.OVER)
        ours.abandon_part()
        del self.ours[request_id]
        seq, is_payload = ours.next_item
        self._events.append(Ended(request_id, reason, ours.index, seq, is_payload, proof))
        if ours.successor is not None and ours.adjustment is not None:
            state = ours.successor.state
            successor = adjusted_ours(ours, ours.adjustment, self._source)
            successor.state = state
            successor.successor, successor.adjustment = ours.successor.successor, ours.successor.adjustment
            successor.advance(OurEvent.RELEASE)
            self.ours[successor.request.id] = successor

    # -- requests of the peer ----------------------------------------------------------------------------------

    def _spend_request(self) -> None:
        if self._peer_requests == 0:
            raise RemoteProtocolError("a request without credit for it")
        self._peer_requests -= 1

    def _take_request(self, request: Request) -> None:
        self._spend_request()
        try:
            theirs = TheirRequest(request, self._exchanged_of(request.log), stateless=self.stateless)
        except ValueError as error:
            raise RemoteProtocolError(str(error)) from None
        if request.id in self.theirs:
            self._turns.close(request.id)
            self._grant(1)
        self._turns.open(theirs)
        self._events.append(Requested(request))

    def _take_cancel(self, request_id: int) -> None:
        theirs = self.theirs.get(request_id)
        if theirs is not None:
            self._end(theirs, Over(Reason.CANCELLED))
        elif request_id not in self._turns.ids:
            raise RemoteProtocolError(f"a cancellation of request {request_id}, which never was")

    def _take_adjust(self, message: Adjust) -> None:
        self._spend_request()
        if message.old not in self._turns.ids:
            raise RemoteProtocolError(f"an adjustment of request {message.old}, which never was")
        old = self.theirs.get(message.old)
        if message.new in self.theirs:
            self._turns.close(message.new)
            self._grant(1)
        if old is None:
            # It ended while the adjustment was under way: the peer gets its new id back.
            self._activate_theirs(message.new)
            self._turns.ids.add(message.new, message.new)
            self._peer_requests += 1
            self._send(End(Reason.OTHER, grants=True))
            return
        successor = adjusted_theirs(old, message)
        self._end(old, Over(Reason.CANCELLED))
        self._turns.open(successor)
        self._events.append(Requested(successor.request))

    def refuse(self, request_id: int) -> None:
        """End the response to a request of the peer now; nothing happens if it is over."""
        theirs = self.theirs.get(request_id)
        if theirs is not None:
            self._end(theirs, Over(Reason.OTHER))

    # -- our responses -----------------------------------------------------------------------------------------

    def wake(self, logs: Iterable[Log]) -> None:
        """The store has changed what it holds of these logs."""
        self._turns.wake(logs)

    @property
    def turns(self) -> int:
        """How many requests of the peer ``respond`` would look at."""
        return len(self._turns)

    @property
    def peer_is_content(self) -> bool:
        """Whether the peer waits for nothing that we have, as far as is known."""
        return not self._turns and not any(theirs.lazy for theirs in self.theirs.values())

    def respond(self, limit: int) -> bool:
        """Write answers, up to about ``limit`` bytes; whether there may be more to send now.

        Reads from the source. Each request has its turn, for a chunk at a time. What waits for response credit is
        looked at again when there is some.
        """
        starved: list[int] = []
        while self._turns and self.pending < limit:
            theirs = self._turns.next()
            if theirs is None:
                continue
            room = self._room(theirs)
            part = theirs.next_part(self._source, room)
            if part is not None:
                self._write(theirs, part)
                if theirs.request.id in self.theirs and not theirs.pause():
                    self._turns.queue(theirs.request.id)
            elif room == 0 and not theirs.lazy:
                starved.append(theirs.request.id)
        for request_id in starved:
            self._turns.queue(request_id)
        return len(starved) < len(self._turns)

    def _room(self, theirs: TheirRequest) -> int:
        """How many bytes of data a request may send in its turn."""
        credit = self.response_credit
        if theirs.is_in_large_payload:  # it leaves some for the others
            credit -= min(_RESERVE, self._most_credit // 4)
        return max(0, min(self.limits.chunk, credit))

    def _write(self, theirs: TheirRequest, part: Data | Announcement | Over) -> None:
        if isinstance(part, Over):
            self._end(theirs, part)
            return
        self._activate_theirs(theirs.request.id)
        start = None
        if theirs.starts and theirs.stream is not None:
            start, theirs.starts = theirs.stream.start, False
        if isinstance(part, Data):
            self.response_credit -= len(part.data)
            self._send(Eager(len(part.data), start))
            self._write_out(part.data)
            self.entries_sent += part.entries
        else:
            self._send(Lazy(part.items, part.trailing, part.hash, start))
        theirs.has_progress = True
        if theirs.is_at_end:
            self._turns.close(theirs.request.id)
            self._events.append(RequestEnded(theirs.request.id, theirs.request.log))
            self._grant(1)

    def _end(self, theirs: TheirRequest, over: Over) -> None:
        self._activate_theirs(theirs.request.id)
        self._turns.close(theirs.request.id)
        self._peer_requests += 1
        self._send(End(over.reason, over.proof, grants=True))
        self._events.append(RequestEnded(theirs.request.id, theirs.request.log, over.doubted))

    def _activate_theirs(self, request_id: int) -> None:
        if request_id != self._active_theirs:
            self._send(Activate(request_id - self._active_theirs))
            self._active_theirs = request_id

    def take_events(self) -> list[Event]:
        """What happened besides receiving: requests of the peer that ``respond`` or ``refuse`` ended."""
        events, self._events = self._events, []
        return events


def _grown(credit: int, amount: int) -> int:
    if credit + amount > MAX_U64:
        raise RemoteProtocolError("more credit than 64 bits hold")
    return credit + amount
