"""Publishing: the next entry of one's own log, with its payload, in one transaction.

An author must never sign two entries of one number. The store therefore decides the number, inside the transaction
that also holds every other writer off, and refuses where it cannot be sure to know the log's newest entry.

Specification: docs/specs/bamboo.md, "Holding and publishing".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, Entry, ForkProof, Identity, lipmaa
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import AfterEndOfLog, ForkDetected, Place, StoreError
from culm.store.logview import LogView
from culm.store.pieces import write_stream
from culm.store.rows import next_change, next_entry_id
from culm.store.schema import PayloadState, to_sql

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from culm.store.database import Database
    from culm.store.interface import Bytes


def append(
    database: Database, identity: Identity, log_id: int, payload: Iterable[Bytes], *, is_end: bool = False
) -> Entry:
    """Sign and store the next entry of the identity's log ``log_id``.

    ``payload`` is taken piece by piece. ``is_end`` ends the log for ever. Raises ``AfterEndOfLog`` if it has ended,
    ``ForkDetected`` if it is forked, and ``StoreError`` if entries are held whose path is missing: the newest of them
    may not be the newest signed.
    """
    if not 0 <= log_id <= MAX_U64:
        msg = f"{log_id} is not a log id (0 to 2^64 - 1)"
        raise ValueError(msg)
    with database.transaction() as connection:
        view = LogView(connection, identity.public, log_id, next_change(connection))
        seq = view.newest + 1
        place = Place(identity.public, log_id, seq)
        _check_may_append(connection, view, place)
        entry_id = next_entry_id(connection)
        hasher = write_stream(database, entry_id, payload)
        entry = identity.create_entry(
            log_id=log_id,
            seq=seq,
            backlink=_hash_at(connection, view, seq - 1),
            lipmaalink=_hash_at(connection, view, lipmaa(seq)),
            size=hasher.size,
            payload_hash=hasher.hash,
            is_end=is_end,
        )
        view.add(entry, entry_id, PayloadState.COMPLETE, hasher.size)
        view.flush()
    return entry


def _check_may_append(connection: sqlite3.Connection, view: LogView, place: Place) -> None:
    if view.forked_at is not None:
        first, second = connection.execute(
            "SELECT first, second FROM forks WHERE log = ? ORDER BY position LIMIT 1", (view.id,)
        ).fetchone()
        proof = ForkProof.decode(first + second)
        raise ForkDetected(proof)
    if view.ended_at is not None:
        msg = f"the log ended with entry {view.ended_at}; it takes no further entry"
        raise AfterEndOfLog(msg, place)
    if view.greatest > view.newest:
        msg = (
            f"entry {view.greatest} of this log is held without a path to entry 1: fetch the entries before it first,"
            " or the new entry could fork the log"
        )
        raise StoreError(msg)


def _hash_at(connection: sqlite3.Connection, view: LogView, seq: int) -> bytes | None:
    """The hash (66 bytes) of the log's entry ``seq``; None for number 0."""
    if seq == 0:
        return None
    row = connection.execute("SELECT hash FROM entries WHERE log = ? AND seq = ?", (view.id, to_sql(seq))).fetchone()
    if row is None:
        msg = f"entry {seq} of this log is not held, and the new entry must link to it: fetch it first"
        raise StoreError(msg)
    return YAMF_PREFIX + bytes(row[0])
