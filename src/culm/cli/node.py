"""``culm serve``, ``culm sync``, ``culm fetch``: a node that stays up, and exchanges that end by themselves."""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from culm.app.names import entries_of
from culm.app.syncing import FETCHING, asking_by_log, fetch
from culm.bamboo.decimal import size_text
from culm.bamboo.keyfile import read_private
from culm.cli.arguments import log_type, named, named_peer, number
from culm.cli.command import Commands
from culm.cli.doctor import findings_of
from culm.cli.identity import ask_passphrase
from culm.cli.memory import free_memory_given_back, keep_large_blocks_apart
from culm.cli.nodeoptions import (
    ORIGIN,
    adapting,
    add_clump,
    add_identity,
    add_node,
    add_proposals,
    add_serving,
    add_sizes,
    add_stateless,
    lan_clump,
    node_config,
    settings_of,
    start_logging,
)
from culm.cli.output import counted, note, print_json
from culm.cli.progress import summed, sync_progress, tell_wrong
from culm.errors import ConfigError
from culm.node.asking import OPTIONS, unfit
from culm.node.home import Home
from culm.node.interests.choices import ChoicesWatch
from culm.node.lan.finding import Finding
from culm.node.negentropy.indexed import IndexNode
from culm.node.network.pipes import own_streams
from culm.node.network.transport import STREAM_LIMIT
from culm.node.network.urls import CALL_SCHEMES, EXEC_FORM, PIPE_SCHEMES, UNIX_FORM, PeerUrl, forms
from culm.node.network.webaccess import WebAccess
from culm.node.schemes import scheme_of
from culm.node.service import NodeService
from culm.node.sessions.session import Purpose
from culm.node.sessions.tasks import beside
from culm.node.settings.reading import Settings, defaults, limits_of, read_limits
from culm.node.settings.schema import PROPOSALS
from culm.node.sharing.threads import SWITCH_SECONDS
from culm.node.status import NamesWatch, Sources, StatusSettings, status_server
from culm.node.sync import SyncSummary, sync
from culm.sealing.mark import is_sealed

# Options that only some protocols have, by these protocols, besides those of ``culm.node.asking``. Giving one to
# another peer is an error, because the option would silently do nothing.
_ONLY_WITH = {
    ("culm", "intervals", "proposals"): ("live",),
    ("intervals", "proposals"): ("logs",),
    ("intervals",): ("stateless",),
}


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    serve = commands.add("serve", _serve)
    serve.add_argument(
        "--index",
        metavar="DIR",
        help="serve the record index in this folder (culm spark fingerprint) instead of a store; negentropy:// only",
    )
    serve.add_argument(
        "--stdio",
        metavar="PROTOCOL",
        nargs="?",
        const="intervals",
        choices=PIPE_SCHEMES,
        help="serve one peer over stdin and stdout, by intervals or another protocol, until either side hangs up;"
        " listen and connect nowhere else",
    )
    add_serving(serve)
    once = commands.add("sync", _sync)
    once.add_argument(
        "url",
        metavar="URL",
        type=partial(named_peer, PeerUrl.parse),
        help=" or ".join([*forms(CALL_SCHEMES), EXEC_FORM, UNIX_FORM, "the name of a peer in the configuration"]),
    )
    once.add_argument(
        "logs",
        metavar="AUTHOR/LOG",
        nargs="*",
        type=log_type,
        help="with intervals and proposals: the logs to ask for (default: those you follow, or all of the store)",
    )
    _add_follow_arguments(once)
    add_node(once)
    fetching = commands.add("fetch", _fetch)
    fetching.add_argument(
        "url",
        metavar="URL",
        type=partial(named_peer, partial(PeerUrl.parse, schemes=FETCHING)),
        help=" or ".join([*forms(FETCHING), "the name of a peer in the configuration"]),
    )
    fetching.add_argument(
        "entries",
        metavar="AUTHOR/LOG/SEQ[..SEQ]",
        nargs="+",
        type=partial(named, _entry),
        help="an entry, or the first and the last of a range",
    )
    add_clump(fetching)
    add_identity(fetching)


