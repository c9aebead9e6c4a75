"""``culm serve``, ``culm sync``, and what a node shares and with whom."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from culm.bamboo import MAX_U64, YAMF_BYTES
from culm.bamboo.keyfile import read_private
from culm.bamboo.yamf import YAMF_PREFIX
from culm.bushbaby import Dialect
from culm.cli.home import Home
from culm.cli.output import note, print_json, progress_bar, size_text
from culm.errors import ConfigError
from culm.intervals import Forks
from culm.node.config import NodeConfig
from culm.node.follow import FollowOptions
from culm.node.indexed import IndexNode
from culm.node.node import Node, logs_to_ask_for
from culm.node.policy import PolicyFile
from culm.node.propose import ProposalOptions
from culm.node.status import StatusSettings, status_server
from culm.node.sync import SyncSummary, sync, sync_logs
from culm.node.urls import LISTENER_SCHEMES, PeerUrl
from culm.node.wants import EVERYTHING
from culm.ranges import Range, RangeSet, read_range
from culm.ranges.text import read_size
from culm.store import PayloadState
from culm.wire.places import author_text, log_text, parse_author, parse_log, parse_number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Sequence

    from culm.cli.command import Commands
    from culm.node.stats import SessionStats
    from culm.store import Log, SQLiteStore

_POINT_2_POINT = ("intervals", "proposals")
# What can be said to some peers only: its default, and the protocols.
_ONLY_WITH: dict[str, tuple[object, tuple[str, ...]]] = {
    "logs": ([], _POINT_2_POINT),
    "live": (False, _POINT_2_POINT),
    "min_payload": (None, _POINT_2_POINT),
    "max_payload": (None, _POINT_2_POINT),
    "newest": (None, ("intervals",)),
    "newest_first": (False, ("intervals",)),
    "unverified": (False, ("intervals",)),
    "fork": ("default", ("intervals",)),
    "anchor": (None, ("intervals",)),
    "greedy": (False, ("proposals",)),
    "window": (None, ("proposals",)),
    "profile": ("normal", ("proposals",)),
    "mandatory": (False, ("proposals",)),
    "notify_only": (False, ("proposals",)),
    "notify_above": (None, ("proposals",)),
}
_LISTS = {
    ("allow", "peer"): "allow_peers",
    ("block", "peer"): "block_peers",
    ("allow", "author"): "allow_authors",
    ("block", "author"): "block_authors",
}


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    serve = commands.add("serve", _serve, "run a node: listen, keep contact with peers, pass on what is new")
    serve.add_argument(
        "--listen",
        metavar="URL",
        action="append",
        default=[],
        help="bushbaby://, intervals:// or proposals://HOST:PORT, or negentropy:// for culm reconcile (port 0: any)",
    )
    serve.add_argument("--peer", metavar="URL", action="append", default=[], help="a peer to keep contact with")
    serve.add_argument(
        "--index",
        metavar="DIR",
        help="serve the record index in this folder (culm spark fingerprint), not a store; negentropy:// only",
    )
    serve.add_argument("--interval", type=float, default=30.0, metavar="SECONDS", help="between contacts (default: 30)")
    serve.add_argument(
        "--promote", metavar="AUTHOR/LOG", action="append", default=[], help="send this log to every peer unasked"
    )
    serve.add_argument("--http", metavar="HOST:PORT", help="show a status page there, as in 127.0.0.1:8484")
    serve.add_argument(
        "--http-token-file",
        metavar="FILE",
        help="the token that the page asks for, in a file of yours alone (or CULM_HTTP_TOKEN)",
    )
    serve.add_argument("-v", "--verbose", action="store_true", help="log what goes well, too")
    _add_proposal_arguments(serve)
    _add_node_arguments(serve)
    once = commands.add("sync", _sync, "exchange everything with a peer, once")
    once.add_argument("url", metavar="URL", help="bushbaby://HOST:PORT, intervals://HOST:PORT or proposals://HOST:PORT")
    once.add_argument(
        "logs",
        metavar="AUTHOR/LOG",
        nargs="*",
        help="with intervals and proposals: the logs to ask for (default: the interests, or all held)",
    )
    _add_follow_arguments(once)
    once.add_argument(
        "--promote", metavar="AUTHOR/LOG", action="append", default=[], help="send this log to the peer unasked"
    )
    once.add_argument("-v", "--verbose", action="store_true", help="log what goes well, too")
    _add_node_arguments(once)
    fetch = commands.add("fetch", _fetch, "get single entries from an intervals:// peer, forgotten payloads included")
    fetch.add_argument("url", metavar="URL", help="intervals://HOST:PORT")
    fetch.add_argument("entries", metavar="AUTHOR/LOG/SEQ[..SEQ]", nargs="+")
    for verb, description in (("share", "announce and send a log again"), ("unshare", "keep a log to oneself")):
        parser = commands.add(verb, _share, description)
        parser.add_argument("log", metavar="AUTHOR/LOG")
        _add_clump(parser)
        parser.set_defaults(verb=verb)
    for verb, description in (
        ("allow", "talk to, or keep logs of, nobody but those allowed"),
        ("block", "never talk to a peer, or keep an author's logs"),
    ):
        parser = commands.add(verb, _list, description)
        parser.add_argument("kind", choices=("peer", "author"))
        parser.add_argument("key", metavar="KEY", help="43 base62 characters or 64 hex digits")
        parser.add_argument("--remove", action="store_true", help="take the key off the list")
        _add_clump(parser)
        parser.set_defaults(verb=verb)
    policy = commands.add("policy", _policy, "show whom a clump allows and blocks, and what is not shared")
    _add_clump(policy)


def _add_follow_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("with intervals:// and proposals://")
    group.add_argument("--live", action="store_true", help="stay connected and pass on what is new, both ways")
    group.add_argument("--min-payload", metavar="SIZE", help="no smaller payloads (as in 100, 64kB, 1MB)")
    group.add_argument("--max-payload", metavar="SIZE", help="no larger payloads")
    group = parser.add_argument_group("with intervals://")
    group.add_argument("--newest", metavar="N", help="only the newest N entries of each log")
    group.add_argument("--newest-first", action="store_true", help="begin with the newest entries")
    group.add_argument("--unverified", action="store_true", help="take what the peer has not checked; we do")
    group.add_argument("--fork", choices=("default", "local"), default="default", help="how forked logs are answered")
    group.add_argument("--anchor", metavar="SEQ:HASH", help="with --fork local: an entry that is trusted")
    group = _add_proposal_arguments(parser)
    group.add_argument("--mandatory", action="store_true", help="let no payload be left out: wait for it")
    group.add_argument("--notify-only", action="store_true", help="be told what there is, and get nothing of it")
    group.add_argument("--notify-above", metavar="SIZE", help="be told of larger payloads instead of getting them")


def _add_proposal_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("with proposals://")
    group.add_argument("--greedy", action="store_true", help="pass on payloads before they are checked, and take such")
    group.add_argument("--window", metavar="SIZE", help="compress payloads, with so much history (as in 64kB)")
    group.add_argument("--profile", choices=("normal", "small"), default="normal", help="small: little memory")
    return group


def _add_clump(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    clump = parser.add_mutually_exclusive_group(required=required)
    clump.add_argument("--clump", metavar="NAME", help="the clump, as text")
    clump.add_argument("--clump-hex", metavar="HEX", help="the clump, as any bytes")


def _add_node_arguments(parser: argparse.ArgumentParser) -> None:
    _add_clump(parser, required=False)
    parser.add_argument("--identity", metavar="NAME", help="who we are to peers (default: the default identity)")
    parser.add_argument("--dialect", choices=[dialect.value for dialect in Dialect], default=Dialect.DEPLOYED.value)
    parser.add_argument(
        "--limit", metavar="NAME=VALUE", action="append", default=[], help="change a limit; see the docs"
    )
    parser.add_argument(
        "--interest",
        metavar="AUTHOR[/LOG] [RANGE]",
        action="append",
        help="ask only for this, or for this range of it, as in 'AUTHOR/LOG 100.. sparse' (may be repeated)",
    )
    parser.add_argument("--hoard", action="store_true", help="ask for everything announced, beyond the interests")
    parser.add_argument(
        "--wait-for-hello", action="store_true", default=None, help="let callers say first who they are"
    )
    parser.add_argument(
        "--wait-for-auth", action="store_true", default=None, help="let callers prove first who they are"
    )


def _clump(arguments: argparse.Namespace) -> bytes:
    if arguments.clump is not None:
        return arguments.clump.encode("utf-8", errors="surrogateescape")  # type: ignore[no-any-return]
    if arguments.clump_hex is None:
        return b""  # the other protocols have none
    try:
        return bytes.fromhex(arguments.clump_hex)
    except ValueError:
        raise ConfigError(f"{arguments.clump_hex!r} is not hex") from None


def _interest(text: str) -> tuple[bytes | Log, RangeSet]:
    name, _, ranges = text.partition(" ")
    what = RangeSet(read_range(part) for part in ranges.split(";")) if ranges.strip() else EVERYTHING
    return parse_log(name) if "/" in name else parse_author(name), what


def _config(arguments: argparse.Namespace, home: Home, urls: Sequence[PeerUrl]) -> NodeConfig:
    if any(url.scheme == "bushbaby" for url in urls) and arguments.clump is None and arguments.clump_hex is None:
        raise ConfigError("bushbaby:// needs a clump: give --clump NAME")
    clump = _clump(arguments)
    policy = PolicyFile(home.path / "policy.json").load(clump)
    interests = None
    if arguments.interest is not None:
        interests = dict(map(_interest, arguments.interest))
    policy = replace(
        policy,
        interests=interests,
        hoard=arguments.hoard,
        promote=frozenset(parse_log(text) for text in arguments.promote),
    )
    config = NodeConfig(
        clump,
        Dialect(arguments.dialect),
        policy,
        wait_for_hello=arguments.wait_for_hello,
        wait_for_auth=arguments.wait_for_auth,
        interval=getattr(arguments, "interval", 30.0),
        proposals=_proposal_options(arguments) if hasattr(arguments, "greedy") else ProposalOptions(),
    )
    return config.with_limits(arguments.limit)


def _start_logging(arguments: argparse.Namespace) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if arguments.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(message)s",
    )


def _serve(arguments: argparse.Namespace) -> int:
    _start_logging(arguments)
    listen = [PeerUrl.parse(text, schemes=LISTENER_SCHEMES, may_be_zero=True) for text in arguments.listen]
    peers = [PeerUrl.parse(text) for text in arguments.peer]
    if not listen and not peers and arguments.http is None:
        raise ConfigError("nothing to do: give --listen URL, --peer URL, or --http HOST:PORT")
    if arguments.interval <= 0:
        raise ConfigError("--interval must be more than 0 seconds")
    if arguments.index is not None:
        return _serve_index(arguments, listen)
    home = Home.find(arguments.home)
    config = _config(arguments, home, [*listen, *peers])
    with home.store() as store:
        identity = home.identity(arguments.identity)

        node = Node(identity, config, store)
        asyncio.run(_until_stopped(_with_status(arguments, node, partial(node.run, listen, peers))))
    return 0


def _with_status(
    arguments: argparse.Namespace, node: Node, run: Callable[..., Awaitable[None]]
) -> Callable[..., Awaitable[None]]:
    """What runs a node, with its status page beside it if one is asked for."""
    if arguments.http is None:
        return run
    token = os.environ.get("CULM_HTTP_TOKEN") or None
    if arguments.http_token_file is not None:
        token = read_private(Path(arguments.http_token_file)).strip()
    page = status_server(node, StatusSettings.parse(arguments.http, token))

    async def both(**settings: Any) -> None:  # noqa: ANN401 - passed on as they are
        async with page:
            print(f"status {page.url}", flush=True)
            await run(**settings)

    return both


def _serve_index(arguments: argparse.Namespace, listen: Sequence[PeerUrl]) -> int:
    if arguments.http is not None:
        raise ConfigError("with --index there is no status page")
    if arguments.peer or any(url.scheme != "negentropy" for url in listen):
        raise ConfigError("with --index there are negentropy:// listeners only, and no peers")
    from culm.store.recordindex import IndexStorage  # noqa: PLC0415 - numpy takes long to load

    limits = NodeConfig(b"").with_limits(arguments.limit).limits
    with IndexStorage(arguments.index) as index:
        asyncio.run(_until_stopped(partial(IndexNode(index, limits).run, listen)))
    return 0


async def _until_stopped(run: Callable[..., Awaitable[None]]) -> None:
    """Run a node until a signal ends it; each of its listeners is printed."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await run(stop=stop, listening=lambda url: print(f"listening {url}", flush=True))


