"""The steps of a selection, from tables to tables (drawn in ``culm.spark.select``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from culm.spark.columns import UNSIGNED, unsigned
from culm.spark.pack import BLOCK_BITS
from culm.spark.select.gaps import GAPS, WANTING, lacking, merged
from culm.spark.select.held import BLOCKS, HELD, SEGMENT, held, present
from culm.spark.select.items import ITEMS, TOGETHER, chosen
from culm.spark.select.pages import PAGE_BITS, PAGES, UNPAGED, paged
from culm.spark.select.pieces import FAR_SPANS, REQUESTS, cut, spread
from culm.spark.select.places import FAR, GAP, PIECE, PIECES
from culm.spark.select.requests import ASKED, GIVEN, check, given
from culm.spark.steps import mapped
from culm.spark.verify import chosen as signatures_chosen
from culm.spark.verify import outcomes as outcomes_of
from culm.spark.verify import packed, settled
from culm.spark.verify import segments as segments_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    Keep = Callable[[str, DataFrame, str], DataFrame]

MISSING = (
    f"requester STRING, author BINARY, log_id {UNSIGNED}, first {UNSIGNED}, last {UNSIGNED}, entries {UNSIGNED},"
    " reason STRING"
)
"""The columns of ``missing``."""

REJECTS = "requester STRING, author STRING, log_id STRING, ranges STRING, reason STRING"
"""The columns of ``rejects``."""

_REASONS = "'not held', 'beyond the newest entry'"  # in the order of NOT_HELD, BEYOND
_LEAST = "CAST('-9223372036854775808' AS BIGINT)"  # XOR with it makes an unsigned number of a signed long
_PAGES = PAGES.ddl + ", next BIGINT"
_BLOCK_KEY = ["author", "log", "block"]

# Pairs of a piece and an entry that a single task lays out for a block. If thousands of requesters want one block, its
# pieces denote more pairs than this; the requesters are then shared out to several tasks, which each get the block's
# entries. A smaller value copies entries to more tasks; with a larger one a popular block keeps one task busy for long.
_SHARE_PAIRS = 2_000_000


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection as tables. ``together`` has entries and pieces side by side; ``chosen`` makes the items of it.

    ``items``: the columns of ``select``. ``missing``: ``requester``, ``author``, ``log_id``, ``first``, ``last``,
    ``entries``, ``reason`` (``not held``, or ``beyond the newest entry``). ``rejects``: ``requester``, ``author``,
    ``log_id`` and ``ranges`` as text, ``reason``.
    """

    items: DataFrame
    missing: DataFrame
    rejects: DataFrame
    together: DataFrame


def select(
    segments: DataFrame,
    outcomes: DataFrame,
    requests: DataFrame,
    *,
    encoded: bool = True,
) -> DataFrame:
    """Exactly the items and certificates that the ranges of each requester denote and that are verified.

    ``segments`` (made with ``keep=True``) and ``outcomes`` are those of ``culm.spark.verify``. Persist or write them
    first, because they are used several times. ``requests``: see ``culm.spark.select.requests.given``.
    ``encoded=False`` leaves the entries' bytes out.

    =============  =============  ================================================================================
    requester      STRING
    author         BINARY         32 bytes
    log_id         DECIMAL(20,0)
    seqnum         DECIMAL(20,0)
    metadata       BOOLEAN        the entry itself is wanted
    payload        BOOLEAN        its payload is wanted
    certificate    BOOLEAN        the entry is wanted only to verify others
    entry_hash     BINARY         YAMF-hash, 66 bytes
    size           DECIMAL(20,0)  of the payload, as the entry claims
    payload_hash   BINARY         66 bytes
    payload_state  STRING         what is known of the payload (``culm.spark.payload.STATES``)
    encoded        BINARY         the entry
    =============  =============  ================================================================================

    Each entry is there once for a requester, however many ranges denote it. The newest entry of a log, by which open
    ranges end, is its greatest verified one. ``ConfigError`` if ``requests`` lacks a column or has one of a wrong type.
    """
    return selection(segments, outcomes, requests, encoded=encoded).items


def missing(
    segments: DataFrame,
    outcomes: DataFrame,
    requests: DataFrame,
) -> DataFrame:
    """The numbers that the ranges denote and that are not verified here, as runs (see ``Selection``)."""
    return selection(segments, outcomes, requests).missing


