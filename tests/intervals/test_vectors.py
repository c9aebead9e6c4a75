"""The worked examples of the specification: plans, messages, item bytes, responses over time.

Specification: docs/specs/intervals.md, "Relative bounds", "Immediate payloads", "Framing", "Items on the wire",
"Adjustments", "Eager messages", "Lazy messages", "The end of a response", "Interval examples", "Responses over time",
"Message bytes", "Item bytes", "A real log".
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from typing import Any

import pytest

from culm.bamboo import Identity
from culm.errors import EncodingError, Truncated
from culm.intervals import (
    Announced,
    At,
    Ended,
    Forks,
    FromGreatest,
    FromLeast,
    Interval,
    MetadataOnly,
    PayloadReceived,
    Reason,
    Regular,
    Request,
    Single,
    SingleOffset,
    Started,
)
from culm.intervals.codec import pull_message, push_message
from culm.intervals.messages import (
    Activate,
    Adjust,
    Cancel,
    Eager,
    End,
    Lazy,
    Message,
    ProofEntry,
    RequestCredit,
    ResponseCredit,
)
from culm.intervals.planner import resolve
from culm.testing.builders import LogBuilder, build_log
from tests.intervals.examples import AUTHOR, EXAMPLES, MALFORMED, example_hash, expand, held, read_bound, read_interval
from tests.intervals.pair import Pair, Side
from tests.intervals.planning import Stop, plan

# -- plans ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", EXAMPLES["intervals"], ids=lambda row: f"{row['number']} {row['request']}")
def test_plans(row: dict[str, Any]) -> None:
    """Every example of an interval over a store gives its items, and stops where and why it says."""
    request = Request(0, AUTHOR, 5, read_interval(row["request"]), payload_offset=0 if row["immediate"] else None)
    found = plan(request, held(row["held"]))
    items = [f"{'p' if item.is_payload else 'm'}_{item.seq}" for item in found.items]
    if found.next is None:
        state = {Stop.END: "full", Stop.OPEN_END: "open", Stop.UNRESOLVED: "unresolved"}[found.stop]
    else:
        state = f"@{'p' if found.next.is_payload else 'm'}_{found.next.seq}"
    direction = None if found.ascending is None else "asc" if found.ascending else "desc"

    assert (row["start"], row["items"], row["state"]) == (found.start, items, state)
    if row["direction"] is not None:
        assert row["direction"] == direction


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("B1", {"...0": 4, "...1": 5, "...2": 6, "...99": 6, "0...": 7, "1...": 6, "99...": 6}),
        ("B2", {"...0": 1, "...12": 13, "...13": 14, "...99": 14, "0...": 13, "12...": 1, "99...": 1}),
        ("B4", {"...0": 5, "...5": 10, "...9": 10, "0...": 9, "4...": 5, "5...": 4, "99...": 4}),
        ("B5", {"...0": None, "0...": None}),
    ],
)
def test_relative_bounds(name: str, bounds: dict[str, int | None]) -> None:
    """Offsets resolve to the numbers of the examples, clipped to the first payload that is missing."""
    assert bounds == {text: resolve(read_bound(text), held(name)) for text in bounds}


def test_size_filters() -> None:
    """A response stops right before the first payload of a size that is not wanted; bounds are included."""
    request = Request(0, AUTHOR, 5, read_interval("(9<0>, 11<0>)"))

    def items(**bounds: Any) -> int:
        sizes = {9: 10, 10: 500, 11: 10}
        return len(plan(replace(request, **bounds), held("B2"), sizes.__getitem__).items)

    assert items(greatest_size=100) == 3
    assert items(least_size=10, greatest_size=500) == 6
    assert items(least_size=11) == 1
    assert items(least_size=600, greatest_size=5) == 1


# -- messages -------------------------------------------------------------------------------------------------------

H11, H22, H33, H44, H55, H66 = (example_hash(digits) for digits in ("11", "22", "33", "44", "55", "66"))
S77, S88 = bytes([0x77]) * 64, bytes([0x88]) * 64
_ZERO, _HUNDRED = FromGreatest(0), FromGreatest(100)


def _request(number: int, interval: Interval, log_id: int = 5, **options: Any) -> Request:
    return Request(number, AUTHOR, log_id, interval, **options)


def _proof_entry(seq: int, payload: bytes, signature: bytes, *links: bytes) -> ProofEntry:
    first, second = links or (None, None)
    return ProofEntry(False, seq, first, second, 10, payload, signature)


MESSAGES: list[Message] = [
    RequestCredit(5),
    ResponseCredit(65536),
    _request(0, Regular(At(4), At(7))),
    _request(1, Regular(At(7), At(4))),
    _request(1, Single(4), verified=False, lazy=True),
    _request(2, Regular(At(11, 0, own=H11), _ZERO)),
    _request(3, Regular(_ZERO, FromLeast(0))),
    _request(4, Regular(_HUNDRED, _ZERO), lazy=True),
    _request(1000, Regular(FromLeast(0), At(20, 0)), log_id=300),
    _request(5, Single(500, 0, 0), payload_offset=1000),
    _request(
        6,
        Regular(At(300, 1, H22, H33), At(200, 0, own=H44, outer=H55)),
        forks=Forks.LOCAL,
        anchor=(150, H11),
        least_size=10,
        greatest_size=1_000_000,
    ),
    _request(7, MetadataOnly(5, ascending=True, dist=2)),
    _request(8, MetadataOnly(8, ascending=False), forks=Forks.LOCAL),
    _request(8, MetadataOnly(9, ascending=False, dist=1, outer=H11, own=H22)),
    _request(9, SingleOffset(_ZERO)),
    _request(10, SingleOffset(FromLeast(2))),
    _request(11, Single(9, 1, 1, H11, H22, H33)),
    Eager(3),
    Eager(3, 7),
    Eager(0),
    Lazy(3, 0, H66),
    Lazy(6, 200, H66, 7),
    Lazy(0, 1000),
    End(Reason.CANCELLED),
    End(Reason.OTHER),
    End(Reason.OTHER, grants=True),
    End(Reason.CANCELLED, grants=True, activates=9),
    End(Reason.PARTIAL_PROOF, (_proof_entry(4, H33, S77, H11, H22),)),
    End(Reason.FULL_PROOF, (_proof_entry(2, H22, S77, H11, H11), _proof_entry(2, H33, S88, H11, H11))),
    End(Reason.FULL_PROOF, (_proof_entry(1, H22, S77), _proof_entry(1, H33, S88)), activates=12),
    Cancel(300),
    Activate(1),
    Activate(-5),
    Adjust(5, 6),
    Adjust(5, 6, 11),
    Adjust(5, 6, 11, 1000),
]
VALID = list(zip(EXAMPLES["messages"], MESSAGES, strict=True))


class Reader:
    """What has to be known of the active request to read a message."""

    def __init__(self, message: Message) -> None:
        self._starts = isinstance(message, Eager | Lazy) and message.start is not None
        self._has_hash = isinstance(message, Lazy) and message.hash is not None

    def starts(self) -> bool:
        """Whether a start is written."""
        return self._starts

    def has_hash(self, items: int, following: bytes) -> bool:  # noqa: ARG002
        """Whether a hash is written."""
        return self._has_hash


@pytest.mark.parametrize(
    ("example", "message"), VALID, ids=lambda value: value["message"] if isinstance(value, dict) else ""
)
def test_messages(example: dict[str, Any], message: Message) -> None:
    """Every example message is written as it stands there, and read back: whole, cut anywhere, with more behind."""
    encoded = expand(example["bytes"])
    data = encoded[len(push_message(message)) :]
    reader = Reader(message)

    assert example["length"] == len(encoded)
    assert encoded == push_message(message) + data
    assert (message, len(encoded) - len(data)) == pull_message(encoded + b"\xff\x00", 0, reader)
    for size in range(len(encoded) - len(data)):
        with pytest.raises(Truncated):
            pull_message(encoded[:size], 0, reader)


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_messages(text: str) -> None:
    """What breaks the format is refused, with the offset of where it does."""
    encoded = expand(text)
    with pytest.raises(EncodingError) as caught:
        pull_message(encoded + bytes(600), 0, Reader(Cancel(0)))
    assert not isinstance(caught.value, Truncated)
    assert 0 <= caught.value.offset < len(encoded)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b000", RequestCredit(0)),
        ("b0f805", RequestCredit(5)),  # not the shortest form
        ("e000", Activate(0)),
        ("028f 0b PK 05090101 H11 H22 H33", _request(11, Single(9, 1, 1, H11, H22, H33))),  # bits that mean nothing
        ("02ff 07 PK 050502 H11 H22", _request(7, MetadataOnly(5, ascending=True, dist=2, outer=H11, own=H22))),
        # The short form of a proof's entry, whose links lead to one entry; the hash in a longer form than needed.
        ("a40002 H11 0a H33 S77", End(Reason.PARTIAL_PROOF, (_proof_entry(2, H33, S77, H11, H11),))),
        ("a40001 0a f800f840" + "33" * 64 + " S77", End(Reason.PARTIAL_PROOF, (_proof_entry(1, H33, S77),))),
    ],
)
def test_odd_messages(text: str, message: Message) -> None:
    """What is valid although a careful sender would write it otherwise is read."""
    assert message == pull_message(expand(text), 0, Reader(message))[0]


# -- item bytes -----------------------------------------------------------------------------------------------------


@cache
def long_log() -> LogBuilder:
    """Forty entries with payloads of ten bytes."""
    return build_log(40, payload_size=10)


def _served(log: LogBuilder, interval: Interval, **options: Any) -> tuple[Side, bytes]:
    """The item data of a response from a holder of all of the log, and the side that received it."""
    pair = Pair()
    numbers = range(1, len(log.entries) + 1)
    pair.b.put_log(log, numbers, numbers)
    if options.get("payload_offset") is not None:
        assert isinstance(interval, Regular)
        assert isinstance(interval.start, At)
        pair.a.put(log.entries[interval.start.seq - 1])
    pair.a.received.clear()
    pair.a.connection.request(log.identity.public, log.log_id, interval, **options)
    pair.settle()
    data, at = b"", 0
    received = bytes(pair.a.received)
    while at < len(received):
        message, at = pull_message(received, at, Reader(Cancel(0)))
        if isinstance(message, Eager):
            data += received[at : at + message.count]
            at += message.count
    return pair.a, data


def _expected_item_sizes(text: str) -> list[tuple[str, int]]:
    found = []
    for kind, seq, size in re.findall(r"([mp])_(\d+)(?::(\d+))?", text):
        found.append((f"{kind}_{seq}", int(size) if size else 10))
    return found


def _with_hashes(request: str, previous: Interval) -> Interval:
    """The interval that an example means by "same, bit ...": the one before, with hashes."""
    log = long_log()
    hashes = {entry.seq: entry.hash for entry in log.entries}
    assert isinstance(previous, Regular)
    start, end = previous.start, previous.end
    assert isinstance(start, At)
    assert isinstance(end, At)
    named = re.search(r"\(number (?:f\(\d+\) = )?(\d+)", request)
    number = int(named[1]) if named else 0
    if "bits 15 and 16" in request:
        return Regular(start, replace(end, own=hashes[5], outer=hashes[4]))
    if "bit 12" in request:
        return Regular(replace(start, outer=hashes[number]), end)
    return Regular(replace(start, own=hashes[number]), end)


def test_item_bytes() -> None:
    """Links are left out exactly where the examples leave them out, and everything is put back."""
    previous: Interval | None = None
    immediate = False
    for row in EXAMPLES["item_bytes"]:
        text = row["request"]
        if text.startswith("same"):
            assert previous is not None
            interval = _with_hashes(text, previous)
        else:
            interval = read_interval(text.partition(" immediate")[0])
            immediate = "immediate" in text
            if "bit 13" in text:
                interval = _with_hashes(text, interval)
        side, data = _served(long_log(), interval, payload_offset=0 if immediate else None)
        previous = interval

        assert row["total"] == len(data), text
        if "rest" not in row["items"]:
            sizes = _expected_item_sizes(row["items"])
            assert [name for name, _ in sizes] == [f"{kind}_{seq}" for kind, seq in side.items], text
            assert sum(size for _, size in sizes) == len(data), text


@pytest.mark.parametrize(
    ("length", "ascending", "descending"), [(1, 132, 132), (4, 528, 792), (13, 1716, 2772), (40, 5280, 8712)]
)
def test_totals(length: int, ascending: int, descending: int) -> None:
    """All of a log costs 132 bytes of metadata an entry upwards, and its links more downwards."""
    payloads = 10 * length
    up = Regular(At(1, 0), At(length, 0)) if length > 1 else Single(1, 0, 0)
    assert ascending + payloads == len(_served(long_log(), up)[1])
    assert descending + payloads == len(_served(long_log(), Regular(At(length, 0), At(1, 0)))[1])


@cache
def real_log() -> LogBuilder:
    """The log whose bytes the examples give."""
    log = LogBuilder(Identity(bytes(range(32))), 7)
    for payload in (b"one", b"two", b"", b"four", b"5" * 300):
        log.append(payload)
    return log


def test_the_real_log() -> None:
    """The entries of the real log hash as recorded."""
    assert "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8" == real_log().identity.public.hex()
    assert [166, 232, 232, 298, 234] == [len(entry.encoded) for entry in real_log().entries]
    assert real_log().entries[-1].hash.hex().startswith("0040b276685f24ed16c6a58a0abb5269788b6b")


@pytest.mark.parametrize(
    ("text", "total", "digest"),
    [
        ("(1<0>, 5<0>)", 972, "1db0c693007c266ad8aac2d546d276a9"),
        ("(5<0>, 1<0>)", 1302, "aa48d8b8acf4650dad7b3df76ccad692"),
        ("(<255>5<0>)", 764, "8b77957e1233bffd68efe12b5840eacd"),
        ("(5<0>, 5<255>)", 896, "61847ca446df82d8d5453814ce79d66e"),
    ],
)
def test_streams_of_the_real_log(text: str, total: int, digest: str) -> None:
    """Whole responses are the recorded bytes."""
    data = _served(real_log(), read_interval(text))[1]
    assert (total, digest) == (len(data), blake2b(data).hexdigest()[:32])


# -- over time ------------------------------------------------------------------------------------------------------


class Scene:
    """``a`` asks, ``b`` holds one of the examples' stores and gets more. Payloads are of 300 bytes."""

    def __init__(self, name: str, interval: Interval, **options: Any) -> None:
        self.log = build_log(20, payload_size=300)
        self.pair = Pair(Side(), Side(stateless=options.pop("stateless", False)))
        store = EXAMPLES["held"][name]
        self.pair.b.put_log(self.log, store["metadata"], store["payloads"])
        self.id = self.pair.a.connection.request(self.log.identity.public, self.log.log_id, interval, **options)

    def items(self) -> list[str]:
        """What came since the last time."""
        self.pair.settle()
        found, self.pair.a.items = self.pair.a.items, []
        return [f"{kind}_{seq}" for kind, seq in found]

    def gets(self, *names: str) -> list[str]:
        """``b`` gets items; what it sends then."""
        for name in names:
            entry = self.log.entries[int(name[2:]) - 1]
            self.pair.b.put(entry, self.log.payloads[entry.hash] if name[0] == "p" else None)
        return self.items()

    def gets_part(self, seq: int, size: int) -> None:
        """``b`` gets the first bytes of a payload."""
        entry = self.log.entries[seq - 1]
        self.pair.b.put(entry, self.log.payloads[entry.hash][:size])

    def announced(self) -> list[tuple[int, int, int]]:
        """Lazy messages since the last time: items, trailing bytes, last number."""
        self.pair.settle()
        events = self.pair.a.drain()
        return [(event.items, event.trailing, event.seq) for event in events if isinstance(event, Announced)]

    def ended(self) -> list[Reason | None]:
        """How requests ended since the last time."""
        return [event.reason for event in self.pair.a.drain() if isinstance(event, Ended)]