def _sync(arguments: argparse.Namespace) -> int:
    _start_logging(arguments)
    url = PeerUrl.parse(arguments.url)
    home = Home.find(arguments.home)
    config = _config(arguments, home, [url])
    follow = _named_logs(arguments, url)
    options = _proposal_options(arguments) if url.scheme == "proposals" else _options(arguments)
    with home.store() as store, progress_bar(f"syncing with {url}") as bar:
        identity = home.identity(arguments.identity)

        def progress(stats: SessionStats) -> None:
            done = stats.entries_received + stats.entries_sent
            total = stats.missing + stats.entries_sent if stats.missing else None
            bar.update(done, stats.bytes_received + stats.bytes_sent, total)

        if url.scheme == "bushbaby":
            summary = asyncio.run(sync(identity, config, store, url, progress))
        else:
            summary = asyncio.run(_sync_logs(arguments, config, store, url, follow, options, progress))
    _print_summary(arguments, summary)
    return 1 if summary.refused or summary.forks else 0


def _named_logs(arguments: argparse.Namespace, url: PeerUrl) -> list[Log]:
    """The logs named; ``ConfigError`` if the call asks what the protocol cannot say."""
    for name, (default, schemes) in _ONLY_WITH.items():
        if getattr(arguments, name) not in (default, []) and url.scheme not in schemes:
            option = "AUTHOR/LOG" if name == "logs" else f"--{name.replace('_', '-')}"
            peers = " and ".join(f"{scheme}://" for scheme in schemes)
            raise ConfigError(f"{option} can be said to {peers} peers only")
    return [parse_log(text) for text in arguments.logs]


