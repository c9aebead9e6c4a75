"""Bytes that lie in a file, while Spark moves rows that say where.

Bytes that only pass through Spark are copied some eight times on their way from one worker to the next, and compressed
and sorted with their rows. Where all machines see one folder, a task puts the bytes of its rows into a file there, and
into the cell a *slip*::

    slip = FF FF FF FF, offset u64, size u64, path of the file

Numbers are little-endian. Packs and findings, which are what cells hold otherwise, begin with how many records they
have, and never have that many. What is short stays in its cell.

Every task that begins makes a file of its own, also one that Spark runs twice or again: what the rows name that Spark
goes on with is what counts.
"""

from __future__ import annotations

import os
import secrets
import struct
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARK = b"\xff\xff\xff\xff"
_SLIP = struct.Struct("<4sQQ")
_SHORT = 4096  # bytes that cost Spark less than opening a file would cost here


class Shelf(AbstractContextManager["Shelf"]):
    """Where a task puts the bytes of its rows: a new file in ``folder``, or with None the cells themselves."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / secrets.token_hex(8)
        self._file: BinaryIO | None = None
        self._size = 0

    def __exit__(self, *_: object) -> None:
        """Close the file. What was put into it can be fetched before, too."""
        if self._file is not None:
            self._file.close()

    def put(self, parts: Sequence[bytes | memoryview]) -> bytes:
        """What stands for these bytes, one part behind the other, in a cell: they themselves, or a slip."""
        size = sum(len(part) for part in parts)
        if self._path is None or size <= _SHORT:
            return b"".join(parts)
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("xb", buffering=0)
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[self._file.write(rest) :]
        self._size += size
        return _SLIP.pack(_MARK, self._size - size, size) + os.fsencode(self._path)


def fetched(cell: bytes) -> bytes:
    """The bytes that a cell holds, or stands for; ``OSError`` if they are not where its slip says."""
    if not cell.startswith(_MARK):
        return cell
    _, offset, size = _SLIP.unpack_from(cell)
    path = Path(os.fsdecode(cell[_SLIP.size :]))
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        data = file.read(size)
        while len(data) < size:
            more = file.read(size - len(data))
            if not more:
                raise OSError(f"{path}: ends before what was put there")
            data += more
    return data
