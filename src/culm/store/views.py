"""The store as sets to reconcile (docs/protocols/negentropy.md).

*Entries*: a record for each verified entry; its id is the first 32 bytes of the entry's BLAKE2b-512, its timestamp the
sequence number less one (2^64 - 1 stands for infinity). *Payloads*: the same for those whose payload is held complete.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from culm.store.queries import stored_entry
from culm.store.schema import from_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.negentropy import ArrayStorage
    from culm.store.database import Database
    from culm.store.interface import StoredEntry

ID_BYTES = 32
_PAGE = 10_000


class View(Enum):
    """Which records; the value is the condition on a row of ``entries``."""

    ENTRIES = "state = 2"
    PAYLOADS = "state = 2 AND payload_state = 2"


def record_set(database: Database, view: View) -> ArrayStorage:
    """The records of a view as they are now, sealed in memory: 72 bytes each."""
    import numpy as np  # noqa: PLC0415 - opening a store does not need it

    from culm.negentropy import ArrayStorage  # noqa: PLC0415

    numbers: list[int] = []
    ids: list[bytes] = []
    with database.snapshot() as connection:
        rows = connection.execute(f"SELECT seq, hash FROM entries WHERE {view.value}")
        while page := rows.fetchmany(_PAGE):
            numbers += (from_sql(seq) - 1 for seq, _ in page)
            ids.append(b"".join(digest[:ID_BYTES] for _, digest in page))
    timestamps = np.array(numbers, dtype=np.uint64)
    return ArrayStorage(timestamps, np.frombuffer(b"".join(ids), np.uint8).reshape(-1, ID_BYTES))


def entries_of(database: Database, ids: set[bytes]) -> Iterator[StoredEntry]:
    """The verified entries with these record ids, log by log in ascending order. Passes over the whole store once."""
    after = (0, -(2**63), -1)
    while True:
        with database.snapshot() as connection:
            rows = connection.execute(
                "SELECT log, seq, variant, hash FROM entries WHERE state = 2 AND (log, seq, variant) > (?, ?, ?)"
                " ORDER BY log, seq, variant LIMIT ?",
                (*after, _PAGE),
            ).fetchall()
            places = [row[:3] for row in rows if row[3][:ID_BYTES] in ids]
        for place in places:
            with database.snapshot() as connection:
                found = stored_entry(connection, *place)
            if found is not None:
                yield found
        if len(rows) < _PAGE:
            return
        after = rows[-1][:3]