def test_paused_until_the_pool_grows() -> None:
    """T1: a response waits for a payload, then for the pool, and is over by itself."""
    scene = Scene("B1", read_interval("(4, 7)"))
    assert scene.items() == ["m_1", "m_4", "p_4", "m_5", "p_5", "m_6"]
    assert scene.gets("p_6") == ["p_6", "m_7", "p_7", "m_8"]
    assert scene.gets("p_8") == []
    assert scene.gets("m_12") == ["m_12"]
    assert scene.gets("m_13") == ["m_13"]
    assert scene.ended() == [None]


def test_relative_end_moves() -> None:
    """T2: with a relative end the response goes on with every new payload, and sends no pool after it."""
    scene = Scene("B1", read_interval("(4, 0...)"))
    assert scene.items() == ["m_1", "m_4", "p_4", "m_5", "p_5", "m_6"]
    assert scene.gets("p_6") == ["p_6", "m_7", "p_7"]
    assert scene.gets("p_8") == ["m_8", "p_8"]
    assert scene.gets("m_9") == []
    assert scene.gets("p_9") == ["m_9", "p_9"]


def test_relative_start_stays() -> None:
    """T3: a relative start is resolved once."""
    scene = Scene("B2", read_interval("(2..., 0...)"))
    assert scene.items() == ["m_1", "m_4", "m_8", "m_9", "m_10", "m_11", "p_11", "m_12", "p_12", "m_13", "p_13"]
    assert Started(scene.id, 11) in scene.pair.a.events
    assert scene.gets("m_14", "p_14") == ["m_14", "p_14"]


