"""The folder beside the store's file that large payloads lie in, each a file of its own.

The database says which files there are (``payload_files``), and how much of each counts. A file is only ever written
inside a writing transaction, behind the bytes that count, so that whatever happens, nothing that the database speaks of
changes: what a transaction left behind that was undone is written over, or swept up.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from culm.errors import StoreDamaged, StoreError, StoreFull
from culm.staging import sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from culm.store.interface import Bytes

_NAME_BYTES = 16
_NAME = re.compile("[0-9a-f]{32}")


class Folder:
    """Files with payloads, by their names. The folder is made when the first is written."""

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(store.name + "-payloads")

    def create(self) -> str:
        """Begin a new file; its name."""
        name = secrets.token_hex(_NAME_BYTES)
        with self._translated_errors(name):
            if not self.path.is_dir():
                self.path.mkdir(exist_ok=True)
                sync(self.path.absolute().parent)
            os.close(os.open(self.path / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        return name

    def write(self, name: str, offset: int, data: Bytes) -> None:
        """Write bytes where they belong."""
        with self._translated_errors(name), self._opened(name, os.O_WRONLY) as file:
            view = memoryview(data)
            while view:
                written = os.pwrite(file, view, offset)
                view, offset = view[written:], offset + written

    def sync(self, name: str) -> None:
        """Bring a file to the disk, and that it is there. May be called in any thread."""
        with suppress(FileNotFoundError), self._translated_errors(name):  # gone: dropped meanwhile
            sync(self._file(name))
            sync(self.path)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Bytes of a file; fewer at its end, none if it is gone."""
        with suppress(FileNotFoundError), self._translated_errors(name), self._opened(name, os.O_RDONLY) as file:
            return os.pread(file, size, offset)
        return b""

    def size(self, name: str) -> int:
        """The bytes in a file, counted or not; 0 if it is gone."""
        with suppress(FileNotFoundError), self._translated_errors(name):
            return self._file(name).stat().st_size
        return 0

    def remove(self, names: Iterable[str]) -> None:
        """Delete files. One that cannot be deleted now is swept up later; what is not one of ours is left alone."""
        for name in names:
            with suppress(OSError, StoreDamaged):
                self._file(name).unlink()

    def names(self) -> list[str]:
        """All files there are."""
        try:
            return [path.name for path in self.path.iterdir() if _NAME.fullmatch(path.name)]
        except OSError:
            return []

    def _file(self, name: str) -> Path:
        """Where a file is. A damaged database, or one that somebody made, may name anything: only ours is taken."""
        if _NAME.fullmatch(str(name)) is None:
            raise StoreDamaged(f"{self.path}: {name!r} is not the name of a file with a payload")
        return self.path / name

    @contextmanager
    def _opened(self, name: str, flags: int) -> Iterator[int]:
        file = os.open(self._file(name), flags)
        try:
            yield file
        finally:
            os.close(file)

    @contextmanager
    def _translated_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreError
            msg = f"{self.path / name}: {error.strerror}"
            raise kind(msg) from error
