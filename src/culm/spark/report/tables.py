"""The aggregates of a report, in Spark SQL: from the verdicts to tables of logs and to counts that stay small.

Which numbers of a log are held, and which are missing, is a question about neighbours. A window over each log would
answer it, but would bring all rows of a log to one task. So the numbers of a log are cut into blocks of 2^16, and the
window goes over each block. A block leaves *runs*: stretches of neighbouring numbers that have the same verdict. A log
without gaps has one run for every 65,536 entries, so everything that needs the order of a whole log starts from runs.

A number that several entries have (a fork) counts once, with the best of their verdicts. Entries with a bad signature
are left out of runs, because anybody can make them, with any number. Sequence numbers are signed longs, 2^63 lower
(``culm.spark.columns``), and here less one as well, so that blocks begin at entry 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.spark.columns import UNSIGNED, Columns, unsigned
from culm.spark.payload import HELD, STATES
from culm.spark.report.numbers import LOGS, SUM
from culm.spark.report.strips import Counted
from culm.spark.verdicts import BAD_SIGNATURE, VERDICTS, VERIFIED
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from culm.spark.report.strips import Piece
    from culm.types import Log

# Low bits of a sequence number that count within its block of 2^16 numbers. A smaller block leaves more runs of a log
# without gaps; a larger one takes more memory of the task that sorts it.
BLOCK_BITS = 16

RUNS = Columns(author="BINARY", log="BIGINT", block="BIGINT", low="BIGINT", high="BIGINT", state="INT")
"""A run: the numbers ``low`` to ``high``, both less one and 2^63 lower; ``state`` is a position in ``VERDICTS``."""

_NO_ENTRY = "a row is not an entry: its seqnum must be 1 to 2^64 - 1"
_LOG = "CAST(log_id - 9223372036854775808 AS BIGINT) AS log"
_AT = (
    "CASE WHEN seqnum BETWEEN 1 AND 18446744073709551615 THEN CAST(seqnum - 9223372036854775809 AS BIGINT)"
    f" ELSE CAST(raise_error('{_NO_ENTRY}') AS BIGINT) END AS at"
)
_STATE = f"CAST(array_position(array({', '.join(map(repr, VERDICTS))}), verdict) - 1 AS INT) AS state"
_FORKED_AT = rf"try_cast(regexp_extract(reason, r'^fork at ([0-9]+)$', 1) AS {UNSIGNED})"


# -- which numbers are held ---------------------------------------------------------------------------------------


def runs(verdicts: DataFrame) -> DataFrame:
    """The runs of each block (``RUNS``)."""
    from pyspark.sql import Window, functions

    numbers = (
        verdicts.where(f"reason IS NULL OR reason <> '{BAD_SIGNATURE}'")
        .selectExpr("author", _LOG, _AT, _STATE)
        .withColumn("block", functions.expr(f"shiftright(at, {BLOCK_BITS})"))
        .repartition("author", "log", "block")
    )
    ascending = Window.partitionBy("author", "log", "block").orderBy("at", "state")
    once = numbers.withColumn("before", functions.lag("at").over(ascending)).where("before IS NULL OR before <> at")
    begins = functions.expr("IF(before = at - 1 AND state_before = state, 0, 1)")
    numbered = once.withColumn("state_before", functions.lag("state").over(ascending)).withColumn(
        "run", functions.sum(begins).over(ascending.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    found = numbered.groupBy("author", "log", "block", "run").agg(
        functions.min("at").alias("low"), functions.max("at").alias("high"), functions.min("state").alias("state")
    )
    return found.select(*RUNS.names)


def _contiguous(runs: DataFrame, entries: int) -> DataFrame:
    """For each log whose entry 1 is verified, the number up to which all entries are held and verified.

    Only verified runs that begin a block matter, and only while all blocks before are full. Blocks that ``entries``,
    the number of all entries, could not fill cannot be reached, so they are left out before the window over a log.
    """
    from pyspark.sql import Window, functions

    size = 2**BLOCK_BITS
    below = 2 ** (63 - BLOCK_BITS)  # the block of entry 1 is this much below 0
    leads = runs.where(f"state = 0 AND (low & {size - 1}) = 0").selectExpr(
        "author", "log", f"block + {below} AS block", "high - low + 1 AS length"
    )
    before = Window.partitionBy("author", "log").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    full = functions.expr(f"IF(length = {size}, 1L, 0L)")
    return (
        leads.where(functions.col("block") <= entries // size)
        .withColumn("full_before", functions.coalesce(functions.sum(full).over(before), functions.lit(0)))
        .where("full_before = block")
        .groupBy("author", "log")
        .agg(functions.expr(f"CAST(max(block * {size} + length) AS {UNSIGNED}) AS contiguous"))
    )


# -- logs and authors ---------------------------------------------------------------------------------------------


def logs(verdicts: DataFrame, runs: DataFrame, forks: DataFrame | None, entries: int) -> DataFrame:
    """The table of logs (``LOGS``). ``forks``: the table of proofs, or None; ``entries``: how many verdicts there are.

    Several tables know something of a log. They are put below each other and summed by log, so that a single shuffle is
    enough where joins would need one each.
    """
    from pyspark.sql import functions

    parts = [_entries_of_logs(verdicts), _runs_of_logs(runs), _contiguous(runs, entries)]
    if forks is not None:
        parts.append(forks.selectExpr("author", _LOG, "position AS proved_at"))
    rows, *others = parts
    for part in others:
        rows = rows.unionByName(part, allowMissingColumns=True)
    sums = [name for name, kind in LOGS.types.items() if kind in ("BIGINT", SUM)]
    greatest = functions.expr("max(high)")
    zero = functions.lit(0)
    proved = "min(proved_at)" if forks is not None else "NULL"
    found = (
        rows.groupBy("author", "log")
        .agg(
            *(functions.expr(f"coalesce(sum({name}), 0) AS {name}") for name in sums),
            functions.coalesce(_number(greatest), zero).alias("newest"),
            functions.expr("coalesce(max(contiguous), 0) AS contiguous"),
            functions.expr(f"coalesce({proved}, min(forked_at)) AS forked_at"),
        )
        .where("entries > 0")
    )
    made = {"log_id": unsigned(functions.col("log")), "missing": functions.expr("newest - held")}
    return found.select(
        *(made.get(name, functions.col(name)).cast(kind).alias(name) for name, kind in LOGS.types.items())
    )


def _entries_of_logs(verdicts: DataFrame) -> DataFrame:
    """A row for each entry, with what it adds to the sums of its log."""
    return verdicts.selectExpr(
        "author",
        _LOG,
        "1L AS entries",
        *(f"IF(verdict = '{verdict}', 1L, 0L) AS {verdict}" for verdict in VERDICTS),
        f"IF(reason = '{BAD_SIGNATURE}', 1L, 0L) AS bad_signatures",
        *(f"IF(payload = '{state}', 1L, 0L) AS payload_{state}" for state in STATES),
        "size AS claimed_bytes",
        f"IF(payload = '{HELD}', size, 0) AS held_bytes",
        "copies",
        f"IF(reason LIKE 'fork at %', {_FORKED_AT}, NULL) AS forked_at",
    )


def _runs_of_logs(runs: DataFrame) -> DataFrame:
    """A row for each run, with what it adds to the sums of its log."""
    return runs.selectExpr(
        "author", "log", "high", "high - low + 1 AS held", "IF(state = 0, high - low + 1, 0) AS held_verified"
    )


def authors(logs: DataFrame) -> DataFrame:
    """The table of authors (``AUTHORS``), from that of logs."""
    from pyspark.sql import functions

    sums = ["entries", *VERDICTS]
    return logs.groupBy("author").agg(
        functions.expr("count(*) AS logs"),
        *(functions.expr(f"sum({name}) AS {name}") for name in sums),
        functions.expr("count(forked_at) AS forked_logs"),
        functions.expr(f"CAST(sum(missing) AS {SUM}) AS missing"),
    )


def kinds_of_logs(logs: DataFrame) -> DataFrame:
    """Logs by ``percent`` and by the digits of how many entries they have and of their newest number.

    ``percent`` is the share of the numbers that is held and verified, in tens; null if the log has no number. There
    are at most 12 * 20 * 21 rows, whatever the inputs.
    """
    from pyspark.sql import functions

    percent = (
        "CASE WHEN newest = 0 THEN NULL WHEN held_verified = newest THEN 100"
        " ELSE CAST(held_verified * 10 div newest AS INT) * 10 END AS percent"
    )
    kinds = logs.selectExpr(
        percent,
        "length(CAST(entries AS STRING)) AS entry_digits",
        "IF(newest = 0, 0, length(CAST(newest AS STRING))) AS newest_digits",
        "missing",
        "forked_at",
    )
    return kinds.groupBy("percent", "entry_digits", "newest_digits").agg(
        functions.expr("count(*) AS logs"),
        functions.expr("sum(missing) AS missing"),
        functions.expr("count(forked_at) AS forked"),
    )


TROUBLES = "unverified + invalid + payload_mismatch + payload_size_mismatch"
"""SQL: how many entries of a log are not verified or have a wrong payload; the measure of trouble."""


def most_troubled(logs: DataFrame, most: int) -> DataFrame:
    """The logs with most trouble, at most ``most``; forked ones before all others."""
    troubled = logs.where(f"forked_at IS NOT NULL OR {TROUBLES} > 0")
    return troubled.orderBy(_expr("forked_at IS NULL"), _expr(TROUBLES).desc(), "author", "log_id").limit(most)


def largest(logs: DataFrame, most: int) -> DataFrame:
    """The logs with most entries, at most ``most``."""
    return logs.orderBy(_expr("entries").desc(), "author", "log_id").limit(most)


# -- entries ------------------------------------------------------------------------------------------------------


def kinds_of_entries(verdicts: DataFrame) -> DataFrame:
    """Entries and bytes by verdict, payload state, and the sequence number's digits and first digit."""
    from pyspark.sql import functions

    kinds = verdicts.selectExpr("verdict", "payload", "size", "CAST(seqnum AS STRING) AS text").selectExpr(
        "verdict", "payload", "size", *_magnitude("text")
    )
    return kinds.groupBy("verdict", "payload", "digits", "digit").agg(
        functions.expr("count(*) AS entries"), functions.expr("sum(size) AS bytes")
    )