def test_descending_to_the_beginning() -> None:
    """T4: a descending response with an open end goes on as older entries come, and ends after the first."""
    scene = Scene("B1", read_interval("(7<1>, ...0)"))
    assert scene.items() == ["m_8", "m_7", "p_7", "m_6"]
    assert scene.gets("p_6") == ["p_6", "m_5", "p_5", "m_4", "p_4"]
    assert scene.gets("m_3", "p_3") == ["m_3", "p_3"]
    assert scene.gets("p_1") == []
    assert scene.gets("m_2", "p_2") == ["m_2", "p_2", "m_1", "p_1"]
    assert scene.ended() == [Reason.OTHER]


def test_nothing_newer_yet() -> None:
    """T5: an interval that is empty for now waits."""
    scene = Scene("B1", read_interval("(9<0>, 0...)"))
    assert scene.items() == []
    assert scene.gets("m_9", "p_9") == ["m_9", "p_9"]


def test_end_below_the_newest() -> None:
    """T6: an end some way below the newest payload moves with it, clipped to the last gap."""
    scene = Scene("B3", read_interval("(1, 1...)"))
    assert scene.items() == ["m_1", "p_1", "m_2", "p_2"]
    assert scene.gets("m_4", "p_4") == ["m_3", "p_3"]
    assert scene.gets("m_5", "p_5") == ["m_4", "p_4"]
    assert scene.gets("m_9", "p_9") == ["m_5", "p_5"]


