"""Following logs of a live peer that speaks Point-2-Point with intervals (docs/specs/intervals.md).

Spark wants to know the end of a batch before it reads the batch, and may read the same batch again after a failure. So
each log is read in ascending order, and an offset is the last sequence number that was read of each log. The peer is
first asked how far it can show a log without a gap, and that is the end of the batch; then it is asked for exactly
those entries. The numbers mean the same for every peer, so a query that is stopped, or dies, goes on where it was.

Signatures are checked on the way. Whether the entries fit together is for ``verification.verify`` to say.

The protocol sends each entry with its payload, and waits if the peer has the entry but not its payload. A stream would
then stand still, perhaps for ever. After ``wait`` seconds the entry therefore counts as one without its payload, the
request is cancelled, and a new one asks for the entries above it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit

from pyspark.sql import Row
from pyspark.sql.datasource import SimpleDataSourceStreamReader

from culm.bamboo import MAX_U64, Entry
from culm.errors import ConfigError, NetworkError
from culm.intervals import Announced, At, Connection, Ended, EntryReceived, Event, PayloadReceived, Regular
from culm.spark.batches.payload import HELD, without_bytes
from culm.spark.reading.found import Found
from culm.spark.source.nothing import Nothing
from culm.spark.source.options import Options
from culm.spark.source.rows import entry_batches
from culm.spark.source.trigger import SupportsTriggerAvailableNow
from culm.store.schema import to_sql
from culm.types import Log
from culm.wire.places import log_text, parse_log

Offset = dict[str, int]

_CONNECT_SECONDS = 10.0  # until an address counts as unreachable; the query fails then, and Spark may start it again

# Seconds without a byte in the middle of a response, on top of the wait that the user chose. That wait is for a peer
# that has nothing to say; a peer that owes an answer gets this much more before the query fails.
_ANSWER_SECONDS = 30.0

# At the end of a question: how long, and for how many reads, the peer's last bytes are taken from the socket. Closing a
# socket with unread bytes resets the connection, and the peer would report that as an error.
_FAREWELL_SECONDS = 1.0
_FAREWELL_READS = 64

_READ_BYTES = 64 * 1024  # asked of the socket at a time; more would only make a larger buffer
_MOST_LOGS = 1000  # Each log is a request of its own in every batch, and an offset names all logs.


class PeerStream(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what a peer got since an offset. ``ConfigError`` for a wrong address, and without the option ``logs``."""

    def __init__(self, url: str, options: Options) -> None:
        parts = urlsplit(url)
        if parts.scheme != "intervals" or parts.hostname is None or parts.port is None:
            raise ConfigError(f"{url!r} is not an address; expected intervals://HOST:PORT")
        if not options.wanted.logs or len(options.wanted.logs) > _MOST_LOGS:
            raise ConfigError(f"to follow a peer, name the logs (up to {_MOST_LOGS}): option('logs', 'AUTHOR/LOG,...')")
        self._url, self._address = url, (parts.hostname, parts.port)
        self._options = options

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Before the first number that is wanted of each log."""
        return {log_text(log): self._options.wanted.span.start - 1 for log in sorted(self._options.wanted.logs or ())}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the query ends when the peer has nothing more, even if it got entries meanwhile.

        Its end cannot be noted beforehand, because the peer announces a log only up to a payload that it lacks.
        """

    def read(self, start: Offset) -> tuple[Iterator[Row], Offset]:
        """The rows above an offset, at most ``batch`` of each log, and the offset behind them."""
        with _Peer(self._address, self._options.wait) as peer:
            reaches = peer.reaches(start)
        end = {
            log: max(seq, min(reaches.get(log, 0), seq + self._options.batch, self._options.wanted.span.last))
            for log, seq in start.items()
        }
        return iter(list(self.readBetweenOffsets(start, end))), end  # a list, because Spark copies the iterator

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[Row]:  # noqa: N802 - Spark's name
        """The rows between two offsets; ``NetworkError`` if the peer no longer has them all."""
        spans = {log: (seq + 1, end[log]) for log, seq in start.items() if end[log] > seq}
        if not spans:
            return
        with _Peer(self._address, self._options.wait) as peer:
            for log, (low, high) in spans.items():
                found = peer.fetch(self._url, parse_log(log), low, high, self._options)
                for batch in entry_batches(found, self._options):
                    yield from (Row(**row) for row in batch.to_pylist())


