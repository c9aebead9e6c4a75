"""LZFoo: bytes as literals and copies of earlier bytes (docs/specs/proposals.md, "LZFoo").

::

    element = literal | copy
    literal = [0 t t t t t t t] [k bytes length] bytes(length)     t < 120: the length; t = 119 + k: k bytes hold it
    copy    = [1 t t t t t t t] [k bytes length] offset:VarU64     back from the end of all output so far

A message is compressed by pointing back at bytes that were seen before: "copy 40 bytes from 1,000 back". Messages share
a *history*, the last ``window`` bytes of everything decoded so far. So the second of two similar payloads is small,
although each is a message of its own. A copy may overlap its own output: "copy 10 from 1 back" repeats a byte ten
times.

Both sides must agree on the history to the byte, so a message that was encoded must be sent, or not counted
(``Encoder.encode_if_smaller``).

The decoder takes bytes from a peer. A few bytes can claim an output of 2^64, so the decoder hands out its output in
pieces of bounded size and keeps no more than the window. The encoder remembers in a dictionary where each short string
was seen last. Its places are only hints: before a copy is written, the bytes themselves are compared.
"""

from collections.abc import Iterator

from culm.bamboo import encode_varu64
from culm.errors import EncodingError
from culm.types import Buffer

PIECE_BYTES = 64 * 1024  # Bytes of output handed out at a time, so that a short message cannot fill the memory.
_SHORT = 120  # shorter lengths fit into the tag
_COPY = 0x80
_SHORT_NUMBER = 247  # the greatest VarU64 of one byte
_LONGEST_HEAD = 18  # bytes: tag, length of 8 bytes, offset of 9
# Bytes of input decoded before the output is checked against PIECE_BYTES. Short elements grow at most 60-fold, so that
# the output stays within half a megabyte; a smaller number would leave the fast loop more often.
_BATCH = 8192


class LZFooError(EncodingError):
    """Bytes that are not LZFoo, or decode to another size than announced. The decoder cannot be used any further."""


def pull_head(data: bytes, at: int) -> tuple[int, int | None, int] | None:
    """Read the head of an element: its length, the offset of a copy (None: a literal), and the offset behind it.

    None if the head is incomplete.
    """
    tag = data[at]
    length, at = tag & 0x7F, at + 1
    if length >= _SHORT:
        width = length - _SHORT + 1
        length, at = int.from_bytes(data[at : at + width], "big"), at + width
    if tag < _COPY:
        return None if at > len(data) else (length, None, at)
    if at >= len(data):
        return None
    offset, at = data[at], at + 1
    if offset > _SHORT_NUMBER:
        width = offset - _SHORT_NUMBER
        offset, at = int.from_bytes(data[at : at + width], "big"), at + width
    return None if at > len(data) else (length, offset, at)


# -- decoding ----------------------------------------------------------------------------------------------------


