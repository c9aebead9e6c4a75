"""Payloads: written in pieces, resumed, refused."""

from __future__ import annotations

import io
import tempfile
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import Entry, Identity, yamf_hash
from culm.errors import NotHeld, PayloadDamaged, PayloadMismatch, PayloadSizeMismatch, StoreDamaged
from culm.store import PayloadState, SQLiteStore, State
from culm.store.exchange import export_bundle, export_plain
from culm.store.payloads.pieces import PIECE_BYTES
from culm.store.values import Overtaken
from culm.testing import LogBuilder
from tests.store.below import database_of
from tests.store.damage import put
from tests.store.large import COMMIT, LARGE, held

if TYPE_CHECKING:
    from culm.types import Buffer

# -- writing ---------------------------------------------------------------------------------------------------


def test_in_one_go(bare: SQLiteStore, log: LogBuilder) -> None:
    """A payload written and finished is held, offered, and no longer missing."""
    sink = bare.payload_sink(log.entries[0].place)
    sink.write(b"first")
    sink.finish()

    assert (PayloadState.COMPLETE, b"first") == held(bare, log.entries[0].place)
    assert [(2, 3)] == bare.missing(log.entries[0].log, 3)
    assert [(1, 2)] == [(offer.newest, offer.held_back) for offer in bare.offers()]
    assert 1 == next(iter(bare.logs())).complete_to
    bare.forget(log.entries[0].place)
    sink.finish()
    sink.close()
    assert PayloadState.FORGOTTEN == held(bare, log.entries[0].place)[0]


def test_rows_of_the_usual_size(store: SQLiteStore) -> None:
    """The largest payload in the database, of 1 MiB, lies in 16 rows of 64 KiB; 15 of them are held at once."""
    size = 64 * 1024
    builder = LogBuilder(Identity(bytes(32)))
    entry = builder.append(LARGE[: 16 * size])
    store.add([(entry, None)])
    sink = store.payload_sink(entry.place)
    sink.write(LARGE[: 16 * size - 1])
    assert (PayloadState.ABSENT, b"") == held(store, entry.place)
    sink.write(LARGE[16 * size - 1 : 16 * size])
    assert (PayloadState.PARTIAL, LARGE[: 15 * size]) == held(store, entry.place)
    sink.finish()

    rows = database_of(store).connection.execute("SELECT at, length(piece) FROM payloads ORDER BY at").fetchall()
    assert [(at * size, size) for at in range(16)] == rows


@pytest.mark.parametrize("durable", [None, True, False])
def test_what_survives_a_power_cut(bare: SQLiteStore, log: LogBuilder, durable: bool | None) -> None:
    """A payload is brought to the disk, unless the writer can get it again and says so."""
    place = log.entries[0].place
    sink = bare.payload_sink(place) if durable is None else bare.payload_sink(place, durable=durable)
    sink.write(b"first")
    sink.finish()
    ((level,),) = database_of(bare).read("PRAGMA synchronous")
    assert (level >= 2) == (durable is not False)


def test_a_slice_of_what_is_held(bare: SQLiteStore, log: LogBuilder) -> None:
    """Of a payload that is still coming, a slice begins at any byte of a row, wherever that row begins."""
    sink = bare.payload_sink(log.entries[0].place)
    sink.write(b"firs")
    sink.keep()
    stored = bare.get(log.entries[0].place)
    assert stored is not None
    database_of(bare).connection.execute("UPDATE payloads SET at = 1 WHERE entry = ?", (stored.id,))
    assert b"rs" == bare.payload_slice(stored.id, 3, 9)


def test_after_the_end(bare: SQLiteStore, log: LogBuilder) -> None:
    """A sink that gave up holds nothing; one that was overtaken says so each time, and never stores any more."""
    place = log.entries[1].place
    sink = bare.payload_sink(place)
    sink.write(LARGE[:1000])
    sink.keep()
    sink.abandon()
    sink.finish()
    assert (0, (PayloadState.ABSENT, b"")) == (sink.offset, held(bare, place))
    with pytest.raises(PayloadMismatch):
        sink.write(b"x")

    sink = bare.payload_sink(place)
    sink.write(LARGE[:1000])
    bare.forget(place)
    for act in (sink.keep, lambda: sink.write(b"x"), sink.finish):
        with pytest.raises(Overtaken):
            act()
    assert (PayloadState.FORGOTTEN, b"") == held(bare, place)


