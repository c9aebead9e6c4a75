"""Keeping the record index: the store as sets to reconcile, up to date with every transaction.

Two peers reconcile by comparing sums over ranges of records (docs/specs/negentropy.md, "Sets of a store", "Heads").
There are two kinds of records. *Entries*: a record for each verified entry, whose id is the first 32 bytes of the
entry's hash, and whose timestamp is the sequence number less one; ``held`` marks those whose payload is complete.
*Heads*: a record for each log, whose id stands for everything held of the log.

The simple way is to read all entries when a session begins, and to add up their ids. For ten million entries that takes
half a minute, for every session. The index is therefore kept on disk, and has to agree with the entries after every
transaction. If each statement that changes an entry also had to change the index, one would forget it sooner or later.
So the database notices by itself: triggers write into ``record_changes`` whatever makes an entry a record, or no longer
one. Only new entries are noted elsewhere, in ``Database.inserted``: they are inserted in one place, by the thousand,
and a trigger takes as long as the insertion. At the end of the transaction ``settle`` works through both.

Records are ordered by their keys: the timestamp, big-endian, and the id. Neighbouring records form a *block*, a row
with their number and the sum of their ids. The sum over a range is then the sum of the blocks inside, plus a few
records at both ends. Think of a ledger with a subtotal at the foot of each page: who adds an item corrects one
subtotal, and who adds up a year reads subtotals. A block that grows beyond ``MAX_BLOCK`` records is cut, and one that
shrinks below ``MIN_BLOCK`` joins the block before it. A change therefore costs a look-up, however many records exist.
Mostly it costs none: the entry that follows the one before is in the same block, which is still in memory.
"""

from __future__ import annotations

import hashlib
import sqlite3
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import compress, count, islice, repeat, zip_longest
from operator import add
from typing import NamedTuple, TypeVar

from culm.bamboo import encode_varu64
from culm.bamboo.yamf import YAMF_PREFIX
from culm.store.database import Database, Inserted
from culm.store.records import runs
from culm.store.records.sums import ID_BYTES, WRITE_LOG, LogRow, Sums, number_of, stored_total
from culm.store.rows import (
    AT,
    BYTES,
    COUNT,
    FLAG,
    KEY,
    LOG_ID,
    ROW,
    SEQ,
    SIGN,
    DamagedRow,
    Row,
    all_rows,
    checked,
    each_row,
    insert_rows,
    the_row,
)
from culm.store.schema import IS_COMPLETE, IS_VERIFIED, from_sql, optional_from_sql

MAX_BLOCK = 256  # records: reading a block takes half a millisecond, and there are few enough blocks to read them all
MIN_BLOCK = 32  # records: far below half of MAX_BLOCK, so that a block is not cut and joined in turns
_PAGE = 10_000  # changes in memory at once, because a fork at the start of a long log changes all its entries
_LOWEST = b""  # where the first block begins: below every key, so that each key belongs to a block
_SUMS = COUNT, BYTES, COUNT, BYTES
_BLOCK = BYTES, BYTES.or_null(), *_SUMS
_OPTIONAL = SEQ.or_null()
_T = TypeVar("_T")
Blocks = dict[int, "Block"]
"""The block of each kind that was changed last, as it is stored: most changes are in the same block as the last one."""


class Kind(IntEnum):
    """What a record stands for; part of the schema."""

    ENTRY = 0
    HEAD = 1


class Changes(NamedTuple):
    """What happened to records, as columns in ascending order of the keys.

    ``listed`` is 1 for a record that is new, -1 for one that is none any more, 0 for one that stays. ``held`` says the
    same of its payload. Columns, because a transaction mostly brings a thousand records with the same story.
    """

    keys: Sequence[bytes]
    numbers: Sequence[int]  # the ids as numbers
    rows: Sequence[int]
    listed: Sequence[int]
    held: Sequence[int]


def record_key(timestamp: int, identity: bytes) -> bytes:
    """The key by which records are ordered: 40 bytes, or fewer for a prefix of an id."""
    return timestamp.to_bytes(8, "big") + identity


def key_id(key: bytes) -> bytes:
    """The id in a key."""
    return key[8:]


def key_timestamp(key: bytes) -> int:
    """The timestamp in a key."""
    return int.from_bytes(key[:8], "big")


