"""The tables of the SQLite store, the states in them, and the SQL conditions that name those states.

SQLite has signed integers only, but an author may sign any sequence number up to 2^64 - 1. Unsigned numbers are
therefore stored 2^63 lower (``to_sql``, ``from_sql``). This keeps their order, so indexes, ``min`` and ``BETWEEN`` are
right up to the last number.

==============  ========================================================================================================
logs            a row for each log: the sums of its entries, so that no session has to read them all
entries         the entries; ``variant`` numbers different entries of one sequence number (a fork) as they came, from 0
payloads        pieces of small payloads: ``at`` is the offset of the piece's first byte
payload_files   large payloads: the name of the payload's file; see ``culm.store.payloads.pieces``
dropped_files   files to delete when the transaction has been committed
forks           fork proofs
counters        ``change`` grows with every writing transaction; ``logs.change`` is its value when the log last changed;
                earlier versions of Culm need ``unsettled``
records         the store as sets to reconcile; see ``culm.store.records.index``
record_blocks   the sums over neighbouring records
runs            which entries and payloads are held, as runs of neighbours; see ``culm.store.records.runs``
news            entries in the order in which they were verified, as runs of neighbours; see ``culm.store.news``
payloads_lost   entries whose payload was complete once and is not any more: if it comes again, it is not reported again
unconfirmed     authors whose logs the store may not hold up to their newest entry; see ``culm.store.confirming``
confirmed       the logs of these authors that it does hold so far
damaged         entries whose payload was damaged on the disk and has not come again
log_clumps      the clumps that a log is served in; see ``culm.store.provenance``
record_changes  the records that a transaction has changed so far, but for new ones; empty between transactions
==============  ========================================================================================================
"""

import re
import sqlite3
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

from culm.errors import StoreDamaged
from culm.types import Log

APPLICATION_ID = 0x43554C4D  # "CULM", so that `file` and SQLite's own tools can tell a store from other databases
_OFFSET = 2**63


def to_sql(number: int) -> int:
    """An unsigned 64-bit number as the database stores it."""
    return number - _OFFSET


def from_sql(stored: int) -> int:
    """The number that ``to_sql`` stored."""
    return stored + _OFFSET


def optional_from_sql(stored: int | None) -> int | None:
    """The same for a column that may be empty."""
    return None if stored is None else stored + _OFFSET


def log_key(log: Log) -> tuple[bytes, int]:
    """The author and the log id, as the database stores them."""
    return log[0], to_sql(log[1])


class State(IntEnum):
    """The store's verdict on an entry. All entries held are authentic, because others are refused."""

    WAITING = 1  # entries of its certificate path are missing: the entry is held, but never shown as verified
    VERIFIED = 2
    INVALID = 3  # at or after the position of a fork, or of an entry whose author lied about the payload's size


class PayloadState(IntEnum):
    """How much of an entry's payload is held."""

    ABSENT = 0
    PARTIAL = 1
    COMPLETE = 2
    FORGOTTEN = 3  # deleted on purpose, so it is not fetched again
    SIZE_MISMATCH = 4  # a payload with the right hash and another size arrived: the author lied


# Conditions for queries on ``entries``. The states are written into the SQL text and not passed as parameters, because
# SQLite uses a partial index only if the query repeats the literal of the index's own WHERE clause.
IS_WAITING = f"state = {State.WAITING:d}"
IS_VERIFIED = f"state = {State.VERIFIED:d}"
IS_INVALID = f"state = {State.INVALID:d}"
IS_COMPLETE = f"payload_state = {PayloadState.COMPLETE:d}"
IS_INCOMPLETE = f"payload_state <> {PayloadState.COMPLETE:d}"
IS_FORGOTTEN = f"payload_state = {PayloadState.FORGOTTEN:d}"
IS_SETTLED = f"payload_state IN ({PayloadState.COMPLETE:d}, {PayloadState.FORGOTTEN:d})"
"""Nothing is to be fetched: the payload is complete or forgotten."""
OF_LOG = "log = (SELECT id FROM logs WHERE author = ? AND log_id = ?)"
"""The entries of a log; its parameters are ``log_key(log)``."""

