"""The bytes of payloads: small ones as pieces in the database, large ones as files in the folder beside it.

A payload of more than ``LARGE_BYTES`` is a file: its bytes are written once, not into the WAL file and from there into
the database, and they are brought to the disk while the store serves others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.bamboo import PayloadHasher
from culm.errors import StoreDamaged
from culm.store.schema import PayloadState

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from culm.store.database import Database
    from culm.store.interface import Bytes

PIECE_BYTES = 64 * 1024  # payloads are stored, and read, in pieces of at most this size
LARGE_BYTES = 1024 * 1024  # payloads above this size are files


# -- reading -----------------------------------------------------------------------------------------------------


def read_pieces(database: Database, entry_id: int, offset: int = 0) -> Iterator[bytes]:
    """The bytes held of an entry's payload from ``offset`` on, in pieces of at most ``PIECE_BYTES``."""
    while piece := read_slice(database, entry_id, offset, PIECE_BYTES):
        offset += len(piece)
        yield piece


def read_complete(database: Database, entry_id: int, size: int, offset: int = 0) -> Iterator[bytes]:
    """The same of a payload of which all ``size`` bytes are there; ``StoreDamaged`` at the end if they are not.

    One that is being forgotten meanwhile ends early, and no harm is done.
    """
    reached = offset
    for piece in read_pieces(database, entry_id, offset):
        reached += len(piece)
        yield piece
    if reached != max(size, offset):
        rows = database.read("SELECT payload_state FROM entries WHERE id = ?", (entry_id,))
        if rows and rows[0][0] == PayloadState.COMPLETE:
            raise StoreDamaged(f"{database.path}: {reached} bytes of a payload are there in place of {size}")


def read_slice(database: Database, entry_id: int, offset: int, size: int) -> bytes:
    """Bytes held of an entry's payload from ``offset`` on: at most ``size``, none only if there are none."""
    rows = database.read(
        "SELECT at, CAST(piece AS BLOB) FROM payloads WHERE entry = ? AND at <= ? ORDER BY at DESC LIMIT 1",
        (entry_id, offset),
    )
    if rows:
        at, piece = rows[0]
        if piece is None:  # only damage does that: there are no bytes
            return b""
        return bytes(piece) if at == offset and len(piece) <= size else bytes(piece[offset - at :][:size])
    files = database.read(
        "SELECT name, payload_held FROM payload_files JOIN entries ON id = entry WHERE entry = ?", (entry_id,)
    )
    if not files or files[0][1] <= offset:
        return b""
    name, held = files[0]
    return database.folder.read(name, offset, min(size, held - offset))


def hash_held(database: Database, entry_id: int, most: int | None = None) -> PayloadHasher:
    """The hash of the bytes that are held of a payload, or of the first ``most`` of them."""
    hasher = PayloadHasher()
    for piece in read_pieces(database, entry_id):
        hasher.update(piece if most is None else piece[: most - hasher.size])
        if hasher.size == most:
            break
    return hasher


def file_of(database: Database, entry_id: int) -> str | None:
    """The name of the file that a payload is in, or the beginning of it; None if there is none."""
    rows = database.read("SELECT name FROM payload_files WHERE entry = ?", (entry_id,))
    return str(rows[0][0]) if rows else None


# -- writing: inside a transaction -------------------------------------------------------------------------------


def write_pieces(connection: sqlite3.Connection, entry_id: int, offset: int, data: Bytes) -> None:
    """Store ``data`` in the database as the payload's bytes from ``offset`` on."""
    view = memoryview(data)
    connection.executemany(
        "INSERT INTO payloads VALUES (?, ?, ?)",
        ((entry_id, offset + at, view[at : at + PIECE_BYTES]) for at in range(0, len(view), PIECE_BYTES)),
    )


def write_file(database: Database, entry_id: int, offset: int, data: Bytes) -> str:
    """Store ``data`` in the payload's file as its bytes from ``offset`` on; the file's name."""
    name = file_of(database, entry_id)
    if name is None:
        name = database.folder.create()
        database.connection.execute("INSERT INTO payload_files VALUES (?, ?)", (entry_id, name))
    try:
        database.folder.write(name, offset, data)
    except FileNotFoundError as error:
        msg = f"{database.folder.path / name}: the file with the payload is gone"
        raise StoreDamaged(msg) from error
    return name


def write_payloads(database: Database, payloads: list[tuple[int, Bytes]]) -> None:
    """Store whole payloads, each with its entry's row id; files are on the disk afterwards."""
    small = [(entry_id, 0, data) for entry_id, data in payloads if 0 < len(data) <= PIECE_BYTES]
    database.connection.executemany("INSERT INTO payloads VALUES (?, ?, ?)", small)
    for entry_id, data in payloads:
        if len(data) > LARGE_BYTES:
            database.folder.sync(write_file(database, entry_id, 0, data))
        elif len(data) > PIECE_BYTES:
            write_pieces(database.connection, entry_id, 0, data)


def write_stream(database: Database, entry_id: int, payload: Iterable[Bytes]) -> PayloadHasher:
    """Store a whole payload whose size shows at its end, as ``write_payloads`` does; its hash."""
    hasher = PayloadHasher()
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
    if name is None:
        write_payloads(database, [(entry_id, start)])
    else:
        database.folder.sync(name)
    return hasher


def delete(connection: sqlite3.Connection, entry_id: int) -> None:
    """Delete all bytes that are held of a payload; a file goes when the transaction has ended."""
    connection.execute("DELETE FROM payloads WHERE entry = ?", (entry_id,))
    connection.execute("DELETE FROM payload_files WHERE entry = ?", (entry_id,))


def drop(connection: sqlite3.Connection, entry_id: int, state: PayloadState) -> None:
    """Delete what is held of a payload, and note why."""
    delete(connection, entry_id)
    connection.execute("UPDATE entries SET payload_state = ?, payload_held = 0 WHERE id = ?", (state, entry_id))


def take_dropped(connection: sqlite3.Connection) -> list[str]:
    """The files that this transaction makes superfluous, to delete once it has ended."""
    names = [name for (name,) in connection.execute("SELECT name FROM dropped_files").fetchall()]
    if names:
        connection.execute("DELETE FROM dropped_files")
    return names


def sweep(database: Database) -> int:
    """Delete files that the database does not speak of: left behind when a process or the power failed. How many."""
    found = database.folder.names()
    if not found:
        return 0
    with database.transaction() as connection:  # so that no file is just being written
        known = {name for (name,) in connection.execute("SELECT name FROM payload_files").fetchall()}
        left = [name for name in found if name not in known]
        database.folder.remove(left)
    return len(left)
