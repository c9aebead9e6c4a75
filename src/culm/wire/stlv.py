"""STLV framing (docs/specs/bamboo.md, "STLV").

A message is its type and the length of its value, both canonical VarU64s, and then the value. A peer can claim any
length, so a length must be checked before it is used. The reader asks its owner about type and length before it keeps a
single byte of the value. Even then memory grows only as fast as bytes really arrive.

Each value has a buffer of its own, which is handed to the owner without a copy, so that a large value exists only once
and can be decrypted in place. A buffer that has grown large is moved out of the C library's heap into pages of its own.
Buffers that grow side by side in the heap leave holes behind that fit none of them, and take up to three times their
size.
"""

from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TypeAlias

from culm.bamboo.varu64 import MAX_VARU64_BYTES, decode_varu64, encode_varu64
from culm.errors import Truncated

Message: TypeAlias = tuple[int, memoryview]

MAX_HEADER_BYTES = 2 * MAX_VARU64_BYTES
_LARGE = 1024 * 1024  # bytes received of a value, above which it moves to pages of its own (see above)


def encode_header(kind: int, length: int) -> bytes:
    """The header of a message of type ``kind`` whose value has ``length`` bytes."""
    return encode_varu64(kind) + encode_varu64(length)


class StlvReader:
    """Cuts a stream of bytes into messages, whatever pieces it arrives in.

    ``check(kind, length)`` is called once for each header, before anything of the value is kept. It refuses a message
    by raising.
    """

    __slots__ = ("_check", "_come", "_head", "_kind", "_length", "_value")

    def __init__(self, check: Callable[[int, int], None]) -> None:
        self._check = check
        self._head = bytearray()
        self._kind = 0
        self._length = self._come = 0
        self._value: bytearray | mmap | None = None

    @property
    def held(self) -> int:
        """Bytes in memory of a message that is not yet complete, for the owner's memory budget."""
        return len(self._head) + (self._come if self._value is not None else 0)

    def clear(self) -> None:
        """Drop an incomplete message and free its memory, because the stream is over."""
        self._head, self._value = bytearray(), None

    def read(self, data: memoryview) -> tuple[Message | None, memoryview]:
        """Take bytes from ``data`` up to the end of one message; return it and the bytes behind it.

        None instead of a message means that all bytes were taken and more are needed. One message at a time, so that
        the caller can act on it before the next header is read: ``check`` may depend on that. Raises ``EncodingError``
        for a header that is not canonical, and what ``check`` raises. The stream cannot be read any further then.
        """
        if self._value is None:
            data = self._read_header(data)
            if self._value is None:
                return None, data
        missing = self._length - self._come
        self._value = self._joined(self._value, data[:missing])
        data = data[missing:]
        if self._come < self._length:
            return None, data
        message = self._kind, memoryview(self._value)
        self._value = None
        return message, data

    def _joined(self, value: bytearray | mmap, part: memoryview) -> bytearray | mmap:
        come, self._come = self._come, self._come + len(part)
        if isinstance(value, bytearray) and self._come > _LARGE:
            value = _apart(value, self._length)
        if isinstance(value, bytearray):
            value += part
        else:
            value[come : self._come] = part
        return value

    def _read_header(self, data: memoryview) -> memoryview:
        held = len(self._head)
        self._head += data[:MAX_HEADER_BYTES]
        try:
            kind, at = decode_varu64(self._head)
            length, at = decode_varu64(self._head, at)
        except Truncated:
            return data[len(data) :]
        self._check(kind, length)
        self._kind, self._length, self._come, self._value = kind, length, 0, bytearray()
        self._head.clear()
        return data[at - held :]


def _apart(value: bytearray, length: int) -> bytearray | mmap:
    """Move a value to anonymous pages, which take memory only as they are written, and so as bytes arrive."""
    try:
        place = mmap(-1, length, MAP_PRIVATE | MAP_ANONYMOUS)
    except OSError:  # A system that reserves all memory asked for cannot give so much at once; growing needs less.
        return value
    place[: len(value)] = value
    return place
