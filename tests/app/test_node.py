"""``culm.Node``: what a program does with it, alone and with peers on this machine.

They run really: a program has no say in the threads and the sockets of its node.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm import CulmError, Identity, NetworkError, Node, NotHeld, Store, check_proof
from culm.app import FollowOptions, ProposalOptions
from culm.cli import main as command
from culm.errors import AfterEndOfLog, ConfigError, ForkDetected, StoreError
from culm.intervals import Forks
from culm.ranges import Range, RangeSet
from culm.testing import LogBuilder, build_log
from tests.app.nodes import opened, two
from tests.node.links import run_really
from tests.node.peers import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from culm.node.sessions.stats import SessionStats
    from culm.testing import World, WorldNode

LOG = build_log(20)
KEY = LOG.identity.public


async def numbers(node: Node, log: str | tuple[bytes, int] | int) -> list[int]:
    """The numbers of the verified entries of a log."""
    return [entry.seq async for entry in node.entries(log)]


def test_appending_and_reading(tmp_path: Path) -> None:
    """What is appended, as bytes, text or pieces, is there as it was given; a log that ended takes no more."""

    def pieces() -> Iterator[bytes]:
        yield b"a" * 70_000
        yield b"b"

    async def main() -> None:
        async with opened(tmp_path) as node:
            await node.append(1, b"bytes")
            await node.append(1, "t\u00e9xt")
            large = await node.append(1, pieces())
            await node.append(1, "", end=True)
            with pytest.raises(AfterEndOfLog):
                await node.append(1, "more")

            payloads = [await node.payload(entry) async for entry in node.entries(1)]
            assert [b"bytes", "t\u00e9xt".encode(), b"a" * 70_000 + b"b", b""] == payloads
            assert b"ab" == b"".join([piece async for piece in node.payload_pieces(large, 69_999)])
            assert [2, 3] == [entry.seq async for entry in node.entries(f"{node.name}/1", first=2, last=3)]
            assert large == await node.entry((node.author, 1), 3)
            assert await node.entry(1, 9) is None
            both = [await node.entry_with_payload(1, seq) for seq in (2, 3, 4, 9)]
            assert [payload for _, payload in filter(None, both)] == payloads[1:]
            assert [found and found[0] for found in both] == [await node.entry(1, seq) for seq in (2, 3, 4, 9)]
            (summary,) = await node.logs()
            assert (4, True) == (summary.newest, summary.ended)
            assert (4, []) == ((report := await node.verify()).entries, report.problems)

    run_really(main)


def test_appending_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many payloads become entries in their order, in groups; an error leaves whole groups, and nothing behind them."""
    monkeypatch.setattr("culm.store.append.GROUP_ENTRIES", 3)

    def payloads() -> Iterator[str | bytes]:
        yield from ("one", b"two", "", b"four", "five")
        raise RuntimeError("the sensor is gone")

    async def main() -> None:
        async with opened(tmp_path) as node:
            assert [] == await node.append_many(1, [])
            made = await node.append_many(1, (f"{number}" for number in range(1, 9)))
            assert (list(range(1, 9)), made) == (await numbers(node, 1), [entry async for entry in node.entries(1)])
            assert [b"%d" % number for number in range(1, 9)] == [await node.payload(entry) for entry in made]
            with pytest.raises(RuntimeError, match="the sensor is gone"):
                await node.append_many(2, payloads())
            assert [b"one", b"two", b""] == [await node.payload(entry) async for entry in node.entries(2)]
            await node.append(1, "", end=True)
            with pytest.raises(AfterEndOfLog):
                await node.append_many(1, ["more"])

    run_really(main)


def test_proving(tmp_path: Path) -> None:
    """A program proves an entry to another one that has nothing but the file, with its payload or without."""

    async def main() -> None:
        async with opened(tmp_path) as node:
            await node.append_many(1, ["one", "two", "three", "four", "five"])
            proof, payload = check_proof(await node.prove(1, 2, with_payload=True), node.author)
            assert (proof.entry, proof.top.seq, payload) == (await node.entry(1, 2), 5, b"two")
            assert check_proof(await node.prove((node.author, 1), 4, short=True)).proof.top.seq == 4
            with pytest.raises(NotHeld):
                await node.prove(1, 6)

    run_really(main)


