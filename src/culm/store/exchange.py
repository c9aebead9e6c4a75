"""Exporting from a store and importing into it. The formats of the files are in ``culm.store.files``.

An import is one pass over a file of any size: memory holds two batches of entries with their small payloads, and a
piece of a large one. Everything is verified again, wherever the file comes from. Checking signatures and writing take
about as long as each other, and neither needs the interpreter. So the signatures of one batch are checked while the
batch before it is written.
"""

from collections.abc import Callable, Iterable
from typing import BinaryIO

from culm.bamboo import MAX_U64, Entry, start_checking
from culm.errors import (
    BadSignature,
    EncodingError,
    NotHeld,
    PayloadDamaged,
    PayloadMismatch,
    Place,
    StoreDamaged,
    StoreError,
)
from culm.store.entries import Damaged
from culm.store.files import (
    BundleWriter,
    EntryRecord,
    PayloadAtHand,
    PayloadRecord,
    ProofRecord,
    Record,
    read_records,
)
from culm.store.schema import State
from culm.store.sqlite import Item, ReadableStore, ToolStore, authentic
from culm.store.values import ImportReport, StoredEntry
from culm.types import Log

_WHOLE_BYTES = 1024 * 1024  # payloads up to this size are held whole, to be stored in one transaction with their entry
_BATCH_ENTRIES = (
    4000  # Checked together, because signatures cost least by thousands; the store makes transactions of them.
)
_BATCH_BYTES = 4 * 1024 * 1024  # of payloads in a batch: there are two of them, which bounds the memory


class Importer:
    """Feeds the records of a file into a store, many entries to a transaction.

    ``progress`` is called with the entries read and the payload bytes stored so far.
    """

    def __init__(self, store: ToolStore, progress: Callable[[int, int], None] | None = None) -> None:
        self._store = store
        self._progress = progress
        self._batch: list[Item] = []
        self._checked: tuple[list[Item], Callable[[], list[bool]]] | None = None  # Its signatures are being checked.
        self._batch_bytes = 0
        self._last: Entry | None = None
        self._entries = 0
        self._bytes = 0
        self.report = ImportReport()

    def run(self, stream: BinaryIO) -> ImportReport:
        """Import a whole file. If it cannot be read to its end, everything before that place is imported."""
        before = self._store.newest_row()
        try:
            for record in read_records(stream):
                self._take(record)
        except EncodingError as error:
            self.flush()
            reason = type(error)(f"byte {error.offset}: {error}", error.offset)
            self.report.refused.append((None, reason))
        self.flush()
        if self.report.waiting:  # some of these found their path to entry 1 later in the file
            self.report.waiting = self._store.waiting_after(before)
        return self.report

    def _take(self, record: Record) -> None:
        if isinstance(record, EntryRecord):
            self.take(record.entry, record.payload)
            self._entries += 1
        elif isinstance(record, PayloadRecord):
            if not self._joined(record):
                self.flush()
                self._take_payload(record.place, record.payload, record.payload.size)
        else:
            self.flush()
            self._take_proof(record)

    def take(self, entry: Entry, payload: Iterable[bytes] | None) -> None:
        """Import an entry with its payload (None: not at hand). Call ``flush`` behind the last one."""
        self._last = entry
        if isinstance(payload, PayloadAtHand):
            self._batch.append((entry, payload.whole))
            self._batch_bytes += entry.size
        else:
            self._batch.append((entry, None))
            if payload is not None:
                self._take_from_stream(entry, payload)
        if len(self._batch) >= _BATCH_ENTRIES or self._batch_bytes >= _BATCH_BYTES:
            self._go_on()

    def _take_from_stream(self, entry: Entry, payload: Iterable[bytes]) -> None:
        """Take the payload of the entry that is the last of the batch."""
        if entry.size <= _WHOLE_BYTES:
            self._batch[-1] = (entry, b"".join(payload))  # if the file ends inside, the entry alone is in the batch
            self._batch_bytes += entry.size
        else:
            self.flush()
            if self._store.get(entry.place) is not None:
                self._take_payload(entry.place, payload, entry.size)

    def _joined(self, record: PayloadRecord) -> bool:
        """Join a small payload to the entry right before it, to store both together; whether that was possible."""
        if not self._batch or record.payload.size > _WHOLE_BYTES:
            return False
        entry, payload = self._batch[-1]
        if payload is not None or entry.place != record.place:
            return False
        self._batch[-1] = entry, b"".join(record.payload)
        self._batch_bytes += record.payload.size
        return True

    def _take_payload(self, place: Place, payload: Iterable[bytes], size: int) -> None:
        last = self._last
        try:
            # If entries of one number contradict each other, the payload belongs to the one that it follows.
            sink = self._store.payload_sink(place, last.hash if last is not None and last.place == place else None)
        except NotHeld as error:
            self.report.refused.append((place, error))
            return
        if not sink.wanted:
            return
        self._bytes += size
        done = sink.offset
        try:
            for piece in payload:
                skipped = min(done, len(piece))
                done -= skipped
                sink.write(memoryview(piece)[skipped:])
            sink.finish()
        except PayloadMismatch as error:
            self.report.refused.append((place, error))
        except EncodingError:
            sink.close()
            raise
        else:
            self.report.payloads += 1

    def _take_proof(self, record: ProofRecord) -> None:
        try:
            self.report.merge(self._store.add_proof(record.proof))
        except BadSignature as error:
            self.report.refused.append((error.place, error))

    def flush(self) -> None:
        """Store what is waiting for more."""
        self._go_on()
        self._store_checked()
        if self._progress is not None:
            self._progress(self._entries, self._bytes)

    def _go_on(self) -> None:
        """Have the batch's signatures checked, and store the batch before it meanwhile."""
        self._bytes += self._batch_bytes
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        checks = start_checking([entry for entry, _ in batch], beside_work=True) if batch else None
        self._store_checked()
        if checks is not None:
            self._checked = batch, checks
            if self._progress is not None:
                self._progress(self._entries, self._bytes)

    def _store_checked(self) -> None:
        checked, self._checked = self._checked, None
        if checked is not None:
            batch, verdicts = checked
            self.report.merge(self._store.add(authentic(batch, verdicts(), self.report), authenticated=True))