# The scripts stand in the files of stores, as the text of their triggers: they keep their literals for ever.
# 2 is VERIFIED and COMPLETE, 3 is INVALID and FORGOTTEN.
VERSION_1 = """
CREATE TABLE logs (
    id            INTEGER PRIMARY KEY,
    author        BLOB    NOT NULL,
    log_id        INTEGER NOT NULL,
    newest        INTEGER,           -- newest verified entry
    greatest      INTEGER,           -- greatest number held, whatever its state
    contiguous    INTEGER NOT NULL,  -- 1 to here nothing is missing: entry held, payload complete or forgotten
    ended_at      INTEGER,           -- the lowest end-of-log entry held
    forked_at     INTEGER,           -- the lowest position of a fork
    invalid_from  INTEGER,           -- forked_at, or where a payload's size was lied about if that is lower
    change        INTEGER NOT NULL,
    UNIQUE (author, log_id)
);
CREATE INDEX logs_by_change ON logs (change);
CREATE TABLE entries (
    id            INTEGER PRIMARY KEY,
    log           INTEGER NOT NULL REFERENCES logs (id),
    seq           INTEGER NOT NULL,
    variant       INTEGER NOT NULL,
    state         INTEGER NOT NULL,
    payload_state INTEGER NOT NULL,
    payload_held  INTEGER NOT NULL,  -- bytes held, from the payload's start
    hash          BLOB    NOT NULL,  -- the 64 bytes of the digest, without the YAMF prefix
    encoded       BLOB    NOT NULL
);
CREATE UNIQUE INDEX entries_by_place ON entries (log, seq, variant);
CREATE INDEX entries_waiting ON entries (log, seq) WHERE state = 1;
CREATE INDEX entries_without_payload ON entries (log, seq) WHERE state = 2 AND payload_state <> 2;
CREATE TABLE payloads (
    entry INTEGER NOT NULL REFERENCES entries (id),
    at    INTEGER NOT NULL,
    piece BLOB    NOT NULL,
    PRIMARY KEY (entry, at)
) WITHOUT ROWID;
CREATE TABLE forks (
    id       INTEGER PRIMARY KEY,
    log      INTEGER NOT NULL REFERENCES logs (id),
    position INTEGER NOT NULL,
    first    BLOB    NOT NULL,
    second   BLOB    NOT NULL,
    UNIQUE (log, first, second)
);
CREATE INDEX forks_by_position ON forks (log, position);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('change', 0);
"""

VERSION_2 = """
ALTER TABLE logs ADD COLUMN entry_count   INTEGER NOT NULL DEFAULT 0;  -- verified entries
ALTER TABLE logs ADD COLUMN entry_total   BLOB    NOT NULL DEFAULT x'';  -- the sum of their record ids
ALTER TABLE logs ADD COLUMN payload_count INTEGER NOT NULL DEFAULT 0;  -- those of them whose payload is complete
ALTER TABLE logs ADD COLUMN payload_total BLOB    NOT NULL DEFAULT x'';
ALTER TABLE logs ADD COLUMN head          BLOB;  -- the id of the log's head, if there is anything to say
CREATE INDEX logs_by_head ON logs (head) WHERE head IS NOT NULL;
CREATE INDEX entries_invalid ON entries (log) WHERE state = 3;
INSERT INTO counters VALUES ('unsettled', 0);  -- heads of logs changed from here on are not up to date
CREATE TABLE records (
    kind INTEGER NOT NULL,
    key  BLOB    NOT NULL,  -- timestamp and id: 40 bytes
    ref  INTEGER NOT NULL,  -- the row of the entry, or log, doubled; 1 more if the payload is complete
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE TABLE record_blocks (
    kind       INTEGER NOT NULL,
    first      BLOB    NOT NULL,  -- the key where the block begins; it ends where the next one begins
    count      INTEGER NOT NULL,
    total      BLOB    NOT NULL,  -- the sum of the ids
    held_count INTEGER NOT NULL,
    held_total BLOB    NOT NULL,
    PRIMARY KEY (kind, first)
) WITHOUT ROWID;
CREATE TABLE runs (
    log   INTEGER NOT NULL REFERENCES logs (id),
    kind  INTEGER NOT NULL,  -- 0: verified entries; 1: those with their payload
    first INTEGER NOT NULL,  -- sequence numbers less one
    last  INTEGER NOT NULL,
    PRIMARY KEY (log, kind, first)
) WITHOUT ROWID;
CREATE TABLE record_changes (
    entry  INTEGER NOT NULL,
    log    INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    id     BLOB    NOT NULL,
    listed INTEGER NOT NULL,  -- 1: became a record, -1: is none any more
    held   INTEGER NOT NULL   -- the same for its payload
);
CREATE TRIGGER entry_added AFTER INSERT ON entries WHEN NEW.state = 2 BEGIN
    INSERT INTO record_changes VALUES (
        NEW.id, NEW.log, NEW.seq - 1, substr(NEW.hash, 1, 32), 1, NEW.payload_state = 2
    );
END;
CREATE TRIGGER entry_changed AFTER UPDATE OF state, payload_state ON entries
WHEN (OLD.state = 2) <> (NEW.state = 2)
    OR (NEW.state = 2 AND (OLD.payload_state = 2) <> (NEW.payload_state = 2)) BEGIN
    INSERT INTO record_changes VALUES (
        NEW.id, NEW.log, NEW.seq - 1, substr(NEW.hash, 1, 32), (NEW.state = 2) - (OLD.state = 2),
        (NEW.state = 2 AND NEW.payload_state = 2) - (OLD.state = 2 AND OLD.payload_state = 2)
    );
END;
CREATE TRIGGER entry_removed AFTER DELETE ON entries WHEN OLD.state = 2 BEGIN
    INSERT INTO record_changes VALUES (
        OLD.id, OLD.log, OLD.seq - 1, substr(OLD.hash, 1, 32), -1, -(OLD.payload_state = 2)
    );
END;
"""

