"""Bymux: packets, credit, turns, ends; and that any streams come through, however the bytes are cut.

Specification: docs/specs/proposals.md, "Bymux".
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.wire.bymux import (
    INFINITE,
    PACKET_BYTES,
    Answered,
    Asked,
    Closed,
    Event,
    Multiplexer,
    Received,
    Stream,
    Unread,
    packet,
    pull_packet,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 2**64 - 1


def end(*, credit: int = 0, granted: int = 0) -> Multiplexer:
    """An end with streams 0 (no limits) and 1."""
    return Multiplexer({0: Stream(INFINITE, INFINITE), 1: Stream(credit, granted)})


def received(mux: Multiplexer, data: bytes) -> list[Event]:
    """What bytes tell; a fault in them is raised."""
    events, failure = mux.receive(data)
    if failure is not None:
        raise failure
    return events


def pair(credit: int = 0) -> tuple[Multiplexer, Multiplexer]:
    """Two ends of one connection."""
    return end(credit=credit, granted=credit), end(credit=credit, granted=credit)


@pytest.mark.parametrize(
    ("kind", "stream", "number", "text"),
    [
        (0, 1, 4096, "01011000"),
        (1, 0, 2, "200002"),
        (1, 1, 300, "2101012c"),
        (0, 1, 65536, "020100010000"),
        (0, 1, 0, "000100"),
        (2, 1, None, "4001"),
        (2, None, None, "50"),
        (3, 1, None, "6001"),
        (3, None, None, "70"),
        (1, None, 2, "3002"),
        (1, 300, 2, "24012c02"),
        (4, 1, None, "8001"),
        (5, 2**40, None, "ac0000010000000000"),
        (0, None, MOST, "13ffffffffffffffff"),
        (0, 1, 255, "0001ff"),
        (0, 1, 256, "01010100"),
        (0, 1, 65535, "0101ffff"),
        (0, 1, 2**32 - 1, "0201ffffffff"),
        (0, 1, 2**32, "03010000000100000000"),
    ],
)
def test_packets(kind: int, stream: int | None, number: int | None, text: str) -> None:
    """T4 to T10: packets both ways, and cut at every byte."""
    data = bytes.fromhex(text)
    assert packet(kind, stream, number) == data
    assert pull_packet(data + b"\xff\xff", 0) == (kind, stream, number, len(data))
    for cut in range(len(data)):
        assert pull_packet(data[:cut], 0) is None


def test_any_width_is_taken() -> None:
    """Numbers may be wider than they have to be, and bits that say nothing are ignored."""
    assert pull_packet(bytes.fromhex("2f" + "00" * 7 + "01" + "00" * 7 + "02"), 0) == (1, 1, 2, 17)
    assert pull_packet(b"\x5f", 0) == (2, None, None, 1)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("000001", "credit on top of infinite credit"),
        ("c0", "a type there is not"),
        ("e0", "a type there is not"),
        ("3002", "a stream that may not be created"),
        ("3000", "the same, without a byte for it"),
        ("4007", "a stream there is not"),
        ("24012c026869", "a stream there is not"),
        ("200101ff", "bytes without credit"),
        ("800080" + "00", "closed twice"),
        ("a000a000", "stopped twice"),
        ("8000" + "200001", "a write after the close"),
        ("a001" + "000101", "credit after the stop"),
        ("8000a0004000", "a ping after both"),
        ("9090", "no new streams, twice"),
        ("b0b0", "none accepted, twice"),
        ("b01001", "credit for creating after that"),
        ("90b050", "a ping after both"),
        ("1bffffffffffffffff" + "1001", "more credit for creating than there can be"),
        ("03" + "01" + "ff" * 8 + "000101", "more credit than there can be"),
    ],
)
def test_what_ends_the_connection(text: str, what: str) -> None:
    """T7, T9, T10 and the other rules: the connection is over."""
    mux = end()
    with pytest.raises(RemoteProtocolError):
        received(mux, bytes.fromhex(text))
        pytest.fail(what)


def test_signs_of_life() -> None:
    """T8: pings are answered where they were sent; one who only pings does not fill our memory."""
    one, other = pair()
    one.ping(1)
    one.ping()
    assert received(other, one.data_to_send()) == [Asked(1), Asked(None)]
    assert received(one, other.data_to_send()) == [Answered(1), Answered(None)]
    received(other, b"\x50" * 100_000)
    assert len(other.data_to_send()) < 10_000


def test_a_ping_is_behind_the_bytes_before_it() -> None:
    """Bytes in front of a ping are told before it, those behind it afterwards."""
    mux = end()
    assert received(mux, bytes.fromhex("2000026869" + "4000" + "20000121")) == [
        Received(0, b"hi"),
        Asked(0),
        Received(0, b"!"),
    ]


def test_turns() -> None:
    """Streams have their turns, for a small packet at a time; a stream without credit holds up nobody."""
    one, other = pair(credit=3 * PACKET_BYTES)
    one.write(1, bytes(10 * PACKET_BYTES))
    one.write(0, b"short")
    first = one.data_to_send(PACKET_BYTES + 1)
    assert [Received(0, b"short"), Received(1, bytes(PACKET_BYTES))] == received(other, first)
    rest = received(other, one.data_to_send())
    assert rest == [Received(1, bytes(2 * PACKET_BYTES))]
    assert one.queued(1) == 7 * PACKET_BYTES
    assert one.room(1) == 0
    one.write(0, b"more")
    assert received(other, one.data_to_send()) == [Received(0, b"more")]


def test_a_stream_on_its_own_has_one_packet() -> None:
    """While no other stream has bytes, a packet is as long as what is sent at once; otherwise it is small."""
    one, _ = pair(credit=1_000_000)
    one.write(1, bytes(500_000))
    assert one.data_to_send(200_000) == bytes.fromhex("22 01 00030d40") + bytes(200_000)
    one.write(0, b"hi")
    sent = one.data_to_send(200_000)
    assert sent == bytes.fromhex("21 01 4000") + bytes(0x4000) + bytes.fromhex("20 00 02") + b"hi" + (
        bytes.fromhex("22 01 0002cd3e") + bytes(200_000 - 0x4000 - 2)
    )


def test_credit_comes_back_when_that_is_urgent() -> None:
    """Credit is given back as soon as it is at least a sixteenth of what the peer has left."""
    one, other = pair(credit=1700)
    one.write(1, bytes(100))
    received(other, one.data_to_send())
    other.consumed(1, 99)
    assert other.data_to_send() == b""
    other.consumed(1, 1)
    credit = other.data_to_send()
    assert credit == bytes.fromhex("000164")
    assert received(one, credit) == []
    assert other.streams[1].granted == 1700
    one.write(1, bytes(1700))
    received(other, one.data_to_send())
    other.consumed(1, 1)  # It has nothing left, so a single byte is urgent.
    assert other.data_to_send() == bytes.fromhex("000101")


def test_ends() -> None:
    """Either closing packet is answered with its counterpart, and a stream is gone once both sides have said both."""
    one, other = pair(credit=100)
    one.write(1, b"hello")
    assert received(other, one.data_to_send()) == [Received(1, b"hello")]
    one.close(1)
    one.stop_read(1)
    assert received(other, one.data_to_send()) == [Closed(1), Unread(1)]
    assert received(one, other.data_to_send()) == [Closed(1), Unread(1)]
    assert (list(one.streams), list(other.streams)) == ([0], [0])
    with pytest.raises(RemoteProtocolError, match="stream 1, which does not exist"):
        received(other, packet(2, 1))


def test_ends_that_cross() -> None:
    """Both sides say both at once: nothing is answered twice, and the stream is gone on both."""
    one, other = pair()
    for mux in (one, other):
        mux.stop_read(1)
        mux.close(1)
        mux.close(None)
        mux.stop_read(None)
    to_other, to_one = one.data_to_send(), other.data_to_send()
    events = [Unread(1), Closed(1), Closed(None), Unread(None)]
    assert received(other, to_other) == received(one, to_one) == events
    assert (one.data_to_send(), other.data_to_send()) == (b"", b"")
    assert (list(one.streams), list(other.streams)) == ([0], [0])


def test_a_close_waits_for_what_is_queued() -> None:
    """Closing sends everything first; what nobody reads is dropped."""
    one, other = pair(credit=10)
    one.write(1, bytes(25))
    one.close(1)
    assert received(other, one.data_to_send()) == [Received(1, bytes(10))]
    with pytest.raises(LocalProtocolError):
        one.write(1, b"late")
    other.consumed(1, 10)
    received(one, other.data_to_send())
    assert received(other, one.data_to_send()) == [Received(1, bytes(10))]
    other.stop_read(1)
    assert received(one, other.data_to_send()) == [Unread(1)]
    assert one.queued(1) == 0
    assert not one.streams[1].queue
    one.write(1, b"dropped")


def test_a_close_goes_behind_the_last_byte() -> None:
    """Once a closing stream is sent, its Close follows, once."""
    one, other = pair(credit=10)
    one.write(1, b"bytes")
    one.close(1)
    assert one.data_to_send().hex() == "200105" + b"bytes".hex() + "8001"
    assert one.data_to_send() == b""
    received(other, bytes.fromhex("200105" + b"bytes".hex() + "8001"))
    assert other.data_to_send().hex() == "a001"
    received(other, b"\xa0\x01")
    assert other.data_to_send().hex() == "8001"
    assert received(other, b"\x50") == [Asked(None)]
    assert other.data_to_send().hex() == "70"


def test_a_stream_that_is_gone_holds_up_nobody() -> None:
    """Bytes that wait for a stream are dropped with it, and those of others go out."""
    one, other = pair()
    one.write(1, b"no credit for this")
    one.write(0, b"this goes")
    other.stop_read(1)
    other.close(1)
    assert received(one, other.data_to_send()) == [Unread(1), Closed(1)]
    assert list(one.streams) == [0]
    assert received(other, one.data_to_send())[-1] == Received(0, b"this goes")


def test_what_may_not_be_asked_for() -> None:
    """What would confuse the peer is refused to our own side, and looking at what is not there gives nothing."""
    mux = end(granted=5)
    attempts: list[Callable[[], None]] = [
        lambda: mux.write(7, b"x"),
        lambda: mux.grant(7, 1),
        lambda: mux.close(7),
        lambda: mux.stop_read(7),
    ]
    for ask in attempts:
        with pytest.raises(LocalProtocolError, match="stream 7 does not exist"):
            ask()
    assert mux.queued(7) == mux.room(7) == 0
    assert not mux.may_ping(7)
    mux.consumed(7, 1)
    mux.stop_read(1)
    with pytest.raises(LocalProtocolError, match="this side stopped reading it"):
        mux.grant(1, 1)
    mux.close(1)
    assert not mux.may_ping(1)
    with pytest.raises(LocalProtocolError, match="both of our ends are closed"):
        mux.ping(1)
    assert mux.data_to_send().hex() == "a001" + "8001"
    assert received(mux, bytes.fromhex("4001")) == []
    assert mux.data_to_send() == b"", "a peer that does not know yet gets no answer"


def test_faults_name_the_stream() -> None:
    """Whoever reads the log learns what it was about."""
    for text, name in (("8001" * 2, "for stream 1"), ("90" * 2, "for new streams"), ("b0" * 2, "for new streams")):
        with pytest.raises(RemoteProtocolError, match=f"a second Close or StopRead {name}"):
            received(end(), bytes.fromhex(text))


def test_the_most_credit() -> None:
    """Credit may add up to 2^64 - 1, and that for creating streams is a number like others, also 0."""
    mux = end()
    received(mux, bytes.fromhex("03 01" + "ff" * 8))
    assert mux.streams[1].credit == INFINITE
    received(mux, bytes.fromhex("13" + "ff" * 8 + "1000"))
    assert mux.room(None) == MOST
    mux.grant(1, INFINITE)
    assert mux.data_to_send().hex() == "000100"


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_any_traffic(seed: int) -> None:
    """Whatever is written to streams, in whatever pieces the bytes come: each stream brings exactly its bytes."""
    rng = random.Random(seed)
    one, other = pair(credit=rng.choice((1, 50, 5000)))
    written, read = {0: b"", 1: b""}, {0: b"", 1: b""}
    for _ in range(rng.randint(1, 30)):
        stream = rng.randint(0, 1)
        data = rng.randbytes(rng.choice((0, 1, 30, 2000)))
        one.write(stream, data)
        written[stream] += data
        for _ in range(3):
            out = one.data_to_send(rng.choice((1, 100, 10**6)))
            while out:
                size = rng.randint(1, len(out))
                for event in received(other, out[:size]):
                    assert isinstance(event, Received)
                    read[event.stream] += event.data
                    other.consumed(event.stream, len(event.data))
                out = out[size:]
            received(one, other.data_to_send())
    while one.queued(1) or one.queued(0):
        for event in received(other, one.data_to_send()):
            assert isinstance(event, Received)
            read[event.stream] += event.data
            other.consumed(event.stream, len(event.data))
        received(one, other.data_to_send())
    assert read == written


def test_packets_with_the_number_zero() -> None:
    """A write of no bytes takes none of what follows, and credit of 0 stands for credit without a limit."""
    mux = end(granted=5)
    empty, credit = bytes.fromhex("20 01 00"), bytes.fromhex("00 01 00")
    assert received(mux, empty + credit + bytes.fromhex("20 01 02 6869")) == [Received(1, b"hi")]
    assert mux.streams[1].credit == INFINITE


def test_credit_has_a_least_and_a_most() -> None:
    """No credit of 0, and none that brings the sum to 2^64 - 1, which means unlimited; the last below it is given."""
    mux = end(granted=5)
    for amount in (0, -1, INFINITE - 5, INFINITE + 1):
        with pytest.raises(LocalProtocolError, match=f"cannot give {amount} bytes"):
            mux.grant(1, amount)
    assert mux.streams[1].granted == 5
    mux.grant(1, INFINITE - 6)
    assert mux.streams[1].granted == INFINITE - 1


def test_what_the_peer_has_left() -> None:
    """Credit that it has not used, and the rest of what it is just writing; None of a stream that is not read."""
    _, other = pair(credit=100)
    assert other.left(1) == 100
    received(other, bytes.fromhex("20 01 28") + bytes(15))
    assert other.left(1) == 60 + 25
    received(other, bytes(25))
    assert other.left(1) == 60
    other.stop_read(1)
    assert other.left(1) is other.left(9) is None
