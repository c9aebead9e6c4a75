"""Publishing: the next entry of one's own log, with its payload, in one transaction.

An author must never sign two entries with one number: that forks the log, for ever and for everybody. If callers chose
the number, two processes of one author would sooner or later choose the same one. The store therefore chooses it,
inside the transaction that also keeps every other writer out. It refuses where it may not know the newest entry
(``culm.store.confirming``).

Specification: docs/specs/bamboo.md, "Holding and publishing".
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, islice, repeat
from typing import Any

from culm.bamboo import MAX_U64, Entry, Identity, lipmaa
from culm.errors import AfterEndOfLog, CulmError, ForkDetected, Place, StoreError, UnconfirmedLog
from culm.store.confirming import confirm, is_confirmed
from culm.store.database import Database
from culm.store.growing import can_grow, grow
from culm.store.logview import LogView, Received
from culm.store.payloads.pieces import write_payloads, write_stream
from culm.store.rows import BYTES, next_change, next_change_and_entry_id, next_entry_id, proof_of, the_row
from culm.store.schema import PayloadState
from culm.types import Buffer, Log

GROUP_ENTRIES = 1000
"""Entries that share a transaction, at most, unless one draft has more: the store serves nobody else meanwhile."""
GROUP_BYTES = 4 * 1024 * 1024
"""The same for the bytes of their payloads."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Entries that an author wants to publish in one log, one after the other: all of them, or none.

    Each of the ``payloads`` is a whole one. ``is_end`` makes the last entry the end of the log. ``continue_here``: see
    ``append``. ``ValueError`` for a number that no log has.
    """

    identity: Identity
    log_id: int
    payloads: Sequence[Buffer]
    is_end: bool = False
    continue_here: bool = False

    def __post_init__(self) -> None:
        _check_log_id(self.log_id)
        if not self.payloads:
            raise ValueError("a draft without a payload has no entry: give one; it can be empty")

    @property
    def log(self) -> Log:
        """The log that takes the entries."""
        return self.identity.public, self.log_id


def append(
    database: Database,
    identity: Identity,
    log_id: int,
    payload: Iterable[Buffer],
    *,
    is_end: bool,
    continue_here: bool,
) -> Entry:
    """Sign and store the next entry of the identity's log ``log_id``.

    ``payload`` is taken piece by piece. ``is_end`` ends the log for ever. Raises ``AfterEndOfLog`` if the log has
    ended, and ``ForkDetected`` if it is forked. Raises ``StoreError`` if entries wait for their certificate path,
    because the author may then have signed newer entries than the store knows. ``UnconfirmedLog`` if that may be so
    because the author is marked; with ``continue_here`` the caller says that it is not, which confirms the log.
    """
    _check_log_id(log_id)
    with database.transaction() as connection:
        view = LogView(database, (identity.public, log_id), next_change(connection))
        _check(connection, view, 1, continue_here=continue_here)
        entry_id = next_entry_id(connection)
        hasher = write_stream(database, entry_id, _pieces(payload))
        entry = _sign(view, identity, hasher.size, hasher.hash, is_end=is_end)
        view.add(entry, entry_id, PayloadState.COMPLETE, hasher.size)
        view.flush()
    return entry


def grouped(payloads: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Payloads in groups that are small enough for one transaction each."""
    group: list[bytes] = []
    size = 0
    for payload in payloads:
        group.append(payload)
        size += len(payload)
        if len(group) >= GROUP_ENTRIES or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def append_each(database: Database, drafts: Sequence[Draft]) -> list[list[Entry] | CulmError]:
    """Sign and store the entries of all drafts, in one transaction; for each draft its entries.

    Bringing a commit to the disk takes far longer than writing a small entry, so many that share one cost little more
    than one alone. A draft that cannot be appended gets the error that ``append`` would raise, and the others are
    stored all the same. What is raised here (a full disk, a locked store) concerns them all: none is stored then.
    """
    results: dict[int, list[Entry] | CulmError] = {}
    if not drafts:
        return []
    views: dict[Log, LogView] = {}
    stored: list[tuple[int, Buffer]] = []
    with database.transaction() as connection:
        if len(drafts) == 1 and (alone := _grow(database, drafts[0])) is not None:
            return [alone]
        change, entry_id = next_change_and_entry_id(connection)
        for run in _runs(drafts):
            draft = drafts[run[0]]
            view = views.get(draft.log)
            if view is None:
                view = views[draft.log] = LogView.of(database, draft.log, change)
            # Where entries are lacking, an entry may be refused because of its links, and the one before it not.
            for part in [run] if view.is_whole else [[place] for place in run]:
                payloads = [payload for place in part for payload in drafts[place].payloads]
                try:
                    _check(connection, view, len(payloads), continue_here=draft.continue_here)
                except CulmError as error:
                    results.update((place, error) for place in part)
                    continue
                begin, ends = view.newest + 1, drafts[part[-1]].is_end
                entries = draft.identity.create_run(draft.log_id, begin, payloads, partial(_hash_at, view), ends=ends)
                plain = view.extend(list(map(Received, entries, payloads, repeat(False))), entry_id)
                for row, entry in enumerate(entries[plain:], entry_id + plain):  # Their links go to waiting entries.
                    view.add(entry, row, PayloadState.COMPLETE, entry.size)
                stored += zip(count(entry_id), payloads, strict=False)
                entry_id += len(entries)
                rest = iter(entries)
                results.update((place, list(islice(rest, len(drafts[place].payloads)))) for place in part)
        for view in views.values():
            if view.greatest:  # A log whose drafts were all refused may have no entry.
                view.flush()
        write_payloads(database, stored)
        LogView.keep(database, views)
    return [results[place] for place in range(len(drafts))]


