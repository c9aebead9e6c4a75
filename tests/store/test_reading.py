"""Reading a store: ranges, pages, what is missing, offers, and reading while it grows."""

from __future__ import annotations

import pytest

from culm.bamboo import MAX_U64, Entry, Identity
from culm.store import SQLiteStore, State, ingest
from culm.store import sqlite as store_module
from culm.testing import LogBuilder, build_log
from tests.store.forty import LOG, NAME, in_state

Item = tuple[Entry, bytes | None]


def test_ranges(store: SQLiteStore) -> None:
    """Entries are given between two numbers, both included, whatever the numbers are."""
    store.add(LOG.items()[:10])
    spans = [(1, 10), (3, 5), (5, 5), (0, 2), (9, MAX_U64), (7, 6), (11, 20), (MAX_U64, MAX_U64)]
    found = [[stored.entry.seq for stored in store.entries(NAME, low, high)] for low, high in spans]

    assert [[at for at in range(1, 11) if low <= at <= high] for low, high in spans] == found


def test_pages(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that take several pages have every entry once, several of one number included."""
    monkeypatch.setattr("culm.store.entries._PAGE", 3)
    extra = [LOG.make(20, f"{at}".encode()) for at in range(7)]
    other = build_log(7, seed=2)
    store.add([*LOG.items(), *((entry, None) for entry in extra), *other.items()])
    found = [stored.entry for stored in store.entries(NAME, states=State)]

    assert sorted([*LOG.entries, *extra], key=lambda entry: entry.seq) == found
    assert list(range(1, 8)) == in_state(store, State.VERIFIED, other.entries[0].log)
    assert (54, []) == (store.verify().entries, store.verify().problems)


def test_nothing_held(store: SQLiteStore) -> None:
    """Of a log that nobody brought there is nothing, and everything is missing."""
    assert None is store.get(LOG.entries[0].place)
    assert [] == list(store.entries(NAME)) == list(store.logs()) == list(store.offers()) == list(store.fork_proofs())
    assert [(1, 40)] == store.missing(NAME, 40)
    assert [] == store.missing(NAME, 0)


def test_missing_in_parts(store: SQLiteStore) -> None:
    """Of many gaps the first ones are given, as many as were asked for."""
    store.add([LOG.items()[seq - 1] for seq in range(1, 41) if seq % 3])

    assert [(3, 3), (6, 6)] == store.missing(NAME, 40, 2)
    assert [(at, at) for at in range(3, 40, 3)] == store.missing(NAME, 40)
    assert [(39, 39), (41, 44)] == store.missing(NAME, 44)[-2:]


def test_offers_since_a_change(store: SQLiteStore) -> None:
    """Only logs that changed after a change number are offered again."""
    builders = [build_log(3, log_id=at) for at in range(3)]
    store.add([item for builder in builders for item in builder.items()])
    before = store.change()
    builders[1].append(b"more")
    store.add(builders[1].items())

    assert [] == list(store.offers(store.change()))
    assert [(1, 4)] == [(offer.log_id, offer.newest) for offer in store.offers(before)]
    assert {0: 3, 1: 4, 2: 3} == {offer.log_id: offer.newest for offer in store.offers()}


def test_the_offer_of_one_log(store: SQLiteStore) -> None:
    """One log's offer is the one among all; of a log with nothing verified there is none."""
    builders = [build_log(3, log_id=at) for at in range(2)]
    store.add([item for builder in builders for item in builder.items()])
    store.add(build_log(3, log_id=2).items()[1:])
    found = {(offer.author, offer.log_id): offer for offer in store.offers()}

    assert 2 == len(found)
    assert list(found.values()) == [store.offer(log) for log in found]
    assert [None, None] == [store.offer((NAME[0], log_id)) for log_id in (2, 3)]


def test_writing_while_reading(store: SQLiteStore) -> None:
    """Who walks through an answer may write on the way: no answer keeps the store from being changed."""
    builders = [build_log(3, log_id=at) for at in range(3)]
    store.add([item for builder in builders for item in builder.items()])
    store.add([(builders[0].make(2, b"x"), None)])
    answers = [store.offers(), store.logs(), store.fork_proofs(), store.entries(builders[1].entries[0].log)]
    for count, answer in enumerate(answers):
        next(answer)
        store.append(builders[0].identity, 10 + count, [b"written on the way"])
        list(answer)

    assert [10, 11, 12, 13] == [summary.log_id for summary in store.logs()][3:]


def test_a_long_log_in_little_memory_of_the_view(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that comes in several transactions is verified as one."""
    monkeypatch.setattr(store_module, "_BATCH_ENTRIES", 100)
    builder = LogBuilder(Identity(bytes(32)))
    for at in range(210):
        builder.append(b"%d" % at)
    report = store.add(builder.items(), authenticated=True)

    assert (210, 0) == (report.added, report.waiting)
    assert [210] == [offer.newest for offer in store.offers()]


def test_transactions_end_when_they_hold_many_bytes(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few the entries, a transaction is closed when their payloads come to a certain size."""
    monkeypatch.setattr(store_module, "_BATCH_BYTES", 50)
    store.add(LOG.items())

    assert 14 == store.change()  # 40 payloads of 20 bytes, three to a transaction
    assert list(range(1, 41)) == in_state(store, State.VERIFIED)


def test_limits_are_what_the_documentation_says() -> None:
    """The holding area takes 100,000 entries or 256 MiB by default."""
    assert (100_000, 256 * 1024 * 1024) == (ingest.MAX_WAITING_ENTRIES, ingest.MAX_WAITING_BYTES)


def test_runs_around_a_number(store: SQLiteStore) -> None:
    """A number is in the run of entries, or of complete payloads, whose ends include it, and in none between runs.

    A log is complete up to the last entry of the run that begins with entry 1 and lacks no payload.
    """
    log = build_log(14)
    held, with_payload = [1, 4, 5, 6, 13, 14], {4, 5, 13}
    store.add(
        (log.entries[seq - 1], log.payloads[log.entries[seq - 1].hash] if seq in with_payload else None) for seq in held
    )
    lookup = store.lookup(log.entries[0].log)
    entries, payloads = (
        {1: (1, 1), 4: (4, 6), 5: (4, 6), 6: (4, 6), 13: (13, 14), 14: (13, 14)},
        {4: (4, 5), 5: (4, 5), 13: (13, 13)},
    )
    for seq in range(1, 17):
        assert (entries.get(seq), payloads.get(seq)) == (lookup.entries_around(seq), lookup.payloads_around(seq)), seq

    assert [0] == [summary.complete_to for summary in store.logs()]
    store.add(log.items(log.entries[:4]))
    assert [5] == [summary.complete_to for summary in store.logs()]


def test_one_entry_by_one_query(store: SQLiteStore) -> None:
    """``verified_entry`` gives the verified entry of a number, and None for numbers that are not held or are none."""
    me = Identity(bytes(32))
    first, second = store.append(me, 1, [b"one"]), store.append(me, 1, [b"two"])
    assert store.verified_entry((me.public, 1), 1) == first
    assert store.verified_entry((me.public, 1), 2) == second
    for log, seq in (((me.public, 1), 3), ((me.public, 2), 1), ((me.public, 1), 0), ((me.public, 1), -1)):
        assert store.verified_entry(log, seq) is None
    assert store.verified_entry((me.public, 1), 2**64) is None


def test_a_small_payload_by_one_query(store: SQLiteStore) -> None:
    """``small_payload`` gives payloads of up to 4,096 bytes, and None for larger, forgotten and unknown ones."""
    me = Identity(bytes(32))
    small, large = store.append(me, 1, [bytes(4096)]), store.append(me, 1, [bytes(4097)])
    assert store.small_payload(small) == bytes(4096)
    assert store.small_payload(large) is None
    other = build_log(1, seed=2).entries[0]
    assert store.small_payload(other) is None
    store.forget(small.place)
    assert store.small_payload(small) is None


def test_an_entry_with_its_small_payload_by_one_query(store: SQLiteStore) -> None:
    """``verified_with_payload`` gives the payload where ``small_payload`` would, else None in its place."""
    me = Identity(bytes(32))
    log = me.public, 1
    small, large = (store.append(me, 1, [bytes(size)]) for size in (4096, 4097))
    assert store.verified_with_payload(log, 1) == (small, bytes(4096))
    assert store.verified_with_payload(log, 2) == (large, None)
    for seq in (0, 3, 2**64):
        assert store.verified_with_payload(log, seq) is None
    store.forget(small.place)
    assert store.verified_with_payload(log, 1) == (small, None)
