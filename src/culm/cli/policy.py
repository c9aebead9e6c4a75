"""``culm share``, ``unshare``, ``allow``, ``block``, ``policy``: what a node shares, and with which peers.

These commands only change the policy file of the home. A running node watches that file and takes changes up at once.
"""

import argparse
from dataclasses import replace
from functools import partial

from culm.cli.command import Commands
from culm.cli.nodeoptions import add_clump, chosen_clump
from culm.cli.output import print_result
from culm.node.home import Home
from culm.types import Log
from culm.wire.places import author_text, log_text, parse_author, parse_log

_LISTS = ("allow_peers", "block_peers", "allow_authors", "block_authors")


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    for verb, description in (("share", "announce and send a log again"), ("unshare", "never announce or send a log")):
        parser = commands.add(verb, partial(_share, verb), description)
        parser.add_argument("log", metavar="AUTHOR/LOG", type=parse_log, help="the log")
        add_clump(parser)
    for verb, description in (
        ("allow", "talk only to listed peers, or store only logs of listed authors"),
        ("block", "never talk to a peer, or never store an author's logs"),
    ):
        parser = commands.add(verb, partial(_list, verb), description)
        parser.add_argument(
            "kind", choices=("peer", "author"), help="a peer to talk to, or an author whose logs to store"
        )
        parser.add_argument("key", metavar="KEY", type=parse_author, help="43 base62 characters or 64 hex digits")
        parser.add_argument("--remove", action="store_true", help="take the key off the list")
        add_clump(parser)
    policy = commands.add(
        "policy", _policy, "show the peers and authors that are allowed and blocked, and the logs that are not shared"
    )
    add_clump(policy)


def _share(verb: str, arguments: argparse.Namespace) -> int:
    return _change_list(arguments, "unshared", arguments.log, remove=verb == "share")


def _list(verb: str, arguments: argparse.Namespace) -> int:
    return _change_list(arguments, f"{verb}_{arguments.kind}s", arguments.key, remove=arguments.remove)


def _change_list(arguments: argparse.Namespace, name: str, item: bytes | Log, *, remove: bool) -> int:
    file, clump = Home.find(arguments.home).policy_file, chosen_clump(arguments)
    policy = file.load(clump)
    items = getattr(policy, name)
    file.save(clump, replace(policy, **{name: items - {item} if remove else items | {item}}))
    return 0


def _policy(arguments: argparse.Namespace) -> int:
    policy = Home.find(arguments.home).policy_file.load(chosen_clump(arguments))
    shown = {name: sorted(author_text(key) for key in getattr(policy, name)) for name in _LISTS}
    shown["unshared"] = sorted(log_text(log) for log in policy.unshared)
    lines = [f"{name.replace('_', ' '):14} {', '.join(values) or '-'}" for name, values in shown.items()]
    print_result(arguments, shown, *lines)
    return 0
