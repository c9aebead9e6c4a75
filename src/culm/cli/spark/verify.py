"""``culm spark``: verify, compare and select logs that are too large for one machine.

Spark is an optional package that takes seconds to import. So these modules import ``culm.spark`` inside their
functions: ``culm --help`` works without it, and other commands start fast.
"""

import argparse
from pathlib import Path

from culm.cli.command import Commands
from culm.cli.output import print_json
from culm.cli.spark import forks, plan, reconcile, report, select, simulate
from culm.cli.spark.options import add_place, add_signatures, job_options


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    spark = commands.group("spark", "verify, compare, select and report on Spark")
    verify = spark.add("verify", _verify, "verify every entry of many stores and files")
    verify.add_argument("--input", metavar="STORE_OR_FILE", nargs="+", required=True, help="stores and export files")
    add_place(verify, without_spark="small inputs need no Spark")
    add_signatures(verify)
    verify.add_argument(
        "--state", metavar="DIR", type=Path, help="verify only what is new since the last run with this state folder"
    )
    verify.add_argument("--forks", action="store_true", help="also write the proofs of forks")
    for group in (forks, report, select, reconcile, plan, simulate):
        group.register(spark)


def _verify(arguments: argparse.Namespace) -> int:
    from culm.spark.job import run  # noqa: PLC0415 - Spark is an extra

    summary = run(arguments.input, state=arguments.state, with_forks=arguments.forks, **job_options(arguments))
    if arguments.json:
        print_json(summary.as_dict())
    else:
        print(summary.table())
    return 1 if summary.invalid or summary.forks or summary.rejects or summary.payload_mismatches else 0
