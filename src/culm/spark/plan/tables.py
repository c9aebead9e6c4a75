"""The tables of a plan, and the numbers of its summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import reduce
from typing import TYPE_CHECKING

from culm.spark.columns import UNSIGNED
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
        load = "load" if self.has_capacities else "gives"
        moved = self.transfers.selectExpr("count(*) AS transfers", "coalesce(sum(bytes), 0) AS bytes").collect()[0]
        loads = self.loads.selectExpr(
            "count(*) AS peers",
            f"CAST(coalesce(max({load}), 0) AS DOUBLE) AS load",
            "coalesce(sum(cost), 0D) AS cost",
            "count_if(gives > capacity) AS overloaded",
        )
        return PlanSummary(
            **loads.collect()[0].asDict(),
            transfers=moved.transfers,
            bytes=int(moved.bytes),
            unserved=self.unserved.count(),
            rejects=self.rejects.count(),
            bytes_bound=self.bytes_bound,
            load_bound=float(self.balance.load_bound),
            load_limit=self.balance.limit,
            cost_bound=self.balance.cost_bound,
            classes=self.classes,
        )


def _unsigned(column: str) -> str:
    """An unsigned number, in SQL, from a column that has it as a signed long (``culm.spark.columns``)."""
    return f"CAST(CAST({column} AS {UNSIGNED}) + {2**63}BD AS {UNSIGNED})"


_PLACE = ("author", f"{_unsigned('log')} AS log_id")
_RANGE = ("range", f"{_unsigned('entries')} AS entries")


def transfers(split: DataFrame) -> DataFrame:
    """The table ``transfers``, from ``culm.spark.plan.rows.SPLIT``."""
    size = f"CAST({_unsigned('entries')} * CAST(unit AS DECIMAL(18,0)) AS {BYTES}) AS bytes"
    columns = ("requester", "source", *_PLACE, "CAST(round AS INT) AS round", *_RANGE, size)
    return split.where("source IS NOT NULL").selectExpr(*columns)


def unserved(split: DataFrame) -> DataFrame:
    """The table ``unserved``, from ``culm.spark.plan.rows.SPLIT``."""
    return split.where("source IS NULL").selectExpr("requester", *_PLACE, *_RANGE, "reason")


def rejects(rows: DataFrame) -> DataFrame:
    """The table ``rejects``, from ``culm.spark.plan.rows.CHECKED``."""
    given = f"element_at(array('{SIZES}', '{HAVE}', '{WANT}'), kind + 1) AS given"
    texts = ("author_text AS author", "log_text AS log_id", "ranges_text AS ranges")
    return rows.where("reason IS NOT NULL").selectExpr(given, "peer", *texts, "reason")


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
    sides = (
        (transfers, "source", "bytes", "0"),
        (transfers, "requester", "0", "bytes"),
        (grouped.where("peer IS NOT NULL"), "peer", "0", "0"),
        (table, "peer", "0", "0"),
    )
    parts = (
        rows.selectExpr(f"{peer} AS peer", f"CAST({gives} AS {BYTES}) AS gives", f"CAST({gets} AS {BYTES}) AS gets")
        for rows, peer, gives, gets in sides
    )
    moved = reduce(lambda one, other: one.union(other), parts).groupBy("peer").sum("gives", "gets")
    capacity = f"coalesce(peer_capacity, '{default or 0}')" if has_capacities else "NULL"
    return (
        moved.toDF("peer", "gives", "gets")
        .join(table, "peer", "left")
        .selectExpr("*", f"CAST({capacity} AS {BYTES}) AS capacity", "CAST(gives AS DOUBLE) AS given")
        .selectExpr(
            "peer",
            "gives",
            "gets",
            "capacity",
            "CASE WHEN capacity > 0 THEN given / CAST(capacity AS DOUBLE) END AS load",
            "given * coalesce(byte_cost, 0) AS cost",
        )
    )
