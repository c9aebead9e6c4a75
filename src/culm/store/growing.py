"""The next entry of a log that an append has just been made to, written by one statement.

An author who waits for each append before making the next one waits for the disk, and for what is computed beside. An
entry changes eleven rows in eight tables. A statement for each of them costs more time, in Python and in the interface
of SQLite, than the rows do. But the transaction before was an append to the same log, and has left the log and its
blocks of the record index in memory. If nobody has written since, all new values are known before the first row is
written. So they are given to SQLite together, and a trigger puts them into the tables.

The trigger and the view that it belongs to are temporary: they belong to the connection, and stand in no file. What is
not plainly such an entry, and every hundredth that is (its block is full), takes the general way, which
``culm.store.logview`` and ``culm.store.records.index`` describe. Both leave the same rows.
"""

from culm.bamboo import Entry
from culm.store.database import Database
from culm.store.logview import LogView
from culm.store.payloads.pieces import PIECE_BYTES
from culm.store.records.index import Kind, head_id, record_key
from culm.store.records.sums import ID_BYTES, Sums, number_of
from culm.store.rows import DamagedRow
from culm.store.schema import to_sql
from culm.types import Buffer

_COLUMNS = (
    "change, log, seq, ended_at, digest, encoded, payload, entry_key, entries_first, entries_count, entries_total,"
    " entries_held, entries_held_total, count, total, held_total, head, head_key, head_before, heads_first, heads_total"
)
_NAMES = _COLUMNS.split(", ")
# 2 is VERIFIED and COMPLETE, and news of both at once. The kinds of runs and of records are 0 and 1.
_WRITES = """
UPDATE counters SET value = NEW.change WHERE name = 'change' AND value = NEW.change - 1;
INSERT INTO entries VALUES (NULL, NEW.log, NEW.seq, 0, 2, 2, length(NEW.payload), NEW.digest, NEW.encoded);
INSERT INTO news VALUES (NEW.change, NEW.log, NEW.seq, 2, last_insert_rowid(), 1);
INSERT INTO payloads SELECT last_insert_rowid(), 0, NEW.payload WHERE length(NEW.payload) > 0;
INSERT INTO records VALUES (0, NEW.entry_key, last_insert_rowid() * 2 + 1);
UPDATE runs SET last = NEW.seq - 1 WHERE log = NEW.log AND kind = 0 AND last = NEW.seq - 2;
UPDATE runs SET last = NEW.seq - 1 WHERE log = NEW.log AND kind = 1 AND last = NEW.seq - 2;
UPDATE record_blocks SET
    count = NEW.entries_count, total = NEW.entries_total,
    held_count = NEW.entries_held, held_total = NEW.entries_held_total
WHERE kind = 0 AND first = NEW.entries_first;
UPDATE logs SET
    newest = NEW.seq, greatest = NEW.seq, contiguous = NEW.seq, ended_at = NEW.ended_at, change = NEW.change,
    entry_count = NEW.count, entry_total = NEW.total, payload_count = NEW.count, payload_total = NEW.held_total,
    head = NEW.head
WHERE id = NEW.log;
UPDATE records SET key = NEW.head_key WHERE kind = 1 AND key = NEW.head_before;
UPDATE record_blocks SET total = NEW.heads_total WHERE kind = 1 AND first = NEW.heads_first;
"""  # Each statement changes one row, but for the payload: an empty one has none.
_VIEW = f"CREATE TEMP VIEW IF NOT EXISTS growth AS SELECT {', '.join(f'0 AS {name}' for name in _NAMES)}"
_TRIGGER = f"CREATE TEMP TRIGGER IF NOT EXISTS grow INSTEAD OF INSERT ON growth BEGIN {_WRITES} END"
# If the trigger fails, the transaction is undone. To undo the statement alone, SQLite would copy each page beforehand.
_GROW = f"INSERT OR ROLLBACK INTO growth VALUES ({', '.join('?' * len(_NAMES))})"


def can_grow(view: LogView, payload: Buffer) -> bool:
    """Whether this is a small payload, and the log has not ended and is held to its newest entry, with all payloads."""
    is_whole = view.is_whole and view.sums.held_count == view.newest
    return is_whole and view.ended_at is None and len(payload) <= PIECE_BYTES


def grow(database: Database, view: LogView, entry: Entry, payload: Buffer) -> bool:
    """Write the next entry of a log that can grow; False if nothing was done, because more blocks have to change.

    It has to be the only thing that its transaction does. ``view.change`` is that of the transaction before.
    """
    seq, digest = entry.seq, entry.hash[-64:]
    identity, sums = digest[:ID_BYTES], view.sums
    number, key = number_of(identity), record_key(seq - 1, identity)
    total, held_total = sums.total + number, sums.held_total + number
    grown = Sums(seq, total, seq, held_total)
    head, before = head_id(view.log, seq, entry.hash, grown, 0), view.head
    block, heads = database.blocks.get(Kind.ENTRY), database.blocks.get(Kind.HEAD)
    if before is None or block is None or heads is None:
        return False
    head_key, before_key = record_key(0, head), record_key(0, before)
    if not (heads.covers(before_key) and heads.covers(head_key) and block.takes(key)):
        return False
    block.sums.merge(Sums(1, number, 1, number))
    heads.sums.total += number_of(head) - number_of(before)
    view.grow(entry, grown, head)
    count, entry_total, _, payload_total = grown.row()
    place, connection = to_sql(seq), database.connection
    values = (
        *(view.change, view.id, place, place if entry.is_end else None, digest, entry.encoded, payload),
        *(key, block.first, *block.sums.row(), count, entry_total, payload_total),
        *(head, head_key, before_key, heads.first, heads.sums.row()[1]),
    )
    if not database.has_growth:
        connection.execute(_VIEW)
        connection.execute(_TRIGGER)
        database.has_growth = True
    changed = connection.total_changes
    connection.execute(_GROW, values)
    if connection.total_changes - changed != _WRITES.count(";") - (not payload):
        raise DamagedRow(f"a row is missing that belongs to entry {seq - 1} of a log")
    database.is_settled = True
    return True
