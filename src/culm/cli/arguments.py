"""Types of arguments that many commands take. What a node is told stands in ``culm.cli.nodeoptions``."""

from collections.abc import Callable
from functools import partial

from culm.wire.places import parse_number


def number(name: str, least: int = 1) -> Callable[[str], int]:
    """The type of an argument that is a number, for ``add_argument``; ``name`` is what a message calls it."""
    return partial(parse_number, name=name, least=least)
