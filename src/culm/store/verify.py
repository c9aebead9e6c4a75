"""Verifying everything that is held, afresh from its bytes: what ``culm verify`` does.

The store remembers verdicts so that nobody has to verify twice; here they are not believed. Signatures, hashes, links,
paths and payloads are all checked again, log by log in ascending order (see ``culm.bamboo.audit``). Where the result
differs from what the store says, a problem is reported. Nothing is repaired, because the store cannot know which of the
two is right. Memory: a few numbers for each entry of the longest log.

SQLite keeps a value of any type in any column. Reading checks the rows that it uses (``culm.store.rows``); verifying
also has to find damage in rows that no query happens to read, so it first looks at each value of every table.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from itertools import compress, islice

from culm.bamboo import MAX_U64, Entry, ForkProof, LogAuditor, check_ahead
from culm.bamboo.certified import certified_runs
from culm.bamboo.many import entries_apart
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import InvalidEntry, PayloadDamaged, Place, StoreDamaged
from culm.ranges.runs import runs_of
from culm.store.database import Database
from culm.store.entries import entry_rows
from culm.store.payloads.checked import check_complete, right_in_one_piece
from culm.store.records import index
from culm.store.rows import BYTES, COUNT, LOG_ID, SEQ, Row, the_row
from culm.store.schema import OF_LOG, SCRIPTS, PayloadState, State, from_sql, log_key
from culm.store.values import VerifyReport
from culm.types import Log

_BATCH = 2048  # Entries whose signatures are verified together: one by one they cost four times as much.
_READ_TOGETHER = 512  # Entries whose payloads of up to 64 KiB are in memory at a time.


def verify(database: Database, log: Log | None = None, progress: Callable[[int], None] | None = None) -> VerifyReport:
    """Check everything held, or one log. ``progress`` is called with the number of entries checked so far.

    ``StoreDamaged`` if the tables hold values that Culm never writes, because their entries cannot be judged then.
    """
    check_kinds(database)
    report = VerifyReport()
    if log is not None:
        _verify_log(database, log, report, progress)
    else:
        query = "SELECT author, log_id FROM logs ORDER BY author, log_id"
        for author, log_id in database.read(query, (), BYTES, LOG_ID):
            _verify_log(database, (author, from_sql(log_id)), report, progress)
        with database.snapshot() as connection:
            report.problems += [(None, problem) for problem in index.problems(connection)]
    return report


def _verify_log(database: Database, log: Log, report: VerifyReport, progress: Callable[[int], None] | None) -> None:
    auditor = LogAuditor()
    connected: list[tuple[int, bool, int]] = []
    before = len(report.problems)
    lied_at: int | None = None
    for authentic in _authentic_entries(database, log, report):
        right = right_in_one_piece(database, {row[0]: entry for row, entry in authentic})
        for (entry_id, _, state, payload_state, held, digest, _, _), entry in authentic:
            if entry.hash != YAMF_PREFIX + digest:
                report.problems.append((entry.place, "the stored hash is not the entry's"))
            connected.append((entry.seq, auditor.add(entry), state))
            if payload_state == PayloadState.SIZE_MISMATCH:
                lied_at = entry.seq if lied_at is None else min(lied_at, entry.seq)
            if payload_state == PayloadState.COMPLETE:
                _check_payload(database, entry, held, entry_id, report, is_right=entry_id in right)
        if progress is not None:
            progress(report.entries)
    limit = min((at for at in (auditor.invalid_from, lied_at) if at is not None), default=None)
    limit = _with_proofs(database, log, limit, report)
    verified = runs_of(seq for seq, has_path, _ in connected if has_path and (limit is None or seq < limit))
    newest = max((seq for seq, _, _ in connected), default=0)
    report.certified += sum(high - low + 1 for low, high in certified_runs(list(verified), newest))
    for seq, has_path, state in connected:
        found = State.INVALID if limit is not None and seq >= limit else State.VERIFIED if has_path else State.WAITING
        report.verified += found is State.VERIFIED
        report.unverified += found is State.WAITING
        report.invalid += found is State.INVALID
        if found != state and len(report.problems) == before:
            problem = f"the store calls it {State(state).name.lower()}, but it is {found.name.lower()}"
            report.problems.append((Place(*log, seq), problem))
    report.forks += auditor.fork is not None or (limit is not None and limit != lied_at)


def _with_proofs(database: Database, log: Log, limit: int | None, report: VerifyReport) -> int | None:
    """The lowest of ``limit`` and the positions of the fork proofs held. A damaged proof is reported."""
    query = f"SELECT position, first, second FROM forks WHERE {OF_LOG}"
    for stored, first, second in database.read(query, log_key(log), SEQ, BYTES, BYTES):
        position = from_sql(stored)
        try:
            proof = ForkProof.decode(first + second)
            proof.check()
            right = (proof.author, proof.log_id, proof.position) == (*log, position)
        except InvalidEntry:
            right = False
        if not right:
            report.problems.append((Place(*log, position), "the fork proof is damaged"))
        elif limit is None or position < limit:
            limit = position
    return limit


def _authentic_entries(database: Database, log: Log, report: VerifyReport) -> Iterator[list[tuple[Row, Entry]]]:
    """The rows that hold authentic entries, with these entries; the others are reported."""
    rows = entry_rows(database, log, 1, MAX_U64, State)
    pages = (_decoded(log, page) for page in iter(lambda: list(islice(rows, _BATCH)), []))
    checked = check_ahead(pages, lambda page: [entry for _, entry in page[0]], beside_work=True)
    for (decoded, wrong), good in checked:
        report.entries += len(decoded) + len(wrong)
        for (_, entry), authentic in zip(decoded, good, strict=True):
            if not authentic:
                wrong.append((entry.place, "the signature does not verify under the claimed author"))
        report.problems += wrong
        report.invalid += len(wrong)
        authentics = list(compress(decoded, good))
        for at in range(0, len(authentics), _READ_TOGETHER):
            yield authentics[at : at + _READ_TOGETHER]


def _decoded(log: Log, rows: list[Row]) -> tuple[list[tuple[Row, Entry]], list[tuple[Place, str]]]:
    """The rows that hold entries of the log, with these entries; what is wrong with the others."""
    decoded: list[tuple[Row, Entry]] = []
    wrong: list[tuple[Place, str]] = []
    try:  # All together costs half as much; which of them is damaged shows one by one.
        entries: list[Entry | None] = list(entries_apart([row[1] for row in rows]))
    except InvalidEntry:
        entries = [None] * len(rows)
    for row, found in zip(rows, entries, strict=True):
        place = Place(*log, from_sql(row[6]))
        try:
            entry = found or Entry.decode(row[1])
        except InvalidEntry as error:
            wrong.append((place, f"damaged: {error}"))
            continue
        if entry.place == place:
            decoded.append((row, entry))
        else:
            wrong.append((place, "the bytes stored here are an entry of another place"))
    return decoded, wrong


def _check_payload(
    database: Database, entry: Entry, held: int, entry_id: int, report: VerifyReport, *, is_right: bool
) -> None:
    try:
        if not is_right:
            check_complete(database, entry_id, entry)
    except PayloadDamaged as error:
        report.problems.append((entry.place, f"payload: {error.reason}"))
        report.damaged.append(error)
    else:
        report.payloads += 1
    if held != entry.size:
        report.problems.append((entry.place, f"the store counts {held} payload bytes, the entry {entry.size}"))


# -- the kinds of values -----------------------------------------------------------------------------------------

TABLES = re.findall(r"CREATE TABLE (\w+)", "".join(SCRIPTS))
# SQL conditions, as in ``culm.store.rows``.
_ROW = f"BETWEEN 1 AND {1 << 62}"
_COUNT = f"BETWEEN 0 AND {1 << 62}"
_SEQ = f">= {-(1 << 63) + 1}"
_NOT_LAST = f"< {(1 << 63) - 1}"
_STATES, _PAYLOAD_STATES = (
    f"IN ({', '.join(str(int(state)) for state in states)})" for states in (State, PayloadState)
)
_SIZES = {  # the ranges of numbers that Culm computes with
    "logs": {
        "id": _ROW,
        "change": _COUNT,
        "entry_count": _COUNT,
        "payload_count": _COUNT,
        "contiguous": _NOT_LAST,
        **dict.fromkeys(("newest", "greatest", "ended_at", "forked_at", "invalid_from"), _SEQ),
    },
    "entries": {"id": _ROW, "seq": _SEQ, "state": _STATES, "payload_state": _PAYLOAD_STATES, "payload_held": _COUNT},
    "payloads": {"entry": _ROW, "at": _COUNT},
    "counters": {"value": _COUNT},
    "record_blocks": {"count": _COUNT, "held_count": _COUNT},
    "runs": {"first": "<= last", "last": _NOT_LAST},
    "record_changes": {"entry": _ROW, "listed": "BETWEEN -1 AND 1", "held": "BETWEEN -1 AND 1"},
    "news": {"change": _COUNT, "seq": _SEQ, "entry": _ROW, "count": _ROW},
}
_THERE = {  # rows that exist from the beginning
    "the number of its last change": "SELECT count(*) = 2 FROM counters WHERE name IN ('change', 'unsettled')",
    "the beginning of its record index": "SELECT count(*) = 2 FROM record_blocks WHERE kind IN (0, 1) AND first = x''",
}


def check_kinds(database: Database) -> None:
    """Look at every row, but read no large value; ``StoreDamaged`` if a value has the wrong type or size."""
    with database.snapshot() as connection:
        for table in TABLES:
            query = f"SELECT count(*) FROM {table} WHERE {_misfit(connection, table)}"
            (count,) = the_row(connection.execute(query), COUNT)
            if count:
                raise StoreDamaged(
                    f"{database.path}: the store's file is damaged: {count} rows of its table {table} hold values that"
                    " Culm never writes"
                )
        for what, query in _THERE.items():
            if not the_row(connection.execute(query), COUNT)[0]:
                raise StoreDamaged(f"{database.path}: the store's file is damaged: {what} is missing")


def _misfit(connection: sqlite3.Connection, table: str) -> str:
    """The SQL condition that is true for a row with a value of another type than its column's, or out of range."""
    wrong = ["0"]
    for _, column, kind, needed, _, key in connection.execute(f"PRAGMA table_info({table})"):
        kinds = {"INTEGER": "'integer'", "BLOB": "'blob'", "TEXT": "'text'"}.get(kind, "''")
        allowed = kinds if needed or key else f"{kinds}, 'null'"
        quoted = column.replace('"', '""')
        wrong.append(f'typeof("{quoted}") NOT IN ({allowed})')
    wrong += [f"NOT {column} {condition}" for column, condition in _SIZES.get(table, {}).items()]
    return " OR ".join(wrong)
