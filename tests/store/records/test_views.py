"""The store as sets to reconcile: the record index, kept up to date, and read within a snapshot.

Specification: docs/specs/negentropy.md, "Sets of a store", "Heads".
"""

from __future__ import annotations

import hashlib
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import encode_varu64
from culm.errors import PayloadSizeMismatch
from culm.negentropy import ArrayStorage, Negentropy, Storage
from culm.negentropy.codec import INFINITY
from culm.ranges import Range, RangeSet
from culm.store import SQLiteStore, View
from culm.store.records import index as records
from culm.testing import LogBuilder, build_log
from tests.store.below import age, database_of

if TYPE_CHECKING:
    from pathlib import Path

    from culm.bamboo import Entry
    from culm.types import Log

Record = tuple[int, bytes]


def record(entry: Entry) -> Record:
    """The record of an entry, as the document has it."""
    return entry.seq - 1, entry.hash[2:34]


def everything(storage: Storage) -> list[Record]:
    """All records of a set, in its order."""
    return [(storage.timestamp(at), storage.id(at)) for at in range(len(storage))]


def in_store(store: SQLiteStore, view: View) -> list[Record]:
    """The records of a view, read through the index."""
    with store.record_set(view) as storage:
        return everything(storage)


def check_like_array(storage: Storage, rng: random.Random) -> None:
    """A set answers like a sealed array of the same records."""
    array = ArrayStorage.of(everything(storage))
    size = len(array)
    positions = sorted(rng.randrange(size + 1) for _ in range(30))
    for low, high in pairwise(positions):
        assert storage.fingerprint(low, high) == array.fingerprint(low, high)
        assert storage.ids(low, high) == array.ids(low, high)
    for _ in range(50):
        at = rng.randrange(1, size)
        assert storage.bound(at) == array.bound(at)
        timestamp, prefix = rng.randrange(array.timestamp(size - 1) + 2), rng.randbytes(rng.randrange(4))
        assert storage.position(timestamp, prefix, 0) == array.position(timestamp, prefix, 0)
        bound = array.timestamp(at), array.id(at)[: rng.randrange(33)]
        assert storage.position(*bound, 0) == array.position(*bound, 0)
    assert storage.position(INFINITY, b"", 0) == size


# -- what the records are -------------------------------------------------------------------------------------------


def test_records_of_entries_and_payloads(store: SQLiteStore) -> None:
    """A record for each verified entry, and for each of which the payload is held."""
    one, two = build_log(20, seed=1), build_log(7, seed=2)
    store.add(one.items())
    store.add([(entry, None) for entry in two.entries])
    store.forget(one.entries[4].place)

    entries = sorted(record(entry) for entry in [*one.entries, *two.entries])
    assert in_store(store, View.ENTRIES) == entries
    held = sorted(record(entry) for entry in one.entries if entry.seq != 5)
    assert in_store(store, View.PAYLOADS) == held


def test_ids_of_a_stretch(store: SQLiteStore) -> None:
    """The ids between any two positions are those of the records there, in their order."""
    log = build_log(12)
    store.add(log.items())
    ids = [one for _, one in sorted(map(record, log.entries))]
    with store.record_set(View.ENTRIES) as storage:
        for low in range(13):
            for high in range(low, 13):
                assert b"".join(ids[low:high]) == storage.ids(low, high)


def test_entries_that_wait_are_no_records(store: SQLiteStore) -> None:
    """An entry becomes a record when its path arrives, not before."""
    log = build_log(5)
    store.add(log.items(log.entries[2:]))
    assert in_store(store, View.ENTRIES) == []
    assert in_store(store, View.HEADS) == []
    store.add(log.items(log.entries[:2]))
    assert in_store(store, View.ENTRIES) == sorted(map(record, log.entries))
    assert in_store(store, View.PAYLOADS) == sorted(map(record, log.entries))


def test_a_fork_takes_records_away(store: SQLiteStore) -> None:
    """What a fork makes invalid is no record any more, and the head says where the fork is."""
    log = build_log(9)
    store.add(log.items())
    (before,) = in_store(store, View.HEADS)
    store.add([(log.make(4, b"otherwise"), b"otherwise")])
    assert in_store(store, View.ENTRIES) == sorted(map(record, log.entries[:3]))
    (after,) = in_store(store, View.HEADS)
    assert before != after


def head(log: LogBuilder, held: list[Entry], forked_at: int = 0) -> Record:
    """The head of a log of which these entries are held with their payloads."""
    total = sum(int.from_bytes(record(entry)[1], "little") for entry in held) % 2**256
    sums = encode_varu64(len(held)) + total.to_bytes(32, "little")
    newest = encode_varu64(held[-1].seq) + held[-1].hash if held else encode_varu64(0)
    return 0, hashlib.blake2b(
        log.identity.public + encode_varu64(log.log_id) + newest + sums * 2 + encode_varu64(forked_at), digest_size=32
    ).digest()


