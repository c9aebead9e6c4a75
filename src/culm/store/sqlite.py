"""The store that comes with Culm: an SQLite file, with large payloads in files beside it.

Its calls are grouped by what their callers do, so that a signature says how much a function may do to a store:

* ``ReadableStore``: questions. Peers' requests are answered from it, and people's. The modules below have them.
* ``Store``: the same, and taking in entries and payloads. Sessions need it.
* ``SQLiteStore``: the same, and what its owner does with it: open, verify, maintain, close.

``SQLiteStore`` is named where a store is opened. Functions that get one with all its calls say ``ToolStore``.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Self, TypeAlias

from culm.bamboo import Entry, ForkProof, Identity, are_authentic, check_payload
from culm.bamboo.yamf import yamf_hash
from culm.errors import (
    BadSignature,
    CulmError,
    NotHeld,
    PayloadDamaged,
    PayloadMismatch,
    PayloadSizeMismatch,
    Place,
)
from culm.store import append, confirming, ingest, provenance, verify
from culm.store.append import Draft
from culm.store.confirming import Confirmations
from culm.store.database import LOCK_TIMEOUT, Database
from culm.store.entries import EntryQueries, find_entry
from culm.store.gaps import Gaps
from culm.store.logs import LogQueries
from culm.store.logview import LogView, Received
from culm.store.lookup import Lookup
from culm.store.news import NewsQueries
from culm.store.opening import open_database
from culm.store.payloads import checked, pieces
from culm.store.payloads.sink import PayloadSink
from culm.store.provenance import Provenance
from culm.store.records.views import RecordSets
from culm.store.rows import COUNT, next_change, next_entry_id, the_row
from culm.store.schema import IS_WAITING, PayloadState
from culm.store.survey import Survey
from culm.store.values import ImportReport, LogSummary, StoredEntry, VerifyReport
from culm.types import Buffer, Log

Item = tuple[Entry, Buffer | None]

_BATCH_ENTRIES = 2000  # of one transaction: other writers wait meanwhile, about 50 ms
_BATCH_BYTES = 8 * 1024 * 1024  # of payloads after which a transaction takes no more entries, for the same reason
_EMPTY_PAYLOAD = yamf_hash(b"")


class ReadableStore(Confirmations, EntryQueries, LogQueries, NewsQueries, Provenance, RecordSets):
    """Questions to a store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.path = database.path

    def lookup(self, log: Log) -> Lookup:
        """Small questions about one log."""
        return Lookup(self._database, log)

    def gaps(self, line: LogSummary) -> Gaps:
        """What a log lacks, and why."""
        return Gaps(self._database, line)

    def survey(self) -> Survey:
        """Questions about all logs, for people to look at."""
        return Survey(self._database)


