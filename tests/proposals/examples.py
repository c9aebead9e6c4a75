"""The log, the keys and the bytes of the protocol page's examples (docs/specs/proposals.md, "Worked examples")."""

from __future__ import annotations

from culm.bamboo import Identity
from culm.testing.builders import LogBuilder
from tests.memory import MemoryStore

IDENTITY = Identity(bytes(range(32)))
KEY = IDENTITY.public
PAYLOADS = (b"bamboo bamboo bamboo", b"two", b"", b"four", b"five")


def example_log() -> LogBuilder:
    """Five entries; the last one ends the log."""
    log = LogBuilder(IDENTITY)
    for payload in PAYLOADS:
        log.append(payload, is_end=payload == b"five")
    return log


LOG = example_log()
H1, H2, H3, H4, H5 = (entry.hash for entry in LOG.entries)
OTHER_1 = LOG.make(1, b"fork")
OTHER_2 = LOG.make(2, b"TWO")


def store_of(log: LogBuilder, *entries: int, without: tuple[int, ...] = ()) -> MemoryStore:
    """A store with some entries of a log, and their payloads but for some."""
    store = MemoryStore()
    for seq in entries:
        entry = log.entries[seq - 1]
        store.put(entry, None if seq in without else log.payloads[entry.hash])
    return store
