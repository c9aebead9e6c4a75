"""``culm serve``, ``culm sync``, and what a node shares and with whom."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from culm.bushbaby import Dialect
from culm.cli.home import Home
from culm.cli.output import note, print_json, progress_bar, size_text
from culm.cli.places import author_text, log_text, parse_author, parse_log
from culm.errors import ConfigError
from culm.node.config import NodeConfig
from culm.node.node import Node
from culm.node.policy import PolicyFile
from culm.node.sync import SyncSummary, sync
from culm.node.urls import LISTENER_SCHEMES, PeerUrl
from culm.node.wants import EVERYTHING
from culm.ranges import RangeSet, read_range

if TYPE_CHECKING:
    import argparse

    from culm.cli.command import Commands
    from culm.node.session import SessionStats
    from culm.store import Log

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
        help="bushbaby://HOST:PORT, or negentropy://HOST:PORT for culm reconcile; port 0 is any free one",
    )
    serve.add_argument("--peer", metavar="URL", action="append", default=[], help="a peer to keep contact with")
    serve.add_argument("--interval", type=float, default=30.0, metavar="SECONDS", help="between contacts (default: 30)")
    serve.add_argument(
        "--promote", metavar="AUTHOR/LOG", action="append", default=[], help="send this log to every peer unasked"
    )
    serve.add_argument("-v", "--verbose", action="store_true", help="log what goes well, too")
    _add_node_arguments(serve)
    once = commands.add("sync", _sync, "exchange everything with a peer, once")
    once.add_argument("url", metavar="URL", help="bushbaby://HOST:PORT")
    once.add_argument(
        "--promote", metavar="AUTHOR/LOG", action="append", default=[], help="send this log to the peer unasked"
    )
    once.add_argument("-v", "--verbose", action="store_true", help="log what goes well, too")
    _add_node_arguments(once)
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


def _add_clump(parser: argparse.ArgumentParser) -> None:
    clump = parser.add_mutually_exclusive_group(required=True)
    clump.add_argument("--clump", metavar="NAME", help="the clump, as text")
    clump.add_argument("--clump-hex", metavar="HEX", help="the clump, as any bytes")


def _add_node_arguments(parser: argparse.ArgumentParser) -> None:
    _add_clump(parser)
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
    try:
        return bytes.fromhex(arguments.clump_hex)
    except ValueError:
        raise ConfigError(f"{arguments.clump_hex!r} is not hex") from None


def _interest(text: str) -> tuple[bytes | Log, RangeSet]:
    name, _, ranges = text.partition(" ")
    what = RangeSet(read_range(part) for part in ranges.split(";")) if ranges.strip() else EVERYTHING
    return parse_log(name) if "/" in name else parse_author(name), what


def _config(arguments: argparse.Namespace, home: Home) -> NodeConfig:
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
    if not listen and not peers:
        raise ConfigError("nothing to do: give --listen URL, or --peer URL")
    if arguments.interval <= 0:
        raise ConfigError("--interval must be more than 0 seconds")
    home = Home.find(arguments.home)
    config = _config(arguments, home)
    with home.store() as store:
        identity = home.identity(arguments.identity)

        async def run() -> None:
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stop.set)
            await Node(identity, config, store).run(
                listen, peers, stop=stop, listening=lambda url: print(f"listening {url}", flush=True)
            )

        asyncio.run(run())
    return 0


def _sync(arguments: argparse.Namespace) -> int:
    _start_logging(arguments)
    url = PeerUrl.parse(arguments.url)
    home = Home.find(arguments.home)
    config = _config(arguments, home)
    with home.store() as store, progress_bar(f"syncing with {url}") as bar:
        identity = home.identity(arguments.identity)

        def progress(stats: SessionStats) -> None:
            done = stats.entries_received + stats.entries_sent
            total = stats.missing + stats.entries_sent if stats.missing else None
            bar.update(done, stats.bytes_received + stats.bytes_sent, total)

        summary = asyncio.run(sync(identity, config, store, url, progress))
    _print_summary(arguments, summary)
    return 1 if summary.refused or summary.forks else 0


def _print_summary(arguments: argparse.Namespace, summary: SyncSummary) -> None:
    if arguments.json:
        print_json({**asdict(summary), "seconds": round(summary.seconds, 3)})
        return
    print(
        f"received {summary.entries_received} entries ({size_text(summary.bytes_received)}),"
        f" sent {summary.entries_sent} ({size_text(summary.bytes_sent)}) in {summary.seconds:.1f} s"
    )
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
