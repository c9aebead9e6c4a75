"""``culm join``: from an invitation to the first entries, with one command.

Specification: docs/specs/invitation.md, "Taking an invitation".

Each step is kept before the next begins: the home, the inviter's name, the configuration, what to follow. So if the
node cannot be reached now, nothing has to be done again later, and the same URL can be given twice.

A home that is in the clump already keeps the choices that it has made there: what it follows is not narrowed, and no
log of its own is taken out.
"""

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

from culm.app.names import followed
from culm.bushbaby.clump import check_clump
from culm.cli.arguments import home_option
from culm.cli.command import Commands
from culm.cli.identity import ask_passphrase, ensure_identity
from culm.cli.nodeoptions import ORIGIN, clump_text, node_config, settings_of, start_logging
from culm.cli.output import counted, note, print_json
from culm.cli.people.invite import described, until
from culm.cli.progress import summed, sync_progress, tell_wrong
from culm.errors import ConfigError, NetworkError, ProtocolError
from culm.node.home import Home
from culm.node.interests.policy import Policy
from culm.node.names import Name
from culm.node.network.reaching import connect_any
from culm.node.network.transport import Streams
from culm.node.network.urls import PeerUrl
from culm.node.sessions.session import Purpose
from culm.node.settings.adding import add_to_config
from culm.node.settings.reading import Settings
from culm.node.sync import SyncSummary, sync
from culm.ranges import Range
from culm.types import Log
from culm.wire.invitation import MAX_CHARS, Invitation
from culm.wire.places import author_text


def register(commands: Commands) -> None:
    """Add the command of this module."""
    join = commands.add("join", _join)
    join.add_argument(
        "invitation", metavar="URL", type=_read, help="what culm invite printed; - is stdin, which no other user sees"
    )
    join.add_argument("--passphrase", action="store_true", help="encrypt the identity, if one is made")


def _read(text: str) -> Invitation:
    if text == "-":
        text = "".join(sys.stdin.read(2 * MAX_CHARS).split())
    return Invitation.parse(text.strip())


@dataclass(frozen=True)
class _Joined:
    """A home that takes an invitation.

    ``fresh``: the home was made for it. ``other``: the configuration has another clump, so that later commands have to
    name the invitation's. ``urls``: the addresses of the inviter's node.
    """

    home: Home
    settings: Settings
    invitation: Invitation
    fresh: bool
    other: bool
    urls: tuple[PeerUrl, ...]


def _join(arguments: argparse.Namespace) -> int:
    invitation: Invitation = arguments.invitation
    if invitation.expires and time.time() > invitation.expires:
        raise ConfigError(f"the invitation was good {until(invitation)}; ask for a new one")
    check_clump(invitation.clump)
    home = Home.find(arguments.home)
    if invitation.key in home.own_authors():
        raise ConfigError("this is your own invitation: give the URL to somebody else")
    settings = settings_of(arguments)
    start_logging(settings)
    fresh = home.create()
    ensure_identity(home, sealed=arguments.passphrase)
    other = settings.clump is not None and settings.clump != invitation.clump
    urls = tuple(PeerUrl("culm", host, port, invitation.key) for host, port in invitation.addresses)
    joined = _Joined(home, settings, invitation, fresh, other, urls)
    if not arguments.json:
        _tell_beginning(joined)
    _keep_name(joined)
    follows = _follow(joined)
    if not arguments.json:
        print(f"following {follows}")
    try:
        url, summary = _first_exchange(arguments, joined)
    except BaseException as error:  # Also Control-C in a first exchange that takes long.
        _keep_peers(arguments, joined, urls)
        if isinstance(error, NetworkError | ProtocolError):
            note("all that the invitation says is kept; when the node can be reached, run the same command again")
        raise
    is_kept = _keep_peers(arguments, joined, (url,))
    if arguments.json:
        about = {"home": str(home.path), "created": fresh, "address": str(url)}
        print_json({"type": "summary", **about, "inviter": described(invitation), **summed(summary)})
    else:
        culm = home_option(arguments)
        _tell_end(joined, culm, url, summary)
        note(f"to stay up to date: {culm} serve{'' if is_kept else _options(joined, url)}")
    return 1 if summary.refused else 0


def _tell_beginning(joined: _Joined) -> None:
    home = joined.home
    if joined.fresh:
        print(f"made {home.path}")
    print(f"author {author_text(home.identity_public(home.identity_name(joined.settings['identity'])))}")


# -- what is kept ----------------------------------------------------------------------------------------------------