def settle(database: Database) -> None:
    """Bring the index up to date with the entries and logs that this transaction changed. Called before its commit."""
    connection, blocks = database.connection, database.blocks
    inserted, database.inserted = database.inserted, []
    flushed, database.flushed = database.flushed, []
    of_logs: dict[int, Sums] = defaultdict(Sums)
    views = {view.id: view for view in flushed}
    noted = connection.execute("SELECT 1 FROM record_changes LIMIT 1").fetchone() is not None
    if not noted:
        _settle_inserted(connection, blocks, inserted, of_logs)
        if len(views) == len(flushed) and of_logs.keys() <= views.keys():
            _settle_views(connection, blocks, flushed, of_logs)
            return
    database.views.clear()  # They do not know the sums that are computed here.
    connection.executemany(WRITE_LOG, [view.row() for view in flushed])
    if noted:
        _settle_noted(connection, blocks, inserted, of_logs)
    connection.executemany(
        "UPDATE logs SET change = (SELECT value FROM counters WHERE name = 'change') WHERE id = ?",
        [(log,) for log in of_logs],
    )
    _settle_heads(connection, blocks, of_logs, views.keys() | of_logs.keys())


def _settle_views(
    connection: sqlite3.Connection, blocks: Blocks, views: list[LogRow], of_logs: dict[int, Sums]
) -> None:
    """Write the rows of logs with their sums and heads. If nothing else has changed, nothing has to be read."""
    moves: list[tuple[bytes, int, int]] = []
    for view in views:
        if view.id in of_logs:
            view.sums.merge(of_logs[view.id])
        head = None
        if view.newest or view.forked_at is not None:
            head = head_id(view.log, view.newest, view.newest_hash, view.sums, view.forked_at or 0)
        if head != view.head:
            moves += _head_moves(view.head, head, view.id)
            view.head = head
    connection.executemany(WRITE_LOG, [view.row() for view in views])
    _move_heads(connection, blocks, moves)


def _settle_inserted(
    connection: sqlite3.Connection, blocks: Blocks, inserted: list[Inserted], of_logs: dict[int, Sums]
) -> None:
    """Add new entries, if nothing else has changed: as columns, because mostly they are a thousand neighbours."""
    keys: list[bytes] = []
    numbers: list[int] = []
    rows: list[int] = []
    held: list[int] = []
    for log, first, entry, has_payloads, digests in inserted:
        ids, size, at = [digest[:ID_BYTES] for digest in digests], len(digests), from_sql(first) - 1
        of_run = [number_of(identity) for identity in ids]
        total = sum(of_run)
        of_logs[log].merge(Sums(size, total, size * has_payloads, total * has_payloads))
        runs.extend(connection, log, (runs.ENTRIES, runs.PAYLOADS)[: 1 + has_payloads], first - 1, first + size - 2)
        keys += [(at + place).to_bytes(8, "big") + identity for place, identity in enumerate(ids)]
        numbers += of_run
        rows += range(entry, entry + size)
        held += [int(has_payloads)] * size
    if len(inserted) > 1:
        moves = sorted(zip(keys, numbers, rows, held, strict=True))
        keys, numbers, rows, held = map(list, zip(*moves, strict=True))
    _apply(connection, blocks, Kind.ENTRY, Changes(keys, numbers, rows, [1] * len(keys), held))


def _settle_noted(
    connection: sqlite3.Connection, blocks: Blocks, inserted: list[Inserted], of_logs: dict[int, Sums]
) -> None:
    """Work through the notes of the triggers, and new entries together with them: a new one may be noted as well."""
    connection.executemany(
        "INSERT INTO record_changes VALUES (?, ?, ?, ?, 1, ?)",
        (
            (row, log, at, digest[:ID_BYTES], has_payloads)
            for log, first, entry, has_payloads, digests in inserted
            for row, at, digest in zip(count(entry), count(first - 1), digests, strict=False)
        ),
    )
    for rows in _changed(connection):
        ats, ids, entries, listed, held, logs = zip(*rows, strict=True)
        numbers = [number_of(identity) for identity in ids]
        by_log: dict[int, list[int]] = defaultdict(list)
        for place, log in enumerate(logs):
            by_log[log].append(place)
        for log, places in by_log.items():
            columns = [[column[place] for place in places] for column in (numbers, listed, held, ats)]
            of_logs[log].add(*columns[:3])
            _settle_runs(connection, log, *columns[1:])
        keys = [record_key(from_sql(at), identity) for at, identity in zip(ats, ids, strict=True)]
        _apply(connection, blocks, Kind.ENTRY, _without_idle(Changes(keys, numbers, entries, listed, held)))
    connection.execute("DELETE FROM record_changes")


