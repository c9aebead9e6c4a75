"""A log of forty entries, and the numbers of those that a store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.testing import build_log

if TYPE_CHECKING:
    from culm.store import SQLiteStore, State
    from culm.types import Log

LOG = build_log(40)
NAME = LOG.entries[0].log


def in_state(store: SQLiteStore, state: State, log: Log = NAME) -> list[int]:
    """The numbers of a log's entries in one state, in ascending order."""
    return [stored.entry.seq for stored in store.entries(log, states=[state])]
