"""What is said on the control stream and the discovery stream.

Every message stands behind its length, a VarU64. On the control stream it is a CBOR array that begins with its type; on
the discovery stream a byte says its kind. The control messages of an open session are events, too: the owner of a
connection gets them as they came.

Specification: docs/specs/culm.md, "Control messages", "Discovery messages".
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from enum import Enum, IntEnum, auto
from typing import ClassVar, NamedTuple, TypeVar

from culm.bamboo import decode_varu64, encode_varu64
from culm.errors import EncodingError, RemoteProtocolError, Truncated
from culm.ranges import RangeSet, UnreadRanges
from culm.session.interests import Key
from culm.session.limits import ID_BYTES, KEY_BYTES, LEAST_MESSAGE, MAC_BYTES, NONCE_BYTES, SIGNATURE_BYTES, Limits
from culm.wire import cbor

ItemT = TypeVar("ItemT")
ReadT = TypeVar("ReadT")

VERSION = 1
TIP_BYTES = 8
_MOST_ITEMS = 10_000  # of an array
_PART = 128  # Items that are read at a time: so many take a third of a millisecond.


class Control(IntEnum):
    """The types of messages on the control stream."""

    CHALLENGE = 0
    PROOF = 1
    WELCOME = 2
    INTERESTS = 3
    OFFERS = 4
    SETTLED = 5


class Discovery(IntEnum):
    """The kinds of messages on the discovery stream."""

    RECONCILE = 0
    ASK = 1
    NAMES = 2
    END = 3


class Offer(NamedTuple):
    """What a side has of a log.

    ``held``: which verified entries, and with which payloads; of what a peer sent it is not read yet. ``tip``: the
    first 8 bytes of the digest of the newest of them, to see a fork by. ``fork``: the lowest position of a fork that is
    known, 0 if there is none.
    """

    author: bytes
    log_id: int
    held: RangeSet
    tip: bytes = b""
    fork: int = 0

    @property
    def log(self) -> tuple[bytes, int]:
        """Author and id."""
        return self.author, self.log_id


@dataclass(frozen=True, slots=True)
class Challenge:
    """The listener's nonce (32 bytes)."""

    kind: ClassVar = Control.CHALLENGE
    nonce: bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """The caller's key, nonce, signature and MAC, and what it takes."""

    kind: ClassVar = Control.PROOF
    key: bytes
    nonce: bytes
    signature: bytes
    mac: bytes
    limits: Limits


@dataclass(frozen=True, slots=True)
class Welcome:
    """The listener's MAC, and what it takes."""

    kind: ClassVar = Control.WELCOME
    mac: bytes
    limits: Limits


@dataclass(frozen=True, slots=True)
class InterestsTold:
    """The sender says what it wants; ``reset``: instead of all that it said before, else beside that.

    ``Connection.their_interests`` has the sum.
    """

    kind: ClassVar = Control.INTERESTS
    reset: bool
    items: list[tuple[Key, RangeSet]]


@dataclass(frozen=True, slots=True)
class Offered:
    """The sender has got something new, or has less than before."""

    kind: ClassVar = Control.OFFERS
    offers: list[Offer]


@dataclass(frozen=True, slots=True)
class Settled:
    """The sender has fetched all it wants of what the discovery of this number, and offers before, named."""

    kind: ClassVar = Control.SETTLED
    round: int


Message = Challenge | Proof | Welcome | InterestsTold | Offered | Settled


class Reading(Enum):
    """A part of a long message was read; there is nothing to do."""

    READING = auto()


READING = Reading.READING


# -- framing ---------------------------------------------------------------------------------------------------------


def framed(message: bytes | bytearray) -> bytes:
    """A message behind its length."""
    return encode_varu64(len(message)) + message


class Deframer:
    """Cuts a stream into messages. Holds one message of ``limit`` bytes at most, and a length."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that are complete now; ``RemoteProtocolError`` for one that is too long, or empty."""
        self._data += data
        at = 0
        try:
            while at < len(self._data):
                try:
                    size, start = decode_varu64(self._data, at)
                except Truncated:
                    break
                except EncodingError as error:
                    raise RemoteProtocolError(
                        f"the peer sent no message: its length breaks the format: {error}"
                    ) from None
                if not 0 < size <= self.limit:
                    raise RemoteProtocolError(f"the peer sent a message of {size} bytes; accepted: 1 to {self.limit}")
                if len(self._data) < start + size:
                    break
                at = start + size
                yield bytes(self._data[start:at])
        finally:
            del self._data[:at]


