"""The worked examples: messages both ways, cut at every byte; item sequences; a whole session, byte by byte.

Specification: docs/specs/proposals.md, "Setup", "Session", "Links", "Control channel", "Data channel",
"Setups and bymux packets", "Control messages", "Data messages", "Item sequences", "A whole session".
"""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from culm.bamboo import MAX_U64
from culm.errors import EncodingError, Truncated
from culm.proposals import (
    EVERYTHING,
    NOTHING,
    Adjust,
    Cancel,
    Code,
    Connection,
    Eagerness,
    Limits,
    Offered,
    Proposal,
    Setup,
    Wish,
)
from culm.proposals.control import pull_control, push_control
from culm.proposals.data import (
    Apology,
    Compressed,
    Marker,
    Metadata,
    Notify,
    Raw,
    Skip,
    SkipBytes,
    Switch,
    Why,
    pull_data,
    push_data,
)
from culm.proposals.messages import Grant
from culm.proposals.sequence import Sequence, is_self_contained
from tests.memory import MemoryStore
from tests.proposals.examples import H1, H3, KEY, LOG, OTHER_1, OTHER_2, store_of

FILE = Path(__file__).parents[1] / "vectors" / "proposals" / "examples.json"
EXAMPLES = json.loads(FILE.read_text())
BYTES: dict[str, list[str]] = EXAMPLES["messages"]
NAMES: dict[str, str] = EXAMPLES["names"]


def limited(limit: int) -> Eagerness:
    """Payloads up to a size."""
    return Eagerness(Wish.LIMITED, limit)


def metadata(seq: int, *, backlink: bool = False) -> Metadata:
    """The metadata of an example entry."""
    entry = LOG.entries[seq - 1]
    return Metadata(entry.is_end, entry.backlink if backlink else None, entry.size, entry.payload_hash, entry.signature)


CONTROL: dict[str, list[Any]] = {
    "T11": [Grant(4), Grant(300), Grant(MAX_U64)],
    "T12": [Proposal(0, KEY, 0, 1, 1, 2, 2)],
    "T13": [Proposal(1, KEY, 300, 1, 1, eagerness=NOTHING, mandatory=True)],
    "T14": [Proposal(2, KEY, 0, 5, 4, hash=H1, least=1, greatest=65536, eagerness=limited(1000))],
    "T15": [Proposal(4, KEY, 0, 1, None, 1, 1, H1, 7)],
    "T16": [Proposal(3, KEY, 0, 4, 4, 40, 40, H1, payload_only=True, sparse=True)],
    "T17": [Adjust(0, EVERYTHING, may_skip=True)],
    "T18": [Adjust(2, limited(4096), end=7, upper=8, least=1, greatest=32768)],
    "T19": [Adjust(300, may_skip=True), Adjust(0, NOTHING), Adjust(1, greatest=247), Adjust(6, end=5)],
    "T20": [Adjust(6, EVERYTHING, may_skip=True, end=5, upper=5, least=0, greatest=MAX_U64)],
    "T21": [Cancel(0, Code(code)) for code in range(128, 133)],
    "T22": [Cancel(2, Code.END_OF_LOG, seq=5)],
}
DATA: dict[str, list[Any]] = {
    "T27": [Switch(0), Switch(300), Marker(0), Marker(300)],
    "T28": [
        Notify(1),
        Notify(5),
        Skip(Why.TOO_SMALL),
        Skip(Why.TOO_LARGE),
        Skip(Why.NOT_AVAILABLE),
        SkipBytes(100),
        SkipBytes(1000),
        Apology(),
    ],
    "T31": [metadata(1)],
    "T32": [None, metadata(3)],
    "T33": [metadata(4)],
    "T34": [None, metadata(4, backlink=True)],
    "T35": [metadata(5)],
}


def rows(table: dict[str, list[Any]]) -> list[Any]:
    """Each message with its bytes."""
    return [
        pytest.param(message, bytes.fromhex(text), id=f"{name} {at}")
        for name, messages in table.items()
        for at, (message, text) in enumerate(zip(messages, BYTES[name], strict=True))
        if message is not None
    ]


