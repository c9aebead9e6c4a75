"""Who fetches what from whom, so that everyone is served with few bytes and no peer gives too much.

::

    from culm.spark.plan import plan

    result = plan(session, have, want)
    result.transfers.show()
    print(result.summary())

Four steps. Tables that say who has and who wants which ranges are read and checked, and all rows of a log brought
together. Each log is swept to see who lacks what and who has it (``culm.spark.plan_sweep``), and the bytes are counted
by the sets of peers that have them. These classes are shared out on the driver (``culm.spark.plan_balance``), which
also gives the lower bound. A second pass over the logs cuts the shares into transfers (``culm.spark.plan_split``).

The plan is the same for the same rows, however they are distributed and ordered.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from culm.errors import ConfigError
from culm.spark.columns import UNSIGNED, unsigned
from culm.spark.plan_balance import Class, PeerTerms, balance
from culm.spark.plan_rows import CHECKED, COUNTED, GIVEN, GROUPED, HAVE, SIZES, SPLIT, WANT, Pass, check, read_counted
from culm.spark.plan_split import arcs_by_bucket
from culm.spark.steps import mapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from culm.spark.plan_balance import Balance

BYTES = "DECIMAL(38,0)"
"""The SQL type of sums of bytes: logs may have 2^64 entries."""

METADATA_BYTES, PAYLOAD_BYTES = 300, 1000
"""What is reckoned for an entry of a log without sizes."""

TABLES = {
    "transfers": f"requester STRING, source STRING, author BINARY, log_id {UNSIGNED}, round INT, range BINARY,"
    f" entries {UNSIGNED}, bytes {BYTES}",
    "unserved": f"requester STRING, author BINARY, log_id {UNSIGNED}, range BINARY, entries {UNSIGNED}, reason STRING",
    "loads": f"peer STRING, gives {BYTES}, gets {BYTES}, capacity {BYTES}, load DOUBLE, cost DOUBLE",
    "rejects": "given STRING, peer STRING, author STRING, log_id STRING, ranges STRING, reason STRING",
}
"""The tables of a plan and their columns, in SQL."""

BUCKETS = 64
"""Into how many parts the logs are divided, and so how many tasks can work at once."""

_COLUMNS = {
    HAVE: ("peer", "author", "log_id", "ranges"),
    WANT: ("peer", "author", "log_id", "ranges"),
    SIZES: ("author", "log_id", "metadata_bytes", "payload_bytes"),
}
_TEXT_OR_BYTES = ("author", "ranges")


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """A plan in numbers. Bytes are of entries and payloads; what protocols say around them is not counted.

    ``bytes``: that are moved. ``bytes_bound``: that must be, since requesters lack them and somebody else has them.
    ``load``: the most that any peer gives, as a ratio to its capacity; where no capacities are given, in bytes.
    ``load_bound``: no plan has a smaller one: of the same number of rounds if that is 1, of any number if it is 2.
    ``cost`` and ``cost_bound``: of all bytes; the bound is for plans that load nobody beyond ``load_limit``.
    ``overloaded``: peers that give more than their capacity.
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
        """The plan in numbers; runs it if that was not done yet."""
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


_OVERLOADED = "CASE WHEN gives > capacity THEN 1 ELSE 0 END"


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
    and log add up. ``sizes``: ``author``, ``log_id``, ``metadata_bytes``, ``payload_bytes``, means for an entry of the
    log (the largest row counts); logs without are reckoned with ``metadata_bytes`` and ``payload_bytes``. ``peers``:
    ``peer``, ``capacity`` (bytes it may upload), and if wanted ``cost`` (of a byte). A peer that it leaves out has
    ``capacity``, or uploads nothing if that is None; without ``peers`` all have the same. ``rounds``: 1, everything
    comes from who has it now; 2, whoever got something in the first round may pass it on in the second, which is as
    good as any number of rounds.

    Two Spark jobs run at once, the rest when the tables are used. Rows that cannot be read are in ``rejects``.
    ``ConfigError`` for columns that are missing or of a wrong type, and for peers without a sensible capacity.
    """
    from pyspark.sql import DataFrame

    if rounds < 1:
        raise ConfigError("a plan has at least one round")
    terms = None if peers is None else _read_terms(peers)
    given = [_given(have, HAVE), _given(want, WANT)] + ([] if sizes is None else [_given(sizes, SIZES)])
    tables = reduce(DataFrame.unionByName, given)
    checked = tables.mapInArrow(mapped(GIVEN, check, CHECKED), CHECKED.ddl)
    rows = _grouped(checked, buckets)
    grouped = rows.where("reason IS NULL").select(*GROUPED.names)
    default = capacity if capacity is not None or terms is not None else 1
    serving = None if default else {name for name, term in (terms or {}).items() if term.capacity}
    settings = (min(rounds, 2), serving, (metadata_bytes, payload_bytes))
    counted = read_counted(
        tuple(row) for row in grouped.mapInArrow(mapped(GROUPED, Pass(*settings).count, COUNTED), COUNTED.ddl).collect()
    )
    has_capacities = capacity is not None or peers is not None
    shared = _share(counted, terms or {}, default, limit=1.0 if has_capacities else None)
    arcs = arcs_by_bucket(counted, shared.shares)
    second = Pass(*settings, arcs)
    split = _kept(grouped.mapInArrow(mapped(GROUPED, second.split, SPLIT), SPLIT.ddl))
    transfers = _transfers(split)
    return Plan(
        transfers=transfers,
        unserved=_unserved(split),
        loads=_loads(spark, transfers, grouped, terms, default, has_capacities=has_capacities),
        rejects=_rejects(rows),
        balance=shared.balance,
        bytes_bound=sum(amount for _, _, amount in counted),
        has_capacities=has_capacities,
        classes=len(shared.shares),
    )


# -- what is given --------------------------------------------------------------------------------------------------


def _given(table: DataFrame, name: str) -> DataFrame:
    """A table's rows as ``GIVEN``; ``ConfigError`` if it is not such a table."""
    from pyspark.sql import functions as sql

    types = dict(table.dtypes)
    columns: dict[str, Column] = {"given": sql.lit(name)}
    for column in _COLUMNS[name]:
        kind = types.get(column)
        if kind is None:
            raise ConfigError(f"the table {name!r} has no column {column!r}")
        _check_type(name, column, kind)
        as_text = column in _TEXT_OR_BYTES and kind == "string"
        value = sql.col(column) if kind == "binary" else sql.col(column).cast("string")
        columns[f"{column}_text" if as_text else column] = value
    return table.select(
        [columns.get(column, sql.lit(None)).cast(kind.lower()).alias(column) for column, kind in GIVEN.types.items()]
    )


