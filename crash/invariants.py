"""What must hold of a store at any moment, asked of its tables by another way than the one that wrote them.

``problems`` looks at one store; ``not_an_earlier_state`` compares a store with a later state of the same. Both return a
line for each thing that is wrong. Signatures, hashes, links, payloads and the record index are what ``culm verify``
checks; that is called besides.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from culm.store.payloads.folder import Folder
from culm.store.payloads.pieces import LARGE_BYTES
from culm.store.schema import PayloadState, State, from_sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from culm.types import Log

_SHOWN = 5
# The news of each entry, in a table of its own with an index: in a store, neighbours share a row.
_EACH = """CREATE TEMP TABLE each AS
WITH RECURSIVE unfolded (change, log, seq, kind, entry, count) AS (
    SELECT change, log, seq, kind, entry, count FROM news
    UNION ALL
    SELECT change, log, seq + 1, kind, entry + 1, count - 1 FROM unfolded WHERE count > 1
)
SELECT change, log, seq, kind, entry FROM unfolded"""
_EACH_BY_ENTRY = "CREATE INDEX temp.each_by_entry ON each (entry)"
# Each gives a row for everything that is wrong.
_QUERIES = {
    "news of an entry that is not there, or stands elsewhere": (
        "SELECT each.log, each.seq FROM each LEFT JOIN entries ON entries.id = each.entry"
        " WHERE entries.id IS NULL OR (entries.log, entries.seq) <> (each.log, each.seq)"
    ),
    "news of a change that is to come": (
        "SELECT change, log, seq FROM news WHERE change > (SELECT value FROM counters WHERE name = 'change')"
    ),
    "a verified entry of which there are no news, or several": (
        "SELECT log, seq FROM entries WHERE state = 2"
        " AND 1 <> (SELECT count(*) FROM each WHERE each.entry = entries.id AND kind IN (0, 2))"
    ),
    "a complete payload of which there are no news": (
        "SELECT log, seq FROM entries WHERE state = 2 AND payload_state = 2"
        " AND NOT EXISTS (SELECT 1 FROM each WHERE each.entry = entries.id AND kind IN (1, 2))"
    ),
    "news of a payload that was never complete": (
        "SELECT log, seq FROM entries WHERE state = 2 AND payload_state <> 2"
        " AND NOT EXISTS (SELECT 1 FROM payloads_lost WHERE entry = entries.id)"
        " AND EXISTS (SELECT 1 FROM each WHERE each.entry = entries.id AND kind IN (1, 2))"
    ),
    "changes that no transaction took up": "SELECT log, at FROM record_changes",
    "files that were dropped and are still noted": "SELECT name FROM dropped_files",
    "a log whose last change is to come": (
        "SELECT id FROM logs WHERE change > (SELECT value FROM counters WHERE name = 'change')"
    ),
    "a log whose newest or greatest entry is another": (
        "SELECT id FROM logs WHERE newest IS NOT (SELECT max(seq) FROM entries WHERE log = logs.id AND state = 2)"
        " OR greatest IS NOT (SELECT max(seq) FROM entries WHERE log = logs.id)"
    ),
    "a payload that is both in the database and in a file": (
        "SELECT entry FROM payloads JOIN payload_files USING (entry)"
    ),
    "pieces or a file where nothing of a payload is held": (
        "SELECT id FROM entries WHERE payload_state NOT IN (1, 2)"
        " AND (payload_held OR id IN (SELECT entry FROM payloads) OR id IN (SELECT entry FROM payload_files))"
    ),
    "pieces of an entry that is not there": "SELECT entry FROM payloads WHERE entry NOT IN (SELECT id FROM entries)",
    "a file of an entry that is not there": (
        "SELECT entry FROM payload_files WHERE entry NOT IN (SELECT id FROM entries)"
    ),
    "a file of two entries": "SELECT name FROM payload_files GROUP BY name HAVING count(*) > 1",
}


class Held(NamedTuple):
    """What is held of an entry."""

    hash: bytes
    state: State
    payload_state: PayloadState
    payload_held: int


@dataclass(frozen=True)
class Contents:
    """Everything a store holds: by log, number and hash. ``news`` in their order, ``files`` by name."""

    change: int
    entries: dict[tuple[Log, int, bytes], Held]
    news: list[tuple[int, int, int, int, int]]
    files: frozenset[str]

    def of_log(self, log: Log) -> dict[int, Held]:
        """What is held of a log, by number; of several entries of a number, any."""
        return {seq: held for (of, seq, _), held in self.entries.items() if of == log}


def read(store: Path) -> Contents:
    """The contents of a store of the present version."""
    with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        ((change,),) = connection.execute("SELECT value FROM counters WHERE name = 'change'")
        rows = connection.execute(
            "SELECT author, log_id, seq, hash, state, payload_state, payload_held"
            " FROM entries JOIN logs ON logs.id = entries.log"
        )
        entries = {
            ((author, from_sql(log_id)), from_sql(seq), digest): Held(
                digest, State(state), PayloadState(payload_state), held
            )
            for author, log_id, seq, digest, state, payload_state, held in rows
        }
        connection.execute(_EACH)
        news = connection.execute("SELECT * FROM each ORDER BY change, log, seq, kind, entry").fetchall()
        files = frozenset(name for (name,) in connection.execute("SELECT name FROM payload_files"))
    return Contents(change, entries, news, files)


def problems(store: Path, *, may_lack: frozenset[str] = frozenset(), begun_may: bool = False) -> list[str]:
    """What is wrong with a store of the present version.

    ``may_lack`` names payload files that may be gone; ``begun_may``: so may those of payloads that are not complete.
    """
    with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        found = [row for (row,) in connection.execute("PRAGMA integrity_check(5)") if row != "ok"]
        found += [f"a reference to nothing: {row}" for row in connection.execute("PRAGMA foreign_key_check")]
        connection.execute(_EACH)
        connection.execute(_EACH_BY_ENTRY)
        for what, query in _QUERIES.items():
            if rows := connection.execute(query).fetchmany(_SHOWN):
                found.append(f"{what}: {rows}")
        found += _payload_problems(connection, Folder(store), may_lack, begun_may=begun_may)
        found += _contiguous_problems(connection)
    return found


def _payload_problems(
    connection: sqlite3.Connection, folder: Folder, may_lack: frozenset[str], *, begun_may: bool
) -> list[str]:
    found = []
    ends: dict[int, int] = defaultdict(int)
    for entry, at, size in connection.execute("SELECT entry, at, length(piece) FROM payloads ORDER BY entry, at"):
        if at != ends[entry]:
            found.append(f"the pieces of entry {entry} do not follow each other at {at}")
        ends[entry] = at + size
    files = dict(connection.execute("SELECT entry, name FROM payload_files"))
    rows = connection.execute("SELECT id, payload_state, payload_held FROM entries WHERE payload_state IN (1, 2)")
    for entry, state, held in rows:
        name = files.get(entry)
        if name is None:
            if ends[entry] != held:
                found.append(f"of entry {entry} {held} bytes count and {ends[entry]} are there")
            if held > LARGE_BYTES:
                found.append(f"the large payload of entry {entry} is in the database")
        elif begun_may and state == PayloadState.PARTIAL:
            continue
        elif name not in may_lack and folder.size(name) < held:
            found.append(f"of entry {entry} {held} bytes count, and {folder.size(name)} are in its file")
    return found


def _contiguous_problems(connection: sqlite3.Connection) -> Iterator[str]:
    """Logs in which another number than the greatest up to which nothing is missing is noted; forked ones aside."""
    for log, stored in connection.execute("SELECT id, contiguous FROM logs WHERE invalid_from IS NULL").fetchall():
        reached = 0
        there = "SELECT DISTINCT seq FROM entries WHERE log = ? AND payload_state IN (2, 3) ORDER BY seq"
        for (seq,) in connection.execute(there, (log,)):
            if from_sql(seq) != reached + 1:
                break
            reached += 1
        if reached != from_sql(stored):
            yield f"nothing is missing of log {log} up to {reached}, and {from_sql(stored)} is noted"


def not_an_earlier_state(earlier: Contents, later: Contents) -> list[str]:
    """What speaks against a store having been, at its change number, what it is: a later state is known."""
    found = []
    if earlier.change > later.change:
        found.append(f"change {earlier.change} is later than {later.change}")
    expected = [row for row in later.news if row[0] <= earlier.change]
    if expected != earlier.news:
        odd = sorted(set(expected) ^ set(earlier.news))[:_SHOWN]
        found.append(f"the news up to change {earlier.change} are others: {odd}")
    if strangers := set(earlier.entries) - set(later.entries):
        found.append(f"{len(strangers)} entries that are not there later")
    return found
