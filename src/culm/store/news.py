"""What is new in a store: entries in the order in which they were verified, from any position on.

A follower of a store wants each entry once, across restarts, and must not slow the writer down. A queue for each
follower would grow while its follower is away. Instead the order itself is written into a table, ``news``, and a
follower remembers a position in it. Each entry that was verified is listed there, under the number of the change that
verified it. One whose payload became complete in a later change is listed a second time. The news of one change are
sorted by log and number.

Mostly one change verifies a thousand neighbours of one log. These are one row: the number and the row id of the first
entry, and how many follow. A position still names a single entry, so reading can go on in the middle of such a row.
What is verified by other ways than by being inserted is noted by triggers, entry by entry.
"""

import sqlite3

from culm.errors import StoreError
from culm.store.database import Database
from culm.store.entries import ENTRY_COLUMNS, ENTRY_ROW, stored_of_rows
from culm.store.rows import COUNT, ROW, SEQ, all_rows, first_row, in_order, last_change
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
        kinds = _COMPLETE if with_payload else _VERIFIED
        # The signs keep SQLite from making an index of all entries by their state, for this query alone.
        conditions = [f"kind IN ({kinds})", f"+{IS_VERIFIED}" + (f" AND +{IS_COMPLETE}" if with_payload else "")]
        values: dict[str, object] = {**since._asdict(), "limit": limit}
        if author is not None:
            of_log = "" if log_id is None else " AND log_id = :log_id"
            conditions.append(f"news.log IN (SELECT id FROM logs WHERE author = :author{of_log})")
            values |= {"author": author} if log_id is None else {"author": author, "log_id": to_sql(log_id)}
        # CROSS JOIN keeps SQLite from reading the entries first, and sorting all of them. Of the run that has the
        # position in it, only the entries behind the position are read.
        query = (
            f"SELECT {ENTRY_COLUMNS}, change, news.log, news.seq + (entries.id - news.entry), kind"
            " FROM news CROSS JOIN entries ON entries.id < news.entry + count AND entries.id >= news.entry"
            " + CASE WHEN (change, news.log) = (:change, :log) AND news.seq <= :seq"
            " THEN :seq - news.seq + (kind <= :kind) ELSE 0 END"
            f" WHERE (change, news.log, news.seq) >= (:change, :log, :begin) AND {' AND '.join(conditions)}"
            " ORDER BY change, news.log, news.seq, kind, news.entry, entries.id LIMIT :limit"
        )
        with self._database.snapshot() as connection:
            change = last_change(connection)
            is_known = since.is_between_changes or _run_with(connection, since, str(since.kind)) is not None
            if since.change > change + 1 or not is_known:
                raise StoreError(
                    f"{self._database.path}: the cursor belongs to another store, or to a later state of this one:"
                    " follow anew"
                )
            begin = _run_with(connection, since, kinds)
            values["begin"] = since.seq if begin is None else begin
            rows = all_rows(connection.execute(query, values), *ENTRY_ROW, COUNT, ROW, SEQ, COUNT)
            if rows:
                in_order(tuple(since), rows[-1][-4:])
        found = [(stored, Position(*row[-4:])) for stored, row in zip(stored_of_rows(rows), rows, strict=True)]
        return NewsPage(found, found[-1][1] if len(rows) == limit else Position(change + 1))


def _run_with(connection: sqlite3.Connection, position: Position, kinds: str) -> int | None:
    """The number, as it is stored, that the run of news of these kinds begins with that a position is in."""
    query = (
        "SELECT seq, count FROM news WHERE change = ? AND log = ? AND seq <= ?"
        f" AND kind IN ({kinds}) ORDER BY seq DESC LIMIT 1"
    )
    row = first_row(connection.execute(query, position[:3]), SEQ, ROW)
    return None if row is None or position.seq - row[0] >= row[1] else int(row[0])
