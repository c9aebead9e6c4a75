"""Which part of a store's WAL file a power cut may take away: its end, as far as it was not synced for sure.

To test power cuts, a test truncates the WAL file. It must not take away what SQLite knows to be on the disk, because
then it would find faults that cannot happen. SQLite syncs the WAL before it copies frames into the database, and notes
in the shared-memory file how far copying has come. So everything up to there is safe, and the rest may be missing. If
the shared-memory file belongs to another WAL file, or a killed program had not filled it in, nothing is known.
"""

import struct
from pathlib import Path

_HEADER, _FRAME_HEAD = 32, 24  # Bytes of the WAL file's header, and of the one in front of each page.
_SALTS = slice(32, 40)  # In the shared-memory file: two numbers that name the WAL file which it is about.
_BACKFILL_ATTEMPTED = 128  # There: how many frames have been, or are being, copied into the database.


def wal_of(store: Path) -> Path:
    """The store's WAL file."""
    return store.with_name(store.name + "-wal")


def span(store: Path) -> tuple[int, int] | None:
    """The offsets between which the WAL file may end after a power cut; None if nothing may be missing, or is known."""
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
