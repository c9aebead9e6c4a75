"""Slips: the bytes of a row lie in a file, and Spark moves a row that says where.

Bytes that only pass through Spark are copied some eight times on their way from one worker to the next, and compressed
and sorted with their rows. Where all machines see one folder, a task writes the bytes of its rows into a file there,
and puts a *slip* into the cell, like a cloakroom that hands out a ticket for a coat::

    slip = FF FF FF FF, offset u64, size u64, path of the file

Numbers are little-endian. A cell without a slip holds a pack or findings. Those begin with how many records they have,
which is never 2^32 - 1, so the first four bytes tell the two apart. Short bytes stay in their cell.

Spark may run a task twice, or again after it failed. Each attempt makes a file of its own, because two attempts may
run at the same time. Only the rows of one attempt go on, and they name only that attempt's file.
"""

import os
import secrets
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

_MARK = b"\xff\xff\xff\xff"
_SLIP = struct.Struct("<4sQQ")
_SHORT = 4096  # Up to this many bytes stay in the cell: Spark copies them faster than the next step opens a file.


class Shelf(ExitStack):
    """Where a task puts the bytes of its rows: a new file in ``folder``, made with the first bytes that need it.

    With None there is no file, and all bytes stay in their cells. Bytes can be fetched before the end of the block,
    too, since ``put`` leaves nothing in a buffer.
    """

    def __init__(self, folder: Path | None) -> None:
        super().__init__()
        self._path = None if folder is None else folder / secrets.token_hex(8)
        self._file: BinaryIO | None = None

    def put(self, parts: Sequence[bytes | memoryview]) -> bytes:
        """The cell for these bytes, one part behind the other: the bytes themselves, or a slip."""
        size = sum(len(part) for part in parts)
        if self._path is None or size <= _SHORT:
            return b"".join(parts)
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.enter_context(self._path.open("xb"))
        at = self._file.tell()
        self._file.writelines(parts)
        self._file.flush()
        return _SLIP.pack(_MARK, at, size) + os.fsencode(self._path)


def fetched(cell: bytes) -> bytes:
    """The bytes that a cell holds, or that its slip leads to. ``OSError`` if the file is missing or too short."""
    if not cell.startswith(_MARK):
        return cell
    _, offset, size = _SLIP.unpack_from(cell)
    path = Path(os.fsdecode(cell[_SLIP.size :]))
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(size)
    if len(data) < size:
        raise OSError(f"{path}: the file is shorter than when it was written; was its folder changed?")
    return data