@pytest.mark.slow
@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_any_pieces(data: st.DataObject) -> None:
    """Pieces of any sizes, with breaks and new sinks between any of them, make up the payload.

    What the writer does with its own memory after that changes nothing.
    """
    builder = LogBuilder(Identity(bytes(32)))
    entry = builder.append(LARGE)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(LARGE)), max_size=12)))
    breaks = data.draw(st.sets(st.sampled_from([0, *cuts])))
    with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "store") as store:
        store.add([(entry, None)])
        sink = store.payload_sink(entry.place)
        for start, end in zip([0, *cuts], [*cuts, len(LARGE)], strict=True):
            if start in breaks:
                sink.close()
                sink = store.payload_sink(entry.place)
                start = min(start, len(LARGE) - 1)  # noqa: PLW2901 - the last byte waits for the check
            assert start == sink.offset
            own = bytearray(LARGE[start:end])
            forms: list[Buffer] = [LARGE[start:end], own, memoryview(own), memoryview(bytes(own))]
            sink.write(forms[data.draw(st.integers(0, 3))])
            own[:] = bytes(len(own))
        sink.finish()

        assert (PayloadState.COMPLETE, LARGE) == held(store, entry.place)
        assert [] == store.verify().problems


def test_a_small_payload_that_came_in_two_goes(bare: SQLiteStore, log: LogBuilder) -> None:
    """A short payload that was resumed lies in pieces: it is given whole to whoever answers a peer."""
    for piece in (b"fi", b"rst"):
        sink = bare.payload_sink(log.entries[0].place)
        sink.write(piece)
        sink.close()
    last = bare.payload_sink(log.entries[0].place)
    last.write(b"t")  # the last byte counts only once all are checked
    last.finish()
    lookup = bare.lookup(log.entries[0].log)
    (kept,) = lookup.page(1, ascending=True, limit=1)
    assert (True, 5) == (kept.complete, kept.payload_held)
    assert kept.small is None or kept.small == b"first"
    (sendable,) = bare.sendables(log.entries[0].log, 1, 1, 1)
    assert b"first" == sendable.start + b"".join(bare.payload_rest(sendable))


@pytest.mark.parametrize("size", [1, 5, PIECE_BYTES, COMMIT, COMMIT + 1, 2 * COMMIT, len(LARGE)])
@pytest.mark.parametrize("trusted", [False, True])
def test_ended_before_the_check(bare: SQLiteStore, size: int, *, trusted: bool) -> None:
    """If a process ends when all bytes are there, unchecked, whoever goes on asks for the last one and is done."""
    builder = LogBuilder(Identity(bytes(32)), log_id=5)
    entry, payload = builder.append(LARGE[:size]), LARGE[:size]
    bare.add([(entry, None)])
    sink = bare.payload_sink(entry.place, trusted=trusted)
    sink.write(payload)
    sink.keep()
    sink.sync()
    again = bare.payload_sink(entry.place)

    assert (True, size - 1) == (again.wanted, again.offset)
    again.write(payload[-1:])
    again.finish()
    sink.finish()
    assert (PayloadState.COMPLETE, payload) == held(bare, entry.place)
    assert [] == bare.verify().problems


def test_checked_after_all(bare: SQLiteStore, log: LogBuilder) -> None:
    """What was written on trust and is doubted after that is checked, whether all of it is stored or not."""
    entry = log.entries[1]
    for wrong in (True, False):
        sink = bare.payload_sink(entry.place, trusted=True)
        sink.write(LARGE[:-1] + (b"\0" if wrong else LARGE[-1:]))
        sink.keep()
        sink.distrust()
        if wrong:
            with pytest.raises(PayloadMismatch):
                sink.finish()
            assert PayloadState.ABSENT == held(bare, entry.place)[0]
        else:
            sink.finish()
    assert (PayloadState.COMPLETE, LARGE) == held(bare, entry.place)


