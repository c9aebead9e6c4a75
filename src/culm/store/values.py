"""The values that a store gives and takes. Nothing here knows how they are stored."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Self

from culm.bamboo import Entry, ForkProof
from culm.errors import ConfigError, CulmError, PayloadDamaged, Place, StoreError
from culm.store.schema import PayloadState, State, to_sql
from culm.types import Log


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as the store holds it.

    ``payload_held`` counts the bytes held of the payload, from its start. ``id`` is the entry's row: row ids grow in
    the order of arrival.
    """

    entry: Entry
    state: State
    payload_state: PayloadState
    payload_held: int
    id: int

    @property
    def payload_complete(self) -> bool:
        """Whether all of the payload is held. An empty payload always is."""
        return self.payload_state is PayloadState.COMPLETE


@dataclass(frozen=True, slots=True)
class Sendable:
    """A verified entry with its whole payload, not decoded: senders pass the bytes on.

    ``size`` counts the payload's bytes. ``start`` is the payload's first piece: all of it, if it is small.
    """

    seq: int
    encoded: bytes
    size: int
    start: bytes
    id: int


@dataclass(frozen=True, slots=True)
class LogSummary:
    """What the store holds of a log.

    ``newest`` is the newest verified sequence number, ``greatest`` the greatest one held in any state; nothing is
    missing up to ``complete_to`` (each 0: none). ``entries`` counts the verified entries, ``payloads`` those of them
    whose payload is complete, ``certified`` those whose whole certificate pool is verified, as far as a log up to
    ``greatest`` has one (None where they were not counted: see ``culm.store.survey``). ``waiting`` counts those that
    are held until their certificate path arrives, ``invalid`` those at or after ``invalid_from``. ``missing`` counts
    the numbers below ``newest`` without any entry. ``forked_at`` is the lowest position of a fork, None if the log is
    not forked. ``ended`` says whether the newest verified entry ends the log. ``changed`` is the number of the log's
    last change.
    """

    author: bytes
    log_id: int
    newest: int
    greatest: int
    complete_to: int
    entries: int
    payloads: int
    certified: int | None
    waiting: int
    invalid: int
    missing: int
    forked_at: int | None
    invalid_from: int | None
    ended: bool
    changed: int

    @property
    def log(self) -> Log:
        """Author and id."""
        return self.author, self.log_id


@dataclass(frozen=True, slots=True)
class Offer:
    """How far a log can be sent with payloads.

    ``newest`` is the greatest number of a verified entry whose payload is held (0: none); some below it may be missing.
    ``held_back`` is the lowest number of a verified entry whose payload is missing, None if there is none. ``digest``
    is that of entry ``newest`` (64 bytes; empty if ``newest`` is 0), ``forked_at`` the lowest position of a fork.
    """

    author: bytes
    log_id: int
    newest: int
    held_back: int | None
    digest: bytes
    forked_at: int | None

    @property
    def log(self) -> Log:
        """Author and id."""
        return self.author, self.log_id


@dataclass(slots=True)
class ImportReport:
    """What the store did with the entries it was given.

    ``added`` counts new entries, including those that wait or are part of a fork; ``known`` those that were held
    already. ``waiting`` counts the new ones that wait. ``payloads`` counts new payloads. ``refused`` lists place and
    reason of each entry, or only payload, that the store did not take. ``forks`` are the proofs of new forks.
    """

    added: int = 0
    known: int = 0
    waiting: int = 0
    payloads: int = 0
    refused: list[tuple[Place | None, CulmError]] = field(default_factory=list)
    forks: list[ForkProof] = field(default_factory=list)

    def merge(self, other: ImportReport) -> None:
        """Add another report's counts to this one."""
        self.added += other.added
        self.known += other.known
        self.waiting += other.waiting
        self.payloads += other.payloads
        self.refused += other.refused
        self.forks += other.forks


@dataclass(slots=True)
class VerifyReport:
    """The verdicts over everything held, computed from the bytes alone. ``forks`` counts forked logs.

    ``certified`` counts the verified entries whose whole certificate pool is verified, as far as the log reaches.

    ``problems`` lists place and reason wherever the stored bytes contradict what the store says of them. The place is
    None if the problem is not one of a single entry. ``damaged`` has those among them that are damaged payloads, for
    ``Store.drop_damaged``.
    """

    entries: int = 0
    verified: int = 0
    certified: int = 0
    unverified: int = 0
    invalid: int = 0
    forks: int = 0
    payloads: int = 0
    problems: list[tuple[Place | None, str]] = field(default_factory=list)
    damaged: list[PayloadDamaged] = field(default_factory=list)


class Overtaken(StoreError):
    """Another transfer changed what is held of a payload. ``complete`` says whether it brought all of the payload."""

    def __init__(self, *, complete: bool) -> None:
        super().__init__("another transfer changed what is held of this payload: begin it again")
        self.complete = complete


# -- sets to reconcile ---------------------------------------------------------------------------------------------


class View(Enum):
    """Which records a set has: all verified entries, those whose payload is complete, or one for each log."""

    ENTRIES = "entries"
    PAYLOADS = "payloads"
    HEADS = "heads"


# -- news ----------------------------------------------------------------------------------------------------------

_LOWEST = (0, to_sql(0), -1)  # before all news of a change: log row, sequence number as stored, kind
_NUMBER = re.compile(r"-?[0-9]{1,19}")  # 19 digits are enough for 64 bits, and keep ``int`` cheap


class Position(NamedTuple):
    """A place between two news of one store. As text: ``CHANGE``, or ``CHANGE.LOG.SEQ.KIND``.

    Programs keep the text as a cursor and do not look into it.
    """

    change: int
    log: int = _LOWEST[0]
    seq: int = _LOWEST[1]
    kind: int = _LOWEST[2]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The position that ``str`` turned into this text; ``ConfigError`` for any other text."""
        if not isinstance(text, str):
            raise TypeError(f"a cursor is text, not {type(text).__name__}")
        parts = text.split(".")
        numbers = [int(part) for part in parts if _NUMBER.fullmatch(part) and -(2**63) <= int(part) < 2**63]
        if len(parts) not in (1, 4) or len(numbers) < len(parts):
            raise ConfigError(f"{text!r} is not a cursor")
        return cls(*numbers)

    @property
    def is_between_changes(self) -> bool:
        """Whether the position stands before all news of its change, so that it names none of them."""
        return self[1:] == _LOWEST

    def __str__(self) -> str:
        return str(self[0]) if self.is_between_changes else ".".join(map(str, self))


BEGINNING = Position(0)


class NewsPage(NamedTuple):
    """A page of news: entries, each with the position after it, and the position after the whole page."""

    entries: list[tuple[StoredEntry, Position]]
    end: Position
