"""A part of a payload, without the rest: the beginning of a film, a page of a table.

A payload's hash is over all of it, so nobody can check a part. Therefore the bytes go to the caller and not to the
store. The entry has to be held, because its signature says how long the payload is.

The caller takes piece by piece, as a player takes a film. When more than ``FULL_BYTES`` wait for it, the session gives
the peer no more credit. It goes on reading, because a peer whose bytes are not read takes us for dead.

Specification: docs/specs/intervals.md, "Immediate payloads".
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from culm.bamboo import Entry
from culm.intervals import Announced, Connection, Ended, EntryDropped, Event, Single, Started
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived

FULL_BYTES = 1024 * 1024
"""Bytes that wait for the caller while the peer still gets credit: a second or so of a film. What it may send by credit
that it has comes on top."""
_ANSWERS = (Announced, Ended, EntryDropped, EntryReceived, PayloadFailed, PayloadReceived, Started)


class Peek:
    """One request for the bytes ``first`` to ``last`` (both included) of an entry's payload, inside a session.

    ``over`` is set when all have come, or the peer has ended its answer; ``received`` counts those that came. ``quiet``
    is not set while more of the answer is on its way than was wanted: the peer has not ended it yet.
    ``is_wrong``: the whole payload came, and it is not the one that the entry names.
    """

    def __init__(self, entry: Entry, first: int, last: int) -> None:
        self.received = 0
        self.over = asyncio.Event()
        self.quiet = asyncio.Event()
        self.quiet.set()
        self.is_wrong = False
        self.has_ended = False  # The peer had its say: what has not come it does not have.
        self._entry = entry
        self._first = first
        self._size = last - first + 1
        self._id: int | None = None
        self._pieces: deque[bytes] = deque()
        self._waiting = 0  # Bytes in ``_pieces``.
        self._news = asyncio.Event()
        self.taken: Callable[[], None] = lambda: None  # Called when the caller has taken a piece.

    @property
    def is_complete(self) -> bool:
        """Whether all the bytes have come."""
        return self.received == self._size

    @property
    def is_full(self) -> bool:
        """Whether the caller has to take something before the peer gets more credit."""
        return self._waiting >= FULL_BYTES and not self.over.is_set()

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes that come, none of the pieces empty, until ``finish``."""
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._waiting -= len(piece)
                self.taken()
                yield piece
            if self.over.is_set():
                return
            self._news.clear()
            await self._news.wait()

    def finish(self) -> None:
        """Nothing more comes, or is wanted."""
        self.over.set()
        self._news.set()

    def begin(self, connection: Connection) -> None:
        """Make the request, unless it was made before or the peer gives no credit yet."""
        if self._id is None and connection.ours.credit:
            interval = Single(self._entry.seq, 0, 0, own=self._entry.hash)
            self._id = connection.request(*self._entry.log, interval, payload_offset=self._first)

    def takes(self, event: Event, connection: Connection) -> bool:
        """Whether an event belongs to the request, which then takes it, and is cancelled once it has all."""
        if not isinstance(event, _ANSWERS) or event.id != self._id:
            return False
        is_wrong = _is_wrong(event)
        if isinstance(event, PayloadReceived) and not (is_wrong or self.over.is_set()):
            self._take(bytes(event.data[: self._size - self.received]))
            if self.is_complete:
                self.finish()
                if not event.complete:
                    self.quiet.clear()
                    connection.ours.cancel(event.id)
        elif isinstance(event, Ended) or is_wrong:
            self.is_wrong |= is_wrong
            self.finish()
            self.quiet.set()
        return True

    def _take(self, piece: bytes) -> None:
        if piece:
            self.received += len(piece)
            self._waiting += len(piece)
            self._pieces.append(piece)
            self._news.set()


def _is_wrong(event: Event) -> bool:
    """Whether an event shows that the payload is not the one that its entry names."""
    if isinstance(event, PayloadReceived) and event.hasher is not None:
        return event.hasher.hash != event.entry.payload_hash
    return isinstance(event, PayloadFailed)