def test_pieces_are_stored_large(bare: SQLiteStore, log: LogBuilder) -> None:
    """A payload that comes in drips is stored in pieces of the usual size."""
    sink = bare.payload_sink(log.entries[1].place)
    for at in range(0, len(LARGE), 1009):
        sink.write(LARGE[at : at + 1009])
    sink.finish()
    stored = bare.get(log.entries[1].place)
    assert stored is not None

    assert [PIECE_BYTES] * 35 + [17] == [len(piece) for piece in bare.payload(stored)]


@pytest.mark.slow
def test_drips_take_little_memory(bare: SQLiteStore, log: LogBuilder) -> None:
    """What waits to be stored takes as much memory as it has bytes, however small the pieces were."""
    sink = bare.payload_sink(log.entries[1].place)
    tracemalloc.start()
    try:
        for at in range(50_000):
            sink.write(LARGE[at : at + 1])
        now, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now < 150_000


def test_a_mebibyte_is_held_at_once(bare: SQLiteStore, log: LogBuilder) -> None:
    """With the last byte of a mebibyte its pieces are stored, so that a break there loses none of them."""
    sink = bare.payload_sink(log.entries[1].place)
    sink.write(LARGE[: COMMIT - 1])
    assert (PayloadState.ABSENT, b"") == held(bare, log.entries[1].place)
    sink.write(LARGE[COMMIT - 1 : COMMIT])
    assert (PayloadState.PARTIAL, LARGE[:COMMIT]) == held(bare, log.entries[1].place)


@pytest.mark.parametrize("offset", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, COMMIT + 5, len(LARGE) - 1, len(LARGE)])
def test_reading_from_an_offset(bare: SQLiteStore, log: LogBuilder, offset: int) -> None:
    """The bytes of a payload are given from any offset on."""
    bare.add(log.items())
    stored = bare.get(log.entries[1].place)
    assert stored is not None

    assert LARGE[offset:] == b"".join(bare.payload(stored, offset))


def test_a_piece_that_holds_nothing(place: Path, log: LogBuilder) -> None:
    """A damaged row without bytes is missing bytes, in whatever way it is read."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        stored = store.get(log.entries[0].place)
        assert stored is not None
    put(place, "payloads", "piece", "NULL", f"entry = {stored.id}")
    with SQLiteStore(place) as store:
        with pytest.raises(PayloadDamaged, match="entry 1 was damaged on the disk: it ends after 0 of 5 bytes"):
            list(store.payload(stored))
        with pytest.raises(PayloadDamaged):
            list(store.payload_rest(store.sendables(stored.entry.log, 1, 1, 1)[0]))
        with pytest.raises(StoreDamaged, match="1 rows of its table payloads"):
            store.verify()


@pytest.mark.parametrize("value", ["'text!'", "54321", "5.432"])
def test_a_piece_of_the_wrong_type(place: Path, log: LogBuilder, value: str) -> None:
    """A damaged row with something else than bytes never passes for a payload, nor for anything but damage."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        stored = store.get(log.entries[0].place)
        assert stored is not None
        database_of(store).connection.execute(f"UPDATE payloads SET piece = {value} WHERE entry = ?", (stored.id,))
        with pytest.raises(PayloadDamaged):
            list(store.payload(stored))
        (held,) = store.lookup(stored.entry.log).page(1, ascending=True, limit=1)
        assert held.small is None
        with pytest.raises(StoreDamaged, match="1 rows of its table payloads"):
            store.verify()


