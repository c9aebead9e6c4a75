"""``python -m bench [NAME ...] [--json | --record]``: all benchmarks, or those named."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from bench import (
    balance,
    cluster,
    compression,
    fingerprint,
    following,
    intervals,
    library,
    negentropy,
    page,
    pipeline,
    proposals,
    proving,
    ranges,
    reading,
    receipts,
    receiver,
    replication,
    reporting,
    sealing,
    select,
    serving,
    sessions,
    shares,
    sizing,
    steps,
    storage,
    verification,
    views,
    web,
)
from bench.harness import Figure, from_json, report, touch_memory

BENCHMARKS = {
    "balance": balance.run,
    "verification": verification.run,
    "replication": replication.run,
    "intervals": intervals.run,
    "proposals": proposals.run,
    "compression": compression.run,
    "negentropy": negentropy.run,
    "ranges": ranges.run,
    "pipeline": pipeline.run,
    "skew": pipeline.run_skewed,
    "incremental": pipeline.run_incremental,
    "following": following.run,
    "reading": reading.run,
    "steps": steps.run,
    "report": reporting.run,
    "cluster": cluster.run,
    "fingerprint": fingerprint.run,
    "select": select.run,
    "sessions": sessions.run,
    "library": library.run,
    "sealing": sealing.run,
    "serving": serving.run,
    "receiver": receiver.run,
    "shares": shares.run,
    "proving": proving.run,
    "receipts": receipts.run,
    "sizing": sizing.run,
    "views": views.run,
    "storage": storage.run,
    "web": web.run,
}


def main() -> None:
    """Run what was named and print the figures."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default: all)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true")
    how.add_argument("--record", action="store_true", help="keep them in docs/figures.json, and write the pages anew")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}")
    names = arguments.names or list(BENCHMARKS)
    if arguments.record:
        try:
            page.clean_commit()  # Now, not after the hours that the benchmarks may take.
        except ValueError as error:
            parser.error(str(error))
    if not arguments.json:  # Then another process of this program, or ``bench.compare``, began before.
        touch_memory()
    if arguments.record:
        for name in names:
            figures = _alone(name)
            report(figures, as_json=False)
            page.keep(name, figures)
        page.main()
    elif len(names) == 1:
        report(BENCHMARKS[names[0]](), as_json=arguments.json)
    elif arguments.json:
        report([figure for name in names for figure in _alone(name)], as_json=True)
    else:
        for name in names:  # what is measured stands there, whatever becomes of the rest
            report(_alone(name), as_json=False)


def _alone(name: str) -> list[Figure]:
    """The figures of a benchmark in a process of its own: none finds another's memory, or Java, in use."""
    command = [sys.executable, "-m", "bench", name, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return [from_json(figure) for figure in json.loads(done.stdout)]


main()
