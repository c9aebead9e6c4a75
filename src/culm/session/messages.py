"""What is said on the control stream and the discovery stream.

Every message stands behind its length, a VarU64. On the control stream it is a CBOR array that begins with its type; on
the discovery stream a byte says its kind.

Specification: docs/specs/culm.md, "Control messages", "Discovery messages".
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from culm.bamboo import decode_varu64, encode_varu64
from culm.errors import EncodingError, RemoteProtocolError, Truncated
from culm.ranges import RangeSet, UnreadRanges
from culm.session.handshake import KEY_BYTES, MAC_BYTES, NONCE_BYTES, SIGNATURE_BYTES
from culm.session.interests import Key
from culm.session.limits import ID_BYTES, LEAST_MESSAGE, Limits
from culm.wire import cbor

VERSION = 1
TIP_BYTES = 8
_MOST_ITEMS = 10_000  # of an array


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

    nonce: bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """The caller's key, nonce, signature and MAC, and what it takes."""

    key: bytes
    nonce: bytes
    signature: bytes
    mac: bytes
    limits: Limits


@dataclass(frozen=True, slots=True)
class Welcome:
    """The listener's MAC, and what it takes."""

    mac: bytes
    limits: Limits


@dataclass(frozen=True, slots=True)
class InterestsMessage:
    """Interests; ``reset``: instead of all before, else beside them."""

    reset: bool
    items: list[tuple[Key, RangeSet]]


@dataclass(frozen=True, slots=True)
class Offers:
    """What the sender has."""

    offers: list[Offer]


@dataclass(frozen=True, slots=True)
class SettledMessage:
    """The sender has fetched what it wants."""

    round: int


Message = Challenge | Proof | Welcome | InterestsMessage | Offers | SettledMessage


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
    """A message of the control stream, framed."""
    out = bytearray()
    match message:
        case Challenge(nonce):
            _begin(out, Control.CHALLENGE, 3)
            cbor.push_unsigned(out, VERSION)
            cbor.push_string(out, nonce, as_text=False)
        case Proof(key, nonce, signature, mac, limits):
            _begin(out, Control.PROOF, 7)
            cbor.push_unsigned(out, VERSION)
            for part in (key, nonce, signature, mac):
                cbor.push_string(out, part, as_text=False)
            _push_limits(out, limits)
        case Welcome(mac, limits):
            _begin(out, Control.WELCOME, 3)
            cbor.push_string(out, mac, as_text=False)
            _push_limits(out, limits)
        case InterestsMessage(reset, items):
            _begin(out, Control.INTERESTS, 3)
            cbor.push_unsigned(out, int(reset))
            cbor.push_head(out, cbor.ARRAY, len(items))
            for item in items:
                out += encode_interest(*item)
        case Offers(offers):
            _begin(out, Control.OFFERS, 2)
            out += encode_offers(offers)
        case SettledMessage(number):
            _begin(out, Control.SETTLED, 2)
            cbor.push_unsigned(out, number)
    return framed(out)


def _begin(out: bytearray, kind: Control, count: int) -> None:
    cbor.push_head(out, cbor.ARRAY, count)
    cbor.push_unsigned(out, kind)


def _push_limits(out: bytearray, limits: Limits) -> None:
    cbor.push_head(out, cbor.ARRAY, 2)
    cbor.push_unsigned(out, limits.max_message)
    cbor.push_unsigned(out, limits.max_interests)


def encode_interest(key: Key, ranges: RangeSet) -> bytes:
    """One item of ``INTERESTS``."""
    out = bytearray()
    cbor.push_head(out, cbor.ARRAY, len(key) + 1)
    if key:
        cbor.push_string(out, key[0], as_text=False)
    if len(key) > 1:
        cbor.push_unsigned(out, key[1])
    cbor.push_string(out, ranges.encode(), as_text=False)
    return bytes(out)


def encode_offers(offers: list[Offer]) -> bytes:
    """An array of offers."""
    out = bytearray()
    cbor.push_head(out, cbor.ARRAY, len(offers))
    for offer in offers:
        out += _encode_offer(offer)
    return bytes(out)


def _encode_offer(offer: Offer) -> bytes:
    out = bytearray()
    cbor.push_head(out, cbor.ARRAY, 5)
    cbor.push_string(out, offer.author, as_text=False)
    cbor.push_unsigned(out, offer.log_id)
    cbor.push_string(out, offer.held.encode(), as_text=False)
    cbor.push_string(out, offer.tip, as_text=False)
    cbor.push_unsigned(out, offer.fork)
    return bytes(out)


def offer_size(offer: Offer) -> int:
    """Bytes that an offer takes in a message."""
    return len(_encode_offer(offer))


def decode(data: bytes) -> Message:
    """A message of the control stream; ``RemoteProtocolError`` if it is none."""
    view = memoryview(data)
    try:
        count, at = cbor.pull_array(view, 0, least=2, most=7)
        kind, at = cbor.pull_unsigned(view, at)
        message, end = _decode(view, at, count, kind)
        cbor.expect_end(view, end)
    except EncodingError as error:
        raise RemoteProtocolError(f"the peer sent a control message that breaks the format: {error}") from None
    return message


def _decode(view: memoryview, at: int, count: int, kind: int) -> tuple[Message, int]:
    try:
        known = Control(kind)
    except ValueError:
        raise RemoteProtocolError(f"the peer sent a control message of type {kind}, which does not exist") from None
    expected, pull = _DECODERS[known]
    if count != expected:
        raise EncodingError(f"{known.name} with {count} items", 0)
    return pull(view, at)


def _pull_challenge(view: memoryview, at: int) -> tuple[Message, int]:
    nonce, at = _pull_bytes(view, _pull_version(view, at), NONCE_BYTES)
    return Challenge(nonce), at