def test_lazy_and_unverified() -> None:
    """L1: a lazy response announces what there is, the beginnings of payloads included if that was asked for."""
    scene = Scene("B1", read_interval("(4, 7)"), lazy=True, verified=False)
    assert scene.announced() == [(6, 0, 6)]
    scene.gets_part(6, 30)
    assert scene.announced() == [(0, 30, 0)]
    scene.gets_part(6, 50)
    assert scene.announced() == [(0, 50, 0)]
    scene.gets("p_6")
    assert scene.announced() == [(4, 0, 8)]


def test_lazy_and_verified() -> None:
    """L2: of what is not complete a verified response says nothing."""
    scene = Scene("B1", read_interval("(4, 7)"), lazy=True)
    assert scene.announced() == [(6, 0, 6)]
    scene.gets_part(6, 30)
    assert scene.announced() == []
    scene.gets("p_6")
    assert scene.announced() == [(4, 0, 8)]


def test_lazy_and_immediate() -> None:
    """L3: trailing bytes count from the offset asked for."""
    scene = Scene("B5", read_interval("(4)"), lazy=True, verified=False, payload_offset=100)
    scene.gets("m_1")
    scene.gets_part(4, 250)
    assert scene.announced() == [(0, 0, 0), (0, 150, 0)]
    scene.gets("p_4")
    assert scene.announced() == [(1, 0, 4)]
    assert not scene.pair.a.connection.ours.requests


