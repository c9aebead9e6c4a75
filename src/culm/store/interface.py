"""What a store is to the rest of Culm: the values it gives, and the calls it takes.

``SQLiteStore`` is the store that comes with Culm. Protocols and nodes only use what stands here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from culm.store.schema import PayloadState, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from culm.bamboo import Entry, ForkProof, Identity
    from culm.errors import CulmError, Place
    from culm.ranges import RangeSet
    from culm.types import Log


Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as the store holds it. ``payload_held`` counts the payload's bytes held, from its start."""

    entry: Entry
    state: State
    payload_state: PayloadState
    payload_held: int
    id: int

    @property
    def payload_complete(self) -> bool:
        """Whether all of the payload is there; an empty one always is."""
        return self.payload_state is PayloadState.COMPLETE


@dataclass(frozen=True, slots=True)
class Sendable:
    """A verified entry with all of its payload, as a sender needs it: undecoded.

    ``size`` counts the payload's bytes, ``start`` holds its first piece (all of it, if it is small).
    """

    seq: int
    encoded: bytes
    size: int
    start: bytes
    id: int


@dataclass(frozen=True, slots=True)
class LogSummary:
    """What the store holds of a log.

    ``newest`` is the newest verified sequence number (0: none). ``entries`` counts those verified, ``waiting`` those
    held until their certificate path arrives, ``invalid`` those at or after ``invalid_from``. ``payloads`` counts the
    complete payloads of verified entries. ``forked_at`` is the lowest position of a fork. ``ended`` says whether the
    newest verified entry ends the log.
    """

    author: bytes
    log_id: int
    newest: int
    entries: int
    payloads: int
    waiting: int
    invalid: int
    forked_at: int | None
    invalid_from: int | None
    ended: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """How far a log can be sent with all payloads: ``newest`` is the greatest number below the first gap in those.

    ``held_back`` is the first verified entry whose payload is not held, None if there is no such.
    """

    author: bytes
    log_id: int
    newest: int
    held_back: int | None

    @property
    def log(self) -> Log:
        """Author and id."""
        return self.author, self.log_id


@dataclass(slots=True)
class ImportReport:
    """What became of entries given to the store.

    ``added`` entries are new, those that wait or are part of a fork included; ``known`` ones were there.
    ``waiting`` counts the new ones that wait. ``refused`` names place and reason of what the store did not take (an
    entry, or only its payload). ``forks`` are the proofs that came to light.
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
    """The verdicts over everything held, made afresh from the bytes. ``forks`` counts forked logs.

    ``problems`` names entries whose stored bytes do not hold what the store claims of them: place and reason.
    """

    entries: int = 0
    verified: int = 0
    unverified: int = 0
    invalid: int = 0
    forks: int = 0
    payloads: int = 0
    problems: list[tuple[Place | None, str]] = field(default_factory=list)


class PayloadSink(Protocol):
    """Takes a payload piece by piece. What was written stays if the process ends, and writing goes on from there."""

    @property
    def offset(self) -> int:
        """Bytes held so far: the position of the next one to write."""

    def write(self, piece: Bytes) -> None:
        """Take the next bytes; ``PayloadMismatch`` if they would be more than the entry claims."""

    def finish(self) -> None:
        """All was written: check it. ``PayloadMismatch`` drops what was held, ``PayloadSizeMismatch`` marks the log."""

    def close(self) -> None:
        """Stop for now, keeping what was written."""


class Store(Protocol):
    """Logs, verified as they come in."""

    def add(self, items: Iterable[tuple[Entry, Bytes | None]], *, authenticated: bool = False) -> ImportReport:
        """Take entries with their payloads (None: not at hand), verified as one group, in any order."""

    def append(self, identity: Identity, log_id: int, payload: Iterable[Bytes], *, is_end: bool = False) -> Entry:
        """Publish the next entry of the identity's log."""

    def get(self, place: Place) -> StoredEntry | None:
        """The entry at a place; of several that contradict each other the one that came first."""

    def entries(
        self, log: Log, low: int = 1, high: int = 2**64 - 1, *, states: Iterable[State] = (State.VERIFIED,)
    ) -> Iterator[StoredEntry]:
        """The entries of a log from ``low`` to ``high``, ascending."""

    def sendables(self, log: Log, low: int, high: int, limit: int) -> list[Sendable]:
        """The first ``limit`` verified entries from ``low`` to ``high`` whose payload is held, ascending."""

    def payload_rest(self, sendable: Sendable) -> Iterator[bytes]:
        """The payload's pieces behind ``sendable.start``."""

    def payload(self, stored: StoredEntry, offset: int = 0) -> Iterator[bytes]:
        """The payload's bytes held, from ``offset`` on, in pieces."""

    def payload_sink(self, place: Place, entry_hash: bytes | None = None) -> PayloadSink:
        """Where to write the payload of an entry that is held."""

    def logs(self) -> Iterator[LogSummary]:
        """What is held of each log, by author and log id."""

    def logs_by(self, author: bytes) -> list[Log]:
        """The logs of an author of which anything is verified."""

    def offers(self, since: int = -1) -> Iterator[Offer]:
        """How far each log that changed after change number ``since`` can be sent."""

    def offer(self, log: Log) -> Offer | None:
        """How far one log can be sent; None if nothing of it is verified."""

    def missing(self, log: Log, high: int, limit: int, *, low: int = 1) -> list[tuple[int, int]]:
        """The first ``limit`` spans from ``low`` to ``high`` of which entries or payloads are missing and wanted."""

    def held(self, author: bytes, log_id: int) -> RangeSet:
        """Which verified entries of a log are held, and with which payloads."""

    def holdings(self, since: int = -1) -> list[tuple[Log, RangeSet]]:
        """``held`` for every log that changed after change number ``since``."""

    def fork_proofs(self, log: Log | None = None) -> Iterator[ForkProof]:
        """The fork proofs held, the lowest position of each log first."""

    def change(self) -> int:
        """A number that grows whenever the store changes, by whichever process."""