def copies(verdicts: DataFrame) -> DataFrame:
    """Entries by how often they were found: that count's digits and first digit."""
    kinds = verdicts.selectExpr("CAST(copies AS STRING) AS text").selectExpr(*_magnitude("text"))
    return kinds.groupBy("digits", "digit").count()


def _magnitude(text: str) -> tuple[str, str]:
    return f"length({text}) AS digits", f"CAST(left({text}, 1) AS INT) AS digit"


def reasons(verdicts: DataFrame) -> DataFrame:
    """Entries that are not verified, by verdict and the words of the reason (``fork`` of ``fork at 7``)."""
    named = "regexp_replace(split_part(coalesce(reason, 'no reason given'), ':', 1), r' at [0-9]+$', '')"
    kinds = verdicts.where(f"verdict <> '{VERIFIED}'").selectExpr("verdict", f"left({named}, 80) AS reason")
    counted = kinds.groupBy("verdict", "reason").count().withColumnRenamed("count", "entries")
    return counted.orderBy(_expr("entries").desc(), "verdict", "reason")


# -- forks and rejects --------------------------------------------------------------------------------------------


def forked(logs: DataFrame) -> DataFrame:
    """The forks that the table of logs knows from reasons, without proofs, with the columns of ``ForkNumbers``."""
    return logs.where("forked_at IS NOT NULL").selectExpr(
        "author",
        "log_id",
        "forked_at AS position",
        "CAST(NULL AS STRING) AS case",
        f"CAST(NULL AS {UNSIGNED}) AS first_seq",
        f"CAST(NULL AS {UNSIGNED}) AS second_seq",
        "CAST(NULL AS BINARY) AS proof",
        "contiguous AS valid_to",
    )


