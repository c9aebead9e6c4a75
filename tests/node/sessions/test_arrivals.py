"""Payloads on their way to the store while others bring the same: nothing is mixed up, and nobody is blamed."""

from __future__ import annotations

import asyncio
import random
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from culm.bamboo import PayloadHasher
from culm.errors import PayloadMismatch, StoreFull
from culm.node.interests.policy import Policy
from culm.node.sessions.arrivals import Arrivals
from culm.node.sharing.turns import Share
from culm.node.storage.source import StoreSource
from culm.store import ImportReport, PayloadState
from culm.store import sqlite as store_module
from culm.store.payloads import pieces as pieces_module
from culm.testing import LogBuilder, build_log
from culm.transfer import EntriesReceived, EntryReceived, PayloadReceived
from tests.node.links import Party, run
from tests.node.peers import Peer, key, sync
from tests.node.proposing import ProposalPeer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.bamboo import Entry
    from culm.errors import Place
    from culm.store import StoredEntry
    from culm.types import Log

MIB = 1024 * 1024
STEP = 256 * 1024


@pytest.fixture
def film() -> LogBuilder:
    """A log with a single large payload."""
    log = LogBuilder(build_log(1).identity)
    log.append(random.Random(1).randbytes(3 * MIB + 17))
    return log


def pieces(entry: Entry, payload: bytes, start: int = 0) -> Iterable[PayloadReceived]:
    """What a peer brings of a payload, from an offset on, all of it checked."""
    for at in range(start, len(payload), STEP):
        complete = at + STEP >= len(payload)
        yield PayloadReceived(1, entry, at, payload[at : at + STEP], complete, complete)


async def bring(party: Party, *peers: Iterable[PayloadReceived], settle: bool = True) -> ImportReport:
    """Peers bring pieces in turns; what was stored and what was refused."""
    report = ImportReport()
    arrivals = [Arrivals(party.worker, report.merge) for _ in peers]
    rest = list(zip(arrivals, map(iter, peers), strict=True))
    while rest:
        for one, brought in list(rest):
            event = next(brought, None)
            if event is None:
                rest.remove((one, brought))
            else:
                one.take(event)
                one.end_of_chunk()
                await (one.flush() if settle else asyncio.sleep(0))
    for one in arrivals:
        await one.close()
    return report


def held(party: Party, log: LogBuilder) -> tuple[PayloadState, bool]:
    """How much of the payload is held, and whether all of that is right."""
    (stored,) = party.store.entries(key(log))
    found = b"".join(party.store.payload(stored))
    return stored.payload_state, log.payloads[stored.entry.hash].startswith(found)


def test_who_waits_for_a_payload_hears_of_its_bytes_alone(parties: list[Party], film: LogBuilder) -> None:
    """A log is said to have grown when bytes of its large payload are stored, and not when something else is."""
    party, other = parties[0], build_log(1, seed=9, payload_size=10)
    party.store.add([(film.entries[0], None)])
    told: list[Log] = []

    async def main() -> None:
        arrivals = Arrivals(party.worker, lambda _: None, grew=told.append)
        for number, event in enumerate(list(pieces(film.entries[0], film.payloads[film.entries[0].hash]))[:3], 1):
            arrivals.take(event)
            arrivals.end_of_chunk()
            await arrivals.flush()
            assert told == [key(film)] * number
        take_entry(arrivals, 2, *other.items()[0])
        arrivals.end_of_chunk()
        await arrivals.close()

    run(main)
    assert told == [key(film)] * 3


def take_entry(arrivals: Arrivals, number: int, entry: Entry, payload: Any) -> None:
    """An entry came with its payload, in answer to a request."""
    arrivals.take(EntryReceived(number, entry, verified=False))
    arrivals.take(PayloadReceived(number, entry, 0, payload, complete=True, checked=True))


@pytest.mark.parametrize(("count", "begins"), [(10, False), (800, True)])
def test_entries_of_a_chunk_are_stored_together(parties: list[Party], count: int, *, begins: bool) -> None:
    """Entries wait for the end of what came with them, so that the store has few large groups, unless it is much."""
    party, log = parties[0], build_log(count, payload_size=2000)

    async def main() -> tuple[bool, int]:
        report = ImportReport()
        arrivals = Arrivals(party.worker, report.merge)
        for number, item in enumerate(log.items()):
            take_entry(arrivals, number, *item)
            await arrivals.room()
        await asyncio.sleep(0)  # what stores begins
        stored = await party.worker.run(lambda: list(party.store.entries(key(log))))
        arrivals.end_of_chunk()
        await arrivals.close()
        return stored != [], report.added

    assert (begins, count) == run(main)


