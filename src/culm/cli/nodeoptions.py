"""The options of ``culm serve``, ``sync`` and other commands that act as a node.

A value on the command line overrides ``culm.toml``, which overrides the default. Most options are settings of that
file, too: their choices, their help and the check of their values come from its schema. Options whose default is None
leave the configuration as it is, so a flag that is not given does not switch off what the file switches on.
"""

import argparse
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from culm.bamboo.verification import Verify, check_one_by_one
from culm.bushbaby import Dialect
from culm.cli.arguments import named, named_peer, text_type
from culm.errors import ConfigError
from culm.node.config import NodeConfig
from culm.node.home import Home
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.interests.quotas import QuotaLimits
from culm.node.lan.multicast import check_installed
from culm.node.network.urls import PeerUrl
from culm.node.proposals.options import ProposalOptions
from culm.node.settings.kinds import FLAG, LOGS, read_value
from culm.node.settings.logformat import FORMATTERS
from culm.node.settings.reading import Settings, limits_of, peer_settings, read_limits
from culm.node.settings.schema import NODE, PROPOSALS, Section
from culm.ranges import RangeSet, read_range, read_size
from culm.types import Log
from culm.wire.announcement import STRONG_BYTES
from culm.wire.places import clump_name, parse_author, parse_log

ORIGIN = "command line"
CARRYING = {"quota": 10_000_000_000, "author_quota": 1_000_000_000}
"""The quotas of ``--carry``, in bytes: what a small server can spare, and a tenth of it for each author."""


# -- the arguments ---------------------------------------------------------------------------------------------------