def test_heads(store: SQLiteStore) -> None:
    """One record for each log, of the bytes that the documentation names, and found again by its id."""
    one, two = build_log(20, seed=1), build_log(7, seed=2)
    store.add(one.items())
    store.add(two.items())
    heads = [head(one, one.entries), head(two, two.entries)]
    assert in_store(store, View.HEADS) == sorted(heads)
    assert store.logs_of([heads[1][1], bytes(32)]) == [(two.identity.public, two.log_id)]

    store.add([(two.make(1, b"otherwise"), None)])
    assert in_store(store, View.HEADS) == sorted([heads[0], head(two, [], forked_at=1)])


def test_only_logs_that_changed_are_looked_at(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of one log costs the head of that log, however many others there are; the heads are right after all."""
    logs = [build_log(3, seed=seed) for seed in range(1, 8)]
    for log in logs:
        store.add(log.items(log.entries[:2]))
    in_store(store, View.HEADS)
    computed: list[Log] = []
    head_id = records.head_id

    def counted(log: Log, *rest: Any) -> bytes:
        computed.append(log)
        return head_id(log, *rest)

    monkeypatch.setattr(records, "head_id", counted)
    for log in logs[:3]:
        store.add(log.items(log.entries[2:]))
    assert [log.entries[0].log for log in logs[:3]] == computed
    expected = [head(log, log.entries[: 3 if log in logs[:3] else 2]) for log in logs]
    assert sorted(expected) == in_store(store, View.HEADS)


def test_equal_heads_mean_equal_holdings(store: SQLiteStore, tmp_path: Path) -> None:
    """Two stores have the same head of a log if, and only if, they hold the same of it, however it came."""
    log = build_log(40)
    rng = random.Random(3)
    items = log.items()
    rng.shuffle(items)
    store.add(log.items())
    with SQLiteStore(tmp_path / "other.db") as other:
        for at in range(0, 40, 7):
            other.add(items[at : at + 7])
            same = at + 7 >= 40
            assert (in_store(store, View.HEADS) == in_store(other, View.HEADS)) is same
        other.forget(log.entries[11].place)
        assert in_store(store, View.HEADS) != in_store(other, View.HEADS)
        store.forget(log.entries[11].place)
        assert in_store(store, View.HEADS) == in_store(other, View.HEADS)


def test_the_greatest_number(store: SQLiteStore) -> None:
    """Entry 2^64 - 1 has the timestamp 2^64 - 2: not infinity."""
    log = build_log(1)
    link = log.entries[0].hash
    greatest = log.make(2**64 - 1, b"last", backlink=link, lipmaalink=link)
    store.add([(greatest, b"last")])
    database_of(store).connection.execute("UPDATE entries SET state = 2")  # its path would be long
    with database_of(store).transaction():
        pass
    with store.record_set(View.ENTRIES) as storage:
        assert everything(storage) == [(2**64 - 2, greatest.hash[2:34])]


# -- the index ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_index_follows_whatever_happens(store: SQLiteStore) -> None:
    """After any sequence of changes the index is what a fresh one would be, and answers like an array."""
    rng = random.Random(8)
    logs = [build_log(rng.choice((3, 40, 300)), seed=seed) for seed in range(30)]
    steps = [(log, [item]) for log in logs[:10] for item in log.items()]
    steps += [(log, log.items()[at : at + 50]) for log in logs[10:] for at in range(0, len(log.entries), 50)]
    rng.shuffle(steps)
    for number, (log, items) in enumerate(steps):
        store.add([(entry, payload if rng.random() < 0.8 else None) for entry, payload in items])
        entry = rng.choice(items)[0]
        if rng.random() < 0.05:
            store.forget(entry.place)
        elif rng.random() < 0.05:
            sink = store.payload_sink(entry.place)
            if sink.wanted:
                sink.write(log.payloads[entry.hash])
                sink.finish()
        if rng.random() < 0.002:
            store.add([(log.make(entry.seq, b"otherwise"), None)])
        if number % 200 == 0:
            assert store.verify().problems == []
    assert store.verify().problems == []
    assert len(in_store(store, View.ENTRIES)) > 2000
    for view in View:
        with store.record_set(view) as storage:
            check_like_array(storage, rng)


@pytest.mark.slow
@pytest.mark.parametrize("page", [10_000, 7])
def test_blocks_are_given_up_again(store: SQLiteStore, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a fork at the start takes a log's records away, nothing is left of their blocks, page by page or at once."""
    monkeypatch.setattr(records, "_PAGE", page)
    log = build_log(3000)
    store.add(log.items(), authenticated=True)
    blocks = "SELECT count(*) FROM record_blocks WHERE kind = 0"
    assert database_of(store).connection.execute(blocks).fetchone()[0] > 3000 // records.MAX_BLOCK
    store.add([(log.make(3, b"otherwise"), None)])
    assert database_of(store).connection.execute(blocks).fetchone() == (1,)
    assert store.verify().problems == []


def test_a_size_lie_takes_records_away(store: SQLiteStore) -> None:
    """An author who lied about a payload's size loses the records from there on."""
    log = build_log(4)
    lie = log.make(5, b"longer than that", size=3)
    store.add([*log.items(), (lie, None)])
    assert len(in_store(store, View.ENTRIES)) == 5
    report = store.add([(lie, b"longer than that")])
    assert isinstance(report.refused[0][1], PayloadSizeMismatch)
    assert in_store(store, View.ENTRIES) == sorted(map(record, log.entries))
    assert store.verify().problems == []


def test_an_older_store_gets_an_index(tmp_path: Path) -> None:
    """A store made before there was an index has the right one after it was opened, even for reading only."""
    logs = [build_log(150, seed=seed) for seed in range(4)]
    place = tmp_path / "old.db"
    with SQLiteStore(place) as store:
        for log in logs:
            store.add(log.items())
        store.add([(logs[0].make(100, b"otherwise"), None)])
        store.forget(logs[1].entries[30].place)
        before = [in_store(store, view) for view in View]
        connection = database_of(store).connection
        age(connection, 1)
    with SQLiteStore(place, read_only=True) as store:
        assert [in_store(store, view) for view in View] == before
        assert store.verify().problems == []


# -- what is held ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_held_of_a_log(store: SQLiteStore) -> None:
    """Entries and payloads held, as ranges: after whatever came, went and was forgotten."""
    rng = random.Random(9)
    log = build_log(300)
    have: set[int] = set()
    forgotten: set[int] = set()
    assert list(store.held(log.identity.public, 0)) == []
    order = list(range(300))
    rng.shuffle(order)
    for at in range(0, 300, 20):
        store.add(log.items([log.entries[number] for number in sorted(order[at : at + 20])]))
        have = {stored.entry.seq for stored in store.entries((log.identity.public, 0))}
        if have and at % 60 == 0:
            seq = rng.choice(sorted(have))
            store.forget(log.entries[seq - 1].place)
            forgotten.add(seq)
        held = store.held(log.identity.public, 0)
        assert {seq for seq in range(1, 302) if held.contains_metadata(seq)} == have
        assert {seq for seq in range(1, 302) if held.contains_payload(seq, 5)} == have - forgotten
    assert len(store.held(log.identity.public, 0)) <= 2 + len(forgotten)
    store.add([(log.make(40, b"otherwise"), None)])
    held = store.held(log.identity.public, 0)
    assert held.contains_metadata(39)
    assert not held.contains_metadata(40)
    assert list(RangeSet([Range(1, 60)]).missing(held))[-1] == Range(40, 60)
    assert store.verify().problems == []


def test_what_is_held_of_all_logs(store: SQLiteStore) -> None:
    """A set for each log, and only for those that changed since, if asked so."""
    one, two = build_log(20, seed=1), build_log(7, seed=2)
    store.add(one.items())
    change = store.change()
    store.add(two.items(two.entries[:5]))
    store.add(two.items(two.entries[6:]))
    names = [(log.identity.public, log.log_id) for log in (one, two)]
    assert dict(store.holdings()) == {name: store.held(*name) for name in names}
    assert store.holdings(change) == [(names[1], RangeSet([Range(1, 5)]))]
    assert [name for name, _ in store.holdings()] == sorted(names)


def test_a_whole_log_is_one_range(store: SQLiteStore) -> None:
    """What has no gaps is one range, and costs one row of each kind."""
    log = build_log(1500)
    store.add(log.items(), authenticated=True)
    assert list(store.held(log.identity.public, 0)) == [Range(1, 1500)]
    assert database_of(store).connection.execute("SELECT count(*) FROM runs").fetchone() == (2,)


# -- sessions -------------------------------------------------------------------------------------------------------


def test_a_session_sees_one_moment(store: SQLiteStore) -> None:
    """What is written while a set is open does not show in it; the next one has it."""
    log = build_log(600)
    store.add(log.items(log.entries[:500]))
    with store.record_set(View.ENTRIES) as storage:
        before = storage.fingerprint(0, len(storage))
        store.add(log.items(log.entries[500:]))
        assert len(storage) == 500
        assert everything(storage) == sorted(map(record, log.entries[:500]))
        assert storage.fingerprint(0, 500) == before
    assert len(in_store(store, View.ENTRIES)) == 600


@pytest.mark.slow
def test_a_set_reads_only_where_a_session_looks(store: SQLiteStore) -> None:
    """Opening a set reads no record, and comparing equal sets only those at the ends of a few ranges."""
    store.add(build_log(5000).items(), authenticated=True)
    with store.record_set(View.ENTRIES) as storage:
        assert storage._blocks == {}  # type: ignore[attr-defined]
        message = Negentropy(storage).initiate()
        with store.record_set(View.ENTRIES) as other:
            assert Negentropy(other).reconcile(message) == b"\x61"
            assert len(other._blocks) <= 16  # type: ignore[attr-defined]


def test_sets_of_one_log_and_of_all_others(store: SQLiteStore) -> None:
    """A view can be narrowed to a log, or hide some."""
    logs = [build_log(length, seed=length) for length in (5, 9, 14)]
    for log in logs:
        store.add(log.items())
    store.forget(logs[1].entries[2].place)
    names: list[Log] = [(log.identity.public, log.log_id) for log in logs]
    for view in View:
        whole = in_store(store, view)
        with store.record_set(view, log=names[1]) as storage:
            one = everything(storage)
        with store.record_set(view, only=lambda log: log != names[1]) as storage:
            others = everything(storage)
        assert len(one) == {View.ENTRIES: 9, View.PAYLOADS: 8, View.HEADS: 1}[view]
        assert sorted(one + others) == whole
    with store.record_set(View.ENTRIES, log=(bytes(32), 0)) as storage:
        assert len(storage) == 0


@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("hidden", [3, *(pytest.param(number, marks=pytest.mark.slow) for number in (0, 1, 8, 9))])
def test_a_set_that_hides_logs_is_the_set_without_them(store: SQLiteStore, view: View, hidden: int) -> None:
    """However many logs are hidden, the set answers like an array of the records that are left."""
    logs = [build_log(length, seed=length, payload_size=9) for length in (1, 1, 2, 40, 300, 301, 500, 700, 900)]
    for log in logs:
        store.add(log.items())
    store.forget(logs[4].entries[150].place)
    rng = random.Random(hidden)
    names = {(log.identity.public, log.log_id) for log in rng.sample(logs, hidden)}
    with store.record_set(view, only=lambda log: log not in names) as storage:
        shown = everything(storage)
        if len(shown) > 1:
            check_like_array(storage, rng)
    left: list[Record] = []
    for summary in store.logs():
        if summary.log not in names:
            with store.record_set(view, log=summary.log) as one:
                left += everything(one)
    assert shown == sorted(left)


@pytest.mark.slow
def test_a_set_that_hides_a_small_log_reads_no_other_records(store: SQLiteStore) -> None:
    """A store that hides one log costs a session what that log has, not a copy of all records in memory."""
    small, large = build_log(3, seed=1), build_log(3000, seed=2)
    for log in (small, large):
        store.add(log.items(), authenticated=True)
    with store.record_set(View.ENTRIES, only=lambda log: log[0] == large.identity.public) as storage:
        assert len(storage) == 3000
        assert storage._blocks == {}  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 4096])
