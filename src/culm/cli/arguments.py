"""What many commands say of their arguments. What a node is told stands in ``culm.cli.nodeoptions``."""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from culm.wire.places import parse_number


def number(name: str, least: int = 1) -> Callable[[str], int]:
    """The type of an argument that is a number, for ``add_argument``; ``name`` is what a message calls it."""
    return partial(parse_number, name=name, least=least)


def place(text: str) -> Any:  # noqa: ANN401 - a path, or a location of a package that is imported if it is needed
    """The type of an argument that is a folder, or the URI of one."""
    if "://" not in text:
        return Path(text)
    from culm.spark.storage import target  # noqa: PLC0415 - Spark is an extra

    return target(text)


def add_options(parser: argparse.ArgumentParser, options: Mapping[str, Mapping[str, Any]]) -> None:
    """Add options to a parser: by the name of each what ``add_argument`` takes."""
    for name, settings in options.items():
        parser.add_argument(name, **settings)
