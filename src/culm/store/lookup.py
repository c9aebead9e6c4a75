"""What is held of one log, asked in small questions: each costs a few look-ups, however much is held.

This is what a peer's requests are answered from, and what our own are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from culm.bamboo import Entry
from culm.store.rows import find_log
from culm.store.runs import ENTRIES, PAYLOADS, around, extent
from culm.store.schema import PayloadState, State, from_sql, to_sql

if TYPE_CHECKING:
    from culm.store.database import Database
    from culm.store.interface import Log

SMALL_BYTES = 4096  # payloads up to this size are read together with their entries
_MOST = 2**63 - 1  # no payload that is held is so large
Run = tuple[int, int]


class HeldEntry(NamedTuple):
    """A verified entry. ``small`` is the whole payload if it is complete and short; ``handle`` the entry's row."""

    entry: Entry
    payload_held: int
    complete: bool
    small: bytes | None
    handle: int


class Lookup:
    """Questions about one log. Each answer belongs to its own moment."""

    def __init__(self, database: Database, log: Log) -> None:
        self._database = database
        self.log = log
        with database.snapshot() as connection:
            self._row = find_log(connection, log)
            self.is_forked = False
            self._ended_at: int | None = None
            if self._row is not None:
                forked_at, self._ended_at = connection.execute(
                    "SELECT forked_at, ended_at FROM logs WHERE id = ?", (self._row,)
                ).fetchone()
                self.is_forked = forked_at is not None

    def entries_around(self, seq: int) -> Run | None:
        """The run of neighbouring verified entries that one of this number is in; None if it is not held."""
        with self._database.snapshot() as connection:
            return around(connection, self._row, ENTRIES, seq)

    def payloads_around(self, seq: int) -> Run | None:
        """The same for those of them whose payload is complete."""
        with self._database.snapshot() as connection:
            return around(connection, self._row, PAYLOADS, seq)

    def payload_extent(self) -> Run | None:
        """The least and the greatest number of a complete payload; None if there is none."""
        with self._database.snapshot() as connection:
            return extent(connection, self._row, PAYLOADS)

    def page(self, seq: int, *, ascending: bool, limit: int) -> list[HeldEntry]:
        """The first ``limit`` verified entries from ``seq`` on, in either direction."""
        beyond, order = (">=", "ASC") if ascending else ("<=", "DESC")
        with self._database.snapshot() as connection:
            rows = connection.execute(
                "SELECT id, encoded, payload_state, payload_held, CASE WHEN payload_state = 2 AND payload_held <= ?"
                " THEN (SELECT piece FROM payloads WHERE entry = entries.id AND at = 0) END FROM entries"
                f" WHERE log = ? AND seq {beyond} ? AND state = 2 ORDER BY seq {order} LIMIT ?",
                (SMALL_BYTES, self._row, to_sql(seq), limit),
            ).fetchall()
        found = []
        for row, encoded, state, held, piece in rows:
            complete = state == PayloadState.COMPLETE
            small = b"" if complete and not held else piece
            found.append(HeldEntry(Entry.decode(encoded), held, complete, small, row))
        return found

    def misfit(self, low: int, high: int, least: int | None, greatest: int | None, *, ascending: bool) -> int | None:
        """The first entry from ``low`` to ``high`` (or back) with a complete payload of another size than wanted."""
        with self._database.snapshot() as connection:
            (seq,) = connection.execute(
                f"SELECT {'min' if ascending else 'max'}(seq) FROM entries WHERE log = ? AND seq BETWEEN ? AND ?"
                " AND state = 2 AND payload_state = 2 AND NOT (payload_held BETWEEN ? AND ?)",
                (
                    self._row,
                    to_sql(low),
                    to_sql(high),
                    min(least or 0, _MOST),
                    min(_MOST if greatest is None else greatest, _MOST),
                ),
            ).fetchone()
        return None if seq is None else from_sql(seq)

    def variants(self, seq: int) -> list[Entry]:
        """All authentic entries of a number that are held, in whatever state; the verified one first."""
        with self._database.snapshot() as connection:
            rows = connection.execute(
                "SELECT encoded FROM entries WHERE log = ? AND seq = ? ORDER BY state = 2 DESC, variant",
                (self._row, to_sql(seq)),
            ).fetchall()
        return [Entry.decode(encoded) for (encoded,) in rows]

    def end(self) -> Entry | None:
        """The verified entry that ends the log."""
        if self._ended_at is None:
            return None
        with self._database.snapshot() as connection:
            row = connection.execute(
                "SELECT encoded FROM entries WHERE log = ? AND seq = ? AND state = ?",
                (self._row, self._ended_at, State.VERIFIED),
            ).fetchone()
        entry = None if row is None else Entry.decode(row[0])
        return entry if entry is not None and entry.is_end else None
