"""The ``culm`` command: its parser, and the one place where errors become lines and exit codes.

Commands form a tree: ``culm backup`` is a leaf, ``culm ranges show`` a leaf below a group. Every leaf takes the common
options ``--home``, ``--config``, ``--json`` and ``--no-pager``, before or after its name. A command never prints an
error itself. It raises an error of ``culm.errors``, whose kind decides the exit code, so that scripts can rely on these
numbers:

====  ======================================================
0     done
1     the data is bad or missing, or the store cannot hold it
2     the call is wrong
3     the peer or the network failed
130   interrupted; everything stored so far is kept
====  ======================================================
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from importlib import import_module
from typing import Any, NoReturn

import culm
from culm import native
from culm.cli.table import COMMANDS, GROUPS, SECTIONS
from culm.errors import ConfigError, CulmError, NetworkError, ProtocolError

EXIT_DATA, EXIT_CALL, EXIT_NETWORK, EXIT_INTERRUPTED = 1, 2, 3, 130

_HELP_WIDTH = 100  # columns of a help text, so that most commands take one line
# Look for garbage after so many new objects, not after 700: a batch has thousands, and none of them is garbage yet.
_COLLECT_AT = 20_000
_NO_COMMAND = r"argument COMMAND: invalid choice: (.*) \(choose from "


class _Parser(argparse.ArgumentParser):
    """Reports a wrong call in one short line, without the usage, which can be longer than a screen."""

    commands: Iterable[str] = ()  # The names of the commands below this one.
    _loose: argparse.Action | None = None  # The argument that can be left out: one word, or any number of them.

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - as argparse has it
        # ``add_argument`` makes a formatter, too. One that is told its width does not ask for the terminal's, which
        # would load all formats of archives.
        super().__init__(formatter_class=partial(argparse.HelpFormatter, width=_HELP_WIDTH), **settings)

    def format_help(self) -> str:
        """As in ``argparse``, in the width of the terminal."""
        self.formatter_class = argparse.HelpFormatter
        return super().format_help()

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:  # noqa: ANN401 - as argparse has it
        """As in ``argparse``, with note of an argument that may be empty."""
        action = super().add_argument(*names, **settings)
        if action.nargs in ("*", "?") and not action.option_strings:
            self._loose = action
        return action

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As in ``argparse``, but options may stand in front of words that can be left out, and nothing is unknown.

        In ``sync URL --clump NAME LOG`` argparse takes the empty place behind the URL as the list of logs, and does not
        know what to do with LOG. Python 3.13 mends that.
        """
        found, rest = super().parse_known_args(args, namespace)
        options = [word for word in rest if word.startswith("-") and word != "-"]
        if rest and (options or self._loose is None or not self._add(found, self._loose, rest)):
            self.error(f"unknown option {options[0]!r}" if options else f"unknown argument {rest[0]!r}")
        return found, []

    def _add(self, found: argparse.Namespace, action: argparse.Action, words: list[str]) -> bool:
        """Give an argument the words behind the options; whether it takes so many."""
        kind: Callable[[str], Any] = action.type if callable(action.type) else str
        before = getattr(found, action.dest)
        if action.nargs == "*":
            setattr(found, action.dest, [*before, *map(kind, words)])
        elif before is None and len(words) == 1:
            setattr(found, action.dest, kind(words[0]))
        else:
            return False
        return True

    def error(self, message: str) -> NoReturn:
        if (unknown := re.match(_NO_COMMAND, message, re.DOTALL)) is not None:
            from difflib import get_close_matches  # noqa: PLC0415 - only a mistyped command needs it

            meant = get_close_matches(unknown[1].strip("'"), [*self.commands, "help"], 1)
            message = f"there is no command {unknown[1]}" + (f"; did you mean {meant[0]}?" if meant else "")
        self.exit(EXIT_CALL, f"culm: {message} (see {self.prog} --help)\n")


class _Root(_Parser):
    """The parser of ``culm`` itself, whose help has the commands under headings."""

    def format_help(self) -> str:
        """As in ``argparse``; the list of commands is arranged by ``SECTIONS``, a line or two for each."""
        from textwrap import wrap  # noqa: PLC0415 - only the help needs it

        words = {word: text for commands in COMMANDS.values() for word, text in commands.items()}
        width = max(len(word) for names in SECTIONS.values() for word in names) + 4
        lines: list[str] = []
        for title, names in SECTIONS.items():
            lines += ["", f"{title}:"]
            for name in names:
                lines += wrap(
                    words[name], _HELP_WIDTH, initial_indent=f"  {name:{width - 2}}", subsequent_indent=" " * width
                )
        before, _, options = super().format_help().partition("positional arguments:")
        lines += ["", "culm help COMMAND shows what a command takes.", "", "options:"]
        return before.rstrip() + "\n" + "\n".join(lines) + options.partition("options:")[2]


class _Command:
    """A command of the table. It stands among the parsers of ``argparse``, but makes its own only when it is called."""

    def __init__(self, load: Callable[[], None], **settings: Any) -> None:  # noqa: ANN401 - as argparse has it
        self._load, self._settings = load, settings

    @cached_property
    def parser(self) -> _Parser:
        """The parser, which has no arguments of its own before ``load``."""
        return _Parser(allow_abbrev=False, **self._settings)

    def parse_known_args(self, args: Sequence[str], namespace: None) -> tuple[argparse.Namespace, list[str]]:
        """As in ``argparse``, which calls this when the command's word is given."""
        self._load()
        return self.parser.parse_known_args(args, namespace)


