"""Marked authors: whose logs this store may not hold up to their newest entry.

*The problem.* An old backup is restored, or a home is made anew around its keys. The store then ends at entry 5, and
the author has published 10. Nothing in the store shows that. The next entry that the author signs here is another 6,
and forks the log for ever.

*The way chosen.* The author is *marked* when that happens (``unconfirmed``), and no log of a marked author takes an
entry before it is *confirmed*: a peer has sent the entry that is the newest one held, or the author says that nothing
newer exists. The mark is one of the author and not of single logs, because the store may lack whole logs.

An author without a mark is confirmed, so a new identity and a store of an earlier version need nothing.

Specification: docs/specs/bamboo.md, "Holding and publishing".
"""

import sqlite3

from culm.bamboo import Entry
from culm.store.database import Database
from culm.store.entries import find_entry
from culm.store.rows import BYTES
from culm.store.schema import State, log_key, to_sql
from culm.types import Log


class Confirmations:
    """The questions to a store about marked authors."""

    _database: Database

    def unconfirmed_authors(self) -> frozenset[bytes]:
        """The marked authors, of whom some logs may be confirmed."""
        return frozenset(author for (author,) in self._database.read("SELECT author FROM unconfirmed", (), BYTES))

    def is_confirmed(self, log: Log) -> bool:
        """Whether ``append`` may take the newest entry held of a log for the newest that exists."""
        with self._database.snapshot() as connection:
            return is_confirmed(connection, log)


def is_confirmed(connection: sqlite3.Connection, log: Log) -> bool:
    """See ``Confirmations.is_confirmed``."""
    query = (
        "SELECT NOT EXISTS (SELECT 1 FROM unconfirmed WHERE author = ?)"
        " OR EXISTS (SELECT 1 FROM confirmed WHERE author = ? AND log_id = ?)"
    )
    return bool(connection.execute(query, (log[0], *log_key(log))).fetchone()[0])


def unconfirm(database: Database, author: bytes) -> None:
    """Mark an author. What was confirmed before is forgotten, because it was true of the store that was lost."""
    with database.transaction() as connection:
        connection.execute("INSERT OR IGNORE INTO unconfirmed VALUES (?)", (author,))
        connection.execute("DELETE FROM confirmed WHERE author = ?", (author,))


def confirm(connection: sqlite3.Connection, log: Log) -> None:
    """Confirm a log of a marked author, inside a transaction."""
    connection.execute("INSERT OR IGNORE INTO confirmed VALUES (?, ?)", log_key(log))


def confirm_by(database: Database, entry: Entry) -> bool:
    """A peer has sent ``entry``: confirm its log if that is the newest entry held; whether the log is confirmed.

    The entry is compared with the one in the store, which has verified it. So a peer cannot confirm a log by an entry
    that it made up. A newer entry that waits for its path shows that there is more, so nothing is confirmed then.
    """
    with database.transaction() as connection:
        if is_confirmed(connection, entry.log):
            return True
        query = "SELECT 1 FROM logs WHERE author = ? AND log_id = ? AND newest = ? AND greatest = newest"
        is_newest = connection.execute(query, (*log_key(entry.log), to_sql(entry.seq))).fetchone() is not None
        held = find_entry(connection, entry.place, entry.hash) if is_newest else None
        if held is None or held.state is not State.VERIFIED:
            return False
        confirm(connection, entry.log)
    return True
