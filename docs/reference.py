"""The reference of the command line as a page of the docs, made from the parsers so that it cannot become outdated."""

import argparse
import re
from collections.abc import Iterator

from culm.cli.command import Commands

# Options of every command: the page explains them once, not in each section.
_EVERYWHERE = {"help", "home", "config", "json"}


def page() -> str:
    """A section for every command, in Markdown."""
    return "\n".join("\n".join(_section(name, parser)) for name, parser in Commands().loaded().items())


def _section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    description = parser.description or ""
    yield f"## `culm {name}`\n\n{_plain(description[:1].upper() + description[1:])}.\n"
    yield f"```text\n{_usage(parser)}\n```\n"
    for title, actions in _groups(parser).items():
        yield f"| {_plain(title)} | |\n|---|---|"
        for action in actions:
            yield f"| {_name(action)} | {_meaning(action)} |"
        yield ""


def _groups(parser: argparse.ArgumentParser) -> dict[str, list[argparse.Action]]:
    """The arguments of a command: first those without a heading, then group by group."""
    found: dict[str, list[argparse.Action]] = {}
    for group in parser._action_groups:  # noqa: SLF001
        title = "" if group.title in {"options", "positional arguments"} else group.title or ""
        if actions := [action for action in group._group_actions if action.dest not in _EVERYWHERE]:  # noqa: SLF001
            found.setdefault(title, []).extend(actions)
    return found


def _usage(parser: argparse.ArgumentParser) -> str:
    """One line of usage, without the options of every command."""
    text = " ".join(parser.format_usage().removeprefix("usage: ").split())
    for common in ("[-h]", "[--home DIR]", "[--config FILE]", "[--json]"):
        text = text.replace(f" {common}", "", 1)
    return text


def _name(action: argparse.Action) -> str:
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    value = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return f"`{_cell(value if action.metavar or action.choices else action.dest)}`"
    text = ", ".join(action.option_strings)
    return f"`{_cell(text if action.nargs == 0 else f'{text} {value}')}`"


def _meaning(action: argparse.Action) -> str:
    help_text = action.help or ""
    values = vars(action) | {"prog": "culm"}
    return _plain(help_text % values if "%(" in help_text else help_text)


def _plain(text: str) -> str:
    """Text with Markdown's special characters escaped."""
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", text)


def _cell(text: str) -> str:
    """Code in a table's cell, with bars escaped, because a bar would start the next cell."""
    return text.replace("|", "\\|")
