"""A part of a payload, without the rest: the beginning of a film, a page of a table.

A payload's hash is over all of it, so nobody can check a part. Therefore the bytes go to the caller and not to the
store. The entry has to be held, because its signature says how long the payload is.

Specification: docs/specs/intervals.md, "Immediate payloads".
"""

import asyncio

from culm.bamboo import Entry
from culm.intervals import Announced, Connection, Ended, EntryDropped, Event, Single, Started
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived

_ANSWERS = (Announced, Ended, EntryDropped, EntryReceived, PayloadFailed, PayloadReceived, Started)


class Peek:
    """One request for the bytes ``first`` to ``last`` (both included) of an entry's payload, inside a session.

    ``over`` is set when all have come, or the peer has ended its answer; ``data`` are those that came. ``is_wrong``:
    the whole payload came, and it is not the one that the entry names.
    """

    def __init__(self, entry: Entry, first: int, last: int) -> None:
        self.data = bytearray()
        self.over = asyncio.Event()
        self.is_wrong = False
        self._entry = entry
        self._first = first
        self._size = last - first + 1
        self._id: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all the bytes have come."""
        return len(self.data) == self._size

    def begin(self, connection: Connection) -> None:
        """Make the request, unless it was made before or the peer gives no credit yet."""
        if self._id is None and connection.ours.credit:
            interval = Single(self._entry.seq, 0, 0, own=self._entry.hash)
            self._id = connection.request(*self._entry.log, interval, payload_offset=self._first)

    def takes(self, event: Event, connection: Connection) -> bool:
        """Whether an event belongs to the request, which then takes it, and is cancelled once it has all."""
        if not isinstance(event, _ANSWERS) or event.id != self._id:
            return False
        if isinstance(event, PayloadReceived) and not self.over.is_set():
            self.data += event.data[: self._size - len(self.data)]
            if self.is_complete:
                self.over.set()
                if not event.complete:
                    connection.ours.cancel(event.id)
        elif isinstance(event, Ended | PayloadFailed):
            self.is_wrong |= isinstance(event, PayloadFailed)
            self.over.set()
        return True
