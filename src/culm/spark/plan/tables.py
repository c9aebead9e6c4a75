"""The tables of a plan, and the numbers of its summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, NamedTuple

from pyspark.sql import DataFrame, functions

from culm.spark.plan.balance import Balance, PeerTerms
from culm.spark.runtime.columns import Row, Sum, Unsigned, types
from culm.spark.runtime.onspark import fitted
from culm.spark.runtime.shell import Result

_Binary = bytes  # A table with a column ``bytes`` cannot call the type by this name.


class Transfer(NamedTuple):
    """Who fetches what from whom. ``round`` is 1, or 2: once round 1 is over. ``range`` encodes just these items."""

    requester: str
    source: str
    author: _Binary
    log_id: Unsigned
    round: Annotated[int, "INT"]
    range: _Binary
    entries: Unsigned
    bytes: Sum


class Unserved(NamedTuple):
    """What is wanted and nobody can give, and why."""

    requester: str
    author: bytes
    log_id: Unsigned
    range: bytes
    entries: Unsigned
    reason: str


class Load(NamedTuple):
    """The bytes that a peer gives and gets. ``load`` is ``gives`` by ``capacity``, null where there is none."""

    peer: str
    gives: Sum
    gets: Sum
    capacity: Sum | None
    load: float | None
    cost: float


class Refused(NamedTuple):
    """A row of the table ``given`` that could not be read, as text, and why."""

    given: str
    peer: str | None
    author: str | None
    log_id: str | None
    ranges: str | None
    reason: str


TABLES: dict[str, type[Row]] = {"transfers": Transfer, "unserved": Unserved, "loads": Load, "rejects": Refused}
"""The tables of a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary(Result):
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


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as tables.

    The rows of ``transfers`` are ``Transfer``, of ``unserved`` ``Unserved``, of ``loads`` ``Load``, of ``rejects``
    ``Refused``.
    """

    transfers: DataFrame
    unserved: DataFrame
    loads: DataFrame
    rejects: DataFrame
    balance: Balance
    bytes_bound: int
    classes: int

    def summary(self) -> PlanSummary:
        """The plan in numbers. Runs the Spark jobs of all four tables, unless the tables were written before."""
        moved = self.transfers.selectExpr("count(*) AS transfers", "coalesce(sum(bytes), 0) AS bytes").collect()[0]
        loads = self.loads.selectExpr(
            "count(*) AS peers",
            "coalesce(max(coalesce(load, gives)), 0D) AS load",  # without capacities it is in bytes
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


def loads(transfers: DataFrame, named: DataFrame, terms: Mapping[str, PeerTerms], default: int | None) -> DataFrame:
    """The table ``loads``, with a row for each peer that any input names, also if it neither gives nor gets.

    ``named``: the peers of ``have`` and ``want``, in a column ``peer``, any number of times. ``default``: the capacity
    of peers without terms; None if there are none.
    """
    rows = [(name, Decimal(term.capacity), term.cost) for name, term in terms.items()]
    known = transfers.sparkSession.createDataFrame(rows, "peer STRING, capacity DECIMAL(38,0), cost DOUBLE")
    moved = (
        transfers.selectExpr("source AS peer", "bytes AS gives", "0 AS gets")
        .unionAll(transfers.selectExpr("requester", "0", "bytes"))
        .unionAll(named.unionAll(known.select("peer")).selectExpr("peer", "0", "0"))
    )
    summed = moved.groupBy("peer").agg(functions.sum("gives").alias("gives"), functions.sum("gets").alias("gets"))
    capacity = "NULL" if default is None else f"coalesce(capacity, {default})"
    found = summed.join(functions.broadcast(known), "peer", "left").selectExpr(
        "*", "gives * coalesce(cost, 0) AS costs", f"CAST(gives AS DOUBLE) / nullif({capacity}, 0) AS load"
    )
    return fitted(found.withColumn("capacity", functions.expr(capacity)), types(Load), cost="costs")
