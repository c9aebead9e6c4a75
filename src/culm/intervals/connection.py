"""A connection: both directions of the protocol over one reliable channel, without doing any I/O.

::

    connection = Connection(source)
    request_id = connection.request(author, log_id, interval)      # LocalProtocolError without credit
    for event in connection.receive_data(data, now): ...           # RemoteProtocolError: drop the connection
    connection.respond(limit)                                      # write answers to the peer's requests
    connection.wake([log])                                         # the store has more of a log
    data = connection.data_to_send()

A connection has two halves that know nothing of each other: what we ask (``culm.intervals.ours``) and what the peer
asks (``culm.intervals.theirs``). They share the bytes that wait to be sent, the events, and the memory of what was
exchanged of each log. This module reads messages and hands each to the half that it belongs to.

Each side grants the other credit before anything can happen: for requests, and for bytes of item data. Request credit
comes back by itself when a request is over; ``refill`` gives back the credit for data once that is dealt with, so that
a peer can never send more than the owner has room for. Answers take turns, a chunk at a time.

Specification: docs/specs/intervals.md, "Connection state", "Credit", "Ids and the active request", "What is refused".
"""

from collections.abc import Iterable, Iterator, Mapping

from culm.bamboo import Entry, PayloadHasher
from culm.errors import EncodingError, LocalProtocolError, RemoteProtocolError, Truncated
from culm.intervals.codec import MAX_MESSAGE, pull_message
from culm.intervals.events import EntryDropped, Event
from culm.intervals.exchanged import Histories
from culm.intervals.interval import Forks, Interval, Request
from culm.intervals.limits import Limits
from culm.intervals.messages import (
    Activate,
    Adjust,
    Cancel,
    Eager,
    End,
    Lazy,
    Message,
    RequestCredit,
    ResponseCredit,
)
from culm.intervals.ours import OurSide
from culm.intervals.outbox import Outbox
from culm.intervals.requester import OurRequest
from culm.intervals.responder import TheirRequest
from culm.intervals.theirs import TheirSide
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived, Source, bad_entries
from culm.types import Buffer, Log
from culm.wire.connection import UNLIMITED


