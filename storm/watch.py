"""Looking into a node's store, behind its back, after every write: what is there must be right, and stay.

Read by SQL, not by the store's own code:

- every entry was signed by its author, and every payload that counts as complete is the one that was published;
- its state is what follows from the entries that are held: nothing unverified shows, nothing verified is hidden;
- a fork is known if and only if entries are held that prove it, at the lowest place that they prove;
- a log is in a clump only if somebody published or shared it there, and in every clump only if its owner says so;
- what was verified once is so for ever, as far as no fork came to light; a payload that was complete once is, as long
  as the node did not forget it.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from culm.bamboo import Entry
from culm.store import PayloadState, State
from culm.store.schema import from_sql
from culm.types import Log
from storm.ledger import HASH_AT, Ledger, log_name, states

_Row = tuple[int, bytes, int, int, int]


@dataclass(slots=True)
class Seen:
    """A log. ``verified``: by number, ascending, the digest and how much there is of the payload. ``limit``: a fork."""

    verified: dict[int, tuple[bytes, int]]
    limit: int | None

    def complete(self) -> list[int]:
        """The entries whose payload is held, ascending."""
        return [seq for seq, (_, payload) in self.verified.items() if payload == PayloadState.COMPLETE]


class StoreWatch:
    """Watches one node's store, through its restarts. ``fail`` is told what is wrong.

    ``logs`` is what showed the last time. ``everywhere``: logs, and authors, that may be served in every clump.
    """

    def __init__(self, ledger: Ledger, fail: Callable[[str], None]) -> None:
        self.logs: dict[Log, Seen] = {}
        self.everywhere: set[bytes | Log] = set()
        self._marks: defaultdict[Log, set[bytes]] = defaultdict(set)
        self._told_to_forget: set[bytes] = set()  # perhaps in vain
        self._told_to_want: set[bytes] = set()
        self._forgotten: set[bytes] = set()
        self._ledger = ledger
        self._fail = fail
        self._shown: dict[bytes, bool] = {}  # verified entries: whether with their payload
        self._read: set[bytes] = set()  # those whose payload was compared since the file was opened
        self._safe: dict[bytes, bool] = {}  # those that no power cut can take
        self._safely_forgotten: set[bytes] = set()
        self._held: dict[Log, set[bytes]] = {}
        self._limits: dict[Log, int] = {}
        self._connection: sqlite3.Connection | None = None
        self._version = -1
        self._change = -1

    # -- the node's life ---------------------------------------------------------------------------------------

    def open(self, path: Path) -> None:
        """The node is going to use a file: the one it had, or what was found of it."""
        self.close()
        self._payloads = path.with_name(path.name + "-payloads")
        self._connection = sqlite3.connect(
            f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        self._version = self._change = -1
        self._held, self._limits, self.logs, self._read = {}, {}, {}, set()
        self.look()
        self._check_all_shown()

    def close(self) -> None:
        """The node does not use it any more."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def everything_is_safe(self) -> None:
        """What shows now is on the disk for sure."""
        self._safe = dict(self._shown)
        self._safely_forgotten = set(self._forgotten)

    def power_cut(self) -> None:
        """What came last may be gone, and what was forgotten last may be there."""
        self._shown = dict(self._safe)
        self._forgotten = set(self._safely_forgotten)

    # -- what is forgotten -------------------------------------------------------------------------------------

    def complete(self) -> list[Entry]:
        """The verified entries whose payload is held, empty ones left out."""
        found = [self._ledger.entries[digest] for digest, is_complete in self._shown.items() if is_complete]
        return [entry for entry in found if entry.size]

    def forgotten(self) -> list[Entry]:
        """The entries whose payload was forgotten."""
        return [self._ledger.entries[digest] for digest in self._forgotten]

    def may_forget(self, digests: Iterable[bytes]) -> None:
        """The node is told to forget payloads, by the digests of their entries."""
        self._told_to_forget.update(digests)
        self._told_to_want.difference_update(digests)

    def may_want_again(self, digests: Iterable[bytes]) -> None:
        """The node is told to want payloads again."""
        self._told_to_want.update(digests)

    # -- looking -----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Check the logs that have changed since the last time."""
        if self._connection is None:
            return
        ((version,),) = self._rows("PRAGMA data_version")
        if version == self._version:
            return
        self._version = version
        change = self._change
        self._rows("BEGIN")
        try:
            ((self._change,),) = self._rows("SELECT value FROM counters WHERE name = 'change'")
            logs = self._rows("SELECT id, author, log_id, forked_at, invalid_from FROM logs WHERE change > ?", change)
            self._read_marks()
            for row, author, log_id, *fork in logs:
                self._check_log(row, (author, from_sql(log_id)), fork)
        finally:
            self._rows("COMMIT")

    def serves(self, log: Log, clump: bytes) -> bool:
        """Whether a log that is held may be served in a clump."""
        return log not in self._marks or clump in self._marks[log]

    def _read_marks(self) -> None:
        self._marks.clear()
        for author, log_id, clump in self._rows("SELECT author, log_id, clump FROM log_clumps"):
            log = author, from_sql(log_id)
            self._marks[log].add(clump)
            if clump not in self._ledger.clumps[log] and not self._ledger.is_bridged:
                self._fail(f"{log_name(log)} came in clump {clump.decode()}, where nobody has published it")

    def _rows(self, statement: str, *values: int) -> list[Any]:
        assert self._connection is not None
        return self._connection.execute(statement, values).fetchall()

    def _check_log(self, row: int, log: Log, fork: list[int | None]) -> None:
        """``fork``: where the store says that the log is forked, and from where on it is invalid."""
        rows: list[_Row] = self._rows(
            "SELECT id, hash, state, payload_state, payload_held FROM entries WHERE log = ? ORDER BY seq, variant", row
        )
        if rows and log not in self._marks and not self.everywhere & {log, log[0]}:
            self._fail(f"{log_name(log)} is served in every clump, and nobody said so")
        held = self._held.setdefault(log, set())
        if gone := held - {digest for _, digest, *_ in rows}:
            self._fail(f"{log_name(log)}: {len(gone)} entries have gone")
            return
        for entry_id, digest, *_ in rows:
            if digest not in held and not self._take_note(log, entry_id, digest):
                return
        limit = self._limits.get(log)
        self._check_fork(row, log, limit, fork)
        seen = self.logs[log] = Seen({}, limit)
        expected = states((self._ledger.entries[digest] for _, digest, *_ in rows), limit)
        for entry_id, digest, state, payload_state, payload_held in rows:
            entry = self._ledger.entries[digest]
            if state != expected[digest]:
                name = f"{log_name(log)}/{entry.seq}"
                self._fail(f"{name} is called {State(state).name}, and is {expected[digest].name}")
            self._check_payload(entry, entry_id, payload_state, payload_held)
            if state == State.VERIFIED:
                self._shown[digest] = payload_state == PayloadState.COMPLETE
                seen.verified[entry.seq] = digest, payload_state

    def _take_note(self, log: Log, entry_id: int, digest: bytes) -> bool:
        """An entry is there that was not: whether it may be."""
        if digest not in self._ledger.entries:
            ((encoded,),) = self._rows("SELECT encoded FROM entries WHERE id = ?", entry_id)
            entry = Entry.decode(encoded)
            wrong = self._ledger.meet(entry)
            if wrong is not None or entry.hash[HASH_AT:] != digest or entry.log != log:
                self._fail(f"{log_name(log)}: there is an entry {entry.seq} that should not be: {wrong}")
                return False
        held = self._held[log]
        positions = [at for other in held if (at := self._ledger.position(digest, other)) is not None]
        if positions:
            self._limits[log] = min(*positions, self._limits.get(log, positions[0]))
        held.add(digest)
        return True

    def _check_fork(self, row: int, log: Log, limit: int | None, fork: list[int | None]) -> None:
        ((proved,),) = self._rows("SELECT min(position) FROM forks WHERE log = ?", row)
        known = [None if value is None else from_sql(value) for value in (*fork, proved)]
        if known != [limit] * 3:
            self._fail(f"{log_name(log)}: the entries held prove a fork at {limit}; known are {known}")
        if limit is not None and log[0] not in self._ledger.forkers:
            self._fail(f"{log_name(log)}: forked at {limit}, and its author has one store")

    def _check_payload(self, entry: Entry, entry_id: int, state: int, held: int) -> None:
        digest = entry.hash[HASH_AT:]
        if state == PayloadState.COMPLETE:
            self._compare_payload(entry, entry_id)
            if held != entry.size:
                self._fail(f"{log_name(entry.log)}/{entry.seq}: {held} of {entry.size} bytes count as all")
        elif self._shown.get(digest, False) and digest not in self._told_to_forget:
            self._fail(f"the payload of {log_name(entry.log)}/{entry.seq} has gone")
        if state != PayloadState.COMPLETE:
            self._read.discard(digest)  # it may come again
        if state == PayloadState.FORGOTTEN:
            self._forgotten.add(digest)
            if digest not in self._told_to_forget:
                self._fail(f"the payload of {log_name(entry.log)}/{entry.seq} was forgotten, and nobody said so")
        elif digest in self._forgotten:
            self._forgotten.discard(digest)
            if digest not in self._told_to_want:
                self._fail(f"the payload of {log_name(entry.log)}/{entry.seq} is wanted again, and nobody said so")
        if state == PayloadState.SIZE_MISMATCH:
            self._fail(f"the author of {log_name(entry.log)}/{entry.seq} is said to have lied")

    def _compare_payload(self, entry: Entry, entry_id: int) -> None:
        """A payload that counts as complete, if it did not already when it was last looked at."""
        digest = entry.hash[HASH_AT:]
        if digest not in self._read and self._read_payload(entry_id) != self._ledger.payload_of(entry):
            self._fail(f"the payload of {log_name(entry.log)}/{entry.seq} is not the one that was published")
        self._read.add(digest)

    def _read_payload(self, entry_id: int) -> bytes:
        pieces = self._rows("SELECT piece FROM payloads WHERE entry = ? ORDER BY at", entry_id)
        if pieces:
            return b"".join(piece for (piece,) in pieces)
        files = self._rows("SELECT name FROM payload_files WHERE entry = ?", entry_id)
        return b"".join((self._payloads / name).read_bytes() for (name,) in files)

    def _check_all_shown(self) -> None:
        """The file was opened anew: what showed must be there."""
        held = {digest for digests in self._held.values() for digest in digests}
        for digest in self._shown:
            if digest not in held:
                entry = self._ledger.entries[digest]
                self._fail(f"{log_name(entry.log)}/{entry.seq} was verified, and is gone after a restart")
