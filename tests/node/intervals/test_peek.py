"""A part of a payload: the bytes of the request, of its answers, and of its end.

Specification: docs/specs/intervals.md, "Immediate payloads".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from culm import Store
from culm.intervals import Connection
from culm.node.interests.policy import Policy
from culm.node.intervals.peek import Peek
from culm.node.storage.source import StoreSource
from culm.testing import LogBuilder, build_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAYLOAD = bytes(range(100, 120))


@pytest.fixture
def log() -> LogBuilder:
    """A log of one entry with a payload of 20 bytes."""
    builder = LogBuilder(build_log(0).identity)
    builder.append(PAYLOAD)
    return builder


@pytest.fixture
def connection(tmp_path: Path, log: LogBuilder) -> Iterator[Connection]:
    """A connection over a store that has the entry without its payload; the peer has granted it one request."""
    with Store(tmp_path / "store.db") as store:
        store.add([(log.entries[0], None)])
        source = StoreSource(store, Policy())
        connection = Connection(source)
        assert list(connection.receive_data(b"\xb0\x01", 0.0)) == []
        connection.data_to_send()
        yield connection
        source.close()


def taken(connection: Connection, peek: Peek, data: str) -> list[bool]:
    """Feed bytes, and the events to the peek; whether it took them."""
    return [peek.takes(event, connection) for event in connection.receive_data(bytes.fromhex(data), 0.0)]


def come(peek: Peek) -> bytes:
    """The bytes that have come, once the answer is over."""

    async def main() -> bytes:
        return b"".join([piece async for piece in peek.pieces()])

    return asyncio.run(main())


def test_bytes_from_the_middle(log: LogBuilder, connection: Connection) -> None:
    """The request begins at the first byte and names the entry's hash; it is cancelled when the last one has come."""
    entry = log.entries[0]
    peek = Peek(entry, 5, 9)
    peek.begin(connection)
    peek.begin(connection)
    #                   immediate, with the hash of the entry; id 0; log 0; from byte 5; (<0>1<0>)
    request = "068400" + entry.author.hex() + "00" + "05" + "010000" + entry.hash.hex()
    assert connection.data_to_send().hex() == request

    assert taken(connection, peek, "8003" + PAYLOAD[5:8].hex()) == [True]
    assert not peek.over.is_set()
    assert taken(connection, peek, "800c" + PAYLOAD[8:20].hex()) == [True, True]  # The bytes, and the end.

    assert (peek.over.is_set(), peek.is_complete, come(peek)) == (True, True, PAYLOAD[5:10])


def test_an_answer_that_goes_on(log: LogBuilder, connection: Connection) -> None:
    """What the peer sends after all bytes came is dropped, it is told to end, and it is heard when it has ended."""
    peek = Peek(log.entries[0], 0, 1)
    peek.begin(connection)
    connection.data_to_send()
    assert taken(connection, peek, "8004" + PAYLOAD[:4].hex()) == [True]
    assert connection.data_to_send() == b"\xd0\x00"
    assert (peek.over.is_set(), peek.quiet.is_set()) == (True, False)
    assert taken(connection, peek, "8001" + PAYLOAD[4:5].hex()) == [True]
    assert not peek.quiet.is_set()
    assert taken(connection, peek, "a8") == [True]
    assert peek.quiet.is_set()
    assert (peek.is_complete, come(peek)) == (True, PAYLOAD[:2])


@pytest.mark.parametrize(
    ("answer", "is_wrong"), [("8014" + "00" * 20, True), ("8002" + PAYLOAD[:2].hex() + "ac", False)]
)
def test_answers_that_are_no_use(log: LogBuilder, connection: Connection, answer: str, *, is_wrong: bool) -> None:
    """A whole payload that is another one is told; an answer that ends early leaves the rest open."""
    peek = Peek(log.entries[0], 0, 19)
    peek.begin(connection)
    assert all(taken(connection, peek, answer))
    assert (peek.over.is_set(), peek.is_wrong, peek.is_complete) == (True, is_wrong, False)
