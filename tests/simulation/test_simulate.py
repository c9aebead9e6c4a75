"""Simulated gossip: the engine against a plain one, the costs against real sessions, and the whole command."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from culm.cli.command import make_parser
from culm.errors import ConfigError, CulmError
from culm.negentropy import ArrayStorage, Negentropy, sparing
from culm.simulation import Scenario, run_scenarios
from culm.simulation.chance import Chance
from culm.simulation.costs import Costs, compare, comparison, costs_of
from culm.simulation.engine import RoundResult, simulate
from culm.simulation.plots import varied
from culm.simulation.results import run_simulations
from culm.simulation.scenario import DIRECTIONS, PROTOCOLS, sweep_of
from culm.simulation.sessions import hold_session, logs_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path


# -- the engine -----------------------------------------------------------------------------------------------------


def plainly(scenario: Scenario, costs: Costs) -> Iterator[RoundResult]:
    """The same simulation, call by call, with sets of logs: slow and obvious."""
    chance = Chance(scenario)
    everything = set(range(scenario.origins))
    knows: list[set[int]] = [set() for _ in range(scenario.nodes)]
    for log, node in enumerate(chance.origins):
        knows[node].add(log)
    seconds, rounds = 0.0, chance.rounds()
    online, traffic = [True] * scenario.nodes, dict.fromkeys(("sessions", "failed", "messages", "bytes", "sent"), 0)
    of_node, learned, number = [0] * scenario.nodes, 0, 0
    while True:
        informed = [node for node in range(scenario.nodes) if knows[node] == everything]
        yield RoundResult(
            number,
            cast("float", pytest.approx(seconds)),
            sum(online),
            len(informed),
            sum(online[node] for node in informed),
            cast("float", pytest.approx(sum(map(len, knows)) / (scenario.nodes * scenario.origins))),
            traffic["sessions"],
            traffic["failed"],
            traffic["messages"],
            traffic["bytes"],
            traffic["sent"] * costs.log_bytes,
            (traffic["sent"] - learned) * costs.log_bytes,
            max(of_node),
        )
        if number and (number == scenario.max_rounds or len(informed) == scenario.nodes):
            return
        number += 1
        drawn = next(rounds)
        online = drawn.online.tolist()
        before = [set(logs) for logs in knows]
        traffic, of_node, longest = dict.fromkeys(traffic, 0), [0] * scenario.nodes, 0
        for calls in drawn.calls:
            traffic["failed"] += calls.failed
            for caller, called in zip(calls.callers.tolist(), calls.called.tolist(), strict=True):
                assert online[caller]
                assert online[called]
                assert caller != called
                given_ = before[caller] - before[called] if scenario.direction != "pull" else set()
                taken = before[called] - before[caller] if scenario.direction != "push" else set()
                knows[called] |= given_
                knows[caller] |= taken
                moved = len(given_) + len(taken)
                traffic["sessions"] += 1
                traffic["sent"] += moved
                traffic["bytes"] += costs.bytes[moved]
                traffic["messages"] += costs.messages[moved]
                longest = max(longest, costs.messages[moved])
                of_node[caller] += costs.bytes[moved]
                of_node[called] += costs.bytes[moved]
        learned = sum(map(len, knows)) - sum(map(len, before))
        seconds += max(scenario.interval, max(of_node) / scenario.bandwidth + longest * scenario.latency)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(3, 40),
    st.sampled_from([0, 2]),
    st.integers(1, 3),
    st.sampled_from(DIRECTIONS),
    st.sampled_from([0.0, 0.4]),
    st.sampled_from([0.0, 0.3]),
    st.integers(1, 3),
    st.integers(0, 2**32),
)
def test_the_engine_is_the_plain_one(
    nodes: int, degree: int, fanout: int, direction: str, loss: float, leave: float, origins: int, seed: int
) -> None:
    """With the same chance, all numbers of all rounds are those of a simulation node by node."""
    scenario = Scenario(
        nodes=nodes,
        degree=degree,
        fanout=fanout,
        direction=direction,
        loss=loss,
        leave=leave,
        origins=origins,
        entries=12 // origins * origins,
        bandwidth=1e5,
        latency=0.2,
        max_rounds=40,
        seed=seed,
    )
    costs = Costs(tuple(range(1000, 1000 * (origins + 2), 1000)), tuple(range(5, 6 + origins)), 700)
    assert list(plainly(scenario, costs)) == list(simulate(scenario, costs))


FREE = Costs((1, 2), (1, 1), 1)


def rounds_to_all(**parameters: Any) -> float:
    """The mean number of rounds over some seeds until all nodes know everything."""
    found = [[*simulate(Scenario(**parameters, seed=seed), FREE)][-1].round for seed in range(5)]
    return sum(found) / len(found)


@pytest.mark.slow
def test_push_gossip_takes_the_rounds_it_should() -> None:
    """Pushing to anyone, without loss, takes about log2 N + ln N rounds: doubling, then finding the last by chance."""
    for nodes in (100, 10_000, 100_000):
        expected = math.log2(nodes) + math.log(nodes)
        assert abs(rounds_to_all(nodes=nodes, degree=0, direction="push") - expected) <= 3


@pytest.mark.slow
def test_both_ways_are_faster_and_loss_and_churn_slower() -> None:
    """Push and pull beats push alone; lossy links cost rounds, by a factor that the chances tell; churn costs more."""
    push = rounds_to_all(nodes=5000, degree=0, direction="push")
    both = rounds_to_all(nodes=5000, degree=0)
    lossy = rounds_to_all(nodes=5000, degree=0, loss=0.5)
    churned = rounds_to_all(nodes=5000, degree=0, leave=0.1, rejoin=0.1)
    assert both < push
    assert both * 1.2 < lossy < both * 2.5
    assert churned > both + 5  # somebody stays away for long


def test_nothing_spreads_over_dead_links() -> None:
    """With every link down nobody learns anything, no byte is sent, and it ends at the last round."""
    *_, last = simulate(Scenario(nodes=100, loss=1.0, max_rounds=7), FREE)
    assert (7, 1, 0, 0, 100) == (last.round, last.informed, last.bytes, last.sessions, last.failed)


def test_churn_is_as_the_rates_say() -> None:
    """The share of online nodes settles where as many leave as come back; nobody forgets anything."""
    scenario = Scenario(nodes=20_000, leave=0.1, rejoin=0.3, degree=0, direction="push", max_rounds=60)
    found = list(simulate(scenario, FREE))
    assert found[-1].online / scenario.nodes == pytest.approx(0.75, abs=0.02)
    assert [row.coverage for row in found] == sorted(row.coverage for row in found)


def test_the_graph_is_regular_and_random() -> None:
    """Everybody has the same number of neighbours, is a neighbour as often, and all are connected."""
    chance = Chance(Scenario(nodes=50, degree=4))
    assert chance._neighbours is not None
    assert [4] * 50 == np.bincount(chance._neighbours.ravel()).tolist()
    reached, frontier = {0}, [0]
    while frontier:
        frontier = [int(other) for node in frontier for other in chance._neighbours[node] if other not in reached]
        reached.update(frontier)
    assert set(range(50)) == reached


@pytest.mark.slow
def test_what_is_sent_is_what_is_learned_and_duplicates() -> None:
    """Over all rounds: entries sent, less duplicates, are those that all but the first node had to learn."""
    scenario = Scenario(nodes=3000, fanout=3, origins=10)
    costs = costs_of(scenario)
    found = list(simulate(scenario, costs))
    useful = sum(row.entry_bytes - row.duplicate_bytes for row in found)
    assert (scenario.nodes - 1) * scenario.origins * costs.log_bytes == useful
    assert sum(row.duplicate_bytes for row in found) > 0
    assert all(row.bytes >= row.entry_bytes for row in found)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"nodes": 1}, "nodes 1; accepted: 2 to"),
        ({"loss": 1.5}, "loss 1.5"),
        ({"degree": 3}, "degree of 3"),
        ({"nodes": 10, "degree": 10}, "degree of 10 among 10"),
        ({"protocol": "smoke"}, "no protocol 'smoke'"),
        ({"direction": "up"}, "no direction 'up'"),
        ({"origins": 7}, "cannot be divided evenly"),
        ({"origins": 64, "entries": 10}, "accepted: not more than"),
    ],
)
def test_scenarios_that_cannot_be(parameters: dict[str, Any], reason: str) -> None:
    """Wrong parameters are refused by name."""
    with pytest.raises(ConfigError, match=reason):
        Scenario(**parameters)


# -- the costs ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("logs", "grown", "more", "payload"),
    [(7, 5, 4, 1000), *(pytest.param(*size, marks=pytest.mark.long) for size in ((40, 20, 3, 10), (3, 2, 150, 100)))],
)
def test_costs_are_those_of_real_sessions(protocol: str, logs: int, grown: int, more: int, payload: int) -> None:
    """What is reckoned for a session is within 1 % of what two nodes send in a real one of that size."""
    real = hold_session(protocol, logs, grown, more, payload)
    costs = costs_of(
        Scenario(
            nodes=100,
            protocol=protocol,
            origins=grown,
            entries=grown * more,
            payload=payload,
            logs=logs,
            log_entries=40,
        )
    )
    found = costs.bytes[grown]
    if protocol == "negentropy":  # whose real session begins after the comparison
        found -= comparison(protocol, logs, 40, grown, more).bytes
    assert real.bytes == pytest.approx(found, rel=0.01)
    assert real.messages <= costs.messages[grown] + 2
    new = next(logs_of(logs, grown, more, payload)).entries[-more:]
    assert sum(len(entry.encoded) + payload for entry in new) == pytest.approx(costs.log_bytes, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_measured_session_carries_the_news(protocol: str) -> None:
    """Everything that a session has to bring is in its bytes, and little else; without news it is smaller."""
    entries = sum(len(entry.encoded) for entry in next(logs_of(1, 1, 5, 2000)).entries[-5:])
    idle, talk = hold_session(protocol, 1, 0, 5, 2000), hold_session(protocol, 1, 1, 5, 2000)

    assert 10_000 + entries * 0.4 <= talk.bytes - idle.bytes <= 13_000
    assert idle.bytes < 2500


@pytest.mark.slow
def test_sessions_are_the_same_each_time() -> None:
    """Nothing in a measured session is left to chance, not even what TLS draws, so a sweep comes out the same."""
    assert hold_session("culm", 2, 1, 3, 100) == hold_session("culm", 2, 1, 3, 100)


def test_negentropy_is_measured() -> None:
    """The comparison is a real session: its bytes are those of the messages of both sides, and it finds everything."""
    timestamps = np.arange(1000, dtype=np.uint64) % np.uint64(50)
    ids = np.random.Generator(np.random.PCG64(1)).integers(0, 256, (1010, 32), np.uint8)
    both = np.concatenate((timestamps, np.full(10, 50, np.uint64) + np.arange(10, dtype=np.uint64)))
    poor, rich = Negentropy(ArrayStorage(timestamps, ids[:1000])), Negentropy(ArrayStorage(both, ids))
    sent = [poor.initiate()]
    while (answer := (rich if len(sent) % 2 else poor).reconcile(sent[-1])) is not None:
        sent.append(answer)
    found = compare(1000, 50, 0, 10)
    assert 10 == len(poor.need)
    assert len(sent) == found.messages
    assert sum(map(len, sent)) <= found.bytes <= sum(map(len, sent)) + 9 * len(sent)


def test_heads_that_differ_are_compared_both_ways() -> None:
    """A log that has grown differs in its head on both sides: 32 bytes each way, beside what equal sets cost."""
    equal, differing = compare(3, 0, 0, 0), compare(3, 0, 2, 2)

    assert 4 * 32 <= differing.bytes - equal.bytes <= 4 * 32 + 10
    assert 0 == comparison("bushbaby", 100, 100, 5, 1).bytes
    assert compare(3, 0, 2, 2, split=sparing) == comparison("culm", 5, 100, 2, 1)


@pytest.mark.slow
def test_large_scenarios_cost_in_proportion() -> None:
    """Payloads and numbers of entries beyond what is measured cost what they are."""
    small = costs_of(Scenario(payload=10_000, entries=1000))
    large = costs_of(Scenario(payload=10_000_000, entries=1000))
    assert large.bytes[1] - small.bytes[1] == pytest.approx(1000 * 9_990_000, rel=0.01)
    assert small.bytes[0] == pytest.approx(large.bytes[0], rel=0.01)


# -- the whole ------------------------------------------------------------------------------------------------------


def command(call: str) -> argparse.Namespace:
    """The arguments of a call of the command."""
    return make_parser().parse_args(call.split())


ROUNDS = (
    "scenario BIGINT, round INT, seconds DOUBLE, online BIGINT, informed BIGINT, informed_online BIGINT,"
    " coverage DOUBLE, sessions BIGINT, failed BIGINT, messages BIGINT, bytes BIGINT, entry_bytes BIGINT,"
    " duplicate_bytes BIGINT, busiest_bytes BIGINT"
)
CONVERGENCE = (
    "scenario BIGINT, nodes BIGINT, protocol STRING, degree INT, fanout INT, direction STRING, loss DOUBLE,"
    " leave DOUBLE, rejoin DOUBLE, entries BIGINT, origins INT, payload BIGINT, logs BIGINT, log_entries BIGINT,"
    " bandwidth DOUBLE, latency DOUBLE, interval DOUBLE, max_rounds INT, seed BIGINT, rounds INT, rounds_half INT,"
    " rounds_99 INT, rounds_all INT, seconds_99 DOUBLE, seconds_all DOUBLE, share DOUBLE, sessions BIGINT,"
    " messages BIGINT, bytes BIGINT, bytes_bound BIGINT, duplicate_bytes BIGINT, busiest_bytes BIGINT"
)
SQL = {"int64": "BIGINT", "int32": "INT", "double": "DOUBLE", "string": "STRING"}


def kinds(folder: Path) -> str:
    """The columns of a table of Parquet, in SQL."""
    return ", ".join(f"{column.name} {SQL[str(column.type)]}" for column in parquet.read_table(folder).schema)


def table(folder: Path) -> list[dict[str, Any]]:
    """The rows of a table of Parquet."""
    return parquet.read_table(folder).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.slow
def test_a_sweep_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every combination is run: its rounds are those of the engine; tables, charts and summary agree with them."""
    call = "simulate --nodes 30 60 --protocol bushbaby negentropy --loss 0.3 --churn 0.05 --seeds 2 --json --output"
    arguments = command(f"{call} {tmp_path / 'out'}")
    assert 0 == arguments.run(arguments)
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((tmp_path / "out" / "summary.json").read_text())
    scenarios = sweep_of(
        {"nodes": [30, 60], "protocol": ["bushbaby", "negentropy"], "loss": [0.3], "leave": [0.05], "seed": [1, 2]}
    )
    rounds, rows = table(tmp_path / "out" / "rounds"), table(tmp_path / "out" / "convergence")
    assert summary["scenarios"] == rows
    assert [ROUNDS, CONVERGENCE] == [kinds(tmp_path / "out" / name) for name in ("rounds", "convergence")]
    assert 8 == len(scenarios) == len(rows)
    for number, scenario in enumerate(scenarios):
        expected = list(simulate(scenario, costs_of(scenario)))
        assert [row._asdict() | {"scenario": number} for row in expected] == [
            row for row in rounds if row["scenario"] == number
        ]
        found = rows[number]
        assert asdict(scenario).items() <= found.items()
        assert expected[-1].round == found["rounds"] == found["rounds_all"]
        assert next(row.round for row in expected if row.informed * 2 >= scenario.nodes) == found["rounds_half"]
        assert expected[-1].seconds == found["seconds_all"]
        assert sum(row.bytes for row in expected) == found["bytes"] >= found["bytes_bound"]
        assert (scenario.nodes - 1) * costs_of(scenario).log_bytes == found["bytes_bound"]
    charts = {path.stem: path.read_text() for path in (tmp_path / "out").glob("*.svg")}
    assert {"spread", "coverage", "rounds", "bytes", "seconds"} == charts.keys()
    shown = {name: "".join(ET.fromstring(svg).itertext()) for name, svg in charts.items()}
    assert all("60 nodes, negentropy" in shown[name] for name in ("spread", "coverage"))
    assert all("bushbaby" in shown[name] for name in ("rounds", "bytes", "seconds"))
    assert ["nodes", "protocol"] == varied(summary["scenarios"])


