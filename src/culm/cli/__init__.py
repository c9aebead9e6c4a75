"""The command line: one module for each group of commands."""

from culm.cli.command import main

__all__ = ["main"]