VERSION_3 = """
CREATE TABLE payload_files (
    entry INTEGER PRIMARY KEY REFERENCES entries (id),
    name  TEXT    NOT NULL
);
CREATE TABLE dropped_files (name TEXT NOT NULL);
CREATE TRIGGER payload_file_dropped AFTER DELETE ON payload_files BEGIN
    INSERT INTO dropped_files VALUES (OLD.name);
END;
"""

# The kinds of news: 0, an entry is verified; 1, the payload of a verified entry is complete; 2, both at once.
VERSION_4 = """
CREATE TABLE news (
    change INTEGER NOT NULL,  -- the store's change that brought it
    log    INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    kind   INTEGER NOT NULL,
    entry  INTEGER NOT NULL,
    PRIMARY KEY (change, log, seq, kind, entry)
) WITHOUT ROWID;
CREATE TABLE payloads_lost (entry INTEGER PRIMARY KEY);
CREATE TRIGGER news_of_entry AFTER INSERT ON entries WHEN NEW.state = 2 BEGIN
    INSERT INTO news VALUES (
        (SELECT value FROM counters WHERE name = 'change'), NEW.log, NEW.seq, 2 * (NEW.payload_state = 2), NEW.id
    );
END;
CREATE TRIGGER news_of_release AFTER UPDATE OF state ON entries WHEN OLD.state <> 2 AND NEW.state = 2 BEGIN
    INSERT INTO news VALUES (
        (SELECT value FROM counters WHERE name = 'change'), NEW.log, NEW.seq, 2 * (NEW.payload_state = 2), NEW.id
    );
END;
CREATE TRIGGER news_of_payload AFTER UPDATE OF payload_state ON entries
WHEN OLD.state = 2 AND NEW.state = 2 AND OLD.payload_state <> 2 AND NEW.payload_state = 2
    AND NOT EXISTS (SELECT 1 FROM payloads_lost WHERE entry = NEW.id) BEGIN
    INSERT INTO news VALUES (
        (SELECT value FROM counters WHERE name = 'change'), NEW.log, NEW.seq, 1, NEW.id
    );
END;
CREATE TRIGGER payload_lost AFTER UPDATE OF payload_state ON entries
WHEN OLD.state = 2 AND OLD.payload_state = 2 AND NEW.payload_state <> 2 BEGIN
    INSERT OR IGNORE INTO payloads_lost VALUES (NEW.id);
END;
"""

VERSION_5 = """
CREATE TABLE unconfirmed (author BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE confirmed (
    author BLOB    NOT NULL,
    log_id INTEGER NOT NULL,
    PRIMARY KEY (author, log_id)
) WITHOUT ROWID;
"""

