"""Scenarios on Spark: the rounds of each, and the sums over a scenario's rounds.

A scenario cannot be divided, since each round needs the one before. So each is one task, and a sweep is as quick as its
cores are many.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from culm.errors import ConfigError
from culm.spark.simulate.costs import costs_of
from culm.spark.simulate.engine import simulate
from culm.spark.simulate.model import NAMES, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.simulate.costs import Costs

ROUNDS = (
    "scenario BIGINT, round INT, seconds DOUBLE, online BIGINT, informed BIGINT, informed_online BIGINT,"
    " coverage DOUBLE, sessions BIGINT, failed BIGINT, messages BIGINT, bytes BIGINT, entry_bytes BIGINT,"
    " duplicate_bytes BIGINT, busiest_bytes BIGINT"
)
"""The columns of ``rounds``: the number of the scenario, and ``culm.spark.simulate.engine.RoundResult``."""

_PARAMETERS = (
    "scenario BIGINT, nodes BIGINT, protocol STRING, degree INT, fanout INT, direction STRING, loss DOUBLE,"
    " leave DOUBLE, rejoin DOUBLE, entries BIGINT, origins INT, payload BIGINT, logs BIGINT, log_entries BIGINT,"
    " bandwidth DOUBLE, latency DOUBLE, interval DOUBLE, max_rounds INT, seed BIGINT, log_bytes BIGINT"
)
CONVERGENCE = (
    _PARAMETERS.rpartition(",")[0] + ", rounds INT, rounds_half INT, rounds_99 INT, rounds_all INT,"
    " seconds_99 DOUBLE, seconds_all DOUBLE, share DOUBLE, sessions BIGINT, failed BIGINT, messages BIGINT,"
    " bytes BIGINT, bytes_bound BIGINT, duplicate_bytes BIGINT, busiest_bytes BIGINT"
)
"""The columns of ``convergence``: the parameters of a scenario, and its results.

``rounds``: how many were run. ``rounds_half``, ``rounds_99``, ``rounds_all``, ``seconds_99``, ``seconds_all``: when
half, 99 % and all of the nodes knew everything; null if that never happened. ``share``: the share of nodes that knew
everything at the end. ``bytes_bound``: the bytes of the new entries and payloads, once for each node that learned of
them; no protocol needs fewer. ``busiest_bytes``: the most that a node sent and received in one round. The others are
sums over the rounds.
"""

_BATCH_ROWS = 1000  # rounds in one Arrow batch; most scenarios have fewer


@dataclass(frozen=True, slots=True)
class Simulation:
    """The results: a row for each round (``ROUNDS``), and one for each scenario (``CONVERGENCE``)."""

    rounds: DataFrame
    convergence: DataFrame


def run_scenarios(spark: SparkSession, scenarios: Sequence[Scenario]) -> Simulation:
    """Run scenarios; they are numbered from 0. Lazy, except that the costs of sessions are measured at once.

    Each action computes the rounds again, unless you write or persist them. ``ConfigError`` if there is no scenario.
    """
    if not scenarios:
        raise ConfigError("nothing to simulate: no scenario was given")
    rounds = rounds_of(spark, scenarios)
    return Simulation(rounds, convergence(spark, scenarios, rounds))


def rounds_of(spark: SparkSession, scenarios: Sequence[Scenario]) -> DataFrame:
    """The rounds of scenarios, as ``ROUNDS``.

    The largest scenarios begin first. One that began last would run alone while the other cores are idle.
    """
    order = sorted(range(len(scenarios)), key=lambda at: (-scenarios[at].nodes, at))
    tasks = [(at, scenarios[at], costs_of(scenarios[at])) for at in order]
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(_runner(tasks), ROUNDS)


def _runner(
    tasks: list[tuple[int, Scenario, Costs]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                number, scenario, costs = tasks[index]
                rows = ((number, *result) for result in simulate(scenario, costs))
                yield from _batches(rows)

    return run


def _batches(rows: Iterator[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    kinds = {"BIGINT": pa.int64(), "INT": pa.int32(), "DOUBLE": pa.float64()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in (column.split() for column in ROUNDS.split(","))])
    while page := list(islice(rows, _BATCH_ROWS)):
        arrays = [pa.array(column, field.type) for column, field in zip(zip(*page, strict=True), schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def convergence(spark: SparkSession, scenarios: Sequence[Scenario], rounds: DataFrame) -> DataFrame:
    """The results of each scenario from its rounds, as ``CONVERGENCE``."""
    rows = [
        (at, *(getattr(scenario, name) for name in NAMES), costs_of(scenario).log_bytes)
        for at, scenario in enumerate(scenarios)
    ]
    kinds = [column.split()[1] for column in _PARAMETERS.split(",")]
    plain = [
        tuple(float(value) if kind == "DOUBLE" else value for kind, value in zip(kinds, row, strict=True))
        for row in rows
    ]
    parameters = spark.createDataFrame(plain, _PARAMETERS)
    found = rounds.join(parameters.select("scenario", "nodes"), "scenario").groupBy("scenario").agg(*_sums())
    bound = "CAST(round((coverage * nodes - 1) * origins) * log_bytes AS BIGINT) AS bytes_bound"
    names = [column.split()[0] for column in CONVERGENCE.split(",")]
    return parameters.join(found, "scenario").selectExpr("*", bound).select(*names)


def _sums() -> list[Any]:
    from pyspark.sql import functions as sql

    def when(condition: str, value: str) -> str:
        return f"min(CASE WHEN {condition} THEN {value} END)"

    half, most, everyone = ("informed >= nodes * 0.5", "informed >= nodes * 0.99", "informed = nodes")
    found = {
        "rounds": "max(round)",
        "rounds_half": when(half, "round"),
        "rounds_99": when(most, "round"),
        "rounds_all": when(everyone, "round"),
        "seconds_99": when(most, "seconds"),
        "seconds_all": when(everyone, "seconds"),
        "share": "max_by(informed / nodes, round)",
        "coverage": "max_by(coverage, round)",
        **{name: f"sum({name})" for name in ("sessions", "failed", "messages", "bytes", "duplicate_bytes")},
        "busiest_bytes": "max(busiest_bytes)",
    }
    return [sql.expr(f"{expression} AS {name}") for name, expression in found.items()]
