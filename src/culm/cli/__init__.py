"""The command line: a table of the commands (``culm.cli.table``), and modules that have a few related ones each.

A module has a ``register`` function that adds the arguments of its commands to their parsers, and a function for each
command that gets the parsed arguments and returns the exit code. ``culm.cli.command`` puts them together.
"""

from culm.cli.command import main

__all__ = ["main"]