def _proposal_options(arguments: argparse.Namespace) -> ProposalOptions:
    def size(name: str) -> int | None:
        text = getattr(arguments, name, None)
        return None if text is None else read_size(text)

    greatest = size("max_payload")
    return ProposalOptions(
        least_size=size("min_payload") or 0,
        greatest_size=MAX_U64 if greatest is None else greatest,
        mandatory=getattr(arguments, "mandatory", False),
        notify_only=getattr(arguments, "notify_only", False),
        notify_above=size("notify_above"),
        greedy=arguments.greedy,
        window=size("window") or 0,
        small=arguments.profile == "small",
    )


def _options(arguments: argparse.Namespace) -> FollowOptions:
    anchor = None
    if arguments.anchor is not None:
        seq, _, digest = arguments.anchor.partition(":")
        try:
            anchor = int(seq), YAMF_PREFIX + bytes.fromhex(digest.removeprefix("0040"))
        except ValueError:
            anchor = 0, b""
        if arguments.fork != "local" or anchor[0] < 1 or len(anchor[1]) != YAMF_BYTES:
            raise ConfigError(f"--anchor {arguments.anchor}: expected SEQ:HASH (128 hex digits), and --fork local")
    return FollowOptions(
        verified=not arguments.unverified,
        forks=Forks.LOCAL if arguments.fork == "local" else Forks.DEFAULT,
        anchor=anchor,
        least_size=None if arguments.min_payload is None else read_size(arguments.min_payload),
        greatest_size=None if arguments.max_payload is None else read_size(arguments.max_payload),
        newest=None if arguments.newest is None else parse_number(arguments.newest, "number of entries", 1),
        newest_first=arguments.newest_first,
    )


