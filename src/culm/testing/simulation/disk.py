"""A host's disk: a folder with a store. It can be full, fail now and then, or be copied as it was at any instant.

A full disk is not pretended. While a call is made, the operating system refuses to let files grow beyond a limit
(``RLIMIT_FSIZE``), so that writes of SQLite and of payload files really fail, even in their middle.

A power cut or a kill is a copy of the files as they were at some instant (an ``Image``), from which the next life of
the host begins.
"""

import resource
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TypeVar

from culm.errors import StoreError

T = TypeVar("T")
Image = dict[str, bytes]
"""The contents of a disk's files, by their paths in its folder. SQLite's shared-memory file is left out: it does not
outlive the processes that use it."""

STORE = "store.db"
_WAL = STORE + "-wal"
_SHARED_MEMORY = STORE + "-shm"
_HEADER, _FRAME_HEAD = 32, 24  # Bytes of a WAL file's header, and of the one in front of each page in it.
_FRAME = 4096 + _FRAME_HEAD
_SALTS = slice(32, 40)  # In the shared-memory file: two numbers that name the WAL file which it is about.
_BACKFILL_ATTEMPTED = 128  # There: how many frames have been, or are being, copied into the database.


class Disk:
    """A folder that behaves like a bad disk.

    ``room``: bytes that a file may have at most, None: any. ``flaws``: the probability that writes of a call fail.
    ``hurt`` is called with the name of the error when a call has failed.
    """

    def __init__(self, folder: Path, random: Random, hurt: Callable[[str], None]) -> None:
        self.folder = folder
        self.room: int | None = None
        self.flaws = 0.0
        self.was_hurt = False  # Whether any call has failed.
        self._random = random
        self._hurt = hurt
        self._last_words: Callable[[Image], None] | None = None
        self._safe: bytes | None = None  # The WAL file as it was when all of it was known to be synced.

    @property
    def store(self) -> Path:
        """The store's file."""
        return self.folder / STORE

    # -- calls -------------------------------------------------------------------------------------------------

    def perform(self, call: Callable[[], T]) -> T:
        """Make a call that may use the disk, with the limits that go now."""
        limit = self.room
        if limit is None and self.flaws and self._random.random() < self.flaws:
            limit = self.written + self._random.choice((0, self._random.randrange(20_000)))
        if self._last_words is not None:
            return self._die_in(call, limit)
        return self._limited(call, limit)

    def _limited(self, call: Callable[[], T], limit: int | None) -> T:
        if limit is None:
            return call()
        with _files_up_to(limit):
            try:
                return call()
            except (StoreError, OSError, sqlite3.Error) as error:
                self.was_hurt = True
                self._hurt(type(error).__name__)
                raise

    @property
    def written(self) -> int:
        """The size of the WAL file in bytes. Every change makes it grow, so a limit near it soon takes effect."""
        path = self.folder / _WAL
        return path.stat().st_size if path.exists() else 0

    def fill(self) -> None:
        """Leave room for a few pages, or for none."""
        self.room = self.written + self._random.choice((0, 0, 3000, 10_000, 40_000))

    # -- as it is at an instant --------------------------------------------------------------------------------

    def image(self) -> Image:
        """All files as they are now."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            if path.is_file() and name != _SHARED_MEMORY:
                found[name] = path.read_bytes()
        return found

    def die_within_a_write(self, last_words: Callable[[Image], None]) -> None:
        """Call ``last_words`` with the disk as it looks in the middle of the next call that changes it."""
        self._last_words = last_words

    def live_on(self) -> None:
        """Take back ``die_within_a_write``."""
        self._last_words = None

    def _die_in(self, call: Callable[[], T], limit: int | None) -> T:
        before = self.image()
        try:
            return self._limited(call, limit)
        finally:
            after = self.image()
            if after != before and self._last_words is not None:
                last_words, self._last_words = self._last_words, None
                last_words(_in_between(before, after, self._random))

    def everything_is_safe(self) -> None:
        """Note that all that was written has been synced, so that a power cut takes no byte of it away."""
        path = self.folder / _WAL
        self._safe = path.read_bytes() if path.exists() else b""

    def image_after_power_cut(self) -> Image:
        """All files as a power cut may leave them: the end of the WAL file may be missing, if it was not synced."""
        image, limits = self.image(), span(self.store)
        wal, safe = image.get(_WAL, b""), self._safe
        if safe is not None and limits is not None and wal[: len(safe)] == safe:
            image[_WAL] = wal[: self._random.randint(min(max(limits[0], len(safe)), len(wal)), len(wal))]
        return image


def _in_between(before: Image, after: Image, random: Random) -> Image:
    """The files at some instant of a call that has changed them.

    The WAL file is written from its beginning on, so at that instant it is new up to some byte and old behind it.
    Payload files are made before the transaction that names them, and removed after the one that drops them is on the
    disk. So all files of both states are there in between.
    """
    old, new = before.get(_WAL, b""), after.get(_WAL, b"")
    if before.get(STORE) != after.get(STORE) or old == new:
        return random.choice((before, after))
    start = next((at for at in range(0, len(new), 64) if old[at : at + 64] != new[at : at + 64]), 0)
    cut = random.randint(start, len(new))
    if random.random() < 0.3:  # A cut exactly between two frames is a case of its own, and rare by chance.
        cut = min(len(new), _HEADER + (cut - _HEADER) // _FRAME * _FRAME) if cut > _HEADER else 0
    return before | after | {_WAL: new[:cut] + old[cut:]}


def lay_out(folder: Path, image: Image) -> None:
    """Write the files of an image into a folder."""
    for name, data in image.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@contextmanager
def _files_up_to(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# -- the WAL file ----------------------------------------------------------------------------------------------------


def wal_of(store: Path) -> Path:
    """The store's WAL file."""
    return store.with_name(store.name + "-wal")


def span(store: Path) -> tuple[int, int] | None:
    """The offsets between which the WAL file may end after a power cut; None if nothing may be missing, or is known.

    A test must not take away what SQLite knows to be on the disk, because then it would find faults that cannot happen.
    SQLite syncs the WAL before it copies frames into the database, and notes in the shared-memory file how far copying
    has come. So everything up to there is safe, and the rest may be missing. If the shared-memory file belongs to
    another WAL file, or a killed program had not filled it in, nothing is known.
    """
    try:
        wal = wal_of(store).read_bytes()
    except FileNotFoundError:
        return None
    if len(wal) < _HEADER + _FRAME_HEAD:
        return None
    page_size = int.from_bytes(wal[8:12], "big")
    salts = wal[16:24]
    end = _HEADER
    while wal[end + 8 : end + 16] == salts and end + _FRAME_HEAD + page_size <= len(wal):
        end += _FRAME_HEAD + page_size
    try:
        shared = store.with_name(store.name + "-shm").read_bytes()
        (copied,) = struct.unpack_from("=I", shared, _BACKFILL_ATTEMPTED)
    except (FileNotFoundError, struct.error):
        return None
    if shared[_SALTS] != salts:
        return None
    first = _HEADER + copied * (_FRAME_HEAD + page_size)
    return (first, end) if first < end else None
