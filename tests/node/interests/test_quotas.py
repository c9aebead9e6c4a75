"""Quotas: what the logs of others may take, and a node that carries logs for members who cannot reach each other."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Entry, Identity
from culm.bushbaby import Connection
from culm.errors import Place
from culm.node.interests.policy import Policy
from culm.node.interests.quotas import AUTHOR_BYTES, ENTRY_BYTES, QuotaLimits, Quotas, weight_of
from culm.node.network.urls import LISTENER_SCHEMES, PeerUrl
from culm.node.service import NodeService
from culm.node.storage.source import sizes_in
from culm.ranges import Range, RangeSet
from culm.sealing import Keyring, Sealer, opened, reader_of
from culm.store import Draft
from culm.testing import LogBuilder, build_log
from tests.blank import blank_store
from tests.node.links import CONFIG, run
from tests.node.peers import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.node.links import Party

CLUMP = b"carried"
ME, OTHER = (build_log(20, seed=seed, payload_size=1000) for seed in (11, 12))
AUTHOR, LOG = ME.entries[0].author, ME.entries[0].log
ENTRY = weight_of(ME.entries[0])


def quotas(total: int = 0, author: int = 0) -> tuple[Quotas, list[None]]:
    """Quotas, and a list that grows with each call of ``changed``."""
    calls: list[None] = []
    return Quotas(QuotaLimits(total, author), {ME.identity.public} - {AUTHOR}, lambda: calls.append(None)), calls


def test_what_counts() -> None:
    """An entry counts its bytes, those of its payload that came, and a part for its rows; an author counts once."""
    tally, _ = quotas(author=1_000_000)
    assert len(ME.entries[0].encoded) + ENTRY_BYTES == ENTRY
    assert tally.takes(ME.entries[0], 1000)
    assert AUTHOR_BYTES + ENTRY + 1000 == tally.total
    assert tally.takes(ME.entries[0], 0)
    assert tally.takes_piece(ME.entries[0], 600)
    assert AUTHOR_BYTES + 2 * ENTRY + 1600 == tally.total


def test_the_limit_of_an_author() -> None:
    """A log is full with the first entry that does not fit; other authors are not."""
    tally, calls = quotas(author=AUTHOR_BYTES + 2 * (ENTRY + 1000) + 900)
    assert [True, True, False, False] == [tally.takes(ME.entries[0], 1000) for _ in range(4)]
    assert [None] == calls
    assert tally.is_full(LOG)
    assert not tally.takes_piece(ME.entries[0], 1)
    assert tally.takes(OTHER.entries[0], 1000)
    assert not tally.is_full(OTHER.entries[0].log)


def test_the_limit_of_the_clump() -> None:
    """All authors together fill the clump; who comes later is refused, and asked for nothing."""
    tally, calls = quotas(total=2 * AUTHOR_BYTES)
    assert tally.takes(ME.entries[0], 1000)
    assert not tally.takes(OTHER.entries[0], 1000), "a new author costs a part, too"
    assert tally.takes(ME.entries[1], 1000)
    assert [None] == calls


def test_claims_take_no_room() -> None:
    """An entry whose payload cannot fit is refused; one whose payload could fit counts only what came of it."""
    log = LogBuilder(Identity(bytes([9]) * 32), 1)
    small, large = log.make(1, bytes(1000)), log.make(1, bytes(100_000))
    tally, _ = quotas(total=60_000)
    assert tally.takes(small, 0)
    assert AUTHOR_BYTES + weight_of(small) == tally.total
    assert not tally.takes(large, 0)
    assert AUTHOR_BYTES + weight_of(small) == tally.total


def test_fork_proofs_count() -> None:
    """A fork proof counts its two entries, and is refused where there is no room."""
    pair = ME.entries[4], ME.make(5, b"another")
    weight = sum(map(weight_of, pair))
    tally, _ = quotas(author=AUTHOR_BYTES + weight + 100)
    assert [True, False] == [tally.takes_proof(pair) for _ in range(2)]
    assert AUTHOR_BYTES + weight == tally.total


@pytest.mark.parametrize("scheme", ["culm", "bushbaby", "intervals", "proposals"])
def test_an_author_who_forks(parties: list[Party], scheme: str) -> None:
    """The proofs that a store makes of a fork count, too: what the node tallies is what the store has."""
    carrier, member, _ = parties
    other = ME.make(15, b"another")
    for party, entries in ((carrier, [*ME.entries[:14], other]), (member, ME.entries)):
        party.store.receive_in(CLUMP)
        party.store.add([(entry, ME.payloads[entry.hash]) for entry in entries])

    async def main() -> None:
        async with AsyncExitStack() as stack:
            service, url = await stack.enter_async_context(node(carrier, scheme, QuotaLimits(author=10_000_000)))
            caller, _ = await stack.enter_async_context(node(member, scheme))
            caller.contact(url)
            await until(lambda: any(log.forked_at for log in carrier.store.logs()))
            await asyncio.sleep(1)
            quotas = service.config.policy.quotas
            assert quotas is not None
            assert quotas.total >= taken(carrier)[AUTHOR]

    run(main)


def test_a_proof_that_uses_a_quota_up() -> None:
    """A proof that was made of entries which are held cannot be refused; if it uses the quota up, the node is told."""
    pair = ME.entries[4], ME.make(5, b"another")
    tally, calls = quotas(author=AUTHOR_BYTES + 100)
    tally.add_proof(pair)
    assert (tally.is_full(LOG), tally.is_tight, len(calls)) == (True, True, 1)
    tally.add_proof(pair)
    assert len(calls) == 1


def test_a_new_sum() -> None:
    """Summing up lifts what the tally had too high, and counts authors as before; a sum over the limit is full."""
    tally, _ = quotas(author=AUTHOR_BYTES + 2000)
    assert not tally.takes(ME.entries[0], 5000)
    tally.begin({AUTHOR: 1999})
    assert AUTHOR_BYTES + 1999 == tally.total
    assert not tally.is_full(LOG)
    tally.begin({AUTHOR: 2000})
    assert tally.is_full(LOG)


def test_what_comes_during_a_sum() -> None:
    """What is on its way while the store is summed up counts, although the sum does not have it."""
    tally, _ = quotas(author=1_000_000)
    assert tally.takes(ME.entries[0], 1000)
    tally.mark()
    assert tally.takes(ME.entries[1], 1000)
    assert tally.takes(OTHER.entries[1], 1000)
    tally.begin({AUTHOR: ENTRY + 1000})
    during = sum(weight_of(log.entries[1]) + 1000 for log in (ME, OTHER))
    assert 2 * AUTHOR_BYTES + ENTRY + 1000 + during == tally.total


def test_a_sum_that_counts_twice() -> None:
    """What came during a sum can count twice, and use up a quota: then the next sum has to come soon."""
    tally, _ = quotas(author=AUTHOR_BYTES + 3 * (ENTRY + 1000))
    tally.mark()
    assert all(tally.takes(entry, 1000) for entry in ME.entries[:2])
    tally.begin({AUTHOR: 2 * (ENTRY + 1000)})
    assert (tally.is_full(LOG), tally.is_tight, tally.without_room) == (True, False, {AUTHOR})
    tally.mark()
    tally.begin({AUTHOR: 2 * (ENTRY + 1000)})
    assert (tally.is_full(LOG), tally.without_room) == (False, frozenset())


def test_a_log_with_an_entry_that_does_not_fit() -> None:
    """A log whose next entry does not fit is full, and other logs of the author are not."""
    author = Identity(bytes([9]) * 32)
    tally, calls = quotas(author=60_000)
    large, small = (LogBuilder(author, log_id).make(1, bytes(size)) for log_id, size in ((1, 100_000), (2, 100)))
    assert not tally.takes(large, 0)
    assert not tally.takes_piece(large, 10)
    assert tally.takes(small, 100)
    assert (True, False) == (tally.is_full(large.log), tally.is_full(small.log))
    assert [None] == calls
    assert large.log == tally.refused
    assert tally.explained() == "no room for an entry; its author has 16.8 KiB of 58.6 KiB"


def test_strangers_cannot_fill_the_memory() -> None:
    """Refused logs are remembered up to a limit, and not at all while the clump is full."""
    tally, calls = quotas(total=AUTHOR_BYTES)
    tally.begin({AUTHOR: 0})
    stranger = Identity(bytes([9]) * 32)
    for number in range(50):
        assert not tally.takes(LogBuilder(stranger, number).make(1, b""), 0)
    assert [None] == calls
    assert not tally._full
    tally, _ = quotas(author=60_000)
    large = LogBuilder(stranger, 0).make(1, bytes(100_000))
    for number in range(10_001):
        tally._refuse((stranger.public, number))
    assert 1 == len(tally._full)
    assert not tally.takes(large, 0)


def test_our_own_logs() -> None:
    """Our own logs count nothing and are never refused."""
    tally = Quotas(QuotaLimits(1, 1), {AUTHOR}, lambda: None)
    tally.begin({AUTHOR: 10**9})
    assert tally.takes(ME.entries[0], 10**9)
    assert (0, False) == (tally.total, tally.is_full(LOG))


def test_what_the_store_has(tmp_path: Path) -> None:
    """The sum of a store is what the tally counts: entries, payloads, forks; of the logs of the clump alone."""
    path = tmp_path / "store.db"
    with blank_store(path) as store:
        for clump, log in ((CLUMP, ME), (b"other", OTHER)):
            store.receive_in(clump)
            store.add(log.items())
        store.append(Identity(bytes([7]) * 32), 1, [b"own"])
        whole = sum(weight_of(entry) + entry.size for entry in ME.entries)
        assert {AUTHOR: whole} == sizes_in(path, CLUMP)
        another = ME.make(20, b"another")
        store.receive_in(CLUMP)
        store.add([(another, None)])
        proof = weight_of(ME.entries[19]) + weight_of(another)
        assert {AUTHOR: whole + weight_of(another) + proof} == sizes_in(path, CLUMP)


# -- nodes -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def node(
    party: Party, scheme: str, limits: QuotaLimits | None = None, policy: Policy | None = None
) -> AsyncIterator[tuple[NodeService, PeerUrl]]:
    """A node of the clump that listens; with limits, it carries, or wants what a policy says."""
    stop, places = asyncio.Event(), asyncio.Queue[PeerUrl]()
    policy = policy or Policy(hoard=limits is not None)
    service = NodeService(
        party.identity, replace(CONFIG, clump=CLUMP, policy=policy, quotas=limits or QuotaLimits()), party.store
    )
    listen = [PeerUrl.parse(f"{scheme}://127.0.0.1:0", schemes=LISTENER_SCHEMES, may_be_zero=True)]
    task = asyncio.create_task(service.run(listen, [], stop=stop, listening=places.put_nowait))
    yield service, await places.get()
    stop.set()
    await task


def taken(party: Party) -> dict[bytes, int]:
    """What the store of a party has of each author, as quotas count it."""
    return {author: size + AUTHOR_BYTES for author, size in sizes_in(party.store.path, CLUMP).items()}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["culm", "bushbaby", "intervals", "proposals"])
def test_a_hostile_member(parties: list[Party], scheme: str) -> None:
    """A member who publishes without end gets its quota and no more; an honest member is carried, before and after."""
    carrier, hostile, honest = parties
    for _ in range(80):
        hostile.store.append(hostile.identity, 1, [bytes(2000)])
    hostile.store.append(hostile.identity, 2, [bytes(500_000)])
    for _ in range(5):
        honest.store.append(honest.identity, 1, [bytes(2000)])
    limits = QuotaLimits(total=400_000, author=100_000)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            _, url = await stack.enter_async_context(node(carrier, scheme, limits))
            callers = [(await stack.enter_async_context(node(member, scheme)))[0] for member in (hostile, honest)]
            for caller in callers:
                caller.contact(url)
            log = honest.identity.public, 1
            await until(lambda: len(carrier.holds().get(log, ())) == 5)
            await asyncio.sleep(30)  # Time for the node to sum up, and for the hostile member to try again.
            honest.store.append(honest.identity, 1, [b"news"])
            for session in callers[1].sessions:
                session.store_changed()
            await until(lambda: len(carrier.holds()[log]) == 6)

    run(main)
    sizes = taken(carrier)
    assert 50_000 < sizes[hostile.identity.public] <= 100_000
    assert sum(sizes.values()) <= 400_000


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["culm", "bushbaby", "intervals", "proposals"])
def test_room_that_is_made(parties: list[Party], scheme: str) -> None:
    """When payloads were deleted, a carrier goes on with the log in the same session: members need not call again."""
    carrier, member, _ = parties
    for _ in range(12):
        member.store.append(member.identity, 1, [bytes(5000)])
    log = member.identity.public, 1

    async def main() -> None:
        async with AsyncExitStack() as stack:
            _, url = await stack.enter_async_context(node(carrier, scheme, QuotaLimits(author=AUTHOR_BYTES + 30_000)))
            caller, _ = await stack.enter_async_context(node(member, scheme))
            caller.contact(url)
            await until(lambda: len(carrier.holds().get(log, ())) == 5)
            (session,) = caller.sessions
            for seq in range(1, 6):
                carrier.store.forget(Place(*log, seq))
            await until(lambda: carrier.holds()[log][-1:] >= [8])
            assert [session] == list(caller.sessions)

    run(main)


@pytest.mark.parametrize("scheme", ["culm", "bushbaby", "intervals", "proposals"])
def test_a_log_that_fills_up_while_the_tally_counts(parties: list[Party], scheme: str) -> None:
    """A log that was refused shortly before the next sum is asked for again after it, as one refused long before is.

    Log 1 has an entry that never fits, so a sum is ten seconds away. Meanwhile an entry of log 3 does not fit, and then
    payloads of log 2 are deleted. By the time of the sum nobody has been told that log 3 was full, nor that it is not.
    """
    carrier, member, _ = parties
    author = member.identity.public
    for log_id, sizes in ((1, [1]), (2, [5000] * 5), (3, [1])):
        for size in sizes:
            member.store.append(member.identity, log_id, [bytes(size)])

    async def main() -> None:
        async with AsyncExitStack() as stack:
            limits = QuotaLimits(author=AUTHOR_BYTES + 35_000)
            service, url = await stack.enter_async_context(node(carrier, scheme, limits))
            caller, _ = await stack.enter_async_context(node(member, scheme))
            caller.contact(url)
            await until(lambda: sum(map(len, carrier.holds().values())) == 7)
            member.store.append(member.identity, 1, [bytes(500_000)])
            await _told(caller)
            quotas = service.config.policy.quotas
            assert quotas is not None
            await until(lambda: quotas.is_full((author, 1)))
            await asyncio.sleep(3)
            member.store.append(member.identity, 3, [bytes(8000)])
            await _told(caller)
            await until(lambda: quotas.is_full((author, 3)))
            for seq in range(1, 6):
                carrier.store.forget(Place(author, 2, seq))
            async with asyncio.timeout(30):
                await until(lambda: carrier.holds()[author, 3] == [1, 2])

    run(main)


def test_logs_that_were_refused_are_not_remembered_for_ever(parties: list[Party]) -> None:
    """Over ``culm://`` a session keeps nothing of refused logs once it has dealt with them: a peer can name any number.

    Each log has one entry that does not fit.
    """
    carrier, member, _ = parties
    for log_id in range(50):
        member.store.append(member.identity, log_id, [bytes(100_000)])

    async def main() -> None:
        async with AsyncExitStack() as stack:
            service, url = await stack.enter_async_context(node(carrier, "culm", QuotaLimits(author=60_000)))
            caller, _ = await stack.enter_async_context(node(member, "culm"))
            caller.contact(url)
            quotas = service.config.policy.quotas
            assert quotas is not None
            await until(lambda: all(quotas.is_full((member.identity.public, log_id)) for log_id in range(50)))
            await asyncio.sleep(3)
            (session,) = service.sessions
            remembered = [
                value
                for part in (session._transfer, session._transfer.arrivals, session._transfer.asker)  # type: ignore[attr-defined]
                for value in vars(part).values()
                if isinstance(value, set | dict) and len(value) >= 50
            ]
            assert not remembered

    run(main)


async def _told(caller: NodeService) -> None:
    """The sessions of a node hear that its store has changed."""
    for session in caller.sessions:
        session.store_changed()
    await asyncio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["culm", "bushbaby", "intervals", "proposals"])
def test_room_after_a_start_without(parties: list[Party], scheme: str) -> None:
    """A carrier that had more than its quota when it started goes on when payloads were deleted, within a minute."""
    carrier, member, _ = parties
    for _ in range(8):
        member.store.append(member.identity, 1, [bytes(5000)])
    log = member.identity.public, 1
    carrier.store.receive_in(CLUMP)
    held = list(member.store.entries(log))[:5]
    carrier.store.add([(stored.entry, bytes(5000)) for stored in held])

    async def main() -> None:
        async with AsyncExitStack() as stack:
            _, url = await stack.enter_async_context(node(carrier, scheme, QuotaLimits(author=AUTHOR_BYTES + 25_000)))
            caller, _ = await stack.enter_async_context(node(member, scheme))
            caller.contact(url)
            await asyncio.sleep(5)
            for seq in range(1, 6):
                carrier.store.forget(Place(*log, seq))
            async with asyncio.timeout(60):
                await until(lambda: carrier.holds()[log][-1:] >= [7])

    run(main)


@pytest.mark.parametrize("scheme", ["culm", "bushbaby", "intervals", "proposals"])
def test_what_is_full_is_served(parties: list[Party], scheme: str) -> None:
    """A carrier whose quota was lowered below what it has goes on serving that, also to a member who comes later."""
    carrier, _, late = parties
    carrier.store.receive_in(CLUMP)
    carrier.store.add(ME.items())
    follows = Policy(interests={LOG: RangeSet([Range(1)])})

    async def main() -> None:
        async with AsyncExitStack() as stack:
            limits = QuotaLimits(author=AUTHOR_BYTES + 100)
            service, url = await stack.enter_async_context(node(carrier, scheme, limits))
            quotas = service.config.policy.quotas
            assert quotas is not None
            await until(lambda: quotas.is_full(LOG))
            comer, _ = await stack.enter_async_context(node(late, scheme, policy=follows))
            comer.contact(url)
            await until(lambda: late.holds().get(LOG) == [*range(1, 21)])

    run(main)


@pytest.mark.parametrize("scheme", ["culm", "bushbaby", "intervals", "proposals"])
def test_an_author_who_is_admitted_again(parties: list[Party], scheme: str) -> None:
    """A listener that has blocked an author, and blocks them no more, gets the log in the same session."""
    carrier, member, _ = parties
    member.store.append(member.identity, 1, [b"hello"])
    log = member.identity.public, 1

    async def main() -> None:
        async with AsyncExitStack() as stack:
            blocked = Policy(block_authors=frozenset([member.identity.public]))
            service, url = await stack.enter_async_context(node(carrier, scheme, policy=blocked))
            caller, _ = await stack.enter_async_context(node(member, scheme))
            caller.contact(url)
            await until(lambda: bool(service.sessions))
            await asyncio.sleep(3)
            (session,) = service.sessions
            assert log not in carrier.holds()
            await service.change_policy(Policy())
            await until(lambda: carrier.holds().get(log) == [1])
            assert [session] == list(service.sessions)

    run(main)


@pytest.mark.parametrize("scheme", ["culm", "intervals", "proposals"])  # Bushbaby has no entry without its payload.
def test_a_payload_that_nobody_wants(parties: list[Party], scheme: str) -> None:
    """An entry is kept without its payload if the payload is not asked for, even one that no quota has room for."""
    carrier, member, _ = parties
    for size in (10, 500_000, 10):
        member.store.append(member.identity, 1, [bytes(size)])
    log = member.identity.public, 1
    small = Policy(interests={log: RangeSet([Range(1, None, size_limit=1000)])})

    async def main() -> None:
        async with AsyncExitStack() as stack:
            _, url = await stack.enter_async_context(node(carrier, scheme, QuotaLimits(author=100_000), small))
            caller, _ = await stack.enter_async_context(node(member, scheme))
            caller.contact(url)
            await until(lambda: carrier.holds().get(log) == [1, 3])

    run(main)


def test_a_member_who_repeats(parties: list[Party]) -> None:
    """A member who sends another author's entries again and again does not use up that author's quota.

    Entries that the store has by then are repeated, and one that comes many times in one message.
    """
    carrier, honest, _ = parties
    for _ in range(5):
        honest.store.append(honest.identity, 1, [bytes(2000)])
    log = honest.identity.public, 1
    entries = [stored.entry for stored in honest.store.entries(log)]
    limits = QuotaLimits(total=400_000, author=60_000)

    async def main() -> None:
        async with node(carrier, "bushbaby", limits) as (service, url):
            reader, writer = await asyncio.open_connection(url.host, url.port)
            member = Connection(Identity(bytes([3]) * 32), CLUMP, random_bytes=os.urandom)

            def send(items: list[tuple[Entry, bytes]]) -> None:
                writing = member.start_bamboo([len(entry.encoded) + len(payload) for entry, payload in items])
                for entry, payload in items:
                    writing.write(entry.encoded)
                    writing.write(payload)
                writing.send()
                writer.write(member.data_to_send())

            while not member.replicating:
                writer.write(member.data_to_send())
                for _ in member.receive_data(await reader.read(10_000), 0.0):
                    pass
            send([(entry, bytes(2000)) for entry in entries for _ in range(20)])
            for _ in range(40):
                send([(entry, bytes(2000)) for entry in entries])
            await until(lambda: len(carrier.holds().get(log, ())) == 5)
            await asyncio.sleep(1)
            send([(honest.store.append(honest.identity, 1, [b"news"]), b"news")])
            await until(lambda: len(carrier.holds()[log]) == 6)
            quotas = service.config.policy.quotas
            assert quotas is not None
            assert not quotas.is_tight
            assert quotas.total == AUTHOR_BYTES + sum(map(weight_of, entries)) + 5 * 2000 + ENTRY_BYTES + 4 + len(
                next(iter(carrier.store.entries(log, 6))).entry.encoded
            )
            writer.close()

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["culm", "bushbaby"])
def test_a_member_with_many_keys(parties: list[Party], scheme: str) -> None:
    """Keys cost nothing, so the quota of the clump holds against them all together, and what it has is served."""
    carrier, hostile, _ = parties
    for seed in range(30):
        hostile.store.receive_in(CLUMP)
        hostile.store.add(build_log(3, seed=100 + seed, payload_size=5000).items())
    limits = QuotaLimits(total=300_000, author=100_000)

    async def main() -> None:
        async with node(carrier, scheme, limits) as (_, url), node(hostile, scheme) as (calling, _):
            calling.contact(url)
            await asyncio.sleep(30)

    run(main)
    assert 200_000 < sum(taken(carrier).values()) <= 300_000


@pytest.mark.slow
def test_two_who_cannot_reach_each_other(parties: list[Party]) -> None:
    """Two members meet at a carrier, and read each other's sealed logs; the carrier's home has no byte of them."""
    carrier, alice, bob = parties
    _carry(carrier, alice, bob, 20)


@pytest.mark.long
def test_a_thousand_sealed_logs(parties: list[Party]) -> None:
    """The same with 1,000 logs: every file of the carrier's home is searched for every plaintext."""
    carrier, alice, bob = parties
    _carry(carrier, alice, bob, 1000)