@pytest.mark.parametrize(("has_others", "groups"), [(False, 2), (True, 20)])
def test_groups_are_short_where_others_wait(
    parties: list[Party], monkeypatch: pytest.MonkeyPatch, groups: int, *, has_others: bool
) -> None:
    """The store takes a thousand entries in one call, and 64 where others want it, too."""
    monkeypatch.setattr(Share, "has_others", has_others)
    party, log = parties[0], build_log(1280, payload_size=10)
    sizes: list[int] = []

    async def main() -> None:
        arrivals = Arrivals(party.worker, lambda report: sizes.append(report.added))
        for number, item in enumerate(log.items()):
            take_entry(arrivals, number, *item)
        await arrivals.close()

    run(main)
    assert (groups, 1280) == (len(sizes), sum(sizes))


@pytest.mark.parametrize("checked", [(True, True), (True, False), (False, False)])
def test_what_the_connection_has_not_hashed_the_store_hashes(
    parties: list[Party], monkeypatch: pytest.MonkeyPatch, checked: tuple[bool, bool]
) -> None:
    """Payloads that the connection has compared are not hashed again; if it left out one, all of a group are."""
    party, log = parties[0], build_log(2, payload_size=10)
    hashed: list[int] = []
    monkeypatch.setattr(store_module, "check_payload", lambda entry, _: hashed.append(entry.seq))

    async def main() -> None:
        arrivals = Arrivals(party.worker, lambda _: None)
        for entry, is_checked in zip(log.entries, checked, strict=True):
            arrivals.take(EntryReceived(1, entry, True))
            arrivals.take(PayloadReceived(1, entry, 0, log.payloads[entry.hash], True, is_checked))
        arrivals.end_of_chunk()
        await arrivals.flush()

    run(main)
    assert ([] if all(checked) else [1, 2]) == hashed
    assert [True, True] == [stored.payload_complete for stored in party.store.entries(key(log))]