def _overview(arguments: argparse.Namespace) -> int:
    """What ``culm`` does without a command."""
    from culm.cli.welcome.overview import run  # noqa: PLC0415 - every other call would import the store for nothing

    return run(arguments)


class Commands:
    """All commands. Their words come from the table, their arguments from the modules."""

    def __init__(self) -> None:
        self.root = _Root(prog="culm", description=(culm.__doc__ or "").partition("\n")[0], allow_abbrev=False)
        self.root.add_argument("--version", action="version", version=f"culm {culm.__version__}, {native.description}")
        # The common options are accepted before and after the command. SUPPRESS keeps the parser of the command from
        # overwriting a value that was given before it with its own default.
        common = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
        for each in (self.root, common):
            each.add_argument(
                "--home",
                metavar="DIR",
                help="folder of the store and the identities (default: $CULM_HOME, else ~/.culm)",
            )
            each.add_argument("--config", metavar="FILE", help="configuration file (default: culm.toml in the home)")
            each.add_argument("--json", action="store_true", help="print the result as JSON")
            each.add_argument("--no-pager", action="store_true", help="never show a long list through $PAGER")
        self.common = [action for action in common._actions if action.option_strings]  # noqa: SLF001
        """The options of every command."""
        self.root.set_defaults(json=False, no_pager=False, run=_overview)
        self._waiting = set(COMMANDS)  # The modules that have not been imported.
        self._commands: dict[str, _Command] = {}
        self._places: dict[str, Any] = {}  # By group: its commands by name, as argparse looks them up.
        for module, commands in COMMANDS.items():
            for words, description in commands.items():
                load, parents = (
                    (partial(self._list, words), []) if words in GROUPS else (partial(self._load, module), [common])
                )
                self._commands[words] = _Command(load, prog=f"culm {words}", description=description, parents=parents)
        self._list("")

    def add(self, words: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        """Say what a command of the table does: ``run`` gets the parsed arguments and returns the exit code."""
        parser = self._commands[words].parser
        parser.set_defaults(run=run)
        return parser

    def loaded(self) -> dict[str, argparse.ArgumentParser]:
        """The parser of every command with all its arguments, by the words typed after ``culm``, as the help has them.

        Imports every module of the command line.
        """
        for module in COMMANDS:
            self._load(module)
        return {words: command.parser for words, command in self._commands.items() if words not in GROUPS}

    def whole(self) -> argparse.ArgumentParser:
        """The parser of ``culm`` with all the others in their places, for programs that go through the tree."""
        for group in GROUPS:
            self._list(group)
        self.loaded()
        for group in ("", *GROUPS):
            places = self._places[group]
            for name in places:
                places[name] = self._commands[f"{group} {name}".strip()].parser
        return self.root

    def _list(self, group: str) -> None:
        """Have the parser of a group take the name of one of its commands as its first word."""
        parser = self._commands[group].parser if group else self.root
        places = parser.add_subparsers(metavar="COMMAND", required=bool(group), parser_class=self._named)  # type: ignore[call-overload]
        parser.commands = self._places[group] = places.choices
        for commands in COMMANDS.values():
            for words, description in commands.items():
                if words.rpartition(" ")[0] == group:
                    places.add_parser(words.rpartition(" ")[2], help=description)

    def _named(self, *, prog: str) -> _Command:
        """What ``argparse`` takes for the class of parsers: it gets the program's name and all words of the command."""
        return self._commands[prog.removeprefix("culm ")]

    def _load(self, module: str) -> None:
        if module in self._waiting:
            self._waiting.remove(module)
            with _without_collections():
                imported = import_module(f"culm.cli.{module}")
            imported.register(self)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Collect no garbage meanwhile: an import makes hardly any, and looking for it takes a sixth of the import."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line. It imports the module of a command when it meets the command."""
    return Commands().root


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    gc.set_threshold(_COLLECT_AT)
    given = sys.argv[1:] if argv is None else list(argv)
    if given[:1] == ["help"]:
        given = [*given[1:], "--help"]
    try:
        arguments = make_parser().parse_args(given)  # Types of arguments, such as ``parse_log``, raise ConfigError.
        from culm.cli.arguments import look_up_names  # noqa: PLC0415 - the help and a wrong word need nothing of it

        look_up_names(arguments)
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except CulmError as error:
        print("culm:", " ".join(str(error).split()), file=sys.stderr)
        if isinstance(error, NetworkError | ProtocolError):
            return EXIT_NETWORK
        return EXIT_CALL if isinstance(error, ConfigError) else EXIT_DATA
    except KeyboardInterrupt:
        print("culm: interrupted; everything stored so far is kept", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe (``head``) has closed it, which is no error. Stdout goes to nowhere from here on,
        # because Python would otherwise report the broken pipe once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"culm: {where}{error.strerror or error}", file=sys.stderr)
        return EXIT_DATA
    return code
