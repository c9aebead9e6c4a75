"""A comparison, from paths to a folder of results: what ``culm spark reconcile`` runs.

::

    OUTPUT/differences/    Parquet, with the columns of ``culm.spark.reconcile``
    OUTPUT/summary.json    the counts
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.spark.failures import NOT_INSTALLED
from culm.spark.fingerprint import fingerprint
from culm.spark.output import SUMMARY, check_not_inside, whole_folder, write_table
from culm.spark.reconcile import differing, found_batches, found_schema, named, reconcile
from culm.spark.running import running, silent
from culm.spark.tables import read_folder, table_folder, view_of
from culm.store.recordindex.manifest import is_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.reconcile import Found
    from culm.store import View
    from culm.store.recordindex import IndexStorage

    Ask = Callable[[IndexStorage], Iterable[Found]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The summary: how many records either side lacks.

    ``bytes`` is the size of the indexes, ``bytes_read`` how much of it was read; both are 0 if there are none.
    """

    view: str
    a_lacks: int
    b_lacks: int
    bytes_read: int
    bytes: int
    seconds: float

    def as_dict(self) -> dict[str, int | float | str]:
        """The fields by name."""
        return asdict(self)


def run(
    a: str,
    b: str | Ask,
    output: Path,
    *,
    view: str | None = None,
    master: str = "local[*]",
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Compare two sides and write ``output``: ``differences/``, Parquet with the columns of ``reconcile``.

    A side is a folder: of a table, of the results of ``culm spark verify``, or a record index. ``b`` may also be a
    function that takes an index and finds its differences with something else, for instance with a peer. Two tables are
    compared whole. Beside an index or such a function, a table gets an index of its own first. Without any table Spark
    is not started, and only ids and numbers are known. ``view`` None: that of the indexes, else ``entries``.

    ``ConfigError`` or ``StoreError``, before Spark is started, if a side cannot be read, the indexes are of different
    views, or the output cannot be written.
    """
    started = time.monotonic()
    output = output.absolute()
    with ExitStack() as stack:
        sides = [_Side(part, stack) for part in ((a, b) if isinstance(b, str) else (a,))]
        of_view = _view(sides, view)
        for side in sides:
            check_not_inside(side.folder, output, overwrite=overwrite)
        job = _Job(of_view, None if isinstance(b, str) else b, progress or silent)
        if any(side.index is None for side in sides):
            job.spark = stack.enter_context(running(master, job.say))
        folder = stack.enter_context(whole_folder(output))
        return job.run(sides, folder, stack, started)


class _Side:
    """One side of the comparison: an index, or the folder of a table; ``table`` is set when an index is made of it."""

    def __init__(self, name: str, stack: ExitStack) -> None:
        from culm.store.recordindex import IndexStorage

        self.index: IndexStorage | None = None
        self.table: DataFrame | None = None
        if is_index(Path(name)):
            self.folder = Path(name).absolute()
            self.index = stack.enter_context(IndexStorage(self.folder))
        else:
            self.folder = table_folder(name)


def _view(sides: list[_Side], name: str | None) -> View:
    views = {side.folder: side.index.view for side in sides if side.index is not None}
    chosen = view_of(name or next((view.value for view in views.values()), "entries"))
    for folder, view in views.items():
        if view is not chosen:
            raise ConfigError(f"{folder}: an index of the {view.value}, not the {chosen.value} that are compared")
    return chosen


class _Job:
    """One comparison on its way to its folder."""

    def __init__(self, view: View, ask: Ask | None, say: Callable[[str], None]) -> None:
        self.spark: SparkSession | None = None
        self.say = say
        self._view = view
        self._ask = ask

    def run(self, sides: list[_Side], folder: Path, stack: ExitStack, started: float) -> Comparison:
        target = folder / "differences"
        indexes: list[IndexStorage] = []
        if self.spark is not None and self._ask is None and all(side.index is None for side in sides):
            self.say("comparing the tables")
            a, b = (read_folder(self.spark, side.folder) for side in sides)
            counts = self._keep(self.spark, reconcile(self.spark, a, b, view=self._view.value), target)
        else:
            indexes = [self._index(side, folder / "work", stack) for side in sides]
            self.say("looking for differences")
            found = differing(*indexes) if self._ask is None else self._ask(indexes[0])
            counts = self._keep_found(found, sides, target)
        size = sum(file.size for index in indexes for file in index.manifest.files)
        made = Comparison(
            self._view.value,
            a_lacks=counts.get("b", 0),
            b_lacks=counts.get("a", 0),
            bytes_read=sum(index.bytes_read for index in indexes),
            bytes=size,
            seconds=round(time.monotonic() - started, 3),
        )
        (folder / SUMMARY).write_text(json.dumps(made.as_dict(), indent=2) + "\n", encoding="utf-8")
        rmtree(folder / "work", ignore_errors=True)
        return made

    def _index(self, side: _Side, work: Path, stack: ExitStack) -> IndexStorage:
        from culm.store.recordindex import IndexStorage

        if side.index is not None:
            return side.index
        if self.spark is None:
            raise AssertionError
        self.say(f"writing the index of {side.folder}")
        work.mkdir(exist_ok=True)
        place = work / f"index-{len(list(work.iterdir()))}"
        side.table = read_folder(self.spark, side.folder)
        fingerprint(self.spark, side.table, place, view=self._view.value)
        return stack.enter_context(IndexStorage(place))

    def _keep_found(self, found: Iterable[Found], sides: list[_Side], target: Path) -> dict[str, int]:
        if self.spark is None:
            return _write_found(found, target)
        tables = [*(side.table for side in sides), None][:2]
        return self._keep(self.spark, named(self.spark, found, *tables, view=self._view.value), target)

    def _keep(self, spark: SparkSession, table: DataFrame, target: Path) -> dict[str, int]:
        write_table(table, target)
        counts = read_folder(spark, target).groupBy("side").count().collect()
        return {row[0]: row[1] for row in counts}


def _write_found(found: Iterable[Found], target: Path) -> dict[str, int]:
    """Write the records found as Parquet, without Spark; returns how many each side has."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ConfigError(NOT_INSTALLED) from None

    counts = {"a": 0, "b": 0}
    target.mkdir()
    with pq.ParquetWriter(target / "part-00000.parquet", found_schema()) as writer:
        for batch in found_batches(found):
            writer.write_batch(batch)
            for side in counts:
                counts[side] += batch.column("side").to_pylist().count(side)
    return counts
