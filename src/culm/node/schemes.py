"""The protocols a node speaks, in one table: everything that depends on the scheme of an address.

Code that needs to know what is special about ``intervals://`` asks the table by a name that says what the difference
is, instead of comparing the scheme with a string. A new protocol is a new row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from culm.node.bushbaby.session import BushbabySession
from culm.node.culm.session import CulmSession
from culm.node.intervals.session import IntervalSession
from culm.node.network.urls import PeerUrl
from culm.node.proposals.session import ProposalSession
from culm.node.sessions.session import Context, Purpose, Session
from culm.node.sharing.rates import Streams


@dataclass(frozen=True, slots=True)
class Scheme:
    """A protocol, as far as a node treats it differently from others.

    ``session`` makes a session of a connection; None: a caller compares sets of records and ends.
    ``proves_identity``: peers prove who they are, so that a list of allowed peers can be held to.
    ``needs_clump``: two nodes talk only if both name the same clump.
    ``asks_by_log``: peers are asked for logs by name, since the protocol cannot list what a peer has.
    ``watches_store``: also a session that is not live is told what other processes write meanwhile.
    ``in_websocket``: the session runs inside a WebSocket, and most callers are web pages, which only read.
    ``blames_address``: an address stands for the peers at it, so that it is refused if one of them breaks the rules.
    Behind a proxy of this machine all callers have one address.
    """

    session: Callable[[Context, Streams, Purpose], Session[Any]] | None
    proves_identity: bool = False
    needs_clump: bool = False
    asks_by_log: bool = False
    watches_store: bool = False
    in_websocket: bool = False
    blames_address: bool = True


TABLE = {
    "culm": Scheme(CulmSession, proves_identity=True, watches_store=True),
    "bushbaby": Scheme(BushbabySession, proves_identity=True, needs_clump=True),
    "intervals": Scheme(IntervalSession, asks_by_log=True),
    "proposals": Scheme(ProposalSession, asks_by_log=True),
    "negentropy": Scheme(None),
    "ws": Scheme(IntervalSession, asks_by_log=True, in_websocket=True, blames_address=False),
    "wss": Scheme(IntervalSession, asks_by_log=True, in_websocket=True),
}


def scheme_of(url: PeerUrl) -> Scheme:
    """What is special about the protocol of an address."""
    return TABLE[url.scheme]