@pytest.mark.subprocess
def test_processes_change_nothing() -> None:
    """A sweep in two processes gives the rows of one in this process, in the order of the scenarios."""
    scenarios = sweep_of({"nodes": [20, 50, 40], "seed": [1, 2]})
    ran: list[tuple[int, int]] = []

    assert run_scenarios(scenarios, processes=1) == run_scenarios(
        scenarios, processes=2, ran=lambda *counts: ran.append(counts)
    )
    assert [(count, 6) for count in range(1, 7)] == ran


@pytest.mark.subprocess
def test_a_killed_process_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system kills a process for want of memory, the error says what happened and what to do."""
    monkeypatch.setattr("culm.simulation.sweep._run", killed)
    with pytest.raises(CulmError, match=r"a process was killed.* fewer --processes"):
        run_scenarios([Scenario(nodes=20), Scenario(nodes=30)], processes=2)


def killed(_task: object) -> None:
    """What a process does that the system kills."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_the_earlier_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``culm spark simulate`` does the same, whatever Spark master it is given."""
    for name in ("spark simulate --master local[2]", "simulate"):
        arguments = command(f"{name} --nodes 20 --output {tmp_path / name[:5]}")
        assert 0 == arguments.run(arguments)
    one, other = capsys.readouterr().out.split("nodes", 2)[1:]

    assert one == other
    assert (tmp_path / "spark" / "summary.json").read_text() == (tmp_path / "simul" / "summary.json").read_text()


