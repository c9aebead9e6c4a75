"""Reading stores and export files into a DataFrame, in parallel.

The inputs are looked at here and cut into splits (``culm.spark.inputs``); workers read those (``culm.spark.scan``).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from culm.spark.columns import Columns
from culm.spark.inputs import plan
from culm.spark.scan import Found, scan

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.inputs import Split

FOUND = Columns(
    source="STRING",
    offset="BIGINT",
    encoded="BINARY",
    payload_state="STRING",
    payload_frame="BINARY",
    reason="STRING",
)
"""The columns of ``read_entries``: the fields of ``culm.spark.scan.Found``."""

_SPLIT = Columns(id="BIGINT")


def read_entries(spark: SparkSession, paths: Iterable[str | os.PathLike[str]]) -> DataFrame:
    """The entries of Culm stores, plain export files and bundles, told apart by their content.

    A row is one of three things, by which of its columns is not null:

    - ``encoded``: the bytes of an entry, with ``payload_state``, one of ``culm.spark.payload.STATES``;
    - ``payload_frame``: a payload that a bundle holds apart from its entry (``culm.spark.payload.PayloadFrame``);
    - ``reason``: a reject, something that could not be read, and why.

    ``source`` (the absolute path) and ``offset`` (byte in a file, row id in a store) say where it stands. Entries are
    as they were found: unverified, in no order, once for every copy; those of fork proofs are among them.

    ``ConfigError`` or ``StoreError``, before any job, for a path that cannot be read at all.
    """
    return read_splits(spark, plan(paths))


def read_splits(spark: SparkSession, splits: list[Split]) -> DataFrame:
    """``read_entries`` for inputs that were looked at before: each split is read by one task."""
    if not splits:
        return spark.createDataFrame([], FOUND.ddl)
    # A range has as many partitions as it is told to have, one number each: every split becomes a task. Rows of a
    # small DataFrame would be spread by chance.
    return spark.range(0, len(splits), 1, len(splits)).mapInArrow(_reader(splits), FOUND.ddl)


def _reader(splits: list[Split]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = chain.from_iterable(_scanned(splits[index]) for (index,) in _SPLIT.rows(batches))
        return FOUND.batches(rows)

    return read


def _scanned(split: Split) -> Iterator[Found]:
    return chain.from_iterable(scan(piece) for piece in split)
