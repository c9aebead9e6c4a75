"""The messages, as values (docs/specs/intervals.md, "Framing")."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from culm.bamboo import Entry
from culm.intervals.interval import Request


@dataclass(frozen=True, slots=True)
class Eager:
    """The head of a message with item data; ``count`` bytes of it follow.

    ``start`` is what a relative start was resolved to, in the first eager or lazy message of such a request only.
    """

    count: int
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Lazy:
    """How far the response got without data: ``items`` more of them, and ``trailing`` bytes of the next payload.

    ``hash`` (66 bytes) is that of the last metadata before that point, if there is any.
    """

    items: int
    trailing: int
    hash: bytes | None = None
    start: int | None = None


class Reason(IntEnum):
    """Why a response ended before its interval did."""

    FULL_PROOF = 0
    PARTIAL_PROOF = 1
    CANCELLED = 2
    OTHER = 3


@dataclass(frozen=True, slots=True)
class ProofEntry:
    """An entry of a fork proof as it travels: without author and log id."""

    is_end: bool
    seq: int
    lipmaalink: bytes | None
    backlink: bytes | None
    size: int
    payload_hash: bytes
    signature: bytes

    @classmethod
    def of(cls, entry: Entry) -> ProofEntry:
        """What travels of an entry. Both links are written out, even where the entry has only one."""
        link = entry.lipmaalink if entry.lipmaalink is not None else entry.backlink
        return cls(entry.is_end, entry.seq, link, entry.backlink, entry.size, entry.payload_hash, entry.signature)


@dataclass(frozen=True, slots=True)
class End:
    """The end of the active response. ``proof``: two entries, one or none, by the reason.

    ``grants``: the receiver may send one request more. ``activates``: the id that is active from now on.
    """

    reason: Reason
    proof: tuple[ProofEntry, ...] = ()
    grants: bool = False
    activates: int | None = None


@dataclass(frozen=True, slots=True)
class RequestCredit:
    """So many more requests may be sent."""

    amount: int


@dataclass(frozen=True, slots=True)
class ResponseCredit:
    """So many more bytes of item data may be sent."""

    amount: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the response to this request."""

    id: int


@dataclass(frozen=True, slots=True)
class Activate:
    """What follows belongs to another request: the one whose id is ``change`` more (or less) than the active one."""

    change: int


@dataclass(frozen=True, slots=True)
class Adjust:
    """End ``old`` and go on as ``new``, eager if it was lazy and the reverse.

    ``seq`` and ``offset`` give a position: the metadata of an entry, or (with an offset) a byte of its payload.
    """

    old: int
    new: int
    seq: int | None = None
    offset: int | None = None


Message = Request | Eager | Lazy | End | RequestCredit | ResponseCredit | Cancel | Activate | Adjust
