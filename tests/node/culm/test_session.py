"""``culm://`` sessions of whole parties: what arrives, live and once, and what strangers get.

Specification: docs/specs/culm.md, "What it promises", "Addresses and TLS", "News".
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import Identity
from culm.errors import CulmError, NetworkError, RemoteProtocolError
from culm.node.culm.claims import LEAST_PACE, PATIENCE_SECONDS, STALL_SECONDS, Claims
from culm.node.culm.session import CulmSession
from culm.node.interests.policy import Policy
from culm.node.network.tls import calling_context
from culm.node.network.transport import connect, secured
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.node.sessions.session import Context, Purpose
from culm.node.sessions.stats import PeerRefused
from culm.node.storage.source import StoreSource
from culm.node.sync import sync
from culm.ranges import Range, RangeSet
from culm.session import Limits
from culm.session.limits import LEAST_MESSAGE
from culm.store import SQLiteStore
from culm.testing.builders import build_log
from tests.node.links import CONFIG, SURROUNDINGS, Party, run, stream_pair
from tests.node.peers import key, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from culm.node.config import NodeConfig
    from culm.testing.builders import LogBuilder
    from culm.types import Log

ALL = RangeSet([Range(1)])
FORK_AT = 4
PATIENT = replace(CONFIG, limits=replace(CONFIG.limits, handshake_seconds=30, idle_seconds=30))


class Peer:
    """A party with ``culm://`` sessions, which share what one node's sessions share."""

    def __init__(self, party: Party) -> None:
        self.party, self.store = party, party.store
        self.key = party.identity.public
        self.claims = Claims()
        self.sessions: list[CulmSession] = []
        self.source: StoreSource | None = None
        self.view = SQLiteStore(party.store.path, read_only=True)  # the sessions use the other one

    async def add(self, log: LogBuilder, low: int = 1, high: int = 10**6) -> None:
        """Take entries of a log, as another program would, and tell the sessions."""
        await self.party.worker.run(self.store.add, log.items(log.entries[low - 1 : high]))
        self.tell()

    def session(self, streams: Any, *, policy: Policy | None = None, **settings: Any) -> CulmSession:
        """A session over some streams."""
        config = replace(PATIENT, policy=policy or Policy())
        config = replace(config, clump=settings.pop("clump", config.clump))
        self.source = self.source or StoreSource(self.store, config.policy)
        self.source.policy = config.policy
        party = self.party
        context = Context(
            party.identity,
            config,
            party.worker,
            self.source,
            stored=self.tell,
            claims=self.claims,
            refuses=settings.pop("refuses", lambda _: 0.0),
        )
        purpose = Purpose(key=settings.pop("peer", None), is_live=settings.pop("live", True))
        session = CulmSession(context, streams, purpose)
        self.sessions.append(session)
        self.streams = streams
        return session

    def tell(self) -> None:
        """The store has changed."""
        for session in self.sessions:
            session.store_changed()

    def holds(self, log: LogBuilder | Log) -> list[int]:
        """The verified entries that are held with their payload."""
        name = log if isinstance(log, tuple) else key(log)
        return [stored.entry.seq for stored in self.view.entries(name) if stored.payload_complete]


@pytest.fixture
def peers(parties: list[Party]) -> Iterator[list[Peer]]:
    """Alice, Bob and Carol."""
    made = [Peer(party) for party in parties]
    yield made
    for peer in made:
        peer.view.close()
        if peer.source is not None:
            peer.source.close()


@asynccontextmanager
async def linked(caller: Peer, listener: Peer, **settings: Any) -> AsyncIterator[tuple[CulmSession, CulmSession]]:
    """Both sides of a session, running; ``their_...`` are settings of the listener."""
    near, far = await stream_pair()
    their = {name[6:]: settings.pop(name) for name in list(settings) if name.startswith("their_")}
    sessions = caller.session(near, peer=listener.key, **settings), listener.session(far, **their)
    tasks = [asyncio.create_task(session.run()) for session in sessions]
    try:
        yield sessions
    finally:
        tasks[0].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [error for error in results if isinstance(error, Exception) and not isinstance(error, NetworkError)]
        assert failures == []
        caller.sessions.remove(sessions[0])
        listener.sessions.remove(sessions[1])


def synced(caller: Peer, listener: Peer, **settings: Any) -> CulmSession:
    """One exchange until both have what they want."""

    async def main() -> CulmSession:
        async with linked(caller, listener, live=False, **settings) as (session, _):
            await asyncio.wait_for(session.done.wait(), 20)
            return session

    return run(main)