def _add_settings(parser: argparse._ActionsContainer, section: Section, **metavars: str | None) -> None:
    """Add an option for each of these settings, with the setting's meaning as its help."""
    keys = {key.name: key for key in section.keys}
    for name, metavar in metavars.items():
        key = keys[name]
        names = [*(["-v"] if name == "verbose" else []), _option(name)]
        if key.kind is FLAG:
            parser.add_argument(*names, action="store_true", default=None, help=key.meaning)
            continue
        more = f" (default: {key.default})" if key.default else "; can be repeated" if key.default == () else ""
        parser.add_argument(
            *names,
            metavar=metavar,
            action="append" if key.default == () else "store",
            type=text_type if key.kind is LOGS else float if isinstance(key.default, float) else str,
            choices=key.kind.choices,
            help=key.meaning + more,
        )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def add_clump(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a clump."""
    _add_settings(parser.add_mutually_exclusive_group(), NODE, clump="NAME", clump_hex="HEX")


def add_identity(parser: argparse.ArgumentParser) -> None:
    """Add the option that names an identity."""
    _add_settings(parser, NODE, identity="NAME")


def add_speaking(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how to speak Bushbaby: clump, identity and dialect."""
    add_clump(parser)
    add_identity(parser)
    _add_settings(parser, NODE, dialect=None)


def add_sizes(parser: argparse._ActionsContainer) -> None:
    """Add the options that leave out payloads by their size."""
    for name, word in (("--min-payload", "smaller"), ("--max-payload", "larger")):
        text = f"skip {word} payloads (for example 100, 64kB, 1MB)"
        parser.add_argument(name, metavar="SIZE", type=read_size, help=text)


def add_node(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that acts as a node."""
    add_speaking(parser)
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
        type=partial(named, read_interest),
        help="ask only for this author, log or range, for example 'AUTHOR/LOG 100.. sparse', instead of what you"
        " follow; can be repeated",
    )
    _add_settings(parser, NODE, hoard=None, promote="AUTHOR/LOG", wait_for_hello=None, wait_for_auth=None)
    _add_settings(parser, NODE, withhold_have=None, ignore_want=None)
    _add_settings(parser, NODE, refuse_ranges="FEATURE", avoid_ranges="FEATURE")
    _add_settings(parser, NODE, verbose=None, log_format=None)


def add_serving(parser: argparse.ArgumentParser) -> None:
    """Add the options of a node that runs until it is stopped."""
    _add_settings(parser, NODE, listen="URL")
    parser.add_argument(
        "--peer",
        metavar="URL",
        action="append",
        default=[],
        type=partial(named_peer, PeerUrl.parse),
        help="stay connected to this peer",
    )
    _add_settings(parser, NODE, lan=None, lan_at="ADDRESS", lan_weak=None)
    _add_settings(parser, NODE, interval="SECONDS", scrub_days="DAYS", verify=None, relay=None)
    parser.add_argument(
        "--carry",
        metavar="CLUMP",
        help="carry the logs of all members of a clump, for them: --clump CLUMP --hoard, and unless others are given,"
        " quotas of 10 GB in all and 1 GB for each author",
    )
    _add_settings(parser, NODE, quota="SIZE", author_quota="SIZE")
    _add_settings(parser, NODE, http="HOST:PORT", http_token_file="FILE", http_payloads=None)  # noqa: S106 - a metavar
    group = parser.add_argument_group("with ws:// and wss://")
    _add_settings(group, NODE, web_origins="ORIGIN", web_exchange=None, web_token_file="FILE")  # noqa: S106 - a metavar
    _add_settings(group, NODE, web_certificate_file="FILE", web_key_file="FILE")
    add_stateless(parser.add_argument_group("with intervals://"))
    add_proposals(parser)
    add_node(parser)


def add_stateless(group: argparse._ActionsContainer) -> None:
    """Add the option for nodes that keep no request of a peer open."""
    _add_settings(group, NODE, stateless=None)


def add_proposals(parser: argparse.ArgumentParser) -> None:
    """Add the options for ``proposals://`` peers."""
    group = parser.add_argument_group("with proposals://")
    _add_settings(group, PROPOSALS, greedy=None, window="SIZE", profile=None, mandatory=None, notify_only=None)
    _add_settings(group, PROPOSALS, notify_above="SIZE")


def add_finding(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that looks for nodes on the same network."""
    add_clump(parser)
    _add_settings(parser, NODE, lan_at="ADDRESS")


# -- what they and the configuration say -----------------------------------------------------------------------------


def settings_of(arguments: argparse.Namespace, home: Home | None = None) -> Settings:
    """The configuration of a home, overridden by the command line; ``ConfigError`` for a value that cannot be used.

    The process checks signatures as it says from then on.
    """
    settings = (home or Home.find(arguments.home)).settings(arguments.config)
    given: dict[str, Any] = {**read_limits(getattr(arguments, "limit", []))}
    for section in (NODE, PROPOSALS):
        for key in section.keys:
            if (value := getattr(arguments, key.name, None)) is not None:
                try:
                    given[section.full_name(key.name)] = read_value(key.kind, value)
                except ValueError as error:
                    raise ConfigError(f"{_option(key.name)}: {error}") from None
    if (carried := getattr(arguments, "carry", None)) is not None:
        if "clump" in given or "clump_hex" in given:
            raise ConfigError("--carry names the clump: leave out --clump and --clump-hex")
        given = {"clump": carried, "hoard": True} | given
        given |= {name: size for name, size in CARRYING.items() if name not in given and not settings[name]}
    if "clump" in given or "clump_hex" in given:
        given = {"clump": None, "clump_hex": None} | given
    settings = settings.with_values(given, ORIGIN)
    if peers := getattr(arguments, "peer", None):
        known = {peer.url: peer for peer in settings.peers}
        found = tuple(known.get(url) or peer_settings(settings, url) for url in dict.fromkeys(peers))
        settings = replace(settings, peers=found, peers_origin=ORIGIN)
    if Verify(settings["verify"]) is Verify.ONE_BY_ONE:
        check_one_by_one()
    return settings


def chosen_clump(arguments: argparse.Namespace) -> bytes:
    """The clump of a command that needs one; ``ConfigError`` if none is given."""
    clump = settings_of(arguments).clump
    if clump is None:
        raise ConfigError(
            "this command needs a clump: give --clump NAME, or set clump in culm.toml (--clump '' for none)"
        )
    return clump


def lan_clump(settings: Settings, *, announces: bool) -> bytes:
    """The clump whose nodes are looked for on the same network; ``ConfigError`` if there is none, or no library.

    ``announces``: also ``ConfigError`` if the clump can be guessed from announcements.
    """
    clump = settings.clump
    if clump is None:
        raise ConfigError("finding neighbours needs a clump: give --clump NAME, or set clump in culm.toml")
    if announces and len(clump) < STRONG_BYTES and not settings["lan_weak"]:
        raise ConfigError(
            f"the clump has {len(clump)} bytes, and from announcements on the network anybody could guess it: take one"
            f" of {STRONG_BYTES} random bytes or more (--clump-hex), or accept that with --lan-weak"
        )
    check_installed()
    return clump


def clump_text(clump: bytes) -> str:
    """A clump as the beginning of a sentence: "in clump x", or "without a clump"."""
    return f"in clump {clump_name(clump)}" if clump else "without a clump"


def read_interest(text: str) -> tuple[bytes | Log, RangeSet]:
    """``AUTHOR[/LOG] [RANGE[; RANGE]...]``; ``ConfigError`` otherwise."""
    name, _, ranges = text.partition(" ")
    what = RangeSet(read_range(part) for part in ranges.split(";")) if ranges.strip() else EVERYTHING
    return parse_what(name), what


def parse_what(text: str) -> bytes | Log:
    """``AUTHOR`` or ``AUTHOR/LOG``; ``ConfigError`` otherwise."""
    return parse_log(text) if "/" in text else parse_author(text)


def adapting(arguments: argparse.Namespace, home: Home, settings: Settings) -> Callable[[Policy], Policy]:
    """A function that adapts the policy of the home to this call: its interests, hoarding and promoted logs."""
    changes: dict[str, Any] = {"hoard": settings["hoard"], "promote": frozenset(settings["promote"])}
    if arguments.interest is not None:
        changes["interests"] = dict(arguments.interest)
    return lambda policy: replace(policy, own=home.own_authors(), **changes)


def node_config(settings: Settings, policy: Policy, *, needs_clump: bool) -> NodeConfig:
    """The configuration of a node; ``ConfigError`` if one of its protocols needs a clump and none is given."""
    if needs_clump and settings.clump is None:
        raise ConfigError("bushbaby:// needs a clump: give --clump NAME, or set clump in culm.toml")
    limits, protocol_limits = limits_of(settings)
    proposing = {key.name: settings[f"proposals.{key.name}"] for key in PROPOSALS.keys}
    is_small = proposing.pop("profile") == "small"
    return NodeConfig(
        settings.clump or b"",
        dialect=None if settings["dialect"] is None else Dialect(settings["dialect"]),
        policy=policy,
        protocol_limits=protocol_limits,
        limits=limits,
        wait_for_hello=settings["wait_for_hello"],
        wait_for_auth=settings["wait_for_auth"],
        withhold_have=settings["withhold_have"],
        ignore_want=settings["ignore_want"],
        refuse_ranges=frozenset(settings["refuse_ranges"]),
        avoid_ranges=frozenset(settings["avoid_ranges"]),
        interval=settings["interval"],
        scrub_days=settings["scrub_days"],
        verify=Verify(settings["verify"]),
        relay=settings["relay"],
        quotas=QuotaLimits(settings["quota"], settings["author_quota"]),
        stateless=settings["stateless"],
        proposals=ProposalOptions(**proposing, small=is_small),
        download=settings["download"],
        upload=settings["upload"],
        peers=settings.peers,
    )


def start_logging(settings: Settings) -> None:
    """Log to stderr, in the configured format: warnings, and with ``verbose`` also what succeeds."""
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[settings["log_format"]]())
    logging.basicConfig(handlers=[handler], level=logging.INFO if settings["verbose"] else logging.WARNING)
