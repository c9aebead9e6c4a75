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

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from culm.errors import ConfigError
from culm.spark.plan.balance import Class, PeerTerms, balance
from culm.spark.plan.given import HAVE, SIZES, WANT, Given, given, read_rows, read_terms
from culm.spark.plan.rows import Checked, Counted, Pass, check, read_counted
from culm.spark.plan.split import Key, Splitter, arcs_by_bucket
from culm.spark.plan.tables import TABLES, Plan, PlanSummary, Refused, Transfer, Unserved, loads
from culm.spark.runtime.columns import rows
from culm.spark.runtime.onspark import OnSpark, SparkTable, frame_of
from culm.spark.runtime.shell import job


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
    given = {"have": have, "want": want, "sizes": sizes, "peers": peers}
    inputs = {name: Path(path).absolute() for name, path in given.items() if path is not None}
    for path in inputs.values():
        if not path.exists():
            raise ConfigError(f"{path}: there is no such file or folder")
    with (
        job("plan", output, inputs.values(), mode=settings, overwrite=overwrite, progress=progress) as run,
        run.spark(master) as spark,
    ):
        tables: dict[str, Any] = {name: read_rows(spark, path) for name, path in inputs.items()}
        run.say("comparing what is held and what is wanted")
        planned = plan(spark, **tables, **settings)
        run.say("writing the plan")
        engine = OnSpark(spark, run.folder / "work")
        written: dict[str, Any] = {
            name: frame_of(SparkTable(engine, table, getattr(planned, name)).kept(run.folder / name))
            for name, table in TABLES.items()
        }
        return run.done(replace(planned, **written).summary())


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
    if rounds < 1:
        raise ConfigError(f"{rounds} rounds: a plan has at least one round")
    engine, terms = OnSpark(spark), {} if peers is None else read_terms(peers)
    has_capacities = capacity is not None or peers is not None
    read = [given(have, HAVE), given(want, WANT)] + ([] if sizes is None else [given(sizes, SIZES)])
    tables = SparkTable(engine, Given, reduce(DataFrame.unionByName, read))
    checked, refused = tables.keep(partial(check, buckets=buckets), Checked, Refused)
    order = ("author", "log", "kind", "peer", "metadata_bytes", "payload_bytes", "ranges")
    grouped = checked.spread(("bucket",), order, buckets).kept()  # in this order, as both passes use it
    default = capacity if has_capacities else 1
    serving = None if default else {name for name, term in terms.items() if term.capacity}
    first = Pass(Splitter(min(rounds, 2), serving), (metadata_bytes, payload_bytes))
    counted = read_counted(rows(Counted, grouped.map(first.count, Counted).batches(*Counted._fields)))
    amounts = Counter[Key]()
    for _, key, amount in counted:
        amounts[key] += amount
    keys = sorted(amounts)
    classes = [Class(key.members, amounts[key], key.is_whole) for key in keys]
    everyone = defaultdict(lambda: PeerTerms(default or 1), terms)
    found = balance(classes, everyone, limit=1.0 if has_capacities else None)
    shares = {key.digest: share for key, share in zip(keys, found.shares, strict=True)}
    second = replace(first, arcs=arcs_by_bucket(counted, shares))
    transfers, unserved = map(frame_of, grouped.keep(second.split, Transfer, Unserved))
    named = frame_of(grouped.where("peer")).select("peer")
    return Plan(
        transfers=transfers,
        unserved=unserved,
        loads=loads(transfers, named, terms, (default or 0) if has_capacities else None),
        rejects=frame_of(refused),
        balance=found,
        bytes_bound=amounts.total(),
        classes=len(shares),
    )