def _carry(carrier: Party, alice: Party, bob: Party, count: int) -> None:
    sealer = Sealer([reader_of(bob.identity.public)])
    plain = [f"plaintext number {number:06} of {count}".encode() for number in range(count)]
    drafts = [Draft(alice.identity, log_id, [sealer.whole(text)]) for log_id, text in enumerate(plain[:-1])]
    alice.store.append_each(drafts)
    plain[-1] += bytes(1_100_000)  # A payload of its own file.
    alice.store.append(alice.identity, count - 1, sealer.pieces([plain[-1]]))

    async def main() -> None:
        async with AsyncExitStack() as stack:
            _, url = await stack.enter_async_context(node(carrier, "culm", QuotaLimits(10**8, 10**8)))
            for member in (alice, bob):
                calling, _ = await stack.enter_async_context(node(member, "culm"))
                calling.contact(url)
            while sum(log.payloads for log in bob.store.logs()) < count:
                await asyncio.sleep(0.5)

    run(main)
    keyring = Keyring.of([bob.identity])
    for log_id, text in enumerate(plain):
        stored = bob.store.get(next(bob.store.entries((alice.identity.public, log_id))).entry.place)
        assert stored is not None
        assert text == b"".join(opened(bob.store.payload(stored), keyring))
    _search(carrier.store.path, plain)


def _search(store: Path, plain: list[bytes]) -> None:
    files = [file for file in store.parent.rglob("*") if file.is_file() and store.name in str(file)]
    found = b"\n".join(file.read_bytes() for file in files)
    assert len(found) > 1_100_000
    assert b"age-encryption.org/v1\n" in found
    assert [] == [text for text in plain if text[:40] in found]
    assert b"plaintext number" not in found
