"""Negentropy messages: strict reading, and writing.

::

    message = version byte, range*
    range   = bound, mode, payload              a range begins where the one before ended
    bound   = timestamp, length, id prefix      timestamp: 0 is infinity, else 1 + the difference to the bound before
    payload = nothing (Skip) | 16 bytes (Fingerprint) | count, ids of 32 bytes (IdList)

Numbers are base 128, most significant digit first, in their shortest form. Bounds are written as differences, because
neighbours are close together, and id prefixes only as long as needed to tell two records apart.

The reader refuses what no correct sender writes. It yields range by range and keeps none, so its work and memory are
bounded by the bytes it is given, whatever counts they claim.

Specification: docs/specs/negentropy.md, "Message format", "Refused messages", "Accepted messages".
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from culm.errors import RemoteProtocolError

VERSION = 0x61  # version 1, the one spoken here
VERSIONS = range(0x60, 0x70)  # first bytes that announce some version; all others are no negentropy
INFINITY = 2**64 - 1  # the timestamp of the bound above all records
ID_BYTES = 32
FINGERPRINT_BYTES = 16  # so that two different ranges agree by chance once in 2^128
_MAX_VARINT_BYTES = 10  # 64 bits in digits of 7


class Mode(IntEnum):
    """What a message says about a range: skip it, its fingerprint, or its ids."""

    SKIP = 0
    FINGERPRINT = 1
    ID_LIST = 2


_FINGERPRINT = int(Mode.FINGERPRINT)


class Range(NamedTuple):
    """One range of a message, up to its bound (exclusive).

    ``timestamp`` and ``prefix`` are the bound; ``payload`` is a fingerprint, or the ids of a list in a row.
    ``offset`` is where the range begins in the message, ``end`` where it ends.
    """

    timestamp: int
    prefix: bytes
    mode: int
    payload: bytes
    offset: int
    end: int


class MalformedMessage(RemoteProtocolError):
    """A message that breaks the format; ``offset`` says where and ``reason`` which rule it breaks."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"byte {offset}: {reason}")
        self.reason = reason
        self.offset = offset


def encode_varint(number: int) -> bytes:
    """A number in base 128, most significant digit first."""
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:  # most differences of timestamps
        return bytes((number >> 7 | 0x80, number & 0x7F))
    digits = [number & 0x7F]
    number >>= 7
    while number:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(reversed(digits))


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number at ``at``: it, and the offset behind it.

    ``MalformedMessage`` if it is cut, not in its shortest form, or too large.
    """
    if at + 1 < len(data):  # short ones first: most are
        first, second = data[at], data[at + 1]
        if first < 0x80:
            return first, at + 1
        if second < 0x80 < first:
            return (first & 0x7F) << 7 | second, at + 2
    number = 0
    for index in range(at, min(at + _MAX_VARINT_BYTES, len(data))):
        digit = data[index]
        number = number << 7 | digit & 0x7F
        if digit < 0x80:
            if number > INFINITY:
                raise MalformedMessage("a number of more than 64 bits", at)
            return number, index + 1
        if number == 0:
            raise MalformedMessage("a number that is not in its shortest form", at)
    if at + _MAX_VARINT_BYTES <= len(data):
        raise MalformedMessage("a number of more than 64 bits", at)
    raise MalformedMessage("truncated: a number is incomplete", at)


def read_ranges(message: bytes, at: int = 1, before: tuple[int, bytes] = (0, b"")) -> Iterator[Range]:
    """The ranges of a message behind its version byte, in order, checked as they are read.

    To go on in the middle, ``at`` is where a range begins, and ``before`` the bound in front of it.

    Accepted although no sender needs them: a bound equal to the one before (an empty range); an infinity bound with an
    id prefix, which is dropped; behind the infinity bound one more range up to infinity with a fingerprint, as
    senders with a frame limit write it.
    """
    end = len(message)
    timestamp, prefix = before
    while at < end:
        offset = at
        was_infinite = timestamp == INFINITY
        difference, behind = decode_varint(message, at)
        if difference > 1 and behind < end and message[behind] == 0 and timestamp + difference <= INFINITY:
            timestamp, prefix, at = timestamp + difference - 1, b"", behind + 1  # most bounds
        else:
            timestamp, prefix, at = _read_bound(message, at, timestamp, prefix)
        if at < end and message[at] == _FINGERPRINT:  # most ranges
            mode, length = _FINGERPRINT, FINGERPRINT_BYTES
            at += 1
        else:
            mode, at = decode_varint(message, at)
            if mode == Mode.ID_LIST:
                count, at = decode_varint(message, at)
                length = count * ID_BYTES
            elif mode == Mode.SKIP:
                length = 0
            else:
                raise MalformedMessage(f"unknown mode {mode}", offset)
        if at + length > end:
            raise MalformedMessage("truncated: a range is incomplete", offset)
        if was_infinite and (mode != _FINGERPRINT or at + length != end):
            raise MalformedMessage("a second range reaches up to infinity", offset)
        yield Range(timestamp, prefix, mode, message[at : at + length], offset, at + length)
        at += length


def _read_bound(message: bytes, at: int, timestamp: int, before: bytes) -> tuple[int, bytes, int]:
    """Read a bound that follows the bound (``timestamp``, ``before``): it, and the offset behind it."""
    offset = at
    difference, at = decode_varint(message, at)
    if at < len(message) and message[at] == 0:  # most bounds have no id prefix
        prefix = b""
        at += 1
    else:
        size, at = decode_varint(message, at)
        if size > ID_BYTES:
            raise MalformedMessage(f"an id prefix of {size} bytes; an id has {ID_BYTES}", offset)
        prefix = message[at : at + size]
        at += size
    if difference == 0:
        return INFINITY, b"", at
    if timestamp == INFINITY:
        raise MalformedMessage("a finite bound follows an infinite one", offset)
    timestamp += difference - 1
    if timestamp >= INFINITY:
        raise MalformedMessage("a timestamp of more than 64 bits", offset)
    # The bytes that a prefix leaves out are zeros.
    if difference == 1 and prefix < before and prefix.ljust(ID_BYTES, b"\0") < before.ljust(ID_BYTES, b"\0"):
        raise MalformedMessage("bounds go backwards", offset)
    return timestamp, prefix, at


def encode_bound(timestamp: int, prefix: bytes, before: int) -> bytes:
    """The bytes of a bound; ``before`` is the timestamp of the bound in front of it."""
    if timestamp == INFINITY:
        return b"\0\0"
    difference = timestamp - before
    if difference < 0x7F:
        return bytes((difference + 1, len(prefix))) + prefix
    return encode_varint(difference + 1) + bytes((len(prefix),)) + prefix
