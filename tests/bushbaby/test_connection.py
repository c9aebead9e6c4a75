"""The connection: both dialects, every refusal, every limit.

Specification: docs/specs/bushbaby.md, "Dialects", "Messages", "Handshake", "Recognising Culm", "WANT", "Limits".
"""

from __future__ import annotations

import hmac
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_secretbox

from culm.bamboo import MAX_U64, Identity
from culm.bushbaby import (
    Authenticated,
    BambooReceived,
    Dialect,
    HaveItem,
    HaveReceived,
    Limits,
    OtherDialect,
    PeerIdentified,
    WantItem,
    WantReceived,
)
from culm.bushbaby.handshake import clump_mac
from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.testing import build_log
from culm.wire.stlv import encode_header
from tests.bushbaby.peers import ALICE, BOB, carry, introduce, make, messages_in, pair, send_items

VECTORS = Path(__file__).parents[1] / "vectors" / "bushbaby"
HMACS = json.loads((VECTORS / "hello_hmac.json").read_text())
LOG = build_log(30, seed=7, payload_size=50)
ITEMS = [entry.encoded + LOG.payloads[entry.hash] for entry in LOG.entries]
DIALECTS = list(Dialect)


@pytest.mark.parametrize("vector", HMACS, ids=lambda vector: vector["hmac"][:8])
def test_hello_macs(vector: dict[str, str]) -> None:
    """The MAC over clump and ephemeral key is the deployed peer's."""
    mac = clump_mac(bytes.fromhex(vector["clump"]), bytes.fromhex(vector["ephemeral_pk"]), Dialect.DEPLOYED)
    assert mac.hex() == vector["hmac"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("mark", [True, False])
@pytest.mark.parametrize("clump", [b"Quagga", b"", b"\xff\x00" * 200])
def test_everything_arrives(dialect: Dialect, mark: bool, clump: bytes) -> None:
    """In both dialects, HAVE, WANT and BAMBOO arrive as they were sent, boxes beyond 16,352 bytes included."""
    one, other = make(ALICE, 1, clump, dialect=dialect, mark=mark), make(BOB, 2, clump, dialect=dialect, mark=mark)
    introduce(one, other)
    assert one.is_culm is other.is_culm is mark
    have = [HaveItem(ALICE.public, 0, 1), HaveItem(BOB.public, MAX_U64, MAX_U64)]
    want = [
        WantItem(ALICE.public),
        WantItem(ALICE.public, 7),
        WantItem(BOB.public, 0, 20),
        WantItem(BOB.public, 0, None, 2, MAX_U64),
    ]
    large = build_log(1, seed=9, payload_size=100_000)
    items = [*ITEMS, large.entries[0].encoded + large.payloads[large.entries[0].hash]]
    one.send_have(have)
    one.send_want(want)
    send_items(one, items)
    events = carry(one, other)

    assert events[:2] == [HaveReceived(have), WantReceived(want)]
    bamboo = events[2]
    assert isinstance(bamboo, BambooReceived)
    assert [entry.encoded + bytes(payload) for entry, payload in bamboo.entries] == items


def test_the_dialects_do_not_mix() -> None:
    """A HELLO of the other dialect is no offence: its dialect is told, and nothing more is read."""
    one, other = make(ALICE, 1, dialect=Dialect.DEPLOYED), make(BOB, 2, dialect=Dialect.DOCUMENT)
    assert carry(one, other) == [OtherDialect(Dialect.DEPLOYED)]
    with pytest.raises(LocalProtocolError):
        carry(other, other)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("first", DIALECTS)
def test_who_listens_first_goes_on_in_the_dialect_it_hears(dialect: Dialect, first: Dialect) -> None:
    """The peer's HELLO comes within the second: ours goes out in the same dialect, and so do the boxes."""
    one = make(ALICE, 1, dialect=dialect, mark=False)
    other = make(BOB, 2, dialect=first, any_dialect=True, hello_seconds=1.0, mark=False)
    other.handle_timer(10.0)
    assert other.data_to_send() == b""
    introduce(one, other)
    assert other.dialect is dialect
    send_items(other, ITEMS)
    (bamboo,) = carry(other, one)
    assert isinstance(bamboo, BambooReceived)
    assert len(list(bamboo.entries)) == len(ITEMS)


def test_nobody_is_listened_to_for_ever() -> None:
    """Two that listen first: after the second our HELLO goes out, in the dialect that was asked for."""
    one = make(ALICE, 1, dialect=Dialect.DOCUMENT, any_dialect=True, hello_seconds=1.0)
    assert one.next_timer() == float("-inf")
    one.handle_timer(10.0)
    assert (one.next_timer(), one.data_to_send()) == (11.0, b"")
    one.handle_timer(10.9)
    assert one.data_to_send() == b""
    one.handle_timer(11.0)
    hello = one.data_to_send()
    assert hello[:2].hex() == "0160"
    assert hello[66:] == hmac.digest(hello[34:66], b"Quagga", "sha512")[:32]
    assert (one.said, one.next_timer()) == (Dialect.DOCUMENT, None)


def test_one_marked_side_is_no_pair_of_our_own() -> None:
    """If one side does not show the mark, neither treats the other as a Culm node with its own rules."""
    one, other = make(ALICE, 1, mark=True), make(BOB, 2, mark=False)
    introduce(one, other)
    assert not one.is_culm
    assert not other.is_culm


def test_the_events_of_a_handshake() -> None:
    """A peer is identified by its HELLO and authenticated by its AUTH."""
    one, other = pair()
    assert carry(one, other) == [PeerIdentified(ALICE.public)]
    assert carry(other, one) == [PeerIdentified(BOB.public), Authenticated(BOB.public, is_culm=True)]
    assert carry(one, other) == [Authenticated(ALICE.public, is_culm=True)]


def test_a_guarded_side_shows_nothing_until_it_accepts() -> None:
    """Waiting for the HELLO and asked first, a connection says nothing until its owner accepts the peer."""
    one, other = make(ALICE, 1), make(BOB, 2, ask_first=True, wait_for_hello=True)
    assert other.data_to_send() == b""
    carry(one, other)
    assert other.data_to_send() == b""
    other.accept()
    assert len(messages_in(other.data_to_send())) == 2


def test_waiting_for_the_peers_proof() -> None:
    """A side that waits for AUTH sends its own only after the peer's was checked."""
    one, other = make(ALICE, 1), make(BOB, 2, wait_for_auth=True)
    carry(one, other)
    assert len(messages_in(other.data_to_send())) == 1
    introduced = make(ALICE, 1), make(BOB, 2, wait_for_auth=True)
    introduce(*introduced)


def test_accepting_after_the_peer_has_proved_itself() -> None:
    """A guarded side that also waits for AUTH sends its own even if its owner accepts only after that came."""
    one, other = make(ALICE, 1), make(BOB, 2, ask_first=True, wait_for_auth=True)
    carry(other, one)
    carry(one, other)
    other.accept()
    assert other.replicating
    carry(other, one)
    assert one.replicating


def test_nobody_replicates_with_a_side_that_has_not_proved_itself() -> None:
    """Announcements before our own AUTH was sent are refused."""
    one, other = make(ALICE, 1), make(BOB, 2, ask_first=True)
    carry(other, one)
    carry(one, other)
    with pytest.raises(RemoteProtocolError, match="before we have proved"):
        list(other.receive_data(encode_header(5, 104), 0.0))


def test_a_message_is_sent_once() -> None:
    """A BAMBOO that was sent cannot be sent again, and empty pieces change nothing."""
    one, other = pair()
    introduce(one, other)
    writer = one.start_bamboo([len(ITEMS[0])])
    writer.write(b"")
    writer.write(ITEMS[0])
    writer.write(b"")
    writer.send()
    with pytest.raises(LocalProtocolError, match="already"):
        writer.send()
    assert len(carry(one, other)) == 1
    with pytest.raises(LocalProtocolError, match="at least one entry"):
        one.start_bamboo([0])


@pytest.mark.parametrize(
    "want",
    [
        WantItem(ALICE.public, 1, 0),
        WantItem(ALICE.public, 1, None, 3, 2),
        WantItem(ALICE.public, 1, None, 0, 2),
        WantItem(ALICE.public, 1, None, 2),
        WantItem(ALICE.public, None, 3),
        WantItem(ALICE.public, None, None, 1, 2),
        WantItem(ALICE.public, 1, 2, 1, 2),
    ],
)
def test_what_the_peer_would_drop_us_for_is_not_sent(want: WantItem) -> None:
    """Requests and announcements that break the format are our own mistake."""
    one, other = pair()
    introduce(one, other)
    with pytest.raises(LocalProtocolError):
        one.send_want([want])
    with pytest.raises(LocalProtocolError):
        one.send_have([HaveItem(ALICE.public, 1, 0)])
    assert one.data_to_send() == b""


def test_keys_are_not_printed() -> None:
    """The session's keys do not show in a representation that could land in a log."""
    one, other = pair()
    introduce(one, other)
    assert one.boxes.session_keys.send.hex() not in repr(one.boxes.session_keys)
    assert repr(one.boxes.session_keys.send) not in repr(one.boxes.session_keys)


def test_nothing_is_sent_before_the_handshake_is_over() -> None:
    """Announcing, asking and sending before both sides have proved themselves is our own mistake."""
    one, _ = pair()
    for call in (lambda: one.send_have([]), lambda: one.send_want([]), lambda: one.start_bamboo([])):
        with pytest.raises(LocalProtocolError):
            call()
    with pytest.raises(LocalProtocolError):
        one.accept()


@pytest.mark.parametrize("kind", [0, 2, 3, 4, 5, 6, 7, 8, 9, 2**64 - 1])
def test_only_hello_may_come_first(kind: int) -> None:
    """Any other message in place of a HELLO ends the connection."""
    with pytest.raises(RemoteProtocolError):
        list(make(BOB, 2).receive_data(encode_header(kind, 104) + bytes(104), 0.0))


@pytest.mark.parametrize("length", [0, 95, 97, 2**63])
def test_a_hello_has_one_length(length: int) -> None:
    """A HELLO that claims another length is refused at its header."""
    with pytest.raises(RemoteProtocolError):
        list(make(BOB, 2).receive_data(encode_header(1, length), 0.0))


@pytest.mark.parametrize("kind", [1, 5, 6, 8])
def test_only_auth_may_come_second(kind: int) -> None:
    """After HELLO nothing but AUTH is accepted."""
    one, other = pair()
    carry(one, other)
    with pytest.raises(RemoteProtocolError):
        list(other.receive_data(encode_header(kind, 104), 0.0))


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 7, 9])
def test_only_replication_messages_may_follow(kind: int) -> None:
    """In the replication state the message types 5, 6 and 8 are accepted and no other."""
    one, other = pair()
    introduce(one, other)
    with pytest.raises(RemoteProtocolError):
        list(other.receive_data(encode_header(kind, 104), 0.0))


