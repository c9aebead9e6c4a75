"""Where a large bundle can be cut, so that many tasks read it.

A bundle has no marks at which a reader could find its way: whatever bytes a mark had, a payload may contain them. Only
the frames' lengths, from the first frame on, tell where frames begin. Following these lengths takes less than
a microsecond a frame, a hundredth of what verifying the entry takes. So the driver does that, and cuts before frames
that are no payloads: an entry stays with its payload. The checksum at the end covers the whole file. The driver has all
bytes at hand, so it computes the checksum as well, and the task with the last piece compares it.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import BinaryIO, NamedTuple

from culm.store.files import MAGIC

_CHUNK = 8 * 1024 * 1024  # bytes that are read at a time
_LONGEST_HEAD = 18  # bytes: two VarU64
_END, _PAYLOAD, _PROOF = 0, 2, 3  # types of frames
_END_FRAME = b"\x00\x20"  # how the end frame begins: its type, and the length of the checksum, which is the rest
_END_BYTES = len(_END_FRAME) + 32
_ONE_BYTE = 248  # the least first byte of a VarU64 that has further bytes


class Borders(NamedTuple):
    """Offsets at which pieces begin, the first being 0, and the checksum of all frames before the end frame.

    Where the file is damaged the last piece begins before the damage, and ``checksum`` says nothing.
    """

    starts: list[int]
    checksum: bytes


def has_end(stream: BinaryIO) -> bool:
    """Whether a file is a bundle, and the end frame stands at its end. A quick look: nothing else is read."""
    stream.seek(0)
    if stream.read(len(MAGIC)) != MAGIC or stream.seek(0, 2) < len(MAGIC) + _END_BYTES:
        return False
    stream.seek(-_END_BYTES, 2)
    return stream.read(len(_END_FRAME)) == _END_FRAME


def borders(stream: BinaryIO, every: int) -> Borders:
    """Cut a bundle into pieces of at least ``every`` bytes; a file that is no bundle has one piece."""
    starts = [0]
    if stream.read(len(MAGIC)) != MAGIC:
        return Borders(starts, b"")
    checksum = blake2b(MAGIC, digest_size=32)
    window, base, at = b"", len(MAGIC), len(MAGIC)  # some bytes, where they begin, and where the next frame does
    while True:
        checksum.update(window[: at - base])
        window, base = window[at - base :], min(at, base + len(window))
        more = stream.read(_CHUNK)
        window += more
        whole = len(window) - (_LONGEST_HEAD if more else 0)  # heads that begin before this are complete
        for start, kind, end in _frames(window, at - base, whole):
            if kind == _END:
                checksum.update(window[:start])
                return Borders(starts, checksum.digest())
            if kind != _PAYLOAD and base + start - starts[-1] >= every:
                starts.append(base + start)
            at = base + end
        if not more or at < base + whole:  # the file ends without an end frame, or is damaged here
            return Borders(starts, b"")


def _frames(data: bytes, at: int, whole: int) -> Iterator[tuple[int, int, int]]:
    """Where frames begin, their types, and where they end; up to the first one that no reader takes."""
    while at < whole:
        kind, length, head = data[at], data[at + 1] if at + 1 < len(data) else 0, 2
        if kind > _PROOF:
            return
        if length >= _ONE_BYTE:
            more = length - _ONE_BYTE + 1
            length = int.from_bytes(data[at + 2 : at + 2 + more])
            head += more
            if length < (_ONE_BYTE if more == 1 else 1 << 8 * (more - 1)):  # could be shorter, which is not allowed
                return
        yield at, kind, at + head + length
        at += head + length
