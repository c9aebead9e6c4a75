"""A comparison, from paths to a folder of results: what ``culm spark reconcile`` runs.

::

    OUTPUT/differences/    Parquet, rows of ``reconcile.Difference``
    OUTPUT/summary.json    the counts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from culm.errors import ConfigError
from culm.spark.reconciliation.fingerprint import fingerprint
from culm.spark.reconciliation.reconcile import (
    Difference,
    differing,
    named,
    read_folder,
    reconcile,
    table_folder,
    view_of,
)
from culm.spark.runtime.onspark import OnSpark, SparkTable
from culm.spark.runtime.output import read_batches, write_here
from culm.spark.runtime.shell import Job, Result, job
from culm.store import View
from culm.store.recordindex import IndexStorage
from culm.store.recordindex.manifest import is_index

Ask = Callable[[IndexStorage], Iterable[Difference]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Result):
    """The summary: how many records either side lacks.

    ``bytes`` is the size of the indexes, ``bytes_read`` how much of it was read; both are 0 if there are none.
    """

    view: str
    a_lacks: int
    b_lacks: int
    bytes_read: int
    bytes: int


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
    """Compare two sides and write ``output``: ``differences/``, Parquet with rows of ``Difference``.

    A side is a folder: of a table, of the results of ``culm spark verify``, or a record index. ``b`` may also be a
    function that takes an index and finds its differences with something else, for instance with a peer. Two tables are
    compared whole. Beside an index or such a function, a table gets an index of its own first. Without any table Spark
    is not started, and only ids and numbers are known. ``view`` None: that of the indexes, else ``entries``.

    ``ConfigError`` or ``StoreError``, before Spark is started, if a side cannot be read, the indexes are of different
    views, or the output cannot be written.
    """
    with ExitStack() as stack:
        sides = [_Side(part, stack) for part in ((a, b) if isinstance(b, str) else (a,))]
        of_view = _view(sides, view)
        reads, mode = [side.folder for side in sides], {"view": of_view.value}
        run = stack.enter_context(job("reconcile", output, reads, mode=mode, overwrite=overwrite, progress=progress))
        spark = stack.enter_context(run.spark(master)) if any(side.index is None for side in sides) else None
        target = run.folder / "differences"
        indexes: list[IndexStorage] = []
        if spark is not None and isinstance(b, str) and all(side.index is None for side in sides):
            run.say("comparing the tables")
            tables = [read_folder(spark, side.folder) for side in sides]
            _write(spark, reconcile(spark, *tables, view=of_view.value), run.folder)
        else:
            indexes = [side.indexed(spark, of_view, run, stack) for side in sides]
            run.say("looking for differences")
            found = differing(*indexes) if isinstance(b, str) else b(indexes[0])
            if spark is None:
                write_here(found, {Difference: target})
            else:
                known = [*(side.table for side in sides), None][:2]
                _write(spark, named(spark, found, *known, view=of_view.value), run.folder)
        having = [side for batch in read_batches(target, ["side"]) for side in batch.column(0).to_pylist()]
        return run.done(
            Comparison(
                view=of_view.value,
                a_lacks=having.count("b"),
                b_lacks=having.count("a"),
                bytes_read=sum(index.bytes_read for index in indexes),
                bytes=sum(file.size for index in indexes for file in index.manifest.files),
            )
        )


def _write(spark: SparkSession, frame: DataFrame, folder: Path) -> None:
    SparkTable(OnSpark(spark, folder / "work"), Difference, frame).kept(folder / "differences")


class _Side:
    """One side of the comparison: an index, or the folder of a table; ``table`` is set when an index is made of it."""

    def __init__(self, name: str, stack: ExitStack) -> None:
        self.index: IndexStorage | None = None
        self.table: DataFrame | None = None
        if is_index(Path(name)):
            self.folder = Path(name).absolute()
            self.index = stack.enter_context(IndexStorage(self.folder))
        else:
            self.folder = table_folder(name)

    def indexed(self, spark: SparkSession | None, view: View, run: Job, stack: ExitStack) -> IndexStorage:
        """The index, which is made of the table if there is none."""
        if self.index is not None:
            return self.index
        if spark is None:
            raise AssertionError
        run.say(f"writing the index of {self.folder}")
        (run.folder / "work").mkdir(exist_ok=True)
        place = run.folder / "work" / f"index-{len(list((run.folder / 'work').iterdir()))}"
        self.table = read_folder(spark, self.folder)
        fingerprint(spark, self.table, place, view=view.value)
        return stack.enter_context(IndexStorage(place))


def _view(sides: list[_Side], name: str | None) -> View:
    views = {side.folder: side.index.view for side in sides if side.index is not None}
    chosen = view_of(name or next((view.value for view in views.values()), "entries"))
    for folder, view in views.items():
        if view is not chosen:
            raise ConfigError(f"{folder}: an index of the {view.value}, not the {chosen.value} that are compared")
    return chosen