def test_the_example_log() -> None:
    """The entries are those of the page."""
    assert [entry.hash.hex() for entry in LOG.entries] == [NAMES[f"h{seq}"] for seq in range(1, 6)]
    assert LOG.entries[0].encoded.hex() == NAMES["E1"]
    assert LOG.entries[1].encoded.hex() == NAMES["E2"]
    assert (OTHER_1.encoded.hex(), OTHER_2.encoded.hex()) == (NAMES["E1'"], NAMES["E2'"])


@pytest.mark.parametrize(("message", "encoded"), rows(CONTROL))
def test_control_messages(message: Any, encoded: bytes) -> None:
    """Control messages, both ways; cut anywhere they are not all there, and what follows does not matter."""
    assert push_control(message) == encoded
    assert pull_control(encoded + b"\xff" * 700) == (message, len(encoded))
    for cut in range(len(encoded)):
        with pytest.raises(Truncated):
            pull_control(encoded[:cut])


@pytest.mark.parametrize(("message", "encoded"), rows(DATA))
def test_data_messages(message: Any, encoded: bytes) -> None:
    """Data messages, both ways; cut anywhere they are not all there, and what follows does not matter."""
    assert push_data(message) == encoded
    assert pull_data(encoded + b"\xff" * 300) == (message, len(encoded))
    for cut in range(len(encoded)):
        with pytest.raises(Truncated):
            pull_data(encoded[:cut])


def test_bodies() -> None:
    """T29, T30: the heads of messages with bytes of payloads."""
    raw, empty = (bytes.fromhex(text) for text in BYTES["T29"])
    assert pull_data(raw) == (Raw(3), 2)
    assert push_data(Raw(3)) + b"two" == raw
    assert push_data(Raw(0)) == empty
    (compressed,) = (bytes.fromhex(text) for text in BYTES["T30"])
    assert pull_data(compressed) == (Compressed(20, 10), 3)
    assert push_data(Compressed(20, 10)) == compressed[:3]


def test_cancellations_with_entries() -> None:
    """T23, T24: an entry of another hash, and a fork."""
    one = Cancel(2, Code.HASH_DIFFERS, (OTHER_1,))
    assert push_control(one).hex() == BYTES["T23"][0] + NAMES["E1'"]
    assert len(push_control(one)) == 168
    two = Cancel(2, Code.FORKED, (LOG.entries[1], OTHER_2))
    encoded = push_control(two)
    assert (len(encoded), blake2b(encoded, digest_size=16).hexdigest()) == (466, BYTES["T24"][1])
    for message in (one, two):
        assert pull_control(push_control(message)) == (message, len(push_control(message)))


def test_longer_numbers() -> None:
    """T26: numbers may be longer than they have to be."""
    assert pull_control(bytes.fromhex("80f800"))[0] == Cancel(0, Code.DO_NOT_RETRY)


@pytest.mark.parametrize(
    "text",
    ["88", "9f", "8600" + "00", "f00003" + "00" * 40, "8502" + "07", "080600", "040600"],
    ids=["88", "9f", "end of log at 0", "start 0", "no entry", "end 0", "upper 0"],
)
def test_malformed_control_messages(text: str) -> None:
    """T25, and sequence numbers that are zero, and entries that are none."""
    with pytest.raises(EncodingError) as caught:
        pull_control(bytes.fromhex(text))
    assert not isinstance(caught.value, Truncated)


@pytest.mark.parametrize("text", [*BYTES["T37"][:5], "0a", "0f", "1f", "21", "7f", "82", "ff", "80f800" + "00" * 200])
def test_malformed_data_messages(text: str) -> None:
    """T37: first bytes that no message begins with, and sizes that are not in their shortest form."""
    with pytest.raises(EncodingError) as caught:
        pull_data(bytes.fromhex(text))
    assert not isinstance(caught.value, Truncated)