def rejects(requests: DataFrame) -> DataFrame:
    """The requests that cannot be read, with the reason (see ``Selection``)."""
    return _refused(asked(requests))


def select_entries(
    entries: DataFrame,
    requests: DataFrame,
    *,
    signatures: str = "all",
    encoded: bool = True,
) -> Selection:
    """Verify a table of entries, as ``culm.spark.verify.verify`` takes it, and select from the verified ones.

    The segments stay on the executors' disks until the session ends or its cache is cleared.
    """
    from pyspark import StorageLevel

    ways = signatures_chosen(signatures)
    found = settled(segments_of(packed(entries), ways, keep=True).persist(StorageLevel.DISK_ONLY), ways)
    return selection(found, outcomes_of(found), requests, encoded=encoded)


def selection(
    segments: DataFrame,
    outcomes: DataFrame,
    requests: DataFrame,
    *,
    encoded: bool = True,
    keep: Keep | None = None,
) -> Selection:
    """Items, missing numbers and rejects of one selection.

    ``keep`` is called with a step's name, table and columns, and returns a table that can be used several times without
    computing it again. None persists the tables on the executors' disks.
    """
    kept = keep or _on_disk
    read = kept("asked", asked(requests), ASKED.ddl)
    there = kept("blocks", blocks(segments, outcomes), BLOCKS.ddl)
    found = kept("pages", pages(there), _PAGES)
    rows = kept("pieces", cut_requests(read, found), PIECES.ddl)
    rows = rows.union(kept("far", spread_far(rows, found), PIECES.ddl))
    both = together(segments, outcomes, rows)
    return Selection(
        items=both.mapInArrow(chosen(encoded=encoded), ITEMS.ddl),
        missing=_missing(rows, there, found),
        rejects=_refused(read),
        together=both,
    )


def _on_disk(_name: str, table: DataFrame, _schema: str) -> DataFrame:
    from pyspark import StorageLevel

    return table.persist(StorageLevel.DISK_ONLY)


# -- the steps ------------------------------------------------------------------------------------------------------


def asked(requests: DataFrame) -> DataFrame:
    """The ranges of all requests, and rejects: ``ASKED``."""
    return given(requests).mapInArrow(mapped(GIVEN, check, ASKED), ASKED.ddl)


def _refused(asked: DataFrame) -> DataFrame:
    return asked.where("reason IS NOT NULL").selectExpr(
        "requester", "author_text AS author", "log_text AS log_id", "ranges_text AS ranges", "reason"
    )


def blocks(segments: DataFrame, outcomes: DataFrame) -> DataFrame:
    """The blocks that have verified entries, ``BLOCKS``."""
    return _judged(segments, outcomes).select(*SEGMENT.names).mapInArrow(mapped(SEGMENT, present, BLOCKS), BLOCKS.ddl)


def _judged(segments: DataFrame, outcomes: DataFrame) -> DataFrame:
    return segments.where("summary IS NOT NULL").join(outcomes.drop("forked_at"), ["author", "log", "low"])


def pages(blocks: DataFrame) -> DataFrame:
    """The pages of all logs: ``PAGES``, and ``next``, the number of the log's next page; null for its last one."""
    rows = blocks.selectExpr("author", "log", f"shiftright(block, {PAGE_BITS}) AS page", "block", "newest")
    found = (
        rows.repartition("author", "log", "page")
        .sortWithinPartitions("author", "log", "page", "block")
        .mapInArrow(mapped(UNPAGED, paged, PAGES), PAGES.ddl)
    )
    return found.selectExpr("*", "lead(page) OVER (PARTITION BY author, log ORDER BY page) AS next")


def _logs(pages: DataFrame) -> DataFrame:
    """For each log its newest verified entry and its first page.

    Every log with verified entries has a first page, since a path leads to entry 1.
    """
    from pyspark.sql import functions as sql

    first = sql.max(sql.when(sql.col("page") == 0, sql.col("blocks")))
    return pages.groupBy("author", "log").agg(sql.max("newest").alias("newest"), first.alias("blocks"))


