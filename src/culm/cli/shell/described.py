"""What the parsers know of the commands, for pages that are made from them: the site's, and the manual page."""

import argparse

# Options of every command: a page explains them once, not in each section.
EVERYWHERE = {"help", "home", "config", "json", "no_pager"}


def groups(parser: argparse.ArgumentParser) -> dict[str, list[argparse.Action]]:
    """The arguments of a command: first those without a heading, under "", then group by group."""
    found: dict[str, list[argparse.Action]] = {}
    for group in parser._action_groups:  # noqa: SLF001 - argparse has no other way to them
        title = "" if group.title in {"options", "positional arguments"} else group.title or ""
        if actions := [action for action in group._group_actions if action.dest not in EVERYWHERE]:  # noqa: SLF001
            found.setdefault(title, []).extend(actions)
    return found


def usage(parser: argparse.ArgumentParser) -> str:
    """One line of usage, without the options of every command."""
    text = " ".join(parser.format_usage().removeprefix("usage: ").split())
    for common in ("[-h]", "[--home DIR]", "[--config FILE]", "[--json]", "[--no-pager]"):
        text = text.replace(f" {common}", "", 1)
    return text


def value(action: argparse.Action) -> str:
    """What stands for an argument's value, or for the argument itself if it is no option: ``FILE``, ``a|b``."""
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    if action.choices:
        return "|".join(map(str, action.choices))
    return action.dest.upper() if action.option_strings else action.dest


def name(action: argparse.Action) -> str:
    """An argument as one types it: ``-n, --entries N``, or ``FILE``."""
    if not action.option_strings:
        return value(action)
    text = ", ".join(action.option_strings)
    return text if action.nargs == 0 else f"{text} {value(action)}"


def meaning(action: argparse.Action) -> str:
    """The help of an argument, with its values filled in."""
    text = action.help or ""
    return text % (vars(action) | {"prog": "culm"}) if "%(" in text else text
