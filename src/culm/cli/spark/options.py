"""What several commands of ``culm spark`` share: options, and how counts are shown."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from culm.cli.output import Stages, print_table

_LOCAL = "local[*]"


def add_place(parser: argparse.ArgumentParser, *, without_spark: str | None = None) -> None:
    """Add the options for where the results go and where Spark runs.

    ``without_spark`` is the help text on inputs that need no Spark, for commands that can do without; None for others.
    """
    add_output(parser)
    parser.add_argument(
        "--master",
        metavar="URL",
        default=None if without_spark else _LOCAL,
        help=f"the Spark master (default: {_LOCAL}{'; ' if without_spark else ''}{without_spark or ''})",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options for where the results go."""
    parser.add_argument(
        "--output", metavar="DIR", required=True, type=_place, help="folder or URI for results; this command makes it"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier output")


def _place(text: str) -> Any:  # noqa: ANN401 - a path, or a location of a package that is imported if it is needed
    if "://" not in text:
        return Path(text)
    from culm.spark.storage import target  # noqa: PLC0415 - Spark is an extra

    return target(text)


def state_folder(text: str) -> Path:
    """A folder for a state, which cannot be a URI."""
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"a state needs locks, which {text} has not; name a folder of this machine or of a shared disk"
        )
    return Path(text)


def job_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments that every job takes, from the options of ``add_place`` and ``add_signatures``."""
    given = vars(arguments)
    names = ("output", "master", "overwrite", "signatures")
    return {"progress": Stages(), **{name: given[name] for name in names if name in given}}


def print_counts(counts: Mapping[str, float], column: str = "count") -> None:
    """Print a table with a line for each count; numbers that are not whole have three decimals."""
    rows = [
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value:,.3f}")
        for name, value in counts.items()
    ]
    print_table(("", column), rows, right=(column,))


def add_signatures(parser: argparse.ArgumentParser) -> None:
    """Add the option for which signatures to check."""
    parser.add_argument(
        "--signatures",
        choices=("all", "heads"),
        default="all",
        help="check every signature (default), or only those of heads: entries that no later entry links to",
    )