class Connection:
    """One endpoint. ``source`` is asked for what the peer wants; ``stateless`` speaks the request-response subset.

    Not to be used from two threads at once.
    """

    def __init__(self, source: Source, *, limits: Limits | None = None, stateless: bool = False) -> None:
        self.limits = limits or Limits()
        self._outbox = Outbox()
        self._events: list[Event] = []
        histories = Histories(self.limits.logs, self._logs_in_use)
        self.their_side = TheirSide(source, self._outbox, histories, self._events, self.limits, stateless=stateless)
        self.our_side = OurSide(source, self._outbox, histories, self._events, self.limits.window)
        self._buffer = bytearray()  # the beginning of a message that is not all there
        self._failed = False
        self.refill()

    def _logs_in_use(self) -> set[Log]:
        return {ours.request.log for ours in self.our_side.requests.values()} | set(self.their_side.turns.logs)

    # -- out ---------------------------------------------------------------------------------------------------

    def data_to_send(self, limit: int = UNLIMITED) -> bytes:
        """Take about ``limit`` bytes for the peer: whole messages, and of data whole chunks."""
        return self._outbox.take(limit)

    @property
    def pending(self) -> int:
        """Bytes that ``data_to_send`` would give."""
        return self._outbox.pending

    def refill(self) -> None:
        """Everything received was dealt with: let the peer send a whole window again."""
        self.our_side.refill()

    # -- time --------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """None: nothing here waits for a time."""
        return None

    def handle_timer(self, now: float) -> tuple[Event, ...]:  # noqa: ARG002 - nothing is timed here
        """Nothing is due, ever."""
        return ()

    def keep_alive(self) -> None:
        """Queue a grant of no bytes, which has no effect."""
        self._outbox.send(ResponseCredit(0))

    # -- our requests ------------------------------------------------------------------------------------------

    @property
    def ours(self) -> Mapping[int, OurRequest]:
        """Our requests that are not over, by id."""
        return self.our_side.requests

    @property
    def request_credit(self) -> int:
        """How many requests more the peer takes now."""
        return self.our_side.credit

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
        self.our_side.check_credit()
        request = Request(
            self.our_side.next_id,
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
        self.our_side.request(request, begun)
        return request.id

    def cancel(self, request_id: int) -> None:
        """Have the peer end a response; what it sends until then still comes. ``LocalProtocolError`` if it is over."""
        self.our_side.cancel(request_id)

    def adjust(self, request_id: int, seq: int | None = None, offset: int | None = None) -> int:
        """Change a request from lazy to eager or the reverse; the id of the request that takes over.

        ``seq`` is the number of an entry, ``offset`` a byte of its payload (None: its metadata): where the new response
        begins or changes, as docs/specs/intervals.md, "Adjustments", says. An eager response must not begin with a
        payload whose metadata was only announced, since its end could not be found: from lazy to eager, name an entry.
        """
        return self.our_side.adjust(request_id, seq, offset)

    # -- in ----------------------------------------------------------------------------------------------------

    @property
    def has_more(self) -> bool:
        """False: what came was dealt with at once."""
        return False

    def expects_payload(self, size: int) -> bool:
        """Whether the next so many bytes are, as far as can be told, those of a large payload: no entries."""
        return self.our_side.expects_payload(size)

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
        return self._checked(self.take_events(), failure)

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
        bad = {id(entry) for entry in bad_entries(events)}
        if not bad:
            yield from (event for event in events if not self._is_distrusted(event))
            return
        for event in events:
            match event:
                case EntryReceived(request_id, entry, verified) if id(entry) in bad:
                    if verified:
                        raise RemoteProtocolError(f"entry {entry.seq} has a bad signature")
                    if request_id in self.our_side.requests:
                        self.our_side.requests[request_id].distrusted = entry
                    yield EntryDropped(request_id, entry.seq)
                case PayloadReceived(_, entry) | PayloadFailed(_, entry) if id(entry) in bad:
                    pass
                case _ if not self._is_distrusted(event):
                    yield event

    def _is_distrusted(self, event: Event) -> bool:
        """Whether this is about the payload of an entry that was dropped before."""
        if not isinstance(event, PayloadReceived | PayloadFailed):
            return False
        ours = self.our_side.requests.get(event.id)
        return ours is not None and ours.distrusted is event.entry

    def _take_all(self, view: memoryview) -> None:
        at, ours = 0, self.our_side
        while at < len(view):
            if ours.body:
                size = min(ours.body, len(view) - at)
                ours.take_body(view[at : at + size])
                at += size
                continue
            try:
                message, at = self._pull(view, at)
            except Truncated:
                if len(view) - at > MAX_MESSAGE:  # pragma: no cover - no message is so long
                    raise RemoteProtocolError(f"the peer sent a message of more than {MAX_MESSAGE} bytes") from None
                self._buffer += view[at:]
                return
            self._handle(message)

    def _pull(self, view: memoryview, at: int) -> tuple[Message, int]:
        head = bytes(view[at : at + MAX_MESSAGE])
        try:
            message, size = pull_message(head, 0, self.our_side)
        except Truncated:
            raise
        except EncodingError as error:
            raise RemoteProtocolError(
                f"the peer sent a message that breaks the format at its byte {error.offset}: {error}"
            ) from None
        return message, at + size

    def _handle(self, message: Message) -> None:
        ours, theirs = self.our_side, self.their_side
        match message:
            case Eager():
                ours.take_eager(message)
            case Lazy():
                ours.take_lazy(message)
            case Request():
                theirs.take_request(message)
            case End():
                ours.take_end(message)
            case RequestCredit(amount):
                ours.take_credit(amount)
            case ResponseCredit(amount):
                theirs.take_credit(amount)
            case Cancel(request_id):
                theirs.take_cancel(request_id)
            case Activate(change):
                ours.activate(change)
            case Adjust():
                theirs.take_adjust(message)

    # -- requests of the peer ----------------------------------------------------------------------------------

    @property
    def theirs(self) -> Mapping[int, TheirRequest]:
        """The peer's requests that are not over, by id."""
        return self.their_side.turns.requests

    @property
    def stateless(self) -> bool:
        """Whether responses end where nothing more is held, instead of waiting for more."""
        return self.their_side.stateless

    @property
    def response_credit(self) -> int:
        """How many bytes of item data the peer takes now."""
        return self.their_side.data_credit

    @property
    def entries_sent(self) -> int:
        """How many entries went to the peer, announcements and confirmations not counted."""
        return self.their_side.entries_sent

    @property
    def turns(self) -> int:
        """How many requests of the peer ``respond`` would look at."""
        return len(self.their_side.turns)

    @property
    def peer_is_content(self) -> bool:
        """Whether the peer waits for nothing that we have, as far as is known."""
        return self.their_side.is_content

    def refuse(self, request_id: int) -> None:
        """End the response to a request of the peer now; nothing happens if it is over."""
        self.their_side.refuse(request_id)

    def wake(self, logs: Iterable[Log]) -> None:
        """The store has changed what it holds of these logs."""
        self.their_side.turns.wake(logs)

    def respond(self, limit: int) -> bool:
        """Write answers, up to about ``limit`` bytes; whether there may be more to send now.

        Reads from the source. Each request has its turn, for a chunk at a time. What waits for response credit is
        looked at again when there is some.
        """
        return self.their_side.respond(limit)

    def take_events(self) -> list[Event]:
        """What happened besides receiving: requests of the peer that ``respond`` or ``refuse`` ended."""
        events = list(self._events)
        self._events.clear()
        return events
