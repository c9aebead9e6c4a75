"""Reading the tables of a state without Spark, for small runs.

A day's worth of entries on top of a large state concerns few logs. Keys are read first, and of the entries, which are
most of a state, only the row groups that have a wanted segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from culm.spark.output import read_batches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from culm.types import Log

    Row = tuple[Any, ...]


def index_rows(
    folders: Sequence[Path], names: Sequence[str], logs: Collection[Log] | None, *, forked: bool
) -> list[Row]:
    """The rows of some logs (None: all), each log's from the latest of the indexes that has it.

    ``folders`` are the indexes, oldest first. ``forked``: only rows of segments in forked logs. ``names`` are the
    columns; they must begin with author and log.
    """
    latest: dict[Log, list[Row]] = {}
    for folder in folders:
        found: dict[Log, list[Row]] = {}
        for batch in read_batches(folder, names):
            for row in _rows(_chosen(batch, logs, forked=forked)):
                if logs is None or row[:2] in logs:
                    found.setdefault(row[:2], []).append(row)
        latest |= found
    return [row for rows in latest.values() for row in rows]


def segment_rows(folder: Path, names: Sequence[str], keys: Collection[Row]) -> Iterator[tuple[Row, Row]]:
    """The columns ``names`` of the segments with these keys (author, log, low), each row with its key."""
    from pyarrow import parquet

    for path in sorted(folder.glob("*.parquet")):
        with parquet.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                places = list(_rows(file.read_row_group(group, ["author", "log", "low"])))
                wanted = [at for at, key in enumerate(places) if key in keys]
                if wanted:
                    table = file.read_row_group(group, list(names)).select(names).take(wanted)
                    yield from zip((places[at] for at in wanted), _rows(table), strict=True)


def _chosen(batch: pa.RecordBatch, logs: Collection[Log] | None, *, forked: bool) -> pa.RecordBatch:
    """The rows whose author has one of the logs; ``index_rows`` compares the log ids of those that are left."""
    import pyarrow as pa
    from pyarrow import compute

    if forked:
        batch = batch.filter(compute.is_valid(batch.column("forked_at")))
    if logs is None:
        return batch
    authors = pa.array({author for author, _ in logs}, batch.column("author").type)
    return batch.filter(compute.is_in(batch.column("author"), authors))


def _rows(table: pa.Table | pa.RecordBatch) -> Iterator[Row]:
    columns = [column.to_pylist() for column in table.columns]
    return zip(*columns, strict=True)
