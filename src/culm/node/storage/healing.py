"""Healing: payloads that were damaged on the disk count as missing, are fetched again, and are looked for.

*Finding.* The bytes of a payload are compared when it is read (``culm.store.payloads.checked``). The session or
process that reads damaged ones has the store count the payload as missing. The store lists such payloads until they
have come again. So the node learns of each of them in one place, when the store has changed: here. It writes one line
in the log, and its sessions ask their peers.

*Searching.* Payloads that nobody reads are read here, slowly: each of them once in ``scrub_days``. The share of the
store's rows that a step covers is the share of that time that passes before the next step. So the pace needs no sum
over all payloads, and a pass goes on where it was when the node stopped.

Stores of earlier versions have no checksums of large payloads. Without them the first slice that a peer asks for would
read the whole payload. So the node reads those payloads at its start, and stores their checksums.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from culm.errors import PayloadDamaged, Place
from culm.node.sharing.threads import Worker
from culm.node.storage.worker import StoreWorker
from culm.store import SQLiteStore, StoredEntry
from culm.wire.places import log_text

_STEP_PAYLOADS = 64  # Checked between two pauses, so that small payloads cost few transactions for the position.
_STEP_BYTES = 4 * 1024 * 1024  # The same for large ones, so that the disk is not busy for long.
_LEAST_PAUSE = 0.05  # Seconds between two steps, in which others have the disk.
_DAY = 86_400.0
_logger = logging.getLogger("culm.node")


def tell_damage(place: Place) -> None:
    """Write a line to the log: a payload was found damaged, and counts as missing now."""
    reason = "its bytes on the disk are not those that the author signed; it is asked for again"
    about = {"log": log_text((place.author, place.log_id)), "seq": place.seq}
    _logger.error("a payload is damaged", extra=about | {"reason": reason})


class Healing:
    """Looks after the payloads of a node's store. ``lost`` is told of each that turns out to be damaged."""

    def __init__(self, worker: StoreWorker, lost: Callable[[Place], Awaitable[None]], scrub_days: float) -> None:
        self._worker = worker
        self._lost = lost
        self._scrub_days = scrub_days
        self._changed = asyncio.Event()
        self._known: set[int] | None = None  # The rows of damaged payloads that the sessions know; None: at the start.

    def store_changed(self) -> None:
        """The store has changed: perhaps a payload was found damaged."""
        self._changed.set()

    async def drop(self, damage: PayloadDamaged) -> None:
        """Have a damaged payload count as missing."""
        if await self._worker.run(self._worker.store.drop_damaged, damage):
            self.store_changed()

    async def watch(self) -> None:
        """Tell the sessions and the log of each payload that turns out to be damaged, until cancelled.

        Sessions ask for what was missing at the node's start anyway.
        """
        while True:
            self._changed.clear()
            found = {stored.id: stored for stored in await self._worker.run(self._worker.store.damaged_payloads)}
            for row, stored in found.items():
                if self._known is not None and row not in self._known:
                    await self._tell(stored)
            self._known = set(found)
            await self._changed.wait()

    async def _tell(self, stored: StoredEntry) -> None:
        tell_damage(stored.entry.place)
        await self._lost(stored.entry.place)

    # -- searching ---------------------------------------------------------------------------------------------

    async def search(self) -> None:
        """Read the payloads without checksums once, and then, if ``scrub_days`` says so, all, until cancelled."""
        store = self._worker.store
        older = await self._worker.run(store.payloads_to_check, 0, 1, without_sums=True)
        if not (older or self._scrub_days):
            return
        own = Worker(self._worker.surroundings.thread())
        reader = await own.run(SQLiteStore, store.path, read_only=True)
        try:
            after: int | None = 0
            while after is not None:
                after = await self._step(own, reader, after, without_sums=True)
                await asyncio.sleep(_LEAST_PAUSE)
            while self._scrub_days:
                await self._scrub(own, reader)
        finally:
            # On its own thread, so behind whatever is under way there: closing a connection that works kills the
            # process.
            own.finish(reader.close)

    async def _scrub(self, own: Worker, reader: SQLiteStore) -> None:
        """One step through all payloads, and the pause that belongs to it."""
        store = self._worker.store
        before = await self._worker.run(store.scrubbed)
        after = await self._step(own, reader, before, without_sums=False)
        rows = max(await self._worker.run(store.newest_row), 1)
        share = ((rows if after is None else after) - before) / rows
        await self._worker.run(store.keep_scrubbed, after or 0)
        await asyncio.sleep(max(_LEAST_PAUSE, share * self._scrub_days * _DAY))

    async def _step(self, own: Worker, reader: SQLiteStore, after: int, *, without_sums: bool) -> int | None:
        """Check some payloads behind a row; the row of the last one, None if there are no more."""
        page = await own.run(lambda: reader.payloads_to_check(after, _STEP_PAYLOADS, without_sums=without_sums))
        size = 0
        for stored in page:
            try:
                sums = await own.run(reader.check_payload, stored)
            except PayloadDamaged as damage:
                await self.drop(damage)
            else:
                if sums is not None and without_sums:
                    await self._worker.run(self._worker.store.keep_sums, stored, sums)
            size += stored.payload_held
            if size >= _STEP_BYTES:
                return stored.id
        return page[-1].id if page else None
