"""Payloads whose bytes changed on the disk: nobody gets them, and they count as missing from then on."""

from __future__ import annotations

import errno
import os
import random
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity, PayloadHasher, yamf_hash
from culm.errors import NotHeld, PayloadDamaged, StoreDamaged
from culm.store import PayloadState, SQLiteStore, StoredEntry
from culm.store.payloads.checked import right_in_one_piece
from culm.store.payloads.pieces import PIECE_BYTES, PieceSums, hash_held
from culm.testing import LogBuilder
from tests.store.below import age, database_of
from tests.store.damage import flip, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1024 * 1024
SMALL = random.Random(2).randbytes(300_000)
LARGE = random.Random(3).randbytes(3 * MIB + 100_000)
AUTHOR = Identity(bytes(32))


@pytest.fixture
def log() -> LogBuilder:
    """A log of a tiny payload, one of several pieces in the database, and one in a file."""
    builder = LogBuilder(AUTHOR)
    for payload in (b"tiny", SMALL, LARGE):
        builder.append(payload)
    return builder


def stored_at(store: SQLiteStore, log: LogBuilder, seq: int) -> StoredEntry:
    """The entry of a number as the store has it."""
    found = store.get(log.entries[seq - 1].place)
    assert found is not None
    return found


def damage_of(store: SQLiteStore, stored: StoredEntry) -> PayloadDamaged:
    """The error that a whole read of a payload ends with."""
    with pytest.raises(PayloadDamaged) as caught:
        b"".join(store.payload(stored))
    return caught.value


