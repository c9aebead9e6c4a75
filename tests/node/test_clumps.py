"""A node of one clump serves what came from that clump, by every protocol, although its store holds more.

Specification: docs/specs/bushbaby.md, "Clumps".
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.negentropy.comparison import compare
from culm.node.network.transport import connect
from culm.node.network.urls import LISTENER_SCHEMES, PeerUrl
from culm.node.service import NodeService
from culm.node.sessions.session import Purpose
from culm.node.sync import sync
from culm.ranges import Range, RangeSet
from culm.store import SQLiteStore, View
from culm.testing import build_log
from tests.node.links import CONFIG, run
from tests.node.peers import until
from tests.store.below import age, database_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from culm.bamboo import Identity
    from culm.store import Store
    from tests.node.links import Party

FAMILY, WORK = b"family", b"work"
OF_FAMILY, OF_WORK, OF_BOTH = (build_log(5, seed=seed) for seed in (1, 2, 3))
LOGS = tuple(log.entries[0].log for log in (OF_FAMILY, OF_WORK, OF_BOTH))
OWN = 7
SCHEMES = ("culm", "bushbaby", "intervals", "proposals")


def fill(store: Store) -> None:
    """Logs of two clumps, and one of both."""
    for clump, logs in ((FAMILY, (OF_FAMILY, OF_BOTH)), (WORK, (OF_WORK, OF_BOTH))):
        store.receive_in(clump)
        store.add([item for log in logs for item in log.items()])


@asynccontextmanager
async def serving(
    identity: Identity, store: SQLiteStore, scheme: str, clump: bytes = WORK, policy: Policy | None = None
) -> AsyncIterator[tuple[NodeService, PeerUrl]]:
    """A node of a clump that listens, and its address."""
    stop, places = asyncio.Event(), asyncio.Queue[PeerUrl]()
    node = NodeService(identity, replace(CONFIG, clump=clump, policy=policy or Policy()), store)
    listen = [PeerUrl.parse(f"{scheme}://127.0.0.1:0", schemes=LISTENER_SCHEMES, may_be_zero=True)]
    task = asyncio.create_task(node.run(listen, [], stop=stop, listening=places.put_nowait))
    yield node, await places.get()
    stop.set()
    await task


@pytest.mark.parametrize("clump", [WORK, b""], ids=["work", "nameless"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_a_caller_gets(parties: list[Party], scheme: str, clump: bytes) -> None:
    """The caller gets the listener's own log and those of the listener's clump, whichever logs it asks for."""
    alice, bob, _ = parties
    fill(alice.store)
    own = alice.store.append(alice.identity, OWN, [b"mine"]).log
    named = (*LOGS, own) if scheme in ("intervals", "proposals") else ()

    async def main() -> None:
        async with serving(alice.identity, alice.store, scheme, clump) as (_, url):
            config = replace(CONFIG, clump=clump)
            await sync(bob.identity, config, bob.store, url, Purpose(is_live=False, mirrors=False, logs=named))

    run(main)
    expected = {own: [1]} | ({log: [1, 2, 3, 4, 5] for log in LOGS[1:]} if clump else {})
    assert expected == bob.holds()
    assert {log: {clump} for log in expected} == bob.view.clumps(), "and passes them on in this clump only"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_a_caller_gives(parties: list[Party], scheme: str) -> None:
    """The one who calls serves by the same rule: the listener gets nothing of another clump."""
    alice, bob, _ = parties
    fill(bob.store)
    named = LOGS if scheme in ("intervals", "proposals") else ()

    async def main() -> None:
        policy = Policy(interests=dict.fromkeys(LOGS, EVERYTHING))
        async with serving(alice.identity, alice.store, scheme, policy=policy) as (_, url):
            purpose = Purpose(is_live=False, mirrors=bool(named), logs=named)
            await sync(bob.identity, replace(CONFIG, clump=WORK), bob.store, url, purpose)

    run(main)
    assert LOGS[0] not in alice.holds()
    if scheme != "intervals":  # There the listener asks only for logs of which the caller has asked for something.
        assert set(LOGS[1:]) == alice.holds().keys()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_fork_against_a_log_of_another_clump(parties: list[Party], scheme: str) -> None:
    """Who wants a part of a log, and may not show what it holds of it, compares that part with the peer's itself."""
    alice, bob, _ = parties
    log = build_log(6)
    branch = build_log(3)
    branch.append(b"another")
    name = log.entries[0].log
    alice.store.receive_in(WORK)
    alice.store.add(log.items())
    bob.store.receive_in(FAMILY)
    bob.store.add(branch.items())

    async def main() -> None:
        async with serving(alice.identity, alice.store, scheme) as (_, url):
            policy = Policy(interests={name: RangeSet([Range(3, 3)])})
            config = replace(CONFIG, clump=WORK, policy=policy)
            purpose = Purpose(is_live=False, mirrors=False, logs=(name,))
            await sync(bob.identity, config, bob.store, url, purpose)

    run(main)
    assert [4] == [proof.position for proof in bob.view.fork_proofs(name)]