def _changed(connection: sqlite3.Connection) -> Iterator[list[Row]]:
    """The notes of this transaction in pages, those of an entry added up, in the order of the records' keys."""
    columns = AT, BYTES, ROW, SIGN, SIGN, ROW
    cursor = connection.execute("SELECT at, id, entry, listed, held, log FROM record_changes LIMIT ?", (_PAGE + 1,))
    rows = all_rows(cursor, *columns)
    if len(rows) <= _PAGE and len({entry for _, _, entry, _, _, _ in rows}) == len(rows):
        rows.sort()  # Mostly in order already, so this costs less than sorting and grouping in the database.
        if rows:
            yield rows
        return
    cursor = connection.execute(
        "SELECT at, id, entry, sum(listed), sum(held), log FROM record_changes GROUP BY entry ORDER BY at, id"
    )
    while rows := checked(cursor.fetchmany(_PAGE), *columns):
        yield rows


def _without_idle(changes: Changes) -> Changes:
    """The changes without those that were taken back in the same transaction."""
    keys, numbers, rows, listed, held = changes
    moved = [bool(delta or has) for delta, has in zip(listed, held, strict=True)]
    if all(moved):
        return changes

    def kept(column: Sequence[_T]) -> list[_T]:
        return list(compress(column, moved))

    return Changes(kept(keys), kept(numbers), kept(rows), kept(listed), kept(held))


def _settle_runs(
    connection: sqlite3.Connection, log: int, listed: Sequence[int], held: Sequence[int], ats: Sequence[int]
) -> None:
    """Bring the runs of a log up to date: what happened at these positions, which ascend."""
    for kind, deltas in ((runs.ENTRIES, listed), (runs.PAYLOADS, held)):
        came = [at for at, delta in zip(ats, deltas, strict=True) if delta > 0]
        went = [at for at, delta in zip(ats, deltas, strict=True) if delta < 0]
        runs.update(connection, log, kind, came, went)


# -- heads ----------------------------------------------------------------------------------------------------------


def head_id(log: tuple[bytes, int], newest: int, newest_hash: bytes, sums: Sums, forked_at: int) -> bytes:
    """The id of a log's head. Two stores have equal heads if and only if they hold the same of the log.

    BLAKE2b-256 over: the author; the log id; the newest verified number and its hash (66 bytes; nothing if the number
    is 0); the number of verified entries and the sum of their record ids; the same for those with their payload; the
    lowest known position of a fork (0: none). Numbers are VarU64, sums have 32 bytes, little-endian.
    """
    parts = (
        log[0],
        encode_varu64(log[1]),
        encode_varu64(newest),
        newest_hash,
        encode_varu64(sums.count),
        stored_total(sums.total),
        encode_varu64(sums.held_count),
        stored_total(sums.held_total),
        encode_varu64(forked_at),
    )
    return hashlib.blake2b(b"".join(parts), digest_size=ID_BYTES).digest()


