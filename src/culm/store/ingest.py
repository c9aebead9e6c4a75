"""Taking in a group of authentic entries, in one transaction.

Each log is looked up once, and rows are written in groups, because a query for each entry would cost more than all the
rest. Entries that wait for their certificate path need a limit: anybody can sign an entry with any number, and nothing
else keeps a stranger from filling the disk with entries that will never be verified.

Specification: docs/specs/bamboo.md, "Holding and publishing".
"""

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import NamedTuple

from culm.bamboo import Entry
from culm.errors import StoreFull
from culm.store.database import Database
from culm.store.logview import HoldingArea, LogView, Received
from culm.store.payloads.pieces import write_payloads
from culm.store.provenance import note_received
from culm.store.rows import next_change_and_entry_id
from culm.store.schema import PayloadState, State
from culm.store.values import ImportReport
from culm.types import Buffer, Log

MAX_WAITING_ENTRIES = 100_000  # in all logs: enough for a day of a busy station whose first entry is still to come
MAX_WAITING_BYTES = 256 * 1024 * 1024  # of those entries with their payloads: a small part of a small disk


class Receiving(NamedTuple):
    """In which clump entries arrive.

    The logs of ``own`` authors are served in every clump, so they get no mark. ``only_new``: nor do logs that are held.
    """

    clump: bytes
    own: Collection[bytes]
    only_new: bool


class Ingestion:
    """One transaction's worth of authentic entries, in ascending order of author, log and number.

    In this order an entry on a certificate path comes before those that need it, so that only entries wait whose path
    is not in the group. ``first_row`` is the row id of the first of them that is new.
    """

    def __init__(
        self, database: Database, report: ImportReport, receiving: Receiving | None, max_waiting: tuple[int, int]
    ) -> None:
        self._receiving = receiving
        self._database = database
        self._db = connection = database.connection
        self._report = report
        self._change, self._next_id = next_change_and_entry_id(connection)
        self.first_row = self._next_id
        self._area = HoldingArea(connection, *max_waiting)
        self._views: dict[Log, LogView] = {}
        self._payloads: list[tuple[int, Buffer]] = []
        self._is_plain = True  # All entries plainly went on with their logs. Other logs are few, and read anew.

    def take(self, items: Sequence[Received]) -> None:
        """Add entries, in the order that the class names."""
        for log, of_log in groupby(items, key=lambda item: item.entry.log):
            view = self._views.get(log)
            if view is None:
                view = self._views[log] = LogView.of(self._database, log, self._change)
            rest = list(of_log)
            while rest:
                count = view.extend(rest, self._next_id)
                self._note(rest[:count])
                if count < len(rest):
                    self._take_one(view, *rest[count])
                rest = rest[count + 1 :]

    def _note(self, items: list[Received]) -> None:
        """Entries of these items got rows, the next ones in their order."""
        payloads = [(row, item.payload) for row, item in enumerate(items, self._next_id) if item.payload is not None]
        self._payloads += payloads
        self._report.payloads += len(payloads)
        self._report.added += len(items)
        self._next_id += len(items)

    def _take_one(self, view: LogView, entry: Entry, payload: Buffer | None, lied: bool) -> None:
        self._is_plain = False
        if view.held(entry):
            self._take_known(view, entry, payload, lied=lied)
            return
        if lied:
            payload_state = PayloadState.SIZE_MISMATCH
        else:
            payload_state = PayloadState.ABSENT if payload is None else PayloadState.COMPLETE
        try:
            held = 0 if payload is None else entry.size
            state, proofs = view.add(entry, self._next_id, payload_state, held, self._area)
        except StoreFull as error:
            self._report.refused.append((entry.place, error))
            return
        if lied:
            view.invalidate_from(entry.seq)
        self._note([Received(entry, payload, lied)])
        self._report.waiting += state is State.WAITING
        self._report.forks += proofs

    def _mark(self, log: Log, *, is_new: bool) -> None:
        receiving = self._receiving
        if receiving is not None and log[0] not in receiving.own and (is_new or not receiving.only_new):
            note_received(self._db, log, receiving.clump, is_new=is_new)

    def _take_known(self, view: LogView, entry: Entry, payload: Buffer | None, *, lied: bool) -> None:
        self._report.known += 1
        if payload is None and not lied:
            return
        row = view.attach_payload(entry, lied=lied)
        if row is not None and payload is not None:
            self._payloads.append((row, payload))
            self._report.payloads += 1

    def finish(self) -> None:
        """Write the rows, marks and payloads that are still in memory."""
        for log, view in self._views.items():
            if view.greatest:  # Of other logs all entries were refused.
                view.flush()
                self._mark(log, is_new=view.is_new)
        write_payloads(self._database, self._payloads)
        if self._is_plain:
            LogView.keep(self._database, self._views)