def _runs(drafts: Sequence[Draft]) -> Iterator[list[int]]:
    """Drafts that are appended as if they were one, by their places: those of one log, in order, up to its end."""
    runs: dict[Log, list[list[int]]] = {}
    for place, draft in enumerate(drafts):
        of_log = runs.setdefault(draft.log, [])
        before = drafts[of_log[-1][-1]] if of_log else None
        if before is None or before.is_end or before.continue_here != draft.continue_here:
            of_log.append([place])
        else:
            of_log[-1].append(place)
    return chain.from_iterable(runs.values())


def _grow(database: Database, draft: Draft) -> list[Entry] | None:
    """Append a draft the short way, ``culm.store.growing``; its entry, None if nothing was done."""
    view: LogView | None = database.earlier_views.get(draft.log)
    payload, *others = draft.payloads
    if view is None or others or not view.is_confirmed or not can_grow(view, payload):
        return None
    hash_at = partial(_hash_at, view)
    entries = draft.identity.create_run(draft.log_id, view.newest + 1, draft.payloads, hash_at, ends=draft.is_end)
    if not grow(database, view, entries[0], payload):
        return None
    LogView.keep(database, {draft.log: view})
    return entries


def _check(connection: sqlite3.Connection, view: LogView, count: int, *, continue_here: bool) -> None:
    """Raise an error unless the log takes ``count`` more entries; confirm it if the caller says so."""
    place = Place(*view.log, view.newest + 1)
    _check_may_append(connection, view, place)
    for target in {view.newest, *map(lipmaa, range(place.seq, place.seq + count))}:
        if target <= view.newest:  # Raise now, before the first of them is added.
            _hash_at(view, target)
    if view.is_confirmed is None:
        view.is_confirmed = is_confirmed(connection, view.log)
    if not view.is_confirmed:
        if not continue_here:
            raise UnconfirmedLog(place)
        confirm(connection, view.log)
        view.is_confirmed = True


def _sign(view: LogView, identity: Identity, size: int, payload_hash: bytes, *, is_end: bool) -> Entry:
    seq = view.newest + 1
    return identity.create_entry(
        log_id=view.log[1],
        seq=seq,
        backlink=_hash_at(view, seq - 1),
        lipmaalink=_hash_at(view, lipmaa(seq)),
        size=size,
        payload_hash=payload_hash,
        is_end=is_end,
    )


def _pieces(payload: Iterable[Any]) -> Iterator[Buffer]:
    """The pieces of a payload; ``TypeError`` for one that is not bytes, as those of a text or of bytes are not."""
    for piece in payload:
        if isinstance(piece, str | int):
            kind = type(piece).__name__
            raise TypeError(f"a payload is given as an iterable of bytes, and a piece of this one is of type {kind}")
        yield piece


def _check_log_id(log_id: int) -> None:
    if not isinstance(log_id, int):
        raise TypeError(f"a log id is a number, not {type(log_id).__name__}")
    if not 0 <= log_id <= MAX_U64:
        raise ValueError(f"{log_id} is not a log id: those go from 0 to 2^64 - 1")


def _check_may_append(connection: sqlite3.Connection, view: LogView, place: Place) -> None:
    if view.forked_at is not None:
        query = "SELECT first, second FROM forks WHERE log = ? ORDER BY position LIMIT 1"
        proof = proof_of(*the_row(connection.execute(query, (view.id,)), BYTES, BYTES))
        advice = "this log takes no more entries: go on in another log, or as a new identity if others may have the key"
        raise ForkDetected(proof, advice)
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
