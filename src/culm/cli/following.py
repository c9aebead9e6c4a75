"""``culm follow``, ``unfollow``, ``following``: what a node asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from culm.bamboo import MAX_U64
from culm.cli.home import Home
from culm.cli.nodeoptions import add_clump, chosen_clump, clump_text
from culm.cli.output import note, print_json, print_table
from culm.errors import ConfigError, EncodingError
from culm.ranges import Range, RangeSet, decode, read_size, size_limits, write_range
from culm.wire.places import author_text, log_text, parse_author, parse_log, parse_number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from culm.cli.command import Commands
    from culm.types import Log

    What = bytes | Log


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    follow = commands.add("follow", _follow, "ask for an author's logs, or one log, or a range of it; not for others")
    follow.add_argument("what", metavar="AUTHOR[/LOG]", help="an author, for all of its logs, or one log")
    follow.add_argument("--from", dest="first", metavar="N", help="from this entry on (default: 1)")
    follow.add_argument("--to", dest="last", metavar="N", help="up to this entry (default: for ever)")
    follow.add_argument("--sparse", action="store_true", help="only the shortest path between these, for verifying")
    follow.add_argument("--max-payload", metavar="SIZE", help="no larger payloads (as in 100, 64kB, 1MB)")
    follow.add_argument("--min-payload", metavar="SIZE", help="no smaller payloads")
    follow.add_argument("--without-payload", metavar="SEQ,...", help="not the payloads of these entries")
    follow.add_argument("--add", action="store_true", help="besides what is followed of it already, not in its place")
    add_clump(follow)
    unfollow = commands.add("unfollow", _unfollow, "no longer ask for what is followed; what is held stays")
    unfollow.add_argument("what", metavar="AUTHOR[/LOG]", nargs="?", help="as it was followed")
    unfollow.add_argument("--all", action="store_true", help="follow nothing in particular: ask for everything again")
    add_clump(unfollow)
    following = commands.add("following", _following, "list what is followed, and how much of it is held")
    add_clump(following)


def _parse(text: str) -> What:
    return parse_log(text) if "/" in text else parse_author(text)


def _text(what: What) -> str:
    return log_text(what) if isinstance(what, tuple) else author_text(what)


def _range(arguments: argparse.Namespace) -> Range:
    first = 1 if arguments.first is None else parse_number(arguments.first, "sequence number", 1)
    last = None if arguments.last is None else parse_number(arguments.last, "sequence number", 1)
    if last is not None and last < first:
        raise ConfigError(f"--from {first} --to {last}: that is no range")
    least = 0 if arguments.min_payload is None else read_size(arguments.min_payload)
    greatest = None if arguments.max_payload is None else read_size(arguments.max_payload)
    if greatest is not None and least > greatest:
        raise ConfigError(f"--min-payload {least} --max-payload {greatest}: no payload has such a size")
    forbidden = tuple(
        parse_number(part.strip(), "sequence number", 1)
        for part in (arguments.without_payload or "").split(",")
        if part
    )
    for seq in forbidden:
        if not first <= seq <= (MAX_U64 if last is None else last):
            raise ConfigError(f"--without-payload {seq}: that entry is not among those followed")
    least, limit = size_limits(least, greatest)
    item = Range(first, last, sparse=arguments.sparse, least_size=least, size_limit=limit, forbidden=forbidden)
    try:
        decode(item.encode())
    except EncodingError:
        raise ConfigError("--without-payload: too many numbers for one range") from None
    return item


def _follow(arguments: argparse.Namespace) -> int:
    what, item = _parse(arguments.what), _range(arguments)
    home, clump = Home.find(arguments.home), chosen_clump(arguments)
    home.store(read_only=True).close()  # there is a home
    policy = home.policy_file.load(clump)
    followed = dict(policy.interests or {})
    before = followed.get(what)
    followed[what] = before.add(item) if arguments.add and before is not None else RangeSet([item])
    home.policy_file.save(clump, replace(policy, interests=followed))
    if arguments.json:
        print_json({"what": _text(what), "ranges": _ranges(followed[what])})
        return 0
    print(f"following {_text(what)}: {_shown(followed[what])}")
    if before is not None and not arguments.add and before != followed[what]:
        note(f"before it was: {_shown(before)} (--add keeps both)")
    if policy.interests is None:
        note(f"this is the first: {clump_text(clump)} nothing else is asked for from now on, but your own logs")
    author = what[0] if isinstance(what, tuple) else what
    if not policy.admits_author(author):
        note("but this author is blocked, or not among those allowed: nothing will come (see: culm policy)")
    return 0


def _unfollow(arguments: argparse.Namespace) -> int:
    if (arguments.what is None) == (not arguments.all):
        raise ConfigError("give AUTHOR[/LOG], or --all")
    file, clump = Home.find(arguments.home).policy_file, chosen_clump(arguments)
    policy = file.load(clump)
    if arguments.all:
        file.save(clump, replace(policy, interests=None))
        _tell_rest(arguments, clump, None)
        return 0
    what = _parse(arguments.what)
    followed = dict(policy.interests or {})
    if what not in followed:
        raise ConfigError(f"{_text(what)} is not followed {clump_text(clump)}{_hint(what, followed)}")
    del followed[what]
    file.save(clump, replace(policy, interests=followed))
    _tell_rest(arguments, clump, followed)
    return 0


def _hint(what: What, followed: Mapping[What, RangeSet]) -> str:
    """What is near to what is not followed."""
    author = what[0] if isinstance(what, tuple) else what
    near = [_text(other) for other in followed if (other[0] if isinstance(other, tuple) else other) == author]
    return f"; followed of this author: {', '.join(near)}" if near else " (see: culm following)"


def _tell_rest(arguments: argparse.Namespace, clump: bytes, followed: Mapping[What, RangeSet] | None) -> None:
    if arguments.json:
        print_json({"following": None if followed is None else sorted(map(_text, followed))})
    elif followed is None:
        print(f"{clump_text(clump)} everything that is allowed is asked for")
    elif followed:
        print(f"{clump_text(clump)} {len(followed)} more are followed")
    else:
        print(f"{clump_text(clump)} nothing is followed any more: only your own logs are asked for")
        note("to ask for everything again: culm unfollow --all")


def _following(arguments: argparse.Namespace) -> int:
    home, clump = Home.find(arguments.home), chosen_clump(arguments)
    policy = home.policy_file.load(clump)
    held = _held(home)
    rows: list[dict[str, Any]] = [
        {
            "what": _text(what),
            "ranges": _ranges(ranges),
            "entries": sum(held.get(log, (0, 0))[0] for log in _logs(what, held)),
            "payloads": sum(held.get(log, (0, 0))[1] for log in _logs(what, held)),
        }
        for what, ranges in sorted((policy.interests or {}).items(), key=lambda item: _text(item[0]))
    ]
    if arguments.json:
        print_json({"everything": policy.interests is None, "following": rows})
    elif policy.interests is None:
        note(f"nothing in particular: {clump_text(clump)} everything that is allowed is asked for")
        note("to ask for less: culm follow AUTHOR[/LOG]")
    elif not rows:
        note(f"nothing: {clump_text(clump)} only your own logs are asked for")
    else:
        table = [(row["what"], "; ".join(row["ranges"]), row["entries"], row["payloads"]) for row in rows]
        print_table(
            ("followed", "range", "entries held", "payloads held"), table, right=("entries held", "payloads held")
        )
    return 0


def _held(home: Home) -> dict[Log, tuple[int, int]]:
    with home.store(read_only=True) as store:
        return {(log.author, log.log_id): (log.entries, log.payloads) for log in store.logs()}


def _logs(what: What, held: Mapping[Log, object]) -> list[Log]:
    return [what] if isinstance(what, tuple) else [log for log in held if log[0] == what]


def _ranges(ranges: RangeSet) -> list[str]:
    return [write_range(item) for item in ranges]


def _shown(ranges: RangeSet) -> str:
    return "; ".join(_ranges(ranges))