def test_appending_at_once(tmp_path: Path) -> None:
    """Appends that do not wait for each other make one log without a gap, and each gets its own entry and payload.

    What changes a payload afterwards changes nothing.
    """

    async def main() -> None:
        async with opened(tmp_path) as node:
            changing = bytearray(b"before")
            wanted = [node.append(number % 3, f"{number}") for number in range(200)]
            appending = asyncio.create_task(node.append(9, changing))
            entries = await asyncio.gather(*wanted)
            changing[:] = b"behind"
            assert [f"{number}".encode() for number in range(200)] == [await node.payload(entry) for entry in entries]
            assert [67, 67, 66, 1] == [len(await numbers(node, log)) for log in (0, 1, 2, 9)]
            assert b"before" == await node.payload(await appending)
            assert [] == (await node.verify()).problems

    run_really(main)


def test_closing_beside_appends(tmp_path: Path) -> None:
    """A node that is closed while appends wait answers each: its entry, which is held then, or that there is none."""

    async def main() -> None:
        async with opened(tmp_path) as node:
            log = node.author, 1
            appends = [asyncio.create_task(node.append(1, f"{number}")) for number in range(500)]
            await asyncio.sleep(0)
        results = await asyncio.gather(*appends, return_exceptions=True)
        assert {StoreError} >= {type(result) for result in results if isinstance(result, BaseException)}
        with Store(tmp_path / "1.db") as store:
            held = [stored.entry for stored in store.entries(log)]
        assert held == [result for result in results if not isinstance(result, BaseException)]

    run_really(main)


def test_forgetting(tmp_path: Path) -> None:
    """A forgotten payload is gone, its entry stays; of what is not held there is no payload either."""

    async def main() -> None:
        async with opened(tmp_path) as node:
            entry = await node.append(1, "seven b")
            assert 7 == await node.forget(entry)
            with pytest.raises(NotHeld, match="0 of 7 bytes"):
                await node.payload(entry)
            with pytest.raises(NotHeld, match="does not have this entry"):
                await node.payload(LOG.entries[0])
            assert [1] == await numbers(node, 1)

    run_really(main)