VERSION_6 = """
ALTER TABLE payload_files ADD COLUMN sums BLOB;  -- CRC-32 of each MiB, 4 bytes each; NULL: not computed yet
CREATE TABLE damaged (entry INTEGER PRIMARY KEY REFERENCES entries (id));
CREATE TRIGGER payload_mended AFTER UPDATE OF payload_state ON entries WHEN NEW.payload_state IN (2, 3) BEGIN
    DELETE FROM damaged WHERE entry = NEW.id;
END;
"""

# Without an index by clump, a node could not tell quickly that all logs belong to the one clump that it serves.
VERSION_7 = """
CREATE TABLE log_clumps (
    author BLOB    NOT NULL,
    log_id INTEGER NOT NULL,
    clump  BLOB    NOT NULL,
    PRIMARY KEY (author, log_id, clump)
) WITHOUT ROWID;
CREATE INDEX log_clumps_by_clump ON log_clumps (clump);
INSERT INTO counters SELECT 'before_clumps', coalesce(max(id), 0) FROM logs;  -- logs up to this row came earlier
"""

# A trigger for each entry that is inserted took as long as inserting it. Entries are inserted in one place, which now
# says itself what is new, and says it of neighbours together.
VERSION_8 = """
DROP TRIGGER entry_added;
DROP TRIGGER news_of_entry;
DROP TRIGGER news_of_release;
DROP TRIGGER news_of_payload;
ALTER TABLE news ADD COLUMN count INTEGER NOT NULL DEFAULT 1;  -- neighbours from seq and entry on: each row one more
CREATE TRIGGER news_of_release AFTER UPDATE OF state ON entries WHEN OLD.state <> 2 AND NEW.state = 2 BEGIN
    INSERT INTO news VALUES (
        (SELECT value FROM counters WHERE name = 'change'), NEW.log, NEW.seq, 2 * (NEW.payload_state = 2), NEW.id, 1
    );
END;
CREATE TRIGGER news_of_payload AFTER UPDATE OF payload_state ON entries
WHEN OLD.state = 2 AND NEW.state = 2 AND OLD.payload_state <> 2 AND NEW.payload_state = 2
    AND NOT EXISTS (SELECT 1 FROM payloads_lost WHERE entry = NEW.id) BEGIN
    INSERT INTO news VALUES (
        (SELECT value FROM counters WHERE name = 'change'), NEW.log, NEW.seq, 1, NEW.id, 1
    );
END;
"""

SCRIPTS = VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7, VERSION_8
VERSION = len(SCRIPTS)


def _as_one(scripts: Sequence[str]) -> str:
    """A script that makes in an empty file, to the letter, what the scripts make one after the other.

    Each column that a script adds stands in its table from the start, at the place where SQLite puts it: behind the
    columns, in front of the constraints of the table. Adding it later costs half a millisecond, because SQLite then
    reads all definitions again and looks through the table. A trigger that a later script drops is not made at all.
    """
    script = "".join(scripts)
    for trigger in _DROPPED.findall(script):
        made = re.compile(rf"^CREATE TRIGGER {trigger} .*?^END;\n", re.MULTILINE | re.DOTALL)
        script = made.sub("", script, count=1)
    script = _DROPPED.sub("", script)
    for table, column in _ADDED.findall(script):
        begin = script.index(f"CREATE TABLE {table} (")
        place = _END_OF_COLUMNS.search(script, begin)
        assert place is not None  # noqa: S101 - the scripts are those above
        script = f"{script[: place.start()]}, {column}{script[place.start() :]}"
    return _ADDED.sub("", script)


_ADDED = re.compile(r"^ALTER TABLE (\w+) ADD COLUMN ([^;\n]*);.*\n", re.MULTILINE)
_DROPPED = re.compile(r"^DROP TRIGGER (\w+);\n", re.MULTILINE)
_END_OF_COLUMNS = re.compile(r",\n    (?:UNIQUE|PRIMARY KEY) |(?<=\n)\)")
NEWEST = _as_one(SCRIPTS)
"""Makes the tables of the newest version in an empty file."""


def schema_version(connection: sqlite3.Connection, path: Path) -> int:
    """The store's version, 0 for an empty file. ``StoreDamaged`` if the file is not Culm's, or of a later version."""
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if application_id != APPLICATION_ID:
        if version or connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            raise StoreDamaged(f"{path}: an SQLite database, but not a Culm store")
        return 0
    if version > VERSION:
        raise StoreDamaged(
            f"{path}: the store has version {version}; this program reads up to {VERSION}: use a newer Culm"
        )
    return version