class Store(ReadableStore):
    """A store that takes entries and payloads, and verifies them as they come in."""

    _max_waiting: tuple[int, int]
    _receiving: ingest.Receiving | None = None

    def receive_in(self, clump: bytes, own: Collection[bytes] = (), *, only_new: bool = False) -> None:
        """From now on, serve logs that ``add`` takes in this clump, except those of ``own`` authors.

        A new log is served there only; one that is held, there too, but not with ``only_new``. A store that was not
        told takes new logs for every clump. See ``culm.store.provenance``.
        """
        self._receiving = ingest.Receiving(clump, own, only_new)

    def share(self, log: Log, clump: bytes | None) -> None:
        """Serve a log in a clump, too; see ``culm.store.provenance.share``."""
        provenance.share(self._database, log, clump)

    def share_all_of(self, author: bytes) -> None:
        """Serve the logs of an author in every clump; see ``culm.store.provenance.share_all_of``."""
        provenance.share_all_of(self._database, author)

    def adopt_clumps(self, clumps: Mapping[Log, Collection[bytes]]) -> None:
        """Take over what ``clumps`` of another store of the same owner says; see ``culm.store.provenance.adopt``."""
        provenance.adopt(self._database, clumps)

    def add(
        self, items: Iterable[Item], *, authenticated: bool = False, hashed: bool = False, durable: bool = True
    ) -> ImportReport:
        """Take entries with their payloads (None: not at hand), in any order.

        Entries that are wrong are refused and listed in the report; the others are taken. ``authenticated``: the caller
        has checked the signatures. ``hashed``: the caller has compared each payload with the hash and the size that its
        entry names, so it is not hashed again. ``durable``: entries survive a power cut. Without it they survive only
        the end of the process, which is enough for entries that a peer can send again. A transaction takes up to a
        thousand entries, and is kept or undone as a whole. Entries that would have to wait for their path, and for
        which the holding area has no room, are refused with ``HoldingAreaFull``.
        """
        report = ImportReport()
        rest = iter(items)
        first: int | None = None
        while batch := self._next_batch(rest):
            row = self._add_batch(batch, report, authenticated=authenticated, hashed=hashed, durable=durable)
            first = first or row
        if report.waiting and first:  # some that had to wait were verified by entries of a later transaction
            report.waiting = self.waiting_after(first - 1)
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

    def _add_batch(
        self, batch: list[Item], report: ImportReport, *, authenticated: bool, hashed: bool, durable: bool
    ) -> int:
        """Take a group, in one transaction; the row id that its first new entry gets."""
        if not authenticated:
            batch = authentic(batch, are_authentic([entry for entry, _ in batch]), report)
        batch.sort(key=lambda item: (item[0].author, item[0].log_id, item[0].seq))
        checked = [
            Received(entry, payload, False)
            if hashed and payload is not None
            else Received(entry, *_checked_payload(entry, payload, report))
            for entry, payload in batch
        ]
        with self._database.transaction(durable=durable):
            ingestion = ingest.Ingestion(self._database, report, self._receiving, self._max_waiting)
            ingestion.take(checked)
            ingestion.finish()
        return ingestion.first_row

    def add_proof(self, proof: ForkProof) -> ImportReport:
        """Take a fork proof from elsewhere; ``BadSignature`` if its entries are not authentic.

        The entries are kept like any others.
        """
        proof.check()
        return self.add([(proof.first, None), (proof.second, None)], authenticated=True)

    def append(
        self,
        identity: Identity,
        log_id: int,
        payload: Iterable[Buffer],
        *,
        is_end: bool = False,
        continue_here: bool = False,
    ) -> Entry:
        """Publish the next entry of the identity's log. It is on the disk when this returns.

        ``payload``: an iterable of bytes of any length, which is read piece by piece. ``is_end`` ends the log for ever.
        ``continue_here`` appends although the author is marked, because nothing newer exists anywhere.

        ``AfterEndOfLog`` if the log has ended, ``ForkDetected`` if it is forked. ``StoreError`` if entries wait for
        their path, because the author may then have signed newer ones. ``UnconfirmedLog`` if the author is marked
        (``unconfirm``), and no peer has confirmed the log.
        """
        return append.append(self._database, identity, log_id, payload, is_end=is_end, continue_here=continue_here)

    def append_each(self, drafts: Sequence[Draft]) -> list[list[Entry] | CulmError]:
        """Publish the entries of many drafts with one wait for the disk; see ``culm.store.append``."""
        return append.append_each(self._database, drafts)

    def unconfirm(self, author: bytes) -> None:
        """Mark an author whose logs may be longer elsewhere: the store is an old copy, or the key came from elsewhere.

        ``append`` then refuses the author's logs (``UnconfirmedLog``) until each is confirmed.
        """
        confirming.unconfirm(self._database, author)

    def confirm_by(self, entry: Entry) -> bool:
        """A peer has sent this entry: confirm its log if that is the newest held; whether the log is confirmed."""
        return confirming.confirm_by(self._database, entry)

    def payload_sink(
        self, place: Place, entry_hash: bytes | None = None, *, trusted: bool = False, durable: bool = True
    ) -> PayloadSink:
        """Where to write the payload of an entry that is held; ``NotHeld`` if the entry is not.

        ``entry_hash`` (66 bytes) chooses among entries of one number that contradict each other. ``trusted``: the
        caller has checked the bytes. ``durable``: see ``add``.
        """
        return PayloadSink(self._database, place, entry_hash, trusted=trusted, durable=durable)

    def want_again(self, place: Place) -> bool:
        """Let a forgotten payload be fetched again; whether it was forgotten. ``NotHeld`` without the entry."""
        with self._database.transaction() as connection:
            stored = _held(connection, place)
            if stored.payload_state is not PayloadState.FORGOTTEN:
                return False
            connection.execute("UPDATE entries SET payload_state = ? WHERE id = ?", (PayloadState.ABSENT, stored.id))
            _begin_again(self._database, stored.entry)
        return True

    def forget(self, place: Place) -> int:
        """Delete an entry's payload and keep the entry; returns how many bytes that freed.

        The payload is not fetched again, unless ``want_again`` is called. ``NotHeld`` without the entry.
        """
        with self._database.transaction() as connection:
            stored = _held(connection, place)
            if stored.payload_state is PayloadState.SIZE_MISMATCH or (
                stored.payload_complete and not stored.entry.size
            ):
                return 0  # the author's lie must stay known, and an empty payload is always held
            pieces.drop(connection, stored.id, PayloadState.FORGOTTEN)
            view = LogView(self._database, stored.entry.log, next_change(connection))
            view.payload_settled(stored.entry.seq)
            view.flush()
        return stored.payload_held

    def drop_damaged(self, damage: PayloadDamaged) -> bool:
        """Count a damaged payload as missing, so that it is fetched again; whether its bytes were held still.

        The bytes are deleted, because a transfer has to begin at the first byte. ``damaged_payloads`` lists the entry
        until the payload has come again.
        """
        with self._database.transaction() as connection:
            stored = find_entry(connection, damage.place, damage.entry_hash)
            if stored is None or not stored.payload_complete or not self._has_damage(stored, damage):
                return False
            connection.execute("INSERT OR IGNORE INTO damaged VALUES (?)", (stored.id,))
            pieces.drop(connection, stored.id, PayloadState.ABSENT)
            _begin_again(self._database, stored.entry)
        return True

    def _has_damage(self, stored: StoredEntry, damage: PayloadDamaged) -> bool:
        """Whether the bytes that were found damaged are still held, and not others that came since."""
        if damage.file is not None:
            return pieces.file_of(self._database, stored.id) == damage.file
        try:
            checked.check_complete(self._database, stored.id, stored.entry)
        except PayloadDamaged:
            return True
        return False

    def keep_scrubbed(self, row: int) -> None:
        """Store what ``scrubbed`` gives."""
        with self._database.transaction(durable=False) as connection:
            connection.execute("INSERT OR REPLACE INTO counters VALUES ('scrubbed', ?)", (row,))

    def keep_sums(self, stored: StoredEntry, sums: bytes) -> None:
        """Store the checksums of a large payload that ``check_payload`` has computed."""
        with self._database.transaction(durable=False) as connection:
            pieces.keep_sums(connection, stored.id, sums)


