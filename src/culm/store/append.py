"""Publishing: the next entry of one's own log, with its payload, in one transaction.

An author must never sign two entries with one number: that forks the log, for ever and for everybody. If callers chose
the number, two processes of one author would sooner or later choose the same one. The store therefore chooses it,
inside the transaction that also keeps every other writer out. It refuses where it may not know the newest entry
(``culm.store.confirming``).

Specification: docs/specs/bamboo.md, "Holding and publishing".
"""

import sqlite3
from collections.abc import Iterable

from culm.bamboo import MAX_U64, Entry, Identity, lipmaa
from culm.errors import AfterEndOfLog, ForkDetected, Place, StoreError, UnconfirmedLog
from culm.store.confirming import confirm, is_confirmed
from culm.store.database import Database
from culm.store.logview import LogView
from culm.store.payloads.pieces import write_stream
from culm.store.rows import BYTES, next_change, next_entry_id, proof_of, the_row
from culm.store.schema import PayloadState
from culm.types import Buffer


def append(
    database: Database,
    identity: Identity,
    log_id: int,
    payload: Iterable[Buffer],
    *,
    is_end: bool = False,
    continue_here: bool = False,
) -> Entry:
    """Sign and store the next entry of the identity's log ``log_id``.

    ``payload`` is taken piece by piece. ``is_end`` ends the log for ever. Raises ``AfterEndOfLog`` if the log has
    ended, and ``ForkDetected`` if it is forked. Raises ``StoreError`` if entries wait for their certificate path,
    because the author may then have signed newer entries than the store knows. ``UnconfirmedLog`` if that may be so
    because the author is marked; with ``continue_here`` the caller says that it is not, which confirms the log.
    """
    if not 0 <= log_id <= MAX_U64:
        raise ValueError(f"{log_id} is not a log id: those go from 0 to 2^64 - 1")
    with database.transaction() as connection:
        view = LogView(connection, (identity.public, log_id), next_change(connection))
        seq = view.newest + 1
        place = Place(identity.public, log_id, seq)
        _check_may_append(connection, view, place)
        if not is_confirmed(connection, (identity.public, log_id)):
            if not continue_here:
                raise UnconfirmedLog(place)
            confirm(connection, (identity.public, log_id))
        entry_id = next_entry_id(connection)
        hasher = write_stream(database, entry_id, payload)
        entry = identity.create_entry(
            log_id=log_id,
            seq=seq,
            backlink=_hash_at(view, seq - 1),
            lipmaalink=_hash_at(view, lipmaa(seq)),
            size=hasher.size,
            payload_hash=hasher.hash,
            is_end=is_end,
        )
        view.add(entry, entry_id, PayloadState.COMPLETE, hasher.size)
        view.flush()
    return entry


def _check_may_append(connection: sqlite3.Connection, view: LogView, place: Place) -> None:
    if view.forked_at is not None:
        query = "SELECT first, second FROM forks WHERE log = ? ORDER BY position LIMIT 1"
        raise ForkDetected(proof_of(*the_row(connection.execute(query, (view.id,)), BYTES, BYTES)))
    if view.ended_at is not None:
        raise AfterEndOfLog(f"the log ended with entry {view.ended_at}: it takes no further entry", place)
    if view.greatest > view.newest:
        raise StoreError(
            f"entry {view.greatest} of this log is held, but not all entries on its path to entry 1:"
            " fetch those first, or the new entry could fork the log"
        )


def _hash_at(view: LogView, seq: int) -> bytes | None:
    """The hash (66 bytes) of the log's entry ``seq``; None for number 0."""
    if seq == 0:
        return None
    found = view.hash_at(seq)
    if found is None:
        raise StoreError(f"entry {seq} of this log is not held, and the new entry must link to it: fetch it first")
    return found
