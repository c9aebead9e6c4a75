"""What is held of one log, asked in small questions: each costs a few look-ups, however much is held.

This is what a peer's requests are answered from, and what our own are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from culm.bamboo import Entry
from culm.store.database import translated_errors
from culm.store.guard import tells_damage
from culm.store.runs import ENTRIES, PAYLOADS, around, extent
from culm.store.schema import PayloadState, State, from_sql, to_sql

if TYPE_CHECKING:
    from culm.store.database import Database
    from culm.types import Log

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


@tells_damage
class Lookup:
    """Questions about one log. Each answer belongs to its own moment."""

    def __init__(self, database: Database, log: Log) -> None:
        self._database = database
        self.log = log
        self._row: int | None = None
        self._ended_at: int | None = None
        self.is_forked = False
        query = "SELECT id, ended_at, forked_at IS NOT NULL FROM logs WHERE author = ? AND log_id = ?"
        for self._row, self._ended_at, is_forked in database.read(query, (log[0], to_sql(log[1]))):
            self.is_forked = bool(is_forked)

    def entries_around(self, seq: int) -> Run | None:
        """The run of neighbouring verified entries that one of this number is in; None if it is not held."""
        with translated_errors(self._database.path):
            return around(self._database.connection, self._row, ENTRIES, seq)

    def payloads_around(self, seq: int) -> Run | None:
        """The same for those of them whose payload is complete."""
        with translated_errors(self._database.path):
            return around(self._database.connection, self._row, PAYLOADS, seq)

    def payload_extent(self) -> Run | None:
        """The least and the greatest number of a complete payload; None if there is none."""
        with translated_errors(self._database.path):
            return extent(self._database.connection, self._row, PAYLOADS)

    def page(self, seq: int, *, ascending: bool, limit: int) -> list[HeldEntry]:
        """The first ``limit`` verified entries from ``seq`` on, in either direction."""
        beyond, order = (">=", "ASC") if ascending else ("<=", "DESC")
        rows = self._database.read(
            "SELECT id, encoded, payload_state, payload_held, CASE WHEN payload_state = 2 AND payload_held <= ?"
            " THEN (SELECT CAST(piece AS BLOB) FROM payloads"
            " WHERE entry = entries.id AND at = 0 AND length(piece) = payload_held)"
            " END FROM entries"  # one that came in parts lies in as many pieces
            f" WHERE log = ? AND seq {beyond} ? AND state = 2 ORDER BY seq {order} LIMIT ?",
            (SMALL_BYTES, self._row, to_sql(seq), limit),
        )
        found = []
        for row, encoded, state, held, piece in rows:
            complete = state == PayloadState.COMPLETE
            small = b"" if complete and not held else piece
            found.append(HeldEntry(Entry.decode(encoded), held, complete, small, row))
        return found

    def misfit(self, low: int, high: int, least: int | None, greatest: int | None, *, ascending: bool) -> int | None:
        """The first entry from ``low`` to ``high`` (or back) with a complete payload of another size than wanted."""
        ((seq,),) = self._database.read(
            f"SELECT {'min' if ascending else 'max'}(seq) FROM entries WHERE log = ? AND seq BETWEEN ? AND ?"
            " AND state = 2 AND payload_state = 2 AND NOT (payload_held BETWEEN ? AND ?)",
            (
                self._row,
                to_sql(low),
                to_sql(high),
                min(least or 0, _MOST),
                min(_MOST if greatest is None else greatest, _MOST),
            ),
        )
        return None if seq is None else from_sql(seq)

    def variants(self, seq: int) -> list[Entry]:
        """All authentic entries of a number that are held, in whatever state; the verified one first."""
        rows = self._database.read(
            "SELECT encoded FROM entries WHERE log = ? AND seq = ? ORDER BY state = 2 DESC, variant",
            (self._row, to_sql(seq)),
        )
        return [Entry.decode(encoded) for (encoded,) in rows]

    def end(self) -> Entry | None:
        """The verified entry that ends the log."""
        if self._ended_at is None:
            return None
        rows = self._database.read(
            "SELECT encoded FROM entries WHERE log = ? AND seq = ? AND state = ?",
            (self._row, self._ended_at, State.VERIFIED),
        )
        entry = Entry.decode(rows[0][0]) if rows else None
        return entry if entry is not None and entry.is_end else None
