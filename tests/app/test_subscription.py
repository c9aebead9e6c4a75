"""``Node.subscribe``: entries that are held, then those that come, for one reader and for many."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from culm import Entry, Node, Store
from culm.errors import ConfigError, StoreError
from culm.testing import build_log
from tests.app.nodes import opened, two
from tests.node.links import run_really
from tests.node.peers import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from culm.testing import World


LOG = build_log(20)
KEY = LOG.identity.public


def test_subscribing_to_what_is_held(tmp_path: Path) -> None:
    """From the beginning: everything held, then what comes, each entry once and in order, over many pages."""
    log = build_log(700)
    with Store(tmp_path / "1.db") as store:
        store.add(log.items(log.entries[:600]))

    async def main() -> None:
        async with opened(tmp_path) as node:
            news = node.subscribe(since="0")
            seen = [(await anext(news)).seq for _ in range(600)]
            with Store(tmp_path / "1.db") as store:  # as another program would
                store.add(log.items(log.entries[600:]))
            seen += [(await anext(news)).seq for _ in range(100)]
            assert list(range(1, 701)) == seen

    run_really(main)


def test_cursors(tmp_path: Path) -> None:
    """From the cursor of any entry a later node goes on with the next one, and one of another store is refused."""
    cursors: list[str] = []

    async def main() -> None:
        async with opened(tmp_path) as node:
            news = node.subscribe(1, since="0")
            assert news.cursor is None
            for number in range(5):
                await node.append(1, f"{number}")
                await node.append(2, "of another log")
            for _ in range(5):
                await anext(news)
                cursors.append(str(news.cursor))

    async def again() -> None:
        async with opened(tmp_path) as node:
            for number, cursor in enumerate(cursors[:4], 2):
                assert number == (await anext(node.subscribe(1, since=cursor))).seq
            news = node.subscribe(1, since=cursors[4])
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(news), 0.05)
            await node.append(1, "6")
            assert 6 == (await anext(news)).seq
        async with opened(tmp_path, 2) as other:
            with pytest.raises(StoreError, match="another store"):
                await anext(other.subscribe(since=cursors[4]))

    run_really(main)
    run_really(again)


def test_from_now_on(tmp_path: Path) -> None:
    """Without a cursor only what comes after the call is given, and all of that."""

    async def main() -> None:
        async with opened(tmp_path) as node:
            await node.append(1, "before")
            news = node.subscribe()
            await node.append(1, "after")
            assert 2 == (await anext(news)).seq

    run_really(main)


@pytest.mark.slow
def test_a_slow_consumer_and_many(tmp_path: Path) -> None:
    """Two consumers, a slow one and one that gives up waiting now and then, get everything once; memory has a page."""

    async def take(node: Node, *, impatient: bool) -> list[int]:
        news, seen = node.subscribe(1, since="0"), list[int]()
        while len(seen) < 300:
            try:
                seen.append((await asyncio.wait_for(anext(news), 0.001 if impatient else 20)).seq)
            except TimeoutError:
                continue
            assert len(news._page) <= 256
            if not impatient:
                await asyncio.sleep(0)
        return seen

    async def main() -> None:
        async with opened(tmp_path) as node:
            consumers = [asyncio.create_task(take(node, impatient=impatient)) for impatient in (False, True)]
            await node._engine.worker.run(_fill, node)
            assert [list(range(1, 301))] * 2 == await asyncio.gather(*consumers)

    run_really(main)


def _fill(node: Node) -> None:
    for number in range(300):
        node._engine.worker.store.append(node.identity, 1, [b"%d" % number])


def test_the_end_of_a_subscription(tmp_path: Path) -> None:
    """Who waits for news when the node closes gets no more of them, and no error; so it is when only it is closed."""

    async def collect(node: Node, since: str | None) -> list[int]:
        return [entry.seq async for entry in node.subscribe(since=since)]

    async def main() -> None:
        async with opened(tmp_path) as node:
            await node.append(1, "one")
            waiting = [asyncio.create_task(collect(node, "0")), asyncio.create_task(collect(node, None))]
            await until(lambda: len(node._subscriptions) == 2)
            news = node.subscribe()
            task = asyncio.create_task(anext(news, None))
            await asyncio.sleep(0)
            news.close()
            assert await task is None
            later = node.subscribe()
        first, second = await asyncio.gather(*waiting)
        assert set(first) <= {1}
        assert [] == second
        assert await anext(later, None) is None

    run_really(main)


def test_a_subscription_that_begins_while_the_node_closes(tmp_path: Path) -> None:
    """It ends without an error, also if it comes to reading between the call of ``close`` and the end of the node."""

    async def main() -> None:
        async with opened(tmp_path) as node:
            await node.append(1, "one")
            news = node.subscribe(since="0")
            closing = asyncio.create_task(node.close())
            assert await asyncio.create_task(anext(news, None)) is None
            await closing

    run_really(main)


async def response(source: AsyncIterator[object], pause: float) -> list[int]:
    """What a web framework makes of a streamed response: the number of each entry, or 0."""

    async def body() -> AsyncIterator[int]:
        async for item in source:
            yield item.seq if isinstance(item, Entry) else 0
            await asyncio.sleep(pause)

    return [number async for number in body()]


async def append(node: Node) -> None:
    """Append until the node closes."""
    with suppress(ConfigError, StoreError):
        while True:
            await node.append(1, "news")


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["close", "end_subscriptions"])
async def test_streams_of_a_web_framework(culm_world: World, ending: str) -> None:
    """Responses that stream news end when the node closes, and before if it is told so, wherever each of them waits."""
    node = await culm_world.node()

    appending = asyncio.create_task(append(node))
    await asyncio.sleep(0)
    sources = [(node.subscribe(since="0"), pause) for pause in (0, 0, 0, 0.1, 0.1, 5)]
    others: list[AsyncIterator[object]] = [node.changes(), node.peer_events()]
    sending = [asyncio.create_task(response(*source)) for source in [*sources, *((other, 0) for other in others)]]
    while (await node.entry(1, 20)) is None:
        await asyncio.sleep(0.001)
    if ending == "close":
        await asyncio.gather(node.close(), node.close())
    else:
        node.end_subscriptions()
    async with asyncio.timeout(10):
        *sent, changes, events = await asyncio.gather(*sending)
    for numbers in sent:
        assert numbers == list(range(1, len(numbers) + 1))
    assert max(map(len, sent)) > 5
    assert changes
    assert not events
    if ending == "end_subscriptions":
        assert (await anext(node.subscribe(since="0"))).seq == 1
    await node.close()
    await appending


async def test_a_close_that_is_cancelled(culm_world: World) -> None:
    """If the caller of close is cancelled, the node is closed all the same, and another call waits for that."""
    node = await culm_world.node()
    await node.append(1, "one")
    path, closing = node.store_path, asyncio.create_task(node.close())
    await asyncio.sleep(0)
    closing.cancel()
    await node.close()
    assert closing.cancelled()
    with Store(path) as store:
        assert 1 == len(list(store.logs()))


def test_a_subscription_that_nobody_reads(tmp_path: Path) -> None:
    """A subscription that was left in the middle costs nothing any more."""

    async def main() -> None:
        async with opened(tmp_path) as node:
            await node.append(1, "one")
            async for _ in node.subscribe(since="0"):
                break
            gc.collect()
            assert [] == list(node._subscriptions)

    run_really(main)


@pytest.mark.slow
def test_news_while_they_come_from_a_peer(tmp_path: Path) -> None:
    """While hundreds of entries come from a peer, a consumer gets each once, in order, with its payload."""
    log = build_log(500)
    with Store(tmp_path / "1.db") as store:
        store.add(log.items())

    async def main() -> None:
        async with two(tmp_path) as (_, other, url):
            news = other.subscribe(KEY, with_payload=True)
            syncing = asyncio.create_task(other.sync(url))
            for entry in log.entries:
                assert entry == await anext(news)
                assert log.payloads[entry.hash] == await other.payload(entry)
            await syncing

    run_really(main)