def test_bytes_that_are_missing_are_told(place: Path, log: LogBuilder) -> None:
    """A payload that the store calls complete and has not all of is never passed on as if it were whole."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        stored = store.get(log.entries[0].place)
        assert stored is not None
        database_of(store).connection.execute("UPDATE payloads SET piece = x'66' WHERE entry = ?", (stored.id,))
        with pytest.raises(StoreDamaged, match="it ends after 1 of 5 bytes"):
            list(store.payload(stored))
        for export in (export_plain, export_bundle):
            with pytest.raises(StoreDamaged):
                export(store, [log.entries[0].log], io.BytesIO(), *([print] if export is export_plain else []))
        store.forget(log.entries[0].place)
        for offset in (0, 3):  # it was forgotten after it was looked up
            with pytest.raises(NotHeld, match="deleted while it was read"):
                list(store.payload(stored, offset))


def test_sendables(bare: SQLiteStore, log: LogBuilder) -> None:
    """A sender gets the entries whose payload is held, with what stands in the database at once, and then the rest."""
    medium = log.append(LARGE[: PIECE_BYTES + 5])
    bare.add([log.items()[0], log.items()[1], (log.entries[2], b"third"), (medium, LARGE[: PIECE_BYTES + 5])])
    found = bare.sendables(log.entries[0].log, 1, 10, 10)

    assert [
        (1, 5, b"first"),
        (2, len(LARGE), b""),
        (3, 5, b"third"),
        (4, PIECE_BYTES + 5, LARGE[:PIECE_BYTES]),
    ] == [(item.seq, item.size, item.start) for item in found]
    assert [entry.encoded for entry in log.entries] == [item.encoded for item in found]
    rest = [b"", LARGE, b"", LARGE[PIECE_BYTES : PIECE_BYTES + 5]]
    assert rest == [b"".join(bare.payload_rest(item)) for item in found]
    assert [2] == [item.seq for item in bare.sendables(log.entries[0].log, 2, 2, 10)]
    assert [1] == [item.seq for item in bare.sendables(log.entries[0].log, 1, 3, 1)]


def test_sendables_after_a_break(bare: SQLiteStore, log: LogBuilder) -> None:
    """A first piece that is short, as its transfer broke there, is given as it is, and the rest behind it."""
    sink = bare.payload_sink(log.entries[1].place)
    sink.write(LARGE[:100])
    sink.close()
    sink = bare.payload_sink(log.entries[1].place)
    sink.write(LARGE[100:])
    sink.finish()
    (item,) = bare.sendables(log.entries[0].log, 1, 3, 5)

    assert LARGE == item.start + b"".join(bare.payload_rest(item))


# -- resuming --------------------------------------------------------------------------------------------------


def test_resumed_at_the_byte_reached(bare: SQLiteStore, log: LogBuilder) -> None:
    """After ``close`` another connection goes on at exactly the byte reached."""
    sink = bare.payload_sink(log.entries[1].place)
    sink.write(LARGE[: COMMIT + 12_345])
    sink.close()
    with SQLiteStore(bare.path) as again:
        sink = again.payload_sink(log.entries[1].place)

        assert COMMIT + 12_345 == sink.offset
        assert (PayloadState.PARTIAL, LARGE[: COMMIT + 12_345]) == held(again, log.entries[1].place)
        assert [(1, 3)] == again.missing(log.entries[0].log, 3)
        sink.write(LARGE[COMMIT + 12_345 :])
        sink.finish()
        assert (PayloadState.COMPLETE, LARGE) == held(again, log.entries[1].place)


def test_a_small_payload_in_parts(store: SQLiteStore) -> None:
    """A small payload that came in parts is given whole, or not at all, to who looks its entry up."""
    builder = LogBuilder(Identity(bytes(32)))
    entry = builder.append(b"in two parts")
    store.add([(entry, None)])
    for part in (b"in two", b" parts"):
        sink = store.payload_sink(entry.place)
        sink.write(part)
        sink.close()
    sink = store.payload_sink(entry.place)
    sink.write(b"in two parts"[sink.offset :])  # the last byte waited for the check
    sink.finish()
    (kept,) = store.lookup(entry.log).page(1, ascending=True, limit=1)

    assert (12, True) == (kept.payload_held, kept.complete)
    assert kept.small in (None, b"in two parts")
    assert [b"in two parts", b" parts", b"s"] == [store.payload_slice(kept.handle, at, 100) for at in (0, 6, 11)]


def test_killed_in_the_middle(bare: SQLiteStore, log: LogBuilder) -> None:
    """If the process dies without a word at most the last uncommitted MiB is lost; what is there is right."""
    lost = bare.payload_sink(log.entries[1].place)
    written = COMMIT + 5 * PIECE_BYTES + 9
    for at in range(0, written, 10_007):
        lost.write(LARGE[at : min(at + 10_007, written)])
    with SQLiteStore(bare.path) as again:
        sink = again.payload_sink(log.entries[1].place)

        assert written - COMMIT < sink.offset <= written
        assert (PayloadState.PARTIAL, LARGE[: sink.offset]) == held(again, log.entries[1].place)
        sink.write(LARGE[sink.offset :])
        sink.finish()
        assert [] == again.verify().problems


def test_a_whole_payload_replaces_a_part(bare: SQLiteStore, log: LogBuilder) -> None:
    """A payload that comes whole after a part of it, even a wrong part, is held as it came."""
    sink = bare.payload_sink(log.entries[1].place)
    sink.write(b"wrong" * 100)
    sink.close()
    report = bare.add([log.items()[1]])

    assert (1, 1) == (report.known, report.payloads)
    assert (PayloadState.COMPLETE, LARGE) == held(bare, log.entries[1].place)
    assert [] == bare.verify().problems


# -- refusing --------------------------------------------------------------------------------------------------


def test_a_mismatch_drops_what_was_held(bare: SQLiteStore, log: LogBuilder) -> None:
    """Bytes of another hash are dropped as a whole; the payload can come anew from its first byte."""
    sink = bare.payload_sink(log.entries[1].place)
    sink.write(LARGE[:-1] + b"\x00")
    with pytest.raises(PayloadMismatch) as caught:
        sink.finish()

    assert PayloadMismatch is type(caught.value)
    assert (PayloadState.ABSENT, b"") == held(bare, log.entries[1].place)
    assert [1, 2, 3] == [stored.entry.seq for stored in bare.entries(log.entries[0].log)]
    again = bare.payload_sink(log.entries[1].place)
    assert (0, True) == (again.offset, again.wanted)
    again.write(LARGE)
    again.finish()
    assert (PayloadState.COMPLETE, LARGE) == held(bare, log.entries[1].place)


def test_too_few_bytes(bare: SQLiteStore, log: LogBuilder) -> None:
    """A payload that ends early is dropped like any other that does not match."""
    sink = bare.payload_sink(log.entries[1].place)
    sink.write(LARGE[:-1])
    with pytest.raises(PayloadMismatch):
        sink.finish()

    assert (PayloadState.ABSENT, b"") == held(bare, log.entries[1].place)


@pytest.mark.parametrize("before", [0, 1, 5])
def test_too_many_bytes(bare: SQLiteStore, log: LogBuilder, before: int) -> None:
    """More bytes than the entry claims are refused before any of them is taken."""
    sink = bare.payload_sink(log.entries[0].place)
    sink.write(b"first"[:before])
    with pytest.raises(PayloadMismatch, match="is longer than the 5 bytes"):
        sink.write(b"first"[before:] + b"!")

    assert before == sink.offset
    sink.write(b"first"[before:])
    sink.finish()
    assert (PayloadState.COMPLETE, b"first") == held(bare, log.entries[0].place)


@pytest.mark.parametrize("size", [10, 100, 2**63, 2**64 - 1])
def test_a_payload_shorter_than_claimed(place: Path, size: int) -> None:
    """A payload of the right hash that ends early shows a lie: the log is invalid from there, and says so for ever."""
    builder = LogBuilder(Identity(bytes(32)))
    builder.append(b"true")
    builder.entries.append(builder.make(2, b"a payload", size=size))
    builder.append(b"after the lie")
    with SQLiteStore(place) as store:
        store.add([(entry, None) for entry in builder.entries])
        sink = store.payload_sink(builder.entries[1].place)
        sink.write(b"a payload")
        with pytest.raises(PayloadSizeMismatch):
            sink.finish()
    with SQLiteStore(place) as store:
        states = [stored.state for stored in store.entries(builder.entries[0].log, states=State)]

        assert [State.VERIFIED, State.INVALID, State.INVALID] == states
        assert [(1, 1)] == store.missing(builder.entries[0].log, 9)
        assert (2, None) == (next(store.logs()).invalid_from, next(store.logs()).forked_at)
        assert not store.payload_sink(builder.entries[1].place).wanted
        assert [] == store.verify().problems


def test_a_payload_longer_than_claimed(place: Path) -> None:
    """Through a sink it is refused at the claimed size and cannot show the lie; handed over whole it does."""
    builder = LogBuilder(Identity(bytes(32)))
    builder.entries.append(builder.make(1, b"a payload", size=8))
    with SQLiteStore(place) as store:
        store.add([(builder.entries[0], None)])
        sink = store.payload_sink(builder.entries[0].place)
        with pytest.raises(PayloadMismatch) as caught:
            sink.write(b"a payload")

        assert PayloadMismatch is type(caught.value)
        assert [State.VERIFIED] == [found.state for found in store.entries(builder.entries[0].log, states=State)]
        store.add([(builder.entries[0], b"a payload")])
        assert [State.INVALID] == [found.state for found in store.entries(builder.entries[0].log, states=State)]


def test_a_claim_allocates_nothing(place: Path) -> None:
    """An entry that claims 2^63 bytes costs memory and disk only for the bytes that come."""
    builder = LogBuilder(Identity(bytes(32)))
    entry = builder.make(1, b"", size=2**63)
    with SQLiteStore(place) as store:
        store.add([(entry, None)])
        used = place.stat().st_size
        tracemalloc.start()
        try:
            sink = store.payload_sink(entry.place)
            for _ in range(100):
                sink.write(bytes(1000))
            sink.close()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert peak < 2_000_000
        assert place.stat().st_size < used + 2_000_000
        assert 100_000 == store.payload_sink(entry.place).offset


@pytest.mark.slow
def test_memory_of_a_large_payload(bare: SQLiteStore) -> None:
    """Writing and reading a payload piece by piece takes a few MiB, however large it is."""
    builder = LogBuilder(Identity(bytes([1] * 32)))
    piece = bytes(COMMIT)
    entry = builder.make(1, piece * 24)
    bare.add([(entry, None)])
    tracemalloc.start()
    try:
        sink = bare.payload_sink(entry.place)
        for _ in range(24):
            sink.write(piece)
        sink.finish()
        stored = bare.get(entry.place)
        assert stored is not None
        size = sum(len(part) for part in bare.payload(stored))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 24 * COMMIT == size
    assert peak < 6 * COMMIT


# -- which entry -----------------------------------------------------------------------------------------------


def test_entries_not_held(store: SQLiteStore, log: LogBuilder) -> None:
    """Without its entry a payload can neither be taken nor forgotten."""
    with pytest.raises(NotHeld):
        store.payload_sink(log.entries[0].place)
    with pytest.raises(NotHeld):
        store.forget(log.entries[0].place)

    assert [] == list(store.logs())
    assert 0 == store.change()


def test_payloads_of_both_branches(bare: SQLiteStore, log: LogBuilder) -> None:
    """Of two entries of one number the hash chooses whose payload it is; without it, the one that came first."""
    other: Entry = log.make(1, b"other")
    bare.add([(other, None)])
    for entry, payload in ((other, b"other"), (log.entries[0], b"first")):
        sink = bare.payload_sink(entry.place, entry.hash)
        sink.write(payload)
        sink.finish()
    stored = list(bare.entries(other.log, 1, 1, states=State))

    assert [b"first", b"other"] == [b"".join(bare.payload(found)) for found in stored]
    assert not bare.payload_sink(other.place).wanted
    with pytest.raises(NotHeld):
        bare.payload_sink(other.place, yamf_hash(b"a third"))
