"""What a store is to the rest of Culm. Nodes, commands and pages use nothing else of ``culm.store``'s stores.

The calls are grouped by what their callers do, so that a signature says how much a function may do to a store:

* ``ReadableStore``: questions. Peers' requests are answered from it, and people's.
* ``Store``: the same, and taking in entries and payloads. Sessions need it.
* ``ToolStore``: the same, and what its owner does with it: verify, maintain, close.

``SQLiteStore`` is a ``ToolStore``. It is named only where a store is opened. ``culm.store.values`` has the values that
are passed, ``culm.store.surveyed`` those of a survey.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from culm.bamboo import MAX_U64, Entry, ForkProof, Identity, PayloadHasher
from culm.errors import Place
from culm.negentropy import Storage
from culm.ranges import RangeSet
from culm.store.schema import State
from culm.store.surveyed import Cell, LogLine, Mark, Only, Order, Totals
from culm.store.values import (
    BEGINNING,
    Bytes,
    HeldEntry,
    ImportReport,
    LogSummary,
    NewsPage,
    Offer,
    Position,
    Run,
    Sendable,
    StoredEntry,
    VerifyReport,
    View,
)
from culm.types import Log


class PayloadSink(Protocol):
    """Takes a payload piece by piece. Bytes written stay if the process ends, and writing goes on from there."""

    wanted: bool
    """False if there is nothing to write: the payload is held, was forgotten, or can never be right."""
    is_large: bool
    """The payload becomes a file, so ``sync`` takes a while."""

    @property
    def offset(self) -> int:
        """Bytes held so far: the position of the next byte to write."""

    def write(self, piece: Bytes) -> None:
        """Take the next bytes; ``PayloadMismatch`` if the payload would become longer than the entry claims.

        ``Overtaken`` if another transfer changed what is held.
        """

    def keep(self) -> None:
        """Store every byte written so far."""

    def sync(self) -> None:
        """Bring the stored bytes of a large payload to the disk. May be called in another thread."""

    def distrust(self) -> None:
        """Have ``finish`` check all bytes, though the writer was to have checked them."""

    def finish(self) -> None:
        """All bytes were written: check them, and count the payload as held.

        ``PayloadMismatch`` drops what was held. ``PayloadSizeMismatch`` marks the log invalid from this entry on.
        """

    def abandon(self) -> None:
        """The bytes written turned out to be wrong: drop all that is held of the payload."""

    def close(self) -> None:
        """Stop for now. Every byte written is kept."""


class LogLookup(Protocol):
    """What is held of one log. Each question costs a few look-ups, however long the log is."""

    log: Log
    is_forked: bool

    def entries_around(self, seq: int) -> Run | None:
        """The unbroken run of verified entries around ``seq``; None if that entry is not held."""

    def payloads_around(self, seq: int) -> Run | None:
        """The same, counting only entries whose payload is complete."""

    def payload_extent(self) -> Run | None:
        """The lowest and the highest number of an entry with a complete payload; None if there is none."""

    def page(self, seq: int, *, ascending: bool, limit: int) -> list[HeldEntry]:
        """The first ``limit`` verified entries from ``seq`` on, in either direction."""

    def misfit(self, low: int, high: int, least: int | None, greatest: int | None, *, ascending: bool) -> int | None:
        """The first entry from ``low`` to ``high`` whose complete payload is smaller or larger than the bounds allow.

        With ``ascending`` false the last such entry. A bound that is None does not apply.
        """

    def variants(self, seq: int) -> list[Entry]:
        """All entries held of a number, in whatever state; a verified one comes first."""

    def end(self) -> Entry | None:
        """The verified entry that ends the log; None if no such entry is known."""


class StoreSurvey(Protocol):
    """What is held of all logs, for people to look at: answers of bounded size and cost."""

    def bounded(self, seconds: float) -> AbstractContextManager[None]:
        """Inside the block, a query that is still running after ``seconds`` fails with ``StoreError``."""

    def totals(self) -> Totals:
        """What is held in all logs."""

    def logs(
        self,
        *,
        order: Order = Order.NAME,
        only: Only = Only.ALL,
        authors: tuple[bytes, bytes] | None = None,
        log_id: int | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[int, list[LogLine]]:
        """How many logs there are, and a page of them.

        ``authors`` is the lowest and the highest author to list, ``log_id`` the only log id; None: all of them.
        """

    def line(self, log: Log) -> LogLine | None:
        """The line of one log, None if nothing of it is held."""

    def changed(self, since: int, limit: int) -> tuple[int, list[Log]]:
        """The number of the last change, and the logs that changed after ``since``, the latest first."""

    def cells(self, line: LogLine, spans: Sequence[Run]) -> list[Cell]:
        """What is held of each span of a log's numbers. The spans ascend."""

    def marks(self, log: Log, low: int, high: int) -> list[Mark]:
        """What is held from ``low`` to ``high``, ascending. Numbers of which nothing is held are left out."""

    def marks_at(self, log: Log, seqs: Iterable[int]) -> list[Mark]:
        """The same for single numbers."""

    def proofs(self, log: Log, limit: int) -> tuple[int, list[ForkProof]]:
        """How many fork proofs of a log are held, and the ``limit`` of them with the lowest positions."""


