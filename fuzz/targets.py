"""What is fuzzed: each decoder with the errors it may raise, and valid messages to start from.

A target's function returns normally or raises one of its documented errors; whatever else leaves it is a finding. Where
decoding succeeds, encoding again must give the same bytes.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from culm.bamboo import Entry, ForkProof, Identity, decode_varu64, decode_yamf, encode_varu64
from culm.bushbaby import BambooReceived, Connection, HaveItem, Limits, WantItem
from culm.bushbaby.messages import decode_bamboo, decode_have, decode_want, encode_have_item, encode_want_item
from culm.bushbaby.secretbox import OVERHEAD, open_box, seal
from culm.errors import EncodingError, MalformedEntry, RemoteProtocolError
from culm.intervals import At, FromGreatest, Reason, Regular, Single
from culm.intervals import Connection as IntervalConnection
from culm.intervals import Request as IntervalRequest
from culm.intervals.codec import pull_message, push_message
from culm.intervals.messages import Adjust, End, Lazy, ProofEntry
from culm.negentropy import ArrayStorage, Negentropy, read_ranges
from culm.ranges import (
    Range,
    RangeSet,
    decode_prefix,
    intersect,
    intersect_bytes,
    merge,
    merge_bytes,
    read_range,
    write_range,
)
from culm.store.files import BundleWriter, EntryRecord, PayloadRecord, read_records
from culm.testing import build_log
from culm.testing.memory import MemoryStore
from culm.wire.base62 import decode_base62, encode_base62
from culm.wire.cbor import push_string
from culm.wire.stlv import StlvReader, encode_header
from fuzz import proposals, sessions

if TYPE_CHECKING:
    from collections.abc import Callable


_KEY = bytes(range(32))
_LIMITS = Limits(max_message=100_000)


@dataclass(frozen=True)
class Target:
    """A decoder under test. ``run`` feeds it bytes; ``allowed`` are its documented errors; ``seeds`` are valid."""

    name: str
    run: Callable[[bytes], None]
    allowed: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]


def _varu64(data: bytes) -> None:
    number, end = decode_varu64(data)
    assert encode_varu64(number) == data[:end]


def _yamf(data: bytes) -> None:
    found, end = decode_yamf(data)
    assert found == data[:end]


def _entry(data: bytes) -> None:
    entry, end = Entry.decode_prefix(data)
    assert entry.encoded == data[:end]
    assert entry.seq > 0


def _proof(data: bytes) -> None:
    assert ForkProof.decode(data).encode() == data


def _export(data: bytes) -> None:
    for record in read_records(io.BytesIO(data)):
        if isinstance(record, EntryRecord | PayloadRecord) and record.payload is not None:
            read = sum(len(piece) for piece in record.payload)
            assert read == record.payload.size


def _base62(data: bytes) -> None:
    assert encode_base62(decode_base62(data)) == data


def _stlv(data: bytes) -> None:
    reader = StlvReader(_check_stlv)
    message, rest = reader.read(memoryview(data))
    if message is not None:
        kind, value = message
        assert encode_header(kind, len(value)) + value + bytes(rest) == data


def _check_stlv(kind: int, length: int) -> None:
    if kind > 8 or length > 1000:
        raise EncodingError("over the limit")


def _box(data: bytes) -> None:
    box = bytearray(data)
    plaintext = bytes(open_box(memoryview(box), _KEY, odd_counter=True))
    again = bytearray(OVERHEAD) + plaintext
    seal(memoryview(again), _KEY, data[:24], odd_counter=True)
    assert bytes(again) == data


def _have(data: bytes) -> None:
    items = decode_have(memoryview(data), _LIMITS)
    assert b"".join(map(encode_have_item, items)) in data.replace(b"\x58\x2b", b"\x78\x2b")


def _want(data: bytes) -> None:
    items = decode_want(memoryview(data), _LIMITS)
    assert b"".join(map(encode_want_item, items)) in data.replace(b"\x58\x2b", b"\x78\x2b")


def _bamboo(data: bytes) -> None:
    for entry, payload in decode_bamboo(memoryview(data), _LIMITS):
        assert len(payload) == entry.size


def _peers() -> tuple[Connection, Connection]:
    """Two connections of fixed secrets; a nonce counts up."""
    made = []
    for number in (1, 2):
        counter = iter(range(number * 1000, number * 1000 + 999))
        made.append(
            Connection(
                Identity(bytes([number]) * 32),
                b"fuzz",
                random_bytes=lambda size, counter=counter: next(counter).to_bytes(size, "big"),  # type: ignore[misc]
                ephemeral_secret=bytes([10 + number]) * 32,
                limits=_LIMITS,
            )
        )
    return made[0], made[1]


def _session_stream() -> bytes:
    """All that one side of a whole session says."""
    one, other = _peers()
    stream = b""
    for _ in range(2):
        for data in one.data_to_send():
            stream += data
            list(other.receive_data(data))
        for data in other.data_to_send():
            list(one.receive_data(data))
    log = build_log(2, payload_size=9)
    one.send_have([HaveItem(log.identity.public, 0, 2)])
    one.send_want([WantItem(log.identity.public)])
    items = [entry.encoded + log.payloads[entry.hash] for entry in log.entries]
    writer = one.start_bamboo([len(item) for item in items])
    for item in items:
        writer.write(item)
    writer.send()
    return stream + b"".join(one.data_to_send())


def _connection(data: bytes) -> None:
    _, other = _peers()
    for event in other.receive_data(data):
        if isinstance(event, BambooReceived):
            list(event.entries)


def _range(data: bytes) -> None:
    item, end = decode_prefix(data)
    assert item.encode() == data[:end]
    assert read_range(write_range(item)) == item
    other = Range(40, 121, sparse=True, forbidden=(45,))
    for operation, on_bytes in ((merge, merge_bytes), (intersect, intersect_bytes)):
        found, exact = operation(item, other)
        assert on_bytes(data[:end], other.encode()) == (found.encode(), exact)


def _range_set(data: bytes) -> None:
    some = RangeSet.decode(data)
    assert RangeSet.decode(some.encode()) == some


_RECORDS = ArrayStorage.of((number // 3, bytes([number % 251]) * 32) for number in range(400))


def _negentropy(data: bytes) -> None:
    """Both sides of a session take a message; what they answer is well formed and within its limit."""
    initiator = Negentropy(_RECORDS, 4096)
    initiator.initiate()
    for session in (Negentropy(_RECORDS, 4096), initiator):
        answer = session.reconcile(data)
        if answer is not None:
            assert len(answer) <= 4096
            list(read_ranges(answer))


def _negentropy_messages() -> tuple[bytes, ...]:
    """What two sides of a session say."""
    few = ArrayStorage.of((number // 3, bytes([number % 251]) * 32) for number in range(0, 400, 3))
    first = Negentropy(few).initiate()
    answer = Negentropy(_RECORDS, 4096).reconcile(first)
    assert answer is not None
    return first, answer, b"\x61"


class _Anything:
    """Reads messages of the interval protocol as if no start was relative."""

    def starts(self) -> bool:
        """No."""
        return False

    def has_hash(self, items: int, following: bytes) -> bool:  # noqa: ARG002
        """Where one seems to follow."""
        return following == b"\x00\x40"


def _interval_message(data: bytes) -> None:
    """What is read is written again, and then read as the same."""
    message, _ = pull_message(data, 0, _Anything())
    encoded = push_message(message)
    assert pull_message(encoded, 0, _Anything()) == (message, len(encoded))


_STORE = MemoryStore()
_LOG = build_log(14, payload_size=9)
for _entry_, _payload_ in _LOG.items():
    _STORE.put(_entry_, bytes(_payload_ or b""))
_ASKED = (
    IntervalRequest(0, _LOG.identity.public, 0, Regular(At(1, 0), FromGreatest(0))),
    IntervalRequest(1, _LOG.identity.public, 0, Regular(At(9, 0, own=_LOG.entries[8].hash), At(3))),
    IntervalRequest(2, _LOG.identity.public, 0, Regular(FromGreatest(3), FromGreatest(0)), verified=False),
    IntervalRequest(3, _LOG.identity.public, 0, Single(5), lazy=True),
)
_GRANTS = b"\xb0\x32\xc0\xfa\x01\x00\x00"


def _ask(connection: IntervalConnection) -> None:
    """Open requests of several kinds, one of them adjusted and one cancelled."""
    for asked in _ASKED:
        connection.request(*asked.log, asked.interval, verified=asked.verified, lazy=asked.lazy)
    connection.adjust(3)
    connection.cancel(0)


def _intervals(data: bytes) -> None:
    """An endpoint with requests of its own takes anything, and answers what it is asked."""
    connection = IntervalConnection(_STORE)
    list(connection.receive_data(_GRANTS))
    _ask(connection)
    try:
        for _ in connection.receive_data(data):
            pass
    finally:
        assert len(connection.theirs) <= connection.limits.requests
        connection.respond(1 << 20)
        connection.data_to_send()


def _interval_streams() -> tuple[bytes, ...]:
    """What two endpoints say, in both directions."""
    sides = IntervalConnection(_STORE), IntervalConnection(MemoryStore())
    said = [sides[0].data_to_send(), sides[1].data_to_send()]
    for side, data in zip(sides, reversed(said), strict=True):
        list(side.receive_data(data))
    _ask(sides[1])
    asking = sides[1].data_to_send()
    list(sides[0].receive_data(asking))
    sides[0].respond(1 << 20)
    return said[0] + sides[0].data_to_send(), asking


def _seeds() -> dict[str, tuple[bytes, ...]]:
    log = build_log(14, payload_size=9)
    last = log.append(b"", is_end=True)
    fork = log.make(5, b"another")
    huge = Identity(bytes(32)).create_entry(
        log_id=2**64 - 1,
        seq=2**64 - 1,
        backlink=last.hash,
        lipmaalink=last.hash,
        size=2**64 - 1,
        payload_hash=last.payload_hash,
        is_end=True,
    )
    proof = ForkProof.of(log.entries[4], fork)
    assert proof is not None
    author = log.identity.public
    have = [HaveItem(author, 0, 20), HaveItem(author, 2**64 - 1, 2**64 - 1)]
    want = [WantItem(author), WantItem(author, 7), WantItem(author, 0, 20), WantItem(author, 0, None, 2, 3)]
    items = [entry.encoded + log.payloads[entry.hash] for entry in log.entries[:3]]
    bamboo = bytearray(b"\x82")
    push_string(bamboo, items[0], as_text=True)
    push_string(bamboo, items[1] + items[2], as_text=False)
    box = bytearray(OVERHEAD) + bytes(500)
    seal(memoryview(box), _KEY, bytes(24), odd_counter=True)
    bundle = io.BytesIO()
    writer = BundleWriter(bundle)
    writer.proof(proof)
    for entry in log.entries[:5]:
        writer.entry(entry)
        writer.payload(entry.place, entry.size, [log.payloads[entry.hash]])
    writer.close()
    plain = b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries[:5])
    texts = ("5", "1..", "1..10 sparse", "8..10 head 4 tail 13", "300..400 sizes 11..999 without 310,333", "nothing")
    ranges = [read_range(text) for text in texts]
    numbers = (0, 1, 247, 248, 255, 256, 65535, 65536, 2**32, 2**64 - 1)
    return {
        "base62": (encode_base62(author), encode_base62(bytes(32))),
        "stlv": (encode_header(1, 5) + b"12345", encode_header(8, 300) + bytes(300)),
        "box": (bytes(box),),
        "have": (b"\x82" + b"".join(map(encode_have_item, have)), b"\x80"),
        "want": (b"\x84" + b"".join(map(encode_want_item, want)), b"\x80"),
        "bamboo": (bytes(bamboo), b"\x80"),
        "connection": (_session_stream(),),
        "varu64": tuple(encode_varu64(number) for number in numbers),
        "yamf": (last.hash,),
        "entry": tuple(entry.encoded for entry in (log.entries[0], log.entries[1], log.entries[3], last, huge)),
        "proof": (proof.encode(),),
        "negentropy": _negentropy_messages(),
        "range": tuple(item.encode() for item in ranges),
        "range_set": (RangeSet(ranges).encode(), RangeSet().encode()),
        "interval_message": (
            *(push_message(asked) for asked in _ASKED),
            push_message(End(Reason.FULL_PROOF, (ProofEntry.of(log.entries[4]), ProofEntry.of(fork)), activates=1)),
            push_message(Adjust(5, 6, 11, 1000)),
            push_message(Lazy(5, 7, last.hash)),
        ),
        "intervals": _interval_streams(),
        "export": (plain, bundle.getvalue()),
        **proposals.seeds(),
        **sessions.seeds(),
    }


def targets() -> list[Target]:
    """All targets."""
    seeds = _seeds()
    return [
        Target("varu64", _varu64, (EncodingError,), seeds["varu64"]),
        Target("yamf", _yamf, (EncodingError,), seeds["yamf"]),
        Target("entry", _entry, (MalformedEntry,), seeds["entry"]),
        Target("proof", _proof, (MalformedEntry,), seeds["proof"]),
        Target("base62", _base62, (EncodingError,), seeds["base62"]),
        Target("stlv", _stlv, (EncodingError,), seeds["stlv"]),
        Target("box", _box, (RemoteProtocolError,), seeds["box"]),
        Target("have", _have, (EncodingError,), seeds["have"]),
        Target("want", _want, (EncodingError,), seeds["want"]),
        Target("bamboo", _bamboo, (EncodingError,), seeds["bamboo"]),
        Target("connection", _connection, (RemoteProtocolError,), seeds["connection"]),
        Target("negentropy", _negentropy, (RemoteProtocolError,), seeds["negentropy"]),
        Target("interval_message", _interval_message, (EncodingError,), seeds["interval_message"]),
        Target("intervals", _intervals, (RemoteProtocolError,), seeds["intervals"]),
        Target("proposals_control", proposals.control, (EncodingError,), seeds["proposals_control"]),
        Target("proposals_data", proposals.data_message, (EncodingError,), seeds["proposals_data"]),
        Target("proposals", proposals.session, (RemoteProtocolError,), seeds["proposals"]),
        Target("lzfoo", proposals.lzfoo, (EncodingError,), seeds["lzfoo"]),
        Target("session_message", sessions.message, (RemoteProtocolError,), seeds["session_message"]),
        Target("session_names", sessions.names, (RemoteProtocolError,), seeds["session_names"]),
        Target("session_stranger", sessions.stranger, (RemoteProtocolError,), seeds["session_stranger"]),
        Target("session_peer", sessions.peer, (RemoteProtocolError,), seeds["session_peer"]),
        Target("range", _range, (EncodingError,), seeds["range"]),
        Target("range_set", _range_set, (EncodingError,), seeds["range_set"]),
        Target("export", _export, (EncodingError,), seeds["export"]),
    ]
