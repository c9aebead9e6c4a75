"""``culm spark report``: an HTML page and tables about the results of a verification."""

import argparse

from culm.bamboo.decimal import size_text
from culm.cli.command import Commands
from culm.cli.nodeoptions import number
from culm.cli.output import print_json
from culm.cli.spark.options import add_place, job_options, print_counts


def register(spark: Commands) -> None:
    """Add the command of this module to the group of Spark's commands."""
    report = spark.add("report", _report, "make a page and tables of what culm spark verify found")
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
