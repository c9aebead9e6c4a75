"""Hashing payloads piece by piece (docs/specs/bamboo.md, "Payloads").

A large payload is never in memory as a whole, so it is hashed piece by piece. BLAKE2b takes one or two seconds for a
gigabyte (``make bench BENCH_ARGS=intervals`` measures it), longer than anything else that happens to the bytes between
a socket and the disk, and it does not need the interpreter's lock. So a thread hashes large pieces, one thread for the
process, while the thread that gave them goes on reading.

The hash is always that of all pieces. If the thread has not come to some of them when the hash is asked for, the caller
hashes these itself. So it does not wait for other payloads, nor for a thread that does not exist in a forked process.
The cost belongs to the thread that gave the pieces: ``handed_over`` counts them, so that a peer pays for its bytes
(``culm.node.sharing.turns``).
"""

import os
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from queue import SimpleQueue
from threading import Lock, Thread, local

from culm.bamboo.entry import Entry
from culm.bamboo.verification import check_payload_digest
from culm.bamboo.yamf import YAMF_PREFIX
from culm.native import core

_LARGE = 32 * 1024  # Bytes of a piece from which on handing it over costs less than is won: a quarter of its hashing.
_MOST_WAITING = 2 * 1024 * 1024  # Bytes of a payload that may wait for the thread: what comes beyond is hashed at once.
_PART = 1024 * 1024  # Bytes of a piece that are copied at once.


class _Blake2b:
    """BLAKE2b-512 where there is no core, with the methods of the core's."""

    def __init__(self) -> None:
        self._state = blake2b()
        self.digest = self._state.digest

    def update(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            self._state.update(piece)


class PayloadHasher:
    """Hashes a payload piece by piece, so that a large one is never held in memory. ``size``: bytes so far.

    Pieces are given by one thread at a time.
    """

    __slots__ = ("_hashed", "_later", "_lock", "_state", "_waiting", "size")

    def __init__(self) -> None:
        self._state = core.Blake2b() if core else _Blake2b()
        self._waiting: deque[bytes] = deque()  # Pieces that come next.
        self._lock = Lock()  # Held by the thread that hashes just now.
        self._hashed = 0  # Bytes that were hashed later.
        self._later = 0  # Bytes that were given for that: a number of its own, so that no two threads change one.
        self.size = 0

    def update(self, piece: bytes | bytearray | memoryview) -> None:
        """Add the next piece."""
        if type(piece) is bytes:
            self._take(piece)
            return
        with memoryview(piece) as view:  # It can change before it is hashed, so it is copied, a part at a time.
            for at in range(0, len(view), _PART):
                self._take(bytes(view[at : at + _PART]))

    def _take(self, piece: bytes) -> None:
        self.size += len(piece)
        waiting = self._later - self._hashed
        if len(piece) >= _LARGE and waiting + len(piece) <= _MOST_WAITING:
            self._later += len(piece)
            self._waiting.append(piece)
            _handed.size += len(piece)
            _background.do(self._catch_up)
        else:
            self._catch_up()
            self._state.update([piece])

    @property
    def hash(self) -> bytes:
        """The YAMF-hash (66 bytes) of all pieces so far."""
        self._catch_up()
        return YAMF_PREFIX + self._state.digest()

    def check(self, entry: Entry) -> None:
        """Raise as ``check_payload`` does, for all pieces so far."""
        check_payload_digest(entry, self.hash, self.size)

    def _catch_up(self) -> None:
        """Hash what waits; if another thread does so just now, wait for its end. What comes meanwhile waits on."""
        with self._lock:
            pieces = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if pieces:  # Otherwise the thread that gives them may be hashing one just now.
                # All together, because after each call the interpreter's lock has to be waited for.
                self._state.update(pieces)
                self._hashed += sum(map(len, pieces))


class _Handed(local):
    """Of each thread, the bytes that it has handed over."""

    size = 0


_handed = _Handed()


def handed_over() -> int:
    """The bytes that the calling thread has handed to the hashing thread so far, to count what its work costs."""
    return _handed.size


class _Background:
    """The thread. It is started when there is something to do, and ends with the process; a fork has its own.

    A fork waits until the thread has finished what it is just doing: it hashes what waits, at most. Otherwise the new
    process would have a payload that is half hashed, and a lock that no thread releases.
    """

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(before=self._pause, after_in_parent=self._go_on, after_in_child=self._begin)

    def _begin(self) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: Thread | None = None
        self._starting = Lock()
        self._working = Lock()

    def _pause(self) -> None:
        self._working.acquire()

    def _go_on(self) -> None:
        self._working.release()

    def do(self, work: Callable[[], None]) -> None:
        """Have something done soon, in the order in which it was given."""
        self._work.put(work)
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = Thread(target=self._run, name="culm-hash", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        while True:
            work = self._work.get()
            with self._working:
                work()
            del work  # Otherwise the last payload's pieces would stay until the next payload.


_background = _Background()
