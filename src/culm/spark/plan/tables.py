"""The tables of a plan, and the numbers of its summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from culm.spark.columns import UNSIGNED, unsigned
from culm.spark.plan.rows import HAVE, SIZES, WANT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.plan.balance import Balance, PeerTerms

BYTES = "DECIMAL(38,0)"
"""The SQL type of sums of bytes: a log may have 2^64 entries, so 64 bits are not enough."""

TABLES = {
    "transfers": f"requester STRING, source STRING, author BINARY, log_id {UNSIGNED}, round INT, range BINARY,"
    f" entries {UNSIGNED}, bytes {BYTES}",
    "unserved": f"requester STRING, author BINARY, log_id {UNSIGNED}, range BINARY, entries {UNSIGNED}, reason STRING",
    "loads": f"peer STRING, gives {BYTES}, gets {BYTES}, capacity {BYTES}, load DOUBLE, cost DOUBLE",
    "rejects": "given STRING, peer STRING, author STRING, log_id STRING, ranges STRING, reason STRING",
}
"""The tables of a plan and their columns, in SQL."""

_OVERLOADED = "CASE WHEN gives > capacity THEN 1 ELSE 0 END"


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """A plan in numbers. Bytes are those of entries and payloads, without the messages around them.

    ``bytes`` are moved. ``bytes_bound`` have to be moved by any plan, since requesters lack them and others have them.
    ``load`` is the most that any peer gives, as a ratio to its capacity, or in bytes where no capacities are given. No
    plan has a smaller load than ``load_bound``: with 1 round, no other plan of 1 round; with 2, no plan of any number.
    ``cost`` is the cost of all bytes. No plan whose ratios are all up to ``load_limit`` costs less than ``cost_bound``.
    ``overloaded`` counts the peers that give more than their capacity. ``classes``: see ``culm.spark.plan.balance``.
    """

    peers: int
    transfers: int
    unserved: int
    rejects: int
    bytes: int
    bytes_bound: int
    load: float
    load_bound: float
    load_limit: float
    cost: float
    cost_bound: float
    overloaded: int
    classes: int

    def as_dict(self) -> dict[str, int | float]:
        """The numbers by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as tables.

    ``transfers``: ``requester``, ``source``, ``author``, ``log_id``, ``round`` (1; 2: once round 1 is over), ``range``
    (BINARY: one range's encoding, of just these items), ``entries``, ``bytes``.
    ``unserved``: ``requester``, ``author``, ``log_id``, ``range``, ``entries``, ``reason``.
    ``loads``: ``peer``, ``gives`` and ``gets`` in bytes, ``capacity``, ``load`` (``gives`` by ``capacity``; null where
    there is none), ``cost``.
    ``rejects``: ``given`` (the table), ``peer``, ``author``, ``log_id``, ``ranges`` as text, ``reason``.
    """

    transfers: DataFrame
    unserved: DataFrame
    loads: DataFrame
    rejects: DataFrame
    balance: Balance
    bytes_bound: int
    has_capacities: bool
    classes: int

    def summary(self) -> PlanSummary:
        """The plan in numbers. Runs the Spark jobs of all four tables, unless the tables were written before."""
        from pyspark.sql import functions as sql

        transfers, moved = self.transfers.agg(sql.count("*"), sql.sum("bytes")).collect()[0]
        of_loads = (sql.count("*"), sql.max("load"), sql.max("gives"), sql.sum("cost"), sql.sum(sql.expr(_OVERLOADED)))
        peers, load, gives, cost, overloaded = self.loads.agg(*of_loads).collect()[0]
        return PlanSummary(
            peers=peers,
            transfers=transfers,
            unserved=self.unserved.count(),
            rejects=self.rejects.count(),
            bytes=int(moved or 0),
            bytes_bound=self.bytes_bound,
            load=float((load if self.has_capacities else gives) or 0),
            load_bound=float(self.balance.load_bound),
            load_limit=self.balance.limit,
            cost=float(cost or 0),
            cost_bound=self.balance.cost_bound,
            overloaded=int(overloaded or 0),
            classes=self.classes,
        )


def transfers(split: DataFrame) -> DataFrame:
    """The table ``transfers``, from ``culm.spark.plan.rows.SPLIT``."""
    from pyspark.sql import functions as sql

    entries = unsigned(sql.col("entries"))
    return split.where("source IS NOT NULL").select(
        "requester",
        "source",
        "author",
        unsigned(sql.col("log")).alias("log_id"),
        sql.col("round").cast("int").alias("round"),
        "range",
        entries.alias("entries"),
        (entries * sql.col("unit").cast("DECIMAL(18,0)")).cast(BYTES).alias("bytes"),
    )


def unserved(split: DataFrame) -> DataFrame:
    """The table ``unserved``, from ``culm.spark.plan.rows.SPLIT``."""
    from pyspark.sql import functions as sql

    return split.where("source IS NULL").select(
        "requester",
        "author",
        unsigned(sql.col("log")).alias("log_id"),
        "range",
        unsigned(sql.col("entries")).alias("entries"),
        "reason",
    )


def rejects(rows: DataFrame) -> DataFrame:
    """The table ``rejects``, from ``culm.spark.plan.rows.CHECKED``."""
    kinds = ", ".join(f"'{name}'" for name in (SIZES, HAVE, WANT))
    return rows.where("reason IS NOT NULL").selectExpr(
        f"element_at(array({kinds}), kind + 1) AS given",
        "peer",
        "author_text AS author",
        "log_text AS log_id",
        "ranges_text AS ranges",
        "reason",
    )


def loads(
    spark: SparkSession,
    transfers: DataFrame,
    grouped: DataFrame,
    terms: Mapping[str, PeerTerms] | None,
    default: int | None,
    *,
    has_capacities: bool,
) -> DataFrame:
    """The table ``loads``, with a row for each peer that any input names, also if it neither gives nor gets."""
    known = [(name, str(term.capacity), term.cost) for name, term in (terms or {}).items()]
    table = spark.createDataFrame(known, "peer STRING, peer_capacity STRING, byte_cost DOUBLE")
    nothing = f"CAST(0 AS {BYTES})"
    moved = (
        transfers.selectExpr("source AS peer", "bytes AS given", f"{nothing} AS got")
        .union(transfers.selectExpr("requester AS peer", f"{nothing} AS given", "bytes AS got"))
        .union(grouped.where("peer IS NOT NULL").selectExpr("peer", f"{nothing} AS given", f"{nothing} AS got"))
        .union(table.selectExpr("peer", f"{nothing} AS given", f"{nothing} AS got"))
        .groupBy("peer")
        .agg({"given": "sum", "got": "sum"})
    )
    capacity = (
        f"CAST(coalesce(peer_capacity, '{default or 0}') AS {BYTES})" if has_capacities else f"CAST(NULL AS {BYTES})"
    )
    given = "CAST(gives AS DOUBLE)"
    return (
        moved.join(table, "peer", "left")
        .selectExpr("peer", "`sum(given)` AS gives", "`sum(got)` AS gets", f"{capacity} AS capacity", "byte_cost")
        .selectExpr(
            "peer",
            "gives",
            "gets",
            "capacity",
            f"CASE WHEN capacity > 0 THEN {given} / CAST(capacity AS DOUBLE) END AS load",
            f"{given} * coalesce(byte_cost, 0) AS cost",
        )
    )
