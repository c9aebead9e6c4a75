"""A host's disk: a folder with the store, that can be full, have bad moments, and be found as it was at any instant.

That the disk is full, or that a write fails in its middle, is real: the operating system refuses to let files grow
beyond a limit (``RLIMIT_FSIZE``) while a call is made, and SQLite and the payloads' files have to cope with it.
"""

from __future__ import annotations

import resource
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from culm.errors import StoreError
from culm.testing.wal import span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from random import Random

T = TypeVar("T")
Image = dict[str, bytes]
"""A disk's files, by their places in its folder."""

STORE = "store.db"
_WAL = STORE + "-wal"
_SHARED_MEMORY = STORE + "-shm"
_HEADER = 32  # bytes of a WAL file's header
_FRAME = 4096 + 24  # and of a frame


class Disk:
    """A folder. ``room`` is how large a file may become, None for any; ``flaws`` how likely a call's writes fail.

    ``hurt`` is called when a call had to do with little room, or failed for it.
    """

    def __init__(self, folder: Path, random: Random, hurt: Callable[[str], None]) -> None:
        self.folder = folder
        self.room: int | None = None
        self.flaws = 0.0
        self.was_hurt = False  # a call has failed for little room, or not been able to write
        self._random = random
        self._hurt = hurt
        self._last_words: Callable[[Image], None] | None = None
        self._safe: bytes | None = None  # the WAL file when everything was on the disk for sure

    @property
    def store(self) -> Path:
        """The store's file."""
        return self.folder / STORE

    # -- calls -------------------------------------------------------------------------------------------------

    def perform(self, call: Callable[[], T]) -> T:
        """Make a call that may use the disk."""
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
        """The size of the WAL file: what every change makes grow."""
        path = self.folder / _WAL
        return path.stat().st_size if path.exists() else 0

    def fill(self) -> None:
        """Leave little room, or none."""
        self.room = self.written + self._random.choice((0, 0, 3000, 10_000, 40_000))

    # -- as it is at an instant --------------------------------------------------------------------------------

    def image(self) -> Image:
        """All files as they are."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            if path.is_file() and name != _SHARED_MEMORY:
                found[name] = path.read_bytes()
        return found

    def die_within_a_write(self, last_words: Callable[[Image], None]) -> None:
        """Tell how the disk looks in the middle of the next call that changes it."""
        self._last_words = last_words

    def live_on(self) -> None:
        """Do not tell any more."""
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
        """All that was written is on the disk for sure: a power cut takes nothing of it."""
        path = self.folder / _WAL
        self._safe = path.read_bytes() if path.exists() else b""

    def image_after_power_cut(self) -> Image:
        """All files, of what was written last perhaps only a part."""
        image, limits = self.image(), span(self.store)
        wal, safe = image.get(_WAL, b""), self._safe
        if safe is not None and limits is not None and wal[: len(safe)] == safe:
            image[_WAL] = wal[: self._random.randint(min(max(limits[0], len(safe)), len(wal)), len(wal))]
        return image


def _in_between(before: Image, after: Image, random: Random) -> Image:
    """The files at some instant of a call. What is written to the WAL file is written from its beginning on.

    Payload files are removed when the transaction that drops them is on the disk, and made before the one that names
    them: within it all of them are there.
    """
    old, new = before.get(_WAL, b""), after.get(_WAL, b"")
    if before.get(STORE) != after.get(STORE) or old == new:
        return random.choice((before, after))
    start = next((at for at in range(0, len(new), 64) if old[at : at + 64] != new[at : at + 64]), 0)
    cut = random.randint(start, len(new))
    if random.random() < 0.3:  # between two frames
        cut = min(len(new), _HEADER + (cut - _HEADER) // _FRAME * _FRAME) if cut > _HEADER else 0
    return before | after | {_WAL: new[:cut] + old[cut:]}


def lay_out(folder: Path, image: Image) -> None:
    """Make the files of an image."""
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
