"""The steps of a plan, from tables to tables: check, bring together by log, count, share out, split."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from culm.errors import ConfigError
from culm.spark.plan.balance import Class, PeerTerms, balance
from culm.spark.plan.given import given, read_terms
from culm.spark.plan.rows import CHECKED, COUNTED, GIVEN, GROUPED, HAVE, SIZES, SPLIT, WANT, Pass, check, read_counted
from culm.spark.plan.split import arcs_by_bucket
from culm.spark.plan.tables import Plan, loads, rejects, transfers, unserved
from culm.spark.steps import mapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.plan.balance import Balance

METADATA_BYTES, PAYLOAD_BYTES = 300, 1000
"""Bytes counted for an entry of a log without sizes: about what an entry has, and a short message as payload."""

BUCKETS = 64
"""Parts that the logs are divided into; each is one task in both passes.

With fewer, some cores may have no work. With more, the driver gets more rows, since each bucket counts its classes.
"""


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
    from pyspark.sql import DataFrame

    if rounds < 1:
        raise ConfigError(f"{rounds} rounds: a plan has at least one round")
    terms = None if peers is None else read_terms(peers)
    read = [given(have, HAVE), given(want, WANT)] + ([] if sizes is None else [given(sizes, SIZES)])
    tables = reduce(DataFrame.unionByName, read)
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
    moved = transfers(split)
    return Plan(
        transfers=moved,
        unserved=unserved(split),
        loads=loads(spark, moved, grouped, terms, default, has_capacities=has_capacities),
        rejects=rejects(rows),
        balance=shared.balance,
        bytes_bound=sum(amount for _, _, amount in counted),
        has_capacities=has_capacities,
        classes=len(shared.shares),
    )


def _grouped(checked: DataFrame, buckets: int) -> DataFrame:
    """The rows, those of a bucket in one partition, sorted. Kept on the executors' disks, as both passes use them."""
    from pyspark.sql import functions as sql

    # Rejects have no author and log, so their texts are hashed as well; otherwise all would come to one task.
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
    """The shares of each class by its digest, and the balance with its bounds."""

    shares: Mapping[bytes, list[int]]
    balance: Balance


def _share(counted: list[Any], terms: Mapping[str, PeerTerms], default: int | None, *, limit: float | None) -> _Shared:
    """Share out the classes, each summed over all buckets. ``default``: the capacity of peers without terms.

    ``limit``: as for ``balance``.
    """
    classes: dict[bytes, Class] = {}
    for _, key, amount in counted:
        before = classes.get(key.digest)
        classes[key.digest] = Class(key.members, amount + (before.amount if before else 0), key.is_whole)
    ordered = dict(sorted(classes.items()))
    members = {name for item in ordered.values() for name in item.members}
    others = PeerTerms(default or 1)
    found = balance(list(ordered.values()), {name: terms.get(name, others) for name in members}, limit=limit)
    return _Shared(dict(zip(ordered, found.shares, strict=True)), found)
