"""The messages of the control channel, as values. Numbers are unsigned, of 64 bits.

Specification: docs/specs/proposals.md, "Control channel".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from culm.bamboo import MAX_U64, Entry


class Wish(IntEnum):
    """How much of what the sender holds the receiver wants to get. The numbers are those on the wire."""

    NOTIFY = 1  # to be told of it
    LIMITED = 2  # metadata, and payloads up to a size
    ALL = 3


@dataclass(frozen=True, slots=True)
class Eagerness:
    """What an endpoint wants to be sent; ``limit`` is a payload's greatest size in bytes, of ``Wish.LIMITED`` only."""

    wish: Wish = Wish.ALL
    limit: int = 0


EVERYTHING = Eagerness()
NOTHING = Eagerness(Wish.NOTIFY)


@dataclass(frozen=True, slots=True)
class Grant:
    """The peer may make so many proposals more."""

    amount: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A range to synchronise.

    ``start`` to ``end`` (None: for ever) of a log. ``lower``: where the lower certificate pool is sent from; None with
    an ``offset``, the byte of the start's payload to begin at. ``upper``: up to where the upper one is sent; None if
    ``end`` is. ``hash`` (66 bytes): of the entry that ``lower`` links to, or of the start with an offset; None if there
    is no such entry.

    ``eagerness``, ``least``, ``greatest`` (sizes of payloads in bytes, both included) and ``mandatory`` (no payload may
    be left out) are what its sender wants.
    """

    id: int
    author: bytes
    log_id: int
    start: int
    lower: int | None = 1
    end: int | None = None
    upper: int | None = None
    hash: bytes | None = None
    offset: int | None = None
    eagerness: Eagerness = EVERYTHING
    least: int = 0
    greatest: int = MAX_U64
    payload_only: bool = False
    sparse: bool = False
    mandatory: bool = False

    @property
    def log(self) -> tuple[bytes, int]:
        """The log's author and number."""
        return self.author, self.log_id

    def overlaps(self, other: Proposal) -> bool:
        """Whether the ranges of two proposals, as proposed, have an entry in common."""
        return (
            self.log == other.log
            and (self.end is None or other.start <= self.end)
            and (other.end is None or self.start <= other.end)
        )


@dataclass(frozen=True, slots=True)
class Adjust:
    """A change of a proposal; None: no change. ``may_skip``: payloads may be left out from now on."""

    id: int
    eagerness: Eagerness | None = None
    may_skip: bool = False
    end: int | None = None
    upper: int | None = None
    least: int | None = None
    greatest: int | None = None


class Code(IntEnum):
    """Why a proposal is cancelled. The numbers are those on the wire."""

    DO_NOT_RETRY = 128
    RESOURCE_LIMIT = 129
    END_OF_RANGE = 130
    CONFIRMING = 131
    MANDATORY_PAYLOAD = 132
    HASH_DIFFERS = 133
    END_OF_LOG = 134
    FORKED = 135


@dataclass(frozen=True, slots=True)
class Cancel:
    """A cancellation. ``entries``: one that has not the expected hash, or two that prove a fork. ``seq``: the last."""

    id: int
    code: Code
    entries: tuple[Entry, ...] = ()
    seq: int = 0


ControlMessage: TypeAlias = Grant | Proposal | Adjust | Cancel
