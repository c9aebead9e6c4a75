"""A selection: its steps, from tables to tables (drawn in ``culm.spark.select``), as DataFrames, or as a folder.

``culm spark select`` goes from paths to a folder of results::

    OUTPUT/items/          Parquet: entries that are denoted and verified (columns: ``culm.spark.select.items.Item``)
    OUTPUT/missing/        Parquet: numbers that are denoted and not verified here, as runs
    OUTPUT/rejects/        Parquet: requests that could not be read, and why
    OUTPUT/bundles/        if asked for: a file for each requester, and ``manifest``, a Parquet table of them
    OUTPUT/summary.json    the numbers of ``SelectSummary``

Inputs are those of a verification. As there, the tables between the stages are Parquet in a folder ``work``, which
is removed at the end, so that inputs are read once. Only payloads are read again, for the bundles that need them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from culm.spark.batches.pack import BLOCK_BITS, Pack
from culm.spark.batches.payload import HELD
from culm.spark.batches.slices import fetched
from culm.spark.plan.given import REQUESTS, Given, given, read_rows
from culm.spark.reading.inputs import plan
from culm.spark.runtime.columns import Row, combined, fitted
from culm.spark.runtime.engine import Table
from culm.spark.runtime.onspark import OnSpark, SparkTable, frame_of
from culm.spark.runtime.shell import Result, job, local_input
from culm.spark.select import pieces
from culm.spark.select.bundles import PlaceRow, places_of, write_bundles
from culm.spark.select.items import Item, chosen
from culm.spark.select.requests import PART, Asked, Refused, check
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.gather import PackRow, Reject, gather
from culm.spark.verification.merge import BLOCK, LOG, SEGMENT, IndexRow, SegmentRow
from culm.spark.verification.verdicts import JudgedRow, JudgedSegment
from culm.spark.verification.verify import Verification, verified
from culm.store.schema import to_sql

# Pairs of a piece and an entry that a single task lays out for a block. If thousands of requesters want one block, its
# pieces denote more pairs than this; the requesters are then shared out to several tasks, which each get the block's
# entries. A smaller value copies entries to more tasks; with a larger one a popular block keeps one task busy for long.
_SHARE_PAIRS = 2_000_000


Judged = combined("Judged", __name__, SegmentRow, IndexRow)
"""A segment with its outcome and its entries."""


Wanted = combined("Wanted", __name__, pieces.Piece, only=(*BLOCK, "pairs"))
"""A block that is wanted, and how many numbers all its pieces have together."""

Whole = combined("Whole", __name__, SegmentRow, Wanted)
"""A segment with its entries and its outcome, and how many numbers the block's pieces have."""


class Selecting:
    """A selection on its way, on either engine. ``verification`` must keep the entries."""

    def __init__(self, verification: Verification, requests: Table[Given], at: Mapping[type[Row], Path]) -> None:
        self._segments = verification.outcomes.join(verification.segments, SEGMENT, Judged)
        self.asked, self.refused = requests.keep(check, Asked, Refused, at=at)
        blocks = self._segments.select(JudgedRow).map(present, pieces.BlockRow)
        covered = blocks.spread(LOG, ("low",)).map(pieces.covering, pieces.BlockRow)
        requested = self.asked.join(covered, LOG, pieces.Request, ("start", "reach", "low", "upto"))
        self._pieces, self._gaps = requested.keep(pieces.cut, pieces.Piece, pieces.Gap, columnar=True)

    def together(self) -> Table[pieces.Piece]:
        """The pieces and the entries of their blocks, sorted so that a block's entries precede its pieces."""
        wanted = self._pieces.total(BLOCK, Wanted).kept()
        entries = self._segments.join(wanted, BLOCK, Whole).map(partial(held, most=_SHARE_PAIRS), pieces.Piece)
        shared = self._pieces.dealt(wanted, BLOCK, "requester", pieces.Piece, "pairs", _SHARE_PAIRS)
        return entries.union(shared).spread((*BLOCK, "share"), ("requester",))

    def missing(self, inside: Table[pieces.Gap]) -> Table[pieces.Gap]:
        """All gaps, sorted as ``merged`` takes them. ``inside``: those that ``chosen`` finds inside blocks."""
        return inside.union(self._gaps).spread(("requester", *LOG), ("reason", "first"))


def present(rows: Iterable[JudgedRow]) -> Iterator[pieces.BlockRow]:
    """The blocks that have verified entries."""
    for row in rows:
        segment = JudgedSegment(row)
        verified = segment.findings.seq[segment.verdict == 0]
        if len(verified):
            newest = int(verified[-1])
            low = to_sql(newest >> BLOCK_BITS << BLOCK_BITS)
            yield pieces.BlockRow(row.author, row.log, low, low, to_sql(newest))


