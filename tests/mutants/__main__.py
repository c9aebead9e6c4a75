"""``make mutants``: change the code in one place after another, and see whether a test notices.

Coverage says which lines the tests run, not whether they would notice that a line is wrong. So a sample of mutants
(``tests.mutants.operators``) is drawn with a seed, and each is put into a copy of ``src``. No test can notice a line
that it does not run; so all tests run once without a mutant, while coverage writes down which lines each of them runs,
and of each mutant only those tests run that run its line: those of its module first, first with few examples. A line
that runs when its module is imported concerns all tests. The first failure kills the mutant. One that nothing kills is
a survivor, unless ``equivalent.txt`` says why it behaves as the code does.
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
        """Run all tests that can be seen into, and write down what they run."""
        command = [*_pytest(), f"--numprocesses={jobs}", "--dist=loadgroup", "--max-worker-restart=0", "-m", _SEEN_INTO]
        command += ["--cov=culm", "--cov-context=test", "--cov-report=", str(TESTS)]
        environment = {**os.environ, "COVERAGE_FILE": str(file)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, text=True)
        if done.returncode:
            raise Broken(f"the tests fail without a mutant; mend that first:\n{done.stdout[-3000:]}{done.stderr}")

    def tests(self, mutant: Mutant) -> list[str] | None:
        """The functions that run a mutant's lines, those of its module first. None: all may, or none can be seen to."""
        contexts = self._data.contexts_by_lineno(str(modules()[mutant.module]))
        found = {_function(context) for line in mutant.lines for context in contexts.get(line, ())}
        if not found or "" in found:
            return None
        nearest, package = near(mutant.module)
        return sorted(found, key=lambda name: (_file(name) not in nearest, package not in _file(name).parents, name))


def is_current(lines: Path, *folders: Path) -> bool:
    """Whether a record of which tests run which lines is there, and no module has changed since.

    Otherwise lines would have moved, and pytest fails for a test that is gone, which would look like a mutant noticed.
    """
    newest = max(path.stat().st_mtime for folder in folders for path in folder.rglob("*.py"))
    return lines.exists() and lines.stat().st_mtime >= newest


def _function(context: str) -> str:
    """``tests/test_a.py::test_b[c]|run`` is a context; the empty one is what runs while modules are imported."""
    return context.partition("[")[0].partition("|")[0]


def _file(name: str) -> Path:
    return ROOT / name.partition("::")[0]


def near(module: str) -> tuple[list[Path], Path]:
    """The test modules of a module, and the folder of its package's tests."""
    listed = [TESTS / f"{test}.py" for test, names in TESTED_IN.items() if module in names.split()]
    return sorted({*namesakes(module), *listed}), TESTS.joinpath(*module.split(".")[:-1])


def _pytest() -> list[str]:
    return [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]


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
        tests = self._reached.tests(mutant)
        if tests is not None:
            file.write_text("\n".join(tests), encoding="utf-8")
            yield "tests that run the line, few examples", ["--quick", f"@{file}"]
            yield "tests that run the line", ["-m", _SEEN_INTO, f"@{file}"]
            return
        nearest, package = near(mutant.module)
        if nearest:
            yield "tests of the module", ["--quick", *map(str, nearest)]
        yield "tests of the package", [str(package)]
        yield "all tests, few examples", ["--quick", str(TESTS)]

    @staticmethod
    def _failed(copy: Path, stage: list[str]) -> bool:
        """Whether tests fail, or do not end."""
        # No bytecode: it is told apart by the second in which a file changed, and two mutants fit into one.
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        environment["CULM_QUICK_SECONDS"] = str(_SECONDS)  # A test that is slow today notices no mutant.
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
    survivors: list[Mutant] = []
    by_stage: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="culm-mutants-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        lines = options.lines or Path(folder) / "lines"
        if not is_current(lines, ROOT / "src", TESTS):
            lines.parent.mkdir(parents=True, exist_ok=True)
            lines.unlink(missing_ok=True)
            say("all tests run once without a mutant, to see which lines they run")
            Reached.record(lines, options.jobs)
        runner = Runner(Path(folder), options.jobs, Reached(lines))
        for number, (mutant, killer) in enumerate(zip(candidates, pool.map(runner.kill, candidates), strict=True), 1):
            by_stage["nobody" if killer is None else killer] += 1
            say(f"{number:4} {'survives' if killer is None else 'killed'}: {mutant.key} (line {mutant.lines[-1]})")
            if killer is None:
                survivors.append(mutant)
    killed = len(candidates) - len(survivors)
    for stage, count in by_stage.most_common():
        say(f"{count:5} killed by {stage}")
    say(f"{killed} of {len(candidates)} killed ({killed / max(1, len(candidates)):.1%}); seed {options.seed}")
    return 0 if killed >= LEAST_KILLED * len(candidates) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Broken as broken:
        sys.exit(str(broken))