def test_a_notify_only_request_begins_with_a0() -> None:
    """T25: the byte that the document calls unused and needs."""
    assert push_control(Proposal(0, KEY, 0, 1, eagerness=NOTHING))[:1] == b"\xa0"


# -- setup -------------------------------------------------------------------------------------------------------


def test_setups() -> None:
    """T1 to T3: modes and windows follow from both."""
    a, b = (Setup.pull(bytes.fromhex(text))[0] for text in BYTES["T1"])
    assert a.agreed(b) == Setup(sends_greedily=True, takes_greedily=False, send_window=1024, receive_window=0)
    assert a.encode().hex() == BYTES["T1"][0]
    a, b = (Setup.pull(bytes.fromhex(text))[0] for text in BYTES["T2"])
    assert a.agreed(b) == Setup(sends_greedily=False, takes_greedily=True, send_window=0, receive_window=0)
    assert Setup.pull(b"\xfd\x00\x00")[0] == Setup.pull(b"\x01\x00\x00")[0]
    for text in BYTES["T1"]:
        for cut in range(len(bytes.fromhex(text))):
            with pytest.raises(Truncated):
                Setup.pull(bytes.fromhex(text)[:cut])


# -- sequences ---------------------------------------------------------------------------------------------------

INF = None
SEQUENCES = [
    ("T38", Proposal(0, KEY, 0, 1, 1, 2, 2), "m1 p1 m2 p2"),
    ("T38", Proposal(0, KEY, 0, 1, 1, 2, 4), "m1 p1 m2 p2 m3 m4"),
    ("T39", Proposal(0, KEY, 0, 5, 1, 7, 13), "m1 m4 m5 p5 m6 p6 m7 p7 m8 m12 m13"),
    ("T40", Proposal(0, KEY, 0, 5, 4, 7, 8), "m4 m5 p5 m6 p6 m7 p7 m8"),
    ("T40", Proposal(0, KEY, 0, 5, 5, 7, 7), "m5 p5 m6 p6 m7 p7"),
    ("T41", Proposal(0, KEY, 0, 23, 1, 23, 40), "m1 m4 m13 m17 m21 m22 m23 p23 m24 m25 m26 m39 m40"),
    ("T41", Proposal(0, KEY, 0, 23, 21, 23, 25), "m21 m22 m23 p23 m24 m25"),
    ("T42", Proposal(0, KEY, 0, 1, 1, 40, 40, sparse=True), "m1 p1 m4 p4 m13 p13 m40 p40"),
    (
        "T43",
        Proposal(0, KEY, 0, 5, 1, 30, 40, sparse=True),
        "m1 m4 m5 p5 m6 p6 m7 p7 m8 p8 m12 p12 m13 p13 m26 p26 m30 p30 m34 m38 m39 m40",
    ),
    ("T44", Proposal(0, KEY, 0, 9, 8, 12, 13, sparse=True), "m8 m9 p9 m10 p10 m11 p11 m12 p12 m13"),
    ("T45", Proposal(0, KEY, 0, 5, None, 7, 8, H1, 7), "p5 m6 p6 m7 p7 m8"),
    ("T46", Proposal(0, KEY, 0, 5, 5, 7, 7, payload_only=True), "p5 p6 p7"),
    ("T46", Proposal(0, KEY, 0, 4, 4, 40, 40, payload_only=True, sparse=True), "p4 p13 p40"),
    ("T47", Proposal(0, KEY, 0, 10, 8), "m8 m9 m10 p10 m11 p11 m12 p12 m13 p13"),
    ("T47", Proposal(0, KEY, 0, 10, 10), "m10 p10 m11 p11 m12"),
]