def _pull_proof(view: memoryview, at: int) -> tuple[Message, int]:
    key, at = _pull_bytes(view, _pull_version(view, at), KEY_BYTES)
    nonce, at = _pull_bytes(view, at, NONCE_BYTES)
    signature, at = _pull_bytes(view, at, SIGNATURE_BYTES)
    mac, at = _pull_bytes(view, at, MAC_BYTES)
    limits, at = _pull_limits(view, at)
    return Proof(key, nonce, signature, mac, limits), at


def _pull_welcome(view: memoryview, at: int) -> tuple[Message, int]:
    mac, at = _pull_bytes(view, at, MAC_BYTES)
    limits, at = _pull_limits(view, at)
    return Welcome(mac, limits), at


def _pull_interests(view: memoryview, at: int) -> tuple[Message, int]:
    reset, at = cbor.pull_unsigned(view, at)
    if reset > 1:
        raise EncodingError("a flag that is neither 0 nor 1", at)
    items, at = _pull_items(view, at)
    return InterestsMessage(bool(reset), items), at


def _pull_offers(view: memoryview, at: int) -> tuple[Message, int]:
    offers, at = _pull_offer_array(view, at)
    return Offers(offers), at


def _pull_settled(view: memoryview, at: int) -> tuple[Message, int]:
    number, at = cbor.pull_unsigned(view, at)
    return SettledMessage(number), at


_DECODERS: dict[Control, tuple[int, Callable[[memoryview, int], tuple[Message, int]]]] = {
    Control.CHALLENGE: (3, _pull_challenge),
    Control.PROOF: (7, _pull_proof),
    Control.WELCOME: (3, _pull_welcome),
    Control.INTERESTS: (3, _pull_interests),
    Control.OFFERS: (2, _pull_offers),
    Control.SETTLED: (2, _pull_settled),
}
"""How many items a message has, its type among them, and what reads those behind the type."""


def _pull_version(view: memoryview, at: int) -> int:
    version, at = cbor.pull_unsigned(view, at)
    if version != VERSION:
        raise RemoteProtocolError(f"the peer speaks version {version} of the session; this is version {VERSION}")
    return at


def _pull_bytes(view: memoryview, at: int, size: int | None = None) -> tuple[bytes, int]:
    value, as_text, end = cbor.pull_string(view, at)
    if as_text or (size is not None and len(value) != size):
        raise EncodingError(f"not a byte string of {size} bytes", at)
    return bytes(value), end


def _pull_limits(view: memoryview, at: int) -> tuple[Limits, int]:
    _, at = cbor.pull_array(view, at, least=2, most=2)
    message, at = cbor.pull_unsigned(view, at)
    interests, at = cbor.pull_unsigned(view, at)
    if message < LEAST_MESSAGE or not interests:
        raise EncodingError(f"limits of {message} bytes and {interests} interests are too low", at)
    return Limits(message, interests), at


def _pull_items(view: memoryview, at: int) -> tuple[list[tuple[Key, RangeSet]], int]:
    count, at = cbor.pull_array(view, at, most=_MOST_ITEMS)
    items: list[tuple[Key, RangeSet]] = []
    for _ in range(count):
        parts, at = cbor.pull_array(view, at, least=1, most=3)
        key: Key = ()
        if parts > 1:
            author, at = _pull_bytes(view, at, KEY_BYTES)
            key = (author,)
            if parts > 2:
                log_id, at = cbor.pull_unsigned(view, at)
                key = (author, log_id)
        ranges, at = _pull_bytes(view, at)
        items.append((key, UnreadRanges(ranges)))
    return items, at


def _pull_offer_array(view: memoryview, at: int) -> tuple[list[Offer], int]:
    count, at = cbor.pull_array(view, at, most=_MOST_ITEMS)
    offers: list[Offer] = []
    for _ in range(count):
        _, at = cbor.pull_array(view, at, least=5, most=5)
        author, at = _pull_bytes(view, at, KEY_BYTES)
        log_id, at = cbor.pull_unsigned(view, at)
        held, at = _pull_bytes(view, at)
        start = at
        tip, at = _pull_bytes(view, at)
        if len(tip) not in (0, TIP_BYTES):
            raise EncodingError(f"a tip of {len(tip)} bytes", start)
        fork, at = cbor.pull_unsigned(view, at)
        offers.append(Offer(author, log_id, UnreadRanges(held), tip, fork))
    return offers, at


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
    view = memoryview(body)
    try:
        offers, at = _pull_offer_array(view, 0)
        cbor.expect_end(view, at)
    except EncodingError as error:
        raise RemoteProtocolError(f"the peer sent names that break the format: {error}") from None
    return offers


def decode_heads(body: bytes) -> list[bytes]:
    """The heads in an ``ASK``."""
    if not body or len(body) % ID_BYTES:
        raise RemoteProtocolError(
            f"the peer asked for heads with {len(body)} bytes, which is no multiple of {ID_BYTES}"
        )
    return [body[at : at + ID_BYTES] for at in range(0, len(body), ID_BYTES)]


def batches(offers: Iterable[Offer], room: int) -> Iterator[list[Offer]]:
    """Offers in groups that take at most ``room`` bytes each; one that is too large alone is offered as a whole log."""
    group: list[Offer] = []
    size = 0
    for offer in offers:
        item = offer
        if (needed := offer_size(item)) > room:
            item = offer._replace(held=RangeSet(offer.held, most=1))
            needed = offer_size(item)
        if group and size + needed > room:
            yield group
            group, size = [], 0
        group.append(item)
        size += needed
    if group:
        yield group
