"""A peer that sends wrong bytes for a payload: it is not asked for them again, and the rest of the log goes on.

Older Culm nodes do so when their disk is damaged; others may do so on purpose.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from culm.node.storage.source import StoreSource
from culm.store import SQLiteStore
from tests.node.links import run
from tests.node.peers import key, until
from tests.node.storage.test_healing import (
    DAMAGED_AT,
    LARGE,
    MIB,
    SCHEMES,
    all_stats,
    config_for,
    held,
    log_with,
    node_of,
    numbers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.store import Sendable
    from culm.transfer import Kept
    from tests.node.links import Party

pytestmark = pytest.mark.slow

OTHERS = [seq for seq in range(1, 13) if seq != DAMAGED_AT]


def changed(data: bytes) -> bytes:
    """The same with one bit flipped."""
    return bytes([data[0] ^ 4]) + data[1:]


@pytest.fixture
def nobody_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes send the payload of entry 7 as a damaged disk gives it."""
    payload, page, sendables, rest = (
        StoreSource.payload,
        StoreSource.page,
        SQLiteStore.sendables,
        SQLiteStore.payload_rest,
    )

    def wrong_payload(self: StoreSource, kept: Kept, offset: int, size: int) -> bytes:
        data = bytes(payload(self, kept, offset, size))
        return changed(data) if kept.entry.seq == DAMAGED_AT and data else data

    def wrong_page(self: StoreSource, *arguments: Any, **named: Any) -> list[Kept]:
        return [
            kept._replace(small=None) if kept.entry.seq == DAMAGED_AT else kept
            for kept in page(self, *arguments, **named)
        ]

    def wrong_sendables(self: SQLiteStore, *arguments: Any) -> list[Sendable]:
        found = sendables(self, *arguments)
        for sendable in found:
            if sendable.seq == DAMAGED_AT and sendable.start:
                object.__setattr__(sendable, "start", changed(sendable.start))
        return found

    def wrong_rest(self: SQLiteStore, sendable: Sendable) -> Iterator[bytes]:
        for number, piece in enumerate(rest(self, sendable)):
            yield piece if number else changed(piece)

    monkeypatch.setattr(StoreSource, "payload", wrong_payload)
    monkeypatch.setattr(StoreSource, "page", wrong_page)
    monkeypatch.setattr(SQLiteStore, "sendables", wrong_sendables)
    monkeypatch.setattr(SQLiteStore, "payload_rest", wrong_rest)


@pytest.mark.usefixtures("nobody_compares")
@pytest.mark.parametrize("payload", [b"small", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_wrong_bytes(parties: list[Party], scheme: str, payload: bytes) -> None:
    """The peer is asked once for a payload that it sends wrong; everything else comes, entries to come included."""
    liar, asking, _ = parties
    log = log_with(payload)
    liar.store.add(log.items(log.entries[:10]))
    config = config_for(log)

    async def main() -> None:
        async with (
            node_of(liar, config, scheme=scheme) as server,
            node_of(asking, config, server.url) as client,
        ):
            await until(lambda: len(numbers(asking, key(log))) == 9)
            sessions = list(client.service.sessions)
            await asyncio.sleep(20)
            await liar.worker.run(liar.store.add, log.items(log.entries[10:]))
            await until(lambda: numbers(asking, key(log)) == OTHERS)
            assert sessions == list(client.service.sessions)
            assert 1 == all_stats(client).offences
            assert all_stats(client).payload_bytes < 300 + len(payload)

    run(main)
    assert held(asking, log) is None


@pytest.mark.parametrize("scheme", ["culm", "intervals", "proposals"])
def test_pieces_of_several_peers(parties: list[Party], scheme: str) -> None:
    """A payload goes on behind a wrong beginning: all of it is dropped, nobody is blamed, and it comes whole."""
    one, other, asking = parties
    log = log_with(LARGE)
    for party in (one, other):
        party.store.add(log.items())
    asking.store.add([(entry, None) for entry in log.entries[:DAMAGED_AT]])
    begun = asking.store.payload_sink(log.entries[DAMAGED_AT - 1].place, trusted=True)
    begun.write(bytes(MIB))
    begun.close()
    config = config_for(log)

    async def main() -> None:
        async with (
            node_of(one, config, scheme=scheme) as first,
            node_of(other, config, scheme=scheme) as second,
            node_of(asking, config, first.url, second.url) as client,
        ):
            await until(lambda: len(numbers(asking, key(log))) == 12)
            assert 0 == all_stats(client).offences
            assert 2 == len(client.service.sessions)
            assert all_stats(client).payload_bytes < 4 * len(LARGE)

    run(main)
    assert LARGE == held(asking, log)
