"""The gaps: why something is not held, against an obvious look at every number."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import MAX_U64
from culm.errors import PayloadDamaged
from culm.store import PayloadState, State, gaps
from culm.store.gaps import EVERYTHING, Lack, Wanted
from culm.store.survey import cells_between
from culm.testing.builders import build_log
from tests.quick import rounds
from tests.store.damage import flip

if TYPE_CHECKING:
    from culm.store import SQLiteStore
    from culm.testing.builders import LogBuilder
    from culm.types import Log

URGENT_FIRST = (Lack.DAMAGED, Lack.MISSING, Lack.FORGOTTEN, Lack.UNASKED)


def damage(store: SQLiteStore, log: LogBuilder, seq: int) -> None:
    """Damage a payload on the disk, and find that out as a node does."""
    entry = log.entries[seq - 1]
    flip(store.path, seq)
    assert store.drop_damaged(PayloadDamaged("a test", entry.place, entry.hash, None))


def lack_of(store: SQLiteStore, log: Log, wanted: Wanted, seq: int) -> Lack:
    """Why a number is not held whole, by definition."""
    found = [stored for stored in store.entries(log, seq, seq, states=State) if stored.entry.seq == seq]
    line = store.survey().line(log)
    assert line is not None
    if line.invalid_from is not None and seq >= line.invalid_from:
        return Lack.NOTHING
    if not found:
        return Lack.MISSING if any(low <= seq <= high for low, high in wanted.entries) else Lack.UNASKED
    (stored,) = found
    if stored.state is State.WAITING or stored.payload_complete:
        return Lack.NOTHING
    if stored.payload_state is PayloadState.FORGOTTEN:
        return Lack.FORGOTTEN
    if any(stored.id == damaged.id for damaged in store.damaged_payloads()):
        return Lack.DAMAGED
    is_wanted = wanted.payload is None or wanted.payload(seq, stored.entry.size)
    return Lack.MISSING if is_wanted else Lack.UNASKED


def lossy(store: SQLiteStore, seed: int) -> tuple[LogBuilder, Log]:
    """A log with gaps of every kind, and in one of three cases with a fork."""
    choose = random.Random(seed)
    log = build_log(90, seed=3, log_id=seed)
    chance = choose.choice((0.5, 0.9, 1.0))
    held = [item for item in log.items() if choose.random() < chance]
    store.add([(entry, payload if choose.random() < 0.8 else None) for entry, payload in held])
    key = (log.identity.public, log.log_id)
    for stored in list(store.entries(key)):
        if stored.payload_complete and stored.entry.size:
            if choose.random() < 0.1:
                store.forget(stored.entry.place)
            elif choose.random() < 0.1:
                damage(store, log, stored.entry.seq)
    if seed % 3 == 0:
        at = choose.randrange(40, 90)
        store.add([(log.entries[at - 1], None), (log.make(at, b"another"), None)])
    return log, key


WISHES = [
    EVERYTHING,
    Wanted((), lambda _seq, _size: False),
    Wanted(((1, 1), (4, 4), (20, 50)), lambda seq, size: 20 <= seq <= 50 and size % 2 == 0, by_size=True),
]


@pytest.mark.parametrize("seed", rounds(9))
@pytest.mark.parametrize("wanted", WISHES)
def test_every_cell_says_the_most_urgent_reason(store: SQLiteStore, seed: int, wanted: Wanted) -> None:
    """For random holdings and wishes, a cell's reason is the most urgent one of its numbers; so are the counts."""
    _, key = lossy(store, seed)
    line = store.survey().line(key)
    assert line is not None
    single = [lack_of(store, key, wanted, seq) for seq in range(1, line.greatest + 1)]
    assert single == store.gaps(line).cells(wanted, [(seq, seq) for seq in range(1, line.greatest + 1)])
    for most in (1, 7, 30):
        spans = cells_between(1, line.greatest, most)
        expected = [
            next((lack for lack in URGENT_FIRST if lack in single[low - 1 : high]), Lack.NOTHING) for low, high in spans
        ]
        assert expected == store.gaps(line).cells(wanted, spans)
    counts = store.gaps(line).count(wanted)
    below = single[: line.newest]
    held = {stored.entry.seq for stored in store.entries(key, states=State)}
    bare = [lack for seq, lack in enumerate(below, 1) if seq in held]
    absent = [lack for seq, lack in enumerate(below, 1) if seq not in held]
    assert (absent.count(Lack.MISSING), absent.count(Lack.UNASKED)) == (counts.entries_missing, counts.entries_unasked)
    assert [bare.count(lack) for lack in (Lack.MISSING, Lack.UNASKED, Lack.FORGOTTEN, Lack.DAMAGED)] == [
        counts.payloads_missing,
        counts.payloads_unasked,
        counts.forgotten,
        counts.damaged,
    ]
    assert counts.all_counted


def test_damage_that_has_come_again_is_none(store: SQLiteStore) -> None:
    """A payload that was damaged and has arrived anew lacks nothing any more."""
    log = build_log(3, seed=3)
    store.add(log.items())
    damage(store, log, 2)
    line = store.survey().line((log.identity.public, 0))
    assert line is not None
    assert [Lack.DAMAGED] == store.gaps(line).cells(EVERYTHING, [(1, 3)])
    store.add(log.items())
    assert [Lack.NOTHING] == store.gaps(line).cells(EVERYTHING, [(1, 3)])


def test_the_look_is_bounded(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many payloads that lack, some are looked at, and the counts say so; torn logs count no entries."""
    monkeypatch.setattr(gaps, "MOST_COUNTED", 10)
    monkeypatch.setattr(gaps, "MOST_RUNS", 3)
    log = build_log(60, seed=3)
    store.add([(entry, None) for entry, _ in log.items() if entry.seq % 10])
    line = store.survey().line((log.identity.public, 0))
    assert line is not None
    counts = store.gaps(line).count(EVERYTHING)
    assert (line.missing, 0, 10) == (counts.entries_missing, counts.entries_unasked, counts.payloads_missing), (
        "a sum is enough"
    )
    assert not counts.all_counted
    some = store.gaps(line).count(Wanted(((1, 15), (30, MAX_U64)), None))
    assert (None, None) == (some.entries_missing, some.entries_unasked)


def test_a_cell_of_many_waiting_entries(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that wait for their path are held: a cell of more of them than are looked at lacks nothing."""
    monkeypatch.setattr(gaps, "MOST_LOOKED", 4)
    log = build_log(40, seed=3)
    store.add([item for item in log.items() if item[0].seq < 3 or 20 <= item[0].seq < 30])
    line = store.survey().line((log.identity.public, 0))
    assert line is not None
    assert line.waiting == 10
    assert [Lack.NOTHING, Lack.MISSING] == store.gaps(line).cells(EVERYTHING, [(20, 29), (30, 33)])
