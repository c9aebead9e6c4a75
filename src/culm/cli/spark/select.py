"""``culm spark select``: the entries that each of many requests selects."""

import argparse

from culm.cli.command import Commands
from culm.cli.output import print_json
from culm.cli.spark.options import add_place, add_signatures, job_options, print_counts


def register(spark: Commands) -> None:
    """Add the command of this module to the group of Spark's commands."""
    select = spark.add("select", _select, "select the entries of many requests at once")
    select.add_argument(
        "--input", metavar="STORE_OR_FILE", nargs="+", required=True, help="stores, export files, Parquet of entries"
    )
    select.add_argument("--requests", metavar="PATH", required=True, help="table: requester, author, log_id, ranges")
    select.add_argument("--bundles", action="store_true", help="also write an export bundle for each requester")
    add_place(select)
    add_signatures(select)


def _select(arguments: argparse.Namespace) -> int:
    from culm.spark.select.job import run_select  # noqa: PLC0415 - Spark is an extra

    summary = run_select(arguments.input, arguments.requests, bundles=arguments.bundles, **job_options(arguments))
    values = summary.as_dict()
    if arguments.json:
        print_json(values)
    else:
        print_counts({name: value for name, value in values.items() if name != "seconds"}, "number")
    return 1 if summary.rejects or summary.unreadable else 0
