"""The store that comes with Culm: an SQLite file, with large payloads in files beside it.

This is a facade. ``SQLiteStore`` has the calls that ``culm.store.interface`` promises, and each module behind it does
one job.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from culm.bamboo import MAX_U64, Entry, ForkProof, Identity, PayloadHasher, are_authentic, check_payload
from culm.bamboo.yamf import yamf_hash
from culm.errors import BadSignature, NotHeld, PayloadMismatch, PayloadSizeMismatch, Place
from culm.negentropy import Storage
from culm.ranges import RangeSet
from culm.store import append, ingest, news, queries, verify
from culm.store.database import LOCK_TIMEOUT
from culm.store.logview import LogView
from culm.store.lookup import Lookup
from culm.store.opening import open_database
from culm.store.payloads import pieces, sink
from culm.store.records import runs, views
from culm.store.rows import COUNT, entry_of, find_entry, next_change, next_entry_id, the_row
from culm.store.schema import IS_WAITING, PayloadState, State
from culm.store.survey import Survey
from culm.store.values import (
    BEGINNING,
    Bytes,
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

Item = tuple[Entry, Bytes | None]

_BATCH_ENTRIES = 1000  # of one transaction: other writers wait meanwhile, about 50 ms
_BATCH_BYTES = 8 * 1024 * 1024  # of payloads after which a transaction takes no more entries, for the same reason
_EMPTY_PAYLOAD = yamf_hash(b"")


class SQLiteStore:
    """Logs in an SQLite file, verified as they come in. See ``culm.store.interface.ToolStore``.

    Use an instance from one thread at a time. Any number of processes may read while one writes. A second writer waits
    for ``lock_timeout`` seconds and then gives up with ``StoreLocked``.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        read_only: bool = False,
        lock_timeout: float = LOCK_TIMEOUT,
        max_waiting_entries: int = ingest.MAX_WAITING_ENTRIES,
        max_waiting_bytes: int = ingest.MAX_WAITING_BYTES,
    ) -> None:
        self._database = open_database(Path(path), read_only=read_only, lock_timeout=lock_timeout)
        self._max_waiting = (max_waiting_entries, max_waiting_bytes)
        self.path = Path(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Everything acknowledged is on the disk, closed or not."""
        self._database.close()

    def fold_elsewhere(self) -> None:
        """Another connection to the file folds its WAL file back, so commits here need not."""
        self._database.fold_elsewhere()

    # -- writing -----------------------------------------------------------------------------------------------

    def add(self, items: Iterable[Item], *, authenticated: bool = False, durable: bool = True) -> ImportReport:
        """Take entries with their payloads (None: not at hand), in any order.

        Entries that are wrong are refused and listed in the report; the others are taken. ``authenticated``: the caller
        has checked the signatures. ``durable``: entries survive a power cut. Without it they survive only the end of
        the process, which is enough for entries that a peer can send again. A transaction takes up to a thousand
        entries, and is kept or undone as a whole. ``StoreFull`` if more entries would wait for their path than are
        allowed; the transaction that would exceed the limit is undone.
        """
        report = ImportReport()
        rest = iter(items)
        before = self.newest_row()
        while batch := self._next_batch(rest):
            report.merge(self._add_batch(batch, authenticated=authenticated, durable=durable))
        if report.waiting:  # some that had to wait were verified by entries of a later transaction
            report.waiting = self.waiting_after(before)
        return report

    def newest_row(self) -> int:
        """The row id of the entry that came last, 0 if there is none."""
        with self._database.snapshot() as connection:
            return next_entry_id(connection) - 1

    def waiting_after(self, row: int) -> int:
        """How many of the entries that came after a row wait for their path."""
        waiting = f"SELECT count(*) FROM entries WHERE {IS_WAITING} AND id > ?"
        with self._database.snapshot() as connection:
            return int(the_row(connection.execute(waiting, (row,)), COUNT)[0])

    @staticmethod
    def _next_batch(items: Iterator[Item]) -> list[Item]:
        batch: list[Item] = []
        size = 0
        for item in islice(items, _BATCH_ENTRIES):
            batch.append(item)
            size += len(item[1] or b"")
            if size >= _BATCH_BYTES:
                break
        return batch

    def _add_batch(self, batch: list[Item], *, authenticated: bool, durable: bool) -> ImportReport:
        report = ImportReport()
        if not authenticated:
            batch = _authentic(batch, report)
        batch.sort(key=lambda item: (item[0].author, item[0].log_id, item[0].seq))
        checked = [(entry, *_checked_payload(entry, payload, report)) for entry, payload in batch]
        with self._database.transaction(durable=durable) as connection:
            ingestion = ingest.Ingestion(self._database, report)
            for entry, payload, lied in checked:
                ingestion.take(entry, payload, lied=lied)
            ingestion.finish()
            if report.waiting:
                ingest.check_waiting_room(connection, *self._max_waiting)
        return report

    def add_proof(self, proof: ForkProof) -> ImportReport:
        """Take a fork proof from elsewhere; ``BadSignature`` if its entries are not authentic.

        The entries are kept like any others.
        """
        proof.check()
        return self.add([(proof.first, None), (proof.second, None)], authenticated=True)

    def append(self, identity: Identity, log_id: int, payload: Iterable[Bytes], *, is_end: bool = False) -> Entry:
        """Publish the next entry of the identity's log; see ``culm.store.append``."""
        return append.append(self._database, identity, log_id, payload, is_end=is_end)

    def payload_sink(
        self, place: Place, entry_hash: bytes | None = None, *, trusted: bool = False, durable: bool = True
    ) -> sink.Sink:
        """Where to write the payload of an entry that is held; ``NotHeld`` if the entry is not.

        ``entry_hash`` (66 bytes) chooses among entries of one number that contradict each other. ``trusted``: the
        caller has checked the bytes. ``durable``: see ``add``.
        """
        return sink.Sink(self._database, place, entry_hash, trusted=trusted, durable=durable)

    def payload_begun(self, stored: StoredEntry) -> PayloadHasher:
        """The hash of the payload bytes that were held when ``stored`` was read, to continue with further bytes.

        Bytes that another transfer stored since are left out, because the caller does not know their number.
        """
        return pieces.hash_held(self._database, stored.id, stored.payload_held)

    def want_again(self, place: Place) -> bool:
        """Let a forgotten payload be fetched again; whether it was forgotten. ``NotHeld`` without the entry."""
        with self._database.transaction() as connection:
            row = find_entry(connection, place)
            if row is None:
                raise NotHeld("the entry is not held")
            entry_id, encoded, state, _ = row
            if state != PayloadState.FORGOTTEN:
                return False
            sink.want_again(connection, entry_id, entry_of(encoded))
        return True

    def forget(self, place: Place) -> int:
        """Delete an entry's payload and keep the entry; how many bytes that freed.

        The payload is not fetched again, unless ``want_again`` is called. ``NotHeld`` without the entry.
        """
        with self._database.transaction() as connection:
            row = find_entry(connection, place)
            if row is None:
                raise NotHeld("the entry is not held")
            entry_id, encoded, state, held = row
            entry = entry_of(encoded)
            if state == PayloadState.SIZE_MISMATCH or (state == PayloadState.COMPLETE and not entry.size):
                return 0  # the author's lie must stay known, and an empty payload is always held
            pieces.drop(connection, entry_id, PayloadState.FORGOTTEN)
            view = LogView(connection, entry.author, entry.log_id, next_change(connection))
            view.payload_arrived(entry.seq)
            view.flush()
        return held

    # -- reading -----------------------------------------------------------------------------------------------

    def get(self, place: Place) -> StoredEntry | None:
        """The entry at a place. If entries contradict each other there, the one that came first."""
        return queries.get(self._database, place)

    def entries(
        self, log: Log, low: int = 1, high: int = MAX_U64, *, states: Iterable[State] = (State.VERIFIED,)
    ) -> Iterator[StoredEntry]:
        """The entries of a log from ``low`` to ``high`` in one of ``states``, ascending."""
        return queries.entries(self._database, log, low, high, states)

    def sendables(self, log: Log, low: int, high: int, limit: int) -> list[Sendable]:
        """The first ``limit`` verified entries from ``low`` to ``high`` whose payload is held, ascending."""
        return queries.sendables(self._database, log, low, high, limit)

    def payload_rest(self, sendable: Sendable) -> Iterator[bytes]:
        """The payload's pieces after ``sendable.start``."""
        return pieces.read_pieces(self._database, sendable.id, len(sendable.start))

    def payload(self, stored: StoredEntry, offset: int = 0) -> Iterator[bytes]:
        """The payload's bytes held, from ``offset`` on, in pieces of at most ``pieces.PIECE_BYTES``.

        ``StoreDamaged`` if the payload counts as complete, but bytes are missing.
        """
        if stored.payload_complete:
            return pieces.read_complete(self._database, stored.id, stored.entry.size, offset)
        return pieces.read_pieces(self._database, stored.id, offset)

    def payload_slice(self, entry_id: int, offset: int, size: int) -> bytes:
        """At most ``size`` bytes of the payload of the entry with this row id, from ``offset`` on; none at its end."""
        return pieces.read_slice(self._database, entry_id, offset, size)

    def lookup(self, log: Log) -> Lookup:
        """Small questions about one log."""
        return Lookup(self._database, log)

    def survey(self) -> Survey:
        """Questions about all logs, for people to look at."""
        return Survey(self._database)

    def changed_logs(self, since: int) -> tuple[int, list[Log]]:
        """The number of the last change, and the logs that changed after change number ``since``."""
        return queries.changed_logs(self._database, since)

    def logs(self) -> Iterator[LogSummary]:
        """What is held of each log, by author and log id."""
        return queries.logs(self._database)

    def logs_by(self, author: bytes) -> list[Log]:
        """The logs of an author of which anything is verified."""
        return queries.logs_by(self._database, author)

    def offers(self, since: int = -1) -> Iterator[Offer]:
        """How far each log that changed after change number ``since`` can be sent."""
        return queries.offers(self._database, since)

    def offer(self, log: Log) -> Offer | None:
        """How far one log can be sent; None if nothing of it is verified."""
        return next(iter(queries.offers(self._database, -1, log)), None)

    def missing(self, log: Log, high: int, limit: int = 1000, *, low: int = 1) -> list[Run]:
        """The first ``limit`` spans from ``low`` to ``high`` of which entries or payloads are missing and wanted."""
        return queries.missing(self._database, log, low, high, limit)

    def waiting(self, log: Log, limit: int = 1000) -> list[int]:
        """The first ``limit`` numbers of entries of a log that wait for their path, ascending."""
        return queries.waiting(self._database, log, limit)

    def forgotten(self, log: Log, limit: int = 1000) -> list[Run]:
        """The first ``limit`` runs of entries of a log whose payload was forgotten, ascending."""
        return queries.forgotten(self._database, log, limit)

    def held(self, author: bytes, log_id: int) -> RangeSet:
        """Which verified entries of a log are held, and with which payloads. Costs its gaps, not its length."""
        with self._database.snapshot() as connection:
            return runs.held(connection, (author, log_id))

    def holdings(self, since: int = -1) -> list[tuple[Log, RangeSet]]:
        """``held`` for each log that changed after change number ``since`` and of which anything is held."""
        with self._database.snapshot() as connection:
            return runs.holdings(connection, since)

    def fork_proofs(self, log: Log | None = None) -> Iterator[ForkProof]:
        """The fork proofs held, of one log or of all, the lowest position of each log first."""
        return queries.fork_proofs(self._database, log)

    def record_set(
        self, view: View, *, log: Log | None = None, only: Callable[[Log], bool] | None = None
    ) -> AbstractContextManager[Storage]:
        """The records of a view as they are now, to reconcile with another set, for as long as the block lasts.

        With ``log`` only those of one log, with ``only`` those of the logs for which it returns true. The set has a
        connection of its own, so it may be used in another thread than the store.
        """
        return views.record_set(self._database, view, log=log, only=only)

    def entries_of(self, ids: set[bytes]) -> Iterator[StoredEntry]:
        """The verified entries with these record ids (32 bytes), log by log in ascending order."""
        return views.entries_of(self._database, ids)

    def logs_of(self, heads: Iterable[bytes]) -> list[Log]:
        """The logs whose heads have these ids (32 bytes)."""
        return views.logs_of(self._database, heads)

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
        return news.page(self._database, since, author, log_id, with_payload=with_payload, limit=limit)

    def latest(self) -> Position:
        """The position after everything that is verified now."""
        return news.latest(self._database)

    def change(self) -> int:
        """A number that grows whenever the store changes, whichever process changes it."""
        return queries.change(self._database)

    def verify(self, log: Log | None = None, progress: Callable[[int], None] | None = None) -> VerifyReport:
        """Check everything held, or one log, afresh from its bytes; see ``culm.store.verify``."""
        return verify.verify(self._database, log, progress)


def _authentic(batch: list[Item], report: ImportReport) -> list[Item]:
    """The items whose signatures are right. The others are listed in the report as refused."""
    good = are_authentic([entry for entry, _ in batch])
    for (entry, _), authentic in zip(batch, good, strict=True):
        if not authentic:
            error = BadSignature("the signature does not verify under the claimed author", entry.place)
            report.refused.append((entry.place, error))
    return [item for item, authentic in zip(batch, good, strict=True) if authentic]


def _checked_payload(entry: Entry, payload: Bytes | None, report: ImportReport) -> tuple[Bytes | None, bool]:
    """The payload if it is the entry's own, else None; and whether the author lied about its size."""
    if payload is None:
        return (b"", False) if entry.size == 0 and entry.payload_hash == _EMPTY_PAYLOAD else (None, False)
    try:
        check_payload(entry, payload)
    except PayloadMismatch as error:
        report.refused.append((entry.place, error))
        return None, isinstance(error, PayloadSizeMismatch)
    return payload, False