def test_a_reflected_hello_is_refused() -> None:
    """Our own HELLO sent back to us does not start a session."""
    one = make(ALICE, 1)
    hello = one.data_to_send()
    with pytest.raises(RemoteProtocolError, match="ourselves"):
        list(one.receive_data(hello, 0.0))


def test_somebody_elses_identity_cannot_be_claimed() -> None:
    """A peer that claims Alice's key and does not hold it cannot prove itself."""
    liar = Identity(bytes(31) + b"m")
    liar.public = ALICE.public  # It signs and derives with another key than it says.
    mallory, bob = make(liar, 1), make(BOB, 2)
    carry(bob, mallory)
    with pytest.raises(RemoteProtocolError):
        carry(mallory, bob)


@pytest.mark.parametrize("point", [bytes(32), b"\1" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f"])
def test_unusable_keys_are_refused(point: bytes) -> None:
    """Points of small order, as long-term or as ephemeral key, end the connection."""
    good = ALICE.public
    for public, ephemeral in ((point, good), (good, bytes(32))):
        hello = public + ephemeral + clump_mac(b"Quagga", ephemeral, Dialect.DEPLOYED)
        with pytest.raises(RemoteProtocolError):
            list(make(BOB, 2).receive_data(encode_header(1, 96) + hello, 0.0))


def test_a_replayed_message_is_refused() -> None:
    """The same box twice in a connection is a replay."""
    one, other = pair()
    introduce(one, other)
    one.send_have([])
    message = one.data_to_send()
    assert list(other.receive_data(message, 0.0)) == [HaveReceived([])]
    with pytest.raises(RemoteProtocolError, match="replay"):
        list(other.receive_data(message, 0.0))
    with pytest.raises(LocalProtocolError, match="over"):
        list(other.receive_data(b"", 0.0))


def test_messages_are_counted() -> None:
    """A connection sends and takes a bounded number of messages; then it has to be made anew."""
    limits = Limits(max_boxes=4)
    one, other = pair(limits=limits)
    introduce(one, other)
    for _ in range(3):
        one.send_have([])
        carry(one, other)
    with pytest.raises(LocalProtocolError, match="new one"):
        one.send_have([])
    sender = make(ALICE, 1)
    receiver = make(BOB, 2, limits=limits)
    introduce(sender, receiver)
    with pytest.raises(RemoteProtocolError, match="more than 4"):
        for _ in range(4):
            sender.send_have([])
            carry(sender, receiver)


def test_the_size_of_messages_is_bounded() -> None:
    """A message over the limit is refused at its header, and we send none such."""
    limits = Limits(max_message=1000)
    one, other = pair(limits=limits)
    introduce(one, other)
    with pytest.raises(LocalProtocolError):
        one.start_bamboo([1000])
    assert one.can_send(900)
    assert not one.can_send(1000)
    with pytest.raises(RemoteProtocolError):
        list(other.receive_data(encode_header(8, 1001), 0.0))


def test_announced_items_must_be_written_exactly() -> None:
    """An item larger or smaller than announced is our own mistake and never sent."""
    one, other = pair()
    introduce(one, other)
    writer = one.start_bamboo([5])
    with pytest.raises(LocalProtocolError, match="larger"):
        writer.write(b"123456")
    writer.write(b"1234")
    with pytest.raises(LocalProtocolError, match="smaller"):
        writer.send()
    assert one.data_to_send() == b""


def test_long_lists_are_split() -> None:
    """Lists longer than a box for the deployed peer go in several messages; their parts add up."""
    one, other = make(ALICE, 1, mark=False), make(BOB, 2, mark=False)
    introduce(one, other)
    have = [HaveItem(ALICE.public, number, number + 1) for number in range(1000)]
    assert one.send_have(have) > 1
    messages = messages_in(one.data_to_send())
    assert max(map(len, messages)) <= 16_352 + 40 + 4
    events = [event for message in messages for event in other.receive_data(message, 0.0)]
    assert [item for event in events if isinstance(event, HaveReceived) for item in event.items] == have


# -- malformed messages, sealed with the right key ------------------------------------------------------------------


def craft(kind: int, plaintext: bytes, number: int = 0) -> tuple[bytes, object]:
    """A well sealed box with any content, and the connection it is for."""
    one, other = pair()
    introduce(one, other)
    nonce = number.to_bytes(24, "big")
    box = nonce + crypto_secretbox(plaintext, nonce, other.boxes.session_keys.receive)
    return encode_header(kind, len(box)) + box, other


AUTHOR = b"\x78\x2b" + b"0" * 43
# Two CBOR byte strings. Together they are three items of a BAMBOO, but the first one ends inside of an entry.
DIVIDED = b"".join(
    b"\x59" + len(part).to_bytes(2, "big") + part for part in (ITEMS[0] + ITEMS[1][:100], ITEMS[1][100:] + ITEMS[2])
)
MALFORMED = {
    "HAVE is no array": (5, b"\x00"),
    "HAVE with bytes behind it": (5, b"\x80\x00"),
    "HAVE item too short": (5, b"\x81\x82" + AUTHOR + b"\x00"),
    "HAVE item too long": (5, b"\x81\x84" + AUTHOR + b"\x00\x01\x01"),
    "HAVE with sequence number 0": (5, b"\x81\x83" + AUTHOR + b"\x00\x00"),
    "HAVE with a negative log id": (5, b"\x81\x83" + AUTHOR + b"\x20\x01"),
    "HAVE with a short identity": (5, b"\x81\x83\x78\x2a" + b"0" * 42 + b"\x00\x01"),
    "HAVE with an identity that is not base62": (5, b"\x81\x83\x78\x2b" + b"!" * 43 + b"\x00\x01"),
    "HAVE nested too deep": (5, b"\x81\x81\x83" + AUTHOR + b"\x00\x01"),
    "HAVE that claims more than there is": (5, b"\x9a\x00\x03\xff\xff"),
    "WANT item without anything": (6, b"\x81\x80"),
    "WANT item with five parts": (6, b"\x81\x85" + AUTHOR + b"\x00\x01\x02\x03"),
    "WANT from 3 to 2": (6, b"\x81\x84" + AUTHOR + b"\x00\x03\x02"),
    "WANT from 0": (6, b"\x81\x84" + AUTHOR + b"\x00\x00\x02"),
    "BAMBOO is no array": (8, b"\x40"),
    "BAMBOO with an integer": (8, b"\x81\x01"),
    "BAMBOO with an empty item": (8, b"\x81\x60"),
    "BAMBOO with half an entry": (8, b"\x81\x58\x64" + ITEMS[0][:100]),
    "BAMBOO with a payload cut short": (8, b"\x81\x59\x00" + bytes([len(ITEMS[0]) - 1]) + ITEMS[0][:-1]),
    "BAMBOO with an entry divided among two items": (8, b"\x82" + DIVIDED),
    "BAMBOO with bytes behind it": (8, b"\x80\x80"),
    "BAMBOO of indefinite length": (8, b"\x9f\xff"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_content_ends_the_connection(name: str) -> None:
    """Content that breaks the format, though sealed with the right key, is refused as the peer's fault."""
    message, connection = craft(*MALFORMED[name])
    with pytest.raises(RemoteProtocolError):
        for event in connection.receive_data(message, 0.0):  # type: ignore[attr-defined]
            if isinstance(event, BambooReceived):
                list(event.entries)


def test_the_number_of_entries_is_bounded() -> None:
    """Entries beyond the limit are refused, in items of their own and within one item alike."""
    for items in (ITEMS[:4], [b"".join(ITEMS[:4])]):
        one, other = make(ALICE, 1), make(BOB, 2, limits=Limits(max_entries_per_message=3))
        introduce(one, other)
        send_items(one, items)
        with pytest.raises(RemoteProtocolError):
            carry(one, other)


@given(st.sampled_from([5, 6, 8]), st.binary(max_size=120))
def test_any_content_is_taken_or_refused(kind: int, content: bytes) -> None:
    """Whatever stands in a box, the outcome is an event or a ``RemoteProtocolError``."""
    message, connection = craft(kind, content or b"\x80")
    try:
        for event in connection.receive_data(message, 0.0):  # type: ignore[attr-defined]
            if isinstance(event, BambooReceived):
                list(event.entries)
    except RemoteProtocolError:
        pass


@given(st.data())
def test_any_order_of_messages_is_taken_or_refused(data: st.DataObject) -> None:
    """Messages of a real session in any order, any number of times, cut anywhere: an event or a refusal."""
    one, other = pair()
    recorded = []
    for _ in range(2):
        sent = messages_in(one.data_to_send())
        recorded += sent
        for message in sent:
            assert list(other.receive_data(message, 0.0))
        carry(other, one)
    one.send_have([HaveItem(ALICE.public, 1, 1)])
    one.send_want([WantItem(ALICE.public)])
    send_items(one, ITEMS[:2])
    recorded += messages_in(one.data_to_send())
    receiver = make(BOB, 2)
    order = data.draw(st.lists(st.sampled_from(recorded), max_size=8))
    stream = b"".join(order)
    cut = data.draw(st.integers(0, len(stream)))
    try:
        for part in (stream[:cut], stream[cut:]):
            for event in receiver.receive_data(part, 0.0):
                if isinstance(event, BambooReceived):
                    list(event.entries)
    except RemoteProtocolError:
        with pytest.raises(LocalProtocolError):
            list(receiver.receive_data(b"", 0.0))
