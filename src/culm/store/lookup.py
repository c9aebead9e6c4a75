"""What is held of one log, asked in small questions. Each costs a few look-ups, however much is held.

A node answers its peers' requests from here, and composes its own. A peer can ask thousands of questions about a log of
a hundred million entries, so no answer may read the log.
"""

from culm.bamboo import Entry, yamf_hash
from culm.ranges.runs import runs_of
from culm.store.database import Database
from culm.store.entries import SMALL_BYTES
from culm.store.records.runs import ENTRIES, PAYLOADS, around, extent
from culm.store.rows import BYTES, COUNT, FLAG, PAYLOAD_STATE, ROW, SEQ, entries_of, entry_of
from culm.store.schema import (
    IS_COMPLETE,
    IS_INVALID,
    IS_VERIFIED,
    PayloadState,
    from_sql,
    log_key,
    optional_from_sql,
    to_sql,
)
from culm.transfer import Kept
from culm.types import Log, Run

_MOST = 2**63 - 1  # the greatest number that SQLite takes; no payload is as large
_SEQ = SEQ.or_null()
_ENTRY_ROW = ROW, BYTES, BYTES, PAYLOAD_STATE, COUNT, BYTES.or_null()


class Lookup:
    """Questions about one log. Each answer belongs to its own moment."""

    def __init__(self, database: Database, log: Log) -> None:
        self._database = database
        self.log = log
        self._row: int | None = None
        self._ended_at: int | None = None
        self.is_forked = False
        query = "SELECT id, ended_at, forked_at IS NOT NULL FROM logs WHERE author = ? AND log_id = ?"
        for self._row, self._ended_at, is_forked in database.read(query, log_key(log), ROW, _SEQ, FLAG):
            self.is_forked = bool(is_forked)

    def entries_around(self, seq: int) -> Run | None:
        """The first and last number of the unbroken run of verified entries around ``seq``; None if it is not held."""
        return around(self._database, self._row, ENTRIES, seq)

    def payloads_around(self, seq: int) -> Run | None:
        """The same, counting only entries whose payload is complete."""
        return around(self._database, self._row, PAYLOADS, seq)

    def entry_extent(self) -> Run | None:
        """The lowest and the highest number of a verified entry; None if there is none."""
        return extent(self._database, self._row, ENTRIES)

    def payload_extent(self) -> Run | None:
        """The lowest and the highest number of an entry with a complete payload; None if there is none."""
        return extent(self._database, self._row, PAYLOADS)

    def page(self, seq: int, *, ascending: bool, limit: int) -> list[Kept]:
        """The first ``limit`` verified entries from ``seq`` on, in either direction."""
        beyond, order = (">=", "ASC") if ascending else ("<=", "DESC")
        return self._kept(f"seq {beyond} ? AND {IS_VERIFIED} ORDER BY seq {order} LIMIT ?", seq, limit)

    def variants(self, seq: int) -> list[Kept]:
        """All entries held of a number, in whatever state; a verified one comes first."""
        return self._kept(f"seq = ? ORDER BY {IS_VERIFIED} DESC, variant LIMIT ?", seq, -1)

    def _kept(self, condition: str, seq: int, limit: int) -> list[Kept]:
        rows = self._database.read(
            f"SELECT id, hash, encoded, payload_state, payload_held, CASE WHEN {IS_COMPLETE} AND payload_held <= ?"
            " THEN (SELECT CAST(piece AS BLOB) FROM payloads"
            # A payload that arrived in parts lies in several pieces, even if it is small.
            " WHERE entry = entries.id AND at = 0 AND length(piece) = payload_held)"
            f" END FROM entries WHERE log = ? AND {condition}",
            (SMALL_BYTES, self._row, to_sql(seq), limit),
            *_ENTRY_ROW,
        )
        found = []
        entries = entries_of([(encoded, digest, row) for row, digest, encoded, *_ in rows])
        for entry, (row, _, _, state, held, piece) in zip(entries, rows, strict=True):
            complete = state == PayloadState.COMPLETE
            small = b"" if complete and not entry.size else piece
            if small is not None and yamf_hash(small) != entry.payload_hash:
                small = None  # A reader of this payload gets the error then, and not all readers of the page.
            found.append(Kept(entry, held, complete, small, row))
        return found

    def misfit(self, low: int, high: int, least: int | None, greatest: int | None, *, ascending: bool) -> int | None:
        """The first entry from ``low`` to ``high`` whose complete payload is smaller or larger than the bounds allow.

        With ``ascending`` false the last such entry. A bound that is None does not apply.
        """
        ((seq,),) = self._database.read(
            f"SELECT {'min' if ascending else 'max'}(seq) FROM entries WHERE log = ? AND seq BETWEEN ? AND ?"
            f" AND {IS_VERIFIED} AND {IS_COMPLETE} AND NOT (payload_held BETWEEN ? AND ?)",
            (
                self._row,
                to_sql(low),
                to_sql(high),
                min(least or 0, _MOST),
                min(_MOST if greatest is None else greatest, _MOST),
            ),
            _SEQ,
        )
        return optional_from_sql(seq)

    def disputed(self) -> list[Run]:
        """The numbers at or above a fork whose payload is complete, of any branch, as runs: the newest 4,096."""
        rows = self._database.read(
            # Without a least number, a fork near the end of a long log would have all entries below it looked at.
            "SELECT DISTINCT seq FROM entries WHERE log = ? AND seq >= (SELECT forked_at FROM logs WHERE id = ?)"
            f" AND {IS_INVALID} AND {IS_COMPLETE} ORDER BY seq DESC LIMIT 4096",
            (self._row, self._row),
            SEQ,
        )
        return list(runs_of(sorted(from_sql(seq) for (seq,) in rows)))

    def end(self) -> Entry | None:
        """The verified entry that ends the log; None if the log goes on, as far as is known."""
        if self._ended_at is None:
            return None
        rows = self._database.read(
            f"SELECT encoded FROM entries WHERE log = ? AND seq = ? AND {IS_VERIFIED}",
            (self._row, self._ended_at),
            BYTES,
        )
        entry = entry_of(rows[0][0]) if rows else None
        return entry if entry is not None and entry.is_end else None
