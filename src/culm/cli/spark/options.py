"""Options that several commands of ``culm spark`` share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

_LOCAL = "local[*]"


def add_place(parser: argparse.ArgumentParser, *, without_spark: str | None = None) -> None:
    """Add the options for where the results go and where Spark runs.

    ``without_spark`` is the help text on inputs that need no Spark, for commands that can do without; None for others.
    """
    parser.add_argument("--output", metavar="DIR", required=True, help="folder for the results; this command makes it")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier output")
    parser.add_argument(
        "--master",
        metavar="URL",
        default=None if without_spark else _LOCAL,
        help=f"the Spark master (default: {_LOCAL}{'; ' if without_spark else ''}{without_spark or ''})",
    )


def add_signatures(parser: argparse.ArgumentParser) -> None:
    """Add the option for which signatures to check."""
    parser.add_argument(
        "--signatures",
        choices=("all", "heads"),
        default="all",
        help="check every signature (default), or only those of heads: entries that no later entry links to",
    )
