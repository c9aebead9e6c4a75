"""What a figure is to reach, and what is said of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from bench import intervals, library, limits, negentropy, proving
from bench.harness import Figure, from_json, to_json

if TYPE_CHECKING:
    from pathlib import Path


def test_a_goal_is_for_the_ratio() -> None:
    """What stands beside a figure decides, because machines differ; from which side, the figure says."""
    figure = Figure("rate", 5, "a second", "a bare loop", 0.5, 0.6)

    assert [figure.reached, Figure("time", 5, "s", "a bare loop", 0.5, 0.6, at_least=False).reached] == [False, True]
    assert Figure("rate", 5, "a second", "a bare loop", 0.5).reached is None


def test_an_absolute_goal_is_for_the_value() -> None:
    """A rate that programs need does not depend on what else was measured; as JSON it stays so."""
    figure = Figure("rate", 5, "a second", "a bare loop", 0.5, 4, absolute=True)

    assert figure.reached
    assert figure == from_json(to_json(figure))


@pytest.mark.parametrize(("each", "reached"), [(1 / 19_000, False), (1 / 21_000, True)])
@pytest.mark.parametrize("beside", [{}, {library.STREAM: 1 / 30_000}], ids=["alone", "beside hypercore"])
def test_a_subscription_needs_its_rate(each: float, reached: bool, beside: dict[str, float]) -> None:
    """20,000 entries a second, with or without hypercore; the ratio is there to be looked at."""
    (row,) = (row for row in library._TABLE if row[1] == "subscribe")
    taken = {what: [seconds] for what, seconds in {"subscribe": each, **beside}.items()}
    figure = library._figure(taken, *row)

    assert reached is figure.reached
    assert bool(beside) == (figure.ratio is not None)


def test_a_ratio_without_its_limit_has_no_goal() -> None:
    """Where hypercore is not, nothing is said of reads at random."""
    (row,) = (row for row in library._TABLE if row[1] == "entry")

    assert library._figure({"entry": [0.001]}, *row).reached is None


@pytest.mark.parametrize(
    ("kind", "limit", "differences", "goal"),
    [
        ("even, native core", 0, 100, 0.4),
        ("sparing, Python alone", 0, 10_000, 2.5),
        ("sparing, Python alone", 60_000, 1_000, 1.2),
        ("even, native core", 60_000, 100, None),
        ("Rust", 0, 1_000, None),
        ("C++", 60_000, 1_000, None),
    ],
)
def test_goals_beside_rust(kind: str, limit: int, differences: int, goal: float | None) -> None:
    """Each path has its own; frames are compared at 1,000 differences; another implementation has nothing to reach."""
    assert goal == negentropy.goal_beside_rust(kind, limit, differences)


def test_bytes_against_an_unchanged_peer() -> None:
    """Both directions are counted together, and the goal is for a session that our side begins."""
    begun, answered = negentropy.measure_bytes(10_000)

    assert [(False, 750_000), (False, None)] == [(figure.at_least, figure.goal) for figure in (begun, answered)]
    for figure in (begun, answered):
        _, up, down = (int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", figure.limit))
        assert figure.value == up + down


def test_the_steps_of_sealing() -> None:
    """Sorting and prefix sums have figures of their own, and one says what else sealing takes."""
    assert ["seal, sorting", "seal, prefix sums", "seal, the rest"] == [
        figure.name.partition(": ")[2] for figure in negentropy.measure_steps(1_000)
    ]


@pytest.mark.parametrize(("headers", "why"), [(None, "does not name the folder"), ("nowhere", "cannot be built")])
def test_cpp_is_left_out_with_a_line(
    headers: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without its headers, or with a folder that has none, the other implementations are compared without it."""
    monkeypatch.setattr(limits, "BUILT", tmp_path)
    monkeypatch.delenv("NEGENTROPY_CPP", raising=False)
    if headers is not None:
        monkeypatch.setenv("NEGENTROPY_CPP", str(tmp_path / headers))

    assert limits.cpp_negentropy() is None
    (line,) = (line for line in capfd.readouterr().err.splitlines() if line.startswith("left out: "))
    assert why in line


def test_each_protocol_is_asked_for_a_log_in_its_own_way() -> None:
    """``culm://`` takes interests and a clump, Bushbaby a clump and no logs; the others take a log as it is."""
    log = bytes(32), 7
    name = f"{'00' * 32}/7"

    assert ((), (name,)) == intervals.asking("intervals", log) == intervals.asking("proposals", log)
    assert (("--clump", "bench"), ("--interest", name)) == intervals.asking("culm", log)
    assert (("--clump", "bench"), ()) == intervals.asking("bushbaby", log)


def test_short_commands_have_their_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU of ``culm --help`` and of ``culm logs`` is that of whole processes: at least a bare interpreter's."""
    for name, value in {"ENTRIES": 20, "PROVED": 10, "_ROUNDS": 1, "_TIMES": 1}.items():
        monkeypatch.setattr(proving, name, value)
    figures = {figure.name: figure for figure in proving.run()}
    bare = figures["an interpreter's start: CPU"].value

    for name in ("culm --help: CPU", "culm logs: CPU"):
        assert (False, 200) == (figures[name].at_least, figures[name].goal)
        assert figures[name].value > bare
