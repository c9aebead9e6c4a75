"""Whole nodes in a storm: some of the seeds that ``make storm`` runs, and that a seed is the same every time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from culm.bushbaby import Dialect
from culm.errors import NetworkError
from storm.__main__ import main
from storm.actions import ACTIONS
from storm.plan import CLUMPS, SCHEMES, draw
from storm.seeds import KINDS, failure_text, run_seed, run_seeds
from storm.world import Outcome

FIRST, SEEDS = 21, 18  # few, and with all kinds of what can happen (below); `make storm` runs thousands
A_PART = 3
A_CULM_SEED = 25  # two nodes, culm://, with trouble: quick
A_SEED_OF_TWO_CLUMPS = 8029
LARGE_SEED = 39  # with payloads that no connection takes at once
TELL = "import sys; from storm.seeds import run_seed; run_seed(int(sys.argv[1]), print)"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, A_PART))
def test_some_seeds(first: int) -> None:
    """Nothing verified disappears, nothing unverified shows, forks come to light, and everybody gets what they want."""
    found = run_seeds(first, A_PART)
    assert {} == found.failed
    assert A_PART == found.seeds
    assert A_PART == found.counts["settled"] + found.counts["settled late"]
    assert found.counts["connections"] >= A_PART


@pytest.mark.slow
def test_what_there_is_in_these_seeds() -> None:
    """Every kind of event, every protocol, troubled and calm networks, authors with two stores: nothing is left out."""
    plans = [draw(seed) for seed in range(FIRST, FIRST + SEEDS)]
    assert set(ACTIONS) == {event.kind for plan in plans for event in plan.events}
    assert set(SCHEMES) == {link.scheme for plan in plans for link in plan.links}
    assert {0.0, 0.2, 0.5, 0.9} == {plan.trouble for plan in plans}
    assert {1, 2} == {len(author.homes) for plan in plans for author in plan.authors}
    assert {True, False} == {node.proposals.greedy for plan in plans for node in plan.nodes}
    assert {None, *Dialect} == {node.dialect for plan in plans for node in plan.nodes}
    for role in ("stateless", "relay", "keeps_peers"):
        assert {True, False} == {getattr(node, role) for plan in plans for node in plan.nodes}
    assert {True, False} == {bool(node.quotas) for plan in plans for node in plan.nodes}
    bridges = [link for plan in plans for link in plan.links if link.callee_clump != link.clump]
    assert bridges
    assert {CLUMPS[:1], CLUMPS[1:], CLUMPS} == {node.clumps for plan in plans for node in plan.nodes}
    assert {"everything", "logs", "ranges"} == {node.follows for plan in plans for node in plan.nodes}


@pytest.mark.parametrize("seed", [A_CULM_SEED, 20])
def test_a_seed_is_always_the_same(seed: int) -> None:
    """Two processes, which hash otherwise, tell the same of a seed, line by line: so a failure can be replayed."""
    traces = [
        subprocess.run(
            [sys.executable, "-c", TELL, str(seed)],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": hashes},
        ).stdout
        for hashes in ("1", "2")
    ]
    assert len(traces[0].splitlines()) > 20
    assert traces[0] == traces[1]


def test_many_seeds() -> None:
    """What happened is summed up, and how many seeds failed."""
    command = [sys.executable, "-m", "storm", "--first", "2", "--seeds", "2", "--jobs", "1"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert any(line.startswith("2 seeds in ") for line in told)
    assert "0 failed" == told[-1]
    assert any(line.endswith("  connections") for line in told)


def test_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """A seed is replayed with its trace, which ends when everybody has what they want."""
    assert 0 == main(["--seed", "3", "--trace"])
    told = capsys.readouterr().out
    assert "settled after" in told
    assert told.splitlines()[-1].startswith("seed 3: ")


# -- a storm can fail ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_who_never_gets_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that do not connect do not get what they want, which is told with the command that replays it."""

    async def nowhere(*_: object) -> None:
        raise NetworkError("nobody is there")

    monkeypatch.setattr("culm.node.service.connect", nowhere)
    outcome = run_seed(A_CULM_SEED)
    assert ["not met after 120 s"] == [failed.text[:19] for failed in outcome.failures]
    text = failure_text(A_CULM_SEED, outcome.failures[0])
    assert text.rstrip().endswith(f"-m storm --seed {A_CULM_SEED} --trace")


@pytest.mark.slow
def test_a_log_that_leaves_its_clump(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that comes by a clump in which nobody has published it is a failure."""
    monkeypatch.setattr("culm.store.provenance.Provenance.clumps_of", lambda *_: None)
    monkeypatch.setattr("culm.store.provenance.Provenance.has_clump_beside", lambda *_: False)
    failed = run_seed(A_SEED_OF_TWO_CLUMPS).failures[0]
    assert failed.text.endswith(", where nobody has published it")


@pytest.mark.slow
def test_what_is_wrong_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a last look at the stores finds is told as any other failure."""
    monkeypatch.setattr("storm.content.check_at_rest", lambda world, member: world.fail(f"{member} is made up"))
    assert [failed.text for failed in run_seed(A_CULM_SEED).failures] == ["a is made up", "b is made up"]


@pytest.mark.slow
def test_what_nobody_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in a node that is left to the event loop is a failure, with its traceback."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr("culm.node.service.NodeService._tell_of_growth", broken)
    monkeypatch.setattr("culm.node.service.NodeService._tell_sessions", broken)
    failed = run_seed(5).failures[0]
    assert "a mistake" in failed.text
    assert "ZeroDivisionError" in failed.trace


@pytest.mark.slow
def test_queues_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """More bytes queued on a connection than there may be are a failure."""
    monkeypatch.setattr("storm.world._QUEUED_BYTES", 100)
    assert "bytes were queued on connection" in run_seed(LARGE_SEED).failures[0].text


@pytest.mark.slow
def test_a_seed_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed that takes too long is ended, and is a failure; the next one runs."""

    def slow(seed: int) -> Outcome:
        while seed == 7:
            sum(range(1000))
        return run_seed(seed)

    monkeypatch.setitem(KINDS, "nodes", slow)
    monkeypatch.setattr("storm.seeds._MOST_CPU", 0.2)
    found = run_seeds(7, 1)
    assert {7: "no end after 0.2 s of CPU"} == {seed: failed.text for seed, failed in found.failed.items()}
    assert Counter() == found.counts
