"""The folder beside the store's file. It holds large payloads, each in a file of its own.

The database says which files belong to payloads (``payload_files``), and how many bytes of each count. A file is only
written inside a writing transaction, and only after the bytes that count. The bytes that count therefore never change,
whatever fails. If the transaction is rolled back, the files that it began are deleted, and what it wrote to others is
overwritten by the next attempt. What a killed process began is swept up when the store is opened next.
"""

import errno
import os
import re
import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from culm.errors import StoreDamaged, StoreError, StoreFull
from culm.staging import sync
from culm.types import Buffer

_NAME_BYTES = 16  # random, so two processes never choose one name, and a file's name is never used again
_MOST_PARTS = 16  # In one call: so many every system takes. They are large in bulk.
_NAME = re.compile("[0-9a-f]{32}")


class Folder:
    """Files with payloads, by their names. The folder is made when the first file is."""

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(store.name + "-payloads")
        self._begun: list[str] = []  # Files that the transaction under way has made.

    def create(self) -> str:
        """Make an empty file; its name."""
        name = secrets.token_hex(_NAME_BYTES)
        with self._translated_errors(name):
            if not self.path.is_dir():
                self.path.mkdir(exist_ok=True)
                sync(self.path.absolute().parent)
            (self.path / name).touch(exist_ok=False)
        self._begun.append(name)
        return name

    def end_transaction(self, *, undone: bool) -> None:
        """The transaction is over. If it was undone, no row names the files that it began: delete them."""
        if undone:
            self.remove(self._begun)
        self._begun.clear()

    def write(self, name: str, offset: int, *parts: Buffer) -> None:
        """Write bytes, one part behind the other, from ``offset`` on; ``FileNotFoundError`` if the file is gone."""
        with self._translated_errors(name), self._file(name).open("r+b", 0) as file:
            views = deque(memoryview(part) for part in parts if part)
            while views:  # the system may write less than it is given
                written = os.pwritev(file.fileno(), list(islice(views, _MOST_PARTS)), offset)
                offset += written
                while views and written >= len(views[0]):
                    written -= len(views.popleft())
                if written:
                    views[0] = views[0][written:]

    def sync(self, name: str) -> None:
        """Bring a file and its name to the disk. May be called in any thread, because that takes long."""
        with suppress(FileNotFoundError), self._translated_errors(name):  # the payload was dropped meanwhile
            sync(self._file(name))
            sync(self.path)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Bytes of a file; fewer at its end, none if it is gone or the disk cannot read them."""
        try:
            with self._translated_errors(name), self._file(name).open("rb", 0) as file:
                return os.pread(file.fileno(), size, offset)
        except FileNotFoundError:
            return b""
        except StoreError as error:
            # A sector that cannot be read is damage like any other: the payload is missing then, and comes again.
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EIO:
                return b""
            raise

    def size(self, name: str) -> int:
        """The bytes in a file, counted or not; 0 if it is gone."""
        with suppress(FileNotFoundError), self._translated_errors(name):
            return self._file(name).stat().st_size
        return 0

    def remove(self, names: Iterable[str]) -> None:
        """Delete files. One that cannot be deleted now is swept up later. Other names than ours are left alone."""
        for name in names:
            with suppress(OSError, StoreDamaged):
                self._file(name).unlink()

    def names(self) -> list[str]:
        """The names of all files with payloads, whether or not the database knows them."""
        try:
            return [path.name for path in self.path.iterdir() if _NAME.fullmatch(path.name)]
        except OSError:
            return []

    def _file(self, name: str) -> Path:
        """Where a file is; ``StoreDamaged`` unless the name is of our form.

        A damaged or forged database may hold any name, and a path such as ``../precious`` must not be followed.
        """
        if _NAME.fullmatch(str(name)) is None:
            raise StoreDamaged(f"{self.path}: {name!r} is not the name of a file with a payload")
        return self.path / name

    @contextmanager
    def _translated_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreError
            raise kind(f"{self.path / name}: {error.strerror}") from error
