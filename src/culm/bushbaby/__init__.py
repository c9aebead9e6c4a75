"""The Bushbaby gossip protocol, without I/O.

Specification: docs/specs/bushbaby.md.
"""

from culm.bushbaby.connection import BambooWriter, Connection, State
from culm.bushbaby.events import Authenticated, BambooReceived, Event, HaveReceived, PeerIdentified, WantReceived
from culm.bushbaby.handshake import Dialect
from culm.bushbaby.limits import MAX_PLAINTEXT, Limits
from culm.bushbaby.messages import HaveItem, WantItem

__all__ = [
    "MAX_PLAINTEXT",
    "Authenticated",
    "BambooReceived",
    "BambooWriter",
    "Connection",
    "Dialect",
    "Event",
    "HaveItem",
    "HaveReceived",
    "Limits",
    "PeerIdentified",
    "State",
    "WantItem",
    "WantReceived",
]
