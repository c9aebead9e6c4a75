"""Peers of both dialects of Bushbaby, which hang up at a HELLO of the other one: Culm talks with both.

Specification: docs/specs/bushbaby.md, "Dialects".
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import Identity
from culm.bushbaby import Dialect
from culm.bushbaby.handshake import Hello, pack_hello, unpack_hello
from culm.errors import NetworkError
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.node.sessions.session import Purpose
from culm.node.sync import sync
from culm.testing.builders import build_log
from tests.interop.deployed import DeployedPeer
from tests.interop.meeting import REAL, Meeting, give, sync_with
from tests.node.links import HERE, Party, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG = build_log(10, seed=5)
KEY = LOG.identity.public, 0


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[Party]:
    """A person with a store."""
    made = Party(tmp_path, 1)
    yield made
    made.close()


def peer(**kind: Any) -> Meeting:
    """A peer with a log."""
    met = Meeting(DeployedPeer(b"\x20" * 32, b"Quagga", **kind))
    give(met.peer, LOG)
    return met


@pytest.mark.parametrize("is_literal", [False, True])
@pytest.mark.parametrize("waits", [False, True])
def test_a_caller_finds_the_dialect(alice: Party, is_literal: bool, waits: bool) -> None:
    """A listener that speaks first shows its dialect; one that hangs up at the usual one is called once more."""
    ours = build_log(5, seed=6)
    alice.store.add(ours.items())
    met = peer(is_literal=is_literal, waits=waits)
    sync_with(alice, met)
    assert alice.holds()[KEY] == list(range(1, 11))
    assert len(met.peer.store[ours.identity.public, 0]) == 5
    assert len(met.began) == (2 if is_literal and waits else 1)


def test_of_a_peer_that_hangs_up_in_any_dialect_the_user_hears(alice: Party) -> None:
    """A peer of another clump is called once in each dialect, and the error says what may be wrong."""
    met = peer(waits=True)
    met.peer.clump = b"another"
    with pytest.raises(NetworkError, match="clump"):
        sync_with(alice, met)
    assert len(met.began) == 2


def test_a_peer_that_always_speaks_the_other_dialect_is_not_called_for_ever(alice: Party) -> None:
    """One that answers each HELLO by one of the other dialect, and hangs up, is called once more and then given up."""
    calls: list[Dialect] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, heard = unpack_hello((await reader.readexactly(98))[2:], b"Quagga")
        calls.append(heard)
        other = next(dialect for dialect in Dialect if dialect is not heard)
        hello = Hello(Identity(b"\x20" * 32).public, b"\x09" + bytes(31))
        writer.write(b"\x01\x60" + pack_hello(hello, b"Quagga", other))
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, HERE, 0)
        url = PeerUrl("bushbaby", HERE, server.sockets[0].getsockname()[1])
        with pytest.raises(NetworkError, match="another clump or dialect"):
            await sync(alice.identity, REAL, alice.store, url, Purpose(is_live=False))
        server.close()

    run(main)
    assert calls == [Dialect.DEPLOYED, Dialect.DOCUMENT]


def test_a_forced_dialect_is_the_only_one(alice: Party) -> None:
    """With a dialect in the configuration, peers of the other one are called once, and the message names dialects."""
    met = peer(is_literal=True)
    with pytest.raises(NetworkError, match="another clump or dialect"):
        sync_with(alice, met, dialect=Dialect.DEPLOYED)
    assert len(met.began) == 1


def test_a_caller_that_hangs_up_early_is_told_of(alice: Party, caplog: pytest.LogCaptureFixture) -> None:
    """A caller that ends before its AUTH may be of another clump or dialect: the line in the log says so."""
    caplog.set_level(logging.INFO, "culm.node")

    async def main() -> None:
        node = NodeService(alice.identity, REAL, alice.store)
        stop, places = asyncio.Event(), asyncio.Queue[PeerUrl]()
        listen = PeerUrl("bushbaby", HERE, 0)
        running = asyncio.create_task(node.run([listen], [], stop=stop, listening=places.put_nowait))
        url = await places.get()
        _, writer = await asyncio.open_connection(url.host, url.port)
        await asyncio.sleep(2)
        writer.close()
        await asyncio.sleep(2)
        stop.set()
        await running

    run(main)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("ended the session: the peer hung up before the handshake")
    assert "another clump or dialect" in line


@pytest.mark.parametrize("forced", [None, Dialect.DOCUMENT])
def test_a_listener_speaks_with_both(alice: Party, forced: Dialect | None) -> None:
    """Callers of both dialects are served by one listener. If one dialect is forced, the other is no offence."""
    alice.store.add(LOG.items())

    async def main() -> list[Meeting]:
        node = NodeService(alice.identity, replace(REAL, dialect=forced), alice.store)
        stop, places = asyncio.Event(), asyncio.Queue[PeerUrl]()
        listen = PeerUrl("bushbaby", HERE, 0)
        running = asyncio.create_task(node.run([listen], [], stop=stop, listening=places.put_nowait))
        url = await places.get()
        callers = []
        for is_literal in (False, True, False, True):
            callers.append(Meeting(DeployedPeer(b"\x21" * 32, b"Quagga", is_literal=is_literal)))
            await callers[-1].call(url)
        stop.set()
        await running
        return callers

    served = [sorted(met.peer.store.get(KEY, {})) for met in run(main, 300)]
    whole = list(range(1, 11))
    assert served == ([[], whole] * 2 if forced else [whole] * 4)
