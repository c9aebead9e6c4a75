"""``python -m storm``: one seed, with its trace, or many of them (``make storm``)."""

from __future__ import annotations

import argparse
import os
import sys
import time

from storm import slices
from storm.seeds import KINDS, failure_text, run_seed, storm

_HASH_SEED = "PYTHONHASHSEED"


def main(arguments: list[str]) -> int:
    """The command; 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m storm", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run this seed")
    which.add_argument("--seeds", type=int, help="run so many seeds")
    which.add_argument("--next", type=int, metavar="SEEDS", help="run so many fresh seeds, and note it")
    which.add_argument("--sum", action="store_true", help="say what was written down so far")
    parser.add_argument("--trace", action="store_true", help="with --seed: tell what happens")
    parser.add_argument("--first", type=int, default=0, help="with --seeds: begin with this one")
    parser.add_argument("--kind", choices=KINDS, default="nodes", help="whole nodes, or two endpoints of a protocol")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="with --seeds: processes")
    options = parser.parse_args(arguments)
    if options.sum:
        print(slices.summary())
        return 0
    if options.next is not None:
        first, code = slices.following(options.kind), slices.version()
        found = storm(first, options.next, options.jobs, sys.stdout, options.kind)
        slices.append(slices.Slice(options.kind, code, first, options.next, found.cpu, tuple(sorted(found.failed))))
        return bool(found.failed)
    if options.seeds is not None:
        return bool(storm(options.first, options.seeds, options.jobs, sys.stdout, options.kind).failed)
    if options.kind != "nodes":
        return bool(storm(options.seed, 1, 1, sys.stdout, options.kind).failed)
    started = time.process_time()
    outcome = run_seed(options.seed, print if options.trace else None)
    for failed in outcome.failures[:1]:
        sys.stdout.write(failure_text(options.seed, failed))
    seconds = time.process_time() - started
    sys.stdout.write(f"seed {options.seed}: {outcome.seconds:.1f} s, {seconds:.2f} s of CPU\n")
    return bool(outcome.failures)


if __name__ == "__main__":
    if os.environ.get(_HASH_SEED) != "0":  # the order of sets would be another one each time
        command = [sys.executable, "-m", "storm", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, _HASH_SEED: "0"})  # noqa: S606 - itself
    sys.exit(main(sys.argv[1:]))
