"""A payload is damaged on the disk of a node: no peer gets it, and the node gets it again.

Specification: docs/operation.md, "When the disk damages a payload".
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from culm.errors import PayloadDamaged
from culm.node.interests.policy import Policy
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.node.sessions.session import Purpose
from culm.node.sessions.stats import SessionStats
from culm.node.sync import sync
from culm.ranges import Range, RangeSet
from culm.store import SQLiteStore
from culm.testing.builders import LogBuilder, build_log
from tests.node.links import CONFIG, run
from tests.node.peers import key, until
from tests.store.below import database_of
from tests.store.damage import flip

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from culm.node.config import NodeConfig
    from culm.types import Log
    from tests.node.links import Party

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
LARGE = random.Random(5).randbytes(MIB + 200_000)  # a file of its own, and no longer than that takes
SCHEMES = ["bushbaby", "culm", "intervals", "proposals"]
DAMAGED_AT = 7
SECONDS = 1 / 86_400  # of a day


def log_with(payload: bytes) -> LogBuilder:
    """A log of 12 entries; entry 7 has the payload."""
    log = LogBuilder(build_log(1, seed=9).identity, 1)
    for number in range(1, 13):
        log.append(payload if number == DAMAGED_AT else b"payload %d" % number)
    return log


def config_for(log: LogBuilder, scrub_days: float = 0.0) -> NodeConfig:
    """A node that follows a log."""
    policy = Policy(interests={key(log): RangeSet([Range(1)])})
    return replace(CONFIG, policy=policy, interval=1.0, scrub_days=scrub_days)


class Node:
    """A node that runs."""

    def __init__(self, service: NodeService, url: PeerUrl) -> None:
        self.service, self.url = service, url


@asynccontextmanager
async def node_of(party: Party, config: NodeConfig, *peers: PeerUrl, scheme: str = "culm") -> AsyncIterator[Node]:
    """A node that runs, and listens."""
    stop = asyncio.Event()
    places: asyncio.Queue[PeerUrl] = asyncio.Queue()
    node = NodeService(party.identity, config, party.store)
    listen = PeerUrl.parse(f"{scheme}://127.0.0.1:0", may_be_zero=True)
    task = asyncio.create_task(node.run([listen], peers, stop=stop, listening=places.put_nowait))
    yield Node(node, await places.get())
    stop.set()
    await task


def numbers(party: Party, log: Log) -> list[int]:
    """The entries that a party holds with their payloads."""
    return party.holds().get(log, [])


OTHERS = [seq for seq in range(1, 13) if seq != DAMAGED_AT]
"""What a peer gets of a log while its entry 7 has no payload."""


def held(party: Party, log: LogBuilder) -> bytes | None:
    """The bytes of the payload as a party holds it; None if it does not."""
    stored = party.view.get(log.entries[DAMAGED_AT - 1].place)
    assert stored is not None
    return b"".join(party.view.payload(stored)) if stored.payload_complete else None


def all_stats(node: Node) -> SessionStats:
    """What went through all sessions of a node."""
    total = SessionStats()
    for stats in (*node.service.roster.past.values(), *(session.stats for session in node.service.sessions)):
        total.add(stats)
    return total


def damage_lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The lines of the log about damaged payloads."""
    return [record for record in caplog.records if record.getMessage().startswith("a payload is damaged")]


