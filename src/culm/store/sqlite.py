"""The store that comes with Culm: an SQLite file, large payloads beside it. A facade over the modules beside it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from culm.bamboo import MAX_U64, Entry, ForkProof, Identity, PayloadHasher, are_authentic, check_payload
from culm.bamboo.yamf import yamf_hash
from culm.errors import BadSignature, NotHeld, PayloadMismatch, PayloadSizeMismatch, Place
from culm.store import append, ingest, news, payloads, pieces, queries, runs, verify, views
from culm.store.database import LOCK_TIMEOUT, Database
from culm.store.guard import tells_damage
from culm.store.interface import Bytes, ImportReport, LogSummary, Offer, Sendable, StoredEntry, VerifyReport
from culm.store.logview import LogView
from culm.store.lookup import Lookup
from culm.store.news import BEGINNING, NewsPage, Position
from culm.store.rows import find_entry, next_change, next_entry_id
from culm.store.schema import PayloadState, State
from culm.store.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from culm.negentropy import Storage
    from culm.ranges import RangeSet
    from culm.store.views import View
    from culm.types import Log

_BATCH_ENTRIES = 1000  # entries of one transaction
_BATCH_BYTES = 8 * 1024 * 1024  # payload bytes after which a transaction is not extended
_EMPTY_PAYLOAD = yamf_hash(b"")

Item = tuple[Entry, "Bytes | None"]


@tells_damage
class SQLiteStore:
    """Logs in an SQLite file, verified as they come in. See ``culm.store.interface.Store``.

    Use an instance from one thread at a time. Any number of processes may read while one writes; a second writer waits
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
        self._database = Database(Path(path), read_only=read_only, lock_timeout=lock_timeout)
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
        """See ``Database.fold_elsewhere``: another connection to this file folds its WAL file."""
        self._database.fold_elsewhere()

    # -- writing -----------------------------------------------------------------------------------------------

    def add(self, items: Iterable[Item], *, authenticated: bool = False, durable: bool = True) -> ImportReport:
        """Take entries with their payloads (None: not at hand), in any order.

        What is wrong is refused and listed in the report; the rest is taken. ``authenticated`` says that the
        signatures were checked already. ``durable``: what was taken survives a power cut; without, the end of the
        process only, which is enough for what a peer can send again. A transaction takes up to a thousand entries;
        each is kept or not as a whole. ``StoreFull`` if more entries wait for their path than may: that transaction is
        undone.
        """
        report = ImportReport()
        rest = iter(items)
        before = self.newest_row()
        while batch := self._next_batch(rest):
            report.merge(self._add_batch(batch, authenticated=authenticated, durable=durable))
        if report.waiting:  # some of those that waited when they came found their path since
            report.waiting = self.waiting_after(before)
        return report

    def newest_row(self) -> int:
        """The row of the entry that came last; 0 if there is none."""
        with self._database.snapshot() as connection:
            return next_entry_id(connection) - 1

    def waiting_after(self, row: int) -> int:
        """How many entries wait that came after that row."""
        waiting = "SELECT count(*) FROM entries WHERE state = 1 AND id > ?"
        with self._database.snapshot() as connection:
            return int(connection.execute(waiting, (row,)).fetchone()[0])

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
        """Take a fork proof from elsewhere: ``BadSignature`` if it is none. Its entries are kept like any others."""
        proof.check()
        return self.add([(proof.first, None), (proof.second, None)], authenticated=True)

    def append(self, identity: Identity, log_id: int, payload: Iterable[Bytes], *, is_end: bool = False) -> Entry:
        """Publish the next entry of the identity's log; see ``culm.store.append``."""
        return append.append(self._database, identity, log_id, payload, is_end=is_end)

    def payload_sink(
        self, place: Place, entry_hash: bytes | None = None, *, trusted: bool = False, durable: bool = True
    ) -> payloads.Sink:
        """Where to write the payload of an entry that is held, in pieces; ``NotHeld`` if it is not.

        ``entry_hash`` (66 bytes) chooses among entries of one number that contradict each other. ``trusted``: the
        caller has checked the bytes. ``durable``: see ``add``.
        """
        return payloads.Sink(self._database, place, entry_hash, trusted=trusted, durable=durable)

    def payload_begun(self, stored: StoredEntry) -> PayloadHasher:
        """The hash of the bytes that are held of an entry's payload, to go on with: behind ``size`` bytes of it.

        No more than were held when the entry was looked up: others may bring more at any moment.
        """
        return pieces.hash_held(self._database, stored.id, stored.payload_held)

    def want_again(self, place: Place) -> bool:
        """A payload that was forgotten may be fetched again; whether there was one. ``NotHeld`` without the entry."""
        with self._database.transaction() as connection:
            row = find_entry(connection, place)
            if row is None:
                msg = "the entry is not held"
                raise NotHeld(msg)
            if row[2] != PayloadState.FORGOTTEN:
                return False
            payloads.want_again(connection, row[0], Entry.decode(row[1]))
        return True

    def forget(self, place: Place) -> int:
        """Delete an entry's payload, keeping the entry; the bytes freed. It will not be fetched again by itself."""
        with self._database.transaction() as connection:
            row = find_entry(connection, place)
            if row is None:
                msg = "the entry is not held"
                raise NotHeld(msg)
            entry_id, encoded, state, held = row
            entry = Entry.decode(encoded)
            if state == PayloadState.SIZE_MISMATCH or (state == PayloadState.COMPLETE and not entry.size):
                return 0  # a lie is not to be forgotten, and an empty payload is always there
            pieces.drop(connection, entry_id, PayloadState.FORGOTTEN)
            view = LogView(connection, entry.author, entry.log_id, next_change(connection))
            view.payload_arrived(entry.seq)
            view.flush()
        return held

    # -- reading -----------------------------------------------------------------------------------------------

    def get(self, place: Place) -> StoredEntry | None:
        """The entry at a place; of several that contradict each other the one that came first."""
        return queries.get(self._database, place)

    def entries(
        self, log: Log, low: int = 1, high: int = MAX_U64, *, states: Iterable[State] = (State.VERIFIED,)
    ) -> Iterator[StoredEntry]:
        """The entries of a log from ``low`` to ``high``, ascending."""
        return queries.entries(self._database, log, low, high, states)

    def sendables(self, log: Log, low: int, high: int, limit: int) -> list[Sendable]:
        """The first ``limit`` verified entries from ``low`` to ``high`` whose payload is held, ascending."""
        return queries.sendables(self._database, log, low, high, limit)

    def payload_rest(self, sendable: Sendable) -> Iterator[bytes]:
        """The payload's pieces behind ``sendable.start``."""
        return pieces.read_pieces(self._database, sendable.id, len(sendable.start))

    def payload(self, stored: StoredEntry, offset: int = 0) -> Iterator[bytes]:
        """The payload's bytes held, from ``offset`` on, in pieces of at most ``pieces.PIECE_BYTES``.

        ``StoreDamaged`` if the payload is complete and bytes of it are not there.
        """
        if stored.payload_complete:
            return pieces.read_complete(self._database, stored.id, stored.entry.size, offset)
        return pieces.read_pieces(self._database, stored.id, offset)

    def payload_slice(self, entry_id: int, offset: int, size: int) -> bytes:
        """Some bytes of the payload of the entry in a row, from ``offset`` on: at most ``size``, none at the end."""
        return pieces.read_slice(self._database, entry_id, offset, size)

    def lookup(self, log: Log) -> Lookup:
        """What is held of a log, to be asked in small questions."""
        return Lookup(self._database, log)

    def survey(self) -> Survey:
        """What is held of all logs, in answers of bounded size: for people to look at."""
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
        """How far each log that changed after change number ``since`` can be sent; 0 if not at all."""
        return queries.offers(self._database, since)

    def offer(self, log: Log) -> Offer | None:
        """How far one log can be sent; None if nothing of it is verified."""
        return next(iter(queries.offers(self._database, -1, log)), None)

    def missing(self, log: Log, high: int, limit: int = 1000, *, low: int = 1) -> list[tuple[int, int]]:
        """The first ``limit`` spans from ``low`` to ``high`` of which entries or payloads are missing and wanted."""
        return queries.missing(self._database, log, low, high, limit)

    def waiting(self, log: Log, limit: int = 1000) -> list[int]:
        """The first ``limit`` numbers of entries of a log that wait for their path, ascending."""
        return queries.waiting(self._database, log, limit)

    def forgotten(self, log: Log, limit: int = 1000) -> list[tuple[int, int]]:
        """The first ``limit`` runs of entries of a log whose payload was forgotten, ascending."""
        return queries.forgotten(self._database, log, limit)

    def held(self, author: bytes, log_id: int) -> RangeSet:
        """Which verified entries of a log are held, and with which payloads; costs its gaps, not its length."""
        with self._database.snapshot() as connection:
            return runs.held(connection, (author, log_id))

    def holdings(self, since: int = -1) -> list[tuple[Log, RangeSet]]:
        """``held`` for every log that changed after change number ``since`` and of which anything is held."""
        with self._database.snapshot() as connection:
            return runs.holdings(connection, since)

    def fork_proofs(self, log: Log | None = None) -> Iterator[ForkProof]:
        """The fork proofs held (of one log), the lowest position of each log first."""
        return queries.fork_proofs(self._database, log)

    def record_set(
        self, view: View, *, log: Log | None = None, only: Callable[[Log], bool] | None = None
    ) -> AbstractContextManager[Storage]:
        """The records of a view as they are now, to reconcile with another set, for as long as the block lasts.

        Only those of one log, or of the logs that ``only`` says yes to, if told so. It may be used in another thread
        than the store.
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
        """What became verified after a position, in that order; see ``culm.store.news``."""
        return news.page(self._database, since, author, log_id, with_payload=with_payload, limit=limit)

    def latest(self) -> Position:
        """The position behind everything that is verified now."""
        return news.latest(self._database)

    def change(self) -> int:
        """A number that grows whenever the store changes, by whichever process."""
        return queries.change(self._database)

    def verify(self, log: Log | None = None, progress: Callable[[int], None] | None = None) -> VerifyReport:
        """Check everything held (or one log) afresh from its bytes; see ``culm.store.verify``."""
        return verify.verify(self._database, log, progress)


def _authentic(batch: list[Item], report: ImportReport) -> list[Item]:
    """The items whose signatures verify; the others are refused."""
    good = are_authentic([entry for entry, _ in batch])
    for (entry, _), authentic in zip(batch, good, strict=True):
        if not authentic:
            error = BadSignature("the signature does not verify under the claimed author", entry.place)
            report.refused.append((entry.place, error))
    return [item for item, authentic in zip(batch, good, strict=True) if authentic]


def _checked_payload(entry: Entry, payload: Bytes | None, report: ImportReport) -> tuple[Bytes | None, bool]:
    """The payload if it is the entry's, else None; and whether the author lied about its size."""
    if payload is None:
        return (b"", False) if entry.size == 0 and entry.payload_hash == _EMPTY_PAYLOAD else (None, False)
    try:
        check_payload(entry, payload)
    except PayloadMismatch as error:
        report.refused.append((entry.place, error))
        return None, isinstance(error, PayloadSizeMismatch)
    return payload, False
