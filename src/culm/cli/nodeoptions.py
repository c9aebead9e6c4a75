"""The options of ``culm serve``, ``sync`` and other commands that act as a node.

A value on the command line overrides ``culm.toml``, which overrides the default. Options whose default is None leave
the configuration as it is, so a flag that is not given does not switch off what the file switches on.
"""

import argparse
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from culm.bamboo import MAX_U64
from culm.bushbaby import Dialect
from culm.cli.home import Home
from culm.errors import ConfigError
from culm.node.config import NodeConfig
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.network.urls import LISTENER_SCHEMES, PeerUrl
from culm.node.proposals.options import ProposalOptions
from culm.node.settings import Settings
from culm.node.settings.kinds import HOST_PORT, read_value
from culm.node.settings.logformat import FORMATTERS
from culm.node.settings.reading import peer_settings
from culm.node.settings.schema import NODE_LIMITS, PROPOSAL_KEYS, PROTOCOL_LIMITS
from culm.ranges import RangeSet, read_range, read_size
from culm.types import Log
from culm.wire.places import parse_author, parse_log

ORIGIN = "command line"


# -- the arguments ---------------------------------------------------------------------------------------------------


def add_clump(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a clump."""
    clump = parser.add_mutually_exclusive_group()
    clump.add_argument("--clump", metavar="NAME", help="the clump, as text (default: as configured)")
    clump.add_argument("--clump-hex", metavar="HEX", help="the clump, as bytes in hex")


def add_node(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that acts as a node."""
    add_clump(parser)
    parser.add_argument("--identity", metavar="NAME", help="identity to show to peers (default: the default identity)")
    parser.add_argument(
        "--dialect",
        choices=[dialect.value for dialect in Dialect],
        help="dialect of the Bushbaby protocol: as the deployed peer speaks it (default), or as its document says",
    )
    parser.add_argument(
        "--limit",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="change a limit, as listed under [limits] in culm config --example",
    )
    parser.add_argument(
        "--interest",
        metavar="AUTHOR[/LOG] [RANGE]",
        action="append",
        help="ask only for this author, log or range, for example 'AUTHOR/LOG 100.. sparse', instead of what you"
        " follow; can be repeated",
    )
    parser.add_argument(
        "--hoard",
        action="store_true",
        default=None,
        help="ask for everything that peers announce, not only for what you follow",
    )
    parser.add_argument(
        "--promote", metavar="AUTHOR/LOG", action="append", default=[], help="send this log to every peer, even unasked"
    )
    parser.add_argument(
        "--wait-for-hello", action="store_true", default=None, help="let the caller send its hello first"
    )
    parser.add_argument(
        "--wait-for-auth", action="store_true", default=None, help="let the caller prove its identity first"
    )
    parser.add_argument("-v", "--verbose", action="store_true", default=None, help="also log what succeeds")
    parser.add_argument("--log-format", choices=("text", "json"), help="log lines as text or JSON (default: text)")


def add_serving(parser: argparse.ArgumentParser) -> None:
    """Add the options of a node that runs until it is stopped."""
    parser.add_argument(
        "--listen",
        metavar="URL",
        action="append",
        default=[],
        help="accept connections: culm, bushbaby, intervals, proposals or negentropy, then ://HOST:PORT (port 0: any)",
    )
    parser.add_argument("--peer", metavar="URL", action="append", default=[], help="stay connected to this peer")
    parser.add_argument(
        "--interval", type=float, metavar="SECONDS", help="time between two connections to a peer (default: 30)"
    )
    parser.add_argument("--http", metavar="HOST:PORT", help="serve the status page at this address")
    parser.add_argument(
        "--http-token-file", metavar="FILE", help="file with the token that viewers of the status page must present"
    )
    add_proposals(parser)
    add_node(parser)


def add_proposals(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options for ``proposals://`` peers; returns the group, so that ``culm sync`` can add more."""
    group = parser.add_argument_group("with proposals://")
    group.add_argument(
        "--greedy", action="store_true", help="pass on payloads before they are verified, and accept such payloads"
    )
    group.add_argument(
        "--window", metavar="SIZE", help="compress payloads with a history of this size (for example 64kB)"
    )
    group.add_argument("--profile", choices=("normal", "small"), default="normal", help="small uses less memory")
    return group


# -- what they and the configuration say -----------------------------------------------------------------------------

_AS_THEY_ARE = (
    "identity",
    "dialect",
    "hoard",
    "wait_for_hello",
    "wait_for_auth",
    "http_token_file",
    "verbose",
    "log_format",
)


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The configuration, overridden by the command line; ``ConfigError`` for a value that cannot be used."""
    settings = Home.find(arguments.home).settings(arguments.config)
    given = {name: value for name in _AS_THEY_ARE if (value := getattr(arguments, name, None)) is not None}
    if getattr(arguments, "clump", None) is not None:
        given |= {"clump": arguments.clump, "clump_hex": None}
    if getattr(arguments, "clump_hex", None) is not None:
        given |= {"clump": None, "clump_hex": arguments.clump_hex}
    if (interval := getattr(arguments, "interval", None)) is not None:
        if not 0 < interval < float("inf"):
            raise ConfigError("--interval must be more than 0 seconds")
        given["interval"] = interval
    if getattr(arguments, "http", None) is not None:
        try:
            given["http"] = read_value(HOST_PORT, arguments.http)
        except ValueError as error:
            raise ConfigError(f"--http: {error}") from None
    if listen := getattr(arguments, "listen", None):
        given["listen"] = tuple(PeerUrl.parse(text, schemes=LISTENER_SCHEMES, may_be_zero=True) for text in listen)
    if promote := getattr(arguments, "promote", None):
        given["promote"] = tuple(map(parse_log, promote))
    given |= _limits(getattr(arguments, "limit", None) or [])
    given |= _proposals(arguments)
    settings = settings.with_values(given, ORIGIN)
    if peers := getattr(arguments, "peer", None):
        known = {peer.url: peer for peer in settings.peers}
        urls = dict.fromkeys(map(PeerUrl.parse, peers))
        found = tuple(known.get(url) or peer_settings(settings, url) for url in urls)
        settings = replace(settings, peers=found, peers_origin=ORIGIN)
    return settings


def _limits(texts: list[str]) -> dict[str, Any]:
    config = NodeConfig(b"").with_limits(texts)
    names = {text.partition("=")[0] for text in texts}
    parts = (config.limits, config.protocol_limits)
    return {f"limits.{name}": getattr(part, name) for part in parts for name in names if hasattr(part, name)}


def _proposals(arguments: argparse.Namespace) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if getattr(arguments, "greedy", False):
        given["proposals.greedy"] = True
    if getattr(arguments, "window", None) is not None:
        given["proposals.window"] = read_size(arguments.window)
    if getattr(arguments, "profile", "normal") != "normal":
        given["proposals.profile"] = arguments.profile
    return given


def clump_of(settings: Settings) -> bytes:
    """The clump; empty if none is given, because most protocols have none. ``ConfigError`` if it is not hex."""
    if settings["clump"] is not None:
        return settings["clump"].encode("utf-8", errors="surrogateescape")  # type: ignore[no-any-return]
    try:
        return bytes.fromhex(settings["clump_hex"] or "")
    except ValueError:
        raise ConfigError(f"the clump {settings['clump_hex']!r} is not hex") from None


def has_clump(settings: Settings) -> bool:
    """Whether a clump is given, even if it is empty."""
    return settings["clump"] is not None or settings["clump_hex"] is not None


def chosen_clump(arguments: argparse.Namespace) -> bytes:
    """The clump of a command that needs one; ``ConfigError`` if none is given."""
    settings = settings_of(arguments)
    if not has_clump(settings):
        raise ConfigError(
            "this command needs a clump: give --clump NAME, or set clump in culm.toml (--clump '' for none)"
        )
    return clump_of(settings)


def clump_text(clump: bytes) -> str:
    """A clump as the beginning of a sentence: "in clump x", or "without a clump"."""
    if not clump:
        return "without a clump"
    try:
        text = clump.decode()
    except UnicodeDecodeError:
        text = ""
    return f"in clump {text}" if text.isprintable() and text else f"in clump {clump.hex()} (hex)"


def read_interest(text: str) -> tuple[bytes | Log, RangeSet]:
    """``AUTHOR[/LOG] [RANGE[; RANGE]...]``; ``ConfigError`` otherwise."""
    name, _, ranges = text.partition(" ")
    what = RangeSet(read_range(part) for part in ranges.split(";")) if ranges.strip() else EVERYTHING
    return parse_log(name) if "/" in name else parse_author(name), what


def adapting(arguments: argparse.Namespace, home: Home, settings: Settings) -> Callable[[Policy], Policy]:
    """A function that adapts the policy of the home to this call: its interests, hoarding and promoted logs."""
    changes: dict[str, Any] = {"hoard": settings["hoard"], "promote": frozenset(settings["promote"])}
    if arguments.interest is not None:
        changes["interests"] = dict(map(read_interest, arguments.interest))
    return lambda policy: replace(policy, own=home.own_authors(), **changes)


def node_config(settings: Settings, policy: Policy, *, needs_clump: bool) -> NodeConfig:
    """The configuration of a node; ``ConfigError`` if one of its protocols needs a clump and none is given."""
    if needs_clump and not has_clump(settings):
        raise ConfigError("bushbaby:// needs a clump: give --clump NAME, or set clump in culm.toml")
    config = NodeConfig(clump_of(settings))
    return replace(
        config,
        dialect=Dialect(settings["dialect"]),
        policy=policy,
        protocol_limits=replace(config.protocol_limits, **_of(settings, PROTOCOL_LIMITS)),
        limits=replace(config.limits, **_of(settings, NODE_LIMITS)),
        wait_for_hello=settings["wait_for_hello"],
        wait_for_auth=settings["wait_for_auth"],
        interval=settings["interval"],
        proposals=proposal_options(None, settings),
        download=settings["download"],
        upload=settings["upload"],
        peers=settings.peers,
    )


def _of(settings: Settings, keys: tuple[Any, ...]) -> dict[str, Any]:
    return {key.name: settings[f"limits.{key.name}"] for key in keys}


def proposal_options(arguments: argparse.Namespace | None, settings: Settings) -> ProposalOptions:
    """Options for ``proposals://`` peers from the configuration, and from the arguments of a single sync (or None)."""

    def size(name: str) -> int | None:
        text = getattr(arguments, name, None)
        return None if text is None else read_size(text)

    greatest = size("max_payload")
    greedy, window, profile = (settings[f"proposals.{key.name}"] for key in PROPOSAL_KEYS)
    return ProposalOptions(
        least_size=size("min_payload") or 0,
        greatest_size=MAX_U64 if greatest is None else greatest,
        mandatory=getattr(arguments, "mandatory", False),
        notify_only=getattr(arguments, "notify_only", False),
        notify_above=size("notify_above"),
        greedy=greedy,
        window=window,
        small=profile == "small",
    )


def start_logging(settings: Settings) -> None:
    """Log to stderr, in the configured format: warnings, and with ``verbose`` also what succeeds."""
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[settings["log_format"]]())
    logging.basicConfig(handlers=[handler], level=logging.INFO if settings["verbose"] else logging.WARNING)
