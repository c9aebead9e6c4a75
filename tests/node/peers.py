"""Parties that speak a Point-2-Point protocol with each other, for the tests."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from culm.errors import NetworkError
from culm.node.interests.policy import Policy
from culm.node.intervals.session import IntervalSession
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.node.sessions.session import Context, Purpose
from culm.node.sessions.stats import PeerSilent
from culm.node.storage.source import StoreSource
from culm.testing.builders import LogBuilder, build_log
from tests.node.links import CONFIG, QUICK, Party, run, stream_pair
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from culm.node.config import NodeConfig
    from culm.store import SQLiteStore
    from culm.types import Log


class Peer:
    """A party with sessions of a Point-2-Point protocol."""

    kind: Any = IntervalSession
    as_caller: ClassVar[dict[str, Any]] = {}  # what its sessions are told if it opens the connection

    def __init__(self, party: Party) -> None:
        self.party = party
        self.sources: list[StoreSource] = []
        self.sessions: list[Any] = []

    @property
    def store(self) -> SQLiteStore:
        """The party's store."""
        return self.party.store

    def session(
        self,
        streams: Any,
        logs: Iterable[Log] = (),
        *,
        policy: Policy | None = None,
        limits: Any = QUICK,
        grew: Callable[[Log], None] | None = None,
        live: bool = True,
        stateless: bool = False,
        **settings: Any,
    ) -> Any:
        """A session over some streams; its news go to the party's other sessions."""
        config = replace(CONFIG, policy=policy or Policy(), limits=limits, stateless=stateless)
        source = next((source for source in self.sources if source.policy == config.policy), None)
        if source is None:  # sessions of one node share it
            source = StoreSource(self.store, config.policy)
            self.sources.append(source)

        def tell() -> None:
            for session in self.sessions:
                session.store_changed()

        context = Context(None, config, self.party.worker, source, stored=tell, grew=grew or (lambda _: None))
        session = self.kind(context, streams, Purpose(is_live=live, logs=tuple(logs), **settings))
        self.sessions.append(session)
        return session

    async def on_its_thread(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Use the store where the sessions do."""
        return await self.party.worker.run(function, *arguments, **named)

    def numbers(self, log: Log) -> list[int]:
        """The verified entries held with their payloads."""
        return self.party.holds().get(log, [])


def key(log: LogBuilder) -> Log:
    """Author and id."""
    return log.identity.public, log.log_id


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what other tasks bring about."""
    while not condition():
        await asyncio.sleep(0.005)


async def syncs(one: Peer, other: Peer, logs: Iterable[Log], **settings: Any) -> Any:
    """One asks the other for logs, once; ``their_...`` are settings of the other."""
    near, far = await stream_pair()
    their = {name[6:]: settings.pop(name) for name in list(settings) if name.startswith("their_")}
    asking = one.session(near, logs, live=False, mirrors=False, **one.as_caller, **settings)
    answering = other.session(far, **their)
    tasks = [asyncio.create_task(asking.run()), asyncio.create_task(answering.run())]
    done = asyncio.create_task(asking.done.wait())
    await asyncio.wait([*tasks, done], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    finished = asking.done.is_set()
    done.cancel()
    tasks[0].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [result for result in results if isinstance(result, Exception)]
    if not finished:
        raise failures[0] if failures else AssertionError("not done")
    assert [failure for failure in failures if not isinstance(failure, NetworkError)] == []  # who is done hangs up
    return asking


def sync(one: Peer, other: Peer, logs: Iterable[Log], **settings: Any) -> Any:
    """``syncs``, outside of a loop."""
    return run(lambda: syncs(one, other, logs, **settings))


class Rogue:
    """A peer that sends what it likes."""

    def __init__(self, streams: Any) -> None:
        self.reader, self.writer = streams

    def send(self, *parts: bytes) -> None:
        """Send bytes."""
        self.writer.write(b"".join(parts))


def reads_nothing(peers: Sequence[Peer], asks: bytes) -> None:
    """A peer that asks for a large log and reads nothing is dropped; another gets a small log meanwhile.

    ``asks`` is what the third peer sends: a greeting, and a request for the log of ``build_log(1)``, payloads included.
    """
    alice, bob, *_ = peers
    large, small = LogBuilder(build_log(1).identity), build_log(5, seed=3)
    large.append(bytes(8_000_000))
    alice.store.add([*large.items(), *small.items()])

    async def main() -> None:
        near, far = await stream_pair()
        slow = alice.session(near, limits=replace(QUICK, idle_seconds=1.0))
        task = asyncio.create_task(slow.run())
        far[1].write(asks)
        far[1].transport.pause_reading()
        await until(lambda: slow.stats.bytes_sent > 10_000)
        await syncs(bob, alice, [key(small)])
        with pytest.raises(PeerSilent):
            await asyncio.wait_for(task, 10)

    run(main)
    assert [1, 2, 3, 4, 5] == bob.numbers(key(small))


@asynccontextmanager
async def serving(party: Party, config: NodeConfig, *peers: PeerUrl) -> AsyncIterator[tuple[NodeService, PeerUrl]]:
    """A node that listens at culm://, and keeps contact with peers."""
    stop, places = asyncio.Event(), asyncio.Queue[PeerUrl]()
    node = NodeService(party.identity, config, party.store)
    listen = [PeerUrl.parse("culm://127.0.0.1:0", may_be_zero=True)]
    task = asyncio.create_task(node.run(listen, peers, stop=stop, listening=places.put_nowait))
    yield node, await places.get()
    stop.set()
    await task