def _check_type(table: str, column: str, kind: str) -> None:
    is_number = kind in ("tinyint", "smallint", "int", "bigint") or kind.startswith("decimal")
    fits = {
        "peer": kind == "string",
        "author": kind in ("binary", "string"),
        "ranges": kind in ("binary", "string"),
        "log_id": kind == "string" or is_number,
        "metadata_bytes": kind == "string" or is_number,
        "payload_bytes": kind == "string" or is_number,
    }
    if not fits[column]:
        raise ConfigError(f"the column {column!r} of the table {table!r} cannot be of the type {kind.upper()}")


def _read_terms(peers: DataFrame) -> dict[str, PeerTerms]:
    """Capacity and cost of each peer in the table; ``ConfigError`` for a row that makes no sense."""
    missing = {"peer", "capacity"} - set(peers.columns)
    if missing:
        raise ConfigError(f"the table 'peers' has no column {min(missing)!r}")
    columns = ["peer", "capacity", *(["cost"] if "cost" in peers.columns else [])]
    terms: dict[str, PeerTerms] = {}
    for peer, capacity, *cost in (tuple(row) for row in peers.select(columns).collect()):
        if peer in terms:
            raise ConfigError(f"the table 'peers' has {peer!r} twice")
        terms[peer] = PeerTerms(_capacity(peer, capacity), _cost(peer, cost[0]) if cost else 0.0)
    return terms


def _capacity(peer: object, value: object) -> int:
    try:
        capacity = int(str(value))
    except ValueError:
        capacity = -1
    if not isinstance(peer, str) or not 0 <= capacity < 10**30:
        raise ConfigError(f"the table 'peers': {peer!r} has the capacity {value!r}; expected a whole number of bytes")
    return capacity


def _cost(peer: str, value: object) -> float:
    try:
        cost = float(str(value))
    except ValueError:
        cost = -1.0
    if not 0 <= cost < 1e30:
        raise ConfigError(f"the table 'peers': {peer!r} has the cost {value!r}; expected a number, 0 or more")
    return cost


def _grouped(checked: DataFrame, buckets: int) -> DataFrame:
    """The rows, all of a bucket in one partition, sorted. Used several times, so kept on the executors' disks."""
    from pyspark.sql import functions as sql

    # Rejects have no log; they are only to be spread.
    place = sql.xxhash64("author", "log", "author_text", "log_text", "ranges_text")
    rows = checked.withColumn("bucket", sql.pmod(place, sql.lit(buckets)))
    order = ("bucket", "author", "log", "kind", "peer", "metadata_bytes", "payload_bytes", "ranges")
    return _kept(rows.repartition(buckets, "bucket").sortWithinPartitions(*order))


def _kept(table: DataFrame) -> DataFrame:
    from pyspark import StorageLevel

    return table.persist(StorageLevel.DISK_ONLY)


# -- sharing out ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shared:
    """The shares of each class by its digest, and how good they are."""

    shares: Mapping[bytes, list[int]]
    balance: Balance


def _share(counted: list[Any], terms: Mapping[str, PeerTerms], default: int | None, *, limit: float | None) -> _Shared:
    """Share out what was counted. ``limit``: as for ``balance``; a cheap peer may use up a capacity that is given."""
    classes: dict[bytes, Class] = {}
    for _, key, amount in counted:
        before = classes.get(key.digest)
        classes[key.digest] = Class(key.members, amount + (before.amount if before else 0), key.is_whole)
    ordered = dict(sorted(classes.items()))
    members = {name for item in ordered.values() for name in item.members}
    others = PeerTerms(default or 1)
    found = balance(list(ordered.values()), {name: terms.get(name, others) for name in members}, limit=limit)
    return _Shared(dict(zip(ordered, found.shares, strict=True)), found)


# -- the tables -----------------------------------------------------------------------------------------------------


def _transfers(split: DataFrame) -> DataFrame:
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


def _unserved(split: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sql

    return split.where("source IS NULL").select(
        "requester",
        "author",
        unsigned(sql.col("log")).alias("log_id"),
        "range",
        unsigned(sql.col("entries")).alias("entries"),
        "reason",
    )


def _rejects(rows: DataFrame) -> DataFrame:
    kinds = ", ".join(f"'{name}'" for name in (SIZES, HAVE, WANT))
    return rows.where("reason IS NOT NULL").selectExpr(
        f"element_at(array({kinds}), kind + 1) AS given",
        "peer",
        "author_text AS author",
        "log_text AS log_id",
        "ranges_text AS ranges",
        "reason",
    )


def _loads(
    spark: SparkSession,
    transfers: DataFrame,
    grouped: DataFrame,
    terms: Mapping[str, PeerTerms] | None,
    default: int | None,
    *,
    has_capacities: bool,
) -> DataFrame:
    """What each peer that is named anywhere gives and gets."""
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
