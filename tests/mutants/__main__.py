"""``make mutants``: change the code in one place after another, and see whether a test notices.

Coverage says which lines the tests run, not whether they would notice that a line is wrong. So a sample of mutants
(``tests.mutants.operators``) is drawn with a seed. No test can notice a line that it does not run; so the quick tests
run once without a mutant, while coverage writes down which lines each of them runs, and of each mutant only those tests
run that run its line: those of its module first. Nine of ten are tried in place (``tests.mutants.inplace``), with few
examples. What survives that, and what changes more than functions, is put into a copy of ``src`` for processes of its
own, with all examples and all tests of its package. The first failure kills the mutant. One that nothing kills is a
survivor, unless ``equivalent.txt`` says why it behaves as the code does.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest
from coverage import CoverageData

from bench.harness import say
from tests import quick
from tests.mutants.inplace import InPlace, Verdict
from tests.mutants.operators import Mutant, mutants
from tests.test_coverage_map import TESTED_IN, modules, namesakes

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PARTS = ("bamboo", "ranges", "wire", "store", "session", "node.sessions")
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
LEAST_KILLED = 0.97
_SECONDS = 120  # that a test may take: another process may hold it up, and an endless loop is noticed, too
_SECONDS_IN_ALL = 3600
# Tests that start a process cannot be seen into, those that start Spark take long.
_SEEN_INTO = "not spark and not subprocess and not long and not cluster and not lakehouse"
# Python's own watchdog also ends a loop in C, which a thread that looks at the clock does not.
_WATCHED = ["--timeout=0", "-o", f"faulthandler_timeout={_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"]
_PATIENT = {"CULM_QUICK_SECONDS": str(_SECONDS)}  # A test that is slow today notices no mutant.
_UNORDERED = ["-p", "no:cacheprovider", "-p", "no:randomly"]


class Broken(Exception):
    """The tests fail without a mutant, so they say nothing."""


def draw(parts: list[str], number: int, seed: int) -> list[Mutant]:
    """So many mutants of the modules of some parts, the same for the same seed and code."""
    found = [
        mutant
        for name, path in sorted(modules().items())
        if any(f"{name}.".startswith(f"{part}.") for part in parts)
        for mutant in mutants(name, path.read_text(encoding="utf-8"))
    ]
    return random.Random(seed).sample(found, min(number, len(found)))


def equivalents() -> dict[str, str]:
    """The mutants that change no behaviour, each with the reason: lines of ``KEY # REASON``."""
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    pairs = (line.rpartition(" # ") for line in lines if line and not line.startswith("#"))
    return {key: reason for key, _, reason in pairs}


class Reached:
    """Which tests run which lines."""

    def __init__(self, file: Path) -> None:
        self._data = CoverageData(str(file))
        self._data.read()

    @staticmethod
    def record(file: Path, jobs: int) -> None:
        """Run the quick tests, and write down what they run."""
        command = [*_pytest(), f"--numprocesses={jobs}", "--max-worker-restart=0", "--quick"]
        command += ["--cov=culm", "--cov-context=test", "--cov-report=", str(TESTS)]
        environment = {**os.environ, "COVERAGE_FILE": str(file), **_PATIENT}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, text=True)
        if done.returncode:
            raise Broken(f"the tests fail without a mutant; mend that first:\n{done.stdout[-3000:]}{done.stderr}")

    def tests(self, mutant: Mutant) -> dict[str, int]:
        """The functions that run a mutant's lines: 0 for those of its module, 1 of its package, 2 for others."""
        nearest, package = near(mutant.module)
        found = sorted(self._contexts(mutant) - {""})
        return {name: _rank(_file(name), nearest, package) for name in found}

    def is_imported(self, mutant: Mutant) -> bool:
        """Whether a mutant's lines run when its module is imported, so that they concern all tests."""
        return "" in self._contexts(mutant)

    def _contexts(self, mutant: Mutant) -> set[str]:
        contexts = self._data.contexts_by_lineno(str(modules()[mutant.module]))
        return {_function(context) for line in mutant.lines for context in contexts.get(line, ())}


def is_current(lines: Path, *folders: Path) -> bool:
    """Whether a record of which tests run which lines is there, and no module has changed since.

    Otherwise lines would have moved, and pytest fails for a test that is gone, which would look like a mutant noticed.
    """
    newest = max(path.stat().st_mtime for folder in folders for path in folder.rglob("*.py"))
    return lines.exists() and lines.stat().st_mtime >= newest


def _function(context: str) -> str:
    """``tests/test_a.py::test_b[c]|run`` is a context; the empty one is what runs while modules are imported."""
    return context.partition("[")[0].partition("|")[0]


def _rank(file: Path, nearest: list[Path], package: Path) -> int:
    return 0 if file in nearest else 1 if package in file.parents else 2


def _file(name: str) -> Path:
    return ROOT / name.partition("::")[0]


def near(module: str) -> tuple[list[Path], Path]:
    """The test modules of a module, and the folder of its package's tests."""
    listed = [TESTS / f"{test}.py" for test, names in TESTED_IN.items() if module in names.split()]
    return sorted({*namesakes(module), *listed}), TESTS.joinpath(*module.split(".")[:-1])


def _pytest() -> list[str]:
    return [sys.executable, "-m", "pytest", "-x", "-q", *_UNORDERED]


