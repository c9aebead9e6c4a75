"""Arrivals: how entries and payloads that a peer sends reach the store, a bounded amount at a time.

*The problem.* A peer sends a stream in which a thousand tiny entries, a payload of 2 GB and three news of another log
stand in any order. Storing each piece as it comes is too slow, because a transaction for each costs far more than the
piece itself. Collecting everything first takes unbounded memory. Storing strictly in order makes the news wait for 2
GB.

*The way chosen* is two lanes, as at a ferry: cars board in groups, and a lorry is loaded between two groups of cars.

- *Groups.* An entry with its payload, if the payload is small (``_SMALL``) and came whole, is one item of a group. A
  group is stored in one transaction. An entry whose payload does not follow goes into a group without it.
- *Jobs.* A piece of a large payload is a job: write these bytes to where the payload was left off (its *sink*). Jobs
  are done when no group waits, and not for every few bytes but for ``_STEP_BYTES`` together, or all that waits if no
  other address wants the store and no news have come lately. So news rarely wait for more than one such step.

A large payload that is complete is compared with its hash and brought to the disk before it counts as held. That can
take long, so it is done on another thread, a few payloads at a time, while the store's thread goes on.

Memory stays bounded because ``room`` makes the session stop reading while ``_WAITING_BYTES`` wait to be stored. TCP
then stops the peer.

The task that stores, and what happens when storing fails, is in ``culm.node.sessions.storing``.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeVar

from culm.bamboo import Entry, ForkProof
from culm.errors import NotHeld, PayloadMismatch, Place, StoreError
from culm.node.interests.policy import Policy
from culm.node.sessions.storing import Storing
from culm.node.storage.worker import AnyWorker, group_entries
from culm.store import ImportReport, Overtaken, PayloadSink
from culm.transfer import EntriesReceived, EntryReceived, PayloadFailed, PayloadReceived
from culm.types import Buffer, Log

_SMALL = 64 * 1024  # Payloads up to this size are collected in memory, one for each request, and stored with the entry.
_STEP_BYTES = 1024 * 1024  # Of large payloads that a call of the store's thread needs, and has where others wait.
_CALM_BYTES = 32 * 1024 * 1024  # Of large payloads that are written behind news before steps may be longer.
_SYNCS = 2  # Large payloads of a session that are synced to the disk at a time: more would only slow each other down.
_WAITING_BYTES = 4 * 1024 * 1024  # Stop reading from the peer when so much waits for the store: memory is bounded.

_OPEN_SINKS = 32  # Payloads of a session that are being written. Each sink holds back some bytes; others are closed and
# opened again when they go on, so that a peer which breaks off one payload after the other fills no memory.


class _Item(NamedTuple):
    """An entry with its whole payload, or without. ``is_hashed``: the connection has compared the payload's hash."""

    entry: Entry
    payload: Buffer | None
    is_hashed: bool


_Job = PayloadReceived | PayloadFailed  # Write these bytes; or drop what was written, because it was wrong.
WorkT = TypeVar("WorkT", bound=_Item | ForkProof | _Job)


WRONG = "the payload does not match the hash in its entry"
"""What is said of a payload that a peer sent wrong."""


class PiecesMixed(StoreError):
    """A payload proved wrong, and a part of it was held before. All of it was dropped, and nobody is to blame."""


def _size(work: _Item | ForkProof | _Job) -> int:
    """The bytes that something counts for while it waits."""
    match work:
        case _Item():  # First, because nearly all are.
            return len(work.payload or b"") + len(work.entry.encoded)
        case PayloadReceived(data=data):
            return len(data)
        case PayloadFailed():
            return 0
        case ForkProof():
            return len(work.encode())


class _Queue(deque[WorkT]):
    """What waits, and its ``size`` in bytes. Only the queue counts, so the sum cannot drift from what waits.

    Only ``append``, ``append_all`` and ``popleft`` count.
    """

    size = 0

    def append(self, work: WorkT) -> None:
        super().append(work)
        self.size += _size(work)

    def append_all(self, works: Iterable[WorkT], size: int) -> None:
        """Append many, whose size is known."""
        self.extend(works)
        self.size += size

    def popleft(self) -> WorkT:
        work = super().popleft()
        self.size -= _size(work)
        return work


