"""Opening a store: bringing its tables up to date, and registering what every transaction has to settle.

``Database`` is a connection and knows no table. This module puts the layers together: it runs the migrations, and
registers two hooks. Before a commit the record index is brought up to date with the entries. After it, the files of
payloads that were dropped are deleted: not before, because a transaction that is rolled back still needs them.

An empty file gets the tables of the newest version at once. A migration starts from what an earlier version of Culm
made. Each step adds to the tables of the step before, inside one transaction, so a program that is killed leaves the
store of the old version behind. A step never changes afterwards: stores of its version exist, and their tables hold its
text.
"""

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from culm.errors import StoreDamaged
from culm.store.database import LOCK_TIMEOUT, Database
from culm.store.foreign import check_definitions
from culm.store.payloads.pieces import LARGE_BYTES, sweep, write_file
from culm.store.records import index
from culm.store.rows import BYTES, COUNT, ROW, TEXT, all_rows, each_row, entry_of
from culm.store.schema import (
    APPLICATION_ID,
    IS_COMPLETE,
    IS_VERIFIED,
    NEWEST,
    VERSION,
    VERSION_2,
    VERSION_3,
    VERSION_4,
    VERSION_5,
    VERSION_6,
    VERSION_7,
    VERSION_8,
    PayloadState,
    schema_version,
)


def open_database(path: Path, *, read_only: bool = False, lock_timeout: float = LOCK_TIMEOUT) -> Database:
    """Open a store's file; without ``read_only`` it is made if it is not there.

    Files of payloads that a killed process began are deleted, except by a reader.

    ``lock_timeout`` is the time in seconds to wait for another writer. ``StoreMissing`` if there is nothing to read,
    ``StoreDamaged`` if the file is no store, has other tables or triggers than a store, or is of a version that this
    Culm does not know.
    """
    database = Database(path, read_only=read_only, lock_timeout=lock_timeout)
    with ExitStack() as on_error:
        on_error.callback(database.close)
        with database.snapshot() as connection:  # another process may be creating the tables at this moment
            version = schema_version(connection, path)
            if version:
                check_definitions(database, version)
        if not read_only:
            database.prepare_to_write()
            database.hooks += [index.settle, _drop_files]
            with database.transaction():
                migrate(database)
                if version < VERSION:
                    check_definitions(database, VERSION)
                sweep(database)
        elif version == 0:
            raise StoreDamaged(f"{database.path}: an empty file, not a Culm store")
        elif version < VERSION:  # reading uses the newest tables, so the store is migrated first
            open_database(path, lock_timeout=lock_timeout).close()
        on_error.pop_all()
    return database


def _drop_files(database: Database) -> Callable[[], object] | None:
    """The files that no payload needs once this transaction is committed are deleted then."""
    names = [name for (name,) in all_rows(database.connection.execute("SELECT name FROM dropped_files"), TEXT)]
    if not names:
        return None
    database.connection.execute("DELETE FROM dropped_files")
    return partial(database.folder.remove, names)


# -- migrations ---------------------------------------------------------------------------------------------------


def _to_version_2(database: Database) -> None:
    """The record index."""
    _run(database.connection, VERSION_2)
    index.rebuild(database.connection)


def _to_version_3(database: Database) -> None:
    """Large payloads become files."""
    connection = database.connection
    _run(connection, VERSION_3)
    candidates = connection.execute(
        "SELECT id, encoded FROM entries WHERE payload_state = ? OR (payload_state = ? AND payload_held > ?)",
        (PayloadState.PARTIAL, PayloadState.COMPLETE, LARGE_BYTES),
    )
    for entry_id, encoded in all_rows(candidates, ROW, BYTES):
        if entry_of(encoded).size > LARGE_BYTES:
            name = write_file(database, entry_id, 0, b"")
            of_entry = "SELECT at, piece FROM payloads WHERE entry = ? ORDER BY at"
            for at, piece in each_row(connection.execute(of_entry, (entry_id,)), COUNT, BYTES):
                database.folder.write(name, at, piece)
            database.folder.sync(name)
            connection.execute("DELETE FROM payloads WHERE entry = ?", (entry_id,))


def _to_version_4(database: Database) -> None:
    """The order in which entries were verified. For older entries it is not known, so they come log by log."""
    connection = database.connection
    _run(connection, VERSION_4)
    connection.execute(
        f"INSERT INTO news SELECT 0, log, seq, 2 * ({IS_COMPLETE}), id FROM entries"
        f" WHERE {IS_VERIFIED} ORDER BY log, seq"
    )


def _to_version_5(database: Database) -> None:
    """Marks of authors. A store of an earlier version has none: its authors go on as before."""
    _run(database.connection, VERSION_5)


def _to_version_6(database: Database) -> None:
    """Checksums of large payloads. They are computed when a payload is next read whole, because reading all takes long.

    A store may hold hundreds of gigabytes, and nobody can use it during a migration.
    """
    _run(database.connection, VERSION_6)


def _to_version_7(database: Database) -> None:
    """The clumps that logs are served in. Logs that are held have no marks, so they are served as before."""
    _run(database.connection, VERSION_7)


def _to_version_8(database: Database) -> None:
    """News of neighbours together. Those of earlier versions stay, because cursors of readers name them."""
    _run(database.connection, VERSION_8)


# The steps from version 1 on, each to the next version.
MIGRATIONS: list[Callable[[Database], None]] = [
    _to_version_2,
    _to_version_3,
    _to_version_4,
    _to_version_5,
    _to_version_6,
    _to_version_7,
    _to_version_8,
]


def migrate(database: Database) -> None:
    """Bring the tables to the newest version, or make them in an empty file. Call inside a writing transaction."""
    connection = database.connection
    version = schema_version(connection, database.path)
    if version == 0:
        _run(connection, NEWEST)
        index.rebuild(connection)  # An empty index has a block, too: the one that all records go into.
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    else:
        for step in MIGRATIONS[version - 1 :]:
            step(database)
    if version <= len(MIGRATIONS):
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")


def _run(connection: sqlite3.Connection, script: str) -> None:
    """Run the script's statements one by one: ``executescript`` would commit the transaction it runs in."""
    lines = ""
    for line in script.splitlines():
        lines += line + "\n"
        if sqlite3.complete_statement(lines):
            connection.execute(lines)
            lines = ""