@pytest.mark.parametrize(("name", "proposal", "expected"), SEQUENCES)
def test_sequences(name: str, proposal: Proposal, expected: str) -> None:
    """T38 to T47: what a proposal sends, and where each item stands."""
    sequence = Sequence.of(proposal, proposal.end, proposal.upper)
    items = [sequence.item(at) for at in range(min(sequence.total, len(expected.split())))]
    assert " ".join(f"{'p' if item.is_payload else 'm'}{item.seq}" for item in items) == expected, name
    assert proposal.end is None or sequence.total == len(items)
    for at, item in enumerate(items):
        assert sequence.index_of(item.seq, is_payload=item.is_payload) == at


def test_sequences_that_were_narrowed() -> None:
    """T48 to T50: the end and the upper pool are lowered by the confirmation."""

    def items(proposal: Proposal, end: int, upper: int | None) -> str:
        sequence = Sequence.of(proposal, end, upper)
        found = (sequence.item(at) for at in range(sequence.total))
        return " ".join(f"{'p' if item.is_payload else 'm'}{item.seq}" for item in found)

    assert items(Proposal(0, KEY, 0, 5, 5, 10, 10), 8, 10) == "m5 p5 m6 p6 m7 p7 m8 p8"
    endless = Proposal(0, KEY, 0, 5, 5)
    assert items(endless, 5, None) == "m5 p5 m6 m7 m8 m12 m13"
    assert items(endless, 5, 8) == "m5 p5 m6 m7 m8"
    assert items(Proposal(0, KEY, 0, 1, sparse=True), 40, None) == "m1 p1 m4 p4 m13 p13 m40 p40"


def test_self_contained() -> None:
    """Which proposals need nothing of the receiver's own (section 2 of the page)."""
    assert is_self_contained(Proposal(0, KEY, 0, 10, 8))
    assert is_self_contained(Proposal(0, KEY, 0, 10, 1))
    assert not is_self_contained(Proposal(0, KEY, 0, 10, 10))
    assert not is_self_contained(Proposal(0, KEY, 0, 3, 3))
    assert not is_self_contained(Proposal(0, KEY, 0, 5, None, hash=H3, offset=0))


def test_sequences_of_any_length() -> None:
    """An endless range costs nothing, wherever in it one looks."""
    sequence = Sequence.of(Proposal(0, KEY, 0, 2**63), None, None)
    assert sequence.item(10**18).seq == 2**63 + (10**18 - len(sequence.lower)) // 2
    assert sequence.index_of(MAX_U64, is_payload=True) == sequence.total - 1


# -- a session ---------------------------------------------------------------------------------------------------


def test_a_whole_session() -> None:
    """Section 6.6: all bytes of both sides."""
    limits = Limits(proposals=4, window=4096)
    a = Connection(MemoryStore(), proactive=True, setup=Setup(receive_window=1024), limits=limits)
    b = Connection(store_of(LOG, 1, 2, without=(2,)), proactive=False, setup=Setup(send_window=1024), limits=limits)
    said: dict[str, list[str]] = {"A": [], "B": []}
    events: list[Any] = []

    def move(name: str, one: Connection, other: Connection) -> None:
        data = one.data_to_send()
        said[name].append(data.hex())
        events.extend(other.receive_data(data, 0.0))
        for event in events:
            if isinstance(event, Offered) and other.endpoint.is_offered(event.proposal.id):
                other.endpoint.confirm(Adjust(event.proposal.id, EVERYTHING, may_skip=True))

    move("A", a, b)
    move("B", b, a)
    a.endpoint.propose(Proposal(0, KEY, 0, 1, 1, 2, 2))
    for _ in range(6):
        move("A", a, b)
        move("B", b, a)
        b.respond(140)
    assert {} == a.endpoint.exchanges == b.endpoint.exchanges
    a.close()
    move("A", a, b)
    move("B", b, a)

    assert a.is_over
    assert b.is_over
    for name in ("A", "B"):
        expected = "".join(text for who, text in EXAMPLES["session"] if who == name)
        assert "".join(said[name]) == expected
    assert len("".join(said["A"])) == 2 * 84
    assert len("".join(said["B"])) == 2 * 323