def test_a_home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A home is made with an identity, and is the one that the command line uses; what is followed stays in it."""
    home = tmp_path / "home"

    async def main() -> bytes:
        async with Node.open(home, clump="tests") as node:
            await node.append(1, "hello")
            await node.follow(KEY, 3, first=5)
            await node.follow(LOG.identity.public.hex(), max_payload=100)
            return node.author

    author = run_really(main)
    assert 0 == command(["--home", str(home), "following", "--clump", "tests"])
    assert "5.." in capsys.readouterr().out

    async def again() -> None:
        async with Node.open(home, clump="tests", create=False) as node:
            assert (author, [1]) == (node.author, await numbers(node, 1))
            expected = {(KEY, 3): RangeSet([Range(5)]), KEY: RangeSet([Range(1, size_limit=101)])}
            assert expected == node.following
            await node.unfollow(KEY, 3)
            assert {KEY} == set(node.following or ())
            with pytest.raises(ConfigError, match="does not follow"):
                await node.unfollow(KEY, 3)
            await node.follow_everything()
            assert node.following is None

    run_really(again)


@pytest.mark.usefixtures("cheap_passphrases")
def test_a_home_with_a_passphrase(tmp_path: Path) -> None:
    """An identity can be sealed: without its passphrase, or with another one, the node does not open."""

    async def author(passphrase: str | None) -> bytes:
        async with Node.open(tmp_path / "home", passphrase=passphrase, create=passphrase == "right") as node:
            return node.author

    made = run_really(lambda: author("right"))
    assert made == run_really(lambda: author("right"))
    for wrong in ("wrong", None):
        with pytest.raises(ConfigError, match="passphrase"):
            run_really(lambda wrong=wrong: author(wrong))  # type: ignore[misc]


def test_wrong_calls(tmp_path: Path) -> None:
    """A wrong call is one clear error, and changes nothing."""
    with pytest.raises(ConfigError, match="not both"):
        Node.open(tmp_path, store=tmp_path / "1.db")

    async def fails(node: Node, match: str) -> None:
        with pytest.raises(CulmError, match=match):
            await node.start()

    async def main() -> None:
        await fails(Node.open(tmp_path / "none", create=False), "not a Culm home yet")
        await fails(Node.open(store=tmp_path / "2.db", identity="default"), "no identities")
        await fails(Node.open(store=tmp_path / "no" / "2.db", identity=Identity.create()), "cannot be opened")
        async with opened(tmp_path, clump=None) as node:
            for url in ("bushbaby://127.0.0.1:0", "http://127.0.0.1:1", "culm://nobody@127.0.0.1:1"):
                with pytest.raises(ConfigError):
                    await node.listen(url)
            for url in ("culm://127.0.0.1:1", "bushbaby://127.0.0.1:1"):
                with pytest.raises(ConfigError):
                    await node.connect(url)
            with pytest.raises(ConfigError, match="does not connect"):
                await node.disconnect("intervals://127.0.0.1:1")
            with pytest.raises(ConfigError, match="not a range"):
                await node.follow(KEY, first=5, last=4)
            with pytest.raises(ConfigError, match="no payload has"):
                await node.follow(KEY, min_payload=5, max_payload=4)
            with pytest.raises(ConfigError, match="32 bytes"):
                node.subscribe(b"short")
            with pytest.raises(ConfigError, match="log id"):
                await numbers(node, (KEY, -1))
            with pytest.raises(ConfigError, match="not a cursor"):
                node.subscribe(since="yesterday")
            with pytest.raises(ConfigError, match="name them"):
                await node.sync("intervals://127.0.0.1:1")
            with pytest.raises(ConfigError, match="FollowOptions does not work with culm"):
                await node.sync(f"culm://{node.name}@127.0.0.1:1", how=FollowOptions())
            with pytest.raises(ConfigError, match="ProposalOptions does not work with intervals"):
                await node.sync("intervals://127.0.0.1:1", [1], how=ProposalOptions())
            with pytest.raises(ConfigError, match="is not an entry"):
                await node.fetch("intervals://127.0.0.1:1", [f"{KEY.hex()}/1/x"])
            with pytest.raises(ConfigError, match="expected culm"):
                await node.fetch("bushbaby://127.0.0.1:1", [])
            assert ([], None) == (node.peers(), node.following)

    run_really(main)


async def held(node: Node) -> tuple[list[int], list[int]]:
    """The entries that a node has of ``LOG``, and of which the payload."""
    entries = [entry async for entry in node.entries((KEY, 0))]
    complete = []
    for entry in entries:
        with suppress(NotHeld):
            await node.payload(entry)
            complete.append(entry.seq)
    return [entry.seq for entry in entries], complete


@pytest.mark.parametrize("scheme", ["culm", pytest.param("intervals", marks=pytest.mark.slow)])
def test_syncing_ranges(tmp_path: Path, scheme: str) -> None:
    """A sync asks for ranges of logs in place of what is followed: entries alone, payloads alone, sizes, and more.

    What belongs to the certificates comes with it, except what ``head_max`` and ``tail_min`` say is held already.
    """

    async def main() -> None:
        async with opened(tmp_path, 1) as source, opened(tmp_path, 2) as node:
            Store(tmp_path / "1.db").add(LOG.items())
            url = await source.listen(f"{scheme}://127.0.0.1:0")
            await node.sync(url, {(KEY, 0): Range(1, 4, payloads=False)})
            assert await held(node) == ([1, 2, 3, 4], [])
            await node.sync(url, {(KEY, 0): [Range(2, 2, metadata=False), Range(4, 4, metadata=False)]})
            assert await held(node) == ([1, 2, 3, 4], [2, 4])
            await node.sync(url, {(KEY, 0): Range(1, 4, forbidden=(1,))})
            assert await held(node) == ([1, 2, 3, 4], [2, 3, 4])
            await node.sync(url, {(KEY, 0): Range(5, 6, size_limit=1)})
            assert (await held(node))[1] == [2, 3, 4]
            assert {5, 6} <= set((await held(node))[0])
            await node.sync(url, [(KEY, 0)])
            assert (await held(node))[0] == list(range(1, 21))
            assert node.following is None

    run_really(main)


@pytest.mark.parametrize("scheme", ["culm", pytest.param("intervals", marks=pytest.mark.slow)])
def test_certificates_that_are_held_elsewhere(tmp_path: Path, scheme: str) -> None:
    """``head_max`` and ``tail_min`` leave out what the caller has: 19 waits for 13, 6 comes without 8, 12, 13."""

    async def main() -> None:
        async with opened(tmp_path, 1) as source, opened(tmp_path, 2) as node, opened(tmp_path, 3) as third:
            Store(tmp_path / "1.db").add(LOG.items())
            url = await source.listen(f"{scheme}://127.0.0.1:0")
            await node.sync(url, {(KEY, 0): Range(19, 19, head_max=13)})
            (log,) = await node.logs()
            assert (log.entries, log.waiting) == (0, 4)
            await third.sync(url, {(KEY, 0): Range(6, 6, tail_min=8)})
            assert await held(third) == ([1, 4, 5, 6, 7], [6])

    run_really(main)


def test_how_to_ask_for_intervals(tmp_path: Path) -> None:
    """The newest entries only, unverified by the peer, and with local fork handling and an anchor."""

    async def main() -> None:
        async with opened(tmp_path, 1) as source, opened(tmp_path, 2) as node:
            Store(tmp_path / "1.db").add(LOG.items())
            url = await source.listen("intervals://127.0.0.1:0")
            anchor = (13, LOG.entries[12].hash)
            how = FollowOptions(newest=2, newest_first=True, verified=False, forks=Forks.LOCAL, anchor=anchor)
            await node.sync(url, [(KEY, 0)], how=how)
            entries, complete = await held(node)
            assert complete == [19, 20]
            assert 2 not in entries

    run_really(main)


@pytest.mark.parametrize("scheme", ["culm", "intervals"])
def test_fetching_entries(tmp_path: Path, scheme: str) -> None:
    """Single entries come with their path, deleted payloads come back, and what the peer lacks is said.

    Neither what else the peer shares comes, nor what the node follows or has of its own goes.
    """

    async def main() -> None:
        async with opened(tmp_path, 1) as source, opened(tmp_path, 2) as node:
            Store(tmp_path / "1.db").add(LOG.items())
            await source.append(7, "not asked for")
            await node.append(7, "not offered")
            url = await source.listen(f"{scheme}://127.0.0.1:0")
            name = f"{KEY.hex()}/0"
            fetched = await node.fetch(url, [f"{name}/6", f"{name}/19..22"])
            assert fetched.lacking == [((KEY, 0), 21, 22)]
            assert (await held(node))[1] == [6, 19, 20]
            entry = await node.entry(name, 6)
            assert entry is not None
            await node.forget(entry)
            fetched = await node.fetch(url, [entry])
            assert (fetched.lacking, fetched.summary.refused) == ([], [])
            assert await node.payload(entry) == LOG.payloads[entry.hash]
            assert len(await node.logs()) == len(await source.logs()) == 2

    run_really(main)


@pytest.mark.parametrize("scheme", ["culm", "intervals"])
@pytest.mark.slow
async def test_a_film_from_a_peer(culm_world: World, scheme: str) -> None:
    """A payload is played as it comes. The player may pause for minutes: the peer waits then, and memory is bounded."""
    source, node = await culm_world.node("source"), await culm_world.node("node")
    film = bytes(range(256)) * 16_000
    entry = await source.append(1, film)
    url = await source.listen(f"{scheme}://{source.host.address}:0")
    await node.fetch(url, {(source.author, 1): Range(1, 1, payloads=False)})
    played = bytearray()
    async for piece in node.fetch_pieces(url, entry, 1000):
        assert piece
        if not played:
            await asyncio.sleep(200)
        played += piece
    assert played == film[1000:]

    pieces = node.fetch_pieces(url, entry)
    played = bytearray(await anext(pieces))
    await asyncio.sleep(200)
    culm_world.drop(source, node)
    with pytest.raises(NetworkError):
        async for piece in pieces:
            played += piece
    assert len(played) < 2_500_000
    assert film.startswith(played)
    async with aclosing(node.fetch_pieces(url, entry)) as broken_off:
        await anext(broken_off)
    with pytest.raises(TypeError, match="an Entry is expected"):
        await node.fetch_bytes(url, 7)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["culm", "intervals"])
def test_bytes_of_a_payload(tmp_path: Path, scheme: str, caplog: pytest.LogCaptureFixture) -> None:
    """Any part of a payload can be had, without keeping it, if the entry is held; what is not there is said.

    Each of these connections ends in order, though the peer may be sending when it does: no warning is logged.
    """

    async def main() -> None:
        async with opened(tmp_path, 1) as source, opened(tmp_path, 2) as node:
            data = bytes(range(256)) * 12_000
            entry = await source.append(3, data)
            empty = await source.append(3, b"")
            forgotten = await source.append(3, b"forgotten")
            await source.forget(forgotten)
            url = await source.listen(f"{scheme}://127.0.0.1:0")
            with pytest.raises(NotHeld, match="fetch it first"):
                await node.fetch_bytes(url, entry, 5, 9)
            await node.fetch(url, {(source.author, 3): Range(1, 3, payloads=False)})
            assert await node.fetch_bytes(url, entry, 5, 9) == data[5:10]
            assert await node.fetch_bytes(url, entry, 2_000_000, 3_000_000) == data[2_000_000:3_000_001]
            assert await node.fetch_bytes(url, entry, len(data) - 1) == data[-1:]
            assert await node.fetch_bytes(url, entry) == data
            for wrong in ((5, 4), (-1, 4), (0, len(data))):
                with pytest.raises(ConfigError, match="it has no bytes"):
                    await node.fetch_bytes(url, entry, *wrong)
            with pytest.raises(ConfigError, match="it has no bytes 0 to -1"):
                await node.fetch_bytes(url, empty)
            with pytest.raises(NotHeld, match="the peer does not have"):
                await node.fetch_bytes(url, forgotten)
            with pytest.raises(NotHeld):
                await node.payload(entry)

    run_really(main)
    assert [] == [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_closed_node(tmp_path: Path) -> None:
    """A node that is closed says so, whatever is asked of it; closing twice is fine, opening again is not."""

    async def main() -> None:
        node = opened(tmp_path)
        assert node.is_closed
        with pytest.raises(ConfigError, match="not opened"):
            await node.append(1, "early")
        async with node:
            assert not node.is_closed
        await node.close()
        assert node.is_closed
        for call in (node.append(1, "late"), node.logs(), node.sync("culm://x@h:1"), node.follow(KEY), node.start()):
            with pytest.raises(ConfigError, match=r"closed|opened once only"):
                await call
        with pytest.raises(ConfigError, match="closed"):
            node.subscribe()

    run_really(main)


def test_live_with_a_peer(tmp_path: Path) -> None:
    """Contact is kept: what either side appends is at the other at once, also after the peer was away."""

    async def main() -> None:
        async with two(tmp_path) as (one, other, url):
            await other.connect(url)
            await other.connect(url)  # once is enough
            news, answers = other.subscribe(one.author, with_payload=True), one.subscribe(other.author)
            await one.append(1, "ping")
            assert b"ping" == await other.payload(await anext(news))
            await other.append(7, "pong")
            assert (7, 1) == ((answer := await anext(answers)).log_id, answer.seq)
            (peer,) = other.peers()
            assert (url, True, None) == (peer.url, peer.connected, peer.problem)

            await other.disconnect(url)
            assert [] == other.peers()
            await one.append(1, "while away")
            assert [1] == await numbers(other, (one.author, 1))
            await other.connect(url)
            assert b"while away" == await other.payload(await anext(news))

    run_really(main)


def test_how_contact_is_kept(tmp_path: Path) -> None:
    """Contact takes the logs and options of a sync. Other ones for the same peer need an end of the first contact."""

    async def main() -> None:
        async with opened(tmp_path, 1) as source, opened(tmp_path, 2) as node:
            Store(tmp_path / "1.db").add(LOG.items())
            url = await source.listen("intervals://127.0.0.1:0")
            how = FollowOptions(newest=2)
            for _ in range(2):
                await node.connect(url, [(KEY, 0)], how=how)
            for other in (FollowOptions(), None):
                with pytest.raises(ConfigError, match="disconnect from it first"):
                    await node.connect(url, [(KEY, 0)], how=other)
            with pytest.raises(ConfigError, match="ProposalOptions does not work with intervals"):
                await node.connect(url, how=ProposalOptions())
            news = node.subscribe(KEY, since="0", with_payload=True)
            assert {19, 20} == {(await anext(news)).seq, (await anext(news)).seq}

    run_really(main)


def test_a_peer_that_is_not_there(tmp_path: Path) -> None:
    """What prevents contact is told, and a one-time sync fails with that."""

    async def main() -> None:
        async with opened(tmp_path, 1) as one, opened(tmp_path, 2) as other:
            url = await one.listen("culm://127.0.0.1:0")
            await one.close()
            with pytest.raises(NetworkError, match="cannot reach"):
                await other.sync(url)
            await other.connect(url)
            await until(lambda: other.peers()[0].problem is not None)
            assert not other.peers()[0].connected

    run_really(main)


SLOW = [pytest.param(scheme, marks=pytest.mark.slow) for scheme in ("bushbaby", "proposals")]  # half a second each


@pytest.mark.parametrize("scheme", ["culm", "intervals", *SLOW])
def test_syncing_once(tmp_path: Path, scheme: str) -> None:
    """One exchange in each protocol brings what is missing and tells how much that was, as it goes and at the end."""
    told: list[SessionStats] = []

    async def main() -> None:
        async with opened(tmp_path, 1) as one, opened(tmp_path, 2) as other:
            for number in range(5):
                await one.append(1, f"{number}")
            url = await one.listen(f"{scheme}://127.0.0.1:0")
            named = [(one.author, 1)] if scheme in ("intervals", "proposals") else []
            summary = await other.sync(url, named, progress=told.append)
            assert (5, [1, 2, 3, 4, 5]) == (summary.entries_received, await numbers(other, (one.author, 1)))

    run_really(main)
    assert told


def test_following_narrows_what_comes(tmp_path: Path) -> None:
    """Only what is followed comes: numbers, sizes and all."""
    with Store(tmp_path / "1.db") as store:
        store.add(LOG.items() + build_log(4, seed=5).items())

    async def main() -> None:
        async with two(tmp_path) as (_, other, url):
            await other.follow(KEY, LOG.log_id, first=10, last=12, max_payload=5)
            await other.sync(url)
            held = await numbers(other, LOG.entries[0].log)
            assert {10, 11, 12} <= set(held)
            assert 20 not in held
            with pytest.raises(NotHeld):
                await other.payload(LOG.entries[9])
            assert {KEY} == {log.author for log in await other.logs()}
            await other.follow(KEY, LOG.log_id, first=15, last=15, add=True)
            await other.sync(url)
            assert LOG.payloads[LOG.entries[14].hash] == await other.payload(LOG.entries[14])

    run_really(main)


def test_blocking(tmp_path: Path) -> None:
    """Choices made by a program hold at once: a peer that is blocked gets nothing."""

    async def main() -> None:
        async with two(tmp_path) as (one, other, url):
            await one.append(1, "not for you")
            await one.change_policy(lambda policy: replace(policy, block_peers=frozenset({other.author})))
            assert frozenset({other.author}) == one.policy.block_peers
            with pytest.raises(NetworkError):
                await other.sync(url)
            assert [] == await other.logs()

    run_really(main)


def test_forks(tmp_path: Path) -> None:
    """An author who contradicts itself is found out: the proof is there, what is before it stays, nothing follows."""
    log = LogBuilder(Identity(bytes([1]) * 32), 3)
    for text in (b"one", b"two"):
        log.append(text)
    fork = log.make(2, b"another two")

    async def main() -> None:
        with Store(tmp_path / "1.db") as store:
            store.add([*log.items(), (fork, None)])
        async with opened(tmp_path) as node:
            (proof,) = await node.forks()
            assert [proof] == await node.forks(3)
            assert (2, [1]) == (proof.position, await numbers(node, 3))
            with pytest.raises(ForkDetected):
                await node.append(3, "three")

    run_really(main)


def test_a_node_that_stops_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the work behind a node fail, its subscriptions end, and every call says why."""

    def fail(_: object) -> None:
        raise StoreError("no room")

    async def main() -> None:
        node = await opened(tmp_path).start()
        assert await anext(node.subscribe(), None) is None
        assert node.is_closed
        with pytest.raises(StoreError, match="stopped because of an error: no room"):
            await node.logs()
        with pytest.raises(StoreError, match="no room"):
            await node.close()

    monkeypatch.setattr("culm.node.service.folding", fail)
    run_really(main)