@pytest.mark.parametrize("view", list(View))
def test_comparing_sets(parties: list[Party], view: View) -> None:
    """By negentropy the listener compares the entries, payloads or heads of its clump's logs."""
    alice, bob, _ = parties
    fill(alice.store)
    bob.store.add([*OF_WORK.items(), *OF_BOTH.items()])

    async def main() -> None:
        async with serving(alice.identity, alice.store, "negentropy") as (_, url):
            streams = await connect(url)
            with closing(streams[1]):
                found = await compare(bob.view, view, streams)
            assert found is not None
            assert ([], []) == (found.have, found.need)

    run(main)


@pytest.mark.parametrize("scheme", ["culm", "bushbaby"])
def test_sharing_while_a_session_is_open(parties: list[Party], scheme: str) -> None:
    """A log that is shared for the clump while a peer is connected is announced to it, and goes there."""
    alice, bob, _ = parties
    fill(alice.store)

    async def main() -> None:
        async with (
            serving(alice.identity, alice.store, scheme) as (node, url),
            serving(bob.identity, bob.store, scheme) as (calling, _),
        ):
            calling.contact(url)
            await until(lambda: LOGS[1] in bob.holds())
            assert LOGS[0] not in bob.holds()
            await node.worker.run(alice.store.share, LOGS[0], WORK)
            for session in node.sessions:
                session.store_changed()
            await until(lambda: len(bob.holds().get(LOGS[0], ())) == 5)

    run(main)


def test_logs_of_an_earlier_version(parties: list[Party], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An upgraded node serves the logs that it held in every clump, and says at its start how many they are."""
    bob, identity = parties[1], parties[2].identity
    with SQLiteStore(tmp_path / "old.db") as store:
        store.add(OF_FAMILY.items())
        own = store.append(identity, OWN, [b"mine"]).log
        with database_of(store).transaction() as connection:
            age(connection, 6)

    async def main() -> None:
        with SQLiteStore(tmp_path / "old.db") as store:
            async with serving(identity, store, "bushbaby", WORK) as (_, url):
                await sync(bob.identity, replace(CONFIG, clump=WORK), bob.store, url)

    with caplog.at_level(logging.WARNING, "culm.node"):
        run(main)
    assert {LOGS[0], own} == bob.holds().keys()
    (line,) = [record for record in caplog.records if str(record.msg).startswith("logs are served in every clump")]
    assert 1 == line.__dict__["count"]


@pytest.mark.parametrize(("clump", "told"), [(b"", 3), (WORK, 0)], ids=["nameless", "work"])
def test_a_node_without_a_clump_says_what_it_does_not_serve(
    parties: list[Party], caplog: pytest.LogCaptureFixture, clump: bytes, told: int
) -> None:
    """It says how many logs are shared in clumps only. A node of one clump does not: that is as it should be."""
    alice, _, _ = parties
    fill(alice.store)

    async def main() -> None:
        async with serving(alice.identity, alice.store, "intervals", clump):
            pass

    with caplog.at_level(logging.WARNING, "culm.node"):
        run(main)
    lines = [line for line in caplog.records if line.getMessage().startswith("logs are not served")]
    assert [told] * bool(told) == [vars(line)["count"] for line in lines]
