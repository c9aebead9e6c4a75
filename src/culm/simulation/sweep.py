"""Scenarios side by side, each in a process, and the sums over a scenario's rounds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from culm.errors import ConfigError, CulmError
from culm.simulation.scenario import Scenario

if TYPE_CHECKING:
    from culm.simulation.costs import Costs

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Simulation:
    """The results as rows: one for each round, and one for each scenario; scenarios are numbered from 0.

    A row of ``rounds`` has the number of its ``scenario`` and what ``culm.simulation.engine.RoundResult`` has. A row
    of ``convergence`` has the parameters and these results. ``rounds``: how many were run. ``rounds_half``,
    ``rounds_99``, ``rounds_all``, ``seconds_99``, ``seconds_all``: when half, 99 % and all of the nodes knew
    everything; None if that never happened. ``share``: the share of nodes that knew everything at the end.
    ``bytes_bound``: the bytes of the new entries and payloads, once for each node that learned of them; no protocol
    needs fewer. ``busiest_bytes``: the most that a node sent and received in one round. ``sessions``, ``messages``,
    ``bytes`` and ``duplicate_bytes`` are sums over the rounds.
    """

    rounds: list[Row]
    convergence: list[Row]


def run_scenarios(
    scenarios: Sequence[Scenario], *, processes: int | None = None, ran: Callable[[int, int], None] = lambda *_: None
) -> Simulation:
    """Run scenarios, in so many processes at a time (None: as many as there are cores; 1: in this one).

    ``ran`` is called with the number of scenarios that were run, and that of all. A program that uses several processes
    needs ``if __name__ == "__main__":`` around what it does, because each process imports the program. ``ConfigError``
    if there is no scenario, ``CulmError`` if a process is killed.
    """
    if not scenarios:
        raise ConfigError("nothing to simulate: no scenario was given")
    number = min(processes or len(os.sched_getaffinity(0)), len(scenarios))
    # Forking a process that has threads, as numpy's, is not safe. An interrupt ends these processes without a word.
    interrupt = (signal.SIGINT, signal.SIG_DFL)
    pool = ProcessPoolExecutor(number, get_context("spawn"), signal.signal, interrupt) if number > 1 else None
    mapped = map if pool is None else pool.map
    found: list[tuple[list[Row], Row]] = []
    try:
        kinds = {one.session: one for one in scenarios}
        costs = dict(zip(kinds, mapped(_measured, kinds.values()), strict=True))
        tasks = [(at, one, costs[one.session]) for at, one in enumerate(scenarios)]
        # The largest begin first. One that began last would run alone while the other cores are idle.
        for result in mapped(_run, sorted(tasks, key=lambda task: -task[1].nodes)):
            found.append(result)
            ran(len(found), len(scenarios))
    except BrokenProcessPool:
        raise CulmError("a process was killed, perhaps for want of memory: use fewer --processes or nodes") from None
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    found.sort(key=lambda result: result[1]["scenario"])
    return Simulation([row for rounds, _ in found for row in rounds], [row for _, row in found])


def _measured(scenario: Scenario) -> Costs:
    from culm.simulation.costs import costs_of  # noqa: PLC0415 - the command line shows its help without numpy

    return costs_of(scenario)


def _run(task: tuple[int, Scenario, Costs]) -> tuple[list[Row], Row]:
    from culm.simulation.engine import simulate  # noqa: PLC0415 - see above

    number, scenario, costs = task
    rounds = [{"scenario": number, **result._asdict()} for result in simulate(scenario, costs)]
    return rounds, {"scenario": number} | asdict(scenario) | _results(scenario, costs.log_bytes, rounds)


def _results(scenario: Scenario, log_bytes: int, rounds: list[Row]) -> Row:
    def reached(share: float, what: str) -> float | None:
        return next((row[what] for row in rounds if row["informed"] >= scenario.nodes * share), None)

    last = rounds[-1]
    return {
        "rounds": last["round"],
        "rounds_half": reached(0.5, "round"),
        "rounds_99": reached(0.99, "round"),
        "rounds_all": reached(1, "round"),
        "seconds_99": reached(0.99, "seconds"),
        "seconds_all": reached(1, "seconds"),
        "share": last["informed"] / scenario.nodes,
        **{name: sum(row[name] for row in rounds) for name in ("sessions", "messages", "bytes")},
        "bytes_bound": round((last["coverage"] * scenario.nodes - 1) * scenario.origins) * log_bytes,
        "duplicate_bytes": sum(row["duplicate_bytes"] for row in rounds),
        "busiest_bytes": max(row["busiest_bytes"] for row in rounds),
    }
