"""Inlets give what a peer sent, whole and in order, and leave alone what somebody still looks at."""

from __future__ import annotations

import asyncio
import random
import socket
import tracemalloc
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING

import pytest

from culm.node.sessions.inlet import Inlet, connected, receiving, take
from tests.quick import rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from culm.types import Buffer

LIMIT = 1024


def on_a_loop(test: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    """A test that runs on an event loop of its own."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class Transport(asyncio.Transport):
    """Notes whether reading is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused = False

    def pause_reading(self) -> None:
        """Take no more."""
        self.is_paused = True

    def resume_reading(self) -> None:
        """Take what comes."""
        self.is_paused = False


def inlet() -> tuple[Inlet, Transport]:
    """An inlet whose socket is a ``Transport``."""
    made, transport = Inlet(LIMIT, asyncio.get_running_loop()), Transport()
    made.set_transport(transport)
    return made, transport


def send(reader: Inlet, data: bytes) -> int:
    """As much of some bytes as there is room for, as a socket hands them over; how many."""
    room = reader.room()
    size = min(len(room), len(data))
    assert size > 0
    room[:size] = data[:size]
    room.release()
    reader.came(size)
    return size


async def direct() -> tuple[Inlet, Transport]:
    """An inlet of which bytes were taken already."""
    reader, transport = inlet()
    send(reader, b"first")
    assert b"first" == await take(reader, 99)
    return reader, transport


@on_a_loop
async def test_any_bytes_in_any_pieces() -> None:
    """Whatever sizes come and are taken, the bytes are those that were sent."""
    rng = random.Random(7)
    for _ in rounds(300):
        reader, transport = inlet()
        sent, found = bytearray(), bytearray()
        for _ in range(rng.randrange(40)):
            if rng.random() < 0.6 and not transport.is_paused:
                data = rng.randbytes(rng.choice((1, 3, 300, 5_000, 70_000)))
                sent += data[: send(reader, data)]
            elif len(sent) > len(found):
                found += await take(reader, rng.choice((2, 100, 1_000_000)))
        reader.feed_eof()
        while data_left := await take(reader, 1_000_000):
            found += data_left
        assert sent == found
        assert not transport.is_paused


@on_a_loop
async def test_a_handshake_comes_first() -> None:
    """Before bytes are taken, lines and exact numbers of bytes can be read; what came behind them is not lost."""
    reader, _ = inlet()
    send(reader, b"GET\r\n12345rest")
    assert b"GET\r\n" == await reader.readline()
    assert b"12345" == await reader.readexactly(5)
    assert b"re" == await take(reader, 2)
    send(reader, b"more")
    assert b"stmo" == await take(reader, 4)
    assert b"re" == await take(reader, 99)
    send(reader, b"in place")
    assert b"in place" == bytes(await take(reader, 99))


@on_a_loop
async def test_what_is_taken_stays_until_the_next_time() -> None:
    """Bytes that come while others are dealt with do not touch these."""
    reader, _ = await direct()
    send(reader, b"one")
    one = await take(reader, 99)
    send(reader, b"two")
    assert b"one" == one
    two = await take(reader, 99)
    send(reader, b"three")
    assert b"two" == two


@on_a_loop
async def test_a_view_that_is_kept() -> None:
    """A part that somebody keeps beyond the next call is never written over."""
    reader, _ = await direct()
    kept: list[Buffer] = []
    for number in range(10):
        send(reader, b"number %d" % number)
        taken = await take(reader, 99)
        kept.append(taken[7:])
    assert [b"%d" % number for number in range(10)] == kept


@on_a_loop
async def test_a_full_buffer() -> None:
    """A peer that sends faster than its bytes are taken has to wait; what TLS hands on meanwhile has room, too."""
    reader, transport = await direct()
    data, sent = random.Random(1).randbytes(1_200_000), 0
    for size in (16 * 1024, 1024 * 1024):  # The buffer is a small one as long as the peer has said little.
        sent = 0
        while not transport.is_paused:
            sent += send(reader, data[sent:])
        assert sent == size
        if size < 1024 * 1024:
            assert data[:sent] == await take(reader, 99)
    while sent < len(data):
        sent += send(reader, data[sent:])
    assert data == await take(reader, 99)
    assert not transport.is_paused
    send(reader, b"few")
    assert b"few" == await take(reader, 99)


@on_a_loop
async def test_peers_that_say_little() -> None:
    """A thousand connections that have said something, and now say nothing, take little memory together."""
    tracemalloc.start()
    try:
        readers = [(await direct())[0] for _ in range(1000)]
        for reader in readers:
            send(reader, b"hello")
            assert b"hello" == await take(reader, 99)
        busy, _ = tracemalloc.get_traced_memory()  # While what they said is dealt with.
        waiting = [asyncio.ensure_future(take(reader, 99)) for reader in readers]
        await asyncio.sleep(0)
        now, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert busy < 32_000_000
    assert now < 16_000_000
    for reader in readers:
        reader.feed_eof()
    assert {b""} == set(await asyncio.gather(*waiting))


@on_a_loop
async def test_the_end_and_a_failure() -> None:
    """Bytes before the end are given first, and then none, again and again; or, if the connection broke, an error."""
    reader, _ = await direct()
    send(reader, b"last")
    reader.feed_eof()
    assert [b"last", b"", b""] == [bytes(await take(reader, 99)) for _ in range(3)]

    reader, _ = await direct()
    waiting = asyncio.ensure_future(take(reader, 99))
    await asyncio.sleep(0)
    send(reader, b"last")
    reader.set_exception(ConnectionResetError("gone"))
    assert b"last" == bytes(await waiting)
    with pytest.raises(ConnectionResetError, match="gone"):
        await take(reader, 99)


@on_a_loop
async def test_over_a_socket() -> None:
    """Both sides of a connection send more than buffers hold, and each has what the other sent."""
    ours, theirs = bytes(range(256)) * 10_000, bytes(range(255, -1, -1)) * 9_000

    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> bytes:
        writer.write(data)
        writer.write_eof()
        found = bytearray()
        while some := await take(reader, 65_536):
            found += some
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        return bytes(found)

    answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers.put_nowait(await exchange(reader, writer, theirs))

    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: receiving(LIMIT, accept), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert theirs == await exchange(*await connected("127.0.0.1", port, LIMIT), ours)
        assert ours == await answers.get()


@on_a_loop
async def test_a_reader_that_nobody_has() -> None:
    """What still comes for an inlet that is gone is dropped."""
    one, other = socket.socketpair()
    protocol = receiving(LIMIT)  # Nobody but the protocol has the inlet, and it does not keep it.
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: protocol, sock=one)
    with other:
        room = protocol.get_buffer(-1)
        room[:4] = b"lost"
        protocol.buffer_updated(4)
    transport.close()


@on_a_loop
async def test_other_readers() -> None:
    """A reader that is no inlet is read from as usual."""
    reader = asyncio.StreamReader()
    reader.feed_data(b"abc")
    reader.feed_eof()
    assert [b"ab", b"c", b""] == [await take(reader, 2) for _ in range(3)]


@on_a_loop
async def test_a_writer_that_keeps_its_room() -> None:
    """Whoever writes may still hold the room it had when it asks for more."""
    reader, _ = await direct()
    rooms = []
    for _ in range(9):
        room = reader.room()
        rooms.append(room)
        room[:] = bytes([len(rooms)]) * len(room)
        reader.came(len(room))
    assert b"".join(bytes([number]) * len(room) for number, room in enumerate(rooms, 1)) == await take(reader, 99)
