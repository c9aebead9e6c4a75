"""Following logs of a live peer that speaks Point-2-Point with intervals (docs/specs/intervals.md).

A log is read in ascending order: an offset says, for each log, the last sequence number that was read. The peer is
first asked how far it can show the log without a gap, then for exactly that. What lies between two offsets can be asked
for again, from this peer or another: so a query that is stopped, or dies, goes on where it was, and no entry comes
twice. Signatures are checked on the way; what the entries are worth together is for ``verify`` to say.

The protocol sends entries with their payloads, and waits at one that the peer has not got. After a while that entry
counts as one without its payload, and what is behind it is asked for.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from culm.bamboo import MAX_U64
from culm.errors import ConfigError, NetworkError
from culm.intervals import Announced, At, Connection, Ended, EntryReceived, PayloadReceived, Regular
from culm.spark.payload import HELD, without_bytes
from culm.spark.scan import Found
from culm.spark.source.nothing import Nothing
from culm.spark.source.rows import ENTRIES, entry_batches
from culm.store.schema import to_sql
from culm.wire.places import log_text, parse_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.bamboo import Entry
    from culm.intervals import Event
    from culm.spark.source.options import Options
    from culm.types import Log

    Offset = dict[str, int]
    Row = tuple[object, ...]

_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 30.0  # without a byte, in the middle of a response, beyond the wait that the user chose
_FAREWELL_SECONDS = 1.0
_READ_BYTES = 64 * 1024
_FAREWELL_READS = 64
_MOST_LOGS = 1000


class PeerStream(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what a peer has got since. ``ConfigError`` for a wrong address, and without the option ``logs``."""

    def __init__(self, url: str, options: Options) -> None:
        parts = urlsplit(url)
        if parts.scheme != "intervals" or parts.hostname is None or parts.port is None:
            raise ConfigError(f"{url!r} is not an address; expected intervals://HOST:PORT")
        if not options.logs or len(options.logs) > _MOST_LOGS:
            raise ConfigError(f"to follow a peer, name the logs (up to {_MOST_LOGS}): option('logs', 'AUTHOR/LOG,...')")
        self._url, self._address = url, (parts.hostname, parts.port)
        self._options = options

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Before everything that is wanted."""
        return {log_text(log): self._options.low - 1 for log in sorted(self._options.logs or ())}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Nothing to prepare: the query ends when the peer has nothing more, also of what it got meanwhile.

        How far it can go is not known beforehand: behind a payload that it has not got it has to be asked again.
        """

    def read(self, start: Offset) -> tuple[Iterator[Row], Offset]:
        """What there is behind an offset, and the offset behind that."""
        with _Peer(self._address, self._options.wait) as peer:
            reaches = peer.reaches(start)
        end = {
            log: max(seq, min(reaches.get(log, 0), seq + self._options.batch, self._options.high))
            for log, seq in start.items()
        }
        return iter(list(self.readBetweenOffsets(start, end))), end  # Spark copies the iterator

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[Row]:  # noqa: N802 - Spark's name
        """What lies between two offsets."""
        spans = {log: (seq + 1, end[log]) for log, seq in start.items() if end[log] > seq}
        if not spans:
            return
        with _Peer(self._address, self._options.wait) as peer:
            for log, (low, high) in spans.items():
                found = peer.fetch(self._url, parse_log(log), low, high, self._options)
                yield from ENTRIES.rows(entry_batches(found, self._options))


