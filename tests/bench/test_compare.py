"""Comparing two commits: the statistics, and the smallest real comparison, of HEAD with the working tree."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import compare

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("count", "dropped"), [(5, 0), (7, 0), (8, 1), (10, 1), (11, 2), (15, 3), (20, 5)])
def test_interval_drops_as_many_as_it_may(count: int, dropped: int) -> None:
    """The order statistics are those of the published tables for a sign test at 90 %, in any order of the values."""
    values = [*range(1, count + 1)]

    assert compare.interval(values[::-1]) == (1 + dropped, count - dropped)


@pytest.mark.parametrize("count", [5, 7, 8, 12])
def test_interval_covers_the_median(count: int) -> None:
    """Of all equally likely patterns of values below and above the median, at least 90 % are enclosed, and no fewer do.

    The values are -1 and +1 around a median of 0; all patterns are tried, so nothing is left to chance.
    """
    patterns = [sorted(values) for values in itertools.product((-1.0, 1.0), repeat=count)]
    enclosed = [low < 0 < high for low, high in map(compare.interval, patterns)]
    dropped = compare.interval(range(count))[0] + 1
    narrower = [values[int(dropped)] < 0 < values[-1 - int(dropped)] for values in patterns]

    assert sum(enclosed) / len(enclosed) >= 0.9
    assert sum(narrower) / len(narrower) < 0.9


@pytest.mark.parametrize("count", [0, 1, 4])
def test_too_few_values(count: int) -> None:
    """Four values reach 87.5 % at most, so they give no interval."""
    with pytest.raises(ValueError, match="at least 5"):
        compare.interval([1.0] * count)


def comparison(*tree: float) -> compare.Comparison:
    """A comparison in which the base takes a second each time."""
    return compare.Comparison("verification", (1.0,) * len(tree), tree)


def test_verdict() -> None:
    """Only what is surely more than 5 % slower is not within 5 %; being faster is always fine."""
    slower, faster = comparison(*[1.1] * 8), comparison(*[0.5] * 8)
    unsure = comparison(*[1.1] * 6, 1.0, 1.0)
    one_outlier = comparison(*[1.1] * 7, 1.0)

    assert [False, True, True, False] == [one.within for one in (slower, faster, unsure, one_outlier)]
    assert slower.ratios == pytest.approx([1 / 1.1] * 8)
    assert "NOT within 5 %" in slower.text()
    assert "median 2.000, 90 % interval 2.000 to 2.000" in faster.text()
    assert one_outlier.to_json()["range"] == pytest.approx((1 / 1.1, 1.0))
    assert one_outlier.to_json()["within"] is False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--base", "HEAD", "--pairs", "6"], "--pairs must be at least 7"),
        (["--base", ""], "git knows no commit ''"),
        (["--base", "--help"], "expected one argument"),
        (["--base", "HEAD", "--scale", "0"], "--scale must be greater than 0"),
    ],
)
def test_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing runs if the request makes no sense."""
    with pytest.raises(SystemExit) as ended:
        compare.main(arguments)

    assert 2 == ended.value.code
    assert said in capsys.readouterr().err


@pytest.mark.long
def test_real_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """HEAD against the working tree: each side runs its own code, in turns, and the first of a pair alternates."""
    order: list[Path] = []
    measure = compare.cpu_seconds

    def recorded(side: Path, name: str, scale: float, seed: int) -> float:
        order.append(side)
        return measure(side, name, scale, seed)

    monkeypatch.setattr(compare, "cpu_seconds", recorded)
    base = compare.checkout(compare.resolve("HEAD"))
    found = compare.compare(base, "verification", 2, 0.001)

    assert base != ROOT
    assert [base, ROOT, base, ROOT, ROOT, base] == order
    assert 2 == len(found.ratios)
    assert all(0 < seconds < 60 for seconds in (*found.base, *found.tree))


@pytest.mark.long
def test_replications_count_both_programs() -> None:
    """The two programs of a transfer count: at least what starting them takes."""
    assert 0.2 < compare.cpu_seconds(ROOT, "proposals", 0.001, 0) < 60


def test_foreign_code_is_noticed(tmp_path: Path) -> None:
    """A side without code of its own would run the installed one: that is an error, not a ratio of 1."""
    with pytest.raises((RuntimeError, subprocess.CalledProcessError)):
        compare.cpu_seconds(tmp_path, "verification", 0.001, 0)


def test_other_benchmarks_count_with_all_their_processes(tmp_path: Path) -> None:
    """A benchmark without a workload runs as a program, and what its orphans use counts, too."""
    folder = tmp_path / "bench"
    folder.mkdir()
    for name in ("intervals", "replication", "verification"):
        (folder / f"{name}.py").touch()
    spin = "import time\\nwhile time.process_time() < 0.5: pass"
    (folder / "__main__.py").write_text(
        f'import subprocess, sys\nsubprocess.Popen([sys.executable, "-S", "-c", "{spin}"], start_new_session=True)\n'
    )
    command = [sys.executable, "-P", str(compare.WORKLOADS), "anything"]
    paths = f"{tmp_path}:{ROOT / 'src'}"
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": paths}, capture_output=True, text=True, check=True, timeout=60
    )

    assert 0.5 <= json.loads(done.stdout)["seconds"] < 5
