"""The reference of the command line as a page of the docs, made from the parsers so that it cannot become outdated."""

import argparse
import re
from collections.abc import Iterator

from culm.cli.command import Commands
from culm.cli.shell.described import groups, meaning, name, usage


def page() -> str:
    """A section for every command, in Markdown."""
    return "\n".join("\n".join(_section(words, parser)) for words, parser in Commands().loaded().items())


def _section(words: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    description = parser.description or ""
    yield f"## `culm {words}`\n\n{_plain(description[:1].upper() + description[1:])}.\n"
    yield f"```text\n{usage(parser)}\n```\n"
    for title, actions in groups(parser).items():
        yield f"| {_plain(title)} | |\n|---|---|"
        for action in actions:
            yield f"| {_name(action)} | {_plain(meaning(action))} |"
        yield ""


def _name(action: argparse.Action) -> str:
    return f"`{_cell(name(action))}`"


def _plain(text: str) -> str:
    """Text with Markdown's special characters escaped."""
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", text)


def _cell(text: str) -> str:
    """Code in a table's cell, with bars escaped, because a bar would start the next cell."""
    return text.replace("|", "\\|")