class Arrivals(Storing):
    """The way of one session to the store.

    ``stored`` is called on the event loop with what became of each group or step. ``policy`` says of each entry whether
    to keep it, by its payload if that is small and came whole, otherwise by an empty one, and by the quotas; what it
    refuses is dropped. ``grew`` is called when more bytes of a large payload were written, so that greedy sessions can
    pass them on. ``is_for_another`` says of an entry that only another session may write its payload now.
    ``had_no_room`` is called when a quota has refused something of a log.
    """

    def __init__(
        self,
        worker: AnyWorker,
        stored: Callable[[ImportReport], None],
        policy: Policy | None = None,
        grew: Callable[[Log], None] = lambda _: None,
        is_for_another: Callable[[Entry], bool] = lambda _: False,
        had_no_room: Callable[[Log], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._worker = worker
        self._stored = stored
        self._policy = policy or Policy()
        self._grew = grew
        self._is_for_another = is_for_another
        self._had_no_room = had_no_room
        # By request: an entry whose payload may be the next thing that the request brings, and the bytes so far.
        self._pending: dict[int, tuple[Entry, bytearray]] = {}
        self._items: _Queue[_Item | ForkProof] = _Queue()
        self._jobs: _Queue[_Job] = _Queue()  # Done when no item waits.
        self._jobs_due = 0  # Jobs that do not wait for more bytes: the end of a payload, or its failure.
        self._storing = 0  # Bytes that the store is dealing with.
        self._calm = _CALM_BYTES  # Bytes of large payloads that were written since an entry came with its payload.
        self._sinks: dict[bytes, PayloadSink] = {}  # By the hash of the entry, the one written to last at the end.
        self._unwanted: set[bytes] = set()  # Hashes of entries that ``curate`` refused; their payloads are dropped.
        self._complete: list[tuple[PayloadReceived, PayloadSink]] = []  # Large payloads that are written, their ends.
        self._grown: set[Log] = set()  # Logs with new bytes of large payloads.
        self.overtaken: list[Place] = []
        """Entries whose payload came to its end here and is not whole, because another session wrote it meanwhile.

        That session may have broken off, so the payload is to be asked for again if it is still missing."""
        self._finishing: set[asyncio.Task[ImportReport]] = set()  # Syncs under way.
        self._disk = asyncio.Semaphore(_SYNCS)

    # -- taking ------------------------------------------------------------------------------------------------

    def take(self, event: EntriesReceived | EntryReceived | PayloadReceived | PayloadFailed) -> None:
        """Take what a response brought. Takes memory but no time: storing begins with ``end_of_chunk`` or ``room``."""
        match event:
            case EntriesReceived(request_id, items):
                self._settle(request_id)
                if self._policy.keeps_everything and all(entry.size <= _SMALL for entry, _ in items):
                    whole = (_Item(entry, payload, True) for entry, payload in items)
                    self._items.append_all(whole, event.size)
                else:
                    for entry, payload in items:
                        self._add_whole(request_id, entry, payload)
            case EntryReceived(request_id, entry):
                self._settle(request_id)
                self._pending[request_id] = entry, bytearray()
            case PayloadReceived(request_id, entry):
                before, data = self._pending.get(request_id, (None, bytearray()))
                if before is entry and entry.size <= _SMALL:
                    data += event.data
                    if event.complete:
                        del self._pending[request_id]
                        self._add_item(entry, bytes(data), is_hashed=event.checked and len(data) == entry.size)
                else:
                    self._settle(request_id)
                    self._add_job(event)
            case PayloadFailed(request_id):
                before, _ = self._pending.pop(request_id, (None, b""))
                if before is not None:  # The entry is right, whatever was sent as its payload.
                    self._add_item(before, None)
                self._add_job(event)

    def take_proof(self, entries: tuple[Entry, ...]) -> None:
        """Take the entries of a fork proof, whose signatures were checked; a single one contradicts an entry held."""
        proof = ForkProof.of(*entries) if len(entries) > 1 else None
        if proof is not None:
            quotas = self._policy.quotas
            if quotas is None or quotas.takes_proof(entries):
                self._items.append(proof)
            else:
                self._had_no_room(proof.log)
        else:
            self._add_item(entries[0], None)

    def end_of_chunk(self) -> None:
        """Everything that was read from the socket at once is taken: start storing.

        Entries whose payload has not begun to come do not wait for it: it may take long, or never come.
        """
        self._settle(*(key for key, (_, data) in self._pending.items() if not data))
        self._start()

    def _add_whole(self, request_id: int, entry: Entry, payload: bytes) -> None:
        """Take an entry with its whole payload, whose hash was compared."""
        if len(payload) <= _SMALL:
            self._add_item(entry, payload, is_hashed=True)
        else:
            self._add_item(entry, None)
            self._add_job(PayloadReceived(request_id, entry, 0, payload, complete=True, checked=True))

    def _settle(self, *request_ids: int) -> None:
        """Send pending entries off without their payloads; a payload that has begun to come becomes a job."""
        for request_id in request_ids:
            entry, data = self._pending.pop(request_id, (None, b""))
            if entry is not None:
                self._add_item(entry, None)
                if data:
                    self._add_job(PayloadReceived(request_id, entry, 0, bytes(data), complete=False, checked=False))

    def _add_item(self, entry: Entry, payload: bytes | None, *, is_hashed: bool = False) -> None:
        data = memoryview(payload or b"")
        if not self._policy.keeps(entry, data):
            # What a quota refuses is not noted: its log counts as full, and peers could make the set grow for ever.
            if self._policy.curate is not None:
                self._unwanted.add(entry.hash)
            if self._policy.quotas is not None:
                self._had_no_room(entry.log)
            return
        self._items.append(_Item(entry, payload, is_hashed))

    def _add_job(self, job: _Job) -> None:
        if job.entry.hash in self._unwanted:
            return
        quotas = self._policy.quotas
        if quotas is not None and isinstance(job, PayloadReceived) and not quotas.takes_piece(job.entry, len(job.data)):
            self._had_no_room(job.entry.log)
            return
        self._jobs.append(job)
        self._jobs_due += _is_last(job)

    # -- storing -----------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """The bytes that are not stored yet."""
        return self._items.size + self._jobs.size + self._storing

    @property
    def _is_due(self) -> bool:
        return bool(self._items or self._jobs_due) or self._jobs.size >= _STEP_BYTES

    async def room(self) -> None:
        """Wait until less than ``_WAITING_BYTES`` wait; raises the error that storing has failed with."""
        if self.waiting >= _STEP_BYTES:
            self._start()
        await self._until(lambda: self.waiting < _WAITING_BYTES)

    async def flush(self) -> None:
        """Wait until everything taken is stored, except for payloads whose next bytes have not come.

        Raises the error that storing has failed with.
        """
        await self._until(self._is_flushed)

    def _is_flushed(self) -> bool:
        """Whether nothing waits; otherwise jobs are due now."""
        self._jobs_due = max(self._jobs_due, bool(self._jobs))
        self._start()
        return self._task is None and not (self._items or self._jobs or self._finishing)

    async def close(self) -> None:
        """Store all that came, beginnings of payloads included, so that the next session goes on behind them."""
        self._settle(*self._pending)
        try:
            await self.flush()
        finally:
            if self._sinks:  # Else no turn: many sessions that brought nothing would fill all places while they wait.
                await self._worker.run(self._close_sinks)

    @property
    def idle(self) -> bool:
        """Whether everything taken is stored, except for payloads whose next bytes have not come."""
        return self._task is None and not (self._is_due or self._finishing)

    async def _store_some(self) -> None:
        before = self.waiting
        work = self._next_work()
        self._storing = before - self.waiting
        report = await self._worker.run(work)
        self._storing = 0
        self._finish_complete()
        for log in self._grown:
            self._grew(log)
        self._grown.clear()
        self._stored(report)

    def _finish_complete(self) -> None:
        for end, sink in self._complete:
            task = asyncio.create_task(self._finish(end, sink))
            self._finishing.add(task)
            task.add_done_callback(self._finished)
        self._complete.clear()

    def _finished(self, task: asyncio.Task[ImportReport]) -> None:
        self._finishing.discard(task)
        if not task.cancelled():
            if (failure := task.exception()) is None:
                self._stored(task.result())  # Not before: a session that waits for the last payload looks again now.
            elif self._failure is None:
                self._failure = failure
        self._moved.set()

    async def _finish(self, end: PayloadReceived, sink: PayloadSink) -> ImportReport:
        """Compare a large payload and sync it to the disk, beside the store's thread; afterwards it counts as held."""
        async with self._disk:
            is_right = await asyncio.to_thread(_right_and_synced, end, sink)
        report = ImportReport()
        if is_right:
            await self._worker.run(self._finish_sink, end.entry, sink, report)
        else:
            await self._worker.run(sink.abandon)
            report.refused.append((end.entry.place, PayloadMismatch(WRONG, end.entry.place)))
        return report

    def _finish_sink(self, entry: Entry, sink: PayloadSink, report: ImportReport) -> None:
        try:
            sink.finish()
        except Overtaken:  # Another session writes it, too.
            self.overtaken.append(entry.place)
        except PayloadMismatch as error:
            # No offence of this peer: the connection has checked its bytes, unless the beginning came from elsewhere.
            report.refused.append((entry.place, PiecesMixed(str(error))))
        except StoreError as error:
            report.refused.append((entry.place, error))
        else:
            report.payloads += 1

    def _next_work(self) -> Callable[[], ImportReport]:
        """What the store is to do next."""
        if self._items:
            return self._next_items()
        # Between two steps the loop goes round. Where that takes longer than a step, all that waits is the better step.
        is_alone = self._calm >= _CALM_BYTES and not self._worker.share.has_others
        most = _WAITING_BYTES if is_alone else _STEP_BYTES
        jobs: list[_Job] = []
        size = 0
        while self._jobs and size < most:
            jobs.append(job := self._jobs.popleft())
            size += _size(job)
        self._calm += size
        self._jobs_due = sum(map(_is_last, self._jobs))
        return partial(self._write_all, jobs)

    def _next_items(self) -> Callable[[], ImportReport]:
        """The next proof, or a group of entries. Entries in front of a proof are stored before it."""
        store, most = self._worker.store, group_entries(self._worker)
        group: list[_Item] = []
        while self._items and len(group) < most:
            if isinstance(item := self._items[0], ForkProof):
                if not group:
                    self._items.popleft()
                    return partial(store.add_proof, item)
                break
            group.append(item)
            self._items.popleft()
        # The store need not hash again what the connection has hashed; one payload that it has not decides for all.
        hashed = all(payload is None or is_hashed for _, payload, is_hashed in group)
        if any(item.payload is not None for item in group):
            self._calm = 0
        items = [(entry, payload) for entry, payload, _ in group]
        return partial(store.add, items, authenticated=True, hashed=hashed, durable=False)

    def _write_all(self, jobs: list[_Job]) -> ImportReport:
        report = ImportReport()
        for job in jobs:
            if self._is_for_another(job.entry):
                self._sinks.pop(job.entry.hash, None)
            elif isinstance(job, PayloadReceived):
                self._write(job, report)
            else:
                self._sink(job.entry, abandon=True)
        return report

    def _sink(self, entry: Entry, *, abandon: bool = False) -> PayloadSink | None:
        sink = self._sinks.pop(entry.hash, None)
        if sink is None:
            if len(self._sinks) >= _OPEN_SINKS:
                self._sinks.pop(next(iter(self._sinks))).close()
            try:
                sink = self._worker.store.payload_sink(entry.place, entry.hash, trusted=True, durable=False)
            except NotHeld:  # The entry was refused, so its payload has no place either.
                return None
            if sink.offset:
                # A beginning is held already, for example from another session. Nobody has checked yet whether it fits
                # what this peer sends, so the whole payload is hashed again at the end.
                sink.distrust()
        if abandon:
            sink.abandon()
        else:
            self._sinks[entry.hash] = sink
        return sink

    def _write(self, piece: PayloadReceived, report: ImportReport) -> None:
        """Write the bytes of a piece behind what is held. Those in front of that came another way."""
        sink = self._sink(piece.entry)
        if sink is None or not sink.wanted:
            return
        known = sink.offset - piece.offset
        try:
            if 0 <= known <= len(piece.data):
                sink.write(memoryview(piece.data)[known:] if known else piece.data)
                self._grown.add(piece.entry.log)
                if piece.complete:
                    self._complete_sink(piece, sink, report)
            elif piece.complete:
                self.overtaken.append(piece.entry.place)
        except Overtaken:  # Another session wrote more. Open a new sink next time: our next bytes may fit behind that.
            self._sinks.pop(piece.entry.hash, None)
            if piece.complete:
                self.overtaken.append(piece.entry.place)
        except (PayloadMismatch, StoreError) as error:
            report.refused.append((piece.entry.place, error))
        if piece.complete:
            self._sinks.pop(piece.entry.hash, None)

    def _complete_sink(self, piece: PayloadReceived, sink: PayloadSink, report: ImportReport) -> None:
        if not (piece.checked or piece.hasher):
            sink.distrust()
        if sink.is_large or piece.hasher is not None:
            sink.keep()
            self._complete.append((piece, sink))
        else:
            self._finish_sink(piece.entry, sink, report)

    def _close_sinks(self) -> None:
        for sink in self._sinks.values():
            sink.close()
        self._sinks.clear()


def _right_and_synced(end: PayloadReceived, sink: PayloadSink) -> bool:
    """Bring a large payload to the disk, unless its hash, which is still being computed, shows that it is wrong."""
    if end.hasher is not None and end.hasher.hash != end.entry.payload_hash:
        return False
    sink.sync()
    return True


def _is_last(job: _Job) -> bool:
    """Whether a job does not wait for more bytes: it has the end of a payload, or a payload has failed."""
    return isinstance(job, PayloadFailed) or job.complete
