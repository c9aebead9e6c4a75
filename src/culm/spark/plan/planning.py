"""The steps of a plan, from tables to tables: check, bring together by log, count, share out, split."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.spark.columns import mapped
from culm.spark.plan.balance import Class, PeerTerms, balance
from culm.spark.plan.given import given, read_terms
from culm.spark.plan.rows import CHECKED, COUNTED, GIVEN, GROUPED, HAVE, SIZES, SPLIT, WANT, Pass, check, read_counted
from culm.spark.plan.split import arcs_by_bucket
from culm.spark.plan.tables import Plan, loads, rejects, transfers, unserved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.plan.balance import Balance
    from culm.spark.plan.split import Key

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
    counting = mapped(GROUPED, Pass(*settings).count, COUNTED)
    counted = read_counted(map(tuple, grouped.mapInArrow(counting, COUNTED.ddl).collect()))
    has_capacities = capacity is not None or peers is not None
    shares, found = _share(counted, terms or {}, default, 1.0 if has_capacities else None)
    splitting = mapped(GROUPED, Pass(*settings, arcs_by_bucket(counted, shares)).split, SPLIT)
    split = _kept(grouped.mapInArrow(splitting, SPLIT.ddl))
    moved = transfers(split)
    return Plan(
        transfers=moved,
        unserved=unserved(split),
        loads=loads(spark, moved, grouped, terms, default, has_capacities=has_capacities),
        rejects=rejects(rows),
        balance=found,
        bytes_bound=sum(amount for _, _, amount in counted),
        has_capacities=has_capacities,
        classes=len(shares),
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


def _share(
    counted: list[tuple[int, Key, int]], terms: Mapping[str, PeerTerms], default: int | None, limit: float | None
) -> tuple[dict[bytes, list[int]], Balance]:
    """The shares of each class by its digest, and the balance with its bounds; each class is summed over all buckets.

    ``default``: the capacity of peers without terms. ``limit``: as for ``balance``.
    """
    keys, amounts = {}, Counter[bytes]()
    for _, key, amount in counted:
        keys[key.digest] = key
        amounts[key.digest] += amount
    ordered = [keys[digest] for digest in sorted(keys)]
    classes = [Class(key.members, amounts[key.digest], key.is_whole) for key in ordered]
    names = {name for item in classes for name in item.members}
    found = balance(classes, {name: terms.get(name, PeerTerms(default or 1)) for name in names}, limit=limit)
    return {key.digest: share for key, share in zip(ordered, found.shares, strict=True)}, found
