"""What comes in on an interval session, on its way to the store: a bounded amount at a time.

Entries with payloads that came whole are stored in groups. Large payloads go piece by piece to where they were left
off, behind all entries that came, and not for every few bytes: so news never wait for a large payload. Each call of the
store's thread takes a bounded part, so that those of other sessions come in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from culm.bamboo import ForkProof
from culm.errors import NotHeld, PayloadMismatch, StoreError
from culm.node.storage.worker import GROUP_ENTRIES, group_entries
from culm.store import ImportReport, Overtaken
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.bamboo import Entry
    from culm.node.storage.worker import AnyWorker
    from culm.store import PayloadSink
    from culm.store.values import Bytes
    from culm.types import Log

_SMALL = 64 * 1024  # payloads up to this size are kept together
_STEP_BYTES = 512 * 1024  # of large payloads that one call of the store's thread takes
_SYNCS = 2  # large payloads of a session that are brought to the disk at a time
_WAITING_BYTES = 1024 * 1024  # at which no more is read from the peer

Items = list[tuple["Entry", "Bytes | None"]]


class _Piece(NamedTuple):
    entry: Entry
    offset: int
    data: bytes
    complete: bool
    checked: bool


class _Failed(NamedTuple):
    entry: Entry


@dataclass(slots=True)
class _Group:
    items: Items = field(default_factory=list)
    bytes: int = 0

    def add(self, entry: Entry, payload: Bytes | None) -> int:
        """Add an entry; how many bytes that is."""
        size = len(payload or b"") + len(entry.encoded)
        self.items.append((entry, payload))
        self.bytes += size
        return size

    def split(self, count: int) -> _Group | None:
        """Keep so many entries; the rest, if there is any."""
        if len(self.items) <= count:
            return None
        rest = _Group()
        for item in self.items[count:]:
            self.bytes -= rest.add(*item)
        del self.items[count:]
        return rest


_Job = _Piece | _Failed


@dataclass(slots=True)
class _Pending:
    """An entry whose payload may follow at once."""

    entry: Entry
    data: bytearray = field(default_factory=bytearray)


class Arrivals:
    """The way to the store. ``stored`` is called on the loop with what became of each part.

    ``grew`` is called when more bytes of a large payload of a log are there, which is not complete yet. ``curate`` is
    asked before an entry is kept, with its payload, or the beginning of a large one.
    """

    def __init__(
        self,
        worker: AnyWorker,
        stored: Callable[[ImportReport], None],
        curate: Callable[[Entry, memoryview], bool] | None = None,
        grew: Callable[[Log], None] | None = None,
    ) -> None:
        self._worker = worker
        self._stored = stored
        self._curate = curate
        self._grew = grew
        self._pending: dict[int, _Pending] = {}
        self._groups: deque[_Group | ForkProof] = deque()
        self._jobs: deque[_Job] = deque()  # about large payloads, behind all groups
        self._job_bytes = 0
        self._jobs_due = 0  # those that do not wait for more
        self._bytes = 0
        self._sinks: dict[bytes, PayloadSink] = {}
        self._unwanted: set[bytes] = set()
        self._complete: list[tuple[Entry, PayloadSink]] = []  # large payloads all of which was written
        self._grown: set[Log] = set()  # of which bytes of large payloads were written
        self._finishing: set[asyncio.Task[None]] = set()
        self._disk = asyncio.Semaphore(_SYNCS)
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._failure: BaseException | None = None

    # -- taking ------------------------------------------------------------------------------------------------

    def take(self, event: EntryReceived | PayloadReceived | PayloadFailed) -> None:
        """Take what a response brought."""
        match event:
            case EntryReceived(request_id, entry):
                self._settle(request_id)
                self._pending[request_id] = _Pending(entry)
            case PayloadReceived(request_id, entry, offset, data, complete, checked):
                pending = self._pending.get(request_id)
                if pending is not None and pending.entry is entry and entry.size <= _SMALL:
                    pending.data += data
                    if complete:
                        del self._pending[request_id]
                        self._add_item(entry, bytes(pending.data))
                else:
                    self._settle(request_id)
                    self._add_job(_Piece(entry, offset, data, complete, checked), len(data))
            case PayloadFailed(request_id, entry):
                self._pending.pop(request_id, None)
                self._add_job(_Failed(entry), 0)

    def take_proof(self, proof: ForkProof) -> None:
        """Take a fork proof that was checked."""
        self._groups.append(proof)

    def take_entry(self, entry: Entry) -> None:
        """Take a single entry that was checked."""
        self._add_item(entry, None)

    def end_of_chunk(self) -> None:
        """For now nothing more comes: entries without a payload under way are on their way."""
        for request_id in [key for key, pending in self._pending.items() if not pending.data]:
            self._settle(request_id)
        self._start()

    def _settle(self, request_id: int) -> None:
        """The payload of an entry does not follow, or not all of it."""
        pending = self._pending.pop(request_id, None)
        if pending is not None:
            self._add_item(pending.entry, None)
            if pending.data:
                self._add_job(_Piece(pending.entry, 0, bytes(pending.data), complete=False, checked=False), 0)

    def _add_item(self, entry: Entry, payload: bytes | None) -> None:
        if self._curate is not None and not self._curate(entry, memoryview(payload or b"")):
            self._unwanted.add(entry.hash)
            return
        if not self._groups or not isinstance(group := self._groups[-1], _Group) or len(group.items) >= GROUP_ENTRIES:
            group = _Group()
            self._groups.append(group)
        self._bytes += group.add(entry, payload)

    def _add_job(self, job: _Job, size: int) -> None:
        if job.entry.hash in self._unwanted:
            return
        self._jobs.append(job)
        self._job_bytes += size
        self._jobs_due += not isinstance(job, _Piece) or job.complete
        self._bytes += size

    # -- storing -----------------------------------------------------------------------------------------------

    @property
    def _is_due(self) -> bool:
        return bool(self._groups or self._jobs_due) or self._job_bytes >= _STEP_BYTES

    def _start(self) -> None:
        if self._task is None and self._failure is None and self._is_due:
            self._task = asyncio.create_task(self._work())

    async def room(self) -> None:
        """Wait until there is room for more; raises what storing failed with."""
        if self._bytes >= _STEP_BYTES:
            self._start()
        while self._bytes >= _WAITING_BYTES:
            await self._wait()
        if self._failure is not None:
            raise self._failure

    async def flush(self) -> None:
        """Wait until everything taken is stored, but for payloads under way."""
        while self._task is not None or self._groups or self._jobs or self._finishing:
            self._jobs_due = max(self._jobs_due, bool(self._jobs))
            self._start()
            await self._wait()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Store what came, payloads in part included."""
        for request_id in list(self._pending):
            self._settle(request_id)
        try:
            await self.flush()
        finally:
            await self._worker.run(self._close_sinks)

    @property
    def idle(self) -> bool:
        """Whether everything taken is stored, but for payloads under way."""
        return self._task is None and not (self._is_due or self._finishing)

    async def _wait(self) -> None:
        if self._failure is None:
            self._moved.clear()
            await self._moved.wait()
        if self._failure is not None:
            raise self._failure

    async def _work(self) -> None:
        try:
            while self._is_due:
                size, work = self._next_work()
                report = await self._worker.run(work)
                self._bytes -= size
                self._finish_complete()
                self._tell_of_growth()
                self._stored(report)
                self._moved.set()
        except Exception as failure:  # noqa: BLE001 - raised again where the session waits for it
            self._failure = failure
        self._task = None
        self._moved.set()

    def _tell_of_growth(self) -> None:
        if self._grew is not None:
            for log in self._grown:
                self._grew(log)
        self._grown.clear()

    def _finish_complete(self) -> None:
        for entry, sink in self._complete:
            task = asyncio.create_task(self._finish(entry, sink))
            self._finishing.add(task)
            task.add_done_callback(self._finished)
        self._complete.clear()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._finishing.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None and self._failure is None:
            self._failure = failure
        self._moved.set()

    async def _finish(self, entry: Entry, sink: PayloadSink) -> None:
        """Bring a large payload to the disk, beside the store's thread; then it counts as held."""
        async with self._disk:
            await asyncio.to_thread(sink.sync)
        report = ImportReport()
        await self._worker.run(self._finish_sink, entry, sink, report)
        self._stored(report)

    @staticmethod
    def _finish_sink(entry: Entry, sink: PayloadSink, report: ImportReport) -> None:
        try:
            sink.finish()
        except Overtaken:  # another session brings it, too: what is missing then is asked for again
            pass
        except PayloadMismatch as error:  # the peer's part was not checked: its beginning came from elsewhere
            report.refused.append((entry.place, StoreError(str(error))))
        except StoreError as error:
            report.refused.append((entry.place, error))
        else:
            report.payloads += 1

    def _next_work(self) -> tuple[int, Callable[[], ImportReport]]:
        """What the store is to do next, and how many bytes that takes from what waits."""
        if self._groups:
            group = self._groups.popleft()
            if isinstance(group, ForkProof):
                return 0, partial(self._worker.store.add_proof, group)
            if rest := group.split(group_entries(self._worker)):
                self._groups.appendleft(rest)
            return group.bytes, partial(self._worker.store.add, group.items, authenticated=True, durable=False)
        jobs: list[_Job] = []
        size = 0
        while self._jobs and size < _STEP_BYTES:
            jobs.append(job := self._jobs.popleft())
            size += len(job.data) if isinstance(job, _Piece) else 0
        self._job_bytes -= size
        self._jobs_due = sum(not isinstance(job, _Piece) or job.complete for job in self._jobs)
        return size, partial(self._write_all, jobs)

    def _write_all(self, jobs: list[_Job]) -> ImportReport:
        report = ImportReport()
        for job in jobs:
            if isinstance(job, _Piece):
                self._write(job, report)
            else:
                self._sink(job.entry, abandon=True)
        return report

    def _sink(self, entry: Entry, *, abandon: bool = False) -> PayloadSink | None:
        sink = self._sinks.get(entry.hash)
        if sink is None:
            try:
                sink = self._worker.store.payload_sink(entry.place, entry.hash, trusted=True, durable=False)
            except NotHeld:  # the entry was refused
                return None
            if sink.offset:  # by another session, say; the peer's bytes are checked, and not whether these are as good
                sink.distrust()
            self._sinks[entry.hash] = sink
        if abandon:
            del self._sinks[entry.hash]
            sink.abandon()
        return sink

    def _write(self, piece: _Piece, report: ImportReport) -> None:
        """Write bytes to where the payload was left off: what is there already came another way."""
        sink = self._sink(piece.entry)
        if sink is None or not sink.wanted:
            return
        known = sink.offset - piece.offset
        try:
            if 0 <= known <= len(piece.data):
                sink.write(memoryview(piece.data)[known:])
                self._grown.add(piece.entry.log)
                if piece.complete:
                    self._complete_sink(piece, sink, report)
        except Overtaken:  # the next bytes may fit behind what another session brought
            self._sinks.pop(piece.entry.hash, None)
        except (PayloadMismatch, StoreError) as error:
            report.refused.append((piece.entry.place, error))
        if piece.complete:
            self._sinks.pop(piece.entry.hash, None)

    def _complete_sink(self, piece: _Piece, sink: PayloadSink, report: ImportReport) -> None:
        if not piece.checked:
            sink.distrust()
        if sink.is_large:
            sink.keep()
            self._complete.append((piece.entry, sink))
        else:
            self._finish_sink(piece.entry, sink, report)

    def _close_sinks(self) -> None:
        for sink in self._sinks.values():
            sink.close()
        self._sinks.clear()
