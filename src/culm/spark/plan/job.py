"""A whole plan, from paths to a folder of results: what ``culm spark plan`` runs.

::

    OUTPUT/transfers/      Parquet: who fetches what from whom (columns: ``culm.spark.plan.Plan``)
    OUTPUT/unserved/       Parquet: what is wanted and nobody can give
    OUTPUT/loads/          Parquet: what each peer gives and gets
    OUTPUT/rejects/        Parquet: rows that could not be read, and why
    OUTPUT/summary.json    the numbers of ``culm.spark.plan.PlanSummary``

Inputs are folders of Parquet files, or files of comma-separated values (with a first line of names) or JSON lines; the
end of a file's name tells which. As text, authors are base62 or hex, and ranges are written as for ``culm ranges``,
with ``;`` between several.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, functions

from culm.errors import ConfigError
from culm.spark.plan.balance import Balance, Class, PeerTerms, balance
from culm.spark.plan.given import HAVE, SIZES, WANT, Given, given, read_rows, read_terms
from culm.spark.plan.rows import Checked, Counted, Refused, Transfer, Unserved, check, count, split
from culm.spark.plan.split import Key, Line, Splitter, arcs_by_bucket
from culm.spark.runtime.columns import Row, Sum, rows
from culm.spark.runtime.onspark import OnSpark, SparkTable, fitted, frame_of
from culm.spark.runtime.shell import Result, job, local_input


class Load(NamedTuple):
    """The bytes that a peer gives and gets. ``load`` is ``gives`` by ``capacity``, null where there is none."""

    peer: str
    gives: Sum
    gets: Sum
    capacity: Sum | None
    load: float | None
    cost: float


TABLES: dict[str, type[Row]] = {"transfers": Transfer, "unserved": Unserved, "loads": Load, "rejects": Refused}
"""The tables of a plan."""

METADATA_BYTES, PAYLOAD_BYTES = 300, 1000
"""Bytes counted for an entry of a log without sizes: about what an entry has, and a short message as payload."""

BUCKETS = 64
"""Parts that the logs are divided into; each is one task in both passes.

