"""``python -m bench [NAME ...] [--json]``: all benchmarks, or those named."""

from __future__ import annotations

import argparse

from bench import (
    cluster,
    compression,
    fingerprint,
    intervals,
    negentropy,
    pipeline,
    proposals,
    ranges,
    replication,
    select,
    sessions,
    steps,
    verification,
)
from bench.harness import report

BENCHMARKS = {
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
    "steps": steps.run,
    "cluster": cluster.run,
    "fingerprint": fingerprint.run,
    "select": select.run,
    "sessions": sessions.run,
}


def main() -> None:
    """Run what was named and print the figures."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}")
    figures = [figure for name in arguments.names or BENCHMARKS for figure in BENCHMARKS[name]()]
    report(figures, as_json=arguments.json)


main()
