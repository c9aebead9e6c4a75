"""The bytes of payloads: small ones in the database, large ones in files beside it.

Bytes in the database are written twice: into the WAL file, and from there into the database. For a payload of some
hundred megabytes this also blocks every other writer meanwhile. A payload of more than ``LARGE_BYTES`` is therefore a
file: it is written once, and can be brought to the disk while the store serves others. Small payloads stay in the
database, because a file for each would cost more than it saves: a directory entry, a sync, and a look-up to read it.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from zlib import crc32 as zlib_crc32

from culm.bamboo import PayloadHasher
from culm.errors import StoreDamaged
from culm.native import core
from culm.store.database import Database, translated_errors
from culm.store.rows import COUNT, TEXT, all_rows, insert_rows
from culm.store.schema import PayloadState
from culm.types import Buffer

PIECE_BYTES = 64 * 1024  # the most that is read or stored at once, so that no payload is in memory as a whole
LARGE_BYTES = 1024 * 1024  # larger payloads are files: from here on writing twice costs more than opening a file
SUMMED_BYTES = LARGE_BYTES
"""The bytes of a large payload that have one checksum. Smaller payloads need none: their hash covers as few bytes."""
SUM_BYTES = 4
"""Of a checksum."""


def _crc32(data: bytes, before: int, start: int, end: int) -> int:
    return zlib_crc32(memoryview(data)[start:end], before)


crc32: Callable[[bytes, int, int, int], int] = core.crc32 if core else _crc32
"""The checksum of a part of some bytes, from a start up to an end, behind others that have one; 0: it is the first."""


# -- reading -----------------------------------------------------------------------------------------------------


def read_pieces(database: Database, entry_id: int, offset: int = 0) -> Iterator[bytes]:
    """The bytes held of an entry's payload from ``offset`` on, in pieces of at most ``PIECE_BYTES``.

    They are as the disk gives them. ``culm.store.payloads.checked`` compares them.
    """
    while piece := read_slice(database, entry_id, offset, PIECE_BYTES):
        offset += len(piece)
        yield piece


def read_slice(database: Database, entry_id: int, offset: int, size: int) -> bytes:
    """At most ``size`` bytes held of an entry's payload from ``offset`` on; none only if there are none."""
    rows = database.read(
        "SELECT at, CAST(piece AS BLOB) FROM payloads WHERE entry = ? AND at <= ? ORDER BY at DESC LIMIT 1",
        (entry_id, offset),
    )
    if rows:  # checked by hand, because this is where sending spends its time: a BLOB, or nothing, comes of any CAST
        at, piece = rows[0]
        if piece is None:  # happens only in a damaged store: there are no bytes here
            return b""
        if at == offset and len(piece) <= size:
            return bytes(piece)
        with translated_errors(database.path):
            COUNT.check_one(at)
        return bytes(piece[offset - at :][:size])
    files = database.read(
        "SELECT name, payload_held FROM payload_files JOIN entries ON id = entry WHERE entry = ?",
        (entry_id,),
        TEXT,
        COUNT,
    )
    if not files or files[0][1] <= offset:
        return b""
    name, held = files[0]
    return database.folder.read(name, offset, min(size, held - offset))


def hash_held(
    database: Database, entry_id: int, most: int | None = None, sums: "PieceSums | None" = None
) -> PayloadHasher:
    """The hash of the bytes held of a payload, or of the first ``most`` of them; ``sums`` takes the same bytes."""
    hasher = PayloadHasher()
    for held in read_pieces(database, entry_id):
        piece = held if most is None else held[: most - hasher.size]
        hasher.update(piece)
        if sums is not None:
            sums.update(piece)
        if hasher.size == most:
            break
    return hasher


def file_of(database: Database, entry_id: int) -> str | None:
    """The name of the file that holds a payload or the beginning of it, None if there is no such file."""
    rows = database.read("SELECT name FROM payload_files WHERE entry = ?", (entry_id,), TEXT)
    return str(rows[0][0]) if rows else None


class PieceSums:
    """The checksums of a payload that comes in pieces: CRC-32 of each ``SUMMED_BYTES``."""

    def __init__(self) -> None:
        self._closed = bytearray()
        self._open = 0
        self._size = 0

    def update(self, piece: Buffer) -> None:
        """Add the next bytes."""
        at = 0
        while at < len(piece):
            end = min(len(piece), at + SUMMED_BYTES - self._size % SUMMED_BYTES)
            if type(piece) is bytes:
                self._open = crc32(piece, self._open, at, end)
            else:  # Copied a part at a time: it may be as large as the payload.
                self._open = crc32(bytes(memoryview(piece)[at:end]), self._open, 0, end - at)
            self._size += end - at
            at = end
            if self._size % SUMMED_BYTES == 0:
                self._closed += self._open.to_bytes(SUM_BYTES)
                self._open = 0

    @property
    def encoded(self) -> bytes:
        """All checksums, as ``payload_files`` has them."""
        return bytes(self._closed) + (self._open.to_bytes(SUM_BYTES) if self._size % SUMMED_BYTES else b"")