def _keep_name(joined: _Joined) -> None:
    """Note the name that the inviter suggests, unless their key has one already."""
    file, invitation = joined.home.names_file, joined.invitation
    names = file.load()
    if not invitation.name or invitation.key in names.of:
        return
    try:
        file.save(names.with_name(invitation.key, Name(invitation.name, suggested=True)))
    except ConfigError as error:
        note(f"the inviter's name is not kept: {error}")


def _follow(joined: _Joined) -> str:
    """Follow what the invitation names; in words, what is followed."""
    home, invitation = joined.home, joined.invitation
    policy = home.policy_file.load(invitation.clump)
    is_known = not joined.fresh and (joined.settings.clump or b"") == invitation.clump
    changed = policy
    if invitation.as_reader and not is_known:
        changed = replace(changed, block_authors=changed.block_authors | home.own_authors())
    if policy.interests is not None or (invitation.logs and not is_known):
        for what in invitation.logs or (invitation.key,):
            changed = _following(changed, what)
    if changed != policy:
        home.policy_file.save(invitation.clump, changed)
    names = home.names()
    if changed.interests is None:
        return f"everything {clump_text(invitation.clump)}"
    return ", ".join(map(names.what, invitation.logs or (invitation.key,)))


def _following(policy: Policy, what: bytes | Log) -> Policy:
    """The policy with this followed from its beginning, unless it follows some of it already."""
    if what in (policy.interests or {}):
        return policy
    return followed(policy, what, Range(1, None), add=False)


def _keep_peers(arguments: argparse.Namespace, joined: _Joined, urls: tuple[PeerUrl, ...]) -> bool:
    """Add the clump and these addresses to the configuration, as far as it has them not; whether it has them now."""
    if joined.other:
        return False
    path = joined.home.config_path
    if arguments.config is not None:
        note(f"the peer is not added to {arguments.config}, because a file that is named with --config is yours")
        return False
    name = joined.home.names().of.get(joined.invitation.key)
    known = {peer.url for peer in joined.settings.peers}
    clump = joined.invitation.clump if joined.settings.clump is None else None
    new = [(name.text if name else str(url), url) for url in urls if url not in known]
    if not new and not clump:
        return True
    try:
        add_to_config(path, clump or None, new)
    except ConfigError as error:
        note(f"the peer is not added to the configuration, so add it yourself: {error}")
        return False
    return True


# -- the first exchange ----------------------------------------------------------------------------------------------


def _first_exchange(arguments: argparse.Namespace, joined: _Joined) -> tuple[PeerUrl, SyncSummary]:
    """Exchange everything once; the address that answered, and what was exchanged."""
    home, invitation = joined.home, joined.invitation
    clump: dict[str, Any] = {"clump": None, "clump_hex": invitation.clump.hex()}
    settings = joined.settings.with_values(clump, ORIGIN)
    policy = replace(home.policy_file.load(invitation.clump), own=home.own_authors(), hoard=settings["hoard"])
    config = node_config(settings, policy, needs_clump=False)
    reached = joined.urls[0]

    async def dial(_: PeerUrl) -> Streams:
        nonlocal reached
        reached, streams = await connect_any(joined.urls)
        return streams

    with home.store() as store, sync_progress(arguments, "joining") as progress:
        identity = home.identity(settings["identity"], ask_passphrase)
        purpose = Purpose(is_live=False, mirrors=False)
        exchange = sync(identity, config, store, joined.urls[0], purpose, progress, dial=dial, kept=home.kept_peers())
        summary = asyncio.run(exchange)
    return reached, summary


def _tell_end(joined: _Joined, culm: str, url: PeerUrl, summary: SyncSummary) -> None:
    print(f"received {counted(summary.entries_received, 'entry')} from {joined.home.names().author(url.key or b'')}")
    tell_wrong(joined.home, summary)
    note(f"to see it: {culm} logs")
    name = joined.home.names().of.get(joined.invitation.key)
    if name is None:
        note(f"to give the inviter a name: {culm} name {author_text(joined.invitation.key)} NAME")
    elif name.suggested:
        note(f"the inviter chose the name {name.text}; to keep it: {culm} name {name.text} {name.text}")
    if not joined.invitation.as_reader:
        note(f"to publish: {culm} append 1 --text hello; a node that follows only some has to follow your author, too")


def _options(joined: _Joined, url: PeerUrl) -> str:
    """The options by which a node of this home is in the clump and calls the inviter without the configuration."""
    clump = f"--clump-hex {joined.invitation.clump.hex()}" if joined.invitation.clump else "--clump ''"
    return f" --peer {url} {clump}"