def rejected(rejects: DataFrame) -> DataFrame:
    """Rejects by source and by reason without its numbers (``REJECTED``)."""
    from pyspark.sql import functions

    named = r"regexp_replace(reason, r'\b(0x[0-9a-f]+|[0-9a-f]*[0-9][0-9a-f]*)\b', '#') AS reason"
    return (
        rejects.selectExpr("source", "offset", named)
        .groupBy("source", "reason")
        .agg(functions.expr("count(*) AS rejects"), functions.expr("min(offset) AS first_offset"))
    )


def _expr(text: str) -> Column:
    from pyspark.sql import functions

    return functions.expr(text)


def _number(column: Column) -> Column:
    """The sequence number of a signed long that has it less one."""
    from pyspark.sql import functions

    return (unsigned(column) + functions.lit(1)).cast(UNSIGNED)


# -- strips -------------------------------------------------------------------------------------------------------


def counter(
    spark: SparkSession, runs: DataFrame
) -> Callable[[Mapping[Log, Sequence[Piece]]], dict[Log, list[Counted]]]:
    """The function by which ``culm.spark.report.strips.strips`` counts cells on Spark, from the table of ``runs``."""

    def count(wanted: Mapping[Log, Sequence[Piece]]) -> dict[Log, list[Counted]]:
        found: dict[Log, list[Counted]] = {}
        for row in _counted(runs, spark.createDataFrame(_table(wanted))).collect():
            log = bytes(row.author), from_sql(row.log)
            first = wanted[log][row.piece].first
            cell = (row.piece, row.cell, row.verified, row.unverified, row.invalid)
            found.setdefault(log, []).append(Counted(*cell, first + int(row.low), first + int(row.high)))
        return found

    return count