class _Peer:
    """A connection to a peer, for the time of one question."""

    def __init__(self, address: tuple[str, int], wait: float) -> None:
        self._wait = wait  # a peer that did not say how far it can show a log has then nothing new of it
        self._name = f"{address[0]}:{address[1]}"
        self._connection = Connection(Nothing())
        try:
            self._socket = socket.create_connection(address, _CONNECT_SECONDS)
        except OSError as error:
            raise NetworkError(f"cannot reach {self._name}: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Say goodbye, and let the peer hang up first, so that it has no broken connection to report."""
        with self._socket, suppress(OSError):
            self._socket.settimeout(_FAREWELL_SECONDS)
            self._socket.shutdown(socket.SHUT_WR)
            for _read in range(_FAREWELL_READS):
                if not self._socket.recv(_READ_BYTES):
                    break

    def _events(self, seconds: float) -> list[Event] | None:
        """Send what is to be sent, and the events of what comes back within some time; None if nothing does."""
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(self._connection.data_to_send())
            data = self._socket.recv(_READ_BYTES)
        except TimeoutError:
            return None
        except OSError as error:
            raise NetworkError(f"the connection to {self._name} broke: {error.strerror or error}") from error
        if not data:
            raise NetworkError(f"{self._name} ended the connection")
        events = list(self._connection.receive_data(data, time.monotonic()))
        self._connection.refill()
        return events

    def reaches(self, start: Offset) -> Offset:
        """How far the peer can show each log without a gap; no number for those of which it has nothing new."""
        asked: dict[int, str] = {}
        waiting = [(log, seq) for log, seq in start.items() if seq < MAX_U64]
        found: Offset = {}
        last = time.monotonic()
        short = self._wait / 5  # one that said so of every log has little to add
        while waiting or time.monotonic() - last < (self._wait if len(found) < len(asked) else short):
            while waiting and self._connection.request_credit:
                log, seq = waiting.pop()
                asked[self._request(parse_log(log), seq + 1, MAX_U64, lazy=True)] = log
                last = time.monotonic()
            for event in self._events(short) or ():
                last = time.monotonic()
                if isinstance(event, Announced) and event.seq:
                    found[asked[event.id]] = event.seq
            if waiting and time.monotonic() - last > self._wait + _ANSWER_SECONDS:
                raise NetworkError(f"{self._name} took too long")
        return found

    def _request(self, log: Log, low: int, high: int, *, lazy: bool) -> int:
        return self._connection.request(*log, Regular(At(low, 0), At(high, 0)), lazy=lazy)

    def fetch(self, url: str, log: Log, low: int, high: int, options: Options) -> Iterator[Found]:
        """The entries of a log from ``low`` to ``high``; ``NetworkError`` if the peer has not got them all."""
        entries = _Arriving(url, options.payload_limit, low - 1)
        while entries.reached < high:
            begun = entries.reached
            yield from self._fetched(entries, log, high)
            if entries.reached == begun:
                raise NetworkError(f"{self._name} has not got all of {log_text(log)} from {low} to {high}")

    def _fetched(self, entries: _Arriving, log: Log, high: int) -> Iterator[Found]:
        """What one request brings: all of it, or up to a payload that does not come."""
        while not self._connection.request_credit:
            if self._events(_ANSWER_SECONDS) is None:
                raise NetworkError(f"{self._name} took too long")
        request = self._request(log, entries.reached + 1, high, lazy=False)
        while True:
            events = self._events(self._wait if entries.waits else self._wait + _ANSWER_SECONDS)
            if events is None and entries.waits:
                yield from entries.close()
                self._connection.cancel(request)
                return
            if events is None:
                raise NetworkError(f"{self._name} took too long")
            for event in events:
                if getattr(event, "id", None) != request:
                    continue
                yield from entries.take(event)
                if isinstance(event, Ended):
                    return


class _Arriving:
    """Entries as they come, each with its payload if that follows."""

    def __init__(self, url: str, payload_limit: int, reached: int) -> None:
        self._url = url
        self._limit = payload_limit
        self._entry: Entry | None = None
        self._payload = bytearray()
        self.reached = reached

    @property
    def waits(self) -> bool:
        """Whether an entry came whose payload has not come."""
        return self._entry is not None

    def take(self, event: Event) -> Iterator[Found]:
        """Take an event: an entry that is complete with it."""
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
        """The last entry, if its payload has not come."""
        if self._entry is not None:
            state = without_bytes(self._entry)
            yield self._found(state, b"" if state == HELD and self._limit >= 0 else None)

    def _found(self, state: str, payload: bytes | None) -> Found:
        entry, self._entry = self._entry, None
        assert entry is not None  # noqa: S101 - asked for only if there is one
        return Found(self._url, to_sql(entry.seq), entry.encoded, state, payload=payload)
