"""``python -m crash``: kill the program at random moments, look at what is left, print what was found.

Kills are spread evenly over the kinds of scenes; those that hit a program before or after its work are counted apart.
With a finding the exit code is 1, and the folder is kept, with a command that plays the same scene again: the same
course, killed at moments chosen in the same way, as far as the machine's timing allows.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from crash.planning import Plan
from crash.scenes import SCENES
from crash.workers import Workers

DEFAULT_KILLS = 1000
_TOLD_SECONDS = 60.0


def main() -> int:
    """Read the arguments, and do it."""
    parser = argparse.ArgumentParser(prog="crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=DEFAULT_KILLS, help="how many (default: %(default)s)")
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help=f"of {', '.join(SCENES)} (default: all)")
    parser.add_argument("--scenes", type=int, help="so many scenes of each kind, however many kills these are")
    parser.add_argument("--seed", type=int, help="of the first scene of each kind (default: by chance)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--folder", type=Path, help="where to work (default: where temporary files go)")
    parser.add_argument("--kept", type=Path, default=Path("build/crash"), help="for findings (default: %(default)s)")
    arguments = parser.parse_args()
    kinds = arguments.kinds or list(SCENES)
    if unknown := [kind for kind in kinds if kind not in SCENES]:
        parser.error(f"there is no kind {unknown[0]!r}")
    seed = random.SystemRandom().getrandbits(31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    plan = Plan(kinds, arguments.kills, arguments.scenes, seed)
    folder = Path(tempfile.mkdtemp(prefix="culm-crash-", dir=arguments.folder))
    began = told = time.monotonic()
    try:
        workers = Workers(arguments.workers, folder, arguments.kept.absolute(), seed)
        for task, tally in workers.run(plan):
            plan.take(task, tally)
            for finding in tally.findings:
                print(f"FINDING in {task.name} (seed {task.seed}): {finding}", flush=True)
            if time.monotonic() - told > _TOLD_SECONDS:
                told = time.monotonic()
                print(f"{plan.kills} kills, {workers.cpu:.0f} CPU seconds", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(plan.report(workers.cpu, time.monotonic() - began)))
    return 1 if any(tally.findings for tally in plan.tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
