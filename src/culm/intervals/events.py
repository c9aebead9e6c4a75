"""What a connection tells its owner, besides the entries and payloads it brings (``culm.transfer``).

A ``Request`` as an event means that the peer asks for something. ``respond`` answers it, with what the source shows.
"""

from dataclasses import dataclass

from culm.bamboo import Entry
from culm.intervals.interval import Request
from culm.intervals.messages import Reason
from culm.transfer import EntriesReceived, EntryReceived, PayloadFailed, PayloadReceived


@dataclass(frozen=True, slots=True)
class EntryDropped:
    """An entry in an unverified response has a bad signature. The response goes on; the owner had better cancel it."""

    id: int
    seq: int


@dataclass(frozen=True, slots=True)
class Announced:
    """A response got ``items`` further without data: it is lazy, or the peer had those from us.

    ``seq`` is the number of the last entry passed, 0 if none was; ``trailing`` the bytes there are of the next payload.
    """

    id: int
    items: int
    trailing: int
    seq: int


@dataclass(frozen=True, slots=True)
class Started:
    """The peer said to which number a relative start was resolved."""

    id: int
    start: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A response is over. ``reason`` is None if it came to its end.

    ``index`` items of its stream were passed, the next one is ``next_seq`` (0 if not known). ``proof``: the entries of
    a fork proof that was checked, two, or the one that contradicts a hash we expected.
    """

    id: int
    reason: Reason | None
    index: int
    next_seq: int
    proof: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """A request of the peer is over. ``doubted``: the number of an entry where the peer seems to hold another one.

    ``has_shown_fork``: our answer ended with a fork proof.
    """

    id: int
    log: tuple[bytes, int]
    doubted: int | None = None
    has_shown_fork: bool = False


@dataclass(frozen=True, slots=True)
class Doubted:
    """The peer announced or confirmed entry ``seq`` with a hash that none of ours has: ask for it, naming ours."""

    log: tuple[bytes, int]
    seq: int


Event = (
    EntryReceived
    | EntriesReceived
    | PayloadReceived
    | PayloadFailed
    | EntryDropped
    | Announced
    | Started
    | Ended
    | Request
    | RequestEnded
    | Doubted
)
