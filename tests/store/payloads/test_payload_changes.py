"""Payloads that something else happens to meanwhile, or afterwards: other transfers of the same one, forgetting."""

from __future__ import annotations

import pytest

from culm.bamboo import Identity, yamf_hash
from culm.errors import PayloadMismatch, StoreError
from culm.store import Overtaken, PayloadSink, PayloadState, SQLiteStore
from culm.store.payloads.pieces import PIECE_BYTES
from culm.testing import LogBuilder
from tests.store.large import COMMIT, LARGE, held

# -- several at once -------------------------------------------------------------------------------------------


def test_two_sinks_of_one_payload(bare: SQLiteStore, log: LogBuilder) -> None:
    """When two sinks take one payload, the second to finish changes nothing of what the first has stored."""
    place = log.entries[1].place
    one, other = bare.payload_sink(place), bare.payload_sink(place)
    one.write(LARGE)
    other.write(LARGE[:100])
    one.finish()
    other.close()

    assert (PayloadState.COMPLETE, LARGE) == held(bare, place)
    assert [] == bare.verify().problems


def test_finishing_after_another_sink_did(bare: SQLiteStore, log: LogBuilder) -> None:
    """A payload that is there already when a sink finishes is simply there."""
    place = log.entries[0].place
    one, other = bare.payload_sink(place), bare.payload_sink(place)
    one.write(b"first")
    other.write(b"first")
    one.finish()
    other.finish()

    assert (PayloadState.COMPLETE, b"first") == held(bare, place)


def test_a_mismatch_after_another_sink_was_right(bare: SQLiteStore, log: LogBuilder) -> None:
    """Wrong bytes that come second are refused and take nothing away of the payload that is there."""
    place = log.entries[1].place
    good, bad = bare.payload_sink(place), bare.payload_sink(place)
    bad.write(b"wrong")
    good.write(LARGE)
    good.finish()
    with pytest.raises(PayloadMismatch):
        bad.finish()

    assert (PayloadState.COMPLETE, LARGE) == held(bare, place)
    assert [] == bare.verify().problems


def test_writing_on_after_another_sink_finished(bare: SQLiteStore, log: LogBuilder) -> None:
    """A transfer that is overtaken by a complete one may go on and finish; its bytes are not needed any more."""
    place = log.entries[1].place
    one, other = bare.payload_sink(place), bare.payload_sink(place)
    other.write(LARGE[:1000])
    one.write(LARGE)
    one.finish()
    for at in range(1000, len(LARGE), PIECE_BYTES):
        other.write(LARGE[at : at + PIECE_BYTES])
    other.finish()

    assert (PayloadState.COMPLETE, LARGE) == held(bare, place)
    assert [] == bare.verify().problems


@pytest.mark.parametrize("ending", ["finish", "close", "write"])
def test_what_was_held_is_dropped_meanwhile(bare: SQLiteStore, log: LogBuilder, ending: str) -> None:
    """A sink whose first bytes another one dropped does not store the rest as if they were there."""
    place = log.entries[1].place
    # The rest is so small that it is stored at the end, or so large that some of it is stored at once.
    reached = 100 if ending == "write" else 2 * COMMIT
    start = bare.payload_sink(place)
    start.write(LARGE[:reached])
    start.close()
    good, bad = bare.payload_sink(place), bare.payload_sink(place)
    bad.write(b"wrong")
    with pytest.raises(PayloadMismatch):
        bad.finish()
    if ending == "write":
        with pytest.raises(Overtaken):
            good.write(LARGE[reached:])
    else:
        good.write(LARGE[reached:])
    if ending == "finish":
        with pytest.raises(Overtaken):
            good.finish()
    good.close()

    assert (PayloadState.ABSENT, b"") == held(bare, place)
    again = bare.payload_sink(place)
    again.write(LARGE)
    again.finish()
    assert (PayloadState.COMPLETE, LARGE) == held(bare, place)


def _write_and_finish(sink: PayloadSink, rest: bytes) -> None:
    sink.write(rest)
    sink.finish()


