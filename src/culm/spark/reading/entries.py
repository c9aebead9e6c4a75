"""Reading stores, export files and tables of entries into a DataFrame, in parallel.

The driver looks at the inputs and cuts them into splits (``inputs``). Each split is read by one task
(``scan``), so the driver never holds an entry.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from culm.spark.reading.found import EVERYTHING, READ, EntryRow, Wanted
from culm.spark.reading.inputs import Part, Piece, Split, plan, together
from culm.spark.reading.scan import scan
from culm.spark.runtime.columns import batches, fitted, struct
from culm.spark.storage import settings_here
from culm.spark.storage.filesystems import scheme_of

# Rows of a Parquet file in one batch: some megabytes of entries. More would take a worker more memory at once.
_TABLE_ROWS = 20_000


def read(
    spark: SparkSession,
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    authors: Iterable[str] | None = None,
    logs: Iterable[str] | None = None,
    range: str | None = None,  # noqa: A002 - what it is called everywhere
    columns: Iterable[str] | None = None,
    payloads: bool = False,
    rejects: bool = True,
) -> DataFrame:
    """The entries at some paths or URIs, as ``spark.read.format("culm")`` gives them, and no more than is asked for.

    ``authors`` (base62 or hex) and ``logs`` (``AUTHOR/LOG``) take what either names; ``range`` is a Bamboo range of
    numbers (``5..10 sparse``). Of a store only the entries are read that these name. ``columns``: of
    ``culm.spark.source.rows.ENTRIES``; payloads are only read if a column needs them. ``payloads`` fills the column
    of that name, up to 1 MiB each. Large inputs are cut into two tasks for each of the session's cores, or more.

    What the session's Hadoop configuration and the environment say of S3 and Azure goes along. Spark's exception, with
    one line of Culm's, for wrong values and for inputs that cannot be read.
    """
    paths = [os.fspath(path)] if isinstance(path, str | os.PathLike) else [os.fspath(one) for one in path]
    given = {"author": authors, "log": logs, "columns": columns, "range": None if range is None else [range]}
    options = {name: ",".join(values) for name, values in given.items() if values is not None}
    options |= dict(settings_here()) if any(map(scheme_of, paths)) else {}
    options["minPartitions"] = str(least_tasks(spark))
    return spark.read.format("culm").options(**options, payloads=payloads, rejects=rejects).load(paths)


def read_entries(spark: SparkSession, paths: Iterable[str | os.PathLike[str]]) -> DataFrame:
    """The entries of Culm stores, plain export files and bundles, told apart by their content.

    A row is one of three things, by which of its columns is not null:

    - ``encoded``: the bytes of an entry, with ``payload_state``, one of ``batches.payload.STATES``;
    - ``payload_frame``: a payload that a bundle holds apart from its entry (``batches.payload.PayloadFrame``);
    - ``reason``: a reject, something that could not be read, and why.

    ``source`` (the absolute path) and ``offset`` (byte in a file, row id in a store) say where it stands. Entries are
    as they were found: unverified, in no order, once for every copy; those of fork proofs are among them.

    ``ConfigError`` or ``StoreError``, before any job, for a path that cannot be read at all.
    """
    splits = plan(paths, tasks=least_tasks(spark))
    return tasks(spark, splits).mapInArrow(partial(reading, splits), struct(EntryRow)).select(*READ)


def least_tasks(spark: SparkSession) -> int:
    """Into how many tasks to cut large inputs, at least: two for each core that the session has now.

    Spark Connect does not tell how many there are.
    """
    return 2 * spark.sparkContext.defaultParallelism if hasattr(spark, "_jsc") else 1


def tasks(spark: SparkSession, splits: Sequence[Split]) -> DataFrame:
    """The numbers of some splits, each in a task of its own, for ``reading``."""
    # A range has exactly as many partitions as it is told to have, with one number each, so every split becomes a task.
    # Spark would put the rows of a small DataFrame into partitions by chance, several splits into one task.
    return spark.range(0, len(splits), 1, max(len(splits), 1))


def reading(splits: Sequence[Split], numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: from the numbers of splits to their rows, as batches of ``EntryRow``."""
    found = (split_batches(splits[number]) for batch in numbers for number in batch.column(0).to_pylist())
    return chain.from_iterable(found)


def split_batches(split: Split, wanted: Wanted = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """The rows of a split as batches of ``EntryRow``, with those payloads that are ``wanted``.

    Rows of Parquet never become Python objects, and have no payloads.
    """
    for is_table, pieces in groupby(together(split), key=lambda piece: piece.part is Part.TABLE):
        if is_table:
            yield from chain.from_iterable(map(_table_batches, pieces))
        else:  # in batches of few bytes, because with payloads a row may have megabytes
            yield from batches(EntryRow, chain.from_iterable(scan(piece, wanted) for piece in pieces))


def _table_batches(piece: Piece) -> Iterator[pa.RecordBatch]:
    system, path = piece.filesystem()
    with parquet.ParquetFile(path, filesystem=system) as file:
        there = [name for name in READ if name in file.schema_arrow.names]
        at = sum(file.metadata.row_group(group).num_rows for group in range(piece.low))
        for batch in file.iter_batches(_TABLE_ROWS, range(piece.low, piece.high + 1), columns=there):
            own = {"source": [piece.uri] * len(batch), "offset": np.arange(at, at + len(batch))}
            at += len(batch)
            yield fitted(batch, EntryRow, {name: cells for name, cells in own.items() if name not in there})
