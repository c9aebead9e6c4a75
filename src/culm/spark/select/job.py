"""A whole selection, from paths to a folder of results: what ``culm spark select`` runs.

::

    OUTPUT/items/          Parquet: entries that are denoted and verified (columns: ``culm.spark.select.items.Item``)
    OUTPUT/missing/        Parquet: numbers that are denoted and not verified here, as runs
    OUTPUT/rejects/        Parquet: requests that could not be read, and why
    OUTPUT/bundles/        if asked for: a file for each requester, and ``manifest``, a Parquet table of them
    OUTPUT/summary.json    the numbers of ``SelectSummary``

Inputs are those of a verification. As there, the tables between the stages are Parquet in a folder ``work``, which
is removed at the end, so that inputs are read once. Only payloads are read again, for the bundles that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from culm.errors import ConfigError
from culm.spark.batches.payload import HELD
from culm.spark.plan.given import REQUESTS, Given, given, read_rows
from culm.spark.reading.inputs import plan
from culm.spark.runtime.columns import Row
from culm.spark.runtime.engine import Table
from culm.spark.runtime.onspark import OnSpark, SparkTable, frame_of
from culm.spark.runtime.shell import Result, job
from culm.spark.select.bundles import PlaceRow, places_of, write_bundles
from culm.spark.select.items import Item, chosen
from culm.spark.select.places import BEYOND, NOT_HELD, Gap, Missing, merged
from culm.spark.select.requests import PART, Refused
from culm.spark.select.steps import Selecting
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.gather import PackRow, Reject, gather
from culm.spark.verification.verify import Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectSummary(Result):
    """A selection in numbers.

    ``ranges`` and ``requesters`` count requests that could be read, ``rejects`` those that could not. ``items`` are
    rows, one for each requester and entry; ``certificates`` counts those that are wanted only to verify others,
    ``payloads`` those that are wanted with their payload, ``payloads_held`` those of them whose payload is held.
    ``missing_rows`` counts the rows of the table of what is missing, which are runs of entries: ``not_held`` those up
    to a log's newest, ``beyond_newest`` those that closed ranges name above it. ``unreadable`` counts rows of the
    inputs that are not entries. ``bundles`` and ``bundle_bytes`` are 0 if no bundles were asked for; ``lacking``
    counts wanted payloads that are not in them.
    """

    requesters: int
    ranges: int
    rejects: int
    items: int
    certificates: int
    payloads: int
    payloads_held: int
    missing_rows: int
    not_held: int
    beyond_newest: int
    unreadable: int
    bundles: int = 0
    bundle_bytes: int = 0
    lacking: int = 0


_OF_ITEMS = (
    "count(*) AS items",
    "count_if(certificate) AS certificates",
    "count_if(payload) AS payloads",
    f"count_if(payload AND payload_state = '{HELD}') AS payloads_held",
)
_OF_MISSING = (
    "count(*) AS missing_rows",
    f"sum(entries) FILTER (WHERE reason = '{NOT_HELD}') AS not_held",
    f"sum(entries) FILTER (WHERE reason = '{BEYOND}') AS beyond_newest",
)


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
    columns of docs/spark-select.md. ``bundles``: also write a bundle for each requester. ``master``,
    ``overwrite``, ``signatures``, ``progress`` and the errors are those of ``culm.spark.run``; this always runs on
    Spark, however small the inputs are.
    """
    splits, ways = plan(inputs), Signatures(signatures)
    if not Path(requests).exists():
        raise ConfigError(f"{requests}: there is no such file or folder")
    mode, reads = {"signatures": signatures, "bundles": bundles}, [*inputs, requests]
    with (
        job("select", output, reads, mode=mode, overwrite=overwrite, progress=progress) as run,
        run.spark(master) as spark,
    ):
        engine, folder = OnSpark(spark, run.folder / "work"), run.folder
        # First, because it refuses requests that lack a column, and verifying large inputs takes hours.
        wanted = SparkTable(engine, Given, given(read_rows(spark, Path(requests).absolute()), REQUESTS))
        run.say_reading(splits)
        step = partial(gather, note=places_of) if bundles else gather
        packs, rejects, places = engine.read(splits, step, PackRow, Reject, PlaceRow)
        verification = Verification(engine, ways, keep=True)
        verification.take(packs)
        run.say("looking for paths and forks, log by log")
        verification.settle()
        run.say("reading the requests")
        at: dict[type[Row], Path] = {Refused: folder / "rejects", Item: folder / "items", Missing: folder / "missing"}
        selected = Selecting(verification, wanted, at)
        run.say("writing the items")
        items, gaps = selected.together().keep(chosen, Item, Gap, at=at, columnar=True)
        run.say("writing what is missing")
        (missing,) = selected.missing(gaps).keep(merged, Missing, at=at)
        counts = {
            **_counted(
                selected.asked, "count(DISTINCT requester) AS requesters", f"count_if(kind & {PART} = 0) AS ranges"
            ),
            **_counted(items, *_OF_ITEMS),
            "rejects": selected.refused.count(),
            **_counted(missing, *_OF_MISSING),
            "unreadable": rejects.count(),
        }
        if bundles:
            run.say("writing the bundles")
            manifest = write_bundles(engine, frame_of(items), frame_of(places), folder / "bundles")
            counts |= _counted(manifest, "count(*) AS bundles", "sum(bytes) AS bundle_bytes", "sum(lacking) AS lacking")
        return run.done(SelectSummary(**counts))


def _counted(table: Table[Any], *counts: str) -> dict[str, int]:
    """What SQL expressions such as ``count(*) AS items`` say of a table."""
    found = frame_of(table).selectExpr(*counts).collect()[0].asDict()
    return {name: int(value or 0) for name, value in found.items()}