# -- the control stream ----------------------------------------------------------------------------------------------


def encode(message: Message) -> bytes:
    """A message of the control stream, framed: an array of its type and its fields."""
    parts = [getattr(message, field.name) for field in fields(message)]
    match message:
        case Challenge() | Proof():
            parts.insert(0, VERSION)
        case InterestsTold():
            parts[1] = [(*key, ranges) for key, ranges in message.items]
    return framed(encode_item([message.kind, *parts]))


def encode_item(item: object) -> bytes:
    """A CBOR item: a number, bytes, ranges, or an array of items. An offer is an array of its fields, as limits are."""
    out = bytearray()
    _push(out, item)
    return bytes(out)


def _push(out: bytearray, item: object) -> None:
    match item:
        case int():
            cbor.push_unsigned(out, item)
        case bytes():
            cbor.push_string(out, item, as_text=False)
        case RangeSet():
            cbor.push_string(out, item.encode(), as_text=False)
        case Limits():
            _push(out, (item.max_message, item.max_interests))
        case tuple() | list():
            cbor.push_head(out, cbor.ARRAY, len(item))
            for part in item:
                _push(out, part)


class _Reader:
    """Reads the items of a message one after the other. ``EncodingError`` if the next item is of another kind."""

    def __init__(self, data: bytes) -> None:
        self._view = memoryview(data)
        self._at = 0

    def number(self) -> int:
        number, self._at = cbor.pull_unsigned(self._view, self._at)
        return number

    def string(self, *sizes: int) -> bytes:
        """A byte string of one of these sizes; of any size if none is given."""
        value, as_text, end = cbor.pull_string(self._view, self._at)
        if as_text or (sizes and len(value) not in sizes):
            wanted = " or ".join(map(str, sizes)) or "any number of"
            raise EncodingError(f"a string of {len(value)} bytes, expected a byte string of {wanted}", self._at)
        self._at = end
        return bytes(value)

    def array(self, least: int, most: int | None = None) -> range:
        """The indexes of an array's items, which come next."""
        count, self._at = cbor.pull_array(self._view, self._at, least=least, most=least if most is None else most)
        return range(count)

    def end(self) -> None:
        cbor.expect_end(self._view, self._at)

    def version(self) -> None:
        version = self.number()
        if version != VERSION:
            raise RemoteProtocolError(f"the peer speaks version {version} of the session; this is version {VERSION}")

    def limits(self) -> Limits:
        self.array(2)
        limits = Limits(self.number(), self.number())
        if limits.max_message < LEAST_MESSAGE or not limits.max_interests:
            raise EncodingError(
                f"limits of {limits.max_message} bytes and {limits.max_interests} interests are too low", self._at
            )
        return limits

    def flag(self) -> bool:
        flag = self.number()
        if flag > 1:
            raise EncodingError("a flag that is neither 0 nor 1", self._at)
        return bool(flag)

    def in_parts(self, read: Callable[["_Reader"], ItemT]) -> Iterator[list[ItemT]]:
        """The items of an array, ``_PART`` at a time; an empty one is one part."""
        items = self.array(0, _MOST_ITEMS)
        yield [read(self) for _ in items[:_PART]]
        for at in items[_PART::_PART]:
            yield [read(self) for _ in items[at : at + _PART]]

    def interest(self) -> tuple[Key, RangeSet]:
        parts = len(self.array(1, 3))
        key: Key = ()
        if parts == 2:
            key = (self.string(KEY_BYTES),)
        elif parts == 3:
            key = self.string(KEY_BYTES), self.number()
        return key, UnreadRanges(self.string())

    def offer(self) -> Offer:
        self.array(5)
        key, log_id, held = self.string(KEY_BYTES), self.number(), UnreadRanges(self.string())
        return Offer(key, log_id, held, self.string(0, TIP_BYTES), self.number())


def decode(data: bytes) -> Iterator[Message | Reading]:
    """A message of the control stream; ``RemoteProtocolError`` if it is none.

    Reading one with thousands of items takes milliseconds, so that the reader can pause in between. Offers come in
    parts, as if the peer had sent several messages; ``RemoteProtocolError`` may come behind some of them. Interests
    come together, behind a ``READING`` for each part, because half of them would say that the rest is not wanted.
    """
    return _read_all(data, _read_message, "a control message")