def test_the_printed_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each scenario: what was varied, how long it took, what it cost; "never" where it never got there."""
    row = {"rounds_99": 9, "rounds_all": None, "seconds_all": None, "bytes": 3 * 2**20, "bytes_bound": 2**20}
    monkeypatch.setattr(
        "culm.simulation.results.run_simulations",
        lambda scenarios, *_, **__: [asdict(scenario) | row for scenario in scenarios],
    )
    arguments = command(f"simulate --nodes 2000 --loss 0.25 --output {tmp_path}")
    assert 0 == arguments.run(arguments)
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["2,000", "bushbaby", "0.25", "0", "1", "9", "never", "-", "3.0", "MiB", "3.00"] == shown[1]
    with pytest.raises(ConfigError, match="number of runs"):
        command(f"simulate --seeds 0 --output {tmp_path}")


def test_sweeps_that_cannot_be(tmp_path: Path) -> None:
    """Too many scenarios, none at all, and no folder for the results are refused before anything is run."""
    with pytest.raises(ConfigError, match="at most 100000"):
        sweep_of({"nodes": [100] * 1000, "loss": [0.0] * 1000})
    with pytest.raises(ConfigError, match="nothing to simulate"):
        run_simulations([], tmp_path / "out")
    with pytest.raises(ConfigError, match="nothing to simulate"):
        run_scenarios([])
    with pytest.raises(ConfigError, match="there is no folder"):
        run_simulations([Scenario(nodes=50)], tmp_path / "no" / "out")


WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(), None))  # importing one of them fails
from culm.cli import main
sys.exit(main(["simulate", "--nodes", "50", "--processes", "1", "--output", sys.argv[2]]))
"""


def test_spark_is_not_needed(tmp_path: Path) -> None:
    """The command works where PySpark cannot be imported."""
    command = [sys.executable, "-c", WITHOUT, "pyspark culm.spark", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stderr
    assert {"rounds", "convergence", "summary.json"} < {path.name for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize("package", ["pyarrow", "matplotlib"])
def test_without_the_packages(tmp_path: Path, package: str) -> None:
    """Where pyarrow or matplotlib is missing, it is said how to get it, before anything is run."""
    command = [sys.executable, "-c", WITHOUT, package, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert f'tables and charts need {package}, which is not installed: pip install "culm[spark]"' in done.stderr
    assert not list(tmp_path.iterdir())
