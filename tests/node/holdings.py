"""What a node may hold of a log, made up at random: in a store, and as the dictionary that says the same."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from culm.bamboo import Identity
from culm.ranges import Range, RangeSet
from culm.store import PayloadState, SQLiteStore
from culm.testing.builders import LogBuilder
from tests.store.below import database_of
from tests.store.dictionary import DictionaryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.bamboo import Entry
    from culm.types import Log
    from tests.store.dictionary import LogModel

LENGTH = 45
SIZES = (0, 3, 10, 30, 5)
IN_MEMORY = next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)  # a disk is slow, and no matter
NO, ENTRY, ALL, FORGOTTEN, PART = "no", "entry", "all", "forgotten", "part"


@cache
def whole_log(seed: int = 1, log_id: int = 0) -> LogBuilder:
    """A log whose payloads have all kinds of sizes."""
    log = LogBuilder(Identity(seed.to_bytes(32, "big")), log_id)
    for seq in range(1, LENGTH + 1):
        size = SIZES[(seq * 7 + seq // 5 + seed) % len(SIZES)]
        log.append(f"{seq}/{seed}/{log_id}".encode().ljust(60, b".")[:size])
    return log


@cache
def forked(seed: int, log_id: int, seq: int) -> Entry:
    """Another entry of a number."""
    return whole_log(seed, log_id).make(seq, b"another")


@st.composite
def holdings(draw: st.DrawFn, *, is_forked: bool = True) -> tuple[list[str], int]:
    """What is held of each number, and where the log is forked (0: nowhere).

    Mostly a beginning of the log, with holes, or single runs.
    """
    usual = draw(st.sampled_from([NO, ENTRY, ALL, ALL]))
    kinds = [usual] * LENGTH
    for _ in range(draw(st.integers(0, 5))):
        low = draw(st.integers(1, LENGTH))
        high = min(LENGTH, low + draw(st.sampled_from([0, 0, 1, 3, 12, 45])))
        kinds[low - 1 : high] = [draw(st.sampled_from([NO, NO, ENTRY, ALL, ALL, FORGOTTEN, PART]))] * (high - low + 1)
    at = draw(st.one_of(st.just(0), st.integers(1, LENGTH))) if is_forked else 0
    return kinds, at


@contextmanager
def a_store() -> Iterator[SQLiteStore]:
    """A store that costs no disk."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder, SQLiteStore(Path(folder) / "store") as store:
        database_of(store)._durable = False  # a power cut is not to be feared here
        database_of(store).connection.execute("PRAGMA synchronous = OFF")
        yield store


def fill(store: SQLiteStore, log: LogBuilder, kinds: list[str], forked_at: int = 0) -> LogModel:
    """Hold what ``holdings`` says; the dictionary that says the same."""
    model = DictionaryStore(16, 10**6)
    items = []
    for entry, kind in zip(log.entries, kinds, strict=True):
        if kind != NO:
            items.append((entry, log.payloads[entry.hash] if kind == ALL else None))
    if forked_at:
        items.append((forked(int.from_bytes(log.identity.seed, "big"), log.log_id, forked_at), None))
    store.add(items)
    model.add(items)
    of_log = model.of((log.identity.public, log.log_id))
    for entry, kind in zip(log.entries, kinds, strict=True):
        if kind == FORGOTTEN and of_log.first_at(entry.seq) == entry:
            store.forget(entry.place)
            of_log.forget(entry)
        if kind == PART and entry.size:
            with_part = store.payload_sink(entry.place, entry.hash, durable=False)
            if with_part.wanted:
                with_part.write(log.payloads[entry.hash][: entry.size // 2])
                with_part.close()
                of_log.payloads[entry].state = PayloadState.PARTIAL
                of_log.payloads[entry].data = log.payloads[entry.hash][: entry.size // 2]
    return of_log


def key(log: LogBuilder) -> Log:
    """Author and id."""
    return log.identity.public, log.log_id


@st.composite
def ranges(draw: st.DrawFn, *, closed: bool = False, sparse: bool = True) -> Range:
    """A range of any kind of a log of ``LENGTH`` entries."""
    start = draw(st.integers(1, LENGTH))
    end = draw(st.integers(start, LENGTH)) if closed or draw(st.booleans()) else None
    metadata, payloads = draw(st.sampled_from([(True, True), (True, True), (True, True), (True, False), (False, True)]))
    least, limit = draw(st.sampled_from([(0, 0), (0, 0), (4, 0), (0, 11), (4, 11)]))
    forbidden = draw(st.sets(st.integers(start, end or LENGTH), max_size=3))
    return Range(
        start,
        end,
        sparse=sparse and draw(st.booleans()),
        metadata=metadata,
        payloads=payloads,
        least_size=least,
        size_limit=limit,
        forbidden=tuple(sorted(forbidden)),
    )


def interests(*, sparse: bool = True) -> st.SearchStrategy[RangeSet]:
    """A few ranges, or everything."""
    some = st.lists(ranges(sparse=sparse), min_size=1, max_size=3).map(RangeSet)
    return st.one_of(st.just(RangeSet([Range(1)])), some)
