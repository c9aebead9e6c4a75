"""``culm spark report``: an HTML page and tables about the results of a verification."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from culm.bamboo.decimal import size_text
from culm.cli.output import Stages, print_json, print_table
from culm.cli.spark.options import add_place
from culm.wire.places import parse_number

if TYPE_CHECKING:
    import argparse

    from culm.cli.command import Commands


def register(spark: Commands) -> None:
    """Add the command of this module to the group of Spark's commands."""
    report = spark.add("report", _report, "make a page and tables of what culm spark verify found")
    report.add_argument(
        "results", metavar="VERIFY_DIR|STATE", help="an output folder or a state folder of culm spark verify"
    )
    report.add_argument(
        "--logs",
        metavar="N",
        default="25",
        help="show the coverage of the N largest logs and of the N with most problems (default: 25, at most 100)",
    )
    add_place(report, without_spark="up to 2 million entries need no Spark")


def _report(arguments: argparse.Namespace) -> int:
    from culm.spark.report import PAGE, run  # noqa: PLC0415 - Spark is an extra

    output = Path(arguments.output)
    made = run(
        arguments.results,
        output,
        logs=parse_number(arguments.logs, "number of logs", 1),
        master=arguments.master,
        overwrite=arguments.overwrite,
        progress=Stages(),
    )
    if arguments.json:
        print_json({**made.as_dict(), "page": str(output / PAGE)})
        return 0
    counts = {name: value for name, value in made.as_dict().items() if name not in ("page_bytes", "seconds")}
    rows = [(name.replace("_", " "), f"{value:,}") for name, value in counts.items()]
    print_table(("", "count"), rows, right=("count",))
    print(f"{output / PAGE}: {size_text(made.page_bytes)}")
    return 0