def _entry(text: str) -> str:
    entries_of([text], b"")  # Raises ConfigError for a text that names no entry.
    return text


def _add_follow_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("with intervals:// and proposals://")
    group.add_argument("--live", action="store_true", help="stay connected and exchange new entries both ways")
    add_sizes(group)
    group = parser.add_argument_group("with intervals://")
    group.add_argument(
        "--newest", metavar="N", type=number("number of entries"), help="ask only for the newest N entries of each log"
    )
    group.add_argument("--newest-first", action="store_true", help="receive the newest entries first")
    group.add_argument(
        "--unverified",
        action="store_true",
        help="also accept entries that the peer has not verified; this node verifies them",
    )
    group.add_argument(
        "--fork", choices=("default", "local"), default="default", help="how the peer answers for a forked log"
    )
    group.add_argument("--anchor", metavar="SEQ:HASH", help="with --fork local: an entry of the branch that you trust")
    add_stateless(group)
    add_proposals(parser)


def _serve(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    start_logging(settings)
    if arguments.stdio is not None:
        return _serve_stdio(arguments, settings)
    peers = [peer.url for peer in settings.peers]
    if not settings["listen"] and not peers and settings["http"] is None and not settings["lan"]:
        raise ConfigError(
            "nothing to do: give --listen URL, --peer URL, --lan or --http HOST:PORT,"
            " or set listen, [[peers]], lan or http in culm.toml"
        )
    if arguments.index is not None:
        return _serve_index(arguments, settings)
    if settings["lan"]:
        lan_clump(settings, announces=True)
    listen = [*settings["listen"], *_found_at(settings)]
    home = Home.find(arguments.home)
    watch = ChoicesWatch(home.policy_file, settings.clump or b"", adapting(arguments, home, settings))
    needs_clump = any(scheme_of(url).needs_clump for url in [*listen, *peers])
    config = replace(node_config(settings, watch.start(), needs_clump=needs_clump), web=_web_access(settings))
    with home.store() as store:
        identity = home.identity(settings["identity"], ask_passphrase)
        node = NodeService(identity, config, store, home.kept_peers())

        async def with_node() -> None:
            async with beside(Finding(node, settings["lan_at"]).run()) if settings["lan"] else nullcontext():
                await watch.run(node.change_policy)

        run = partial(node.run, listen, peers, beside=with_node)
        asyncio.run(_until_stopped(run, _status_page(settings, node, home, arguments.config)))
    return 0


def _web_access(settings: Settings) -> WebAccess:
    """Who may read from the node at ``ws://`` and ``wss://``."""
    files = (settings[name] for name in ("web_token_file", "web_certificate_file", "web_key_file"))
    return WebAccess.of(settings["web_origins"], *files, exchange=settings["web_exchange"])


def _found_at(settings: Settings) -> list[PeerUrl]:
    """The listeners for neighbours, at free ports, if the node shall be found and has no listener that proves its key.

    They are at the addresses that ``lan_at`` names, else at all of this machine.
    """
    if not settings["lan"] or any(url.is_secure for url in settings["listen"]):
        return []
    return [PeerUrl("culm", host, 0) for host in settings["lan_at"] or ["0.0.0.0"]]  # noqa: S104 - as documented


def _serve_stdio(arguments: argparse.Namespace, settings: Settings) -> int:
    """Serve the peer at the other end of stdin and stdout. Nothing may be printed there, not even an address."""
    url = PeerUrl(arguments.stdio, "", 0, via="stdio")
    home = Home.find(arguments.home)
    watch = ChoicesWatch(home.policy_file, settings.clump or b"", adapting(arguments, home, settings))
    config = node_config(settings, watch.start(), needs_clump=scheme_of(url).needs_clump)
    with home.store() as store:
        identity = home.identity(settings["identity"], ask_passphrase)
        node = NodeService(identity, config, store, home.kept_peers())

        async def run(stop: asyncio.Event, listening: object) -> None:  # noqa: ARG001 - there is no listener to tell of
            streams = await own_streams(STREAM_LIMIT)

            async def serve() -> None:
                async with beside(watch.run(node.change_policy)):
                    await node.serve(url, streams)
                stop.set()

            await node.run([], [], stop=stop, beside=serve)

        asyncio.run(_until_stopped(run))
    return 0


@asynccontextmanager
async def _status_page(settings: Settings, node: NodeService, home: Home, config: str | None) -> AsyncIterator[None]:
    """Serve the node's status page while the block runs, if one is configured."""
    if settings["http"] is None:
        yield
        return
    token = os.environ.get("CULM_HTTP_TOKEN") or None
    if settings["http_token_file"] is not None:
        token = read_private(Path(settings["http_token_file"])).strip()
    sources = Sources(
        names=NamesWatch(home.names_file),
        examine=lambda: [asdict(finding) for finding in findings_of(home, config, quick=True) if finding.level != "ok"],
        is_sealed=is_sealed,
    )
    of_page = StatusSettings.parse(settings["http"], token, payloads=settings["http_payloads"])
    async with status_server(node, of_page, sources) as page:
        print(f"status {page.url}", flush=True)
        yield


def _serve_index(arguments: argparse.Namespace, settings: Settings) -> int:
    listen = settings["listen"]
    if settings["http"] is not None:
        raise ConfigError("--index cannot be combined with --http: an index has no status page")
    if settings["lan"]:
        raise ConfigError("--index cannot be combined with --lan: an index has no identity to announce")
    if settings.peers or any(scheme_of(url).session is not None for url in listen):
        raise ConfigError("--index works with negentropy:// listeners only, and without peers")
    from culm.store.recordindex import IndexStorage  # noqa: PLC0415 - numpy takes long to load

    limits = limits_of(defaults().with_values(read_limits(arguments.limit), ORIGIN))[0]
    with IndexStorage(arguments.index) as index:
        asyncio.run(_until_stopped(partial(IndexNode(index, limits).run, listen)))
    return 0


async def _until_stopped(
    run: Callable[..., Awaitable[None]], page: AbstractAsyncContextManager[None] | None = None
) -> None:
    """Run a node, with its status page, until SIGINT or SIGTERM, and print the address of each listener."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, stop.set)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # Imported modules are never garbage, so collections need not look through them.
    async with free_memory_given_back(), page or nullcontext():
        await run(stop=stop, listening=lambda url: print(f"listening {url}", flush=True))


def _sync(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    start_logging(settings)
    url: PeerUrl = arguments.url
    home = Home.find(arguments.home)
    policy = adapting(arguments, home, settings)(home.policy_file.load(settings.clump or b""))
    scheme = scheme_of(url)
    config, _ = node_config(settings, policy, needs_clump=scheme.needs_clump).for_peer(url)
    _check_options(arguments, url)
    options = config.how_for(url, _given_options(arguments, settings))
    with home.store() as store, sync_progress(arguments, f"syncing with {url}") as progress:
        identity = home.identity(settings["identity"], ask_passphrase)
        purpose = Purpose(is_live=arguments.live, mirrors=arguments.live, options=options)
        if scheme.asks_by_log:
            purpose = asking_by_log(purpose, store, config.policy, dict.fromkeys(arguments.logs))
        gc.freeze()  # As in ``_until_stopped``.
        keep_large_blocks_apart()
        summary = asyncio.run(sync(identity, config, store, url, purpose, progress, kept=home.kept_peers()))
    _print_summary(arguments, home, summary)
    if not arguments.json:
        _print_hints(summary, has_clump=bool(config.clump), fetches=not getattr(options, "notify_only", False))
    # A fork is the author's doing, and known from now on: the exchange has done its work.
    return 1 if summary.refused else 0


def _print_hints(summary: SyncSummary, *, has_clump: bool, fetches: bool) -> None:
    """Say why logs may not have gone to the peer, or not have come: without this it looks as if there were none."""
    if summary.withheld and not has_clump:
        note(
            f"not offered: {counted(summary.withheld, 'log')} shared in a clump only; sync with --clump NAME,"
            " or see culm share"
        )
    if summary.not_received and fetches:
        note(
            f"nothing came of {counted(summary.not_received, 'log')} asked for: the peer does not have them,"
            " or has them in a clump only; then it has to name that clump (culm serve --clump NAME),"
            " or share them everywhere (culm share AUTHOR/LOG --everywhere)"
        )


def _check_options(arguments: argparse.Namespace, url: PeerUrl) -> None:
    """Raise ``ConfigError`` for an option that the peer's protocol does not have."""
    for name in OPTIONS:
        if _is_given(getattr(arguments, name)) and (reason := unfit(name, url)):
            raise ConfigError(f"--{name.replace('_', '-')} {reason}")
    for schemes, names in _ONLY_WITH.items():
        given = [name for name in names if _is_given(getattr(arguments, name))]
        if given and url.protocol not in schemes:
            option = "AUTHOR/LOG" if given[0] == "logs" else f"--{given[0].replace('_', '-')}"
            peers = " and ".join(f"{scheme}://" for scheme in schemes)
            instead = "; here it is --interest AUTHOR/LOG" if given[0] == "logs" else ""
            raise ConfigError(f"{option} works with {peers} peers only, not with {url.scheme}://{instead}")


def _given_options(arguments: argparse.Namespace, settings: Settings) -> dict[str, object]:
    """The options of ``culm.node.asking`` on the command line. Settings are read already, others by the parser."""
    given = {name: value for name in OPTIONS if _is_given(value := getattr(arguments, name))}
    read = {name: PROPOSALS.full_name(name) for name in given}
    return {name: settings[full] if (full := read[name]) in settings.values else value for name, value in given.items()}


def _is_given(value: object) -> bool:
    return not (value is None or value is False or value in ([], "default", "normal"))


def _fetch(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    start_logging(settings)
    home, url = Home.find(arguments.home), arguments.url
    wanted = entries_of(arguments.entries, b"")
    policy = replace(home.policy_file.load(settings.clump or b""), own=home.own_authors())
    config, _ = node_config(settings, policy, needs_clump=False).for_peer(url)
    with home.store() as store, sync_progress(arguments, f"fetching from {url}") as progress:
        identity = home.identity(settings["identity"], ask_passphrase) if scheme_of(url).proves_identity else None
        fetched = asyncio.run(fetch(identity, config, store, url, wanted, progress))
    names = home.names()
    _print_summary(arguments, home, fetched.summary)
    for log, low, high in fetched.lacking:
        numbers = f"entry {low}" if low == high else f"entries {low} to {high}"
        note(f"the peer does not have {numbers} of {names.log(log)}")
    return 1 if fetched.lacking or fetched.summary.refused else 0


def _print_summary(arguments: argparse.Namespace, home: Home, summary: SyncSummary) -> None:
    if arguments.json:
        print_json({"type": "summary", **summed(summary)})
        return
    payloads = f" and {size_text(summary.payload_bytes)} of payloads"
    print(
        f"received {counted(summary.entries_received, 'entry')}"
        f"{payloads if summary.payload_bytes and not summary.entries_received else ''}"
        f" ({size_text(summary.bytes_received)}),"
        f" sent {summary.entries_sent} ({size_text(summary.bytes_sent)}) in {summary.seconds:.1f} s"
    )
    if getattr(arguments, "notify_only", False):
        print(f"the peer has {counted(summary.missing, 'entry')} that this store does not have")
    if summary.unconfirmed:
        note(
            f"sent, not confirmed: {counted(summary.unconfirmed, 'entry')}; the peer may not have stored them,"
            " so sync again later: only what it lacks is sent"
        )
    tell_wrong(home, summary)