class ReadableStore(Protocol):
    """Questions to a store."""

    path: Path

    def get(self, place: Place) -> StoredEntry | None:
        """The entry at a place. If entries contradict each other there, the one that came first."""

    def entries(
        self, log: Log, low: int = 1, high: int = MAX_U64, *, states: Iterable[State] = (State.VERIFIED,)
    ) -> Iterator[StoredEntry]:
        """The entries of a log from ``low`` to ``high`` in one of ``states``, ascending."""

    def sendables(self, log: Log, low: int, high: int, limit: int) -> list[Sendable]:
        """The first ``limit`` verified entries from ``low`` to ``high`` whose payload is held, ascending."""

    def payload_rest(self, sendable: Sendable) -> Iterator[bytes]:
        """The payload's pieces after ``sendable.start``."""

    def payload(self, stored: StoredEntry, offset: int = 0) -> Iterator[bytes]:
        """The payload's bytes held, from ``offset`` on, in pieces."""

    def payload_slice(self, entry_id: int, offset: int, size: int) -> bytes:
        """At most ``size`` bytes of the payload of the entry with this row id, from ``offset`` on."""

    def payload_begun(self, stored: StoredEntry) -> PayloadHasher:
        """The hash of the payload bytes that were held when ``stored`` was read, to continue with further bytes."""

    def lookup(self, log: Log) -> LogLookup:
        """Small questions about one log."""

    def survey(self) -> StoreSurvey:
        """Questions about all logs, for people to look at."""

    def logs(self) -> Iterator[LogSummary]:
        """What is held of each log, by author and log id."""

    def logs_by(self, author: bytes) -> list[Log]:
        """The logs of an author of which anything is verified."""

    def changed_logs(self, since: int) -> tuple[int, list[Log]]:
        """The number of the last change, and the logs that changed after change number ``since``."""

    def change(self) -> int:
        """A number that grows whenever the store changes, whichever process changes it."""

    def offers(self, since: int = -1) -> Iterator[Offer]:
        """How far each log that changed after change number ``since`` can be sent."""

    def offer(self, log: Log) -> Offer | None:
        """How far one log can be sent; None if nothing of it is verified."""

    def missing(self, log: Log, high: int, limit: int = 1000, *, low: int = 1) -> list[Run]:
        """The first ``limit`` spans from ``low`` to ``high`` of which entries or payloads are missing and wanted."""

    def waiting(self, log: Log, limit: int = 1000) -> list[int]:
        """The first ``limit`` numbers of entries of a log that wait for their path, ascending."""

    def forgotten(self, log: Log, limit: int = 1000) -> list[Run]:
        """The first ``limit`` runs of entries of a log whose payload was forgotten, ascending."""

    def held(self, author: bytes, log_id: int) -> RangeSet:
        """Which verified entries of a log are held, and with which payloads. Costs its gaps, not its length."""

    def holdings(self, since: int = -1) -> list[tuple[Log, RangeSet]]:
        """``held`` for each log that changed after change number ``since`` and of which anything is held."""

    def fork_proofs(self, log: Log | None = None) -> Iterator[ForkProof]:
        """The fork proofs held, of one log or of all, the lowest position of each log first."""

    def record_set(
        self, view: View, *, log: Log | None = None, only: Callable[[Log], bool] | None = None
    ) -> AbstractContextManager[Storage]:
        """The records of a view as they are now, to reconcile with another set, for as long as the block lasts.

        With ``log`` only those of one log, with ``only`` those of the logs for which it returns true. The set has a
        connection of its own, so it may be used in another thread than the store.
        """

    def entries_of(self, ids: set[bytes]) -> Iterator[StoredEntry]:
        """The verified entries with these record ids (32 bytes), log by log in ascending order."""

    def logs_of(self, heads: Iterable[bytes]) -> list[Log]:
        """The logs whose heads have these ids (32 bytes)."""

    def news(
        self,
        since: Position = BEGINNING,
        *,
        author: bytes | None = None,
        log_id: int | None = None,
        with_payload: bool = False,
        limit: int = 256,
    ) -> NewsPage:
        """The entries that were verified after a position, in that order; see ``culm.store.news``."""

    def latest(self) -> Position:
        """The position after everything that is verified now."""