class Decoder:
    """Decodes messages one after the other. For each: ``begin``, any number of ``feed``, ``finish``.

    Memory is bounded by the window (bytes) and ``PIECE_BYTES``, whatever lengths the peer claims.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self._out = bytearray()
        self._left = 0  # bytes this message is still to decode to
        self._literal = 0  # bytes of a literal that are still to come
        self._repeats = self._offset = 0  # bytes that are still to be copied, and from where
        self._head = b""  # the beginning of an element

    def begin(self, size: int) -> None:
        """A message begins that decodes to ``size`` bytes. ``LZFooError`` if there is no window for it."""
        if not self.window:
            raise LZFooError("the peer sent compressed bytes, but the window for them is 0", 0)
        self._left = size

    def feed(self, data: Buffer) -> Iterator[bytes]:
        """Decode the next bytes of the message, in pieces. Read all of them: the history depends on it."""
        data = self._head + bytes(data)
        self._head = b""
        out, at, end = self._out, 0, len(data)
        mark = len(out)
        if self._literal:
            at = min(self._literal, end)
            out += data[:at]
            self._literal -= at
        while self._repeats or (at < end and not self._head):
            if self._repeats:
                self._repeat()
            else:
                at = self._short_elements(data, at, min(end, at + _BATCH) - _LONGEST_HEAD)
                at = self._element(data, at) if at < end else at
            if len(out) - mark >= PIECE_BYTES:
                yield bytes(memoryview(out)[mark:])
                mark = self._trimmed()
        if len(out) > mark:
            yield bytes(memoryview(out)[mark:])
        self._trimmed()

    def _short_elements(self, data: bytes, at: int, end: int) -> int:
        """Decode short elements that begin before ``end``, up to the first longer one; the offset reached.

        Nearly all elements are short, so this loop is what decoding costs. It handles only the plain cases; everything
        else, errors included, is left to ``_element``. ``end`` keeps a longest head away from the end of the data, so
        that the loop needs no check for incomplete heads.
        """
        out, window, left = self._out, self.window, self._left
        have = len(out)
        size = len(data)
        while at < end:
            tag = data[at]
            if tag < _SHORT:
                stop = at + 1 + tag
                if tag > left or stop > size:
                    break
                out += data[at + 1 : stop]
                have += tag
                left -= tag
                at = stop
                continue
            length = tag - _COPY
            offset = data[at + 1]
            width = 2
            if offset > _SHORT_NUMBER:
                if offset > _SHORT_NUMBER + 2:
                    break
                width = 3 if offset == _SHORT_NUMBER + 1 else 4
                offset = data[at + 2] if width == 3 else data[at + 2] << 8 | data[at + 3]
            start = have - offset
            if not 0 <= length < _SHORT or length > left or not length <= offset <= window or start < 0 or not offset:
                break
            out += out[start : start + length]
            have += length
            left -= length
            at += width
        self._left = left
        return at

    def _element(self, data: bytes, begin: int) -> int:
        """Decode one element of any kind; the offset behind it. An incomplete head is kept for the next ``feed``."""
        end = len(data)
        head = pull_head(data, begin)
        if head is None:
            self._head = data[begin:]
            return end
        length, offset, at = head
        if length > self._left:
            raise LZFooError(f"an element decodes to more than the {self._left} bytes left of the message", begin)
        self._left -= length
        if offset is None:
            self._out += data[at : at + length]
            self._literal = max(0, at + length - end)
            return min(at + length, end)
        if not 0 < offset <= self.window or offset > len(self._out):
            raise LZFooError(f"a copy from {offset} bytes back, which is 0 or outside of the window", begin)
        self._repeats, self._offset = length, offset
        return at

    def _repeat(self) -> None:
        """Continue a copy by one piece. An offset shorter than the length repeats the bytes between as a pattern."""
        out, offset, step = self._out, self._offset, min(self._repeats, PIECE_BYTES)
        pattern = out[len(out) - offset : len(out) - offset + step]
        out += (pattern * -(-step // len(pattern)))[:step]
        self._repeats -= step

    def _trimmed(self) -> int:
        """Drop history beyond the window; the number of bytes kept.

        Only when twice the window has gathered, because each deletion moves the whole buffer.
        """
        out = self._out
        if len(out) > 2 * self.window + PIECE_BYTES:
            del out[: len(out) - self.window]
        return len(out)

    def finish(self) -> None:
        """End the message. ``LZFooError`` if an element is incomplete, or bytes are missing from the announced size."""
        if self._head or self._literal:
            raise LZFooError("the last element is incomplete", 0)
        if self._left:
            raise LZFooError(f"the message decodes to {self._left} bytes less than announced", 0)


# -- encoding ----------------------------------------------------------------------------------------------------


_KEY_BYTES = 8  # Bytes that have to agree before a copy is considered: with fewer, most copies would gain nothing.
# Failed searches after which every second byte is skipped (twice as many: two of three, and so on), because data that
# does not compress should cost little.
_PATIENCE = 64
_STRIDE = 4  # Of copied bytes, one in so many is remembered: a place inside a copy is rarely the best to copy from.
# Places remembered beyond the size of the window before old ones are dropped. Dropping reads the whole dictionary, so
# it must not happen for every message.
_MOST_KEPT = 1024


class Encoder:
    """Encodes messages that share a history of ``window`` bytes."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._history = b""
        self._base = 0  # how many bytes came before the history
        self._last: dict[bytes, int] = {}  # the last place of each key

    def encode_if_smaller(self, data: Buffer, most: float = 0.9) -> bytes | None:
        """A message that decodes to ``data``, if it has at most ``most`` (a fraction) of its size; else None.

        It must be sent, because the history now includes it. With None nothing has changed.
        """
        encoded, text = self._elements(bytes(data))
        if len(encoded) > most * len(data):
            return None
        dropped = max(0, len(text) - self._window)
        self._history = text[dropped:]
        self._base += dropped
        if len(self._last) > self._window + _MOST_KEPT:
            self._last = {key: place for key, place in self._last.items() if place >= self._base}
        return encoded

    def _elements(self, data: bytes) -> tuple[bytes, bytes]:
        """The elements of a message, and the history followed by the message.

        The dictionary already learns places of this message. That does no harm if it is not sent in the end, because
        the bytes at a remembered place are always compared before a copy is written.
        """
        text = self._history + data
        base, window, last = self._base, self._window, self._last
        at = literal = len(self._history)
        end = len(text)
        out = bytearray()
        misses = 0
        while at + _KEY_BYTES <= end:
            key = text[at : at + _KEY_BYTES]
            start = last.get(key, -1) - base
            last[key] = at + base
            length = _common(text, start, at) if max(0, at - window) <= start < at else 0
            if length < _KEY_BYTES:
                misses += 1
                at += 1 + misses // _PATIENCE
                continue
            while at > literal and start and at - start < window and text[at - 1] == text[start - 1]:
                at, start, length = at - 1, start - 1, length + 1
            if at > literal:
                _push_length(out, at - literal, 0)
                out += text[literal:at]
            _push_length(out, length, _COPY)
            out += encode_varu64(at - start)
            for inside in range(at + _STRIDE, min(at + length, end - _KEY_BYTES + 1), _STRIDE):
                last[text[inside : inside + _KEY_BYTES]] = inside + base
            at += length
            literal = at
            misses = 0
        if end > literal:
            _push_length(out, end - literal, 0)
            out += text[literal:]
        return bytes(out), text


def _common(text: bytes, one: int, other: int) -> int:
    """The number of equal bytes from two places on, ``one`` before ``other``.

    Compares slices of growing size, and then halves them, because a slice compares faster than a loop over bytes.
    """
    length, step, most = 0, 32, len(text) - other
    while length < most and text[one + length : one + length + step] == text[other + length : other + length + step]:
        length += step
        step *= 2
    length = min(length, most)
    while step:
        if (
            length + step <= most
            and text[one + length : one + length + step] == text[other + length : other + length + step]
        ):
            length += step
        step //= 2
    return length


def _push_length(out: bytearray, length: int, kind: int) -> None:
    if length < _SHORT:
        out.append(kind | length)
    else:
        width = (length.bit_length() + 7) // 8
        out.append(kind | (_SHORT - 1 + width))
        out += length.to_bytes(width, "big")