@pytest.mark.parametrize(
    ("text", "items", "seq", "over"),
    [("(...0, 0...)", 6, 6, False), ("(m:<255>7)", 5, 1, True), ("(4)", 3, 4, True), ("(5, 4)", 0, 0, False)],
)
def test_lazy_answers(text: str, items: int, seq: int, over: bool) -> None:
    """L4 to L7: lazy requests are answered with one message; ours says so even if there is nothing."""
    scene = Scene("B1", read_interval(text), lazy=True)
    assert scene.announced() == [(items, 0, seq)]
    assert (scene.id not in scene.pair.a.connection.ours.requests) == over


def test_a_stateless_responder_ends() -> None:
    """A stateless responder ends where a stateful one would wait."""
    scene = Scene("B1", read_interval("(4, 7)"), stateless=True)
    assert scene.items() == ["m_1", "m_4", "p_4", "m_5", "p_5", "m_6"]
    assert scene.ended() == [Reason.OTHER]


@pytest.mark.parametrize(
    ("text", "lazy", "position", "then"),
    [
        # A1: lazy, all announced; rewound to m_11.
        ("(9<0>, 0...)", True, (11, None), ["m_11", "p_11", "m_12", "p_12", "m_13", "p_13"]),
        # The same without a position: nothing is left.
        ("(9<0>, 0...)", True, (None, None), []),
        # C unknown: the position takes the place of the start, without its pool.
        ("(0..., 3<0>)", False, (7, None), None),
    ],
)
def test_adjustments(text: str, lazy: bool, position: tuple[int | None, int | None], then: list[str] | None) -> None:
    """A1: from lazy to eager, back to a position; A6: while the start is not known, from the position on."""
    scene = Scene("B2" if then is not None else "B1", read_interval(text), lazy=lazy)
    scene.items()
    scene.pair.a.drain()
    new = scene.pair.a.connection.ours.adjust(scene.id, *position)
    found = scene.items()
    assert scene.id not in scene.pair.a.connection.ours.requests
    if then is not None:
        assert found == then
    else:
        assert (7, 0, 0) != found
        assert [event.items for event in scene.pair.a.drain() if isinstance(event, Announced)] == [3]
        assert new in scene.pair.a.connection.ours.requests


