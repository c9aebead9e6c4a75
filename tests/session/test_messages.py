"""Messages of a session: bytes, and what is none.

Specification: docs/specs/culm.md, "Control messages", "Discovery messages".
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.errors import RemoteProtocolError
from culm.ranges import Range, RangeSet
from culm.session import Limits, Offer
from culm.session.limits import LEAST_MESSAGE
from culm.session.messages import (
    Challenge,
    Deframer,
    InterestsTold,
    Offered,
    Proof,
    Reading,
    Settled,
    Welcome,
    batches,
    decode,
    decode_discovery,
    decode_heads,
    decode_names,
    encode,
    encode_item,
    framed,
    offers_in_batches,
)

U64 = st.integers(0, 2**64 - 1)
KEYS = st.binary(min_size=32, max_size=32)
RANGES = st.builds(
    lambda spans: RangeSet([Range(low, low + length, sparse=sparse) for low, length, sparse in spans]),
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 1000), st.booleans()), max_size=4),
)
OFFERS = st.builds(Offer, KEYS, U64, RANGES, st.sampled_from([b"", b"12345678"]), U64)
LIMITS = st.builds(Limits, st.integers(LEAST_MESSAGE, 2**40), st.integers(1, 2**40))
MESSAGES = st.one_of(
    st.builds(Challenge, KEYS),
    st.builds(Proof, KEYS, KEYS, st.binary(min_size=64, max_size=64), KEYS, LIMITS),
    st.builds(Welcome, KEYS, LIMITS),
    st.builds(
        InterestsTold,
        st.booleans(),
        st.lists(st.tuples(st.one_of(st.just(()), st.tuples(KEYS), st.tuples(KEYS, U64)), RANGES), max_size=5),
    ),
    st.builds(Offered, st.lists(OFFERS, max_size=5)),
    st.builds(Settled, U64),
)


@pytest.mark.parametrize(
    ("limits", "accepted"), [("82 191010 01", True), ("82 19100f 01", False), ("82 191010 00", False)]
)
def test_the_least_limits(limits: str, accepted: bool) -> None:
    """Limits below 4,112 bytes (``1010``) or 1 interest are refused, because no comparison would fit."""
    data = bytes.fromhex("83 02 5820" + "07" * 32 + limits)
    if accepted:
        assert [*decode(data)] == [Welcome(b"\x07" * 32, Limits(4112, 1))]
    else:
        with pytest.raises(RemoteProtocolError, match="too low"):
            list(decode(data))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Challenge(bytes(32)), "25 83 00 01 5820" + "00" * 32),
        (Welcome(b"\x07" * 32, Limits(262144, 10000)), "2d 83 02 5820" + "07" * 32 + "82 1a00040000 192710"),
        (InterestsTold(reset=True, items=[((), RangeSet([Range(1)]))]), "09 83 03 01 81 81 43 010001"),
        (
            Offered([Offer(b"\x09" * 32, 300, RangeSet([Range(1, 5)]), b"\x0a" * 8, 6)]),
            "38 82 04 81 85 5820" + "09" * 32 + "19012c 44 01800105 48" + "0a" * 8 + "06",
        ),
        (Settled(3), "03 82 05 03"),
    ],
)
def test_bytes(message: Challenge, expected: str) -> None:
    """The examples of the page on sessions."""
    assert bytes.fromhex(expected) == encode(message)


@pytest.mark.parametrize("interest", ["80", "84 43 010001", "84 5820" + "07" * 32 + "01 02 43 010001"])
def test_interests_that_are_about_nothing(interest: str) -> None:
    """An interest is about everything, an author or a log; an empty one, and anything longer, is refused."""
    with pytest.raises(RemoteProtocolError, match="breaks the format"):
        list(decode(bytes.fromhex(f"83 03 01 81 {interest}")))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("84 00 01 5820" + "00" * 32 + "00", "CHALLENGE with 4 items"),
        ("83 00 02 5820" + "00" * 32, "speaks version 2 of the session; this is version 1"),
        ("83 03 02 80", "a flag that is neither 0 nor 1"),
        ("82 06 00", "of type 6, which does not exist"),
        ("88" + "00" * 8, "an array of 8 items, expected 2 to 7"),
    ],
)
def test_what_is_wrong_is_named(data: str, why: str) -> None:
    """Whoever writes another implementation learns what its message should have been."""
    with pytest.raises(RemoteProtocolError, match=why):
        list(decode(bytes.fromhex(data)))


@given(MESSAGES)
def test_there_and_back(message: Challenge) -> None:
    """What is encoded decodes to the same, and nothing is left over."""
    (found,) = Deframer(10**6).feed(encode(message))
    assert [message] == [*decode(found)]


def test_long_messages_are_read_in_parts() -> None:
    """Whoever reads a message of many items can pause behind each 128 of them. Interests come together all the same."""
    everything = "81 43 010001"
    (*pauses, told) = decode(bytes.fromhex("83 03 01 99 012c" + everything * 300))
    assert pauses == [Reading.READING] * 2
    assert told == InterestsTold(reset=True, items=[((), RangeSet([Range(1)]))] * 300)
    offer = "85 5820" + "09" * 32 + "01 43 010001 40 00"
    parts = [*decode(bytes.fromhex("82 04 99 012c" + offer * 300))]
    assert [len(part.offers) for part in parts if isinstance(part, Offered)] == [128, 128, 44]
    broken = decode(bytes.fromhex("82 04 99 012c" + offer * 299))
    with pytest.raises(RemoteProtocolError, match="breaks the format"):
        list(broken)
    (nothing,) = decode(bytes.fromhex("82 04 80"))
    assert nothing == Offered([])


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """Bytes that are no message are refused by name, whatever they are."""
    try:
        (message,) = decode(data)
    except RemoteProtocolError:
        return
    assert not isinstance(message, Reading)
    (found,) = Deframer(10**6).feed(encode(message))
    assert len(found) <= len(data) + 200  # ranges may be written otherwise than they came


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.integers(1, 50))
def test_framing(messages: list[bytes], piece: int) -> None:
    """Messages come out as they went in, however the stream is cut."""
    stream = b"".join(map(framed, messages))
    frames = Deframer(300)
    assert messages == [
        message for at in range(0, len(stream), piece) for message in frames.feed(stream[at : at + piece])
    ]


def test_the_longest_message() -> None:
    """A message may be as long as the limit."""
    assert list(Deframer(300).feed(b"\xf9\x01\x2c" + bytes(300))) == [bytes(300)]


@pytest.mark.parametrize("data", [b"\x00", b"\xf9\x01\x2d", b"\xff" + b"\xff" * 8, b"\xf8\x01"])
def test_wrong_lengths(data: bytes) -> None:
    """A message that is empty or too long, and a length in more bytes than needed, are refused at once."""
    with pytest.raises(RemoteProtocolError, match="message"):
        list(Deframer(300).feed(data))


def test_wrong_discovery() -> None:
    """Kinds that there are not, heads that are none, names with something behind them."""
    with pytest.raises(RemoteProtocolError, match="kind 4"):
        decode_discovery(b"\x04")
    for body in (b"", b"x" * 33):
        with pytest.raises(RemoteProtocolError, match="asked for heads"):
            decode_heads(body)
    with pytest.raises(RemoteProtocolError, match="names that breaks"):
        decode_names(encode_item([]) + b"\0")
    with pytest.raises(RemoteProtocolError, match="names that breaks"):
        decode_names(bytes.fromhex("81 81 43 010001"))
    with pytest.raises(RemoteProtocolError, match="of 3 bytes, expected a byte string of 0 or 8"):
        decode_names(encode_item([Offer(bytes(32), 1, RangeSet(), b"abc")]))


@given(st.lists(OFFERS, max_size=20), st.integers(60, 400))
def test_offers_in_batches(offers: list[Offer], room: int) -> None:
    """Offered in groups that fit, in order, none missing; one that is too large says more than it has, never less."""
    groups = list(offers_in_batches(offers, room))
    found = [offer for group in groups for offer in group]
    assert [offer.log for offer in offers] == [offer.log for offer in found]
    assert all(sum(len(encode_item(offer)) for offer in group) <= room or len(group) == 1 for group in groups)
    for offer, sent in zip(offers, found, strict=True):
        assert not len(offer.held.missing(sent.held))


def test_an_offer_that_is_too_large() -> None:
    """Where its ranges do not fit, the log is offered as one range from the first to the last."""
    held = RangeSet([Range(1, 2), Range(5, 6), Range(9, 12)])
    room = len(encode_item(Offer(bytes(32), 1, held))) - 1
    ((offer,),) = offers_in_batches([Offer(bytes(32), 1, held)], room)
    assert offer.held == RangeSet([Range(1, 12)])
    ((offer,),) = offers_in_batches([Offer(bytes(32), 1, held)], room + 1)
    assert offer.held == held


def test_groups_are_full() -> None:
    """A group ends where the next item no longer fits, and not before."""
    assert list(batches([("a", 5), ("b", 5), ("c", 11), ("d", 9), ("e", 1), ("f", 1)], 10)) == [
        ["a", "b"],
        ["c"],
        ["d", "e"],
        ["f"],
    ]
