"""What is new in a store: entries in the order in which they became verified, from any position on.

The table ``news`` has a row for each entry that became verified (and one more if its payload was complete only later),
under the number of the change that brought it; within a change log by log, ascending. So whoever reads it page by page
and remembers a position gets everything once, however slow, and needs no queue for that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Self

from culm.errors import ConfigError, StoreError
from culm.store.queries import ENTRY_COLUMNS, stored_of_row
from culm.store.schema import to_sql

if TYPE_CHECKING:
    import sqlite3

    from culm.store.database import Database
    from culm.store.interface import StoredEntry

_LOWEST = (0, to_sql(0), -1)  # before everything of a change
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_VERIFIED, _COMPLETE = "0, 2", "1, 2"


class Position(NamedTuple):
    """A place between two news of one store. As text: ``CHANGE``, or ``CHANGE.LOG.SEQ.KIND``; opaque to others."""

    change: int
    log: int = _LOWEST[0]
    seq: int = _LOWEST[1]
    kind: int = _LOWEST[2]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what ``str`` made of a position; ``ConfigError`` if it is none."""
        parts = text.split(".")
        numbers = [int(part) for part in parts if _NUMBER.fullmatch(part) and -(2**63) <= int(part) < 2**63]
        if len(parts) not in (1, 4) or len(numbers) < len(parts):
            raise ConfigError(f"{text!r} is not a cursor")
        return cls(*numbers)

    def __str__(self) -> str:
        return str(self[0]) if self[1:] == _LOWEST else ".".join(map(str, self))


BEGINNING = Position(0)


class NewsPage(NamedTuple):
    """Some news, each with the position behind it, and the position behind all of them."""

    entries: list[tuple[StoredEntry, Position]]
    end: Position


def latest(database: Database) -> Position:
    """The position behind everything that is verified now."""
    ((change,),) = database.read("SELECT value FROM counters WHERE name = 'change'")
    return Position(change + 1)


def page(
    database: Database,
    since: Position,
    author: bytes | None,
    log_id: int | None,
    *,
    with_payload: bool,
    limit: int,
) -> NewsPage:
    """The first ``limit`` entries after a position that became verified and still are; of one author or log if told so.

    ``with_payload``: those whose payload became complete instead, as far as it is held. ``StoreError`` if the position
    is not one of this store: it is of another one, or this one was restored from a copy, or lost its end to a power
    cut.
    """
    conditions, values = ["(change, news.log, news.seq, kind) > (?, ?, ?, ?)"], list[object](since)
    conditions.append(f"kind IN ({_COMPLETE if with_payload else _VERIFIED})")
    if author is not None:
        of_log = "" if log_id is None else " AND log_id = ?"
        conditions.append(f"news.log IN (SELECT id FROM logs WHERE author = ?{of_log})")
        values += [author] if log_id is None else [author, to_sql(log_id)]
    conditions.append("state = 2" + (" AND payload_state = 2" if with_payload else ""))
    with database.snapshot() as connection:
        (change,) = connection.execute("SELECT value FROM counters WHERE name = 'change'").fetchone()
        if since.change > change + 1 or not _is_known(connection, since):
            raise StoreError(f"{database.path}: the cursor is of another store, or of a later state of this one")
        rows = connection.execute(
            f"SELECT change, news.log, news.seq, kind, {ENTRY_COLUMNS}"
            " FROM news CROSS JOIN entries ON entries.id = news.entry"  # in the order of the news
            f" WHERE {' AND '.join(conditions)} ORDER BY change, news.log, news.seq, kind LIMIT ?",
            [*values, limit],
        ).fetchall()
    if rows:
        database.expect_beyond(tuple(since), rows[-1][:4])
    found = [(stored_of_row(row[4:]), Position(*row[:4])) for row in rows]
    return NewsPage(found, found[-1][1] if len(rows) == limit else Position(change + 1))


def _is_known(connection: sqlite3.Connection, position: Position) -> bool:
    """Whether there are such news, if the position names any."""
    if position[1:] == _LOWEST:
        return True
    query = "SELECT 1 FROM news WHERE (change, log, seq, kind) = (?, ?, ?, ?)"
    return connection.execute(query, position).fetchone() is not None
