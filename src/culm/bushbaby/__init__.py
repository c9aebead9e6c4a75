"""The Bushbaby gossip protocol, without I/O.

Specification: docs/specs/bushbaby.md.
"""

from culm.bushbaby.connection import Connection, State
from culm.bushbaby.events import (
    Authenticated,
    BambooReceived,
    Event,
    ForksReceived,
    HaveReceived,
    OtherDialect,
    PeerIdentified,
    WantReceived,
)
from culm.bushbaby.handshake import Dialect
from culm.bushbaby.messages import BambooWriter, HaveItem, WantItem
from culm.bushbaby.options import MAX_PLAINTEXT, Limits, Options

__all__ = [
    "MAX_PLAINTEXT",
    "Authenticated",
    "BambooReceived",
    "BambooWriter",
    "Connection",
    "Dialect",
    "Event",
    "ForksReceived",
    "HaveItem",
    "HaveReceived",
    "Limits",
    "Options",
    "OtherDialect",
    "PeerIdentified",
    "State",
    "WantItem",
    "WantReceived",
]
