"""Opening a store: bringing its tables up to date, and registering what every transaction has to settle.

``Database`` is a connection and knows no table. This module puts the layers together: it runs the migrations, and
registers two hooks. Before a commit the record index is brought up to date with the entries. After it, the files of
payloads that were dropped are deleted: not before, because a transaction that is rolled back still needs them.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from culm.errors import StoreDamaged
from culm.store.database import LOCK_TIMEOUT, Database
from culm.store.foreign import check_definitions
from culm.store.migrations import migrate
from culm.store.payloads.pieces import take_dropped
from culm.store.records.index import settle
from culm.store.schema import VERSION, schema_version


def open_database(path: Path, *, read_only: bool = False, lock_timeout: float = LOCK_TIMEOUT) -> Database:
    """Open a store's file; without ``read_only`` it is made if it is not there.

    ``lock_timeout`` is the time in seconds to wait for another writer. ``StoreMissing`` if there is nothing to read,
    ``StoreDamaged`` if the file is no store, has other tables or triggers than a store, or is of a version that this
    Culm does not know.
    """
    database = Database(path, read_only=read_only, lock_timeout=lock_timeout)
    try:
        _prepare(database, lock_timeout)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: Database, lock_timeout: float) -> None:
    with database.snapshot() as connection:  # another process may be creating the tables at this moment
        version = schema_version(connection)
        if version:
            check_definitions(database, version)
    if database.read_only:
        if version == 0:
            raise StoreDamaged(f"{database.path}: an empty file, not a Culm store")
        if version < VERSION:  # reading uses the newest tables, so the store is migrated first
            open_database(database.path, lock_timeout=lock_timeout).close()
        return
    database.prepare_to_write()
    database.before_commit(_settle_records)
    database.before_commit(_drop_files)
    with database.transaction():
        migrate(database)
        if version < VERSION:
            check_definitions(database, VERSION)


def _settle_records(database: Database) -> None:
    settle(database.connection)


def _drop_files(database: Database) -> Callable[[], object] | None:
    names = take_dropped(database.connection)
    return partial(database.folder.remove, names) if names else None