def _in_part(size: int) -> Scene:
    """``(9<0>, 13<0>)`` of which ``size`` bytes of item data came."""
    scene = Scene("B2", read_interval("(9<0>, 13<0>)"))
    scene.pair.b.connection.theirs.data_credit = size
    scene.pair.step(scene.pair.a, scene.pair.b)
    scene.pair.step(scene.pair.b, scene.pair.a)
    scene.pair.b.connection.theirs.data_credit = 0
    scene.pair.a.drain()
    return scene


def test_from_eager_to_lazy_inside_a_payload() -> None:
    """A3: all that is left is announced, the payload in progress counting when it is complete."""
    before = _served(build_log(13, payload_size=300), read_interval("(9<0>, 10<0>)"))[1]
    scene = _in_part(len(before) - 300 + 40)
    assert scene.pair.a.connection.ours.requests[scene.id].position == (3, 40)
    scene.pair.a.connection.ours.adjust(scene.id)
    assert scene.announced() == [(7, 0, 13)]
    assert not scene.pair.a.connection.ours.requests


def test_from_eager_to_lazy_inside_metadata() -> None:
    """A4: metadata of which a part was sent counts as not sent."""
    before = _served(build_log(13, payload_size=300), read_interval("(<0>9<0>)"))[1]
    scene = _in_part(len(before) + 60)
    assert scene.pair.a.connection.ours.requests[scene.id].position == (2, 0)
    scene.pair.a.connection.ours.adjust(scene.id)
    assert scene.announced() == [(8, 0, 13)]


def test_switching_at_a_position() -> None:
    """A5: the response goes on eagerly up to a byte of a payload and is lazy from there."""
    scene = _in_part(400)
    scene.pair.a.connection.ours.adjust(scene.id, 11, 100)
    scene.pair.b.connection.theirs.data_credit = 10_000
    scene.pair.settle()
    events = scene.pair.a.drain()
    data = [event.data for event in events if isinstance(event, PayloadReceived) and event.entry.seq == 11]
    assert sum(map(len, data)) == 100
    assert [(event.items, event.seq) for event in events if isinstance(event, Announced)] == [(5, 13)]


def test_lazy_up_to_a_position() -> None:
    """A2: lazy up to the position and eager from there, with links to what was only announced."""
    scene = Scene("B5", read_interval("(9<0>, 0...)"), lazy=True)
    names = [f"{kind}_{seq}" for seq in (1, 4, 8, 9, 10, 11) for kind in "mp"]
    scene.gets(*names)
    scene.pair.a.drain()
    scene.pair.a.items.clear()
    scene.pair.a.connection.ours.adjust(scene.id, 13)
    assert scene.gets("p_12", "p_13") == ["m_13", "p_13"]
    assert [(event.items, event.seq) for event in scene.pair.a.drain() if isinstance(event, Announced)] == [(2, 12)]


def test_an_adjustment_that_comes_too_late() -> None:
    """A7: if the request ended meanwhile, the new id is given back at once."""
    scene = Scene("B2", read_interval("(9<0>, 10<0>)"))
    pair = scene.pair
    pair.step(pair.a, pair.b)
    pair.b.connection.respond(1 << 20)
    new = pair.a.connection.ours.adjust(scene.id)
    pair.settle()
    assert [(event.id, event.reason) for event in pair.a.ended()] == [(scene.id, None), (new, Reason.OTHER)]
