"""Where a large bundle can be cut, so that many tasks read it.

A bundle has no marks at which a reader could find its way: whatever bytes a mark had, a payload may contain them.
Only the frames' lengths, from the first frame on, tell where frames begin. Following them takes a microsecond or two
a frame, a tenth of what verifying the entry takes. So the driver does that, and cuts before frames that are no
payloads: an entry stays with its payload. The checksum at the end covers the whole file. The driver has all bytes at
hand, so it computes the checksum as well, and the task with the last piece compares it.
"""

from hashlib import blake2b
from typing import BinaryIO

from culm.store.files import MAGIC

PARQUET_MAGIC = b"PAR1"
"""How every Parquet file begins, and ends."""

_CHUNK = 8 * 1024 * 1024  # bytes of a frame that are in memory at once
_END, _PAYLOAD, _PROOF = 0, 2, 3  # types of frames
_END_FRAME = b"\x00\x20"  # how the end frame begins: its type, and the length of the checksum, which is the rest
_END_BYTES = len(_END_FRAME) + 32
_ONE_BYTE = 248  # the least first byte of a VarU64 that has further bytes


def has_end(stream: BinaryIO) -> bool:
    """Whether a file is a bundle or a Parquet table, and its end is there. A quick look: nothing else is read."""
    is_bundle = stream.read(len(MAGIC)) == MAGIC
    stream.seek(max(0, stream.seek(0, 2) - _END_BYTES))
    end = stream.read()
    return end.endswith(PARQUET_MAGIC) or (is_bundle and end.startswith(_END_FRAME))


def borders(stream: BinaryIO, every: int) -> tuple[list[int], bytes]:
    """Cut a bundle into pieces of at least ``every`` bytes; a file that is no bundle has one piece.

    Gives the offsets at which pieces begin, the first being 0, and the checksum of all frames before the end frame.
    Where the file is damaged the last piece begins before the damage, and the checksum says nothing.
    """
    starts, at, checksum = [0], len(MAGIC), blake2b(MAGIC, digest_size=32)
    if stream.read(len(MAGIC)) != MAGIC:
        return starts, b""
    while len(head := stream.read(2)) == len(_END_FRAME) and head[0] <= _PROOF:
        kind, left, more = head[0], head[1], max(0, head[1] - _ONE_BYTE + 1)
        if kind == _END:
            return starts, checksum.digest()
        if kind != _PAYLOAD and at - starts[-1] >= every:
            starts.append(at)
        if more:
            head += stream.read(more)
            left = int.from_bytes(head[2:])
            if left < (_ONE_BYTE if more == 1 else 1 << 8 * (more - 1)):  # could be shorter, which is not allowed
                break
        checksum.update(head)
        at += len(head) + left
        while left and (piece := stream.read(min(left, _CHUNK))):
            checksum.update(piece)
            left -= len(piece)
    return starts, b""  # the file ends without an end frame, or is damaged here