async def _sync_logs(
    arguments: argparse.Namespace,
    config: NodeConfig,
    store: SQLiteStore,
    url: PeerUrl,
    logs: list[Log],
    options: FollowOptions | ProposalOptions,
    progress: Callable[[SessionStats], None],
) -> SyncSummary:
    named = frozenset(logs)
    policy = config.policy

    def interest(log: Log) -> RangeSet:
        return (
            EVERYTHING
            if log in named and policy.admits_author(log[0]) and not policy.interest(log)
            else policy.interest(log)
        )

    asked = logs or logs_to_ask_for(store, policy)
    if not asked and not arguments.live:
        raise ConfigError("no logs to ask for: name them as AUTHOR/LOG; the protocol cannot list a peer's logs")
    return await sync_logs(
        config, store, url, asked, options=options, live=arguments.live, interest=interest, progress=progress
    )


def _fetch(arguments: argparse.Namespace) -> int:
    url = PeerUrl.parse(arguments.url, schemes=("intervals",))
    home = Home.find(arguments.home)
    wanted = _wanted_entries(arguments.entries)
    with home.store() as store, progress_bar(f"fetching from {url}") as bar:
        for log, ranges in wanted.items():
            for item in ranges:
                forgotten = [
                    stored.entry.place
                    for stored in store.entries(log, item.start, item.last)
                    if stored.payload_state is PayloadState.FORGOTTEN
                ]
                for place in forgotten:
                    store.want_again(place)
        summary = asyncio.run(
            sync_logs(
                NodeConfig(b""),
                store,
                url,
                wanted,
                interest=lambda log: wanted.get(log, RangeSet()),
                progress=lambda stats: bar.update(
                    stats.entries_received, stats.bytes_received + stats.bytes_sent, stats.missing or None
                ),
            )
        )
        lacking = [
            f"{log_text(log)}/{low}" + (f"..{high}" if high > low else "")
            for log, ranges in wanted.items()
            for item in ranges
            for low, high in store.missing(log, item.last, low=item.start)
        ]
    _print_summary(arguments, summary)
    for text in lacking:
        note(f"the peer does not have {text}")
    return 1 if lacking or summary.refused else 0