def test_everything_arrives_both_ways(peers: list[Peer]) -> None:
    """What either side lacks arrives; a second time there is nothing to do, and that costs little."""
    alice, bob, _ = peers
    shared, hers, his = build_log(300), build_log(20, seed=2), build_log(5, seed=3)
    alice.store.add([*shared.items(shared.entries[:100]), *hers.items()])
    bob.store.add([*shared.items(), *his.items()])
    session = synced(alice, bob)
    for peer in (alice, bob):
        assert [list(range(1, 301)), list(range(1, 21)), list(range(1, 6))] == [
            peer.holds(log) for log in (shared, hers, his)
        ]
    assert (205, 20) == (session.stats.entries_received, session.stats.entries_sent)
    session = synced(alice, bob)
    assert (0, 0) == (session.stats.entries_received, session.stats.entries_sent)
    assert session.stats.bytes_received + session.stats.bytes_sent < 1500


def test_the_smallest_messages(peers: list[Peer], monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that takes no longer messages than every side has to take is compared with, and gets everything."""
    alice, bob, _ = peers
    log = build_log(300)
    bob.store.add(log.items())
    monkeypatch.setattr("culm.session.connection.Limits", lambda *given: Limits(*(given or (LEAST_MESSAGE, 10))))
    synced(alice, bob)
    assert alice.holds(log) == list(range(1, 301))


def test_interests(peers: list[Peer]) -> None:
    """Only what is wanted comes, of the logs that are for others; blocked authors are not even named."""
    alice, bob, _ = peers
    logs = [build_log(40, seed=seed) for seed in range(4)]
    for log in logs:
        bob.store.add(log.items())
    wants: dict[bytes | Log, RangeSet] = {
        key(logs[0]): RangeSet([Range(10, 12)]),
        logs[1].identity.public: ALL,
        key(logs[2]): ALL,
    }
    policy = Policy(interests=wants, block_authors=frozenset([logs[2].identity.public]))
    synced(alice, bob, policy=policy)
    assert [[*range(10, 13)], [*range(1, 41)], [], []] == [
        [seq for seq in alice.holds(log) if log is not logs[0] or seq in range(10, 13)] for log in logs
    ]
    assert not {13, 20, 39} & set(alice.holds(logs[0]))
    assert key(logs[3]) not in alice.party.holds()
    synced(alice, bob, their_policy=Policy(unshared=frozenset([key(logs[3])])))
    assert alice.holds(logs[3]) == []


def test_live_along_a_line(peers: list[Peer]) -> None:
    """What is published at either end of a line comes to the other, and on again after the middle was cut off."""
    alice, bob, carol = peers
    log, other = build_log(30), build_log(8, seed=5)

    async def main() -> None:
        async with linked(alice, bob), linked(carol, bob):
            await alice.add(log, 1, 10)
            await until(lambda: carol.holds(log) == [*range(1, 11)])
        await alice.add(log, 11)
        await carol.add(other)
        async with linked(alice, bob), linked(bob, carol):
            await until(lambda: carol.holds(log) == [*range(1, 31)])
            await until(lambda: alice.holds(other) == [*range(1, 9)])

    run(main)


@pytest.mark.slow
def test_fetched_once(peers: list[Peer]) -> None:
    """Of two peers that offer the same, one is asked; what is behind a peer that ends comes from the other."""
    alice, bob, carol = peers
    logs = [build_log(50, seed=seed) for seed in range(30)]
    for peer in (bob, carol):
        for log in logs:
            peer.store.add(log.items())

    async def main() -> tuple[CulmSession, CulmSession]:
        async with linked(alice, bob) as (one, _), linked(alice, carol) as (other, _):
            await until(lambda: one.stats.entries_received + other.stats.entries_received >= 30 * 50)
            await until(lambda: not len(alice.claims))
            return one, other

    one, other = run(main)
    assert all(alice.holds(log) == [*range(1, 51)] for log in logs)
    assert 30 * 50 == one.stats.entries_received + other.stats.entries_received


@pytest.mark.parametrize("length", [4, 6, 40])
def test_forks_come_to_light(peers: list[Peer], length: int) -> None:
    """Two sides of a fork: both know its lowest place in the end, though neither lacked an entry of what it had."""
    alice, bob, _ = peers
    log = build_log(length)
    other = build_log(FORK_AT - 1)
    for seq in range(FORK_AT, length + 1):
        other.append(f"another {seq}".encode())
    alice.store.add(log.items())
    bob.store.add(other.items())

    async def main() -> None:
        async with linked(alice, bob):
            for peer in (alice, bob):
                await until(lambda peer=peer: FORK_AT in {proof.position for proof in peer.view.fork_proofs()})  # type: ignore[misc]

    run(main)
    for peer in (alice, bob):
        assert [1, 2, 3] == peer.holds(log)


def test_a_lower_fork_than_the_one_that_is_known(peers: list[Peer]) -> None:
    """Who knows that a log is forked above what is held learns of a fork that a peer knows of lower down."""
    alice, bob, _ = peers
    log = build_log(4)
    alice.store.add([*log.items(log.entries[:1]), *log.items(log.entries[3:]), (log.make(4, b"another"), b"another")])
    bob.store.add([*log.items(log.entries[:2]), (log.make(2, b"another"), b"another")])
    assert [{4}, {2}] == [{proof.position for proof in peer.view.fork_proofs()} for peer in (alice, bob)]
    synced(alice, bob)
    assert {2, 4} == {proof.position for proof in alice.view.fork_proofs()}


def test_a_fork_of_a_log_of_which_nothing_is_held(peers: list[Peer]) -> None:
    """Who wants a log is told that it is forked at its first entry, so that nothing of it is valid."""
    alice, bob, _ = peers
    log = build_log(3)
    bob.store.add([*log.items(), (log.make(1, b"another"), b"another")])
    synced(alice, bob, policy=Policy(interests={key(log): RangeSet([Range(2)])}))
    assert {1} == {proof.position for proof in alice.view.fork_proofs()}


def test_the_path_of_what_waits_comes(peers: list[Peer]) -> None:
    """An entry that is wanted and held, but waits for a path that is not wanted: the path comes."""
    alice, bob, _ = peers
    log = build_log(9)
    bob.store.add(log.items())
    alice.store.add(log.items(log.entries[6:]))
    synced(alice, bob, policy=Policy(interests={key(log): RangeSet([Range(7, None)])}))
    assert [7, 8, 9] == alice.holds(log)[-3:]


def test_strangers_are_refused(peers: list[Peer]) -> None:
    """Who is not allowed, or knows another clump, gets a closed connection; so does who calls somebody else."""
    alice, bob, carol = peers
    bob.store.add(build_log(3).items())

    async def main(**settings: Any) -> tuple[int, tuple[Any, Any]]:
        near, far = await stream_pair()
        clump = settings.pop("clump", b"Quagga")
        caller = alice.session(near, peer=settings.pop("peer", bob.key), clump=clump)
        listener = bob.session(far, **settings)
        results = await asyncio.gather(caller.run(), listener.run(), return_exceptions=True)
        return caller.stats.bytes_received, results

    for settings in (
        {"policy": Policy(allow_peers=frozenset([carol.key]))},
        {"policy": Policy(block_peers=frozenset([alice.key]))},
        {"clump": b"Zebra"},
        {"peer": carol.key},
    ):
        received, (caller, listener) = run(lambda settings=settings: main(**dict(settings)))  # type: ignore[misc]
        assert isinstance(caller, PeerRefused)
        is_offence = settings.keys() & {"clump", "peer"}  # who is only not allowed has broken no rule
        assert isinstance(listener, RemoteProtocolError if is_offence else PeerRefused)
        assert received < 60  # the nonce
    assert alice.party.holds() == {}


def test_changed_minds(peers: list[Peer]) -> None:
    """A session goes on with other interests at once; one with a peer that is blocked now ends."""
    alice, bob, _ = peers
    first, second = build_log(10), build_log(10, seed=2)
    for log in (first, second):
        bob.store.add(log.items())

    async def main() -> None:
        async with linked(alice, bob, policy=Policy(interests={key(first): ALL})) as (session, theirs):
            await until(lambda: alice.holds(first) == [*range(1, 11)])
            policy = Policy(interests={key(first): ALL, key(second): ALL})
            assert alice.source is not None
            alice.source.policy = policy
            await session.change_policy(policy)
            await until(lambda: alice.holds(second) == [*range(1, 11)])
            await theirs.change_policy(Policy(block_peers=frozenset([alice.key])))
            await until(alice.streams[1].is_closing)

    run(main)


# -- claims ----------------------------------------------------------------------------------------------------------


class Claimant:
    """Somebody who fetches logs."""

    def __init__(self) -> None:
        self.news_at = 0.0
        self.bytes = 0
        self.freed: list[Log] = []

    def brought(self, _: Log) -> int:
        """What came."""
        return self.bytes

    def claim_freed(self, log: Log) -> None:
        """Note it."""
        self.freed.append(log)


def test_claims() -> None:
    """A log is one's until it is released, one leaves or gets nowhere for long; those who wait are told once."""
    claims, one, other, third = Claims(), Claimant(), Claimant(), Claimant()
    log, second = (bytes(32), 1), (bytes(32), 2)
    assert claims.take(log, one, 0)
    assert claims.take(log, one, 0)
    assert not claims.take(log, other, 1)
    assert not claims.take(log, third, 1)
    claims.release(log, other)  # it has not got it
    assert other.freed == []
    claims.release(log, one)
    assert [log] == other.freed == third.freed
    assert claims.take(log, other, 1)
    assert claims.take(second, other, 1)
    assert not claims.take(log, one, 1 + STALL_SECONDS / 2)
    assert claims.take(log, one, 2 + STALL_SECONDS)
    assert not claims.take(second, third, 1)
    claims.leave(other)
    assert [log, second] == third.freed
    claims.leave(third)
    claims.leave(one)
    assert len(claims) == 0


def test_a_log_that_only_drips() -> None:
    """Who brings less than the least pace of a log for long loses it, though something comes all the time."""
    claims, one, other = Claims(), Claimant(), Claimant()
    log = (bytes(32), 1)
    assert claims.take(log, one, 0)
    for now in (PATIENCE_SECONDS, PATIENCE_SECONDS * 3):
        one.news_at, one.bytes = now, int(LEAST_PACE * now)
        assert not claims.take(log, other, now)
    one.news_at = other.news_at = now = PATIENCE_SECONDS * 4
    assert claims.take(log, other, now)
    assert not claims.take(log, one, now + 1)  # it has as long a time again


# -- with TLS --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def serving(
    party: Party, config: NodeConfig = CONFIG, *, peers: tuple[PeerUrl, ...] = (), at: PeerUrl | None = None
) -> AsyncIterator[PeerUrl]:
    """A node that listens at a port of its own, or where it did before."""
    stop = asyncio.Event()
    places: asyncio.Queue[PeerUrl] = asyncio.Queue()
    node = NodeService(party.identity, config, party.store)
    listen = at or PeerUrl.parse("culm://127.0.0.1:0", may_be_zero=True)
    task = asyncio.create_task(node.run([listen], peers, stop=stop, listening=places.put_nowait))
    yield await places.get()
    stop.set()
    await task