def _read_all(data: bytes, read: Callable[[_Reader], Iterator[ReadT]], what: str) -> Iterator[ReadT]:
    reader = _Reader(data)
    try:
        yield from read(reader)
        reader.end()
    except EncodingError as error:
        raise RemoteProtocolError(f"the peer sent {what} that breaks the format: {error}") from None


_ITEMS = 3, 7, 3, 3, 2, 2
"""How many items a message has, its type among them; by type."""


def _read_message(reader: _Reader) -> Iterator[Message | Reading]:
    count, number = len(reader.array(2, 7)), reader.number()
    if number >= len(Control):
        raise RemoteProtocolError(f"the peer sent a control message of type {number}, which does not exist")
    kind = Control(number)
    if count != _ITEMS[kind]:
        raise EncodingError(f"{kind.name} with {count} items", 0)
    if kind in {Control.CHALLENGE, Control.PROOF}:
        reader.version()
    match kind:
        case Control.CHALLENGE:
            yield Challenge(reader.string(NONCE_BYTES))
        case Control.PROOF:
            key, nonce = reader.string(KEY_BYTES), reader.string(NONCE_BYTES)
            yield Proof(key, nonce, reader.string(SIGNATURE_BYTES), reader.string(MAC_BYTES), reader.limits())
        case Control.WELCOME:
            yield Welcome(reader.string(MAC_BYTES), reader.limits())
        case Control.INTERESTS:
            yield from _read_interests(reader)
        case Control.OFFERS:
            yield from map(Offered, reader.in_parts(_Reader.offer))
        case Control.SETTLED:
            yield Settled(reader.number())


def _read_interests(reader: _Reader) -> Iterator[InterestsTold | Reading]:
    reset, items = reader.flag(), list[tuple[Key, RangeSet]]()
    for part in reader.in_parts(_Reader.interest):
        if items:
            yield READING
        items += part
    yield InterestsTold(reset, items)


# -- the discovery stream --------------------------------------------------------------------------------------------


def encode_discovery(kind: Discovery, body: bytes = b"") -> bytes:
    """A message of the discovery stream, framed."""
    return framed(bytes((kind,)) + body)


def decode_discovery(data: bytes) -> tuple[Discovery, bytes]:
    """Kind and body of one; ``RemoteProtocolError`` if there is no such kind."""
    try:
        return Discovery(data[0]), data[1:]
    except ValueError:
        raise RemoteProtocolError(
            f"the peer sent a discovery message of kind {data[0]}, which does not exist"
        ) from None


def decode_names(body: bytes) -> list[Offer]:
    """The offers in a ``NAMES``."""
    parts = _read_all(body, lambda reader: reader.in_parts(_Reader.offer), "a list of names")
    return [offer for part in parts for offer in part]


def decode_heads(body: bytes) -> list[bytes]:
    """The heads in an ``ASK``."""
    if not body or len(body) % ID_BYTES:
        raise RemoteProtocolError(
            f"the peer asked for heads with {len(body)} bytes, which is no multiple of {ID_BYTES}"
        )
    return [body[at : at + ID_BYTES] for at in range(0, len(body), ID_BYTES)]


# -- messages of a bounded size --------------------------------------------------------------------------------------


def batches(items: Iterable[tuple[ItemT, int]], room: int) -> Iterator[list[ItemT]]:
    """Items in groups that take at most ``room`` bytes each, if each item does. The items come with their sizes."""
    group: list[ItemT] = []
    left = room
    for item, size in items:
        if group and size > left:
            yield group
            group, left = [], room
        group.append(item)
        left -= size
    if group:
        yield group


def offers_in_batches(offers: Iterable[Offer], room: int) -> Iterator[list[Offer]]:
    """Offers in groups that fit into ``room`` bytes; one that is too large alone is offered as a whole log."""

    def sized(offer: Offer) -> tuple[Offer, int]:
        size = len(encode_item(offer))
        if size > room:
            offer = offer._replace(held=RangeSet(offer.held, most=1))
            size = len(encode_item(offer))
        return offer, size

    return batches(map(sized, offers), room)
