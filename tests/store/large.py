"""A payload that is stored in several transactions, and what is held of one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from culm.store.payloads import sink
from culm.store.payloads.pieces import PIECE_BYTES

if TYPE_CHECKING:
    from culm.errors import Place
    from culm.store import PayloadState, SQLiteStore

COMMIT = sink._COMMIT_BYTES
LARGE = random.Random(1).randbytes(2 * COMMIT + 3 * PIECE_BYTES + 17)


def held(store: SQLiteStore, place: Place) -> tuple[PayloadState, bytes]:
    """The payload's state and all bytes of it that are held."""
    stored = store.get(place)
    assert stored is not None
    data = b"".join(store.payload(stored))
    assert stored.payload_held == len(data)
    return stored.payload_state, data