def test_over_tls(parties: list[Party], tmp_path: Path) -> None:
    """A sync with a real node: the address has its key, and somebody with another key is left at once."""
    log = build_log(20)
    parties[0].store.add(log.items())

    async def main() -> None:
        async with serving(parties[0]) as url:
            assert url.key == parties[0].identity.public
            with SQLiteStore(tmp_path / "other.db") as store:
                summary = await sync(parties[1].identity, CONFIG, store, url)
                assert summary.entries_received == 20
                assert 20 == sum(1 for _ in store.entries(key(log)))
            with pytest.raises(PeerRefused, match="another node answers at"):
                await connect(replace(url, key=Identity(bytes(32)).public))

    run(main)


def test_who_does_not_speak_tls(parties: list[Party]) -> None:
    """A listener without TLS, and a caller without it, are told of and let go."""

    async def main() -> None:
        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello\n" * 10)
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NetworkError, match=r"failed the TLS 1\.3 handshake"):
            await connect(PeerUrl("culm", "127.0.0.1", port, bytes(32)))
        server.close()
        async with serving(parties[0]) as url:
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            with suppress(OSError):  # The listener may reset the connection before its alert is on the way.
                assert len(await reader.read()) < 100  # an alert
            writer.close()

    run(main)


def test_a_node_that_stops_while_somebody_calls(parties: list[Party], monkeypatch: pytest.MonkeyPatch) -> None:
    """A handshake under way ends with the node, and nothing is left over that asyncio would complain of."""

    async def main() -> None:
        shaking = asyncio.Event()

        async def endless(*_: object) -> None:
            shaking.set()
            await asyncio.Event().wait()

        monkeypatch.setattr("culm.node.service.secured", endless)
        async with serving(parties[0]) as url:
            _, writer = await asyncio.open_connection(url.host, url.port)
            await shaking.wait()
        writer.close()

    run(main)  # fails if the loop had anything to complain of


