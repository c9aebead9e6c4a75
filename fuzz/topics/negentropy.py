"""Negentropy: messages into both sides, rounds of them, the process over lines, the connection over TCP."""

from __future__ import annotations

import asyncio
import io
from contextlib import nullcontext
from typing import cast

from culm.bamboo import encode_varu64
from culm.errors import CulmError, NetworkError, ProtocolError, RemoteProtocolError
from culm.negentropy import ArrayStorage, Negentropy, read_ranges
from culm.negentropy.harness import Harness
from culm.negentropy.reconciler import newest_listed
from culm.negentropy.storage import SubRange
from culm.node.config import NodeLimits
from culm.node.negentropy.comparison import Answering
from culm.node.storage.worker import Computing
from fuzz.talking import Inline, surroundings
from fuzz.target import Target

_LIMIT = 4096
_RECORDS = ArrayStorage.of((number // 3, bytes([number % 251]) * 32) for number in range(400))
_FEW = ArrayStorage.of((number // 3, bytes([number % 251]) * 32) for number in range(0, 400, 3))


def _sessions() -> tuple[Negentropy, ...]:
    """Sides of every kind: with and without a limit, over a part of a set, with another split, over nothing."""
    return (
        Negentropy(_RECORDS, _LIMIT),
        Negentropy(_RECORDS),
        Negentropy(SubRange(_RECORDS, 20, 90), _LIMIT, split=newest_listed),
        Negentropy(_RECORDS, _LIMIT, reference_bytes=True),
        Negentropy(ArrayStorage.of([])),
    )


def message(data: bytes) -> None:
    """Any side that listens takes a message; what it answers is well formed and within its limit."""
    outcomes = set()
    for number, session in enumerate(_sessions()):
        try:
            answer = session.reconcile(data)
        except RemoteProtocolError:
            outcomes.add("refused")
            continue
        outcomes.add("answered")
        assert answer is not None
        list(read_ranges(answer))
        assert number in (1, 4) or len(answer) <= _LIMIT
    # The limit may cut an answer before a fault is met: of those without one all agree.
    if outcomes == {"refused"}:
        raise RemoteProtocolError("by all")


def rounds(data: bytes) -> None:
    """The side that began takes message after message, and ends up with no id twice."""
    session = _sessions()[data[0] % 5 if data else 0]
    session.initiate()
    at = 1
    while at < len(data):
        size = data[at] + 1
        answer = session.reconcile(data[at + 1 : at + 1 + size])
        at += 1 + size
        if answer is None:
            break
        list(read_ranges(answer))
    assert len(set(session.have)) == len(session.have)
    assert len(set(session.need)) == len(session.need)


def lines(data: bytes) -> None:
    """The process over stdin and stdout says well-formed lines, or ends with one on stderr."""
    out = io.StringIO()
    harness = Harness(out, {"FRAMESIZELIMIT": "4096"})
    try:
        for line in io.StringIO(data.decode(errors="replace")):
            harness.run(line.strip())
    finally:
        for line in out.getvalue().splitlines():
            word, _, value = line.partition(",")
            assert word in {"have", "need", "msg", "done"}
            bytes.fromhex(value)


class _Sink:
    """The writing half of a connection to nowhere."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        """All is taken at once."""

    def close(self) -> None:
        """Nothing is open."""


async def _serve(data: bytes) -> bytes:
    reader, sink = asyncio.StreamReader(), _Sink()
    reader.feed_data(data)
    reader.feed_eof()
    share = Computing(surroundings()).share()
    streams = reader, cast("asyncio.StreamWriter", sink)
    await Answering(lambda _: nullcontext(_RECORDS), share, NodeLimits(), streams, thread=Inline()).run()
    return bytes(sink.data)


def stream(data: bytes) -> None:
    """The listener over TCP answers messages behind their lengths until the peer ends the connection."""
    with asyncio.Runner() as runner:
        runner.run(_serve(data))


def _dialogue() -> tuple[list[bytes], list[bytes]]:
    """What the two sides of a session say, up to its end."""
    one, other = Negentropy(_FEW), Negentropy(_RECORDS, _LIMIT)
    said: tuple[list[bytes], list[bytes]] = [], []
    question: bytes | None = one.initiate()
    while question is not None:
        said[0].append(question)
        answer = other.reconcile(question)
        assert answer is not None
        said[1].append(answer)
        question = one.reconcile(answer)
    return said


_ASKED, _ANSWERED = _dialogue()
_SMALL = [b"\x61" + b"\x00\x00\x02\x01" + bytes(32), b"\x61\x00\x00\x01" + bytes(16), b"\x61"]
_LINES = (
    b"item,5,%s\nitem,9,%s\nseal\ninitiate\nmsg,%s\n" % (b"0a" * 32, b"0b" * 32, _SMALL[0].hex().encode()),
    b"item,5,%s\nseal\nmsg,%s\n" % (b"0a" * 32, _SMALL[1].hex().encode()),
)


def _framed(*messages: bytes) -> bytes:
    return b"".join(encode_varu64(len(item)) + item for item in messages)


_ROUNDS = b"\x00" + b"".join(bytes([len(item) - 1]) + item for item in _SMALL)
_STREAMS = _framed(*_ASKED), _framed(b"\0entries", *_SMALL), _framed(b"\0payloads", *_SMALL[:1])
TARGETS = (
    Target("negentropy.message", message, (RemoteProtocolError,), (*_ASKED, *_ANSWERED, *_SMALL)),
    Target("negentropy.rounds", rounds, (RemoteProtocolError,), (_ROUNDS,)),
    Target("negentropy.lines", lines, (CulmError, ValueError), _LINES, share=0.5),
    Target("negentropy.stream", stream, (ProtocolError, NetworkError), _STREAMS),
)
