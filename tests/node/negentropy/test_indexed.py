"""Answering negentropy from a record index.

All of it runs really: each connection to an index has a real thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import ConfigError, CulmError, NetworkError, StoreDamaged
from culm.negentropy import ArrayStorage
from culm.node.negentropy.comparison import Answering, Differences, compare, compare_records
from culm.node.negentropy.indexed import IndexNode, records_of
from culm.node.network.transport import connect
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.node.sessions.stats import PeerRefused
from culm.node.storage.worker import Computing
from culm.store import View
from culm.testing import build_log
from tests.node.links import CONFIG, QUICK, Party, run_really, stream_pair
from tests.store.recordindex.indexes import Item, make_index

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from culm.negentropy import Storage
    from culm.store.recordindex import IndexStorage

ANY_PORT = PeerUrl("negentropy", "127.0.0.1", 0)


def some_items(count: int) -> list[Item]:
    """Records."""
    rng = random.Random(1)
    return [(rng.randrange(50), rng.randbytes(32)) for _ in range(count)]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexStorage]:
    """An index of 2,000 records."""
    with make_index(tmp_path / "index", some_items(2000), block_records=16, files=2) as opened:
        yield opened


async def asked(index: IndexStorage, ask: Callable[[Any], Awaitable[Any]]) -> tuple[Any, CulmError | None]:
    """What somebody gets over a connection that is answered from an index, and how that ended."""
    near, far = await stream_pair()
    answering = asyncio.create_task(Answering(partial(records_of, index), Computing().share(), QUICK, far).run())
    try:
        found = await ask(near)
    except CulmError as error:
        found = error
    near[1].close()
    try:
        await answering
    except CulmError as error:
        return found, error
    return found, None


def test_a_store_against_its_index(parties: list[Party], tmp_path: Path) -> None:
    """A node that compares with an index of a store's entries finds what it would find at the store."""
    alice, bob, _ = parties
    one, two, three = (build_log(length, seed=length) for length in (300, 40, 7))
    alice.store.add(one.items() + two.items())
    bob.store.add(one.items(one.entries[:250]) + three.items())
    items = [
        (stored.entry.seq - 1, stored.entry.hash[2:34])
        for log in bob.store.logs()
        for stored in bob.store.entries((log.author, log.log_id))
    ]
    with make_index(tmp_path / "i", items) as index:
        found, error = run_really(lambda: asked(index, lambda near: compare(alice.store, View.ENTRIES, near)))
    assert error is None
    assert (len(found.have), len(found.need)) == (50 + 40, 7)
    assert set(found.need) == {entry.hash[2:34] for entry in three.entries}


def test_only_the_view_it_is_of(index: IndexStorage, tmp_path: Path) -> None:
    """Who asks for another view by its name is told that by the end of the connection; nobody gets a wrong one."""
    array = ArrayStorage.of(some_items(2000)[5:])
    found, error = run_really(lambda: asked(index, lambda near: compare_records(array, View.PAYLOADS, near)))
    assert found is None
    assert isinstance(error, PeerRefused)  # which is not held against who asked
    assert "wants to compare payloads, but this index holds entries" in str(error)
    with make_index(tmp_path / "p", some_items(2000), view=View.PAYLOADS) as payloads:
        found, error = run_really(lambda: asked(payloads, lambda near: compare_records(array, View.PAYLOADS, near)))
        assert (len(found.have), len(found.need), error) == (0, 5, None)
        found, error = run_really(lambda: asked(payloads, lambda near: compare_records(array, View.ENTRIES, near)))
        assert isinstance(found, NetworkError)
        assert "wants to compare entries" in str(error)


def test_an_index_that_gets_damaged(index: IndexStorage) -> None:
    """A file that is cut under our hands ends the connections that need it, with the reason, and nothing else."""
    array = ArrayStorage.of(some_items(1000))
    for file in index.manifest.files:
        os.truncate(index.path / file.name, 40)
    found, error = run_really(lambda: asked(index, lambda near: compare_records(array, View.ENTRIES, near)))
    assert isinstance(found, NetworkError)
    assert isinstance(error, StoreDamaged)


async def serving(index: IndexStorage, use: Callable[[PeerUrl], Awaitable[None]], **limits: Any) -> None:
    """Use a listener on the loopback."""
    stop, places = asyncio.Event(), asyncio.Queue[PeerUrl]()
    node = IndexNode(index, replace(QUICK, **limits))
    task = asyncio.create_task(node.run([ANY_PORT], stop=stop, listening=places.put_nowait))
    try:
        await use(await places.get())
    finally:
        stop.set()
        await task


async def called(url: PeerUrl, records: Storage) -> Differences | None:
    """Compare with a listener."""
    streams = await connect(url)
    try:
        return await compare_records(records, View.ENTRIES, streams, idle_seconds=5)
    finally:
        streams[1].close()


def test_stopping_while_somebody_compares(index: IndexStorage, parties: list[Party]) -> None:
    """A listener, of an index or of a node, that stops while a caller is there leaves nothing to be complained of."""
    complaints: list[dict[str, Any]] = []

    async def stay(url: PeerUrl) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        reader, writer = await connect(url)
        writer.write(b"\x08\0entries")
        assert await reader.read(1)
        stay_open.append(writer)

    stay_open: list[asyncio.StreamWriter] = []

    async def main() -> None:
        await serving(index, stay)
        stop, places = asyncio.Event(), asyncio.Queue[PeerUrl]()
        node = NodeService(parties[0].identity, CONFIG, parties[0].store)
        task = asyncio.create_task(node.run([ANY_PORT], [], stop=stop, listening=places.put_nowait))
        await stay(await places.get())
        stop.set()
        await task
        for writer in stay_open:
            writer.close()
        await asyncio.sleep(0)

    run_really(main)
    assert complaints == []


def test_many_at_once(index: IndexStorage) -> None:
    """Connections share the index, and each gets its own answer."""
    items = some_items(2000)
    arrays = [ArrayStorage.of(items[number * 10 :]) for number in range(8)]

    async def use(url: PeerUrl) -> None:
        found = await asyncio.gather(*(called(url, array) for array in arrays))
        for number, differences in enumerate(found):
            assert differences is not None
            assert set(differences.need) == {identity for _, identity in items[: number * 10]}
            assert differences.have == []

    run_really(lambda: serving(index, use))


def test_no_more_than_so_many(index: IndexStorage, caplog: pytest.LogCaptureFixture) -> None:
    """Beyond the limit connections are closed at once; those that are open go on; all end with the node."""

    async def use(url: PeerUrl) -> None:
        first = await connect(url)
        first[1].write(b"\x01\x61")
        assert await first[0].readexactly(1) == b"\x01"
        second = await connect(url)
        with suppress(ConnectionError):
            assert await second[0].read() == b""
        for streams in (first, second):
            streams[1].close()

    run_really(lambda: serving(index, use, max_sessions=1))
    assert ["1 connections are open already (max_sessions is 1)"] == [
        line.__dict__["reason"] for line in caplog.records if "refused a connection" in line.message
    ]


def test_an_address_that_is_taken(index: IndexStorage) -> None:
    """Where somebody else listens, the node says so and ends."""

    async def use(url: PeerUrl) -> None:
        with pytest.raises(ConfigError, match="cannot listen at"):
            await IndexNode(index, QUICK).run([url], stop=asyncio.Event())

    run_really(lambda: serving(index, use))