def _table(wanted: Mapping[Log, Sequence[Piece]]) -> pa.Table:
    """The pieces as a table, with logs and numbers as ``RUNS`` has them."""
    import pyarrow as pa

    rows = [
        (author, to_sql(log_id), at, to_sql(piece.first - 1), to_sql(piece.last - 1), piece.width)
        for (author, log_id), pieces in wanted.items()
        for at, piece in enumerate(pieces)
    ]
    kinds = {
        "of": pa.binary(),
        "id": pa.int64(),
        "piece": pa.int32(),
        "begin": pa.int64(),
        "end": pa.int64(),
        "width": pa.decimal128(20, 0),
    }
    columns = zip(*rows, strict=True)
    return pa.table({name: pa.array(column, kinds[name]) for name, column in zip(kinds, columns, strict=True)})


def _counted(runs: DataFrame, pieces: DataFrame) -> DataFrame:
    """The cells that are not empty; ``low`` and ``high`` count from the piece's first number, 0.

    Runs are clipped to pieces, then to cells. They are short, so that few of them reach into many cells.
    """
    from pyspark.sql import functions

    reached = functions.expr("author = of AND log = id AND low <= end AND high >= begin")
    offset = "CAST({} AS " + UNSIGNED + ") - begin"
    inside = runs.join(functions.broadcast(pieces), reached).selectExpr(
        *("author", "log", "piece", "width", "state"),
        offset.format("greatest(low, begin)") + " AS low",
        offset.format("least(high, end)") + " AS high",
    )
    reach = "explode(sequence(CAST(low div width AS INT), CAST(high div width AS INT))) AS cell"
    clipped = inside.selectExpr("*", reach).selectExpr(
        *("author", "log", "piece", "cell", "state"),
        "greatest(low, cell * width) AS low",
        "least(high, (cell + 1) * width - 1) AS high",
    )
    numbers = "sum(IF(state = {}, CAST(high - low + 1 AS BIGINT), 0L)) AS {}"
    return clipped.groupBy("author", "log", "piece", "cell").agg(
        *(functions.expr(numbers.format(state, name)) for state, name in enumerate(VERDICTS)),
        functions.expr("min(low) AS low"),
        functions.expr("max(high) AS high"),
    )