def test_entries_that_come_together(parties: list[Party], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of entries in one event, all are stored with their payloads, those of more than 64 KiB by way of a sink.

    The connection has compared the hashes, so the store does not do it again.
    """
    hashed: list[int] = []
    monkeypatch.setattr(store_module, "check_payload", lambda entry, _: hashed.append(entry.seq))
    party, log = parties[0], build_log(3, payload_size=10)
    log.append(bytes(70_000))
    log.append(b"last")
    report = ImportReport()

    async def main() -> None:
        arrivals = Arrivals(party.worker, report.merge)
        arrivals.take(EntriesReceived(1, [(entry, log.payloads[entry.hash]) for entry in log.entries]))
        arrivals.end_of_chunk()
        await arrivals.close()

    run(main)
    assert (5, 5, [], []) == (report.added, report.payloads, report.refused, hashed)
    stored = list(party.store.entries(key(log)))
    assert [log.payloads[entry.hash] for entry in log.entries] == [b"".join(party.store.payload(one)) for one in stored]


def test_what_waits_is_counted(parties: list[Party]) -> None:
    """Entries count with their payloads, however they came, until they are stored."""
    party, log = parties[0], build_log(6, payload_size=100)
    items = [(entry, log.payloads[entry.hash]) for entry in log.entries]
    sizes = [len(entry.encoded) + 100 for entry in log.entries]
    alone = len(log.entries[5].encoded)

    async def main() -> list[int]:
        arrivals, waiting = Arrivals(party.worker, lambda _: None), []
        arrivals.take(EntriesReceived(1, items[:3]))
        waiting.append(arrivals.waiting)
        take_entry(arrivals, 2, *items[3])
        waiting.append(arrivals.waiting)
        arrivals.take(EntriesReceived(1, items[4:5]))
        waiting.append(arrivals.waiting)
        arrivals.take(EntryReceived(3, log.entries[5], verified=False))
        arrivals.end_of_chunk()
        waiting.append(arrivals.waiting)
        await asyncio.sleep(0)  # the store's thread has them, and they count as long
        waiting.append(arrivals.waiting)
        await arrivals.flush()
        return [*waiting, arrivals.waiting]

    total = sum(sizes[:5])
    assert run(main) == [sum(sizes[:3]), sum(sizes[:4]), total, total + alone, total + alone, 0]


@pytest.mark.parametrize("is_right", [True, False])
def test_a_large_payload_whose_hash_is_still_to_come(parties: list[Party], film: LogBuilder, *, is_right: bool) -> None:
    """It is compared before it counts as held. If it is wrong, all of it is dropped, and the peer is to blame."""
    party, (entry,) = parties[0], film.entries
    party.store.add([(entry, None)])
    payload = film.payloads[entry.hash]
    sent = payload if is_right else b"X" + payload[1:]
    hasher = PayloadHasher()
    hasher.update(sent)

    def brought() -> Iterable[PayloadReceived]:
        for piece in pieces(entry, sent):
            yield replace(piece, checked=False, hasher=hasher if piece.complete else None)

    report = run(lambda: bring(party, brought(), settle=False))
    assert held(party, film) == (PayloadState.COMPLETE if is_right else PayloadState.ABSENT, True)
    assert ([] if is_right else [entry.place]) == [place for place, _ in report.refused]
    assert all(type(error) is PayloadMismatch for _, error in report.refused)
    assert is_right == report.payloads


def test_a_payload_that_is_not_wanted_any_more(parties: list[Party], film: LogBuilder) -> None:
    """If the application refuses an entry that is held, the payload that comes for it is dropped."""
    party, (entry,) = parties[0], film.entries
    party.store.add([(entry, None)])

    async def main() -> None:
        arrivals = Arrivals(party.worker, lambda _: None, Policy(curate=lambda *_: False))
        arrivals.take(EntryReceived(1, entry, verified=False))
        for piece in pieces(entry, film.payloads[entry.hash]):
            arrivals.take(piece)
        await arrivals.close()

    run(main)
    assert held(party, film)[0] is PayloadState.ABSENT


def test_a_part_of_a_payload_is_not_taken_for_the_whole(parties: list[Party]) -> None:
    """Bytes that end a payload, but do not hold its beginning, are compared by the store, whatever was checked."""
    party, log = parties[0], build_log(1, payload_size=10)
    (entry,) = log.entries
    report = ImportReport()

    async def main() -> None:
        arrivals = Arrivals(party.worker, report.merge)
        arrivals.take(EntryReceived(1, entry, True))
        arrivals.take(PayloadReceived(1, entry, 4, log.payloads[entry.hash][4:], True, True))
        arrivals.end_of_chunk()
        await arrivals.flush()

    run(main)
    assert [entry.place] == [place for place, _ in report.refused]
    assert not next(iter(party.store.entries(key(log)))).payload_complete


def test_nothing_is_left_of_payloads_that_break_off(parties: list[Party]) -> None:
    """Of 200 payloads 50,000 of 60,000 bytes come: each byte counts while it waits, and none afterwards.

    What came is kept, and is no fault of anybody.
    """
    party, log = parties[0], build_log(200, payload_size=60_000)
    report = ImportReport()
    most = 0

    async def main() -> int:
        nonlocal most
        arrivals = Arrivals(party.worker, report.merge)
        for entry in log.entries:
            arrivals.take(EntryReceived(1, entry, verified=False))
            begun = log.payloads[entry.hash][:50_000]
            arrivals.take(PayloadReceived(1, entry, 0, begun, complete=False, checked=False))
            most = max(most, arrivals.waiting)
            await arrivals.room()
        await arrivals.close()
        return arrivals.waiting

    assert 0 == run(main)
    assert 4 * MIB - 60_000 < most < 4 * MIB + 60_000
    assert (report.payloads, report.refused) == (0, [])
    assert [50_000] * 200 == [stored.payload_held for stored in party.store.entries(key(log))]


def test_each_payload_is_finished_once(parties: list[Party], film: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two large payloads, one after the other, each counts once, none is refused, and none is hashed once more."""
    party = parties[0]
    monkeypatch.setattr(pieces_module, "hash_held", lambda *_, **__: pytest.fail("the connection has hashed it"))
    film.append(random.Random(2).randbytes(2 * MIB))
    party.store.add([(entry, None) for entry in film.entries])

    async def main() -> ImportReport:
        return await bring(party, [piece for one in film.entries for piece in pieces(one, film.payloads[one.hash])])

    report = run(main)
    assert (report.payloads, report.refused) == (2, [])


def test_who_hears_of_the_last_payload_finds_all_stored(parties: list[Party], film: LogBuilder) -> None:
    """When a session is told that its last payload, a large one, is held, nothing waits any more: it can end then."""
    party, (entry,) = parties[0], film.entries
    idle: list[bool] = []

    async def main() -> None:
        arrivals = Arrivals(party.worker, lambda report: idle.append(arrivals.idle) if report.payloads else None)
        arrivals.take(EntryReceived(1, entry, True))
        for piece in pieces(entry, film.payloads[entry.hash]):
            arrivals.take(piece)
        arrivals.end_of_chunk()
        await arrivals.close()

    run(main)
    assert idle == [True]


@pytest.mark.parametrize(
    ("has_others", "has_news", "expected"),
    [(True, False, [MIB] * 3 + [17]), (False, True, [MIB] * 3 + [17]), (False, False, [3 * MIB + 17])],
    ids=["others", "news", "alone"],
)
def test_a_large_payload_is_written_in_short_calls(
    parties: list[Party],
    film: LogBuilder,
    monkeypatch: pytest.MonkeyPatch,
    expected: list[int],
    *,
    has_others: bool,
    has_news: bool,
) -> None:
    """The store's thread writes all that waits of a large payload, and a mebibyte at a time where others want it.

    Likewise where news came beside it: more may be on their way, and would wait.
    """
    monkeypatch.setattr(Share, "has_others", has_others)
    party, (entry,), small = parties[0], film.entries, build_log(1, payload_size=50, log_id=5)
    party.store.add([(entry, None)])
    sizes: list[int] = []
    write_all = Arrivals._write_all

    def noting(self: Arrivals, jobs: list[Any]) -> ImportReport:
        sizes.append(sum(len(job.data) for job in jobs))
        return write_all(self, jobs)

    monkeypatch.setattr(Arrivals, "_write_all", noting)

    async def main() -> None:
        arrivals = Arrivals(party.worker, lambda _: None)
        if has_news:
            arrivals.take(EntriesReceived(2, [(entry, small.payloads[entry.hash]) for entry in small.entries]))
        for piece in pieces(entry, film.payloads[entry.hash]):
            arrivals.take(piece)
        arrivals.end_of_chunk()
        await arrivals.close()

    run(main)
    assert expected == sizes


def test_a_failure_is_raised_where_a_session_waits(parties: list[Party], monkeypatch: pytest.MonkeyPatch) -> None:
    """If storing fails, a session that waits for it hears of that at once, and so does one that waits later."""
    party, log = parties[0], build_log(3)

    def fail(*_: object, **__: object) -> None:
        raise StoreFull("the disk is full")

    monkeypatch.setattr(party.store, "add", fail)

    async def main() -> None:
        arrivals = Arrivals(party.worker, lambda _: None)
        for number, item in enumerate(log.items()):
            take_entry(arrivals, number, *item)
        for _ in range(2):
            with pytest.raises(StoreFull):
                await arrivals.flush()

    run(main)


def test_proofs_count_while_they_wait(parties: list[Party]) -> None:
    """The bytes of both entries of a fork proof count until it is stored, so that proofs cannot fill memory either."""
    party, log = parties[0], build_log(3)
    pair = log.entries[1], log.make(2, b"another")

    async def main() -> tuple[int, int]:
        arrivals = Arrivals(party.worker, lambda _: None)
        arrivals.take_proof(pair)
        waiting = arrivals.waiting
        await arrivals.close()
        return waiting, arrivals.waiting

    assert (sum(len(entry.encoded) for entry in pair), 0) == run(main)


def test_nothing_waits_for_a_turn_that_brought_nothing(parties: list[Party]) -> None:
    """A session that brought nothing ends at once. Waiting for a turn of the store, many such would fill all places."""

    async def main() -> None:
        worker = parties[0].worker.shared("10.0.0.1")
        with patch.object(type(worker), "run", side_effect=AssertionError("a turn of the store")):
            await Arrivals(worker, lambda _: None).close()

    run(main)


def test_what_was_held_is_not_trusted(parties: list[Party], film: LogBuilder) -> None:
    """Right bytes behind wrong ones, which others have left, do not make a payload; the next time all is fetched."""
    party, (entry,) = parties[0], film.entries
    payload = film.payloads[entry.hash]
    party.store.add([(entry, None)])

    async def others() -> None:
        sink = await party.worker.run(party.store.payload_sink, entry.place, trusted=True)
        await party.worker.run(sink.write, bytes(MIB))
        await party.worker.run(sink.close)

    run(others)
    report = run(lambda: bring(party, pieces(entry, payload)))
    assert (PayloadState.ABSENT, True) == held(party, film)
    assert 1 == len(report.refused)
    assert [] == run(lambda: bring(party, pieces(entry, payload))).refused
    assert (PayloadState.COMPLETE, True) == held(party, film)


@pytest.mark.parametrize("settle", [False, True])
@pytest.mark.parametrize("lead", [0, MIB, MIB + STEP])
def test_two_at_once(parties: list[Party], film: LogBuilder, lead: int, *, settle: bool) -> None:
    """Two peers that bring the same payload at once, one ahead of the other, are not in each other's way."""
    party, (entry,) = parties[0], film.entries
    payload = film.payloads[entry.hash]
    party.store.add([(entry, None)])
    ahead = [piece for piece in pieces(entry, payload) if piece.offset < lead]
    run(lambda: bring(party, ahead))
    report = run(lambda: bring(party, pieces(entry, payload), pieces(entry, payload, lead), settle=settle))

    assert [] == report.refused
    assert (PayloadState.COMPLETE, True) == held(party, film)
    assert [] == party.store.verify().problems


def test_who_is_overtaken_at_the_end_says_so(parties: list[Party], film: LogBuilder) -> None:
    """Another session writes a part of the last piece and breaks off: the payload is not whole, and is asked for."""
    party, (entry,) = parties[0], film.entries
    payload, report = film.payloads[entry.hash], ImportReport()
    party.store.add([(entry, None)])

    async def main() -> list[Place]:
        arrivals = Arrivals(party.worker, report.merge)
        *first, last = pieces(entry, payload)
        for piece in first:
            arrivals.take(piece)
        await arrivals.flush()
        with closing(party.store.payload_sink(entry.place)) as other:
            other.write(payload[last.offset : last.offset + 5])
        arrivals.take(last)
        await arrivals.flush()
        return arrivals.overtaken

    assert run(main) == [entry.place]
    assert (PayloadState.PARTIAL, True) == held(party, film)
    assert [] == report.refused


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Peer, ProposalPeer])
@pytest.mark.parametrize("error", [-1000, 1000])
def test_more_came_meanwhile(
    parties: list[Party], film: LogBuilder, monkeypatch: pytest.MonkeyPatch, kind: Any, error: int
) -> None:
    """A transfer goes on behind the bytes that were hashed, though there be more or fewer when it is asked for."""
    alice, bob = kind(parties[0]), kind(parties[1])
    (entry,) = film.entries
    payload = film.payloads[entry.hash]
    bob.store.add(film.items())
    alice.store.add([(entry, None)])
    sink = alice.store.payload_sink(entry.place)
    sink.write(payload[:MIB])
    sink.close()
    get = StoreSource.get

    def get_late(source: StoreSource, log: Log, seq: int) -> StoredEntry | None:
        stored = get(source, log, seq)
        if stored is None or stored.payload_complete:
            return stored
        return replace(stored, payload_held=stored.payload_held + error)

    monkeypatch.setattr(StoreSource, "get", get_late)
    session = sync(alice, bob, [key(film)])
    for peer in (alice, bob):
        for source in peer.sources:
            source.close()

    assert ([], 0) == (session.stats.refused, session.stats.offences)
    assert (PayloadState.COMPLETE, True) == held(parties[0], film)


def test_hash_of_the_beginning(parties: list[Party], film: LogBuilder) -> None:
    """What is hashed of a payload to go on with is no more than was held when that was looked up."""
    store, (entry,) = parties[0].store, film.entries
    payload = film.payloads[entry.hash]
    store.add([(entry, None)])
    for size in (0, STEP, MIB):
        stored = store.get(entry.place)
        assert stored is not None
        sink = store.payload_sink(entry.place)
        sink.write(payload[sink.offset : sink.offset + size])
        sink.close()
        hasher = PayloadHasher()
        hasher.update(payload[: stored.payload_held])
        begun = store.payload_begun(stored)
        assert (hasher.size, hasher.hash) == (begun.size, begun.hash)