class Runner:
    """Runs tests against copies of ``src``: one copy for each process at a time."""

    def __init__(self, folder: Path, jobs: int, reached: Reached) -> None:
        self._copies: SimpleQueue[Path] = SimpleQueue()
        self._reached = reached
        for number in range(jobs):
            shutil.copytree(ROOT / "src", folder / str(number), ignore=shutil.ignore_patterns("__pycache__"))
            self._copies.put(folder / str(number))

    def kill(self, mutant: Mutant) -> str | None:
        """The name of the stage whose tests noticed, or None."""
        copy = self._copies.get()
        path = modules()[mutant.module]
        place = copy / path.relative_to(ROOT / "src")
        place.write_text(mutant.source, encoding="utf-8")
        try:
            for name, stage in self._stages(mutant, copy.with_suffix(".tests")):
                if self._failed(copy, stage):
                    return name
            return None
        finally:
            shutil.copyfile(path, place)
            self._copies.put(copy)

    def _stages(self, mutant: Mutant, file: Path) -> Iterator[tuple[str, list[str]]]:
        """What pytest is called with, one after the other: few examples first."""
        nearest, package = near(mutant.module)
        tests = self._reached.tests(mutant)
        concerns_all = self._reached.is_imported(mutant) or not tests
        if concerns_all and nearest:
            yield "tests of the module, few examples", ["--quick", *map(str, nearest)]
        yield "tests of the package", ["-m", _SEEN_INTO, str(package)]
        if concerns_all:
            yield "all tests, few examples", ["--quick", str(TESTS)]
        else:
            file.write_text("\n".join(tests), encoding="utf-8")
            yield "tests that run the line", ["-m", _SEEN_INTO, f"@{file}"]

    @staticmethod
    def _failed(copy: Path, stage: list[str]) -> bool:
        """Whether tests fail, or do not end."""
        # No bytecode: it is told apart by the second in which a file changed, and two mutants fit into one.
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", **_PATIENT}
        command = [*_pytest(), *_WATCHED, *stage]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=_SECONDS_IN_ALL, check=False
            )
        except subprocess.TimeoutExpired:
            return True
        return done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def main(arguments: list[str]) -> int:
    """Draw, run, and report; 1 if too many survive."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of culm (default: {' '.join(PARTS)})")
    parser.add_argument("--number", type=int, default=200, help="mutants to draw (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (default: one a core)"
    )
    parser.add_argument("--lines", type=Path, help="file that keeps which tests run which lines until a module changes")
    options = parser.parse_args(arguments)
    drawn = draw(options.parts, options.number, options.seed)
    known = equivalents()
    candidates = [mutant for mutant in drawn if mutant.key not in known]
    say(f"{len(drawn)} mutants, {len(drawn) - len(candidates)} of them equivalent")
    with tempfile.TemporaryDirectory(prefix="culm-mutants-") as folder:
        lines = options.lines or Path(folder) / "lines"
        if not is_current(lines, ROOT / "src", TESTS):
            lines.parent.mkdir(parents=True, exist_ok=True)
            lines.unlink(missing_ok=True)
            say("the quick tests run once without a mutant, to see which lines they run")
            Reached.record(lines, options.jobs)
        reached = Reached(lines)
        say(f"{len(candidates)} mutants in place")
        in_place = in_place_verdicts(candidates, options.jobs, reached)
        left = [mutant for mutant in candidates if in_place[mutant] is not Verdict.NOTICED]
        say(f"{len(left)} mutants in processes of their own")
        by_stage: Counter[str] = Counter({"tests in place": len(candidates) - len(left)})
        survivors: list[Mutant] = []
        runner = Runner(Path(folder), options.jobs, reached)
        with ThreadPoolExecutor(options.jobs) as pool:
            for mutant, killer in zip(left, pool.map(runner.kill, left), strict=True):
                by_stage[killer or "nobody"] += 1
                say(f"{'killed' if killer else 'survives'}: {_named(mutant)}")
                if killer is None:
                    survivors.append(mutant)
    for stage, count in by_stage.most_common():
        say(f"{count:5} killed by {stage}")
    killed = len(candidates) - len(survivors)
    say(f"{killed} of {len(candidates)} killed ({killed / max(1, len(candidates)):.1%}); seed {options.seed}")
    return 0 if killed >= LEAST_KILLED * len(candidates) else 1


def in_place_verdicts(mutants: list[Mutant], jobs: int, reached: Reached) -> dict[Mutant, Verdict]:
    """What becomes of mutants in place."""
    verdicts: dict[Mutant, Verdict] = {}

    def hear(mutant: Mutant, verdict: Verdict) -> None:
        verdicts[mutant] = verdict
        say(f"{len(verdicts):4} {verdict.name.lower()}: {_named(mutant)}")

    quick.CPU_SECONDS = _SECONDS
    trial = InPlace(mutants, jobs, reached.tests, hear)
    options = ["--quick", "-s", "-q", "--no-header", "--no-summary", *_UNORDERED, "--timeout=0"]
    # This module has imported some of the tests' modules, whose asserts pytest can no longer rewrite.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main([*options, str(TESTS)], plugins=[trial])
    if code or len(verdicts) < len(mutants):
        raise Broken("the tests could not be run in place; make quick says more")
    for name in trial.failing:
        say(f"fails without a mutant, so it is left out: {name}")
    return verdicts


def _named(mutant: Mutant) -> str:
    return f"{mutant.key} (line {mutant.lines[-1]})"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Broken as broken:
        sys.exit(str(broken))