With fewer, some cores may have no work. With more, the driver gets more rows, since each bucket counts its classes.
"""


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


class Plan(NamedTuple):
    """A plan as tables.

    The rows of ``transfers`` are ``Transfer``, of ``unserved`` ``Unserved``, of ``loads`` ``Load``, of ``rejects``
    ``Refused``.
    """

    transfers: DataFrame
    unserved: DataFrame
    loads: DataFrame
    rejects: DataFrame
    balance: Balance

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
            bytes_bound=sum(map(sum, self.balance.shares)),
            load_bound=float(self.balance.load_bound),
            load_limit=self.balance.limit,
            cost_bound=self.balance.cost_bound,
            classes=len(self.balance.shares),
        )


def run_plan(
    have: str,
    want: str,
    output: Path,
    *,
    sizes: str | None = None,
    peers: str | None = None,
    master: str = "local[*]",
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
    **settings: Any,  # noqa: ANN401 - as ``plan`` takes them
) -> PlanSummary:
    """Plan, and write the folder ``output``: all of it or, on failure, none.

    ``settings`` and the tables are those of ``culm.spark.plan.plan``. ``master``, ``overwrite``, ``progress`` and the
    errors are those of ``verification.job.run``.
    """
    named = {"have": have, "want": want, "sizes": sizes, "peers": peers}
    inputs = {name: place for name, place in named.items() if place is not None}
    with ExitStack() as stack:
        made = job("plan", output, inputs.values(), mode=settings, overwrite=overwrite, progress=progress)
        run = stack.enter_context(made)
        paths = {name: stack.enter_context(local_input(place)) for name, place in inputs.items()}
        spark = stack.enter_context(run.spark(master))
        tables: dict[str, Any] = {name: read_rows(spark, path) for name, path in paths.items()}
        run.say("comparing what is held and what is wanted")
        planned = plan(spark, **tables, **settings)
        run.say("writing the plan")
        engine = OnSpark(spark, run.folder / "work")
        written: dict[str, Any] = {
            name: frame_of(SparkTable(engine, table, getattr(planned, name)).kept(run.folder / name))
            for name, table in TABLES.items()
        }
        return run.done(planned._replace(**written).summary())


def plan(
    spark: SparkSession,
    have: DataFrame,
    want: DataFrame,
    *,
    sizes: DataFrame | None = None,
    peers: DataFrame | None = None,
    capacity: int | None = None,
    rounds: int = 1,
    metadata_bytes: int = METADATA_BYTES,
    payload_bytes: int = PAYLOAD_BYTES,
    buckets: int = BUCKETS,
) -> Plan:
    """Plan who fetches what from whom.

    ``have``, ``want``: ``peer STRING``, ``author`` (BINARY, or STRING of hex or base62), ``log_id`` (any whole number,
    or STRING), ``ranges`` (BINARY: ``RangeSet.encode()``; STRING: text, with ``;`` between ranges). Rows of one peer
    and log add up.

    ``sizes``: ``author``, ``log_id``, ``metadata_bytes``, ``payload_bytes``, means for an entry of the log (of several
    rows the largest counts). Logs without a row count with ``metadata_bytes`` and ``payload_bytes``.

    ``peers``: ``peer``, ``capacity`` (bytes it may upload), and optionally ``cost`` (of a byte). A peer without a row
    has ``capacity``, or uploads nothing if that is None. Without ``peers`` and ``capacity`` all peers count the same.

    ``rounds``: with 1, everything comes from peers that have it now. With 2, a peer may pass on in the second round
    what it got in the first; more rounds would not help (``culm.spark.plan.split``).

    Two Spark jobs run at once, the rest when the tables are used. Rows that cannot be read are in ``rejects``.
    ``ConfigError`` for columns that are missing or of a wrong type, and for peers without a sensible capacity.
    """
    if rounds < 1:
        raise ConfigError(f"{rounds} rounds: a plan has at least one round")
    terms = {} if peers is None else read_terms(peers)
    default = None if capacity is None and peers is None else capacity or 0
    others = PeerTerms(1 if default is None else default)
    read = [given(have, HAVE), given(want, WANT)] + ([] if sizes is None else [given(sizes, SIZES)])
    tables = SparkTable(OnSpark(spark), Given, reduce(DataFrame.unionByName, read))
    checked, refused = tables.keep(partial(check, buckets=buckets), Checked, Refused)
    order = ("author", "log", "given", "peer", "metadata_bytes", "payload_bytes", "ranges")
    grouped = checked.spread(("bucket",), order, buckets).kept()  # in this order, as both passes use it
    means = metadata_bytes, payload_bytes
    splitter = Splitter(min(rounds, 2), lambda peer: terms.get(peer, others).capacity > 0, means)
    by_bucket = grouped.map(partial(count, splitter=splitter), Counted).batches(*Counted._fields)
    counted = sorted(row.read() for row in rows(Counted, by_bucket))
    amounts = Counter[Key]()
    for _, key, amount in counted:
        amounts[key] += amount
    classes = {key: Class(key.members, amount, key.is_whole) for key, amount in sorted(amounts.items())}
    found = balance([*classes.values()], defaultdict(lambda: others, terms), limit=None if default is None else 1.0)
    lines = {key: Line([*zip(key.members, each, strict=True)]) for key, each in zip(classes, found.shares, strict=True)}
    second = partial(split, splitter=splitter, arcs=arcs_by_bucket(counted, lines))
    transfers, unserved = map(frame_of, grouped.keep(second, Transfer, Unserved))
    loads = _loads(transfers, frame_of(grouped.where("peer")), terms, default)
    return Plan(transfers, unserved, loads, frame_of(refused), found)


def _loads(transfers: DataFrame, named: DataFrame, terms: Mapping[str, PeerTerms], default: int | None) -> DataFrame:
    """The table ``loads``, with a row for each peer that any input names, also if it neither gives nor gets.

    ``named``: the peers of ``have`` and ``want``, in a column ``peer``, any number of times. ``default``: the capacity
    of peers without terms; None if there are none.
    """
    rows = [(name, Decimal(term.capacity), term.cost) for name, term in terms.items()]
    known = transfers.sparkSession.createDataFrame(rows, "peer STRING, capacity DECIMAL(38,0), cost DOUBLE")
    moved = transfers.selectExpr("stack(2, source, bytes, NULL, requester, NULL, bytes) AS (peer, gives, gets)")
    moved = moved.unionAll(named.select("peer").unionAll(known.select("peer")).selectExpr("peer", "0", "0"))
    summed = moved.groupBy("peer").agg(functions.sum("gives").alias("gives"), functions.sum("gets").alias("gets"))
    capacity = "NULL" if default is None else f"coalesce(capacity, {default})"
    found = summed.join(functions.broadcast(known), "peer", "left").selectExpr(
        "*", "gives * coalesce(cost, 0) AS costs", f"CAST(gives AS DOUBLE) / nullif({capacity}, 0) AS load"
    )
    return fitted(found.withColumn("capacity", functions.expr(capacity)), Load, cost="costs")
