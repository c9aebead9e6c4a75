"""What of a store's WAL file a power cut may take: the end of it, that is, what was not synced for sure.

What was already being copied into the database had been synced before; SQLite notes in the shared-memory file how far
that is. Where that file belongs to another WAL file, or a program was killed before it had filled it in, nobody knows.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HEADER, _FRAME_HEAD = 32, 24
_SALTS = slice(32, 40)  # of the WAL file that the shared-memory file is about
_BACKFILL_ATTEMPTED = 128  # where the shared-memory file says how many frames are being copied into the database


def wal_of(store: Path) -> Path:
    """The store's WAL file."""
    return store.with_name(store.name + "-wal")


def span(store: Path) -> tuple[int, int] | None:
    """From where to where the WAL file may be missing; None if there is nothing that may."""
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
