"""``culm follow``, ``unfollow``, ``following``: what a node asks peers for.

A new node asks for everything that its policy allows. The first ``follow`` changes that: from then on the node asks
only for what it follows, and for its own logs. That surprises people, so the command says so when it happens.
"""

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from culm.app.names import followed
from culm.bamboo import MAX_U64
from culm.cli.arguments import named, number
from culm.cli.command import Commands
from culm.cli.nodeoptions import add_clump, add_sizes, chosen_clump, clump_text, parse_what
from culm.cli.output import note, print_json, print_table
from culm.errors import ConfigError, EncodingError
from culm.node.home import Home
from culm.node.names import Names
from culm.ranges import Range, RangeSet, decode, size_limits, write_range
from culm.types import Log
from culm.wire.places import author_text, log_text, parse_number

What = bytes | Log
_what = partial(named, parse_what)


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    follow = commands.add("follow", _follow)
    follow.add_argument("what", metavar="AUTHOR[/LOG]", type=_what, help="an author (for all of its logs) or one log")
    seq = number("sequence number")
    follow.add_argument("--from", dest="first", metavar="N", type=seq, default=1, help="first entry (default: 1)")
    follow.add_argument("--to", dest="last", metavar="N", type=seq, help="last entry (default: no end)")
    follow.add_argument(
        "--sparse", action="store_true", help="only the entries on the shortest path of links between the two"
    )
    add_sizes(follow)
    follow.add_argument(
        "--without-payload", metavar="SEQ,...", type=_numbers, default=(), help="skip the payloads of these entries"
    )
    follow.add_argument(
        "--add", action="store_true", help="keep the ranges that you follow already (default: replace them)"
    )
    add_clump(follow)
    unfollow = commands.add("unfollow", _unfollow)
    unfollow.add_argument(
        "what",
        metavar="AUTHOR[/LOG]",
        nargs="?",
        type=_what,
        help="the author or log, as you gave it to culm follow",
    )
    unfollow.add_argument("--all", action="store_true", help="forget all that you follow, and ask for everything again")
    add_clump(unfollow)
    following = commands.add("following", _following)
    add_clump(following)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(parse_number(part.strip(), "sequence number", 1) for part in text.split(",") if part)


def _text(what: What) -> str:
    return log_text(what) if isinstance(what, tuple) else author_text(what)


def _range(arguments: argparse.Namespace) -> Range:
    first, last = arguments.first, arguments.last
    if last is not None and last < first:
        raise ConfigError(f"--from {first} --to {last}: the range ends before it begins")
    least, greatest = arguments.min_payload or 0, arguments.max_payload
    if greatest is not None and least > greatest:
        raise ConfigError(
            f"--min-payload {least} --max-payload {greatest}: the least size is above the greatest, so no payload fits"
        )
    forbidden = arguments.without_payload
    for seq in forbidden:
        if not first <= seq <= (MAX_U64 if last is None else last):
            raise ConfigError(f"--without-payload {seq}: entry {seq} is not in the range from --from to --to")
    least, limit = size_limits(least, greatest)
    item = Range(first, last, sparse=arguments.sparse, least_size=least, size_limit=limit, forbidden=forbidden)
    try:
        decode(item.encode())
    except EncodingError:
        raise ConfigError(
            "--without-payload: too many numbers for one range; follow it as several ranges, with --add"
        ) from None
    return item


def _follow(arguments: argparse.Namespace) -> int:
    what, item = arguments.what, _range(arguments)
    home, clump = Home.find(arguments.home), chosen_clump(arguments)
    names = home.names()
    home.store(read_only=True).close()  # fails if there is no home; otherwise the command would make a policy file only
    policy = home.policy_file.load(clump)
    changed = followed(policy, what, item, add=arguments.add)
    home.policy_file.save(clump, changed)
    before, ranges = (policy.interests or {}).get(what), (changed.interests or {})[what]
    if arguments.json:
        print_json({"what": _text(what), "ranges": _ranges(ranges)})
        return 0
    print(f"following {names.what(what)}: {_shown(ranges)}")
    if before is not None and not arguments.add and before != ranges:
        note(f"this replaces: {_shown(before)} (use --add to keep both)")
    if policy.interests is None:
        note(f"{clump_text(clump)} your node now asks only for what you follow, and for your own logs")
    author = what[0] if isinstance(what, tuple) else what
    if not policy.admits_author(author):
        note("the policy does not allow this author, so nothing will arrive (see: culm policy)")
    return 0


def _unfollow(arguments: argparse.Namespace) -> int:
    if (arguments.what is None) == (not arguments.all):
        raise ConfigError("give either AUTHOR[/LOG] or --all")
    home, clump = Home.find(arguments.home), chosen_clump(arguments)
    names, policy = home.names(), home.policy_file.load(clump)
    rest = None if arguments.all else dict(policy.interests or {})
    if rest is not None and rest.pop(arguments.what, None) is None:
        what = arguments.what
        raise ConfigError(f"{clump_text(clump)} you do not follow {names.what(what)}{_hint(names, what, rest)}")
    home.policy_file.save(clump, replace(policy, interests=rest))
    where = clump_text(clump)
    if arguments.json:
        print_json({"following": None if rest is None else sorted(map(_text, rest))})
    elif rest is None:
        print(f"{where} your node asks for everything that the policy allows")
    elif rest:
        print(f"{where} you still follow {len(rest)}")
    else:
        print(f"{where} you follow nothing any more, so your node asks only for your own logs")
        note("to ask for everything again: culm unfollow --all")
    return 0


def _hint(names: Names, what: What, rest: Mapping[What, RangeSet]) -> str:
    """A hint for a name that is not followed: what is followed of the same author."""
    author = what[0] if isinstance(what, tuple) else what
    near = [names.what(other) for other in rest if (other[0] if isinstance(other, tuple) else other) == author]
    return f"; you follow of this author: {', '.join(near)}" if near else " (see: culm following)"


def _following(arguments: argparse.Namespace) -> int:
    home, clump = Home.find(arguments.home), chosen_clump(arguments)
    names, policy = home.names(), home.policy_file.load(clump)
    entries: Counter[What] = Counter()
    payloads: Counter[What] = Counter()
    with home.store(read_only=True) as store:
        for log in store.logs():
            for name in (log.author, (log.author, log.log_id)):
                entries[name] += log.entries
                payloads[name] += log.payloads
    followed_now = sorted((policy.interests or {}).items(), key=lambda item: _text(item[0]))
    rows: list[dict[str, Any]] = [
        {
            "what": _text(what),
            "ranges": _ranges(ranges),
            "entries": entries[what],
            "payloads": payloads[what],
        }
        for what, ranges in followed_now
    ]
    if arguments.json:
        print_json({"everything": policy.interests is None, "following": rows})
    elif policy.interests is None:
        note(
            f"{clump_text(clump)} you follow nothing in particular,"
            " so your node asks for everything that the policy allows"
        )
        note("to ask for less: culm follow AUTHOR[/LOG]")
    elif not rows:
        note(f"{clump_text(clump)} you follow nothing, so your node asks only for your own logs")
    else:
        columns = ("followed", "range", "entries held", "payloads held")
        table = [(names.what(what), _shown(ranges), entries[what], payloads[what]) for what, ranges in followed_now]
        print_table(arguments, columns, table, right=columns[2:])
    return 0


def _ranges(ranges: RangeSet) -> list[str]:
    return [write_range(item) for item in ranges]


def _shown(ranges: RangeSet) -> str:
    return "; ".join(_ranges(ranges))