class Store(ReadableStore, Protocol):
    """A store that takes entries and payloads, and verifies them as they come in."""

    def add(
        self, items: Iterable[tuple[Entry, Bytes | None]], *, authenticated: bool = False, durable: bool = True
    ) -> ImportReport:
        """Take entries with their payloads (None: not at hand), in any order.

        Entries that are wrong are refused and listed in the report; the others are taken. ``authenticated``: the caller
        has checked the signatures. ``durable``: entries survive a power cut, and not only the end of the process.
        ``StoreFull`` if more entries would wait for their path than the store allows.
        """

    def add_proof(self, proof: ForkProof) -> ImportReport:
        """Take a fork proof from elsewhere; ``BadSignature`` if its entries are not authentic."""

    def append(self, identity: Identity, log_id: int, payload: Iterable[Bytes], *, is_end: bool = False) -> Entry:
        """Publish the next entry of the identity's log; see ``culm.store.append``."""

    def payload_sink(
        self, place: Place, entry_hash: bytes | None = None, *, trusted: bool = False, durable: bool = True
    ) -> PayloadSink:
        """Where to write the payload of an entry that is held; ``NotHeld`` if the entry is not.

        ``entry_hash`` (66 bytes) chooses among entries of one number that contradict each other. ``trusted``: the
        caller has checked the bytes. ``durable``: see ``add``.
        """

    def want_again(self, place: Place) -> bool:
        """Let a forgotten payload be fetched again; whether it was forgotten. ``NotHeld`` without the entry."""

    def forget(self, place: Place) -> int:
        """Delete an entry's payload and keep the entry; how many bytes that freed. It is not fetched again."""


class ToolStore(Store, Protocol):
    """A store in the hands of whoever opened it."""

    def newest_row(self) -> int:
        """The row id of the entry that came last, 0 if there is none."""

    def waiting_after(self, row: int) -> int:
        """How many of the entries that came after a row wait for their path."""

    def verify(self, log: Log | None = None, progress: Callable[[int], None] | None = None) -> VerifyReport:
        """Check everything held, or one log, afresh from its bytes; see ``culm.store.verify``."""

    def fold_elsewhere(self) -> None:
        """Another connection to the file folds its WAL file back, so commits here need not."""

    def close(self) -> None:
        """Close the file. Everything acknowledged is on the disk, closed or not."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
