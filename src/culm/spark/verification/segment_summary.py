"""What a segment tells the rest of its log: a summary of a few kilobytes, however large the segment is.

``segment`` makes summaries and says why they are small; ``merge`` reads them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from io import BytesIO

from culm.spark.batches.fields import DIGEST_BYTES

ROOT = 1
"""The bit of a piece that reaches entry 1 within the segment; external number j has the bit 2 << j."""

_PAIR = struct.Struct(f"<Q{DIGEST_BYTES}s")  # a number and a digest
_EXPORT = struct.Struct(f"<Q{DIGEST_BYTES}s?H")  # the same, whether it is held, and its piece
_RISER = struct.Struct("<QQH")  # where it begins, where it ends, and how many pieces follow
_SUMMARY = struct.Struct("<QQQQQQIIII")  # six positions, then how many externals, exports, pieces and risers follow


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What the rest of a log has to know of a segment. A position is 0 where there is no such entry.

    ``greatest`` is the greatest number of an authentic entry, ``end_at`` the lowest end-of-log entry. ``forked_at`` is
    the lowest position at which entries of the segment contradict each other; it may lie below the segment, since two
    entries can expect different things of it. ``lied_at`` is the lowest entry whose payload has another size than the
    entry claims. ``externals`` are pairs: a number below the segment and the digest expected there. An export is a
    number, the digest found or expected there, whether an authentic entry of that number is held, and the index of its
    piece. ``pieces`` are masks of bits (``ROOT``). A riser is a number from which a certificate pool steps down to
    below the segment, the greatest number of that pool in the segment, and the indexes of the pieces that the pool has
    between the two. It is left out if an entry of the pool is missing there.

    With ``HEADS`` only: ``unsigned`` are the entries with a bad signature that a higher segment could vouch for, and
    ``contradicting`` what the segment expects below itself beside ``externals``, other digests of the same numbers.
    None is for summaries of earlier versions, which did not look for that.
    """

    low: int
    high: int
    greatest: int
    end_at: int
    forked_at: int
    lied_at: int
    externals: list[tuple[int, bytes]]
    exports: list[tuple[int, bytes, bool, int]]
    pieces: list[int]
    risers: list[tuple[int, int, tuple[int, ...]]]
    unsigned: list[tuple[int, bytes]] | None = None
    contradicting: list[tuple[int, bytes]] | None = None

    def encode(self) -> bytes:
        """The summary as bytes; ``decode`` reads them. All numbers are little-endian."""
        positions = self.low, self.high, self.greatest, self.end_at, self.forked_at, self.lied_at
        counts = len(self.externals), len(self.exports), len(self.pieces), len(self.risers)
        parts = [_SUMMARY.pack(*positions, *counts), _packed(_PAIR, self.externals), _packed(_EXPORT, self.exports)]
        parts += [mask.to_bytes(len(self.externals) // 8 + 1, "little") for mask in self.pieces]
        parts += [struct.pack(f"<QQH{len(of)}H", start, top, len(of), *of) for start, top, of in self.risers]
        if self.unsigned is not None:
            unsigned, contradicting = self.unsigned, self.contradicting or []
            parts += [len(unsigned).to_bytes(4, "little"), _packed(_PAIR, unsigned + contradicting)]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Summary:
        """Read what ``encode`` wrote."""
        read = BytesIO(data).read
        *positions, externals, exports, pieces, risers = _SUMMARY.unpack(read(_SUMMARY.size))
        below = list(_PAIR.iter_unpack(read(externals * _PAIR.size)))
        above = list(_EXPORT.iter_unpack(read(exports * _EXPORT.size)))
        masks = [int.from_bytes(read(externals // 8 + 1), "little") for _ in range(pieces)]
        steps = []
        for _ in range(risers):
            start, top, count = _RISER.unpack(read(_RISER.size))
            steps.append((start, top, struct.unpack(f"<{count}H", read(2 * count))))
        low, high, greatest, end_at, forked_at, lied_at = positions
        found = cls(low, high, greatest, end_at, forked_at, lied_at, below, above, masks, steps)
        if not (rest := read()):
            return found
        unsigned, pairs = int.from_bytes(rest[:4], "little"), list(_PAIR.iter_unpack(rest[4:]))
        return replace(found, unsigned=pairs[:unsigned], contradicting=pairs[unsigned:])


def _packed(kind: struct.Struct, rows: Iterable[Iterable[object]]) -> bytes:
    return b"".join([kind.pack(*row) for row in rows])
