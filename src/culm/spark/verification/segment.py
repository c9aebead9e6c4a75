"""The second step, in a worker: all packs of one block become a segment, verified as far as it can be on its own.

A *segment* is a stretch of a log, from ``low`` to ``high``, that overlaps no other segment of that log. It has every
record of that stretch once, in ascending order. Hashing and signatures, the costly work, happen here.

The verdict on an entry also depends on entries in other segments. One could send the segment's entries on to where
the rest of the log is, but then some worker would need the whole log. Instead the segment leaves a *summary*:

- ``externals``: the numbers below the segment that its entries link to, and the hashes expected there;
- ``exports``: the numbers in the segment that entries above can link to, and the hashes found there;
- ``pieces``: which externals an entry can reach by links within the segment. Entries that reach the same ones are one
  piece;
- ``risers``: the numbers in the segment from which certificate pools step down to below it, and the pieces of all that
  these pools have in the segment. ``culm.bamboo.certified`` says why they are few.

The summary is small because links never cross (``culm.bamboo.lipmaa``). Take blocks of 8 numbers: the segment of the
entries 8 to 15 links to 4 and 7 and to nothing else below, and entries above it can link to 13 and 15 only. If 10 is
missing, 11 has no link left that leads down, but 12 has one to 8. So 8, 9, 12, 13, 14 and 15 are one piece, which
reaches 4 and 7, and 11 is the piece that reaches nothing. An entry has a path to entry 1 if its piece reaches entry 1,
or reaches an external that is held and has such a path itself. ``merge`` finds that out.

Which signatures are checked is for ``authentic`` to say.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO

import numpy as np

from culm.bamboo import path, spine
from culm.bamboo.certified import steps_across
from culm.bamboo.lipmaa import links_across
from culm.spark.batches.fields import DIGEST_BYTES, Numbers
from culm.spark.batches.pack import Pack, Signature, distinct
from culm.spark.batches.payload import SIZE_MISMATCH, rank
from culm.spark.verification.authentic import Links, Signatures, check

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
    Summaries of earlier versions have neither.
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
    unsigned: list[tuple[int, bytes]] = field(default_factory=list)
    contradicting: list[tuple[int, bytes]] = field(default_factory=list)

    def encode(self) -> bytes:
        """The summary as bytes; ``decode`` reads them. All numbers are little-endian."""
        positions = self.low, self.high, self.greatest, self.end_at, self.forked_at, self.lied_at
        counts = len(self.externals), len(self.exports), len(self.pieces), len(self.risers)
        parts = [_SUMMARY.pack(*positions, *counts), _packed(_PAIR, self.externals), _packed(_EXPORT, self.exports)]
        parts += [mask.to_bytes(len(self.externals) // 8 + 1, "little") for mask in self.pieces]
        parts += [struct.pack(f"<QQH{len(of)}H", start, top, len(of), *of) for start, top, of in self.risers]
        if self.unsigned or self.contradicting:
            parts += [len(self.unsigned).to_bytes(4, "little"), _packed(_PAIR, self.unsigned + self.contradicting)]
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


def segment_of(
    packs: Sequence[Pack], signatures: Signatures, vouched: frozenset[tuple[int, bytes]] = frozenset()
) -> tuple[Pack, Summary]:
    """The segment that the packs of one block make: its records with signatures and pieces, and its summary.

    ``vouched``: entries that higher segments vouch for (``steps.vouched``), with ``HEADS`` only.
    """
    records = distinct(packs)
    links = Links.among(records, records.is_entry.nonzero()[0])
    signature = check(records, links, signatures, vouched)
    authentic = (signature == Signature.GOOD) | (signature == Signature.TIED)
    if not authentic[links.rows].all():
        links = Links.among(records, authentic.nonzero()[0])
    segment = _Segment(records, links)
    piece = np.zeros(len(records), np.uint16)
    piece[links.rows] = segment.piece
    records.signature, records.piece = signature, piece
    summary = segment.summary()
    if signatures is Signatures.HEADS:
        bad = (signature == Signature.BAD).nonzero()[0]
        linkable = set(links_across(summary.high)) if len(bad) else set()
        unsigned = [(int(records.seq[row]), records.digest[row].tobytes()) for row in bad]
        unsigned = [(seq, digest) for seq, digest in unsigned if seq in linkable]
        summary = replace(summary, unsigned=unsigned, contradicting=segment.contradicting)
    return records, summary


class _Segment:
    """The authentic entries of a segment, as places in the columns of ``Links``."""

    def __init__(self, records: Pack, links: Links) -> None:
        self._records, self._links = records, links
        self._low, self._high = int(records.seq[0]), int(records.seq[-1])
        self._expected: dict[int, bytes] = {}  # what is expected of numbers that are not there
        self.contradicting: list[tuple[int, bytes]] = []  # what else is expected of them
        for at in (links.linked < 0).nonzero()[0]:
            target, digest = int(links.target[at]), links.expected[at].tobytes()
            if self._expected.setdefault(target, digest) != digest:
                self.contradicting.append((target, digest))
        self._externals = sorted(target for target in self._expected if target < self._low)
        self._forked_at = self._fork()
        masks = self._masks()
        numbers = {mask: number for number, mask in enumerate(dict.fromkeys([0, *masks]))}
        self._pieces = list(numbers)
        self.piece = np.zeros(len(links.rows), np.uint16)  # of each entry; those from a fork on reach nothing
        self.piece[: len(masks)] = [numbers[mask] for mask in masks]

    def _fork(self) -> int:
        """The lowest number about which entries say different things, 0 if there is none."""
        links, seq = self._links, self._links.seq
        twice = seq[1:][seq[1:] == seq[:-1]]
        denied = links.target[(links.linked >= 0) & ~links.fits]
        return min(map(int, (*twice[:1], *denied, *(target for target, _ in self.contradicting))), default=0)

    def _masks(self) -> list[int]:
        """What each entry below the fork reaches. There is one entry of each number there.

        An entry reaches all that the entry right below it reaches. So the mask only changes at entries that have a link
        out of their stretch of neighbouring numbers; these are few if there are few gaps.
        """
        links, seq = self._links, self._links.seq
        count = int(np.searchsorted(seq, np.uint64(self._forked_at))) if self._forked_at else len(seq)
        begins = np.maximum.accumulate(np.where(np.diff(seq, prepend=np.uint64(0)) != 1, np.arange(len(seq)), 0))
        far = (links.linked < begins[links.linker]) & (links.linker < count)
        bits = {target: ROOT << 1 + number for number, target in enumerate(self._externals)}
        masks: list[int] = []
        mask = ROOT if self._low == 1 else 0
        columns = (links.linker[far].tolist(), links.target[far].tolist(), links.linked[far].tolist())
        for linker, target, linked in zip(*columns, strict=True):
            masks += [mask] * (linker - len(masks))
            if begins[linker] == linker and target + 1 == seq[linker]:  # the first link of a stretch
                mask = 0
            mask |= bits.get(target, 0) if linked < 0 else masks[linked]
        return masks + [mask] * (count - len(masks))

    def summary(self) -> Summary:
        records, rows, seq = self._records, self._links.rows, self._links.seq
        return Summary(
            low=self._low,
            high=self._high,
            greatest=_first(seq[::-1]),
            end_at=_first(seq[records.fields.is_end[rows]]),
            forked_at=self._forked_at,
            lied_at=_first(seq[records.known_payload()[rows] == rank(SIZE_MISMATCH)]),
            externals=[(target, self._expected[target]) for target in self._externals],
            exports=self._exports(),
            pieces=self._pieces,
            risers=self._risers(),
        )

    def _exports(self) -> list[tuple[int, bytes, bool, int]]:
        found = []
        for target in links_across(self._high):
            if target < self._low:
                break
            place = self._place(target)
            if place is not None:
                digest = self._records.digest[self._links.rows[place]].tobytes()
                found.append((target, digest, True, int(self.piece[place])))
            elif target in self._expected:
                found.append((target, self._expected[target], False, 0))
        return found

    def _risers(self) -> list[tuple[int, int, tuple[int, ...]]]:
        if self._low == 1:
            return []
        greatest, found = _first(self._links.seq[::-1]), []
        for _, start in steps_across(self._low - 1):
            pool = [seq for seq in path(spine(start), start) if seq <= greatest] if start <= greatest else []
            places = [place for seq in pool if (place := self._place(seq)) is not None]
            if pool and len(places) == len(pool):
                found.append((start, pool[0], tuple(sorted({int(self.piece[place]) for place in places}))))
        return found

    def _place(self, seq: int) -> int | None:
        """The first entry of a number."""
        numbers = self._links.seq
        place = int(np.searchsorted(numbers, np.uint64(seq)))
        return place if place < len(numbers) and numbers[place] == seq else None


def _first(seq: Numbers) -> int:
    """The first of some numbers, 0 if there is none."""
    return int(seq[0]) if len(seq) else 0
