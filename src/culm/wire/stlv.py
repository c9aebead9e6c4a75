"""STLV framing (bamboo.md, "Small encodings"; bushbaby.md, "STLV").

A message is its type and the length of its value, both canonical VarU64s, and then the value. A peer can claim any
length, so a length is worth nothing until it was checked: the reader asks its owner about type and length before it
keeps a single byte of the value, and even then memory grows only as fast as bytes really arrive.

Each value is gathered in one bytearray of its own, which is handed out as it is: a large value is held once, and its
owner may decrypt it in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from culm.bamboo.varu64 import MAX_VARU64_BYTES, decode_varu64, encode_varu64
from culm.errors import Truncated

if TYPE_CHECKING:
    from collections.abc import Callable

Buffer: TypeAlias = bytes | bytearray | memoryview
Message: TypeAlias = tuple[int, bytearray]

MAX_HEADER_BYTES = 2 * MAX_VARU64_BYTES


def encode_header(kind: int, length: int) -> bytes:
    """The header of a message of type ``kind`` whose value has ``length`` bytes."""
    return encode_varu64(kind) + encode_varu64(length)


class StlvReader:
    """Cuts a stream of bytes into messages, whatever pieces it arrives in.

    ``check(kind, length)`` is called once for each header, before anything of the value is kept. It refuses a message
    by raising.
    """

    __slots__ = ("_check", "_head", "_kind", "_length", "_value")

    def __init__(self, check: Callable[[int, int], None]) -> None:
        self._check = check
        self._head = bytearray()
        self._kind = 0
        self._length = 0
        self._value: bytearray | None = None

    @property
    def held(self) -> int:
        """Bytes of a message that has begun and is not yet complete."""
        return len(self._head) + (len(self._value) if self._value is not None else 0)

    def clear(self) -> None:
        """Let go of a message that has begun: the stream is over."""
        self._head, self._value = bytearray(), None

    def read(self, data: memoryview) -> tuple[Message | None, memoryview]:
        """Take bytes from ``data`` up to the end of one message; return it and the bytes behind it.

        None instead of a message says that all bytes were taken and more are needed. Whoever calls this in a loop has
        acted on each message before the header of the next one is looked at. Raises ``EncodingError`` for a header
        that is not canonical, and what ``check`` raises; the stream cannot be read any further then.
        """
        if self._value is None:
            data = self._read_header(data)
            if self._value is None:
                return None, data
        missing = self._length - len(self._value)
        self._value += data[:missing]
        data = data[missing:]
        if len(self._value) < self._length:
            return None, data
        message = self._kind, self._value
        self._value = None
        return message, data

    def _read_header(self, data: memoryview) -> memoryview:
        held = len(self._head)
        self._head += data[: MAX_HEADER_BYTES - held]
        try:
            kind, at = decode_varu64(self._head)
            length, at = decode_varu64(self._head, at)
        except Truncated:
            return data[len(data) :]
        self._check(kind, length)
        self._kind, self._length, self._value = kind, length, bytearray()
        self._head.clear()
        return data[at - held :]
