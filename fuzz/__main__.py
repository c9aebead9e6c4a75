"""``python -m fuzz [TARGET ...]``: bytes of every kind into every place that reads foreign ones.

By time (``--minutes`` of CPU over all targets, the default) each target is fed in turn by workers on all cores, guided
by coverage where atheris is installed, starting from the corpus; inputs that reach something new, findings and the
ledger of all work are kept in ``--data``. By count (``--runs``) each target gets every truncation and single-byte
corruption of its valid messages, then that many byte strings, the same ones for the same ``--seed``.

Ends with 1 if a finding is open: one that is kept and that the present code does not answer as documented.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.run import corpus, coverage, findings, ledger
from fuzz.run.inputs import corruptions, random_inputs
from fuzz.run.runner import Runner
from fuzz.target import ROOT
from fuzz.topics import TOPICS, chosen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuzz.target import Target

_MINUTES = 10.0


def by_count(target: Target, runs: int, seed: int, data: Path) -> None:
    """Corruptions of the seeds, then random inputs; work and findings are kept like those of a run by time."""
    start, count = time.process_time(), 0
    found: list[str] = []
    known = [*target.seeds, *corpus.saved(target.name)]
    fixed = itertools.chain(known, *(corruptions(seed_) for seed_ in target.seeds))
    made = itertools.islice(random_inputs(known, random.Random(seed)), runs)
    for content in itertools.chain(fixed, made):
        error = target.outcome(content)
        count += 1
        if error is not None:
            name = findings.save(data, target.name, content, error)
            if name is not None:
                found.append(name)
                print(f"FINDING {name}: {type(error).__name__}: {error}", flush=True)
    spent = time.process_time() - start
    data.mkdir(parents=True, exist_ok=True)
    ledger.append(data, ledger.Stretch(target.name, ledger.version(), spent, count, tuple(found)))
    print(f"{target.name:24} {count:10,} inputs, {len(found) or 'no'} new findings ({spent:.0f} s)", flush=True)


def replay(files: Sequence[str]) -> int:
    """Run findings again, and show what they raise."""
    failed = False
    for file in map(Path, files):
        error = findings.replay(file)
        failed |= error is not None
        print(f"{file.name}: {'mended' if error is None else 'open'}")
        if error is not None:
            traceback.print_exception(error)
    return int(failed)


def summary(data: Path) -> int:
    """What has been done in sum, with what was kept; whether a finding is open."""
    stretches = [*ledger.read(ledger.KEPT), *ledger.read(data)]
    hours = sum(item.cpu for item in stretches) / 3600
    inputs = sum(item.inputs for item in stretches)
    still = findings.open_findings(data)
    for file in still:
        print(f"open: {file}\n  replay: python -m fuzz --replay {file}")
    print(f"{hours:.2f} CPU-hours in sum, {inputs:,} inputs, {len(still)} findings open")
    return int(bool(still))


def listing(available: Sequence[Target], data: Path) -> None:
    """Each target with what it had so far."""
    sums = ledger.by_target([*ledger.read(ledger.KEPT), *ledger.read(data)])
    for target in available:
        had = sums.get(target.name, ledger.Stretch(target.name, "", 0.0, 0))
        kept = len(corpus.saved(target.name))
        print(f"{target.name:24} {had.cpu / 60:8.1f} min {had.inputs:12,} inputs {kept:5} in its corpus")


def keep(target: Target, data: Path) -> None:
    """Make the saved corpus anew, of what it has and of the working one."""
    working = data / "corpus" / target.name
    found = [file.read_bytes() for file in working.iterdir()] if working.is_dir() else []
    kept = coverage.fewest(target, [*corpus.saved(target.name), *found], corpus.fits)
    corpus.save(target.name, kept)
    print(f"{target.name:24} {len(kept):5} of {len(found):6} kept, {sum(map(len, kept)):8,} bytes", flush=True)


def main() -> int:
    """Run the targets that were named, or all."""
    parser = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="names or topics, see --list (default: all)")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="of CPU over all (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="workers at once (default: %(default)s)")
    parser.add_argument("--runs", type=int, help="instead of by time: so many byte strings a target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=ROOT / "build" / "fuzz", help="where work is kept")
    parser.add_argument("--list", action="store_true", help="list the targets")
    parser.add_argument("--sum", action="store_true", help="only say what was done so far, and try its findings again")
    parser.add_argument("--keep", action="store_true", help="bring corpora and sums into the repository")
    parser.add_argument("--replay", nargs="+", metavar="FILE", help="run findings again")
    arguments = parser.parse_args()
    if arguments.replay:
        return replay(arguments.replay)
    data = arguments.data.resolve()
    if arguments.sum:
        return summary(data)
    try:
        found = chosen(arguments.targets or TOPICS)
    except KeyError as error:
        parser.error(f"there is no target {error}")
    if arguments.list:
        listing(found, data)
        return 0
    if arguments.keep:
        for target in found:
            keep(target, data)
        ledger.keep(data)
        return summary(data)
    if arguments.runs is not None:
        for target in found:
            by_count(target, arguments.runs, arguments.seed, data)
    else:
        Runner(found, data, arguments.jobs, arguments.seed).run(60 * arguments.minutes)
    return summary(data)


sys.exit(main())
