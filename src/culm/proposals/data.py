"""The messages of the data channel, as values and as bytes (docs/specs/proposals.md, "Data channel").

All delimit themselves. Numbers are unsigned, of 64 bits.

::

    00 id                          switch to a proposal
    02 | 03 n                      notify of one item, of n
    04 | 05 | 06                   skip a payload: too small, too large, not available
    07 n                           skip bytes of the payload
    08 n bytes(n)                  bytes of the payload
    09 ulen clen bytes(clen)       the same, compressed
    10                             apology
    20 id                          marker: a proposal is cancelled
    80 | 81 [backlink] size payload_hash signature      metadata; 81: of the end of a log
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from culm.bamboo import encode_varu64
from culm.bamboo.entry import SIGNATURE_BYTES
from culm.bamboo.linked import Framing
from culm.bamboo.varu64 import decode_any_varu64, decode_varu64
from culm.bamboo.yamf import YAMF_BYTES, YAMF_PREFIX, decode_yamf
from culm.errors import EncodingError, Truncated
from culm.types import Buffer


@dataclass(frozen=True)
class _About:
    """``id``: of a proposal."""

    id: int


class Switch(_About):
    """What follows is about another proposal."""


class Marker(_About):
    """A proposal is cancelled: nothing more follows of it."""


@dataclass(frozen=True)
class _Counted:
    """``count``: items of a notice, else bytes of a payload."""

    count: int


class Notify(_Counted):
    """There are so many items, which are not sent."""


class SkipBytes(_Counted):
    """So many bytes of the payload are left out: the other side has sent them."""


class Raw(_Counted):
    """So many bytes of a payload follow."""


class Why(IntEnum):
    """Why a payload is left out. The numbers are those on the wire."""

    TOO_SMALL = 4
    TOO_LARGE = 5
    NOT_AVAILABLE = 6


@dataclass(frozen=True, slots=True)
class Skip:
    """The payload is left out."""

    why: Why


@dataclass(frozen=True, slots=True)
class Compressed:
    """``size`` bytes follow that decode to ``count`` bytes of a payload."""

    count: int
    size: int


@dataclass(frozen=True, slots=True)
class Apology:
    """The item sent last was wrong: it was never sent."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """An entry, without what follows from where it stands. ``backlink``: its hash, None where it is left out."""

    is_end: bool
    backlink: bytes | None
    size: int
    payload_hash: bytes
    signature: bytes


DataMessage: TypeAlias = Switch | Notify | Skip | SkipBytes | Raw | Compressed | Apology | Marker | Metadata

# -- as bytes ----------------------------------------------------------------------------------------------------

MAX_DATA_HEAD = 1 + YAMF_BYTES + 9 + YAMF_BYTES + SIGNATURE_BYTES  # of a message, without bytes of payloads
METADATA, RAW = 0x80, 0x08
PLAIN = Framing(METADATA, RAW)
"""Metadata without a backlink, of an entry that does not end its log, and the raw payload behind it."""
# All other messages, by their first byte: those that are nothing else, and those that go on with numbers, so many.
_WHOLE: dict[int, DataMessage] = {0x02: Notify(1), 0x10: Apology(), **{why.value: Skip(why) for why in Why}}
_WITH_NUMBERS: dict[int, tuple[type[Switch | Notify | SkipBytes | Raw | Compressed | Marker], int]] = {
    0x00: (Switch, 1),
    0x03: (Notify, 1),
    0x07: (SkipBytes, 1),
    RAW: (Raw, 1),
    0x09: (Compressed, 2),
    0x20: (Marker, 1),
}
_FIRST = {message: bytes((first,)) for first, (message, _) in _WITH_NUMBERS.items()}


def pull_data(data: Buffer, at: int = 0) -> tuple[DataMessage, int]:
    """The message at an offset, and the offset behind it: of one with bytes of a payload, behind its head.

    ``Truncated`` if it is not all there, ``EncodingError`` if it cannot be one.
    """
    if at >= len(data):
        raise Truncated("a message is missing", at)
    first = data[at]
    at += 1
    if first in (METADATA, METADATA + 1):
        return _pull_metadata(data, at, is_end=first != METADATA)
    if first in _WHOLE:
        return _WHOLE[first], at
    if first not in _WITH_NUMBERS:
        raise EncodingError(f"no message begins with {first:02x}", at - 1)
    message, count = _WITH_NUMBERS[first]
    numbers: list[int] = []
    for _ in range(count):
        number, at = decode_any_varu64(data, at)
        numbers.append(number)
    return message(*numbers), at


def _pull_metadata(data: Buffer, at: int, *, is_end: bool) -> tuple[Metadata, int]:
    backlink = None
    head = bytes(data[at : at + 2])
    if head == YAMF_PREFIX:
        backlink, at = decode_yamf(data, at)
    elif len(head) < len(YAMF_PREFIX) and YAMF_PREFIX.startswith(head):
        raise Truncated("an entry is cut off", at)
    if backlink is not None and bytes(data[at : at + 2]) == YAMF_PREFIX:
        raise EncodingError("a second hash in front of the size: a lipmaalink is never sent, only a backlink", at)
    size, at = decode_varu64(data, at)
    payload_hash, at = decode_yamf(data, at)
    end = at + SIGNATURE_BYTES
    if end > len(data):
        raise Truncated("a signature is cut off", at)
    return Metadata(is_end, backlink, size, payload_hash, bytes(data[at:end])), end


def push_data(message: DataMessage) -> bytes:
    """The bytes of a message; of one with bytes of a payload, its head."""
    match message:
        case Metadata(is_end, backlink, size, payload_hash, signature):
            first = bytes((METADATA | is_end,))
            return b"".join((first, backlink or b"", encode_varu64(size), payload_hash, signature))
        case Skip(why):
            return bytes((why,))
        case Apology():
            return b"\x10"
        case Notify(1):
            return b"\x02"
        case Compressed(count, size):
            return b"\x09" + encode_varu64(count) + encode_varu64(size)
        case Switch(number) | Notify(number) | SkipBytes(number) | Raw(number) | Marker(number):
            return _FIRST[type(message)] + encode_varu64(number)