def export_plain(
    store: ReadableStore,
    logs: Iterable[Log],
    stream: BinaryIO,
    left_out: Callable[[Place], None],
    damaged: Damaged | None = None,
) -> int:
    """Write verified entries, each directly followed by its payload; how many were written.

    ``left_out`` is called for each entry whose payload is not held, because this format cannot carry it. ``damaged`` is
    called for each that is left out because it, or its payload, changed on the disk. Without it, ``StoreDamaged``.
    """
    count = 0
    for log in logs:
        for stored in store.entries(log, damaged=damaged):
            if not stored.payload_complete:
                left_out(stored.entry.place)
            elif (payload := _sound(store, stored, damaged)) is not None:
                stream.write(stored.entry.encoded)
                stream.writelines(payload)
                count += 1
    return count


def export_bundle(store: ReadableStore, logs: Iterable[Log], stream: BinaryIO, damaged: Damaged | None = None) -> int:
    """Write everything held of the logs as a bundle, including entries that wait and both branches of forks.

    ``damaged`` is called for each entry or proof that changed on the disk, which is left out, and for each payload that
    did. Its entry is written without it. Without ``damaged``, an error is raised instead.
    """
    writer = BundleWriter(stream)
    count = 0
    for log in logs:
        for proof in store.fork_proofs(log):
            try:
                proof.check()
            except BadSignature as error:
                reason = f"the store is damaged: the proof of the fork: {error}"
                _tell(Place(*log, proof.position), StoreDamaged(reason), damaged)
            else:
                writer.proof(proof)
        for stored in store.entries(log, 1, MAX_U64, states=State, damaged=damaged):
            writer.entry(stored.entry)
            if stored.payload_complete and stored.entry.size:
                payload = _sound(store, stored, damaged)
                if payload is not None:
                    writer.payload(stored.entry.place, stored.entry.size, payload)
            count += 1
    writer.close()
    return count


def _tell(place: Place, error: StoreError, damaged: Damaged | None) -> None:
    if damaged is None:
        raise error
    damaged(place, error)


def _sound(store: ReadableStore, stored: StoredEntry, damaged: Damaged | None) -> Iterable[bytes] | None:
    """The pieces of a complete payload; None if it is damaged or was deleted meanwhile, which ``damaged`` is told.

    A file cannot take back what was written to it, so the payload is checked before. A large one is read twice for
    that, because it does not fit into memory. If it changes in between, its stream raises ``PayloadDamaged``.
    """
    try:
        if stored.entry.size <= _WHOLE_BYTES:
            return list(store.payload(stored))
        store.check_payload(stored)
    except (PayloadDamaged, NotHeld) as error:
        _tell(stored.entry.place, error, damaged)
        return None
    return store.payload(stored)


def transfer(source: ReadableStore, target: ToolStore, entries: Iterable[StoredEntry]) -> ImportReport:
    """Copy entries of one store into another, with those of their payloads that are held complete."""
    importer = Importer(target)
    for stored in entries:
        importer.take(stored.entry, source.payload(stored) if stored.payload_complete else None)
    importer.flush()
    return importer.report