# -- nobody gets wrong bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seq", "at"), [(1, 3), (2, 0), (2, 299_999), (3, 0), (3, 2 * MIB + 7), (3, len(LARGE) - 1)])
def test_a_whole_read_never_completes(place: Path, log: LogBuilder, seq: int, at: int) -> None:
    """One flipped bit, wherever it is: a reader gets an error in place of the last piece, at the latest."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        flip(place, seq, at)
        stored = stored_at(store, log, seq)
        given = 0
        with pytest.raises(
            PayloadDamaged, match=f"payload of entry {seq} was damaged on the disk: its bytes"
        ) as caught:
            for piece in store.payload(stored):
                given += len(piece)

        assert given < stored.entry.size
        assert (stored.entry.place, stored.entry.hash) == (caught.value.place, caught.value.entry_hash)


@pytest.mark.parametrize(("seq", "at"), [(1, 3), (2, 5), (2, 299_999), (3, 0), (3, 2 * MIB + 7), (3, len(LARGE) - 1)])
def test_reads_from_the_middle(place: Path, log: LogBuilder, seq: int, at: int) -> None:
    """Slices of the damaged MiB are refused, and so is a stream that begins inside; other slices are right."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        flip(place, seq, at)
        stored, payload = stored_at(store, log, seq), log.payloads[log.entries[seq - 1].hash]
        for begin in range(0, len(payload), 50_000):
            touched = range(begin // MIB, (min(begin + 50_000, len(payload)) - 1) // MIB + 1)
            if at // MIB in touched:
                with pytest.raises(PayloadDamaged):
                    store.payload_slice(stored.id, begin, 50_000)
            else:
                assert payload[begin : begin + 50_000] == store.payload_slice(stored.id, begin, 50_000)
        if at:
            with pytest.raises(PayloadDamaged):
                list(store.payload(stored, at))
        if at + MIB < len(payload):
            rest = (at // MIB + 1) * MIB
            assert payload[rest:] == b"".join(store.payload(stored, rest))


def test_what_senders_read(place: Path, log: LogBuilder) -> None:
    """A page of entries to send is refused if a payload in it is damaged; a page of a log says that it is not short."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        flip(place, 1)
        with pytest.raises(PayloadDamaged):
            store.sendables(log.entries[0].log, 1, 3, 9)
        assert [2, 3] == [found.seq for found in store.sendables(log.entries[0].log, 2, 3, 9)]
        assert [None] * 3 == [kept.small for kept in store.lookup(log.entries[0].log).page(1, ascending=True, limit=3)]
        flip(place, 2, 200_000)
        (sendable,) = store.sendables(log.entries[0].log, 2, 2, 1)
        with pytest.raises(PayloadDamaged):
            list(store.payload_rest(sendable))


def test_a_start_that_is_wrong(place: Path, log: LogBuilder) -> None:
    """The piece that a sender got with the entry is compared with the rest."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        flip(place, 2, 1)
        (sendable,) = store.sendables(log.entries[0].log, 2, 2, 1)
        assert PIECE_BYTES == len(sendable.start)
        with pytest.raises(PayloadDamaged):
            list(store.payload_rest(sendable))


def test_a_sector_that_cannot_be_read(place: Path, log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """An I/O error of the disk is damage of the payload; another error of the system is not."""

    def failing(number: int) -> Callable[..., bytes]:
        def pread(*_: object) -> bytes:
            raise OSError(number, os.strerror(number))

        return pread

    with SQLiteStore(place) as store:
        store.add(log.items())
        stored = stored_at(store, log, 3)
        with monkeypatch.context() as patch:
            patch.setattr("os.pread", failing(errno.EIO))
            assert "ends after 0 of" in str(damage_of(store, stored))
            patch.setattr("os.pread", failing(errno.EACCES))
            with pytest.raises(Exception, match="Permission denied") as caught:
                list(store.payload(stored))
        assert not isinstance(caught.value, PayloadDamaged)


def test_more_bytes_than_there_should_be(place: Path, log: LogBuilder) -> None:
    """A damaged table with pieces behind a payload's end costs no more than the payload."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        stored = stored_at(store, log, 1)
        database_of(store).connection.executemany(
            "INSERT INTO payloads VALUES (?, ?, ?)", ((stored.id, 4 + at, b"x") for at in range(1000))
        )
        assert [] == list(_given(store, stored))


def _given(store: SQLiteStore, stored: StoredEntry) -> list[bytes]:
    """The pieces that came before the error."""
    found: list[bytes] = []
    with pytest.raises(PayloadDamaged):
        found.extend(store.payload(stored))
    return [piece for piece in found if piece != b"tiny"]


def test_deleted_while_it_is_read(place: Path, log: LogBuilder) -> None:
    """A payload that somebody deletes during a read is no damage, and is not given as if it were whole."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        stored = stored_at(store, log, 3)
        pieces = store.payload(stored)
        next(pieces)
        store.forget(stored.entry.place)
        with pytest.raises(NotHeld, match="deleted while it was read"):
            list(pieces)
        assert b"" == store.payload_slice(stored.id, 5, 5)
        assert [] == store.damaged_payloads()


# -- what it costs ---------------------------------------------------------------------------------------------------


def test_bounded_reading(place: Path, log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice reads at most one MiB more than was asked for; slices that follow each other read each byte once."""
    count = [0]
    pread = os.pread

    def counted(*arguments: int) -> bytes:
        data = pread(*arguments)
        count[0] += len(data)
        return data

    with SQLiteStore(place) as store:
        store.add(log.items())
        stored = stored_at(store, log, 3)
        monkeypatch.setattr("os.pread", counted)
        for at, size in ((7, 1), (2 * MIB - 1, 1), (MIB + 5, 70_000), (len(LARGE) - 1, 500)):
            with SQLiteStore(place, read_only=True) as reader:
                count[0] = 0
                assert LARGE[at : at + size] == reader.payload_slice(stored.id, at, size)
                assert count[0] <= size + MIB
        count[0] = 0
        for at in range(0, len(LARGE), 60_000):
            assert LARGE[at : at + 60_000] == store.payload_slice(stored.id, at, 60_000)
        assert len(LARGE) == count[0]
        assert not database_of(store).stretches, "what was read to its end stays in memory"


def test_the_stretches_in_memory(place: Path) -> None:
    """Eight stretches are remembered: those that were read last."""
    builder = LogBuilder(AUTHOR)
    builder.append(bytes(9 * MIB))
    with SQLiteStore(place) as store:
        store.add(builder.items())
        stored = stored_at(store, builder, 1)
        for number in (*range(8), 0, 8):
            assert b"\0" == store.payload_slice(stored.id, number * MIB, 1)

        assert [2, 3, 4, 5, 6, 7, 0, 8] == [number for _, number in database_of(store).stretches]


def test_a_payload_of_one_stretch(place: Path) -> None:
    """The longest payload without checksums is compared with its hash; slices of it may begin anywhere."""
    payload = random.Random(4).randbytes(MIB)
    builder = LogBuilder(AUTHOR)
    builder.append(payload)
    with SQLiteStore(place) as store:
        store.add(builder.items())
        stored = stored_at(store, builder, 1)
        for at in (0, 1, PIECE_BYTES - 1, PIECE_BYTES, MIB - 5):
            assert payload[at : at + 70_000] == store.payload_slice(stored.id, at, 70_000)
        assert b"" == store.payload_slice(stored.id, MIB, 1)
        assert b"" == store.payload_slice(stored.id + 1, 0, 1)


def test_what_a_slice_says_of_damage(place: Path, log: LogBuilder) -> None:
    """It says whether bytes have changed, in whichever stretch, or at which byte the file ends."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        stored = stored_at(store, log, 3)
        for at in (MIB + 5, 3 * MIB + 5):
            flip(place, 3, at)
            with pytest.raises(PayloadDamaged, match="its bytes have changed"):
                store.payload_slice(stored.id, at, 1)
        (file,) = place.with_name(place.name + "-payloads").iterdir()
        os.truncate(file, MIB + 1000)
        with pytest.raises(PayloadDamaged, match=f"it ends after {MIB + 1000} of {len(LARGE)} bytes"):
            store.payload_slice(stored.id, MIB, 1)


def test_deleted_while_a_slice_is_read(place: Path, log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of a payload that somebody deletes meanwhile has no bytes."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        stored = stored_at(store, log, 3)
        pread = os.pread

        def deleting(*_: int) -> bytes:
            monkeypatch.setattr(os, "pread", pread)
            with SQLiteStore(place) as other:
                other.forget(stored.entry.place)
            return b""

        monkeypatch.setattr(os, "pread", deleting)
        assert b"" == store.payload_slice(stored.id, 5, 5)


def test_many_small_payloads_at_once(place: Path, log: LogBuilder) -> None:
    """Of payloads in a single row each it is found at once which are right; of others nothing is said."""
    with SQLiteStore(place) as store:
        store.add([*log.items(), (log.append(b"right"), b"right")])
        flip(place, 1)
        entries = {stored_at(store, log, seq).id: log.entries[seq - 1] for seq in (1, 2, 3, 4)}
        assert {stored_at(store, log, 4).id} == right_in_one_piece(database_of(store), entries)


def test_the_hash_of_a_beginning(place: Path, log: LogBuilder) -> None:
    """The first bytes held have a hash of their own, wherever they end."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        for seq, payload in ((2, SMALL), (3, LARGE)):
            for most in (0, 1, PIECE_BYTES, 2 * PIECE_BYTES + 5, len(payload)):
                found = hash_held(database_of(store), stored_at(store, log, seq).id, most)
                assert (most, yamf_hash(payload[:most])) == (found.size, found.hash)


def test_a_row_in_front_of_the_payload(place: Path, log: LogBuilder) -> None:
    """Bytes in the database that claim to begin before the payload are damage of the store."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        stored = stored_at(store, log, 1)
        assert put(place, "payloads", "at", "-1", f"entry = {stored.id}")
        with pytest.raises(StoreDamaged):
            list(store.payload(stored))


@pytest.mark.parametrize("sizes", [[1], [5, MIB - 5], [MIB, MIB], [MIB + 1], [3, 2 * MIB, 9]])
def test_checksums(sizes: list[int]) -> None:
    """The checksums are those of each MiB, however the bytes come: the CRC-32 of ISO 3309."""
    sums = PieceSums()
    data = bytes(sum(sizes))
    for size in sizes:
        sums.update(bytes(size))

    of_zeros = {MIB: "a738ea1c", 1: "d202ef8d", 12: "7bd5c66f"}  # as gzip writes it
    expected = [of_zeros[min(MIB, len(data) - at)] for at in range(0, len(data), MIB)]
    assert "".join(expected) == sums.encoded.hex()


def test_checksums_of_a_view_cost_no_second_payload() -> None:
    """A buffer of any size is copied a part at a time."""
    view = memoryview(bytearray(16 * MIB))
    tracemalloc.start()
    sums, hasher = PieceSums(), PayloadHasher()
    sums.update(view)
    hasher.update(view)
    assert hasher.size == len(view)
    assert tracemalloc.get_traced_memory()[1] < 5 * MIB
    tracemalloc.stop()


# -- where checksums come from ---------------------------------------------------------------------------------------


def known_sums(store: SQLiteStore) -> list[bytes | None]:
    """What the store knows of large payloads."""
    return [row[0] for row in database_of(store).connection.execute("SELECT sums FROM payload_files")]


@pytest.mark.parametrize("way", ["add", "append", "sink", "trusted", "resumed", "distrusted"])
def test_checksums_are_stored(place: Path, log: LogBuilder, way: str) -> None:
    """However a large payload comes, its checksums are stored once it is verified."""
    with SQLiteStore(place) as store:
        if way == "append":
            for payload in (b"tiny", SMALL, LARGE):
                store.append(AUTHOR, 0, [payload[at : at + 99_999] for at in range(0, len(payload), 99_999)])
        elif way == "add":
            store.add(log.items())
        else:
            store.add([(entry, None) for entry in log.entries])
            place_of_large = log.entries[2].place
            if way in ("resumed", "distrusted"):
                begun = store.payload_sink(place_of_large)
                begun.write(LARGE[:1_300_000])
                begun.close()
            sink = store.payload_sink(place_of_large, trusted=way in ("trusted", "distrusted"))
            if way == "distrusted":
                sink.distrust()
            sink.write(LARGE[sink.offset :])
            sink.finish()

        (sums,) = known_sums(store)
        expected = PieceSums()
        expected.update(LARGE)
        assert expected.encoded == sums
        assert LARGE[MIB + 9 : MIB + 99] == store.payload_slice(stored_at(store, log, 3).id, MIB + 9, 90)


def test_a_trusted_writer_that_goes_on(place: Path, log: LogBuilder) -> None:
    """Of what was held before a trusted writer came nobody has the checksums; a first slice computes them."""
    large = log.entries[2].place
    with SQLiteStore(place) as store:
        store.add([(entry, None) for entry in log.entries])
        begun = store.payload_sink(large)
        begun.write(LARGE[:1_300_000])
        begun.close()
        sink = store.payload_sink(large, trusted=True)
        sink.write(LARGE[sink.offset :])
        sink.finish()

        assert [None] == known_sums(store)
        assert LARGE[-5:] == store.payload_slice(stored_at(store, log, 3).id, len(LARGE) - 5, 50)


def test_an_older_store(place: Path, log: LogBuilder) -> None:
    """A store of version 4 gets no checksums when it is opened. A first slice checks the whole payload instead."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        age(database_of(store).connection, 4)
    with SQLiteStore(place) as store:
        assert [None] == known_sums(store)
        stored = stored_at(store, log, 3)
        assert [stored] == store.payloads_to_check(0, 9, without_sums=True)
        assert LARGE[-5:] == store.payload_slice(stored.id, len(LARGE) - 5, 50)
        sums = store.check_payload(stored)
        assert sums is not None
        store.keep_sums(stored, sums)
        assert [sums] == known_sums(store)
        assert [] == store.payloads_to_check(0, 9, without_sums=True)
        age(database_of(store).connection, 4)
    flip(place, 3, 5)
    with SQLiteStore(place) as store, pytest.raises(PayloadDamaged):
        store.payload_slice(stored.id, len(LARGE) - 5, 50)


# -- what becomes of it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_a_damaged_payload_is_missing(place: Path, log: LogBuilder, seq: int) -> None:
    """It is not held any more, the log has a gap there, and it is listed until it has come again."""
    entry = log.entries[seq - 1]
    with SQLiteStore(place) as store:
        store.add(log.items())
        flip(place, seq)
        damage = damage_of(store, stored_at(store, log, seq))

        assert store.drop_damaged(damage)
        assert not store.drop_damaged(damage)
        (found,) = store.damaged_payloads()
        assert (entry, PayloadState.ABSENT, 0) == (found.entry, found.payload_state, found.payload_held)
        assert [(seq, seq)] == store.missing(entry.log, 3, 9)
        assert seq - 1 == next(iter(store.logs())).complete_to
        assert store.verify().problems == []
        assert 1 == store.survey().totals().damaged

        assert 1 == store.add([(entry, log.payloads[entry.hash])]).payloads
        assert [] == store.damaged_payloads()
        assert 0 == store.survey().totals().damaged
        assert not store.drop_damaged(damage)
        assert log.payloads[entry.hash] == b"".join(store.payload(stored_at(store, log, seq)))


def test_forgetting_a_damaged_payload(place: Path, log: LogBuilder) -> None:
    """A damaged payload that the operator deletes is not waited for."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        flip(place, 2)
        store.drop_damaged(damage_of(store, stored_at(store, log, 2)))
        store.forget(log.entries[1].place)

        assert [] == store.damaged_payloads()


def test_what_is_to_be_checked(place: Path, log: LogBuilder) -> None:
    """All complete payloads with any bytes come, page by page."""
    log.append(b"")
    log.append(b"away")
    with SQLiteStore(place) as store:
        store.add(log.items())
        store.forget(log.entries[4].place)
        first = store.payloads_to_check(0, 2)
        second = store.payloads_to_check(first[-1].id, 2)

        assert [1, 2, 3] == [stored.entry.seq for stored in (*first, *second)]
        assert [True, True, False] == [store.check_payload(stored) is None for stored in (*first, *second)]
