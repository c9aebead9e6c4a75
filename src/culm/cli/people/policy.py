"""``culm share``, ``unshare``, ``allow``, ``block``, ``policy``: what a node shares, and with which peers.

These commands change the policy file of the home; ``culm share`` also says in the store in which clumps a log is
served (``culm.store.provenance``). A running node watches both and takes changes up at once.
"""

import argparse
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from culm.cli.arguments import author_type, log_type
from culm.cli.command import Commands
from culm.cli.nodeoptions import add_clump, chosen_clump
from culm.cli.output import print_result
from culm.errors import ConfigError
from culm.node.home import Home
from culm.types import Log
from culm.wire.places import author_text, clump_name, log_text

_LISTS = ("allow_peers", "block_peers", "allow_authors", "block_authors")


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    share = commands.add("share", _share)
    unshare = commands.add("unshare", _unshare)
    for parser in (share, unshare):
        parser.add_argument("log", metavar="AUTHOR/LOG", type=log_type, help="the log")
        add_clump(parser)
    share.add_argument("--everywhere", action="store_true", help="in every clump, whatever this node is part of")
    for verb in ("allow", "block"):
        parser = commands.add(verb, partial(_list, verb))
        parser.add_argument(
            "kind", choices=("peer", "author"), help="a peer to talk to, or an author whose logs to store"
        )
        parser.add_argument(
            "key",
            metavar="KEY",
            type=author_type,
            help="43 base62 characters, 64 hex digits, or a name that you have given",
        )
        parser.add_argument("--remove", action="store_true", help="take the key off the list")
        add_clump(parser)
    policy = commands.add("policy", _policy)
    add_clump(policy)


def _share(arguments: argparse.Namespace) -> int:
    """Take a log off the lists of those not shared. If it was not there, mark it for the clump."""
    home, log = Home.find(arguments.home), arguments.log
    # The clump of the configuration does not narrow a log of every clump: only one that is named with the command.
    is_named = arguments.clump is not None or arguments.clump_hex is not None
    if arguments.everywhere and is_named:
        raise ConfigError("--everywhere means every clump; leave out the clump, or --everywhere")
    unshared = home.policy_file.unshared().get(log, [])
    if arguments.everywhere:
        for clump in unshared:
            _take_off(home, clump, log)
        with home.store() as store:
            store.share(log, None)
        return _say_shared(arguments, home, log, None)
    clump = chosen_clump(arguments)
    if clump in unshared:
        _take_off(home, clump, log)
    with home.store() as store:
        if store.clumps_of(log) is not None or (is_named and clump not in unshared):
            store.share(log, clump)
        clumps = store.clumps_of(log)
    return _say_shared(arguments, home, log, clumps)


def _take_off(home: Home, clump: bytes, log: Log) -> None:
    policy = home.policy_file.load(clump)
    home.policy_file.save(clump, replace(policy, unshared=policy.unshared - {log}))


def _say_shared(arguments: argparse.Namespace, home: Home, log: Log, clumps: Collection[bytes] | None) -> int:
    names = None if clumps is None else sorted(map(clump_name, clumps))
    where = "in every clump" if names is None else f"in {', '.join(names)}"
    print_result(arguments, {"log": log_text(log), "clumps": names}, f"{home.names().log(log)} is shared {where}")
    return 0


def _unshare(arguments: argparse.Namespace) -> int:
    _change_list(arguments, "unshared", arguments.log, remove=False)
    name, shown = clump_name(chosen_clump(arguments)), Home.find(arguments.home).names().log(arguments.log)
    about = {"log": log_text(arguments.log), "unshared": name}
    print_result(arguments, about, f"{shown} is not shared in {name}")
    return 0


def _list(verb: str, arguments: argparse.Namespace) -> int:
    return _change_list(arguments, f"{verb}_{arguments.kind}s", arguments.key, remove=arguments.remove)


def _change_list(arguments: argparse.Namespace, name: str, item: bytes | Log, *, remove: bool) -> int:
    file, clump = Home.find(arguments.home).policy_file, chosen_clump(arguments)
    policy = file.load(clump)
    items = getattr(policy, name)
    file.save(clump, replace(policy, **{name: items - {item} if remove else items | {item}}))
    return 0


def _policy(arguments: argparse.Namespace) -> int:
    home = Home.find(arguments.home)
    names, policy = home.names(), home.policy_file.load(chosen_clump(arguments))

    def listed(author: Callable[[bytes], str], log: Callable[[Log], str]) -> dict[str, list[str]]:
        lists = {name: sorted(map(author, getattr(policy, name))) for name in _LISTS}
        return lists | {"unshared": sorted(map(log, policy.unshared))}

    shown, for_people = listed(author_text, log_text), listed(names.author, names.log)
    lines = [f"{name.replace('_', ' '):14} {', '.join(values) or '-'}" for name, values in for_people.items()]
    print_result(arguments, shown, *lines)
    return 0
