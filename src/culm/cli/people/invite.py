"""``culm invite``: one URL that brings a person to this node, and a QR code of it on a terminal.

The URL holds the clump, which is a secret. So it goes to stdout alone, and no page of the node shows it.
"""

import argparse
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from culm.cli.arguments import log_type, number
from culm.cli.command import Commands
from culm.cli.nodeoptions import add_clump, add_identity, clump_text, settings_of
from culm.cli.output import note, print_json
from culm.errors import ConfigError, NotHeld
from culm.node.home import Home
from culm.node.interests.policy import Policy
from culm.node.names import Names
from culm.node.network.urls import PeerUrl
from culm.node.settings.reading import Settings
from culm.types import Log
from culm.wire.invitation import MAX_ADDRESSES, Address, Invitation
from culm.wire.places import author_text, log_text

_DAY_SECONDS = 24 * 60 * 60
_ANY = {"0.0.0.0": socket.AF_INET, "::": socket.AF_INET6}  # noqa: S104 - hosts of listeners that are no address to call
_LOOPBACK = ("127.", "::1")
# Addresses that nobody has (RFC 5737, RFC 3849). The system says from which of its own it would send there. It sends
# nothing, because UDP has no connections.
_FAR = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
_BORDER = 2  # Modules of quiet around a QR code: phones read it with half of the standard's four.


def register(commands: Commands) -> None:
    """Add the command of this module."""
    invite = commands.add("invite", _invite)
    invite.add_argument(
        "--log",
        dest="logs",
        metavar="AUTHOR/LOG",
        action="append",
        default=[],
        type=log_type,
        help="a log to follow; can be repeated (default: everything that the clump has)",
    )
    invite.add_argument(
        "--as", dest="role", choices=("member", "reader"), default="member",
        help="what the person joins as: a reader's own logs stay out of the clump (default: member)",
    )  # fmt: skip
    invite.add_argument(
        "--address",
        dest="addresses",
        metavar="HOST:PORT",
        action="append",
        default=[],
        type=_address,
        help="where this node is reached by culm://; can be repeated (default: the listeners of the configuration)",
    )
    invite.add_argument(
        "--name", help="what you want to be called (default: the name that you have given your own key)"
    )
    invite.add_argument(
        "--days", metavar="N", type=number("number of days", 0), default=7,
        help="days until culm join refuses it, 0 for never (default: 7)",
    )  # fmt: skip
    add_clump(invite)
    add_identity(invite)


def _address(text: str) -> PeerUrl:
    return PeerUrl.parse(text if "://" in text else f"culm://{text}", schemes=("culm",), may_be_zero=True)


def _invite(arguments: argparse.Namespace) -> int:
    home, settings = Home.find(arguments.home), settings_of(arguments)
    home.check()
    names, clump = home.names(), settings.clump or b""
    key = home.identity_public(home.identity_name(settings["identity"]))
    logs = tuple(dict.fromkeys(arguments.logs))
    policy = home.policy_file.load(clump)
    _check_logs(home, clump, policy, names, logs)
    own = names.of.get(key)
    invitation = Invitation(
        key,
        _addresses(arguments.addresses, settings),
        clump,
        logs,
        arguments.name if arguments.name is not None else own.text if own else "",
        int(time.time()) + arguments.days * _DAY_SECONDS if arguments.days else 0,
        as_reader=arguments.role == "reader",
    )
    url = invitation.url()
    if arguments.json:
        print_json({"url": url, **described(invitation)})
        return 0
    if sys.stdout.isatty():
        _print_code(url)
    print(url)
    to = ", ".join(map(names.log, logs)) or "everything that you share there"
    note(f"invites a {arguments.role} {clump_text(clump)} to {to}, {until(invitation)}; they run: culm join URL")
    note("keep it secret: the URL holds the clump, and only culm join keeps to the date")
    if all(host == "localhost" or host.startswith(_LOOPBACK) for host, _ in invitation.addresses):
        note("the address is reached from this machine only: for others, give --address, or another one under listen")
    if policy.allow_peers:
        note(f"{clump_text(clump)} this node talks to listed peers only: allow the new key, too (culm allow peer KEY)")
    return 0


def described(invitation: Invitation) -> dict[str, object]:
    """What an invitation says, for JSON; without the clump."""
    return {
        "key": author_text(invitation.key),
        "name": invitation.name or None,
        "addresses": [str(PeerUrl("culm", host, port, invitation.key)) for host, port in invitation.addresses],
        "logs": list(map(log_text, invitation.logs)),
        "expires": invitation.expires or None,
        "as": "reader" if invitation.as_reader else "member",
    }


def until(invitation: Invitation) -> str:
    """How long an invitation is good, for people."""
    if not invitation.expires:
        return "for ever"
    return "until " + time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(invitation.expires))


def _check_logs(home: Home, clump: bytes, policy: Policy, names: Names, logs: Sequence[Log]) -> None:
    """``NotHeld`` for a log that the store does not have, which is most often mistyped; a word about one not shared."""
    with home.store(read_only=True) as store:
        for log in logs:
            if store.lookup(log).entry_extent() is None:
                raise NotHeld(f"the store has no entries of {names.log(log)}, so an invitation to it would be empty")
            clumps = store.clumps_of(log)
            if not policy.shares(log) or (clumps is not None and clump not in clumps):
                note(f"{clump_text(clump)} this home does not share {names.log(log)} (see: culm share)")


# -- addresses -------------------------------------------------------------------------------------------------------


def _addresses(given: Sequence[PeerUrl], settings: Settings) -> tuple[Address, ...]:
    """The addresses ``given``, or those of the listeners; ``ConfigError`` if there is none to call."""
    urls = given or [url for url in settings["listen"] if url.scheme == "culm"]
    found = list(dict.fromkeys((host, url.port) for url in urls for host in _hosts(url.host)))
    if not found or not all(port for _, port in found):
        raise ConfigError(
            "no address is known at which this node can be called: give --address HOST:PORT,"
            " or set listen in culm.toml, with a port"
        )
    if len(found) > MAX_ADDRESSES:
        note(f"the invitation has the first {MAX_ADDRESSES} of {len(found)} addresses")
    return tuple(found[:MAX_ADDRESSES])


def _hosts(host: str) -> Iterator[str]:
    """The host of a listener; if that is every one of this machine, the addresses from which the machine calls."""
    if host not in _ANY:
        yield host
        return
    families = _FAR if host == "::" else {_ANY[host]: _FAR[_ANY[host]]}
    for family, far in families.items():
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((far, 9))
            yield asking.getsockname()[0]


# -- the code --------------------------------------------------------------------------------------------------------


def _print_code(url: str) -> None:
    """Draw the URL as a QR code, if the library is there and the terminal has the room."""
    from shutil import get_terminal_size  # noqa: PLC0415 - only a terminal needs it

    try:
        import segno  # noqa: PLC0415 - an extra
    except ImportError:
        note("for a QR code here: pip install 'culm[terminal]'")
        return
    # In capital letters, so that the code is of the mode for letters and digits, which takes a third less room.
    code = segno.make_qr(url.upper(), error="l", boost_error=False)
    size = get_terminal_size()
    if code.symbol_size(border=_BORDER)[0] > size.columns:
        note(f"the QR code takes {code.symbol_size(border=_BORDER)[0]} columns, and this terminal has {size.columns}")
        return
    code.terminal(compact=True, border=_BORDER)