def test_two_nodes_stay_in_touch(parties: list[Party]) -> None:
    """A node that has another as its peer keeps contact, and passes on live what it publishes."""

    async def main() -> None:
        config = replace(CONFIG, interval=0.1)
        async with serving(parties[0], config) as url, serving(parties[1], config, peers=(url,)) as place:
            assert place.key == parties[1].identity.public
            with SQLiteStore(parties[1].store.path) as store:  # as another process would: the node has its to itself
                store.append(parties[1].identity, 1, [b"hello"])
            with SQLiteStore(parties[0].store.path, read_only=True) as view:
                await until(lambda: [1] == [log.newest for log in view.logs()])

    run(main)


def test_a_node_that_comes_back(parties: list[Party]) -> None:
    """The middle one of three nodes is cut off and comes back: the others go on by themselves, and all have all."""

    async def main() -> None:
        limits = replace(CONFIG.limits, first_retry_seconds=0.1, max_retry_seconds=0.2)
        config = replace(CONFIG, interval=0.2, limits=limits)
        async with serving(parties[1], config) as middle:
            pass  # its port is known now
        async with serving(parties[0], config, peers=(middle,)), serving(parties[2], config, peers=(middle,)):
            ends = [parties[0], parties[2]]
            views = [SQLiteStore(party.store.path, read_only=True) for party in parties]
            for number in (1, 2):  # the second time after it was away
                for party in ends:  # as another process would: the node has its store to itself
                    with SQLiteStore(party.store.path) as store:
                        store.append(party.identity, 1, [b"%d" % number])
                async with serving(parties[1], config, at=middle):
                    for view in views:
                        await until(
                            lambda view=view, number=number: [number, number] == [log.newest for log in view.logs()]  # type: ignore[misc]
                        )
            for view in views:
                view.close()

    run(main)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("culm://127.0.0.1:1", "lacks the listener's key"),
        ("culm://short@127.0.0.1:1", "not an author|key"),
        ("intervals://" + "0" * 43 + "@127.0.0.1:1", "only a culm://"),
        ("culm://" + "0" * 43 + ":x@127.0.0.1:1", "is not an address"),
    ],
)
def test_wrong_addresses(text: str, message: str) -> None:
    """An address without a key, with a wrong one, or with one where there is none."""
    with pytest.raises(CulmError, match=message):
        PeerUrl.parse(text)


