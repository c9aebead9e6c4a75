"""What is new in a store: entries in the order in which they were verified, from any position on.

A follower of a store wants each entry once, across restarts, and must not slow the writer down. A queue for each
follower would grow while its follower is away. Instead triggers write the order itself into a table, ``news``, and a
follower remembers a position in it. It has a row for each entry that was verified, under the number of the change that
verified it. An entry whose payload became complete in a later change has a second row. The news of one change are
sorted by log and number.
"""

from culm.errors import StoreError
from culm.store.database import Database
from culm.store.entries import ENTRY_COLUMNS, ENTRY_ROW, stored_of_row
from culm.store.rows import COUNT, ROW, SEQ, all_rows, in_order, last_change
from culm.store.schema import IS_COMPLETE, IS_VERIFIED, to_sql
from culm.store.values import BEGINNING, NewsPage, Position

_VERIFIED, _COMPLETE = "0, 2", "1, 2"  # the kinds of news in which an entry, or a payload, is new


class NewsQueries:
    """The questions to a store about what is new."""

    _database: Database

    def latest(self) -> Position:
        """The position after everything that is verified now."""
        with self._database.snapshot() as connection:
            return Position(last_change(connection) + 1)

    def news(
        self,
        since: Position = BEGINNING,
        *,
        author: bytes | None = None,
        log_id: int | None = None,
        with_payload: bool = False,
        limit: int = 256,
    ) -> NewsPage:
        """The first ``limit`` entries after a position that were verified and still are, in that order.

        With ``author``, or ``author`` and ``log_id``, only theirs. With ``with_payload`` the entries whose payload
        became complete instead, if it is still held. ``StoreError`` if the position does not belong to this store's
        present state: it is of another store, or this store was restored from a copy, or a power cut took back its last
        changes.
        """
        conditions, values = ["(change, news.log, news.seq, kind) > (?, ?, ?, ?)"], list[object](since)
        conditions.append(f"kind IN ({_COMPLETE if with_payload else _VERIFIED})")
        if author is not None:
            of_log = "" if log_id is None else " AND log_id = ?"
            conditions.append(f"news.log IN (SELECT id FROM logs WHERE author = ?{of_log})")
            values += [author] if log_id is None else [author, to_sql(log_id)]
        conditions.append(IS_VERIFIED + (f" AND {IS_COMPLETE}" if with_payload else ""))
        # CROSS JOIN keeps SQLite from reading the entries first, and sorting all of them.
        query = (
            f"SELECT {ENTRY_COLUMNS}, change, news.log, news.seq, kind"
            " FROM news CROSS JOIN entries ON entries.id = news.entry"
            f" WHERE {' AND '.join(conditions)} ORDER BY change, news.log, news.seq, kind LIMIT ?"
        )
        with self._database.snapshot() as connection:
            change = last_change(connection)
            named = "SELECT 1 FROM news WHERE (change, log, seq, kind) = (?, ?, ?, ?)"
            is_known = since.is_between_changes or connection.execute(named, since).fetchone() is not None
            if since.change > change + 1 or not is_known:
                raise StoreError(
                    f"{self._database.path}: the cursor belongs to another store, or to a later state of this one:"
                    " follow anew"
                )
            rows = all_rows(connection.execute(query, (*values, limit)), *ENTRY_ROW, COUNT, ROW, SEQ, COUNT)
            if rows:
                in_order(tuple(since), rows[-1][-4:])
        found = [(stored_of_row(row), Position(*row[-4:])) for row in rows]
        return NewsPage(found, found[-1][1] if len(rows) == limit else Position(change + 1))
