"""``culm name``: names for keys, which every command takes and shows."""

import argparse

from culm.cli.arguments import author_type
from culm.cli.command import Commands
from culm.cli.output import note, print_json, print_result, print_table
from culm.errors import ConfigError
from culm.node.home import Home
from culm.node.names import Name
from culm.wire.places import author_text


def register(commands: Commands) -> None:
    """Add the command of this module."""
    name = commands.add("name", _name)
    name.add_argument(
        "key", metavar="KEY", nargs="?", type=author_type, help="a key, or the name that it has (default: list all)"
    )
    name.add_argument("name", metavar="NAME", nargs="?", help="the name to give it, in place of the one that it has")
    name.add_argument("--remove", action="store_true", help="take the key's name away")


def _name(arguments: argparse.Namespace) -> int:
    home, key, name = Home.find(arguments.home), arguments.key, arguments.name
    if key is None:
        if arguments.remove:
            raise ConfigError("--remove needs a KEY or the name that it has")
        return _list(arguments, home)
    if arguments.remove == (name is not None):
        raise ConfigError("give a NAME for the key, or --remove")
    home.check()
    names = home.names()
    before = names.of.get(key)
    home.names_file.save(names.without(key) if name is None else names.with_name(key, Name(name)))
    shown = {"key": author_text(key), "name": name, "before": before.text if before else None}
    is_called = "has no name any more" if name is None else f"is {name}"
    print_result(arguments, shown, f"{author_text(key)} {is_called}")
    if name is not None and before is not None and before.text != name:
        note(f"it was {before.text} before")
    return 0


def _list(arguments: argparse.Namespace, home: Home) -> int:
    rows = [(name.text, author_text(key), name.suggested) for key, name in home.names().sorted()]
    if arguments.json:
        print_json([{"name": name, "key": key, "suggested": suggested} for name, key, suggested in rows])
    elif rows:
        table = [(name, key, "suggested by an invitation" if suggested else "") for name, key, suggested in rows]
        print_table(arguments, ("name", "key", ""), table)
    else:
        note("no key has a name; give one with: culm name KEY NAME")
    return 0
