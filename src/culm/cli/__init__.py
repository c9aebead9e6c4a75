"""The command line: one module for each group of commands.

Each group module has a ``register`` function that adds its commands to the parser, and a function for each command that
gets the parsed arguments and returns the exit code. ``culm.cli.command`` puts them together.
"""

from culm.cli.command import main

__all__ = ["main"]
