"""``culm spark forks``: every fork across many stores and files, with its proof."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from culm.cli.command import Commands
from culm.cli.output import note, print_json, print_table
from culm.cli.spark.options import add_place, add_signatures, job_options, print_counts

if TYPE_CHECKING:
    from culm.spark.forks_job import Forks

_SHOWN = 20  # forks in the table; the output folder has all


def register(spark: Commands) -> None:
    """Add the command of this module to the group of Spark's commands."""
    forks = spark.add("forks", _forks, "find every fork, its proof, and how far each log is valid")
    forks.add_argument("inputs", metavar="STORE_OR_FILE", nargs="+", help="stores, export files, Parquet of entries")
    add_place(forks, without_spark="small inputs need no Spark")
    add_signatures(forks)


def _forks(arguments: argparse.Namespace) -> int:
    from culm.spark.forks_job import run_forks  # noqa: PLC0415 - Spark is an extra

    found = run_forks(arguments.inputs, **job_options(arguments))
    if arguments.json:
        print_json(found.as_dict())
    else:
        _print(found, arguments.output)
    return 1 if found.forks or found.rejects else 0


def _print(found: Forks, output: Path) -> None:
    counts = {"entries": found.entries, "logs": found.logs, "forked logs": found.forks, "rejects": found.rejects}
    if found.unproved:
        counts["unproved forks"] = found.unproved
    print_counts(counts)
    if not found.first:
        return
    shown = found.first[:_SHOWN]
    rows = [(fork.log, fork.position, fork.valid_to, fork.explain()) for fork in shown]
    print()
    print_table(("log", "forked at", "valid to", "proof"), rows, right=("forked at", "valid to"))
    if found.forks > len(shown):
        note(f"... and {found.forks - len(shown):,} more; all are in {output / 'forks'}")
