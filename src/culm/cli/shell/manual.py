"""``culm manual``: the manual page, for ``man``. A packager writes it to ``share/man/man1/culm.1``.

It is made from the parsers when it is asked for, so it cannot become outdated, and nobody has to write it twice.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator

import culm
from culm.cli.command import Commands
from culm.cli.shell.described import groups, meaning, name, usage

_SUMMARY = (culm.__doc__ or "").partition("\n")[0].removeprefix("Culm: ").rstrip(".")
_EXIT_CODES = {
    "0": "Done. Also of a sync that found a fork: it prints a warning.",
    "1": "The data is bad or missing, or the store cannot hold it.",
    "2": "The call is wrong.",
    "3": "The peer or the network failed.",
    "130": "Interrupted; everything stored so far is kept.",
}
_ENVIRONMENT = {
    "CULM_HOME": "The home, if --home is not given.",
    "CULM_PASSPHRASE": "The passphrase of sealed identities, instead of a question.",
    "CULM_HTTP_TOKEN": "The token of the status page.",
    "CULM_NATIVE": "off does without the native core.",
    "PAGER": "Shows lists that are longer than the terminal: less, if it is not set; and nothing if it is empty.",
}
_FILES = {
    "~/.culm": "The home, if neither --home nor CULM_HOME names another one.",
    "HOME/culm.toml": "The configuration; culm config --example prints one with all settings.",
}


def register(commands: Commands) -> None:
    """Add the command of this module."""
    commands.add("manual", _manual)


def _manual(arguments: argparse.Namespace) -> int:  # noqa: ARG001 - it has no options
    # With SOURCE_DATE_EPOCH two builds of one version are the same, byte by byte (https://reproducible-builds.org).
    made = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    sys.stdout.write(page(time.strftime("%Y-%m-%d", time.gmtime(made))))
    return 0


def page(date: str) -> str:
    """The whole page in roff, with macros of man(7); ``date`` stands at its foot."""
    commands = Commands()
    parsers = commands.loaded()
    lines = [
        f'.TH CULM 1 "{date}" "culm {culm.__version__}"',
        ".SH NAME",
        f"culm \\- {_text(_SUMMARY)}",
        ".SH SYNOPSIS",
        ".B culm",
        _text("COMMAND [--home DIR] [--config FILE] [--json] [--no-pager] [argument ...]"),
        ".SH DESCRIPTION",
        _text(
            "Culm replicates, verifies and analyses Bamboo logs: append-only logs of one author each, whose entries are"
            " signed and linked. Data goes to stdout, everything else to stderr."
        ),
        ".PP",
        _text("Wherever AUTHOR is expected, a key of 43 characters, 64 hex digits, or a name from culm name is taken."),
        ".SH OPTIONS OF EVERY COMMAND",
        *(line for action in commands.common for line in _argument(name(action), meaning(action))),
        ".SH COMMANDS",
        *(line for words, parser in parsers.items() for line in _command(words, parser)),
    ]
    for title, rows in (("EXIT STATUS", _EXIT_CODES), ("ENVIRONMENT", _ENVIRONMENT), ("FILES", _FILES)):
        lines += [f".SH {title}", *(line for row in rows.items() for line in _argument(*row))]
    return "\n".join(lines) + "\n"


def _command(words: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    description = parser.description or ""
    yield f".SS culm {_text(words)}"
    yield _text(f"{description[:1].upper()}{description[1:]}.")
    yield ".PP"
    yield f".B {_text(usage(parser))}"
    for title, actions in groups(parser).items():
        if title:
            yield ".PP"
            yield _text(f"{title[:1].upper()}{title[1:]}:")
        for action in actions:
            yield from _argument(name(action), meaning(action))


def _argument(term: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {_text(term)}"
    yield _text(text) or r"\&"


def _text(text: str) -> str:
    r"""Text that roff prints unchanged: no escape, no request, and each - as one that can be copied and searched."""
    text = re.sub(r"\s+", " ", text).replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return rf"\&{text}" if text.startswith((".", "'")) else text