# -- writing: inside a transaction -------------------------------------------------------------------------------


def write_pieces(connection: sqlite3.Connection, entry_id: int, offset: int, data: Buffer) -> None:
    """Store ``data`` in the database as the payload's bytes from ``offset`` on."""
    view = memoryview(data)
    connection.executemany(
        "INSERT INTO payloads VALUES (?, ?, ?)",
        ((entry_id, offset + at, view[at : at + PIECE_BYTES]) for at in range(0, len(view), PIECE_BYTES)),
    )


def write_file(database: Database, entry_id: int, offset: int, *parts: Buffer) -> str:
    """Store ``parts``, one behind the other, in the payload's file as its bytes from ``offset`` on; the file's name."""
    name = file_of(database, entry_id)
    if name is None:
        name = database.folder.create()
        database.connection.execute("INSERT INTO payload_files (entry, name) VALUES (?, ?)", (entry_id, name))
    write_into(database, name, offset, *parts)
    return name


def write_into(database: Database, name: str, offset: int, *parts: Buffer) -> None:
    """As ``write_file``, into a file that the caller found to be the payload's within the same transaction."""
    try:
        database.folder.write(name, offset, *parts)
    except FileNotFoundError as error:
        raise StoreDamaged(f"{database.folder.path / name}: the payload's file is gone") from error


def keep_sums(connection: sqlite3.Connection, entry_id: int, sums: bytes) -> None:
    """Store the checksums of a large payload whose hash was compared."""
    connection.execute("UPDATE payload_files SET sums = ? WHERE entry = ?", (sums, entry_id))


def write_payloads(database: Database, payloads: list[tuple[int, Buffer]]) -> None:
    """Store whole payloads, each with its entry's row id. Files are on the disk afterwards."""
    small = [(entry_id, 0, data) for entry_id, data in payloads if 0 < len(data) <= PIECE_BYTES]
    insert_rows(database.connection, "payloads", small)
    for entry_id, data in payloads:
        if len(data) > LARGE_BYTES:
            database.folder.sync(write_file(database, entry_id, 0, data))
            sums = PieceSums()
            sums.update(data)
            keep_sums(database.connection, entry_id, sums.encoded)
        elif len(data) > PIECE_BYTES:
            write_pieces(database.connection, entry_id, 0, data)


def write_stream(database: Database, entry_id: int, payload: Iterable[Buffer]) -> PayloadHasher:
    """Store a whole payload whose size is only known at its end, as ``write_payloads`` does; its hash."""
    hasher, sums = PayloadHasher(), PieceSums()
    name: str | None = None
    start = bytearray()
    for piece in payload:
        if name is None:
            start += piece
            if len(start) > LARGE_BYTES:
                name = write_file(database, entry_id, 0, start)
        else:
            database.folder.write(name, hasher.size, piece)
        hasher.update(piece)
        sums.update(piece)
    if name is None:
        write_payloads(database, [(entry_id, start)])
    else:
        database.folder.sync(name)
        keep_sums(database.connection, entry_id, sums.encoded)
    return hasher


def delete(connection: sqlite3.Connection, entry_id: int) -> None:
    """Delete all bytes held of a payload. A trigger notes its file, which is deleted after the commit."""
    connection.execute("DELETE FROM payloads WHERE entry = ?", (entry_id,))
    connection.execute("DELETE FROM payload_files WHERE entry = ?", (entry_id,))


def drop(connection: sqlite3.Connection, entry_id: int, state: PayloadState) -> None:
    """Delete all bytes held of a payload; ``state`` says why there are none."""
    delete(connection, entry_id)
    connection.execute("UPDATE entries SET payload_state = ?, payload_held = 0 WHERE id = ?", (state, entry_id))


def sweep(database: Database) -> int:
    """Delete files that a killed process or a power cut left behind: the database does not know them. How many.

    The transaction keeps other writers out, and a writer names its files in the database before it lets others in. So
    no file is deleted that somebody is writing.
    """
    found = database.folder.names()
    if not found:
        return 0
    with database.transaction() as connection:
        known = {name for (name,) in all_rows(connection.execute("SELECT name FROM payload_files"), TEXT)}
        left = [name for name in found if name not in known]
        database.folder.remove(left)
    return len(left)