def _settle_heads(
    connection: sqlite3.Connection, blocks: Blocks, of_logs: dict[int, Sums], changed: Iterable[int]
) -> None:
    """Add ``of_logs`` to the sums of logs, and compute the heads of ``changed`` logs from what is stored of them."""
    query = (
        "SELECT logs.id, author, log_id, newest, forked_at, entry_count, entry_total, payload_count, payload_total,"
        f" head, hash FROM logs LEFT JOIN entries ON log = logs.id AND seq = newest AND {IS_VERIFIED}"
        " WHERE logs.id = ?"
    )
    blob = BYTES.or_null()
    columns = ROW, BYTES, LOG_ID, _OPTIONAL, _OPTIONAL, *_SUMS, blob, blob
    moves: list[tuple[bytes, int, int]] = []
    updates = []
    for number in changed:
        row, author, log_id, stored_newest, stored_fork, *stored, before, digest = the_row(
            connection.execute(query, (number,)), *columns
        )
        newest, forked_at = optional_from_sql(stored_newest), optional_from_sql(stored_fork)
        sums = Sums.of(*stored)
        if row in of_logs:
            sums.merge(of_logs[row])
        head = None
        if newest is not None or forked_at is not None:
            newest_hash = b"" if digest is None else YAMF_PREFIX + digest
            head = head_id((author, from_sql(log_id)), newest or 0, newest_hash, sums, forked_at or 0)
        if head != before:
            moves += _head_moves(before, head, row)
            updates.append((*sums.row(), head, row))
    connection.executemany(
        "UPDATE logs SET entry_count = ?, entry_total = ?, payload_count = ?, payload_total = ?, head = ? WHERE id = ?",
        updates,
    )
    _move_heads(connection, blocks, moves)


def _head_moves(before: bytes | None, head: bytes | None, log: int) -> list[tuple[bytes, int, int]]:
    return [(some, log, listed) for some, listed in ((before, -1), (head, 1)) if some is not None]


def _move_heads(connection: sqlite3.Connection, blocks: Blocks, moves: list[tuple[bytes, int, int]]) -> None:
    """Bring the records of heads up to date: of each the id, the log, and whether it is new (1) or gone (-1)."""
    if len(moves) == 2 and _replace_head(connection, blocks, moves):
        return
    if moves:
        moves.sort()
        ids, logs, listed = zip(*moves, strict=True)
        keys, numbers = [record_key(0, some) for some in ids], [number_of(some) for some in ids]
        _apply(connection, blocks, Kind.HEAD, Changes(keys, numbers, logs, listed, [0] * len(ids)))


def _replace_head(connection: sqlite3.Connection, blocks: Blocks, moves: list[tuple[bytes, int, int]]) -> bool:
    """One log has another head than before: change the block at hand, if both belong to it; whether they do."""
    (before, log, gone), (head, same, _) = moves
    old, new, block = record_key(0, before), record_key(0, head), blocks.get(Kind.HEAD)
    if gone != -1 or log != same or block is None or not block.covers(old) or not block.covers(new):
        return False
    connection.execute("UPDATE records SET key = ? WHERE kind = 1 AND key = ?", (new, old))
    block.sums.total += number_of(head) - number_of(before)
    block.save()  # It has as many records as before, so it stays a block.
    return True


# -- blocks ---------------------------------------------------------------------------------------------------------


def _apply(connection: sqlite3.Connection, blocks: Blocks, kind: Kind, changes: Changes) -> None:
    """Change the records of a kind and their blocks."""
    keys, numbers, rows, listed, held = changes
    number = int(kind)  # Of an enumeration's member sqlite3 asks each time how to store it.
    if listed.count(1) == len(listed):
        came = zip(repeat(number), keys, map(add, map(add, rows, rows), held), strict=False)
        insert_rows(connection, "records", list(came))
    else:
        _move(connection, number, list(zip(keys, rows, listed, held, strict=True)))
    at = 0
    while at < len(keys):
        block = blocks.get(number)
        if block is None or not block.covers(keys[at]):
            block = Block(connection, number, keys[at])
        end = len(keys) if block.end is None else bisect_left(keys, block.end, at)
        block.sums.add(numbers[at:end], listed[at:end], held[at:end])
        if block.save():
            blocks[number] = block
        else:
            blocks.pop(number, None)
        at = end


def _move(connection: sqlite3.Connection, kind: int, moves: list[tuple[bytes, int, int, int]]) -> None:
    """Change records: the rows of ``Changes``."""
    went = [(kind, key) for key, _, delta, _ in moves if delta < 0]
    connection.executemany("DELETE FROM records WHERE kind = ? AND key = ?", went)
    came = [(kind, key, row * 2 + has) for key, row, delta, has in moves if delta > 0]
    connection.executemany("INSERT INTO records VALUES (?, ?, ?)", came)
    other = [(row * 2 + (has > 0), kind, key) for key, row, delta, has in moves if not delta]
    connection.executemany("UPDATE records SET ref = ? WHERE kind = ? AND key = ?", other)


