"""``culm completion``: a script that has a shell complete commands, options and file names, by the library shtab.

The script holds everything, so that a shell which completes a word starts no Python. It is of one version of Culm: make
it anew after an update, or have the shell make it when it starts.
"""

import argparse
import sys

from culm.cli.command import Commands
from culm.errors import ConfigError

SHELLS = ("bash", "zsh", "fish")
_FILES, _FOLDERS = ("FILE", "FILE|DIR", "INDEX"), ("DIR", "HOME")


def register(commands: Commands) -> None:
    """Add the command of this module."""
    completion = commands.add("completion", _completion)
    completion.add_argument("shell", choices=SHELLS, help="the shell that the script is for")


def _completion(arguments: argparse.Namespace) -> int:
    try:
        import shtab  # noqa: PLC0415 - an extra
    except ImportError:
        raise ConfigError("completion needs a library: pip install 'culm[terminal]'") from None
    parser = Commands().whole()
    _mark(parser, {**dict.fromkeys(_FILES, shtab.FILE), **dict.fromkeys(_FOLDERS, shtab.DIRECTORY)})
    sys.stdout.write(shtab.complete(parser, shell=arguments.shell).rstrip("\n") + "\n")
    return 0


def _mark(parser: argparse.ArgumentParser, completers: dict[str, object]) -> None:
    """Say of each argument, by what stands for its value, how it is completed."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for inner in action.choices.values():
                _mark(inner, completers)
        elif isinstance(action.metavar, str) and action.metavar in completers:
            action.complete = completers[action.metavar]  # type: ignore[attr-defined]  # shtab's
