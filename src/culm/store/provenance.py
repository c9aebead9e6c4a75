"""In which clumps a log is served: those in which it was received, or for which its owner has shared it.

A clump is a group of nodes, and "identifies the provenance of the logs to be replicated" (the Bushbaby document). One
home may take part in several clumps. If it served everything everywhere, a log of the clump "family" would reach the
clump "work" through it. So each log has *marks*: the clumps that it is served in. A log without marks is served in
every clump. There are three kinds of those:

- The logs that the owner of the home writes, until they are shared for some clumps.
- The logs that an earlier version received, because nobody knows in which clump (``unmarked_since_upgrade``).
- Those that the owner has shared everywhere.

A received log gets its first mark in the transaction that stores its first entry, so no reader ever sees it without
one. An entry of a marked log that arrives in another clump adds a mark, even if the entry is held already: only an
authentic entry shows that the log exists in that clump, because anybody can announce any log.

The nameless clump (no bytes) is a clump like any other. Marks have no reference to the table of logs, so that a log can
be shared for a clump before its first entry is written.

Specification: docs/specs/bushbaby.md, "Clumps".
"""

import sqlite3
from collections.abc import Collection, Mapping
from itertools import groupby

from culm.store.database import Database
from culm.store.rows import BYTES, COUNT, LOG_ID, find_log, next_change
from culm.store.schema import from_sql, log_key
from culm.types import Log


class Provenance:
    """The questions to a store about clumps."""

    _database: Database

    def clumps_of(self, log: Log) -> frozenset[bytes] | None:
        """The clumps that a log is served in; None: in every one."""
        query = "SELECT clump FROM log_clumps WHERE author = ? AND log_id = ?"
        rows = self._database.read(query, log_key(log), BYTES)
        return frozenset(clump for (clump,) in rows) if rows else None

    def clumps(self) -> dict[Log, frozenset[bytes]]:
        """The same for all logs that are not served in every clump."""
        query = "SELECT author, log_id, clump FROM log_clumps ORDER BY author, log_id"
        rows = self._database.read(query, (), BYTES, LOG_ID, BYTES)
        return {
            (author, from_sql(log_id)): frozenset(row[2] for row in of_log)
            for (author, log_id), of_log in groupby(rows, key=lambda row: row[:2])
        }

    def sizes(self, clump: bytes, more: int) -> dict[bytes, int]:
        """The bytes that the logs of each author take in a clump.

        They are those of entries, those held of payloads, those of fork proofs, and ``more`` for each of these entries.
        Logs that are served in every clump are left out, because the owner has chosen to keep them. Reads every entry.
        """
        query = (
            "SELECT author, sum(size) FROM (SELECT log, length(encoded) + payload_held + ?1 AS size FROM entries"
            " UNION ALL SELECT log, length(first) + length(second) + 2 * ?1 FROM forks) JOIN logs ON logs.id = log"
            " JOIN log_clumps USING (author, log_id) WHERE clump = ?2 GROUP BY author"
        )
        return dict(self._database.read(query, (more, clump), BYTES, COUNT))

    def has_clump_beside(self, clump: bytes) -> bool:
        """Whether any log has a mark of another clump than this one. Costs two look-ups, not one for each log."""
        query = (
            "SELECT EXISTS (SELECT 1 FROM log_clumps WHERE clump < ?)"
            " OR EXISTS (SELECT 1 FROM log_clumps WHERE clump > ?)"
        )
        return bool(self._database.read(query, (clump, clump), COUNT)[0][0])

    def withheld(self, clump: bytes) -> int:
        """How many held logs are served in other clumps only. Costs a look at every mark, if there is another clump."""
        if not self.has_clump_beside(clump):
            return 0
        query = (
            "SELECT count(*) FROM (SELECT author, log_id FROM log_clumps GROUP BY author, log_id"
            " HAVING max(clump = ?) = 0) AS elsewhere JOIN logs USING (author, log_id) WHERE greatest IS NOT NULL"
        )
        return int(self._database.read(query, (clump,), COUNT)[0][0])

    def unmarked_since_upgrade(self, own: Collection[bytes]) -> int:
        """How many logs of others are served in every clump because an earlier version received them."""
        query = (
            "SELECT author FROM logs WHERE id <= (SELECT value FROM counters WHERE name = 'before_clumps')"
            " AND greatest IS NOT NULL AND NOT EXISTS (SELECT 1 FROM log_clumps"
            " WHERE log_clumps.author = logs.author AND log_clumps.log_id = logs.log_id)"
        )
        return sum(author not in own for (author,) in self._database.read(query, (), BYTES))


def note_received(connection: sqlite3.Connection, log: Log, clump: bytes, *, is_new: bool) -> None:
    """An entry of a log came in a clump. A log that is held without marks stays without."""
    connection.execute(
        "INSERT OR IGNORE INTO log_clumps SELECT ?1, ?2, ?3"
        " WHERE ?4 OR EXISTS (SELECT 1 FROM log_clumps WHERE author = ?1 AND log_id = ?2)",
        (*log_key(log), clump, is_new),
    )


def share_all_of(database: Database, author: bytes) -> None:
    """Serve the logs of an author in every clump, because they are the owner's own from now on."""
    with database.transaction() as connection:
        connection.execute("DELETE FROM log_clumps WHERE author = ?", (author,))


def adopt(database: Database, clumps: Mapping[Log, Collection[bytes]]) -> None:
    """Mark logs as another store of the same owner has marked them; those held here without marks stay without."""
    with database.transaction() as connection:
        for log, marks in clumps.items():
            is_new = find_log(connection, log) is None
            for clump in marks:
                note_received(connection, log, clump, is_new=is_new)


def share(database: Database, log: Log, clump: bytes | None) -> None:
    """Serve a log in a clump, too; if it was served in every one, in this one alone. None: in every clump.

    The log counts as changed, so that running nodes announce it.
    """
    with database.transaction() as connection:
        if clump is None:
            connection.execute("DELETE FROM log_clumps WHERE author = ? AND log_id = ?", log_key(log))
        else:
            connection.execute("INSERT OR IGNORE INTO log_clumps VALUES (?, ?, ?)", (*log_key(log), clump))
        values = next_change(connection), *log_key(log)
        connection.execute("UPDATE logs SET change = ? WHERE author = ? AND log_id = ?", values)