class Block:
    """The block that a key belongs to. It begins at ``first``, and the next one at ``end``: None for the last block."""

    def __init__(self, connection: sqlite3.Connection, kind: int, key: bytes) -> None:
        self._db = connection
        self._kind = kind
        cursor = connection.execute(
            "SELECT first, (SELECT first FROM record_blocks WHERE kind = ? AND first > ? ORDER BY first LIMIT 1),"
            " count, total, held_count, held_total FROM record_blocks"
            " WHERE kind = ? AND first <= ? ORDER BY first DESC LIMIT 1",
            (kind, key, kind, key),
        )
        self.first, self.end, *stored = the_row(cursor, *_BLOCK)
        self.sums = Sums.of(*stored)

    def covers(self, key: bytes) -> bool:
        """Whether a key belongs to this block."""
        return self.first <= key and (self.end is None or key < self.end)

    def takes(self, key: bytes) -> bool:
        """Whether a new record belongs to this block, and the block need not be cut then."""
        return self.covers(key) and self.sums.count < MAX_BLOCK

    def save(self) -> bool:
        """Write the sums; whether this is still a block, and no other one has changed.

        A block that has grown too large is cut, one that has become too small joins another.
        """
        if self.sums.count > MAX_BLOCK:
            self._cut()
            return False
        if self.sums.count < MIN_BLOCK and self.first:
            self._join()
            return False
        self._db.execute(
            "UPDATE record_blocks SET count = ?, total = ?, held_count = ?, held_total = ?"
            " WHERE kind = ? AND first = ?",
            (*self.sums.row(), self._kind, self.first),
        )
        return True

    def _delete(self) -> None:
        self._db.execute("DELETE FROM record_blocks WHERE kind = ? AND first = ?", (self._kind, self.first))

    def _cut(self) -> None:
        query = "SELECT key, ref FROM records WHERE kind = ? AND key >= ? ORDER BY key LIMIT ?"
        records = all_rows(self._db.execute(query, (self._kind, self.first, self.sums.count)), KEY, COUNT)
        if len(records) != self.sums.count:
            raise DamagedRow("a block of the record index counts more records than there are")
        parts = -(-len(records) // (MAX_BLOCK // 2))
        self._delete()
        _insert_blocks(self._db, self._kind, records, -(-len(records) // parts), self.first)

    def _join(self) -> None:
        self._delete()
        before = Block(self._db, self._kind, self.first)
        before.sums.merge(self.sums)
        before.save()


def _insert_blocks(
    connection: sqlite3.Connection, kind: int, records: Iterable[tuple[bytes, int]], size: int, first: bytes
) -> None:
    """Insert blocks of ``size`` records each. The first block begins with ``first``, even if there are no records."""
    rest = iter(records)
    begin: bytes | None = first
    while (block := list(islice(rest, size))) or begin is not None:
        connection.execute(
            "INSERT INTO record_blocks VALUES (?, ?, ?, ?, ?, ?)",
            (kind, block[0][0] if begin is None else begin, *_sums_of(block).row()),
        )
        begin = None


def _sums_of(records: list[tuple[bytes, int]]) -> Sums:
    held = [key for key, ref in records if ref & 1]
    total = sum(number_of(key_id(key)) for key, _ in records)
    held_total = total if len(held) == len(records) else sum(number_of(key_id(key)) for key in held)
    return Sums(len(records), total, len(held), held_total)


def _sums_of_one(identity: bytes, held: int) -> Sums:
    number = number_of(identity)
    return Sums(1, number, held, held * number)


# -- all anew -------------------------------------------------------------------------------------------------------


def rebuild(connection: sqlite3.Connection) -> None:
    """Build the index anew from the entries, inside a writing transaction. Takes seconds for a million entries."""
    for table in ("record_changes", "record_blocks", "records"):
        connection.execute(f"DELETE FROM {table}")
    connection.executemany("INSERT INTO records VALUES (0, ?, ?)", _fresh_records(connection))
    _insert_blocks(connection, Kind.ENTRY, every_record(connection, Kind.ENTRY), MAX_BLOCK // 2, _LOWEST)
    _insert_blocks(connection, Kind.HEAD, (), MAX_BLOCK // 2, _LOWEST)
    connection.execute(
        "UPDATE logs SET entry_count = 0, entry_total = ?, payload_count = 0, payload_total = ?, head = NULL",
        (stored_total(0), stored_total(0)),
    )
    logs = [log for (log,) in each_row(connection.execute("SELECT id FROM logs"), ROW)]
    _settle_heads(connection, {}, _fresh_sums(connection), logs)
    runs.rebuild(connection)


def _fresh_records(connection: sqlite3.Connection) -> Iterator[tuple[bytes, int]]:
    """Key and reference of each verified entry, ascending, as the index ought to have them."""
    cursor = connection.execute(
        f"SELECT seq - 1, substr(hash, 1, {ID_BYTES}), id, {IS_COMPLETE} FROM entries WHERE {IS_VERIFIED}"
        " ORDER BY seq, hash"
    )
    for at, identity, row, held in each_row(cursor, AT, BYTES, ROW, FLAG):
        yield record_key(from_sql(at), identity), row * 2 + held


def _fresh_sums(connection: sqlite3.Connection) -> dict[int, Sums]:
    """The sums of each log, by its row id, as they ought to be."""
    of_logs: dict[int, Sums] = defaultdict(Sums)
    cursor = connection.execute(f"SELECT log, hash, {IS_COMPLETE} FROM entries WHERE {IS_VERIFIED}")
    for log, digest, held in each_row(cursor, ROW, BYTES, FLAG):
        of_logs[log].merge(_sums_of_one(digest[:ID_BYTES], held))
    return of_logs


# -- checking -------------------------------------------------------------------------------------------------------


def every_record(connection: sqlite3.Connection, kind: Kind) -> Iterator[Row]:
    """Key and reference of each record of a kind as the index has them, ascending.

    The reference is the row id of the entry, or log, doubled, and one more if the payload is complete.
    """
    query = "SELECT key, ref FROM records WHERE kind = ? ORDER BY key"
    return each_row(connection.execute(query, (kind,)), KEY, COUNT)


def problems(connection: sqlite3.Connection) -> list[str]:
    """Where the index disagrees with the entries: a line for each kind of disagreement, none if all is well."""
    found = []
    for right, kept in zip_longest(_fresh_records(connection), every_record(connection, Kind.ENTRY)):
        if right != kept:
            first = min(record for record in (right, kept) if record is not None)
            found.append(f"the record index is wrong from entry number {key_timestamp(first[0]) + 1} on")
            break
    of_logs = _fresh_sums(connection)
    cursor = connection.execute("SELECT id, entry_count, entry_total, payload_count, payload_total FROM logs")
    rows = each_row(cursor, ROW, *_SUMS)
    wrong = sum(of_logs.get(row, Sums()).row() != Sums.of(*stored).row() for row, *stored in rows)
    if wrong:
        found.append(f"the record index: the sums of {wrong} logs are wrong")
    cursor = connection.execute("SELECT head, id FROM logs WHERE head IS NOT NULL ORDER BY head")
    heads = each_row(cursor, BYTES, ROW)
    if [(record_key(0, head), row * 2) for head, row in heads] != list(every_record(connection, Kind.HEAD)):
        found.append("the record index: the records of the logs' heads are wrong")
    wrong = sum(_wrong_blocks(connection, kind) for kind in Kind)
    if wrong:
        found.append(f"the record index: the sums of {wrong} blocks are wrong")
    return found + runs.problems(connection)


def _wrong_blocks(connection: sqlite3.Connection, kind: Kind) -> int:
    """How many blocks have other sums than their records add up to. ``check_kinds`` has seen that there is a first."""
    query = "SELECT first, count, total, held_count, held_total FROM record_blocks WHERE kind = ? ORDER BY first"
    blocks = all_rows(connection.execute(query, (kind,)), BYTES, *_SUMS)
    sums = [Sums() for _ in blocks]
    number = 0
    for key, ref in every_record(connection, kind):
        while number + 1 < len(blocks) and blocks[number + 1][0] <= key:
            number += 1
        sums[number].merge(_sums_of_one(key_id(key), ref & 1))
    return sum(found.row() != tuple(block[1:]) for found, block in zip(sums, blocks, strict=True))