def _wanted_entries(texts: Sequence[str]) -> dict[Log, RangeSet]:
    found: dict[Log, list[Range]] = {}
    for text in texts:
        log, _, numbers = text.rpartition("/")
        first, _, last = numbers.partition("..")
        try:
            found.setdefault(parse_log(log), []).append(Range(int(first), int(last or first)))
        except ValueError:
            raise ConfigError(f"{text!r} names no entries; expected AUTHOR/LOG/SEQ or AUTHOR/LOG/SEQ..SEQ") from None
    return {log: RangeSet(ranges, most=len(ranges)) for log, ranges in found.items()}


def _print_summary(arguments: argparse.Namespace, summary: SyncSummary) -> None:
    if arguments.json:
        print_json({**asdict(summary), "seconds": round(summary.seconds, 3)})
        return
    print(
        f"received {summary.entries_received} entries ({size_text(summary.bytes_received)}),"
        f" sent {summary.entries_sent} ({size_text(summary.bytes_sent)}) in {summary.seconds:.1f} s"
    )
    if getattr(arguments, "notify_only", False):
        print(f"the peer told of {summary.missing} entries that are not held here")
    for line in summary.refused:
        note(f"refused {line}")
    if summary.forks:
        note(f"{summary.forks} fork proofs came to light; see: culm logs")


def _share(arguments: argparse.Namespace) -> int:
    file, clump = PolicyFile(Home.find(arguments.home).path / "policy.json"), _clump(arguments)
    policy = file.load(clump)
    log: frozenset[Log] = frozenset({parse_log(arguments.log)})
    unshared = policy.unshared - log if arguments.verb == "share" else policy.unshared | log
    file.save(clump, replace(policy, unshared=unshared))
    return 0


def _list(arguments: argparse.Namespace) -> int:
    file, clump = PolicyFile(Home.find(arguments.home).path / "policy.json"), _clump(arguments)
    policy = file.load(clump)
    name = _LISTS[arguments.verb, arguments.kind]
    keys: frozenset[bytes] = getattr(policy, name)
    key = {parse_author(arguments.key)}
    changed: dict[str, frozenset[bytes]] = {name: keys - key if arguments.remove else keys | key}
    file.save(clump, replace(policy, **changed))  # type: ignore[arg-type]
    return 0


def _policy(arguments: argparse.Namespace) -> int:
    policy = PolicyFile(Home.find(arguments.home).path / "policy.json").load(_clump(arguments))
    shown = {name: sorted(author_text(key) for key in getattr(policy, name)) for name in _LISTS.values()}
    shown["unshared"] = sorted(log_text(log) for log in policy.unshared)
    if arguments.json:
        print_json(shown)
    else:
        for name, values in shown.items():
            print(f"{name.replace('_', ' '):14} {', '.join(values) or '-'}")
    return 0
