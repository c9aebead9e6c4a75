"""``culm spark``: verify, compare and select logs that are too large for one machine.

Here are the commands that verify entries of stores and files, find forks in them and select from them, and the one that
reports on a verification. The others have modules of their own.

Spark is an optional package that takes seconds to import. So these modules import ``culm.spark`` inside their
functions: ``culm --help`` works without it, and other commands start fast.
"""

import argparse

from culm.bamboo.decimal import size_text
from culm.cli.arguments import number
from culm.cli.command import Commands
from culm.cli.output import note, print_json, print_result, print_table
from culm.cli.spark.options import add_place, add_signatures, job_options, print_counts, state_folder

_INPUTS = "stores, export files, Parquet of entries; folders, globs and URIs of them"
_SHOWN = 20  # forks in the table; the output folder has all


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    verify = commands.add("spark verify", _verify)
    verify.add_argument("--input", metavar="INPUT", nargs="+", required=True, help=_INPUTS)
    add_place(verify, without_spark="small inputs need no Spark")
    add_signatures(verify)
    verify.add_argument(
        "--state",
        metavar="DIR",
        type=state_folder,
        help="verify only what is new since the last run with this state folder",
    )
    verify.add_argument("--forks", action="store_true", help="also write the proofs of forks")
    verify.add_argument(
        "--table",
        metavar="CATALOG.DB.NAME",
        help="also write the verdicts to this table; with --state, merge them into it (needs Spark)",
    )
    verify.add_argument(
        "--output-format",
        choices=("parquet", "delta", "iceberg"),
        default="parquet",
        help="the format of the --table (default: parquet, which has no merging)",
    )
    forks = commands.add("spark forks", _forks)
    forks.add_argument("inputs", metavar="INPUT", nargs="+", help=_INPUTS)
    add_place(forks, without_spark="small inputs need no Spark")
    add_signatures(forks)
    report = commands.add("spark report", _report)
    report.add_argument(
        "results", metavar="VERIFY_DIR|STATE", help="an output folder or a state folder of culm spark verify"
    )
    report.add_argument(
        "--logs",
        metavar="N",
        type=number("number of logs"),
        default=25,
        help="show the coverage of the N largest logs and of the N with most problems (default: 25, at most 100)",
    )
    add_place(report, without_spark="up to 2 million entries need no Spark")
    select = commands.add("spark select", _select)
    select.add_argument("--input", metavar="INPUT", nargs="+", required=True, help=_INPUTS)
    select.add_argument("--requests", metavar="PATH", required=True, help="table: requester, author, log_id, ranges")
    select.add_argument("--bundles", action="store_true", help="also write an export bundle for each requester")
    add_place(select)
    add_signatures(select)


def _verify(arguments: argparse.Namespace) -> int:
    from culm.spark.job import run  # noqa: PLC0415 - Spark is an extra

    summary = run(
        arguments.input,
        state=arguments.state,
        with_forks=arguments.forks,
        table=arguments.table,
        table_format=arguments.output_format,
        **job_options(arguments),
    )
    print_result(arguments, summary.as_dict(), summary.table())
    return 1 if summary.invalid or summary.forks or summary.rejects or summary.payload_mismatches else 0


def _forks(arguments: argparse.Namespace) -> int:
    from culm.spark.forks_job import run_forks  # noqa: PLC0415 - Spark is an extra

    found = run_forks(arguments.inputs, **job_options(arguments))
    if arguments.json:
        print_json(found.as_dict())
    else:
        counts = {"entries": found.entries, "logs": found.logs, "forked logs": found.forks, "rejects": found.rejects}
        if found.unproved:
            counts["unproved forks"] = found.unproved
        print_counts(counts)
        rows = [(fork.log, fork.position, fork.valid_to, fork.explain()) for fork in found.first[:_SHOWN]]
        if rows:
            print()
            print_table(("log", "forked at", "valid to", "proof"), rows, right=("forked at", "valid to"))
            if found.forks > len(rows):
                note(f"... and {found.forks - len(rows):,} more; all are in {arguments.output / 'forks'}")
    return 1 if found.forks or found.rejects else 0


def _report(arguments: argparse.Namespace) -> int:
    from culm.spark.report import PAGE, run  # noqa: PLC0415 - Spark is an extra

    page = arguments.output / PAGE
    made = run(arguments.results, logs=arguments.logs, **job_options(arguments))
    if arguments.json:
        print_json({**made.as_dict(), "page": str(page)})
        return 0
    print_counts({name: value for name, value in made.as_dict().items() if name not in ("page_bytes", "seconds")})
    print(f"{page}: {size_text(made.page_bytes)}")
    return 0


def _select(arguments: argparse.Namespace) -> int:
    from culm.spark.select.job import run_select  # noqa: PLC0415 - Spark is an extra

    summary = run_select(arguments.input, arguments.requests, bundles=arguments.bundles, **job_options(arguments))
    values = summary.as_dict()
    if arguments.json:
        print_json(values)
    else:
        print_counts({name: value for name, value in values.items() if name != "seconds"}, "number")
    return 1 if summary.rejects or summary.unreadable else 0
