"""``make mutants``: change the code in one place after another, and see whether a test notices.

Coverage says which lines the tests run, not whether they would notice that a line is wrong. So a sample of mutants
(``tests.mutants.operators``) is drawn with a seed. Each is put into a copy of ``src``. First the tests of its module
run, then those of its package, then the quick run of everything; the first failure kills it. A mutant that nothing
kills is a survivor, unless ``equivalent.txt`` says why it behaves as the code does.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest

from bench.harness import say
from tests.mutants.operators import Mutant, mutants
from tests.test_coverage_map import TESTED_IN, modules, namesakes

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PARTS = ("bamboo", "ranges", "wire", "store", "session", "node.sessions")
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
LEAST_KILLED = 0.97
_LEAST_SECONDS = 60  # for tests that take a moment: another process may hold them up
_PATIENCE = 5  # times what the tests take without a mutant: an endless loop is noticed, too


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


def stages(module: str) -> list[list[str]]:
    """What pytest is called with, one after the other: the narrowest tests first."""
    listed = [TESTS / f"{test}.py" for test, names in TESTED_IN.items() if module in names.split()]
    nearest = sorted({*namesakes(module), *listed})
    folder = TESTS.joinpath(*module.split(".")[:-1])
    found = [["--quick", *map(str, nearest)]] if nearest else []
    return [*found, [str(folder)], ["--quick", str(TESTS)]]


class Runner:
    """Runs tests against copies of ``src``: one copy for each process at a time."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self._copies: SimpleQueue[Path] = SimpleQueue()
        self._seconds: dict[tuple[str, ...], float] = {}
        for number in range(jobs):
            shutil.copytree(ROOT / "src", folder / str(number), ignore=shutil.ignore_patterns("__pycache__"))
            self._copies.put(folder / str(number))

    def kill(self, mutant: Mutant) -> str | None:
        """The name of the stage whose tests noticed, or None."""
        copy = self._copies.get()
        path = modules()[mutant.module]
        place = copy / path.relative_to(ROOT / "src")
        try:
            for stage in stages(mutant.module):
                limit = max(_LEAST_SECONDS, _PATIENCE * self._without(copy, stage))
                place.write_text(mutant.source, encoding="utf-8")
                noticed = self._failure(copy, stage, limit) is not None
                shutil.copyfile(path, place)
                if noticed:
                    return " ".join(Path(part).name for part in stage)
            return None
        finally:
            shutil.copyfile(path, place)
            self._copies.put(copy)

    def _without(self, copy: Path, stage: list[str]) -> float:
        """The seconds that the tests take as the code is."""
        if tuple(stage) not in self._seconds:
            began = time.monotonic()
            if (failure := self._failure(copy, stage, 3600)) is not None:
                raise Broken(f"pytest {' '.join(stage)} fails without a mutant; mend that first:\n{failure}")
            self._seconds[tuple(stage)] = time.monotonic() - began
        return self._seconds[tuple(stage)]

    @staticmethod
    def _failure(copy: Path, stage: list[str], limit: float) -> str | None:
        """How the tests failed, in a line or two; None if they passed."""
        # No bytecode: it is told apart by the second in which a file changed, and two mutants fit into one.
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        environment["CULM_QUICK_SECONDS"] = str(limit)  # A test that is slow today notices no mutant.
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *stage]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=limit, check=False, text=True
            )
        except subprocess.TimeoutExpired:
            return f"no end after {limit:.0f} s"
        if done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):  # No test of these is quick.
            return None
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR", "E  "))]
        return "\n".join(lines[-3:] or [done.stderr])


def main(arguments: list[str]) -> int:
    """Draw, run, and report; 1 if too many survive."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of culm (default: {' '.join(PARTS)})")
    parser.add_argument("--number", type=int, default=200, help="mutants to draw (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (default: one a core)"
    )
    options = parser.parse_args(arguments)
    drawn = draw(options.parts, options.number, options.seed)
    known = equivalents()
    candidates = [mutant for mutant in drawn if mutant.key not in known]
    say(f"{len(drawn)} mutants, {len(drawn) - len(candidates)} of them equivalent")
    survivors: list[Mutant] = []
    by_stage: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="culm-mutants-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        runner = Runner(Path(folder), options.jobs)
        for number, (mutant, killer) in enumerate(zip(candidates, pool.map(runner.kill, candidates), strict=True), 1):
            by_stage["nobody" if killer is None else killer] += 1
            say(f"{number:4} {'survives' if killer is None else 'killed'}: {mutant.key} (line {mutant.line})")
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
