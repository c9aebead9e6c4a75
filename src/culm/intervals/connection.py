"""A connection: both directions of the protocol over one reliable channel, without doing any I/O.

::

    connection = Connection(source)
    request_id = connection.request(author, log_id, interval)      # LocalProtocolError without credit
    for event in connection.receive_data(data, now): ...           # RemoteProtocolError: drop the connection
    connection.respond(limit)                                      # write answers to the peer's requests
    connection.wake([log])                                         # the store has more of a log
    data = connection.data_to_send()

A connection has two halves, and neither knows the other: what we ask (``culm.intervals.ours``) and what the peer
asks (``culm.intervals.theirs``). They share the bytes that wait to be sent, the events, and the memory of what was
exchanged of each log. This module reads messages and hands each to the half that it belongs to. Whatever concerns one
half only is asked of it: ``connection.ours.cancel(request_id)``, ``connection.theirs.refuse(request_id)``.

Each side grants the other credit before anything can happen: for requests, and for bytes of item data. Request credit
comes back by itself when a request is over; ``refill`` gives back the credit for data once that is dealt with, so that
a peer can never send more than the owner has room for. Answers take turns, a chunk at a time.

Specification: docs/specs/intervals.md, "Connection state", "Credit", "Ids and the active request", "What is refused".
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from culm.bamboo import Entry, PayloadHasher
from culm.errors import EncodingError, RemoteProtocolError, Truncated
from culm.intervals import messages
from culm.intervals.codec import MAX_MESSAGE, pull_message
from culm.intervals.events import EntryDropped, Event
from culm.intervals.exchanged import Histories
from culm.intervals.interval import Forks, Interval, Request
from culm.intervals.limits import Limits
from culm.intervals.ours import OurSide
from culm.intervals.outbox import Outbox
from culm.intervals.theirs import TheirSide
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived, Source, apart, bad_entries
from culm.types import Buffer, Log
from culm.wire.connection import UNLIMITED, UntimedConnection


class Connection(UntimedConnection[Event]):
    """One endpoint. ``source`` is asked for what the peer wants; ``stateless`` speaks the request-response subset.

    ``ours`` are our requests, ``theirs`` those of the peer. ``together``: give entries that come one after the other in
    one event (``EntriesReceived``), where that saves time, and leave it to the owner to compare large payloads
    (``PayloadReceived.hasher``). Not to be used from two threads at once.
    """

    def __init__(
        self, source: Source, *, limits: Limits | None = None, stateless: bool = False, together: bool = False
    ) -> None:
        self.limits = limits or Limits()
        self._together = together
        self._outbox = Outbox()
        histories = Histories(self.limits.logs, self._logs_in_use)
        self.theirs = TheirSide(source, self._outbox, histories, self.limits, stateless=stateless)
        asked, window = self.limits.asked, self.limits.window
        self.ours = OurSide(
            source, self._outbox, histories, most_window=window, most_open=asked, leaves_hashing=together
        )
        self._takes: dict[type[messages.Message], Callable[[Any], None]] = {
            messages.Eager: self.ours.take_eager,
            messages.Lazy: self.ours.take_lazy,
            messages.End: self.ours.take_end,
            messages.Activate: self.ours.take_activate,
            messages.RequestCredit: self.ours.take_credit,
            Request: self.theirs.take_request,
            messages.Cancel: self.theirs.take_cancel,
            messages.Adjust: self.theirs.take_adjust,
            messages.ResponseCredit: self.theirs.take_credit,
        }
        self._is_distrusting = False  # An entry was dropped for its signature; from then on each is checked by itself.
        self._buffer = bytearray()  # the beginning of a message that is not all there
        self.refill()

    def _logs_in_use(self) -> set[Log]:
        return {ours.request.log for ours in self.ours.requests.values()} | set(self.theirs.turns.logs)

    @property
    def is_waiting(self) -> bool:
        """Whether requests are open, in either direction, and the peer is not in the middle of a message."""
        return bool(self.ours.requests or self.theirs.requests) and not (self._buffer or self.ours.body)

    # -- out ---------------------------------------------------------------------------------------------------

    def data_to_send(self, limit: int = UNLIMITED) -> bytes:
        """Take about ``limit`` bytes for the peer: whole messages, and of data whole chunks."""
        return self._outbox.take(limit)

    def refill(self) -> None:
        """Everything received was dealt with: let the peer send a whole window again."""
        self.ours.refill()

    def keep_alive(self) -> None:
        """Queue a grant of no bytes, which has no effect there, and let payloads take the reserve if they wait."""
        self.theirs.nothing_moves()
        self._outbox.send(messages.ResponseCredit(0))

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
        """Ask for an interval; the id of the request. See ``Request`` for what the arguments mean.

        ``begun`` tells, for an immediate payload request, which entry the start is, and what the bytes before the
        offset hash to: so that the payload can be checked. ``LocalProtocolError`` if the peer gave no credit for it,
        ``ValueError`` for what a request cannot say.
        """
        options = forks, anchor, least_size, greatest_size, payload_offset, verified, lazy
        request = Request(self.ours.next_id, author, log_id, interval, *options)
        self.ours.request(request, begun)
        return request.id

    # -- in ----------------------------------------------------------------------------------------------------

    def _receive(self, data: Buffer) -> Iterator[Event]:
        """All bytes are read at once; then the signatures of the entries among them are checked together."""
        failure: RemoteProtocolError | None = None
        if self._buffer:
            self._buffer += data
            data, self._buffer = self._buffer, bytearray()
        try:
            with memoryview(data) as view:
                self._take_all(view)
        except RemoteProtocolError as error:
            failure = error
        yield from self._authentic(self.take_events())
        if failure is not None:
            raise failure

    def _authentic(self, events: list[Event]) -> Iterator[Event]:
        """The events, up to an entry whose signature is bad; of an unverified response without such entries."""
        bad = {id(entry) for entry in bad_entries(events, in_batches=not self._is_distrusting)}
        if bad or not self._together:
            events = [*apart(events)]
        if not (bad or self._is_distrusting):
            yield from events  # As nearly always. To look at each would cost more than to parse it.
            return
        self._is_distrusting = True
        for event in events:
            match event:
                case EntryReceived(request_id, entry, verified) if id(entry) in bad:
                    if verified:
                        raise RemoteProtocolError(f"entry {entry.seq} has a bad signature")
                    if request_id in self.ours.requests:
                        self.ours.requests[request_id].distrusted = entry
                    yield EntryDropped(request_id, entry.seq)
                case PayloadReceived(_, entry) | PayloadFailed(_, entry) if id(entry) in bad:
                    pass
                case PayloadReceived(request_id, entry) | PayloadFailed(request_id, entry):
                    ours = self.ours.requests.get(request_id)
                    if ours is None or ours.distrusted is not entry:  # else its entry was dropped before
                        yield event
                case _:
                    yield event

    def _take_all(self, view: memoryview) -> None:
        at = 0
        while at < len(view):
            if self.ours.body:
                size = min(self.ours.body, len(view) - at)
                self.ours.take_body(view[at : at + size])
                at += size
                continue
            head = bytes(view[at : at + MAX_MESSAGE])
            try:
                message, size = pull_message(head, 0, self.ours)
            except Truncated:
                if len(view) - at > MAX_MESSAGE:  # pragma: no cover - no message is so long
                    raise RemoteProtocolError(f"the peer sent a message of more than {MAX_MESSAGE} bytes") from None
                self._buffer += view[at:]
                return
            except EncodingError as error:
                raise RemoteProtocolError(
                    f"the peer sent a message that breaks the format at its byte {error.offset}: {error}"
                ) from None
            at += size
            self._takes[type(message)](message)

    # -- requests of the peer ----------------------------------------------------------------------------------

    def wake(self, logs: Iterable[Log]) -> None:
        """The store has changed what it holds of these logs."""
        self.theirs.turns.wake(logs)

    def respond(self, limit: int) -> bool:
        """Write answers, up to about ``limit`` bytes; whether there may be more to send now.

        Reads from the source. Each request has its turn, for a chunk at a time. What waits for response credit is
        looked at again when there is some.
        """
        return self.theirs.respond(limit)

    def take_events(self) -> list[Event]:
        """What happened besides receiving: requests of the peer that ``respond`` or ``refuse`` ended."""
        events, self._outbox.events = self._outbox.events, []
        return events
