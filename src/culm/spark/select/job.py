"""A whole selection, from paths to a folder of results: what ``culm spark select`` runs.

::

    OUTPUT/items/          Parquet: entries that are denoted and verified (columns: ``culm.spark.select.select``)
    OUTPUT/missing/        Parquet: numbers that are denoted and not verified here, as runs
    OUTPUT/rejects/        Parquet: requests that could not be read, and why
    OUTPUT/bundles/        if asked for: a file for each requester, and ``manifest``, a Parquet table of them
    OUTPUT/summary.json    the numbers of ``SelectSummary``

Inputs are those of ``culm.spark.job``. As there, the tables between the stages are Parquet in a folder ``work``, which
is removed at the end, so that inputs are read once. Only payloads are read again, for the bundles that need them.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from culm.errors import ConfigError
from culm.spark.columns import Columns
from culm.spark.gather import PACKS
from culm.spark.inputs import plan
from culm.spark.output import (
    SUMMARY,
    check_not_inside,
    count_rows,
    kept,
    read_batches,
    read_table,
    whole_folder,
    write_from_workers,
    write_table,
)
from culm.spark.payload import HELD
from culm.spark.payload_places import PLACES
from culm.spark.plan.given import read_rows
from culm.spark.reading import from_splits
from culm.spark.running import running, silent
from culm.spark.select.bundles import READ, gather_with_places, write_bundles
from culm.spark.select.items import ITEMS, chosen
from culm.spark.select.requests import ASKED
from culm.spark.select.steps import selection
from culm.spark.steps import OUTCOMES, SEGMENTS
from culm.spark.verify import chosen as signatures_chosen
from culm.spark.verify import outcomes, packed_splits, segments, settled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.inputs import Split
    from culm.spark.segment import Signatures

_COUNTED = Columns(items="BIGINT", certificates="BIGINT", payloads="BIGINT", payloads_held="BIGINT")


@dataclass(frozen=True, slots=True)
class SelectSummary:
    """A selection in numbers.

    ``ranges`` and ``requesters`` count requests that could be read, ``rejects`` those that could not. ``items`` are
    rows, one for each requester and entry; ``certificates`` counts those that are wanted only to verify others,
    ``payloads`` those that are wanted with their payload, ``payloads_held`` those of them whose payload is held.
    ``missing`` counts denoted entries up to a log's newest that are not held. ``unreadable`` counts rows of the inputs
    that are not entries. ``bundles`` and ``bundle_bytes`` are 0 if no bundles were asked for; ``lacking`` counts wanted
    payloads that are not in them. ``seconds`` includes Spark's start.
    """

    requesters: int
    ranges: int
    rejects: int
    items: int
    certificates: int
    payloads: int
    payloads_held: int
    missing: int
    unreadable: int
    bundles: int
    bundle_bytes: int
    lacking: int
    seconds: float

    def as_dict(self) -> dict[str, int | float]:
        """The numbers by name."""
        return asdict(self)


def run_select(
    inputs: Sequence[str],
    requests: str,
    output: Path,
    *,
    bundles: bool = False,
    master: str = "local[*]",
    overwrite: bool = False,
    signatures: str = "all",
    progress: Callable[[str], None] | None = None,
) -> SelectSummary:
    """Verify the inputs, select what the requests denote, and write the folder ``output``: all of it, or none.

    ``requests`` is a folder of Parquet files, or a ``.parquet``, ``.csv``, ``.json`` or ``.jsonl`` file, with the
    columns of ``culm.spark.select.requests.given``. ``bundles``: also write a bundle for each requester. ``master``,
    ``overwrite``, ``signatures``, ``progress`` and the errors are those of ``culm.spark.job.run``; this always runs on
    Spark, however small the inputs are.
    """
    started = time.monotonic()
    output = output.absolute()
    job = _Job(plan(inputs), signatures_chosen(signatures), Path(requests).absolute(), progress or silent)
    if not job.requests.exists():
        raise ConfigError(f"{requests}: there is no such file or folder")
    for path in [*inputs, requests]:
        check_not_inside(path, output, overwrite=overwrite)
    with running(master, job.say) as spark, whole_folder(output) as folder:
        counts = job.run(spark, folder, bundles=bundles)
        rmtree(folder / "work")
        summary = SelectSummary(**counts, seconds=round(time.monotonic() - started, 3))
        (folder / SUMMARY).write_text(json.dumps(summary.as_dict(), indent=2) + "\n", encoding="utf-8")
    return summary


@dataclass(frozen=True, slots=True)
class _Job:
    splits: list[Split]
    signatures: Signatures
    requests: Path
    say: Callable[[str], None]

    def run(self, spark: SparkSession, folder: Path, *, bundles: bool) -> dict[str, int]:
        """Fill the folder; returns the numbers of the summary."""
        work = folder / "work"
        requests = read_rows(spark, self.requests)
        packs, places = self._read(spark, work, bundles=bundles)
        found = kept(segments(packs, self.signatures, keep=True), work / "segments", SEGMENTS.ddl)
        found = settled(found, self.signatures, work / "settled")
        self.say("looking for paths and forks, log by log")
        reached = kept(outcomes(found), work / "outcomes", OUTCOMES.ddl)
        self.say("reading the requests")
        selected = selection(
            found, reached, requests, keep=lambda name, table, schema: kept(table, work / name, schema)
        )
        write_table(selected.rejects, folder / "rejects")
        self.say("writing the items")
        write_from_workers(selected.together, _counted, ITEMS, _COUNTED, folder / "items", work / "counts")
        self.say("writing what is missing")
        write_table(selected.missing, folder / "missing")
        # Spark would start a job for each of these, which takes longer than reading the columns here.
        counts = {
            **_asked(read_table(spark, work / "asked", ASKED.ddl)),
            **_sums(work / "counts", _COUNTED.names),
            "rejects": count_rows(folder / "rejects"),
            "missing": _missing(folder / "missing"),
            "unreadable": sum(
                len(batch) - batch.column(0).null_count for batch in read_batches(work / "segments", ["reason"])
            ),
        }
        if places is None:
            return {**counts, "bundles": 0, "bundle_bytes": 0, "lacking": 0}
        self.say("writing the bundles")
        write_bundles(read_table(spark, folder / "items", ITEMS.ddl), places, folder / "bundles")
        manifest = folder / "bundles" / "manifest"
        sums = _sums(manifest, ("bytes", "lacking"))
        return {**counts, "bundles": count_rows(manifest), "bundle_bytes": sums["bytes"], "lacking": sums["lacking"]}

    def _read(self, spark: SparkSession, work: Path, *, bundles: bool) -> tuple[DataFrame, DataFrame | None]:
        """The packs of the inputs, and the places of payloads, or None without bundles; one pass for both."""
        tasks = len(self.splits)
        self.say(f"reading the inputs ({tasks} {'task' if tasks == 1 else 'tasks'}), checking signatures")
        if not bundles:
            return packed_splits(spark, self.splits), None
        read = kept(from_splits(spark, self.splits, gather_with_places, READ), work / "read", READ.ddl)
        packs = read.where("payload_hash IS NULL").select(*PACKS.names)
        return packs, read.where("payload_hash IS NOT NULL").select(*PLACES.names)


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, tuple[Any, ...]]]:
    """Batches of ``ITEMS``, each with its row of ``_COUNTED``."""
    from pyarrow import compute

    for batch in chosen()(batches):
        payload = batch.column("payload")
        held = compute.and_(payload, compute.equal(batch.column("payload_state"), HELD))
        sums = (compute.sum(column).as_py() for column in (batch.column("certificate"), payload, held))
        yield batch, (len(batch), *sums)


def _asked(asked: DataFrame) -> dict[str, int]:
    from pyspark.sql import functions as sql

    row = asked.where("reason IS NULL").agg(sql.count_distinct("requester"), sql.count("*")).collect()[0]
    return {"requesters": row[0], "ranges": row[1]}


def _sums(folder: Path, names: Sequence[str]) -> dict[str, int]:
    from pyarrow import compute

    sums = dict.fromkeys(names, 0)
    for batch in read_batches(folder, names):
        for name in names:
            sums[name] += int(compute.sum(batch.column(name)).as_py() or 0)
    return sums


def _missing(folder: Path) -> int:
    """How many entries are missing, without those beyond the newest entry of their log."""
    from pyarrow import compute

    missing = 0
    for batch in read_batches(folder, ("entries", "reason")):
        not_held = batch.filter(compute.equal(batch.column("reason"), "not held"))
        missing += int(compute.sum(not_held.column("entries")).as_py() or 0)
    return missing