def cut_requests(asked: DataFrame, pages: DataFrame) -> DataFrame:
    """The pieces of the ranges in their logs' first pages: ``PIECES``. What lies behind a first page is FAR."""
    ranges = asked.where("reason IS NULL").join(_logs(pages), ["author", "log"], "left")
    return ranges.select(*REQUESTS.names).mapInArrow(cut, PIECES.ddl)


def spread_far(pieces: DataFrame, pages: DataFrame) -> DataFrame:
    """The pieces of all FAR spans: ``PIECES``.

    Narrow spans are joined with the pages they name. Wide ones are joined with all pages of the log that exist, since a
    span of 2^64 numbers would have too many to name.
    """
    far = pieces.where(f"form = {FAR}")
    narrow = (
        far.where("block IS NOT NULL")
        .withColumnRenamed("block", "page")
        .join(pages.select("author", "log", "page", "blocks"), ["author", "log", "page"], "left")
        .selectExpr(*(name if name != "next" else "CAST(NULL AS BIGINT) AS next" for name in FAR_SPANS.names))
    )
    # A page is also responsible for the pages behind it that do not exist, so that gaps there are told once.
    bits = PAGE_BITS + BLOCK_BITS
    first, last = (f"shiftrightunsigned({name} ^ {_LEAST}, {bits})" for name in ("first", "last"))
    wide = (
        far.where("block IS NULL")
        .join(pages.drop("newest"), ["author", "log"])
        .where(f"page <= {last} AND coalesce(next, page + 1) > {first}")
        .select(*FAR_SPANS.names)
    )
    return narrow.union(wide).mapInArrow(spread, PIECES.ddl)


def together(segments: DataFrame, outcomes: DataFrame, pieces: DataFrame) -> DataFrame:
    """The pieces and the entries of their blocks: ``TOGETHER``, sorted so that a block's entries precede its pieces."""
    from pyspark.sql import functions as sql

    only = pieces.where(f"form = {PIECE}")
    pairs = f"sum(coalesce(length(numbers) DIV 2, last - first + 1)) / {_SHARE_PAIRS}"
    wanted = only.groupBy(*_BLOCK_KEY).agg(sql.expr(f"CAST(ceil({pairs}) AS BIGINT) AS shares"))
    entries = (
        _judged(segments, outcomes)
        .join(wanted, _BLOCK_KEY)
        .select(*HELD.names)
        .mapInArrow(mapped(HELD, held, TOGETHER), TOGETHER.ddl)
    )
    many = sql.broadcast(wanted.where("shares > 1"))
    share = "coalesce(pmod(xxhash64(requester), shares), 0) AS share"
    shared = only.join(many, _BLOCK_KEY, "left").selectExpr(
        *(name if name != "share" else share for name in TOGETHER.names)
    )
    order = (*_BLOCK_KEY, "share")
    return entries.union(shared).repartition(*order).sortWithinPartitions(*order, "requester")


def _missing(pieces: DataFrame, blocks: DataFrame, pages: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sql

    newest = pages.groupBy("author", "log").agg(sql.max("newest").alias("reached"))
    there = blocks.join(newest, ["author", "log"]).selectExpr(
        *_BLOCK_KEY, "newest", "bits", "bits IS NULL AND (ends OR newest = reached) AS complete"
    )
    lacked = (
        pieces.where(f"form = {PIECE}")
        .join(there, _BLOCK_KEY, "left")
        .where("complete IS NULL OR NOT complete")
        .select(*WANTING.names)
        .mapInArrow(mapped(WANTING, lacking, GAPS), GAPS.ddl)
    )
    gaps = pieces.where(f"form = {GAP}").withColumnRenamed("wants", "reason").select(*GAPS.names)
    joined = (
        lacked.union(gaps)
        .repartition("requester", "author", "log")
        .sortWithinPartitions("requester", "author", "log", "reason", "first")
        .mapInArrow(mapped(GAPS, merged, GAPS), GAPS.ddl)
    )
    first, last = (unsigned(sql.col(name)) for name in ("first", "last"))
    return joined.select(
        "requester",
        "author",
        unsigned(sql.col("log")).alias("log_id"),
        first.alias("first"),
        last.alias("last"),
        (last - first + sql.lit(1)).cast(UNSIGNED).alias("entries"),
        sql.expr(f"element_at(array({_REASONS}), reason + 1)").alias("reason"),
    )
