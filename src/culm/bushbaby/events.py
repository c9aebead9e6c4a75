"""What a connection tells its owner. All events are given in the order of the messages that made them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from culm.bamboo import Entry, ForkProof
from culm.bushbaby.handshake import Dialect
from culm.bushbaby.messages import HaveItem, WantItem


@dataclass(frozen=True, slots=True)
class PeerIdentified:
    """The peer's HELLO came. ``public`` is the long-term key it claims; nothing is proved yet."""

    public: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The peer has proved to hold ``public``. ``is_culm``: both sides recognised each other as Culm nodes."""

    public: bytes
    is_culm: bool


@dataclass(frozen=True, slots=True)
class HaveReceived:
    """The peer announces logs."""

    items: list[HaveItem]


@dataclass(frozen=True, slots=True)
class WantReceived:
    """The peer asks for logs."""

    items: list[WantItem]


@dataclass(frozen=True, slots=True)
class BambooReceived:
    """Entries came. ``entries`` yields each with its payload, once; ``size`` counts the message's bytes.

    Iterating raises ``RemoteProtocolError`` at the first byte that breaks the format.
    """

    entries: Iterator[tuple[Entry, memoryview]]
    size: int


@dataclass(frozen=True, slots=True)
class ForksReceived:
    """The peer shows fork proofs; their signatures are not checked."""

    proofs: list[ForkProof]


@dataclass(frozen=True, slots=True)
class OtherDialect:
    """The peer is of our clump and speaks ``dialect``, which is not ours. The connection is over."""

    dialect: Dialect


Event: TypeAlias = (
    PeerIdentified | OtherDialect | Authenticated | HaveReceived | WantReceived | BambooReceived | ForksReceived
)