class SQLiteStore(Store):
    """Logs in an SQLite file, verified as they come in.

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
        super().__init__(open_database(Path(path), read_only=read_only, lock_timeout=lock_timeout))
        self._max_waiting = max_waiting_entries, max_waiting_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Everything acknowledged is on the disk, closed or not."""
        self._database.close()

    def fold_elsewhere(self) -> None:
        """Another connection to the file folds its WAL file back, so commits here need not."""
        self._database.fold_elsewhere()

    def verify(self, log: Log | None = None, progress: Callable[[int], None] | None = None) -> VerifyReport:
        """Check everything held, or one log, afresh from its bytes: signatures, links, paths and payloads.

        Nothing is repaired, because the store cannot know whether its verdict or its bytes were damaged. ``progress``
        is called with the number of entries checked so far. ``StoreDamaged`` if the tables hold values that Culm never
        writes.
        """
        return verify.verify(self._database, log, progress)


ToolStore: TypeAlias = SQLiteStore
"""A store in the hands of a function that did not open it."""


def _held(connection: sqlite3.Connection, place: Place) -> StoredEntry:
    stored = find_entry(connection, place)
    if stored is None:
        raise NotHeld(f"the store does not have {place}")
    return stored


def _begin_again(database: Database, entry: Entry) -> None:
    """The payload of an entry is missing from now on, so the log has a gap there."""
    view = LogView(database, entry.log, next_change(database.connection))
    view.contiguous = min(view.contiguous, entry.seq - 1)
    view.flush()


def authentic(batch: list[Item], verdicts: Sequence[bool], report: ImportReport) -> list[Item]:
    """The items whose signatures are right by the ``verdicts``. The others are listed in the report as refused."""
    for (entry, _), is_good in zip(batch, verdicts, strict=True):
        if not is_good:
            error = BadSignature("the signature does not verify under the claimed author", entry.place)
            report.refused.append((entry.place, error))
    return [item for item, is_good in zip(batch, verdicts, strict=True) if is_good]


def _checked_payload(entry: Entry, payload: Buffer | None, report: ImportReport) -> tuple[Buffer | None, bool]:
    """The payload if it is the entry's own, else None; and whether the author lied about its size."""
    if payload is None:
        return (b"", False) if entry.size == 0 and entry.payload_hash == _EMPTY_PAYLOAD else (None, False)
    try:
        check_payload(entry, payload)
    except PayloadMismatch as error:
        report.refused.append((entry.place, error))
        return None, isinstance(error, PayloadSizeMismatch)
    return payload, False
