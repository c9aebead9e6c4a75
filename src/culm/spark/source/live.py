"""Following a live peer that speaks ``culm://``: what it has, and what it gets, each entry once.

The peer pushes entries when they come, and Spark asks for batches when it likes. Between the two is a home
(``culm.node.home``) that belongs to the stream: its identity is shown to the peer, and its store keeps the entries
(``spool``). The driver's process has a session with the peer (``feed``), for as long as the query runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from culm.errors import ConfigError
from culm.node.network.urls import PeerUrl
from culm.spark.reading.found import Found
from culm.spark.source.options import Options
from culm.spark.source.rows import entry_batches
from culm.spark.source.spool import BEGINNING, Offset, Spool
from culm.spark.source.trigger import SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from culm.spark.source.feed import Feed

_TASK_BYTES = 4 * 1024 * 1024  # of rows in one task: a batch keeps some cores busy, and no task is worth less than it


class LiveStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what a peer has and gets. ``ConfigError`` for an address without a key, and without the option ``home``.

    Spark makes several of these; only the one whose offsets it asks for calls the peer.
    """

    def __init__(self, url: str, options: Options) -> None:
        self._url = PeerUrl.parse(url, schemes=("culm",))
        if options.home is None:
            raise ConfigError("to follow a culm:// peer, name a folder for the stream: option('home', FOLDER)")
        self._options = options
        self._feed: Feed | None = None
        self._spool: Spool | None = None
        self._is_fed = False

    def initialOffset(self) -> Offset:  # type: ignore[override]  # noqa: N802 - Spark's name; a dict all the same
        """Before the first row."""
        return BEGINNING

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Get what the peer has now, once; the query ends with it."""
        feed, spool = self._opened()
        feed.once()
        self._is_fed = True
        spool.wait_no_longer()

    def latestOffset(  # type: ignore[override]  # noqa: N802 - Spark's name
        self,
        start: Offset | None = None,
        limit: object = None,  # noqa: ARG002 - the option ``batch`` limits
    ) -> Offset:
        """The end of the next batch. Raises why the session with the peer ended, if it did for good."""
        if start is None:
            raise ConfigError("following a culm:// peer needs PySpark 4.2 or newer")
        feed, spool = self._opened()
        if not self._is_fed:
            feed.start()
            self._is_fed = True
        feed.check()
        return spool.end(start, self._options.batch)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:  # type: ignore[override]
        """The rows between two offsets, cut into tasks, which have them with them."""
        _, spool = self._opened()
        return [InputPartition(rows) for rows in _cut(spool.rows(start, end, str(self._url)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        rows: list[Found] = partition.value
        return entry_batches(rows, self._options)

    def stop(self) -> None:
        """End the session, when the query ends."""
        if self._feed is not None:
            self._feed.stop()
        if self._spool is not None:
            self._spool.close()

    def _opened(self) -> tuple[Feed, Spool]:
        """The feed and the spool, made at the first use."""
        if self._feed is None or self._spool is None:
            from culm.spark.source.feed import Feed  # noqa: PLC0415 - loads the node, which tasks do not need

            self._feed = Feed(self._url, self._options)
            self._spool = Spool(self._feed.store_path, self._options.wanted, self._options.wait)
        return self._feed, self._spool


def _cut(rows: Iterable[Found]) -> Iterator[list[Found]]:
    task: list[Found] = []
    size = 0
    for row in rows:
        task.append(row)
        size += len(row.encoded or b"") + len(row.payload or b"")
        if size >= _TASK_BYTES:
            yield task
            task, size = [], 0
    if task:
        yield task