# -- wrong types -----------------------------------------------------------------------------------------------------

WRONG: list[tuple[Any, str]] = [
    (lambda node, _: node.append("1", "x"), "a log id is a number, not str"),
    (lambda node, _: node.append(1, None), "a payload is bytes, text, or an iterable of bytes, not NoneType"),
    (lambda node, _: node.append(1, ["x"]), "a piece of this one is of type str"),
    (lambda node, _: node.append(1, [7]), "a piece of this one is of type int"),
    (lambda node, _: node.append_many(1, [7]), "a payload is bytes or text, not int"),
    (lambda node, _: node.append_many(1, "several"), "put a single one into a list, or use append"),
    (lambda node, _: node.append_many(1, b"several"), "put a single one into a list, or use append"),
    (lambda node, _: node.entry(1, "1"), "the number of an entry is an int, not str"),
    (lambda node, _: node.entry_with_payload(1, "1"), "the number of an entry is an int, not str"),
    (lambda node, _: node.entry(None, 1), "or the id of an own log, not NoneType"),
    (lambda node, _: node.entry((KEY, 1, 1), 1), "or the id of an own log, not tuple"),
    (lambda node, _: node.entry((KEY, "1"), 1), "the id of a log is a number, not str"),
    (lambda node, _: node.payload((KEY, 1, 1)), "an Entry is expected, not tuple"),
    (lambda node, _: node.forget(1), "an Entry is expected, not int"),
    (lambda node, _: anext(node.payload_pieces(1)), "an Entry is expected, not int"),
    (lambda node, _: node.follow(7), "an author is bytes or text, not int"),
    (lambda node, url: node.sync(url, "several"), "put a single one into a list"),
    (lambda node, url: node.fetch(url, [7]), "an entry to fetch is an Entry or AUTHOR/LOG/SEQ as text, not int"),
    (lambda node, url: node.fetch(url, "A/1/1"), "put a single one into a list"),
    (lambda node, _: node.connect(None), "an address is text such as .*, not NoneType"),
    (lambda node, _: node.listen(80), "an address is text such as .*, not int"),
    (lambda node, _: anext(node.subscribe(since=5)), "a cursor is text, not int"),
]


async def test_wrong_types(culm_node: WorldNode) -> None:
    """An argument of a wrong type is told in a sentence, at once. No entry is made of it."""
    for call, message in WRONG:
        with pytest.raises(TypeError, match=message):
            await call(culm_node, culm_node.url)

    assert [] == await culm_node.logs()


async def test_payloads_of_all_kinds(culm_node: WorldNode) -> None:
    """Everything that is bytes is a payload, as it is at the time of the call."""
    given: list[Any] = [b"leaf", "leaf", bytearray(b"leaf"), memoryview(b"leaf"), array("B", b"leaf")]
    for entry in await culm_node.append_many(1, given):
        assert b"leaf" == await culm_node.payload(entry)


async def test_how_a_node_shows_itself(culm_world: World) -> None:
    """Its author and its store, and whether it is closed."""
    node = await culm_world.node()
    assert f"<Node {node.name} in {node.store_path}>" == repr(node)
    await node.close()
    assert repr(node).endswith(", closed>")
    assert "<Node, not opened yet>" == repr(Node.open(store="x.db", identity=LOG.identity))