def collected_after(party: Party, calls: list[bytes]) -> list[int]:
    """How often a node has collected its garbage, after each of some calls that say no more than this."""
    collected: list[int] = []
    surroundings = replace(SURROUNDINGS, collect=lambda: collected.append(1))
    limits = replace(CONFIG.limits, penalty_seconds=0.0)
    config = replace(CONFIG, surroundings=surroundings, limits=limits)

    async def call(url: PeerUrl, data: bytes) -> int:
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(data)
        writer.write_eof()
        with suppress(OSError):  # A node that breaks off an attack says no goodbye.
            await reader.read()
        writer.close()
        await asyncio.sleep(0.1)  # The node notes how the session has ended.
        return len(collected)

    async def main() -> list[int]:
        at = PeerUrl.parse("intervals://127.0.0.1:0", may_be_zero=True)
        async with serving(party, config, at=at) as url:
            return [await call(url, data) for data in calls]

    return run(main)


def test_what_failed_sessions_leave_is_collected(parties: list[Party]) -> None:
    """After some sessions that failed, and not after each, what only refers to itself goes."""
    failing = collected_after(parties[0], [*(64 * [b"\xff" * 100]), *(6 * [b""])])
    assert [failing.index(1), failing.index(2), failing[-1]] == [31, 63, 2]


def test_bytes_of_failed_sessions_are_freed_at_once(parties: list[Party]) -> None:
    """What a peer sent before its session failed stays no longer than that, also if no garbage is collected."""
    import tracemalloc

    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        collected_after(parties[0], 2 * [b"\xff" * 400_000])
        before, _ = tracemalloc.get_traced_memory()
        collected_after(parties[0], 10 * [b"\xff" * 400_000])
        assert tracemalloc.get_traced_memory()[0] - before < 1_000_000
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.slow
def test_what_long_talks_leave_is_collected(parties: list[Party]) -> None:
    """The same after sessions whose peers said much."""
    assert [0, 0, 0, 1, 1] == collected_after(parties[0], 5 * [b"\xc0\x00" * 150_000])  # grants of no bytes


def test_lost_when_the_handshake_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is lost in the moment in which TLS is there is a connection that broke."""

    async def main() -> None:
        near, far = await stream_pair()

        async def lost(*_: object, **__: object) -> None:
            """What asyncio gives then."""

        monkeypatch.setattr(asyncio.get_running_loop(), "start_tls", lost)
        with pytest.raises(NetworkError, match="the connection broke"):
            await secured(near[1], calling_context(), 1.0)
        assert not near[1].is_closing()
        near[1].close()
        far[1].close()

    run(main)
