"""A library that reads from one file and writes to another, turned into an iterator.

The store takes a payload as an iterator of pieces, and gives one as an iterator. ``age`` instead takes two files, reads
from the one and writes to the other until it is done. To write everything to a file first would need the disk space
twice, and leave secret bytes on the disk.

So the library runs on a thread of its own, as a coroutine would: either the thread runs or the caller does, never both.
When the library reads, its thread waits until the caller has taken the next piece from the source; when it has written
enough, it waits until the caller wants more. So memory stays at a few pieces. The source is only touched by the
caller's thread, which is necessary because a connection to SQLite belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from culm.types import Buffer

_BATCH = 256 * 1024  # Bytes handed over at once. To change threads takes as long as to encrypt some kilobytes.
_ASK = b""  # From the library's thread in place of bytes: it wants to read.


class Reader(Protocol):
    """What the library reads from."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; none at the end."""


class Writer(Protocol):
    """What the library writes to."""

    def write(self, data: bytes, /) -> int:
        """Take all of the bytes; returns their number."""

    def flush(self) -> None:
        """Do nothing: bytes are handed over when there are enough."""


Work = Callable[[Reader, Writer], None]


class _Abandoned(Exception):
    """Raised where the library reads or writes, so that its thread ends."""


class _Ends:
    """The library's side: a file to read from and a file to write to."""

    def __init__(self) -> None:
        self.to_caller: SimpleQueue[bytes | None] = SimpleQueue()  # None: the work is done, or has failed
        self.to_library: SimpleQueue[bytes | None] = SimpleQueue()  # None: the caller wants no more
        self.failure: BaseException | None = None
        self._is_abandoned = False
        self._unread = b""
        self._at = 0
        self._written = bytearray()

    def _hand_over(self, data: bytes) -> bytes:
        """Let the caller run; what it answers."""
        if not self._is_abandoned:  # Nobody answers any more, and the library perhaps tries again.
            self.to_caller.put(data)
            answer = self.to_library.get()
            if answer is not None:
                return answer
            self._is_abandoned = True
        raise _Abandoned

    def read(self, size: int = -1, /) -> bytes:
        if self._at == len(self._unread):
            self._unread, self._at = self._hand_over(_ASK), 0
        end = len(self._unread) if size < 0 else min(self._at + size, len(self._unread))
        found, self._at = self._unread[self._at : end], end
        return found

    def write(self, data: bytes, /) -> int:
        self._written += data
        if len(self._written) >= _BATCH:
            self._send()
        return len(data)

    def flush(self) -> None:
        """Nothing is due: bytes go when there are enough, and at the end."""

    def _send(self) -> None:
        if self._written:
            data, self._written = bytes(self._written), bytearray()
            self._hand_over(data)

    def run(self, work: Work) -> None:
        try:
            self.to_library.get()
            work(self, self)
            self._send()
        except BaseException as error:  # noqa: BLE001 - a panic in Rust is a BaseException; the caller raises it
            self.failure = error
        finally:
            self.to_caller.put(None)


def pumped(
    source: Iterable[Buffer], work: Work, blame: Callable[[BaseException], BaseException] = lambda error: error
) -> Iterator[bytes]:
    """What ``work`` writes, in pieces, while it reads from ``source``.

    What the source raises is raised here. What ``work`` raises becomes the exception that ``blame`` makes of it. An
    iterator that is closed or dropped early ends the work, and its thread.
    """
    ends, pieces = _Ends(), iter(source)
    thread = Thread(target=ends.run, args=(work,), name="culm-sealing", daemon=True)
    thread.start()
    try:
        answer = b""
        while True:
            ends.to_library.put(answer)
            said = ends.to_caller.get()
            if said is None:
                break
            answer = b""
            if said == _ASK:
                answer = next((bytes(piece) for piece in pieces if len(piece)), b"")
            else:
                yield said
    finally:
        ends.to_library.put(None)
        thread.join()
    if ends.failure is not None:
        raise blame(ends.failure) from ends.failure
