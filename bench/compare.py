"""``python -m bench.compare --base COMMIT [NAME ...] [--json]``: whether the working tree is slower than a commit.

Both run the same work in turns, as pairs, and each pair gives a ratio: CPU seconds of the base divided by those of the
working tree (1.0: as fast; 0.9: the base needs nine tenths of the time). CPU time is compared, not wall time, because
other programs on the machine change it less. What is left of their influence hits both halves of a pair, and which half
comes first alternates, so that a machine that grows warmer or busier favours neither side.

The median of the ratios is told with an interval that contains the true median with a probability of at least 90 %,
however the ratios are distributed: the interval between two order statistics. Each ratio lies below the true median
with a probability of one half, so how many of n do so is binomial, and the k-th smallest and the k-th largest enclose
the median unless fewer than k of the ratios lie on one side of it. A bootstrap would not do: with so few pairs it can
only return the observed ratios, and its intervals are known to be too narrow. For 7 pairs only the smallest and the
largest ratio reach 90 %; 8 pairs may drop both extremes (93 %), hence the default.

A benchmark is "within 5 %" if its interval includes at least 0.95, that is, unless the pairs show that the working tree
is more than 5 % slower. The exit code is 1 if one is not.

The base is taken out of git into ``build/compare/COMMIT`` and runs its own ``bench`` (see ``bench.workloads``), with
the same interpreter and the same installed dependencies as the working tree.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness import say

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
WORKLOADS = Path(__file__).with_name("workloads.py")
NAMES = ("verification", "replication", "intervals", "proposals")
PAIRS = 8
LEAST_PAIRS = 7
CONFIDENCE = 0.9
GOAL = 0.95
_WARMING = 0.01  # of the work, before the first pair: Python writes its bytecode then, and a base that cannot run fails


@dataclass(frozen=True, slots=True)
class Comparison:
    """CPU seconds of one benchmark on both sides, pair by pair."""

    name: str
    base: tuple[float, ...]
    tree: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Base divided by working tree, in the order of the pairs."""
        return [base / tree for base, tree in zip(self.base, self.tree, strict=True)]

    @property
    def within(self) -> bool:
        """Whether the median's interval includes at least ``GOAL``."""
        return interval(self.ratios)[1] >= GOAL

    def text(self) -> str:
        """One line for people."""
        ratios = self.ratios
        low, high = interval(ratios)
        verdict = "within 5 %" if self.within else "NOT within 5 %"
        return (
            f"{self.name:14} median {statistics.median(ratios):.3f}, 90 % interval {low:.3f} to {high:.3f},"
            f" all {min(ratios):.3f} to {max(ratios):.3f}; CPU {statistics.median(self.base):.2f} s,"
            f" now {statistics.median(self.tree):.2f} s: {verdict}"
        )

    def to_json(self) -> dict[str, Any]:
        """The same for programs; ``interval`` and ``range`` are [lowest, highest]."""
        ratios = self.ratios
        return {
            "name": self.name,
            "base_seconds": self.base,
            "tree_seconds": self.tree,
            "ratios": ratios,
            "median": statistics.median(ratios),
            "interval": interval(ratios),
            "range": (min(ratios), max(ratios)),
            "within": self.within,
        }


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The narrowest symmetric pair of order statistics that encloses the median with ``CONFIDENCE``.

    Raises ValueError for fewer than five values: then even the smallest and the largest miss the median too often.
    """
    ordered, count = sorted(values), len(values)
    outside = 1.0  # of 2 ** count equally likely cases: those in which one side of the median has no value at all
    if 1 - 2 * outside / 2**count < CONFIDENCE:
        raise ValueError(f"{count} values give no interval of {CONFIDENCE:.0%} for their median: at least 5 do")
    dropped = 0
    while 1 - 2 * (outside + math.comb(count, dropped + 1)) / 2**count >= CONFIDENCE:
        dropped += 1
        outside += math.comb(count, dropped)
    return ordered[dropped], ordered[-1 - dropped]


def checkout(commit: str) -> Path:
    """The folder with ``src`` and ``bench`` of a commit; taken out of git if it is not there yet.

    An archive instead of ``git worktree``, which would leave an entry in ``.git`` when somebody deletes ``build``.
    """
    folder = ROOT / "build" / "compare" / commit
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        archive = _git("archive", commit, "src", "bench")
        archive.check_returncode()
        with tempfile.TemporaryDirectory(dir=folder.parent) as unpacked:
            with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
                files.extractall(unpacked, filter="data")
            Path(unpacked).rename(folder)  # only now, so that an interrupted extraction is not taken for the whole
            Path(unpacked).mkdir()
    return folder


def resolve(name: str) -> str:
    """The full hash of a commit; ValueError if git knows none of that name."""
    found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if found.returncode:
        raise ValueError(f"git knows no commit {name!r}")
    return found.stdout.decode().strip()


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)  # noqa: S607 - as in PATH


def cpu_seconds(side: Path, name: str, scale: float, seed: int) -> float:
    """What the work of one benchmark takes with the code of one side; ``scale`` 1.0 is its usual amount.

    Both halves of a pair get the same ``seed`` for Python's hashes, because the order of sets can change the work.
    """
    paths = os.pathsep.join((str(side / "src"), str(side)))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": str(seed)}
    # -P, because the folder of the script has modules with names of Python's own (select, compression).
    command = [sys.executable, "-P", str(WORKLOADS), name, "--scale", str(scale)]
    done = subprocess.run(command, cwd=side, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    for module in ("bench", "culm"):
        if not Path(found[module]).is_relative_to(side):
            raise RuntimeError(f"the side {side} ran {found[module]}, which is another side's {module}")
    return float(found["seconds"])


def compare(base: Path, name: str, pairs: int, scale: float = 1.0) -> Comparison:
    """Run one benchmark on both sides in turns; about ten seconds of CPU for each of the two times ``pairs`` runs."""
    sides = (base, ROOT)
    if name in NAMES:
        for side in sides:
            cpu_seconds(side, name, scale * _WARMING, 0)
    seconds: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 == 0 else (1, 0):
            seconds[which].append(cpu_seconds(sides[which], name, scale, pair))
        say(f"{name}: pair {pair + 1} of {pairs}, ratio {seconds[0][-1] / seconds[1][-1]:.3f}")
    return Comparison(name, tuple(seconds[0]), tuple(seconds[1]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare what was named; 1 if a benchmark is not within 5 %."""
    parser = argparse.ArgumentParser(prog="bench.compare", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benchmarks (default: {' '.join(NAMES)})")
    parser.add_argument("--base", required=True, metavar="COMMIT", help="the commit to compare the working tree with")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"at least {LEAST_PAIRS}, default {PAIRS}")
    parser.add_argument("--scale", type=float, default=1.0, help="do this many times the usual work, default 1.0")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.pairs < LEAST_PAIRS:
        parser.error(f"--pairs must be at least {LEAST_PAIRS}, because fewer say too little about the median")
    if not chosen.scale > 0:
        parser.error("--scale must be greater than 0")
    try:
        commit = resolve(chosen.base)
    except ValueError as error:
        parser.error(f"--base: {error} (make compare BASE=COMMIT)")
    base, results = checkout(commit), []
    for name in chosen.names or NAMES:
        results.append(compare(base, name, chosen.pairs, chosen.scale))
        if not chosen.json:
            print(results[-1].text(), flush=True)
    if chosen.json:
        print(json.dumps({"base": commit, "benchmarks": [result.to_json() for result in results]}, indent=2))
    return 0 if all(result.within for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
