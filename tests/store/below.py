"""The database below a store, for tests of what a store makes of tables and files that are not as it left them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from culm.store import SQLiteStore
    from culm.store.database import Database


def database_of(store: SQLiteStore) -> Database:
    """The database of a store: its own connection, so that settings and transactions on it are the store's.

    The one place in the tests that reaches into a store. A connection of the test's own to the same file will not do:
    it neither shares the store's transaction nor holds what the store has switched off or bounded for itself.
    """
    return store._database
