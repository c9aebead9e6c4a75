"""Following a live peer: a node that speaks ``culm://``, or logs of one that speaks ``intervals://``.

In both, the driver has a node's session with the peer (``feed``), and the rows come from the store that it fills.

*culm://* The peer pushes entries when they come, and Spark asks for batches when it likes. Between the two is a home
(``culm.node.home``) that belongs to the stream: its identity is shown to the peer, and its store keeps the entries
(``spool``). The session lasts as long as the query.

*intervals://* Logs are named, so that an offset can be the last number that was read of each of them. The numbers mean
the same for every peer, so a query that is stopped, or dies, goes on where it was, and nothing is kept: each batch has
a session and a store of its own. A batch that is made again is fetched again, so the peer must still have it.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader

from culm.errors import ConfigError, NetworkError
from culm.node.network.urls import PeerUrl
from culm.ranges import Range
from culm.spark.batches.payload import HELD, without_bytes
from culm.spark.reading.found import EntryRow
from culm.spark.reading.inputs import packed
from culm.spark.runtime.columns import batch_of, batches
from culm.spark.source.rows import Options, SupportsTriggerAvailableNow, entry_batches
from culm.spark.source.spool import BEGINNING, Offset
from culm.store import ReadableStore
from culm.store.schema import to_sql
from culm.types import Log
from culm.wire.places import log_text, parse_log

if TYPE_CHECKING:
    from culm.spark.source.feed import Feed

_TASK_BYTES = 4 * 1024 * 1024  # of rows in one task: a batch keeps some cores busy, and no task is worth less than it
_MOST_LOGS = 1000  # Each log is a request of its own in every batch, and an offset names all logs.


class LiveStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what a ``culm://`` peer has and gets. ``ConfigError`` without the peer's key, or the option ``home``.

    Spark makes several of these; only the one whose offsets it asks for calls the peer.
    """

    def __init__(self, url: str, options: Options) -> None:
        self._url, self._options = PeerUrl.parse(url, schemes=("culm",)), options
        if options.home is None:
            raise ConfigError("to follow a culm:// peer, name a folder for the stream: option('home', FOLDER)")

    def initialOffset(self) -> Offset:  # type: ignore[override]  # it is a dict
        """Before the first row."""
        return BEGINNING

    def prepareForTriggerAvailableNow(self) -> None:
        """Get what the peer has now, once; the query ends with it."""
        self._feed.once()

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # type: ignore[override]
        """The end of the next batch. Raises why the session with the peer ended, if it did for good."""
        if start is None:
            raise ConfigError("following a culm:// peer needs PySpark 4.2 or newer")
        self._feed.go_on()
        return self._feed.spool.end(start, self._options.batch)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:  # type: ignore[override]
        """The rows between two offsets, cut into tasks, which have them with them."""
        rows = self._feed.spool.rows(start, end, str(self._url))
        tasks = packed(rows, _TASK_BYTES, lambda row: len(row.encoded or b"") + len(row.payload or b""))
        return [InputPartition(some) for some in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return entry_batches([batch_of(EntryRow, partition.value)], self._options)

    def stop(self) -> None:
        """End the session, when the query ends."""
        if "_feed" in self.__dict__:  # it was used
            self._feed.stop()

    @cached_property
    def _feed(self) -> "Feed":
        from culm.spark.source.feed import Feed  # noqa: PLC0415 - loads the node, which tasks do not need

        return Feed(self._url, self._options)


Reached = dict[str, int]


class PeerStream(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what logs of an ``intervals://`` peer got. ``ConfigError`` for a wrong address, and without ``logs``."""

    def __init__(self, url: str, options: Options) -> None:
        self._url, self._options = PeerUrl.parse(url, schemes=("intervals",)), options
        self._logs = sorted(one for one in options.wanted.named or () if isinstance(one, tuple))
        if not 0 < len(self._logs) <= _MOST_LOGS:
            raise ConfigError(f"to follow a peer, name the logs (up to {_MOST_LOGS}): option('logs', 'AUTHOR/LOG,...')")

    def initialOffset(self) -> Reached:
        """Before the first number that is wanted of each log."""
        return {log_text(log): self._options.wanted.span.start - 1 for log in self._logs}

    def prepareForTriggerAvailableNow(self) -> None:
        """Do nothing: the query ends when the peer has nothing more, even if it got entries meanwhile.

        Its end cannot be noted beforehand, because a peer only tells where its logs end by sending them.
        """

    def read(self, start: Reached) -> tuple[Iterator[Row], Reached]:
        """The rows above an offset, at most ``batch`` of each log, and the offset behind them."""
        last = self._options.wanted.span.last
        found = self._fetched(start, {log: min(seq + self._options.batch, last) for log, seq in start.items()})
        end = {log: seq + len(found.get(log, ())) for log, seq in start.items()}
        return iter(list(self._rows(found))), end  # a list, because Spark copies the iterator

    def readBetweenOffsets(self, start: Reached, end: Reached) -> Iterator[Row]:
        """The rows between two offsets; ``NetworkError`` if the peer no longer has them all."""
        found = self._fetched(start, end)
        for log, rows in found.items():
            low, reached = start[log] + 1, start[log] + len(rows)
            if reached < end[log]:
                raise NetworkError(f"{self._url} has {log} up to {reached} only; {low} to {end[log]} were asked for")
        return self._rows(found)

    def _fetched(self, start: Reached, end: Reached) -> dict[str, list[EntryRow]]:
        """The entries of each log between two offsets, as far as the peer has them without a gap."""
        from culm.spark.source.feed import fetched  # noqa: PLC0415 - loads the node, which tasks do not need

        spans = {parse_log(log): Range(seq + 1, end[log]) for log, seq in start.items() if end[log] > seq}
        if not spans:
            return {}
        with fetched(self._url, spans, self._options.wait) as store:
            return {log_text(log): [*self._held(store, log, span)] for log, span in spans.items()}

    def _held(self, store: ReadableStore, log: Log, span: Range) -> Iterator[EntryRow]:
        for seq, stored in enumerate(store.entries(log, span.start, span.last), span.start):
            entry, is_held = stored.entry, stored.payload_complete
            if entry.seq != seq:
                return
            is_kept = is_held and self._options.wanted.has_payload(seq, entry.size)
            payload = b"".join(store.payload(stored)) if is_kept else None
            state = HELD if is_held else without_bytes(entry)
            yield EntryRow(str(self._url), to_sql(seq), entry.encoded, state, payload=payload)

    def _rows(self, found: dict[str, list[EntryRow]]) -> Iterator[Row]:
        for batch in entry_batches(batches(EntryRow, chain.from_iterable(found.values())), self._options):
            yield from (Row(**row) for row in batch.to_pylist())
