"""``culm group``: lists of readers that are published as entries (docs/specs/sealed.md, "A group list").

The list is read in the transaction that appends the next one. So two commands at the same time cannot lose a change:
the second one waits, and starts from the list of the first.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from culm.cli.arguments import log_type, number, text_type
from culm.cli.command import Commands
from culm.cli.identity import ask_passphrase
from culm.cli.output import counted, print_result
from culm.errors import ConfigError
from culm.node.home import Home
from culm.sealing import Group, newest_group, reader_of
from culm.sealing.readers import AGE_KEY, recipient_of
from culm.types import Log
from culm.wire.places import author_text, log_text, parse_author, place_text

_Change = Callable[[Sequence[str], Sequence[str]], Sequence[str]]


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    for verb, change, count in (("set", _set, "*"), ("add", _added, "+"), ("remove", _removed, "+")):
        changing = commands.add(f"group {verb}", partial(_publish, change))
        changing.add_argument(
            "log_id", metavar="LOG_ID", type=number("log id", 0), help="your log that has the lists of this group only"
        )
        changing.add_argument(
            "readers", metavar="READER", type=text_type, nargs=count, help="an author, or an age key (age1...)"
        )
        changing.add_argument(
            "--identity", metavar="NAME", help="identity that signs the list (default: the default identity)"
        )
    show = commands.add("group show", _show)
    show.add_argument("log", metavar="AUTHOR/LOG", type=log_type, help="the group")


def _set(_: Sequence[str], given: Sequence[str]) -> Sequence[str]:
    return given


def _added(before: Sequence[str], given: Sequence[str]) -> Sequence[str]:
    if known := [reader for reader in given if reader in before]:
        raise ConfigError(f"{known[0]} is on the list already")
    return [*before, *given]


def _removed(before: Sequence[str], given: Sequence[str]) -> Sequence[str]:
    if strange := [reader for reader in given if reader not in before]:
        raise ConfigError(f"{strange[0]} is not on the list")
    return [reader for reader in before if reader not in given]


def _publish(change: _Change, arguments: argparse.Namespace) -> int:
    home = Home.find(arguments.home)
    given = list(dict.fromkeys(map(reader_of, arguments.readers)))
    for reader in given:
        if AGE_KEY.fullmatch(reader):
            recipient_of(reader)  # A typing error in one key would keep everybody from sealing for the group.
    made: list[Group] = []
    with home.store() as store:
        identity = home.identity(arguments.identity, ask_passphrase)
        log: Log = identity.public, arguments.log_id

        def payload() -> Iterator[bytes]:
            before = newest_group(store, log, may_be_new=True)
            made.append(Group(log, before.seq + 1, tuple(change(before.readers, given))))
            yield made[0].encode()

        entry = store.append(identity, arguments.log_id, payload())
    readers, names = made[0].readers, home.names()
    name = names.of.get(identity.public)
    group = log_text(entry.log) if name is None else f"{name.text}/{arguments.log_id}"
    print_result(
        arguments,
        {"place": place_text(entry.place), "group": log_text(entry.log), "readers": list(readers)},
        f"{names.place(entry.place)}: {counted(len(readers), 'reader')}; seal for them with: --for {group}",
    )
    return 0


def _show(arguments: argparse.Namespace) -> int:
    home = Home.find(arguments.home)
    with home.store(read_only=True) as store:
        group = newest_group(store, arguments.log)
    names = home.names()
    readers = (reader if AGE_KEY.fullmatch(reader) else names.author(parse_author(reader)) for reader in group.readers)
    shown = {"group": log_text(group.log), "author": author_text(group.log[0]), "seq": group.seq}
    print_result(arguments, shown | {"readers": list(group.readers)}, *readers)
    return 0