class _Peer:
    """A connection to a peer, for one question. ``NetworkError`` if the peer cannot be reached."""

    def __init__(self, address: tuple[str, int], wait: float) -> None:
        self._wait = wait  # seconds; a peer that did not announce a log by then has nothing new in it
        self._name = f"{address[0]}:{address[1]}"
        self._connection = Connection(Nothing())
        try:
            self._socket = socket.create_connection(address, _CONNECT_SECONDS)
        except OSError as error:
            raise NetworkError(f"cannot reach {self._name}: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End our direction, and let the peer close the connection, so that it has no error to report."""
        with self._socket, suppress(OSError):
            self._socket.settimeout(_FAREWELL_SECONDS)
            self._socket.shutdown(socket.SHUT_WR)
            for _read in range(_FAREWELL_READS):
                if not self._socket.recv(_READ_BYTES):
                    break

    def _events(self, seconds: float) -> list[Event] | None:
        """Send what waits, and return the events of the bytes that arrive; None if none arrive in this time."""
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(self._connection.data_to_send())
            data = self._socket.recv(_READ_BYTES)
        except TimeoutError:
            return None
        except OSError as error:
            raise NetworkError(f"the connection to {self._name} broke: {error.strerror or error}") from error
        if not data:
            raise NetworkError(f"{self._name} closed the connection before it had answered")
        events = list(self._connection.receive_data(data, time.monotonic()))
        self._connection.refill()
        return events

    def reaches(self, start: Offset) -> Offset:
        """The last number to which the peer can show each log without a gap; logs without news are left out.

        A peer does not say that it has nothing new; it stays silent. So this waits until the peer was silent for
        ``wait`` seconds, or for a fifth of that once it has announced every log.
        """
        asked: dict[int, str] = {}
        waiting = [(log, seq) for log, seq in start.items() if seq < MAX_U64]
        found: Offset = {}
        last = time.monotonic()
        short = self._wait / 5  # after an answer for every log, only higher numbers could follow
        while waiting or time.monotonic() - last < (self._wait if len(found) < len(asked) else short):
            while waiting and self._connection.ours.credit:
                log, seq = waiting.pop()
                asked[self._request(parse_log(log), seq + 1, MAX_U64, lazy=True)] = log
                last = time.monotonic()
            for event in self._events(short) or ():
                last = time.monotonic()
                if isinstance(event, Announced) and event.seq:
                    found[asked[event.id]] = event.seq
            if waiting and time.monotonic() - last > self._wait + _ANSWER_SECONDS:
                raise NetworkError(f"{self._name} took too long to allow more requests")
        return found

    def _request(self, log: Log, low: int, high: int, *, lazy: bool) -> int:
        return self._connection.request(*log, Regular(At(low, 0), At(high, 0)), lazy=lazy)

    def fetch(self, url: str, log: Log, low: int, high: int, options: Options) -> Iterator[Found]:
        """The entries of a log from ``low`` to ``high``; ``NetworkError`` if the peer has not got them all."""
        entries = _Arriving(url, options.wanted.payload_limit, low - 1)
        while entries.reached < high:
            begun = entries.reached
            yield from self._fetched(entries, log, high)
            if entries.reached == begun:
                raise NetworkError(
                    f"{self._name} sent {log_text(log)} up to {begun} only; {low} to {high} were asked for"
                )

    def _fetched(self, entries: _Arriving, log: Log, high: int) -> Iterator[Found]:
        """The entries that a request brings: all of them, or those up to a payload that does not come."""
        while not self._connection.ours.credit:
            if self._events(_ANSWER_SECONDS) is None:
                raise NetworkError(f"{self._name} took too long to allow another request")
        request = self._request(log, entries.reached + 1, high, lazy=False)
        while True:
            events = self._events(self._wait if entries.waits else self._wait + _ANSWER_SECONDS)
            if events is None and entries.waits:
                yield from entries.close()
                self._connection.ours.cancel(request)
                return
            if events is None:
                raise NetworkError(f"{self._name} took too long to answer")
            for event in events:
                if getattr(event, "id", None) != request:
                    continue
                yield from entries.take(event)
                if isinstance(event, Ended):
                    return


class _Arriving:
    """Entries as they arrive, each joined with its payload. ``reached`` is the last number that arrived."""

    def __init__(self, url: str, payload_limit: int, reached: int) -> None:
        self._url = url
        self._limit = payload_limit
        self._entry: Entry | None = None
        self._payload = bytearray()
        self.reached = reached

    @property
    def waits(self) -> bool:
        """Whether an entry has arrived and its payload has not, or not all of it."""
        return self._entry is not None

    def take(self, event: Event) -> Iterator[Found]:
        """Take an event; yields the entry that is complete with it, if one is."""
        if isinstance(event, EntryReceived):
            yield from self.close()
            self._entry, self.reached = event.entry, event.entry.seq
            self._payload.clear()
        elif isinstance(event, PayloadReceived) and self._entry is not None:
            fits = self._entry.size <= self._limit
            if fits:
                self._payload += event.data
            if event.complete:
                yield self._found(HELD, bytes(self._payload) if fits else None)
        elif isinstance(event, Ended):
            yield from self.close()

    def close(self) -> Iterator[Found]:
        """Yield the entry that waits for its payload, if there is one, as an entry without it."""
        if self._entry is not None:
            state = without_bytes(self._entry)
            yield self._found(state, b"" if state == HELD and self._limit >= 0 else None)

    def _found(self, state: str, payload: bytes | None) -> Found:
        entry, self._entry = self._entry, None
        assert entry is not None  # noqa: S101 - called only while an entry waits
        return Found(self._url, to_sql(entry.seq), entry.encoded, state, payload=payload)
