"""One-time exchanges with peers whose answers are written by hand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from culm.app.syncing import read_pieces
from culm.errors import NotHeld
from culm.node.network.urls import PeerUrl
from culm.testing import LogBuilder, build_log
from tests.node.links import CONFIG, HERE, Party, run

if TYPE_CHECKING:
    from pathlib import Path

PAYLOAD = bytes(range(100, 120))
CREDIT = b"\xb0\x01"  # for one request


def bytes_from(folder: Path, answer: bytes, wait: float = 0.0) -> bytes:
    """The bytes 5 to 9 of a payload from a peer that starts after ``wait`` seconds and gives this answer."""
    party, log = Party(folder, 1), LogBuilder(build_log(0).identity)
    entry = log.append(PAYLOAD)
    party.store.add([(entry, None)])

    talking: list[asyncio.Task[None] | None] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talking.append(asyncio.current_task())
        await asyncio.sleep(wait)
        writer.write(CREDIT)
        await reader.read(1)
        writer.write(answer)
        while await reader.read(1000):
            pass
        writer.close()

    async def main() -> bytes:
        server = await asyncio.start_server(talk, HERE, 0)
        url = PeerUrl("intervals", HERE, server.sockets[0].getsockname()[1])
        try:
            pieces = read_pieces(party.identity, CONFIG, party.store, url, entry, 5, 9)
            return b"".join([piece async for piece in pieces])
        finally:
            server.close()
            await asyncio.gather(*filter(None, talking))

    try:
        return run(main)
    finally:
        party.close()


def test_a_peer_that_takes_long_to_start_is_waited_for(tmp_path: Path) -> None:
    """Behind a pipe a program may start for longer than a peer without the bytes is silent."""
    wait = 1.5 * CONFIG.limits.settle_seconds
    assert PAYLOAD[5:10] == bytes_from(tmp_path, b"\x80\x05" + PAYLOAD[5:10], wait)


@pytest.mark.parametrize("answer", ["", "ae", "8002" + PAYLOAD[5:7].hex() + "ae"])
def test_of_bytes_that_a_peer_does_not_have_the_user_hears(tmp_path: Path, answer: str) -> None:
    """A peer without the bytes is silent, or it ends its answer, which is not the end of the connection."""
    with pytest.raises(NotHeld, match="the peer does not have these bytes"):
        bytes_from(tmp_path, bytes.fromhex(answer))