def held(rows: Iterable[Any], most: int) -> Iterator[pieces.Piece]:
    """The verified entries of each block (``Whole``): a copy for each share. ``most``: pairs for one task."""
    for row in rows:
        segment = JudgedSegment(row)
        verified = segment.verdict == 0
        if verified.any():
            records = Pack.decode(fetched(row.packed))
            encoded = [records.record(at) for at in records.is_entry.nonzero()[0][verified]]
            given = {"encoded": encoded, "payload_state": "payload", "payload": None}
            data = fitted(segment.table(verified), Item, given).serialize().to_pybytes()
            for share in range(-(-row.pairs // most)):
                yield pieces.Piece(row.author, row.log, row.block, share, data)


class Selection(NamedTuple):
    """A selection as DataFrames.

    Rows of ``culm.spark.select.items.Item``, of ``culm.spark.select.pieces.Missing`` (runs of numbers that are denoted
    and not verified here), and of ``culm.spark.select.requests.Refused``.
    """

    items: DataFrame
    missing: DataFrame
    rejects: DataFrame


def select_entries(
    entries: DataFrame, requests: DataFrame, *, signatures: str = "all", encoded: bool = True
) -> Selection:
    """Verify a table of entries, as ``verification.verify.verify`` takes it, and select from the verified ones.

    The items are exactly the entries and certificates that the ranges of each requester denote and that are verified.
    ``requests`` has the columns of docs/spark-select.md. ``encoded=False`` leaves the entries' bytes out.
    ``ConfigError`` if ``requests`` lacks a column or has one of a wrong type.

    The segments stay on the executors' disks until the session ends or its cache is cleared.
    """
    asked = SparkTable(OnSpark(entries.sparkSession), Given, given(requests, REQUESTS))
    found = Selecting(verified(entries, signatures=signatures, keep=True), asked, {})
    together = found.together()
    items = together.map(partial(chosen, encoded=encoded), Item, columnar=True)
    gaps = together.map(partial(chosen, encoded=False), pieces.Gap, columnar=True)
    missing = found.missing(gaps).map(pieces.merged, pieces.Missing)
    return Selection(frame_of(items), frame_of(missing), frame_of(found.refused))


# -- the command ------------------------------------------------------------------------------------------------


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


_OF_RANGES = ("count(DISTINCT requester) AS requesters", f"count_if(kind & {PART} = 0) AS ranges")
_OF_ITEMS = (
    "count(*) AS items",
    "count_if(certificate) AS certificates",
    "count_if(payload) AS payloads",
    f"count_if(payload AND payload_state = '{HELD}') AS payloads_held",
)
_OF_MISSING = (
    "count(*) AS missing_rows",
    f"sum(entries) FILTER (WHERE reason = '{pieces.NOT_HELD}') AS not_held",
    f"sum(entries) FILTER (WHERE reason = '{pieces.BEYOND}') AS beyond_newest",
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

    ``requests`` is the path or URI of a folder of Parquet files, or of a ``.parquet``, ``.csv``, ``.json`` or
    ``.jsonl`` file, with the columns of docs/spark-select.md. ``bundles``: also write a bundle for each requester.
    ``master``, ``overwrite``, ``signatures``, ``progress`` and the errors are those of ``culm.spark.run``; this always
    runs on Spark, however small the inputs are.
    """
    splits, ways = plan(inputs), Signatures(signatures)
    mode, reads = {"signatures": signatures, "bundles": bundles}, [*inputs, requests]
    with (
        job("select", output, reads, mode=mode, overwrite=overwrite, progress=progress) as run,
        local_input(requests) as table,
        run.spark(master) as spark,
    ):
        engine, folder = OnSpark(spark, run.folder / "work"), run.folder
        # First, because it refuses requests that lack a column, and verifying large inputs takes hours.
        wanted = SparkTable(engine, Given, given(read_rows(spark, table), REQUESTS))
        run.say_reading(splits)
        step = partial(gather, note=places_of) if bundles else gather
        packs, rejects, places = engine.read(splits, step, PackRow, Reject, PlaceRow)
        verification = Verification(engine, ways, keep=True)
        verification.take(packs, run.say)
        run.say("reading the requests")
        selected = Selecting(verification, wanted, {Refused: folder / "rejects"})
        run.say("writing the items")
        items, gaps = selected.together().keep(chosen, Item, pieces.Gap, at={Item: folder / "items"}, columnar=True)
        run.say("writing what is missing")
        (missing,) = selected.missing(gaps).keep(pieces.merged, pieces.Missing, at={pieces.Missing: folder / "missing"})
        counts = {"rejects": selected.refused.count(), "unreadable": rejects.count()}
        for counted, of_table in ((selected.asked, _OF_RANGES), (items, _OF_ITEMS), (missing, _OF_MISSING)):
            counts |= _counted(counted, *of_table)
        if bundles:
            run.say("writing the bundles")
            manifest = write_bundles(engine, frame_of(items), frame_of(places), folder / "bundles")
            counts |= _counted(manifest, "count(*) AS bundles", "sum(bytes) AS bundle_bytes", "sum(lacking) AS lacking")
        return run.done(SelectSummary(**counts))


def _counted(table: Table[Any], *counts: str) -> dict[str, int]:
    """What SQL expressions such as ``count(*) AS items`` say of a table."""
    found = frame_of(table).selectExpr(*counts).collect()[0].asDict()
    return {name: int(value or 0) for name, value in found.items()}
