"""Taking in authentic entries: links, paths, forks, states (docs/specs/bamboo.md, "Verification", "Keeping forks").

Entries arrive in any order, so their verdicts change as others arrive. An entry whose certificate path to entry 1 is
not complete waits. When the missing entry arrives, all entries that waited for it are verified, and those that waited
for these in turn. Two entries that contradict each other are a fork: the proof is kept, and everything from its
position on becomes invalid, in both branches, because nobody can tell which branch the author meant.

The simple way would be to verify each entry from the database alone. That costs several queries an entry, and most
entries are the next one of a sound log. ``LogView`` is therefore one log in memory during one transaction. It remembers
what it read and wrote, so a run of consecutive entries costs no queries beyond the first few.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count, pairwise
from operator import ne, sub
from typing import NamedTuple

from culm.bamboo import Entry, ForkProof, linkers, lipmaa
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import HoldingAreaFull, StoreFull
from culm.store.database import Database, Inserted
from culm.store.payloads import pieces
from culm.store.records.sums import LogRow, Sums
from culm.store.rows import (
    AT,
    BYTES,
    COUNT,
    FLAG,
    PAYLOAD_STATE,
    ROW,
    SEQ,
    STATE,
    all_rows,
    each_row,
    entry_of,
    first_row,
    insert_rows,
    the_row,
)
from culm.store.schema import (
    IS_SETTLED,
    IS_VERIFIED,
    IS_WAITING,
    PayloadState,
    State,
    from_sql,
    log_key,
    optional_from_sql,
    to_sql,
)
from culm.types import Buffer, Log

# Two entries of a number prove a fork, and a forking author must not fill the disk. Both limits have one exception, or
# the author could hide a fork behind another one: what proves a fork below all that are known is always kept. Only its
# links can be contradicted below an entry whose own number is contradicted, so that is two entries more at most.
MAX_VARIANTS = 16  # entries kept of one number
MAX_PROOFS = 1024  # fork proofs kept of one log
_MOST_VIEWS = 16  # logs that are remembered from one transaction to the next, with some hashes of each
_MOST_KNOWN = 4096  # entries of a log that are remembered from one transaction to the next: half a megabyte
_OPTIONAL = SEQ.or_null()
_LOG = (
    "SELECT id, newest, greatest, contiguous, ended_at, forked_at, invalid_from, entry_count, entry_total,"
    " payload_count, payload_total, head,"
    f" EXISTS (SELECT 1 FROM entries WHERE log = logs.id AND {IS_WAITING}) FROM logs WHERE author = ? AND log_id = ?"
)
_LOG_ROW = (ROW, _OPTIONAL, _OPTIONAL, AT, *[_OPTIONAL] * 3, COUNT, BYTES, COUNT, BYTES, BYTES.or_null(), FLAG)
_NO_LOG = (0, None, None, to_sql(0), None, None, None, 0, b"", 0, b"", None, 0)
_DIGEST_AT = len(YAMF_PREFIX)
_Row = tuple[int, int, int, int, int, int, int, bytes, bytes]  # Of the table ``entries``, in the order of its columns.


@dataclass(slots=True)
class _Known:
    """An entry held at some number: its hash (66 bytes) and state."""

    hash: bytes
    state: State


_BEFORE_FIRST = _Known(b"", State.VERIFIED)  # Entry 1 has no backlink, so an empty hash stands in front of it.


class Received(NamedTuple):
    """An entry to take in with its payload (None: not at hand), both checked.

    ``lied``: the payload has the right hash, and another size than the entry claims.
    """

    entry: Entry
    payload: Buffer | None
    lied: bool


class HoldingArea:
    """How many entries may still begin to wait in this transaction, of at most so many, and so many bytes, in all logs.

    The store is asked once, when the first entry would wait. Entries that stop waiting later in the transaction make no
    room before the next one.
    """

    def __init__(self, connection: sqlite3.Connection, max_entries: int, max_bytes: int) -> None:
        self._db = connection
        self._most = max_entries, max_bytes
        self._room: tuple[int, int] | None = None

    def take(self, size: int) -> None:
        """Take room for an entry and its payload of so many bytes together; ``HoldingAreaFull`` if there is none."""
        entries, free = self._look() if self._room is None else self._room
        if entries < 1 or free < size:
            self._room = entries, free
            raise HoldingAreaFull(
                "the holding area is full: as much as is allowed waits for entries on its certificate path"
                f" (at most {self._most[0]} entries and {self._most[1]} bytes)"
            )
        self._room = entries - 1, free - size

    def _look(self) -> tuple[int, int]:
        (count,) = the_row(self._db.execute(f"SELECT count(*) FROM entries WHERE {IS_WAITING}"), COUNT)
        if count >= self._most[0]:  # The index tells that. Their bytes would cost a look at each of them.
            return 0, 0
        query = f"SELECT coalesce(sum(length(encoded) + payload_held), 0) FROM entries WHERE {IS_WAITING}"
        (size,) = the_row(self._db.execute(query), COUNT)
        return self._most[0] - count, self._most[1] - size


class LogView(LogRow):
    """One log while entries are added to it, inside a writing transaction. ``is_new``: it had no entries before.

    A log without an entry gets no row, so that entries which are refused leave nothing behind.
    """

    def __init__(self, database: Database, log: Log, change: int) -> None:
        self._database = database
        self._db = connection = database.connection
        row = first_row(connection.execute(_LOG, log_key(log)), *_LOG_ROW) or _NO_LOG
        newest, greatest, contiguous = (optional_from_sql(stored) or 0 for stored in row[1:4])
        ended_at, forked_at, invalid_from = map(optional_from_sql, row[4:7])
        held = newest, greatest, contiguous
        super().__init__(log, row[0], *held, ended_at, forked_at, invalid_from, change, Sums.of(*row[7:11]), row[11])
        self.is_new = not self.greatest
        self.is_confirmed: bool | None = None
        """For ``culm.store.append``: whether the log is confirmed; None: not asked so far."""
        self._known: dict[int, list[_Known]] = {}
        self._waits = bool(row[12])
        self._rows: list[_Row] = []

    @staticmethod
    def of(database: Database, log: Log, change: int) -> "LogView":
        """The log as the transaction before has left it, if that kept it: nothing is read then."""
        view: LogView | None = database.earlier_views.get(log)
        if view is None:
            return LogView(database, log, change)
        view.go_on(change)
        return view

    def go_on(self, change: int) -> None:
        """Serve another transaction, which begins where the one before has ended."""
        self.change = change
        self.is_new = not self.greatest
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()

    @staticmethod
    def keep(database: Database, views: dict[Log, "LogView"]) -> None:
        """Keep logs as they are now, at the end of a transaction, for the next one."""
        if len(views) <= _MOST_VIEWS:
            database.views.update(views)

    def add(
        self, entry: Entry, entry_id: int, payload_state: PayloadState, held: int, area: HoldingArea | None = None
    ) -> tuple[State, list[ForkProof]]:
        """Add a new authentic entry; its state, and the fork proofs that it makes with others.

        The caller has made sure that the entry is not held yet. Its row reaches the database with ``flush``.
        ``StoreFull`` if too many entries of its number are held, ``HoldingAreaFull`` if it would have to wait and the
        ``area`` has no room (None: it has); nothing has changed then.
        """
        seq = entry.seq
        variant = 0
        proofs: list[ForkProof] = []
        if self._follows(entry):
            state = State.VERIFIED
        else:
            variant = len(self._at(seq))
            proofs = self._contradictions(entry)
            if variant >= MAX_VARIANTS and not any(self._is_lowest(proof) for proof in proofs):
                raise StoreFull(f"{MAX_VARIANTS} different entries of this number are held already: no more are kept")
            # What proves a fork is invalid at once, and so is an entry with a lie. Neither waits.
            may_wait = not proofs and payload_state is not PayloadState.SIZE_MISMATCH
            if may_wait and area is not None and self._state_of(entry) is State.WAITING:
                area.take(len(entry.encoded) + held)
            for proof in proofs:
                self._record(proof)
            state = self._state_of(entry)
        self._ensure_row()
        digest = entry.hash[_DIGEST_AT:]
        self._rows.append((entry_id, self.id, to_sql(seq), variant, state, payload_state, held, digest, entry.encoded))
        self._at(seq).append(_Known(entry.hash, state))
        has_entries_above = seq < self.greatest
        self.greatest = max(self.greatest, seq)
        if entry.is_end and (self.ended_at is None or seq < self.ended_at):
            self.ended_at = seq
        if state is State.VERIFIED:
            self.newest = max(self.newest, seq)
            if has_entries_above and self._waits:
                self._release(entry)
        elif state is State.WAITING:
            self._waits = True
        if payload_state is PayloadState.COMPLETE:
            self.payload_settled(seq)
        return state, proofs

    def extend(self, items: Sequence[Received], entry_id: int) -> int:
        """Add the entries at the front that plainly go on with a sound log; how many these are.

        Exactly what ``add`` does with each of them, in one loop: nearly all entries of nearly all logs come this way,
        so every call that is spared in it counts. The first gets the row id ``entry_id``, the next one the following.
        """
        if self.newest != self.greatest or self.ended_at is not None or self.invalid_from is not None:
            return 0
        newest = self._at(self.newest) if self.newest else [_BEFORE_FIRST]
        if len(newest) != 1 or newest[0].state is not State.VERIFIED:
            return 0
        known, fits, settled = self._known, self._fits, self.contiguous
        # As plain numbers: of an enumeration's member sqlite3 asks each time how to store it, which takes longer.
        verified, complete, absent = int(State.VERIFIED), int(PayloadState.COMPLETE), int(PayloadState.ABSENT)
        count, before, last = 0, self.newest, newest[0].hash or None
        for entry, payload, lied in items:
            seq, back, jump = entry.seq, entry.backlink, entry.lipmaalink
            # No entry of this number is held: there is none above the newest.
            if lied or seq != before + 1 or back != last or (jump is not None and not fits((lipmaa(seq), jump))):
                break
            if not count:
                self._ensure_row()
            last = entry.hash
            state, held = (absent, 0) if payload is None else (complete, entry.size)
            self._rows.append(
                (entry_id + count, self.id, to_sql(seq), 0, verified, state, held, last[_DIGEST_AT:], entry.encoded)
            )
            known[seq] = [_Known(last, State.VERIFIED)]
            settled += payload is not None and settled == before
            count, before = count + 1, seq
            if entry.is_end:
                self.ended_at = seq
                break
        self.newest = self.greatest = before
        self.contiguous = settled
        return count

    def grow(self, entry: Entry, sums: Sums, head: bytes) -> None:
        """The next entry of a sound log is written elsewhere, in a transaction that does nothing else."""
        self.go_on(self.change + 1)
        self.newest = self.greatest = self.contiguous = seq = entry.seq
        self._known[seq] = [_Known(entry.hash, State.VERIFIED)]
        self.sums, self.head = sums, head
        if entry.is_end:
            self.ended_at = seq

    def _ensure_row(self) -> None:
        if not self.id:
            query = "INSERT INTO logs (author, log_id, contiguous, change) VALUES (?, ?, ?, ?)"
            cursor = self._db.execute(query, (*log_key(self.log), to_sql(0), self.change))
            self.id = cursor.lastrowid or 0

    def _follows(self, entry: Entry) -> bool:
        """Whether an entry is plainly valid: it is the next one of a sound log, and its links fit the entries held.

        Most entries are, and this check is much cheaper than looking for contradictions in both directions.
        """
        if entry.seq != self.newest + 1 or self.newest != self.greatest or self.ended_at is not None:
            return False
        if self.invalid_from is not None:
            return False
        return all(map(self._fits, entry.links))

    def _fits(self, link: tuple[int, bytes]) -> bool:
        """Whether a link leads to the only entry of its number, and that is verified."""
        target, expected = link
        there = self._known.get(target) or self._at(target)
        return len(there) == 1 and there[0].hash == expected and there[0].state is State.VERIFIED

    def held(self, entry: Entry) -> bool:
        """Whether exactly this entry is held already."""
        return any(known.hash == entry.hash for known in self._at(entry.seq))

    def hash_at(self, seq: int) -> bytes | None:
        """The hash (66 bytes) of the entry of a number, the first if there are several; None if none is held."""
        return next((known.hash for known in self._at(seq)), None)

    def attach_payload(self, entry: Entry, *, lied: bool) -> int | None:
        """The payload of a held entry arrived: the row to write its pieces to, None if it is not wanted any more.

        ``lied`` says that the payload has the right hash and another size than the entry claims.
        """
        self._write_rows()
        query = "SELECT id, payload_state FROM entries WHERE log = ? AND seq = ? AND hash = ?"
        values = self.id, to_sql(entry.seq), entry.hash[_DIGEST_AT:]
        row_id, payload_state = the_row(self._db.execute(query, values), ROW, PAYLOAD_STATE)
        # A lie counts even if the payload was forgotten, because it makes the entry invalid.
        is_missing = payload_state in (PayloadState.ABSENT, PayloadState.PARTIAL)
        if not is_missing and not (lied and payload_state == PayloadState.FORGOTTEN):
            return None
        pieces.delete(self._db, row_id)
        state, held = (PayloadState.SIZE_MISMATCH, 0) if lied else (PayloadState.COMPLETE, entry.size)
        self._db.execute("UPDATE entries SET payload_state = ?, payload_held = ? WHERE id = ?", (state, held, row_id))
        if lied:
            self.invalidate_from(entry.seq)
            return None
        self.payload_settled(entry.seq)
        return int(row_id)

    def flush(self) -> None:
        """Write what ``add`` collected. The log's own row is written at the end of the transaction, with its sums."""
        self._write_rows()
        self._database.flushed.append(self)

    @property
    def is_whole(self) -> bool:
        """Whether the transaction before left each entry up to the greatest, once, and verified: nothing waits."""
        return self.forked_at is None and self.newest == self.greatest == self.sums.count

    @property
    def newest_hash(self) -> bytes:
        """The hash (66 bytes) of the newest verified entry; nothing if there is none."""
        return next((known.hash for known in self._at(self.newest) if known.state is State.VERIFIED), b"")

    # -- what stands where -------------------------------------------------------------------------------------

    def _at(self, seq: int) -> list[_Known]:
        known = self._known.get(seq)
        if known is None:
            known = []
            if seq <= self.greatest:
                query = "SELECT hash, state FROM entries WHERE log = ? AND seq = ? ORDER BY variant"
                rows = all_rows(self._db.execute(query, (self.id, to_sql(seq))), BYTES, STATE)
                known = [_Known(YAMF_PREFIX + digest, State(state)) for digest, state in rows]
            self._known[seq] = known
        return known

    def _entries_at(self, seq: int) -> list[Entry]:
        if seq > self.greatest:
            return []
        self._write_rows()
        query = "SELECT encoded FROM entries WHERE log = ? AND seq = ? ORDER BY variant"
        rows = all_rows(self._db.execute(query, (self.id, to_sql(seq))), BYTES)
        return [entry_of(encoded) for (encoded,) in rows]

    def _write_rows(self) -> None:
        if self._rows:
            insert_rows(self._db, "entries", self._rows)
            runs = list(_verified_runs(self.id, self._rows))
            news = [(self.change, self.id, at, 2 * full, entry, len(digests)) for _, at, entry, full, digests in runs]
            self._db.executemany("INSERT INTO news VALUES (?, ?, ?, ?, ?, ?)", news)
            self._database.inserted += runs
            self._rows.clear()

    # -- paths -------------------------------------------------------------------------------------------------

    def _state_of(self, entry: Entry) -> State:
        if self.invalid_from is not None and entry.seq >= self.invalid_from:
            return State.INVALID
        if entry.seq == 1:
            return State.VERIFIED
        for target, expected in entry.links:
            for known in self._at(target):
                if known.hash == expected and known.state is State.VERIFIED:
                    return State.VERIFIED
        return State.WAITING

    def _release(self, entry: Entry) -> None:
        """Verify the entries that waited for ``entry``, and those that waited for these in turn."""
        self._write_rows()
        reached = [entry.seq]
        while reached:
            for above in linkers(reached.pop()):
                if above > self.greatest or (self.invalid_from is not None and above >= self.invalid_from):
                    break
                for known, candidate in zip(self._at(above), self._entries_at(above), strict=True):
                    if known.state is State.WAITING and self._state_of(candidate) is State.VERIFIED:
                        known.state = State.VERIFIED
                        values = State.VERIFIED, self.id, to_sql(above), candidate.hash[_DIGEST_AT:]
                        query = "UPDATE entries SET state = ? WHERE log = ? AND seq = ? AND hash = ?"
                        self._db.execute(query, values)
                        self.newest = max(self.newest, above)
                        reached.append(above)

    # -- forks -------------------------------------------------------------------------------------------------

    def _contradictions(self, entry: Entry) -> list[ForkProof]:
        """The proofs that a new entry makes with entries held: at most one for each number that it touches."""
        others: list[Entry] = []
        if self._at(entry.seq):
            others += self._entries_at(entry.seq)[:1]
        if self.ended_at is not None and entry.seq > self.ended_at:
            others += [held for held in self._entries_at(self.ended_at) if held.is_end][:1]
        if entry.is_end and entry.seq < self.greatest:
            others += self._next_above(entry.seq)
        for target, expected in entry.links:
            there = self._at(target)
            if there and all(known.hash != expected for known in there):
                others += self._entries_at(target)[:1]
            elif not there:
                others += self._linking_to(target, expected, entry.seq)
        if entry.seq < self.greatest:
            others += self._linking_to(entry.seq, entry.hash, entry.seq)
        proofs = (ForkProof.of(entry, other) for other in others)
        return list({proof.encode(): proof for proof in proofs if proof is not None}.values())

    def _linking_to(self, target: int, expected: bytes, but: int) -> list[Entry]:
        """The first held entry that links to ``target`` and expects a hash other than ``expected`` there."""
        for seq in linkers(target):
            if seq > self.greatest:
                break
            if seq == but or not self._at(seq):
                continue
            for held in self._entries_at(seq):
                if dict(held.links).get(target, expected) != expected:
                    return [held]
        return []

    def _next_above(self, seq: int) -> list[Entry]:
        self._write_rows()
        query = "SELECT encoded FROM entries WHERE log = ? AND seq > ? ORDER BY seq, variant LIMIT 1"
        row = first_row(self._db.execute(query, (self.id, to_sql(seq))), BYTES)
        return [] if row is None else [entry_of(row[0])]

    def _is_lowest(self, proof: ForkProof) -> bool:
        return self.forked_at is None or proof.position < self.forked_at

    def _record(self, proof: ForkProof) -> None:
        if lowest := self._is_lowest(proof):
            self.forked_at = proof.position
            self.invalidate_from(proof.position)
        (count,) = the_row(self._db.execute("SELECT count(*) FROM forks WHERE log = ?", (self.id,)), COUNT)
        if count < MAX_PROOFS or lowest:
            self._db.execute(
                "INSERT OR IGNORE INTO forks (log, position, first, second) VALUES (?, ?, ?, ?)",
                (self.id, to_sql(proof.position), proof.first.encoded, proof.second.encoded),
            )

    def invalidate_from(self, position: int) -> None:
        """Call everything at or after ``position`` invalid."""
        if self.invalid_from is not None and self.invalid_from <= position:
            return
        self.invalid_from = position
        self._write_rows()
        values = State.INVALID, self.id, to_sql(position)
        self._db.execute("UPDATE entries SET state = ? WHERE log = ? AND seq >= ?", values)
        for seq, variants in self._known.items():
            if seq >= position:
                for known in variants:
                    known.state = State.INVALID
        query = f"SELECT max(seq) FROM entries WHERE log = ? AND {IS_VERIFIED}"
        (newest,) = the_row(self._db.execute(query, (self.id,)), _OPTIONAL)
        self.newest = optional_from_sql(newest) or 0

    # -- completeness ------------------------------------------------------------------------------------------

    def payload_settled(self, seq: int) -> None:
        """An entry is held, and its payload is complete or given up: extend the run from entry 1 that lacks nothing."""
        if seq != self.contiguous + 1:
            return
        self.contiguous = seq
        if seq < self.greatest:
            self._write_rows()
            query = f"SELECT DISTINCT seq FROM entries WHERE log = ? AND seq > ? AND {IS_SETTLED} ORDER BY seq"
            for (stored,) in each_row(self._db.execute(query, (self.id, to_sql(seq))), SEQ):
                if from_sql(stored) != self.contiguous + 1:
                    break
                self.contiguous += 1


def _verified_runs(log: int, rows: list[_Row]) -> Iterator[Inserted]:
    """The verified entries among rows of a log that are inserted."""
    if len(rows) == 1:  # As with each append that is alone: the columns below would cost it five times as much.
        ((entry, _, seq, _, state, payload_state, _, digest, _),) = rows
        if state == State.VERIFIED:
            yield Inserted(log, seq, entry, payload_state == PayloadState.COMPLETE, (digest,))
        return
    ids, _, seqs, _, states, payload_states, _, digests, _ = zip(*rows, strict=True)
    # Neighbours have equal marks: numbers and row ids that grow with the place. A comparison of each row with the one
    # before, in Python, would take longer than all the rest.
    marks = list(zip(map(sub, ids, count()), map(sub, seqs, count()), states, payload_states, strict=False))
    begins = [0, *compress(count(1), map(ne, marks, marks[1:])), len(rows)]
    for begin, end in pairwise(begins):
        if states[begin] == State.VERIFIED:
            has_payloads = payload_states[begin] == PayloadState.COMPLETE
            yield Inserted(log, seqs[begin], ids[begin], has_payloads, digests[begin:end])
