"""The command line: a table of the commands (``culm.cli.table``), and modules that have a few related ones each.

A module has a ``register`` function that adds the arguments of its commands to their parsers, and a function for each
command that gets the parsed arguments and returns the exit code. ``culm.cli.command`` puts them together.
"""

import gc
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    was_enabled = gc.isenabled()
    gc.disable()  # An import makes hardly any garbage, and looking for it takes a tenth of the import.
    try:
        from culm.cli import command  # noqa: PLC0415 - see above
    finally:
        if was_enabled:
            gc.enable()
    return command.main(argv)
