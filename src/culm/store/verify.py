"""Verifying everything that is held, afresh from its bytes: what ``culm verify`` does.

The store remembers verdicts so that nobody has to verify twice; here they are not believed. Signatures, hashes, links,
paths and payloads are all checked again, log by log in ascending order (see ``culm.bamboo.audit``). Where the result
differs from what the store says, a problem is reported. Nothing is repaired, because the store cannot know which of the
two is right. Memory: a few numbers for each entry of the longest log.
"""

from collections.abc import Callable, Iterator
from itertools import groupby, islice

from culm.bamboo import Entry, ForkProof, LogAuditor, are_authentic
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import InvalidEntry, Place
from culm.store.database import Database
from culm.store.kinds import check_kinds
from culm.store.payloads.pieces import hash_held
from culm.store.queries import every_entry
from culm.store.records import index
from culm.store.rows import BYTES, SEQ, all_rows, find_log
from culm.store.schema import PayloadState, State, from_sql
from culm.store.values import VerifyReport
from culm.types import Log

_BATCH = 512  # entries whose signatures are verified together, which is faster than one by one
_STATES: dict[int, str] = {state: state.name.lower() for state in State}
_Row = tuple["Log", int, bytes, bytes, int, int, int, int]


def verify(database: Database, log: Log | None = None, progress: Callable[[int], None] | None = None) -> VerifyReport:
    """Check everything held, or one log. ``progress`` is called with the number of entries checked so far.

    ``StoreDamaged`` if the tables hold values that Culm never writes: nothing can be said of their entries then.
    """
    check_kinds(database)
    report = VerifyReport()
    rows = (row for row in every_entry(database) if log is None or row[0] == log)
    for key, of_log in groupby(rows, key=lambda row: row[0]):
        _verify_log(database, key, of_log, report, progress)
    if log is None:
        with database.snapshot() as connection:
            report.problems += [(None, problem) for problem in index.problems(connection)]
    return report


def _verify_log(
    database: Database,
    log: Log,
    rows: Iterator[_Row],
    report: VerifyReport,
    progress: Callable[[int], None] | None,
) -> None:
    auditor = LogAuditor()
    connected: list[tuple[int, bool, int]] = []
    before = len(report.problems)
    lied_at: int | None = None
    while batch := list(islice(rows, _BATCH)):
        checked = _authentic_entries(log, batch, report)
        for (_, _, _, digest, state, payload_state, held, entry_id), entry in checked:
            if entry.hash != YAMF_PREFIX + digest:
                report.problems.append((entry.place, "the stored hash is not the entry's"))
            connected.append((entry.seq, auditor.add(entry), state))
            if payload_state == PayloadState.SIZE_MISMATCH:
                lied_at = entry.seq if lied_at is None else min(lied_at, entry.seq)
            _check_payload(database, entry, payload_state, held, entry_id, report)
        report.entries += len(batch)
        if progress is not None:
            progress(report.entries)
    limit = min((at for at in (auditor.invalid_from, lied_at) if at is not None), default=None)
    limit = _with_proofs(database, log, limit, report)
    for seq, has_path, state in connected:
        found = State.INVALID if limit is not None and seq >= limit else State.VERIFIED if has_path else State.WAITING
        report.verified += found is State.VERIFIED
        report.unverified += found is State.WAITING
        report.invalid += found is State.INVALID
        if found != state and len(report.problems) == before:
            place = Place(log[0], log[1], seq)
            report.problems.append((place, f"the store calls it {_STATES[state]}, but it is {_STATES[found]}"))
    report.forks += auditor.fork is not None or (limit is not None and limit != lied_at)


def _with_proofs(database: Database, log: Log, limit: int | None, report: VerifyReport) -> int | None:
    """The lowest of ``limit`` and the positions of the fork proofs held. A damaged proof is reported."""
    with database.snapshot() as connection:
        query = "SELECT position, first, second FROM forks WHERE log = ?"
        rows = all_rows(connection.execute(query, (find_log(connection, log),)), SEQ, BYTES, BYTES)
    for stored, first, second in rows:
        position = from_sql(stored)
        try:
            proof = ForkProof.decode(first + second)
            proof.check()
            right = (proof.author, proof.log_id, proof.position) == (*log, position)
        except InvalidEntry:
            right = False
        if not right:
            report.problems.append((Place(log[0], log[1], position), "the fork proof is damaged"))
        elif limit is None or position < limit:
            limit = position
    return limit


def _authentic_entries(log: Log, batch: list[_Row], report: VerifyReport) -> list[tuple[_Row, Entry]]:
    decoded: list[tuple[_Row, Entry]] = []
    for row in batch:
        place = Place(log[0], log[1], row[1])
        try:
            entry = Entry.decode(row[2])
        except InvalidEntry as error:
            report.problems.append((place, f"damaged: {error}"))
            report.invalid += 1
            continue
        if entry.place == place:
            decoded.append((row, entry))
        else:
            report.problems.append((place, "the bytes stored here are an entry of another place"))
            report.invalid += 1
    authentic = []
    for (row, entry), good in zip(decoded, are_authentic([entry for _, entry in decoded]), strict=True):
        if good:
            authentic.append((row, entry))
        else:
            report.problems.append((entry.place, "the signature does not verify under the claimed author"))
            report.invalid += 1
    return authentic


def _check_payload(
    database: Database, entry: Entry, state: int, held: int, entry_id: int, report: VerifyReport
) -> None:
    if state != PayloadState.COMPLETE:
        return
    try:
        hash_held(database, entry_id).check(entry)
    except InvalidEntry as error:
        report.problems.append((entry.place, f"payload: {error}"))
    else:
        report.payloads += 1
    if held != entry.size:
        report.problems.append((entry.place, f"the store counts {held} payload bytes, the entry {entry.size}"))
