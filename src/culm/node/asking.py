"""How a node asks a peer: by which options of the protocol, and for which logs instead of those that it follows.

A one-time sync, a contact that is kept, the command line and the configuration can all say the same, so all of them
come here. The options have their own names in the configuration and on the command line (``OPTIONS``). They become the
record of the protocol: ``FollowOptions`` with intervals, ``ProposalOptions`` with proposals. The other protocols have
none, because there a peer says itself what it has, and is told what is wanted as ranges.

What is said for a contact holds for each of its connections. ``newest`` then means the newest entries at the beginning
of each connection, and all that is new while it lasts.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from culm.bamboo import YAMF_BYTES
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import ConfigError
from culm.intervals import Forks
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.intervals.followed import FollowOptions
from culm.node.network.urls import PeerUrl
from culm.node.proposals.options import ProposalOptions
from culm.ranges import RangeSet
from culm.store import ReadableStore
from culm.types import Log

How = FollowOptions | ProposalOptions
Wanted = Mapping[Log, RangeSet | None]
"""What to ask for of each log; None: what the policy wants of it, or all of it if the policy wants nothing."""

_HOWS: dict[str, type[How]] = {"intervals": FollowOptions, "proposals": ProposalOptions}
OPTIONS = {
    **dict.fromkeys(("newest", "newest_first", "unverified", "fork", "anchor"), ("intervals",)),
    **dict.fromkeys(("min_payload", "max_payload"), ("intervals", "proposals")),
    **dict.fromkeys(("greedy", "window", "profile", "mandatory", "notify_only", "notify_above"), ("proposals",)),
}
"""The options, as the configuration and the command line call them, with the protocols that have them."""


def unfit(name: str, url: PeerUrl) -> str | None:
    """Why an option cannot be used with the protocol of an address; None if it can."""
    if url.protocol in OPTIONS[name]:
        return None
    peers = " and ".join(f"{scheme}://" for scheme in OPTIONS[name])
    return f"works with {peers} peers only; this address is {url.scheme}://"


def check_how(how: How | None, url: PeerUrl) -> None:
    """``ConfigError`` if options are of another protocol than that of the address."""
    if how is not None and not isinstance(how, _HOWS.get(url.protocol, ())):
        names = " or ".join(f"{kind.__name__} with {name}://" for name, kind in _HOWS.items())
        raise ConfigError(f"{type(how).__name__} does not work with {url.scheme}://; expected {names}")


def how_of(url: PeerUrl, given: Mapping[str, Any], proposals: ProposalOptions) -> How | None:
    """The options of the address's protocol: those ``given`` by name, the others as in ``proposals`` or by default.

    None if the protocol has no options. Names of other protocols are not looked at. ``ConfigError`` for an anchor that
    is none, or without local fork handling.
    """
    fields = _fields({name: value for name, value in given.items() if url.protocol in OPTIONS[name]})
    kind = _HOWS.get(url.protocol)
    if kind is None:
        return None
    how = replace(proposals if kind is ProposalOptions else FollowOptions(), **fields)
    if isinstance(how, FollowOptions) and how.anchor is not None and how.forks is not Forks.LOCAL:
        raise ConfigError("anchor needs fork to be local: the default fork handling ignores anchors")
    return how


def read_anchor(text: str) -> tuple[int, bytes]:
    """The number and the hash of an entry, from ``SEQ:HASH``; ``ConfigError`` if the text is not of that form."""
    seq, _, digest = text.partition(":")
    try:
        anchor = int(seq), YAMF_PREFIX + bytes.fromhex(digest.removeprefix("0040"))
    except ValueError:
        anchor = 0, b""
    if anchor[0] < 1 or len(anchor[1]) != YAMF_BYTES:
        raise ConfigError(f"{text}: expected SEQ:HASH (128 hex digits)")
    return anchor


_READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "unverified": ("verified", lambda value: not value),
    "fork": ("forks", lambda value: Forks.LOCAL if value == "local" else Forks.DEFAULT),
    "anchor": ("anchor", read_anchor),
    "min_payload": ("least_size", int),
    "max_payload": ("greatest_size", int),
    "profile": ("small", lambda value: value == "small"),
}
"""The options that the records call otherwise: by which name, and how to read the value."""


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {}
    for name, value in given.items():
        field, read = _READERS.get(name, (name, lambda value: value))
        fields[field] = read(value)
    return fields


def narrowed(policy: Policy, wanted: Wanted) -> Policy:
    """The policy with what is wanted of logs in place of its own interests. Blocked authors stay out."""
    interests: dict[bytes | Log, RangeSet] = {
        log: ranges if ranges is not None else policy.interest(log) or EVERYTHING
        for log, ranges in wanted.items()
        if policy.admits_author(log[0])
    }
    return replace(policy, interests=interests, hoard=False)


def logs_to_ask_for(store: ReadableStore, policy: Policy) -> list[Log]:
    """The logs to ask a peer for by a protocol that cannot list what the peer has.

    They are those that the interests name, and those that are held already and wanted. A log of a followed author that
    nobody has told us of cannot be among them.
    """
    held = [(summary.author, summary.log_id) for summary in store.logs()]
    named = [log for log in policy.interests or () if isinstance(log, tuple)]
    return [log for log in dict.fromkeys([*named, *held]) if policy.wants(log)]
