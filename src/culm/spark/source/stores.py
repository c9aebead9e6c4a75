"""Following stores: entries and fork proofs are read once each, in the order in which they arrive.

Both tables of a store have row ids that only grow. An offset is the last row id that was read of each table. Spark
keeps it in its checkpoint, so a query that is stopped, or dies, goes on where it was, and no entry comes twice. Changes
of a row do not change its id: a stream does not tell when a payload arrives later, or is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from culm.errors import ConfigError
from culm.spark.reading.inputs import Part, Piece, opened_store
from culm.spark.source.options import Options
from culm.spark.source.rows import Pieces
from culm.spark.source.trigger import SupportsTriggerAvailableNow
from culm.spark.storage import Location

Offset = dict[str, int]

_TABLES = (Part.ENTRIES, Part.FORKS)
_ROWS = 20_000  # rows of a store in one task, as for reading whole stores (``reading.inputs``)


class StoreStream(Pieces, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the rows that stores got since an offset. ``ConfigError`` for a path that is not a file."""

    def __init__(self, paths: Sequence[str], options: Options) -> None:
        self._paths = [str(Path(path).absolute()) for path in paths]
        super().__init__(options)
        self._until: Offset | None = None
        for path in self._paths:
            if "://" in path or not Path(path).is_file():
                raise ConfigError(f"{path}: cannot be followed; a stream reads a store, a folder, or a peer")

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Before the first row of every table."""
        return {_key(path, part): 0 for path in self._paths for part in _TABLES}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note how far the stores go now; the query ends there, even if they grow meanwhile."""
        self._until = self._greatest()

    def latestOffset(  # noqa: N802 - Spark's name
        self,
        start: Offset | None = None,
        limit: object = None,  # noqa: ARG002 - the option ``batch`` limits
    ) -> Offset:
        """The end of the next batch: at most ``batch`` row ids further in each table; all there is in PySpark 4.1."""
        latest = self._until or self._greatest()
        if start is None:
            return latest
        return {key: min(latest[key], start.get(key, 0) + self._options.batch) for key in latest}

    def _greatest(self) -> Offset:
        latest = {}
        for path in self._paths:
            with opened_store(Location(path)) as database:
                for part in _TABLES:
                    (greatest,) = database.connection.execute(f"SELECT max(id) FROM {part.value}").fetchone()
                    latest[_key(path, part)] = greatest or 0
        return latest

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The row ids between two offsets, cut into tasks."""
        return [
            InputPartition((Piece(path, part, low, min(low + _ROWS - 1, end[_key(path, part)])),))
            for path in self._paths
            for part in _TABLES
            for low in range(start.get(_key(path, part), 0) + 1, end[_key(path, part)] + 1, _ROWS)
        ]


def _key(path: str, part: Part) -> str:
    return f"{path}#{part.value}"