@pytest.mark.parametrize("payload", [b"small", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_serving_a_damaged_payload(
    parties: list[Party], caplog: pytest.LogCaptureFixture, scheme: str, payload: bytes
) -> None:
    """A peer that asks a node for it gets all other entries, is not lied to, and gets few bytes of it in vain.

    The node writes one line about it, and gives it to the peer once it has got it from somebody else.
    """
    owner, broken, asking = parties
    log = log_with(payload)
    owner.store.add(log.items())
    broken.store.add(log.items())
    flip(broken.store.path, DAMAGED_AT, len(payload) - 1)
    config = config_for(log)

    async def main() -> None:
        async with (
            node_of(broken, config, scheme=scheme) as server,
            node_of(asking, config, server.url) as client,
        ):
            await until(lambda: set(numbers(asking, key(log))) >= set(OTHERS))
            assert OTHERS == numbers(asking, key(log))
            await until(lambda: len(numbers(broken, key(log))) == 11)
            assert 0 == all_stats(client).offences
            assert all_stats(client).payload_bytes < 200 + 2 * len(payload)
            async with node_of(owner, config, server.url):
                await until(lambda: len(numbers(asking, key(log))) == 12)

    run(main)
    assert 1 == len(damage_lines(caplog))
    assert payload == held(asking, log)


@pytest.mark.parametrize("payload", [b"small", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_getting_it_again(parties: list[Party], caplog: pytest.LogCaptureFixture, scheme: str, payload: bytes) -> None:
    """A node that finds damage while it is connected asks the peer again, in the same session, and is told once."""
    owner, broken, _ = parties
    log = log_with(payload)
    owner.store.add(log.items())
    config = config_for(log)

    async def main() -> None:
        async with (
            node_of(owner, config, scheme=scheme) as server,
            node_of(broken, config, server.url) as client,
        ):
            await until(lambda: len(numbers(broken, key(log))) == 12)
            sessions = list(client.service.sessions)
            flip(broken.store.path, DAMAGED_AT)
            with pytest.raises(PayloadDamaged) as caught:
                held(broken, log)
            await client.service.healing.drop(caught.value)
            await client.service.healing.drop(caught.value)
            await until(lambda: len(numbers(broken, key(log))) == 12)
            assert sessions == list(client.service.sessions)

    run(main)
    assert payload == held(broken, log)
    assert 1 == len(damage_lines(caplog))


def test_found_by_another_process(parties: list[Party], caplog: pytest.LogCaptureFixture) -> None:
    """What a command finds while the node runs, the node notices, and gets again."""
    owner, broken, _ = parties
    log = log_with(LARGE)
    owner.store.add(log.items())
    config = config_for(log)

    async def main() -> None:
        async with node_of(owner, config) as server, node_of(broken, config, server.url):
            await until(lambda: len(numbers(broken, key(log))) == 12)
            await asyncio.sleep(1)  # What is missing when a node starts is asked for without a line.
            flip(broken.store.path, DAMAGED_AT)
            with pytest.raises(PayloadDamaged) as caught:
                held(broken, log)
            with SQLiteStore(broken.store.path) as command:
                assert command.drop_damaged(caught.value)
            await until(lambda: len(numbers(broken, key(log))) == 12)

    run(main)
    assert 1 == len(damage_lines(caplog))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sync_mends_both_sides(parties: list[Party], scheme: str) -> None:
    """A one-time sync with a peer whose payload is damaged ends well, and the peer gets the payload in it."""
    owner, broken, asking = parties
    log = log_with(LARGE)
    owner.store.add(log.items())
    asking.store.add(log.items(log.entries[:3]))
    broken.store.add(log.items())
    flip(broken.store.path, DAMAGED_AT, MIB)
    config = config_for(log)

    async def main() -> None:
        purpose = Purpose(is_live=False, mirrors=True, logs=(key(log),))
        async with node_of(asking, config, scheme=scheme) as server:
            await sync(broken.identity, config, broken.store, server.url, purpose)
        async with node_of(owner, config, scheme=scheme) as server:
            await sync(broken.identity, config, broken.store, server.url, purpose)

    run(main)
    assert LARGE == held(broken, log)
    assert [1, 2, 3, 4, 5, 6] == [seq for seq in numbers(asking, key(log)) if seq <= DAMAGED_AT]


def test_the_scrub(parties: list[Party], caplog: pytest.LogCaptureFixture) -> None:
    """With ``scrub_days`` a node finds damage that nobody reads, within so many days, again and again."""
    owner = parties[0]
    log = log_with(LARGE)
    owner.store.add(log.items())
    config = config_for(log, scrub_days=10 * SECONDS)

    async def main() -> None:
        async with node_of(owner, config):
            await asyncio.sleep(15)
            assert [] == owner.view.damaged_payloads()
            flip(owner.store.path, DAMAGED_AT)
            flip(owner.store.path, 2)
            await asyncio.sleep(12)
            assert [2, DAMAGED_AT] == [stored.entry.seq for stored in owner.view.damaged_payloads()]

    run(main)
    assert 2 == len(damage_lines(caplog))


def test_no_scrub_by_default(parties: list[Party]) -> None:
    """Without the setting nobody reads what nobody asks for."""
    owner = parties[0]
    log = log_with(LARGE)
    owner.store.add(log.items())
    flip(owner.store.path, DAMAGED_AT)

    async def main() -> None:
        async with node_of(owner, config_for(log)):
            await asyncio.sleep(50)

    run(main)
    assert [] == owner.view.damaged_payloads()


def test_a_scrub_goes_on(parties: list[Party]) -> None:
    """A node that is stopped every few hours still reads all payloads within the time."""
    owner = parties[0]
    log = LogBuilder(build_log(1, seed=9).identity, 1)
    for number in range(300):
        log.append(b"payload %d" % number)
    owner.store.add(log.items())
    flip(owner.store.path, 299)

    async def main() -> None:
        async with node_of(owner, config_for(log, scrub_days=100 * SECONDS)):
            await asyncio.sleep(25)

    for _ in range(2):
        run(main)
        assert [] == owner.view.damaged_payloads()
    run(main)
    assert [299] == [stored.entry.seq for stored in owner.view.damaged_payloads()]


def test_an_older_store(parties: list[Party], caplog: pytest.LogCaptureFixture) -> None:
    """A node reads large payloads without checksums at its start: these get theirs, and damage is found."""
    owner, other, _ = parties
    log = log_with(LARGE)
    for party in (owner, other):
        party.store.add(log.items())
        database_of(party.store).connection.execute("UPDATE payload_files SET sums = NULL")
    flip(other.store.path, DAMAGED_AT)

    async def main(party: Party, lines: int) -> None:
        async with node_of(party, config_for(log)):
            await until(lambda: not party.view.payloads_to_check(0, 1, without_sums=True))
            await until(lambda: len(damage_lines(caplog)) == lines)

    run(lambda: main(owner, 0))
    run(lambda: main(other, 1))
    assert [DAMAGED_AT] == [stored.entry.seq for stored in other.view.damaged_payloads()]
