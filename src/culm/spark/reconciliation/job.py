"""A comparison, from paths to a folder of results: what ``culm spark reconcile`` runs.

::

    OUTPUT/differences/    Parquet, rows of ``reconcile.Difference``
    OUTPUT/summary.json    the counts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
from culm.spark.runtime.shell import Result, job
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
        folders = [_folder(name) for name in ((a, b) if isinstance(b, str) else (a,))]
        known = {folder: stack.enter_context(IndexStorage(folder)) for folder in folders if is_index(folder)}
        of_view = _view(known, view)
        mode = {"view": of_view.value}
        run = stack.enter_context(job("reconcile", output, folders, mode=mode, overwrite=overwrite, progress=progress))
        spark = None if {*folders} == {*known} else stack.enter_context(run.spark(master))
        tables = {folder: read_folder(spark, folder) for folder in folders if spark is not None and folder not in known}
        target = run.folder / "differences"
        if spark is not None and isinstance(b, str) and not known:
            run.say("comparing the tables")
            sides = (tables[folder] for folder in folders)
            _write(spark, reconcile(spark, *sides, view=of_view.value), run.folder)
        else:
            for number, (folder, table) in enumerate(tables.items()):
                run.say(f"writing the index of {folder}")
                place = run.folder / "work" / f"index-{number}"
                place.parent.mkdir(exist_ok=True)
                fingerprint(table.sparkSession, table, place, view=of_view.value)
                known[folder] = stack.enter_context(IndexStorage(place))
            indexes = [known[folder] for folder in folders]
            run.say("looking for differences")
            found = differing(*indexes) if isinstance(b, str) else b(indexes[0])
            if spark is None:
                write_here(found, {Difference: target})
            else:
                one, other = [*map(tables.get, folders), None][:2]
                _write(spark, named(spark, found, one, other, view=of_view.value), run.folder)
        having = [side for batch in read_batches(target, ["side"]) for side in batch.column(0).to_pylist()]
        return run.done(
            Comparison(
                view=of_view.value,
                a_lacks=having.count("b"),
                b_lacks=having.count("a"),
                bytes_read=sum(index.bytes_read for index in known.values()),
                bytes=sum(file.size for index in known.values() for file in index.manifest.files),
            )
        )


def _write(spark: SparkSession, frame: DataFrame, folder: Path) -> None:
    SparkTable(OnSpark(spark, folder / "work"), Difference, frame).kept(folder / "differences")


def _folder(name: str) -> Path:
    """The folder of an index, or that of a table."""
    return Path(name).absolute() if is_index(Path(name)) else table_folder(name)


def _view(indexes: Mapping[Path, IndexStorage], name: str | None) -> View:
    chosen = view_of(name or next((index.view.value for index in indexes.values()), "entries"))
    for folder, index in indexes.items():
        if index.view is not chosen:
            raise ConfigError(f"{folder}: an index of the {index.view.value}, not the {chosen.value} that are compared")
    return chosen