@pytest.mark.parametrize(("size", "stored"), [(100, 40), (len(LARGE), COMMIT)])
def test_other_bytes_in_their_place(store: SQLiteStore, size: int, stored: int) -> None:
    """Where as many other bytes stand as a sink has stored, it is over, and what it brings does not make them right."""
    builder = LogBuilder(Identity(bytes(32)))
    entry = builder.append(LARGE[:size])
    store.add([(entry, None)])
    sink = store.payload_sink(entry.place)
    sink.write(LARGE[:stored])
    sink.keep()
    store.payload_sink(entry.place).abandon()
    other = store.payload_sink(entry.place)
    other.write(bytes(stored))
    other.close()
    with pytest.raises(Overtaken):
        _write_and_finish(sink, LARGE[stored:size])

    assert (PayloadState.PARTIAL, bytes(stored)) == held(store, entry.place)
    assert [] == store.verify().problems


def test_forgotten_meanwhile(bare: SQLiteStore, log: LogBuilder) -> None:
    """A payload that is forgotten while it comes stays forgotten."""
    place = log.entries[0].place
    sink = bare.payload_sink(place)
    sink.write(b"first")
    bare.forget(place)
    with pytest.raises(StoreError, match="another transfer"):
        sink.finish()
    with pytest.raises(StoreError, match="another transfer"):
        sink.finish()

    assert (PayloadState.FORGOTTEN, b"") == held(bare, place)


# -- forgetting ------------------------------------------------------------------------------------------------


def test_forget(bare: SQLiteStore, log: LogBuilder) -> None:
    """A forgotten payload's bytes are gone, its entry stays verified, and it is not missing."""
    bare.add(log.items())
    freed = bare.forget(log.entries[1].place)
    name = log.entries[0].log

    assert len(LARGE) == freed
    assert (PayloadState.FORGOTTEN, b"") == held(bare, log.entries[1].place)
    assert [1, 2, 3] == [stored.entry.seq for stored in bare.entries(name)]
    assert [(4, 5)] == bare.missing(name, 5)
    assert [(3, 2)] == [(offer.newest, offer.held_back) for offer in bare.offers()]
    assert [1, 3] == [item.seq for item in bare.sendables(name, 1, 9, 9)]
    assert not bare.payload_sink(log.entries[1].place).wanted
    assert [] == bare.verify().problems


def test_forgetting_what_was_never_held(bare: SQLiteStore, log: LogBuilder) -> None:
    """A payload can be forgotten before it came: it is not missing then; nothing is freed."""
    freed = [bare.forget(entry.place) for entry in log.entries]

    assert [0, 0, 0] == freed
    assert [] == bare.missing(log.entries[0].log, 3)
    assert [] == bare.verify().problems


def test_forgetting_a_part(bare: SQLiteStore, log: LogBuilder) -> None:
    """Of a payload that came in part, the part is forgotten."""
    sink = bare.payload_sink(log.entries[1].place)
    sink.write(LARGE[:1000])
    sink.close()

    assert 1000 == bare.forget(log.entries[1].place)
    assert (PayloadState.FORGOTTEN, b"") == held(bare, log.entries[1].place)


def test_forgetting_does_not_whitewash(store: SQLiteStore) -> None:
    """That an author lied about a size is not forgotten with the payload."""
    builder = LogBuilder(Identity(bytes(32)))
    lie = builder.make(1, b"a payload", size=8)
    store.add([(lie, b"a payload")])
    store.forget(lie.place)

    assert (PayloadState.SIZE_MISMATCH, b"") == held(store, lie.place)
    assert (0, 1, []) == (store.verify().verified, store.verify().invalid, store.verify().problems)


def test_an_empty_payload_is_always_there(store: SQLiteStore) -> None:
    """There is nothing to forget of an empty payload: it stays complete."""
    builder = LogBuilder(Identity(bytes(32)))
    entry = builder.append(b"")
    store.add([(entry, None)])

    assert (PayloadState.COMPLETE, b"") == held(store, entry.place)
    assert 0 == store.forget(entry.place)
    assert (PayloadState.COMPLETE, b"") == held(store, entry.place)
    assert [(1, None)] == [(offer.newest, offer.held_back) for offer in store.offers()]


def test_a_claimed_empty_payload(store: SQLiteStore) -> None:
    """An entry of size 0 whose hash is not that of nothing has a payload that can never come."""
    entry = Identity(bytes(32)).create_entry(
        log_id=0, seq=1, backlink=None, lipmaalink=None, size=0, payload_hash=yamf_hash(b"something")
    )
    store.add([(entry, None)])
    sink = store.payload_sink(entry.place)
    with pytest.raises(PayloadMismatch):
        sink.finish()

    assert (PayloadState.ABSENT, b"") == held(store, entry.place)
    assert [(1, 1)] == store.missing(entry.log, 1)
