"""Bymux: packets, credit, turns, ends; and that any streams come through, however the bytes are cut.

Specification: docs/specs/proposals.md, "Bymux".
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.wire.bymux import (
    INFINITE,
    PACKET_BYTES,
    Answered,
    Closed,
    Event,
    Multiplexer,
    Received,
    Stream,
    Unread,
    packet,
    pull_packet,
)

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
    assert received(other, one.data_to_send()) == []
    assert received(one, other.data_to_send()) == [Answered(1), Answered(None)]
    received(other, b"\x50" * 100_000)
    assert other.data_to_send() == b"\x70" * 4096
    one.close(1)
    one.stop_read(1)
    one.data_to_send()
    assert received(one, packet(2, 1)) == []
    assert one.data_to_send() == b""
    with pytest.raises(LocalProtocolError, match="both of our ends are closed"):
        one.ping(1)


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
    one.write(0, bytes(50_000))
    assert one.data_to_send(1) == bytes.fromhex("21 00 4000") + bytes(16 * 1024)


def test_credit_comes_back_when_that_is_urgent() -> None:
    """Credit is given back as soon as it is at least what the peer has left."""
    one, other = pair(credit=1000)
    one.write(1, bytes(400))
    received(other, one.data_to_send())
    other.consumed(1, 400)
    assert other.data_to_send() == b""
    one.write(1, bytes(200))
    received(other, one.data_to_send())
    other.consumed(1, 100)
    assert other.data_to_send() == packet(0, 1, 500)
    assert other.streams[1].granted == 900
    received(one, packet(0, 1, 500))
    one.write(1, bytes(450))
    received(other, one.data_to_send())
    other.consumed(1, 450)
    assert other.data_to_send() == packet(0, 1, 450)
    one, other = pair(credit=1)
    one.write(1, b"a")
    received(other, one.data_to_send())
    other.consumed(1, 0)
    assert other.data_to_send() == b""
    other.consumed(1, 1)
    assert other.data_to_send() == packet(0, 1, 1)


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
    assert (other.queued(1), other.room(1)) == (0, 0)
    assert received(one, packet(3, 0)) == [Answered(0)]


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
    mux.grant(None, INFINITE - 1)
    assert mux.data_to_send().endswith(bytes.fromhex("13 fffffffffffffffe"))


def test_credit_adds_up_to_no_limit() -> None:
    """A peer's credit may add up to 2^64 - 1, which is none that is ever spent; credit for streams takes a 0, too."""
    mux = end()
    assert received(mux, bytes.fromhex("03 01 fffffffffffffffe 00 01 01")) == []
    assert mux.streams[1].credit == INFINITE
    mux.write(1, b"a")
    mux.data_to_send()
    assert mux.room(1) == INFINITE
    assert received(mux, bytes.fromhex("13 ffffffffffffffff 10 00")) == []
    assert mux.room(None) == INFINITE


def test_credit_without_a_limit() -> None:
    """It is written as 0, and from then on nothing of it is given back."""
    mux = end(granted=5)
    mux.grant(1, INFINITE)
    assert mux.data_to_send() == bytes.fromhex("00 01 00")
    assert received(mux, bytes.fromhex("20 01 06") + bytes(6)) == [Received(1, bytes(6))]
    mux.consumed(1, 6)
    assert mux.data_to_send() == b""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("8000 8000", "a second Close or StopRead for stream 0"),
        ("90 90", "a second Close or StopRead for new streams"),
        ("b0 10 01", "gave credit for new streams after it stopped reading"),
        ("a001 000101", "gave credit for stream 1 after it stopped reading"),
        ("30 00", "created a stream without credit"),
        ("30 02", "created a stream without credit"),
    ],
)
def test_why_the_connection_is_over(text: str, why: str) -> None:
    """The reason names the stream. No stream is created, even where credit for it was given."""
    mux = end()
    mux.grant(None, 9)
    with pytest.raises(RemoteProtocolError, match=why):
        received(mux, bytes.fromhex(text))


def test_streams_that_are_not_there() -> None:
    """Nothing can be asked of a stream that does not exist, and none is read again once that was stopped."""
    mux = end(granted=5)
    missing = pytest.raises(LocalProtocolError, match="stream 7 does not exist")
    with missing:
        mux.write(7, b"a")
    with missing:
        mux.grant(7, 1)
    with missing:
        mux.close(7)
    with missing:
        mux.stop_read(7)
    assert (mux.queued(7), mux.room(7), mux.may_ping(7)) == (0, 0, False)
    mux.stop_read(1)
    with pytest.raises(LocalProtocolError, match="cannot give credit for stream 1"):
        mux.grant(1, 1)


def test_a_close_goes_out_behind_the_bytes() -> None:
    """The last bytes of a stream and its end come out together, once each, and no buffer is held any longer."""
    one, other = pair(credit=5)
    one.write(1, b"hello")
    one.close(1)
    assert received(other, one.data_to_send()) == [Received(1, b"hello"), Closed(1)]
    assert one.data_to_send() == b""
    assert not one.streams[1].queue


def test_turns_of_streams_that_ended() -> None:
    """A stream that nobody reads any more, or that is over, holds up none of the others."""
    for is_over in (False, True):
        mux = end()
        mux.write(1, b"dropped")
        mux.write(0, b"kept")
        if is_over:
            mux.stop_read(1)
        assert len(received(mux, bytes.fromhex("a001 8001" if is_over else "a001"))) == (2 if is_over else 1)
        assert (1 in mux.streams) != is_over
        assert mux.data_to_send().endswith(bytes.fromhex("20 00 04") + b"kept")


def test_a_limit_ends_the_turns() -> None:
    """No stream has its turn once there are as many bytes of them as asked for; the next call goes on from there."""
    mux = Multiplexer({number: Stream(credit=0) for number in range(3)})
    for number in range(3):
        mux.write(number, b"ab")
    assert mux.data_to_send() == b""  # All wait for credit, and keep their order.
    assert received(mux, bytes.fromhex("00 00 00  00 01 00  00 02 00")) == []
    assert mux.data_to_send(0) == b""
    assert mux.data_to_send(2) == bytes.fromhex("20 00 02") + b"ab"
    assert mux.data_to_send(3) == bytes.fromhex("20 01 02") + b"ab" + bytes.fromhex("20 02 02") + b"ab"