def test_two_stores_reconcile(tmp_path: Path, limit: int) -> None:
    """Two stores find what each lacks of the other's, and the entries behind it."""
    logs = [build_log(400, seed=seed) for seed in range(6)]
    rng = random.Random(5)
    with SQLiteStore(tmp_path / "a.db") as a, SQLiteStore(tmp_path / "b.db") as b:
        for log in logs:
            a.add(log.items(log.entries[: rng.choice((400, 390, 350))]))
            b.add(log.items(log.entries[: rng.choice((400, 390, 350))]))
        with a.record_set(View.ENTRIES) as ours, b.record_set(View.ENTRIES) as theirs:
            client, server = Negentropy(ours, limit), Negentropy(theirs, limit)
            message: bytes | None = client.initiate()
            while message is not None:
                answer = server.reconcile(message)
                assert answer is not None
                message = client.reconcile(answer)
        in_a, in_b = set(in_store(a, View.ENTRIES)), set(in_store(b, View.ENTRIES))
        assert set(client.have) == {identity for _, identity in in_a - in_b}
        assert set(client.need) == {identity for _, identity in in_b - in_a}
        found = [stored.entry for stored in b.entries_of(set(client.need))]
        assert {record(entry) for entry in found} == in_b - in_a
        assert found == sorted(found, key=lambda entry: ([s.author for s in b.logs()].index(entry.author), entry.seq))
