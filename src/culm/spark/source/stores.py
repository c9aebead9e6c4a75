"""Following stores: entries and fork proofs that arrive are read once each, in the order of their arrival.

Both have row ids that only grow. An offset says how far each table of each store was read; it goes into Spark's
checkpoint, so that a query that is stopped, or dies, goes on where it was, and no entry comes twice. What is not told
is what becomes of an entry later: a payload that arrives, or is forgotten.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from culm.errors import ConfigError
from culm.spark.inputs import Part, Piece
from culm.spark.scan import scan
from culm.spark.source.rows import entry_batches
from culm.store.opening import open_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

    from culm.spark.source.options import Options

    Offset = dict[str, int]

_TABLES = (Part.ENTRIES, Part.FORKS)
_ROWS = 20_000  # rows of one task


class StoreStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what stores have got since. ``ConfigError`` for anything that is no store."""

    def __init__(self, paths: Sequence[str], options: Options) -> None:
        self._paths = [str(Path(path).absolute()) for path in paths]
        self._options = options
        self._until: Offset | None = None
        for path in self._paths:
            if "://" in path or not Path(path).is_file():
                raise ConfigError(f"{path}: only a store, or logs of one peer, can be followed")

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Before everything."""
        return {_key(path, part): 0 for path in self._paths for part in _TABLES}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is there now is all that will be read."""
        self._until = self._greatest()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802 - Spark's name
        """How far the next batch goes."""
        latest = self._until or self._greatest()
        return {key: min(latest[key], start.get(key, 0) + self._options.batch) for key in latest}

    def _greatest(self) -> Offset:
        latest = {}
        for path in self._paths:
            database = open_database(Path(path), read_only=True)
            try:
                for part in _TABLES:
                    (greatest,) = database.connection.execute(f"SELECT max(id) FROM {part.value}").fetchone()
                    latest[_key(path, part)] = greatest or 0
            finally:
                database.close()
        return latest

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The rows between two offsets, cut into tasks."""
        return [
            InputPartition(Piece(path, part, low, min(low + _ROWS - 1, end[_key(path, part)])))
            for path in self._paths
            for part in _TABLES
            for low in range(start.get(_key(path, part), 0) + 1, end[_key(path, part)] + 1, _ROWS)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        pieces: list[Piece] = [partition.value]
        found = chain.from_iterable(scan(piece, self._options.payload_limit) for piece in pieces)
        return entry_batches(found, self._options)


def _key(path: str, part: Part) -> str:
    return f"{path}#{part.value}"
