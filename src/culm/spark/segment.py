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
or reaches an external that is held and has such a path itself. ``culm.spark.merge`` finds that out.

*Signatures.* ``STRICT`` checks every signature. ``HEADS`` saves most of that work: a link is the hash of all bytes of
the entry it leads to, so an author who signed an entry also vouched for the entries it links to. An entry is then
*authentic* if its signature is good, or if an authentic entry links to it. It is enough to check the *heads*, the
entries that no authentic entry of the segment links to, going down from the last entry. In a block without gaps that is
one signature. The price: an author can link to an entry that they never signed properly, and ``HEADS`` takes that entry
for verified. Nobody but the author can do that.

A head with a bad signature may still be authentic, because an entry of a higher segment links to it. The summary names
such heads in ``unsigned``, and ``Vouched`` finds those that a higher segment vouches for. Their segments are judged a
second time. Otherwise a verdict would depend on where the borders of the blocks are.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from culm.bamboo import LogAuditor, path, spine
from culm.bamboo.certified import steps_across
from culm.bamboo.lipmaa import links_across
from culm.spark.checks import signed
from culm.spark.fields import DIGEST_BYTES
from culm.spark.pack import Signature
from culm.spark.payload import SIZE_MISMATCH, rank
from culm.spark.records import Records, distinct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from culm.spark.fields import Bytes, Flags, Numbers, Offsets
    from culm.spark.pack import Pack

ROOT = 1
"""The bit of a piece that reaches entry 1 within the segment; external number j has the bit 2 << j."""

_PAIR_BYTES = 8 + DIGEST_BYTES  # a number and a digest
_RISER = struct.Struct("<QQH")  # where it begins, where it ends, and how many pieces follow
_SUMMARY = struct.Struct("<QQQQQQIIII")  # six positions, then how many externals, exports, pieces and risers follow


class Signatures(Enum):
    """Which signatures are checked; the values are the names on the command line."""

    STRICT = "all"
    HEADS = "heads"


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
        width = self._mask_bytes(len(self.externals))
        head = _SUMMARY.pack(
            self.low,
            self.high,
            self.greatest,
            self.end_at,
            self.forked_at,
            self.lied_at,
            len(self.externals),
            len(self.exports),
            len(self.pieces),
            len(self.risers),
        )
        parts = [head, _pairs(self.externals)]
        parts += [
            seq.to_bytes(8, "little") + digest + bytes([held]) + piece.to_bytes(2, "little")
            for seq, digest, held, piece in self.exports
        ]
        parts += [mask.to_bytes(width, "little") for mask in self.pieces]
        parts += [
            _RISER.pack(start, top, len(pieces)) + struct.pack(f"<{len(pieces)}H", *pieces)
            for start, top, pieces in self.risers
        ]
        if self.unsigned is not None:
            unsigned, contradicting = self.unsigned, self.contradicting or []
            parts += [len(unsigned).to_bytes(4, "little"), _pairs(unsigned), _pairs(contradicting)]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Summary:
        """Read what ``encode`` wrote."""
        *positions, externals, exports, pieces, risers = _SUMMARY.unpack_from(data)
        at = _SUMMARY.size + externals * _PAIR_BYTES
        below = _read_pairs(data[_SUMMARY.size : at])
        above = []
        for _ in range(exports):
            number, digest = int.from_bytes(data[at : at + 8], "little"), data[at + 8 : at + 8 + DIGEST_BYTES]
            at += 8 + DIGEST_BYTES
            above.append((number, digest, bool(data[at]), int.from_bytes(data[at + 1 : at + 3], "little")))
            at += 3
        width = cls._mask_bytes(externals)
        masks = [int.from_bytes(data[at + width * n : at + width * (n + 1)], "little") for n in range(pieces)]
        at += width * pieces
        steps = []
        for _ in range(risers):
            start, top, count = _RISER.unpack_from(data, at)
            at += _RISER.size
            steps.append((start, top, struct.unpack_from(f"<{count}H", data, at)))
            at += 2 * count
        low, high, greatest, end_at, forked_at, lied_at = positions
        found = cls(low, high, greatest, end_at, forked_at, lied_at, below, above, masks, steps)
        if at == len(data):
            return found
        unsigned, rest = int.from_bytes(data[at : at + 4], "little"), _read_pairs(data[at + 4 :])
        return replace(found, unsigned=rest[:unsigned], contradicting=rest[unsigned:])

    @staticmethod
    def _mask_bytes(externals: int) -> int:
        return externals // 8 + 1


def _pairs(pairs: Iterable[tuple[int, bytes]]) -> bytes:
    return b"".join([seq.to_bytes(8, "little") + digest for seq, digest in pairs])


def _read_pairs(data: bytes) -> list[tuple[int, bytes]]:
    starts = range(0, len(data), _PAIR_BYTES)
    return [(int.from_bytes(data[at : at + 8], "little"), data[at + 8 : at + _PAIR_BYTES]) for at in starts]


class Vouched:
    """What the segments of a log expect of numbers below them, as they pass by, from the highest down.

    Needed with ``HEADS`` only. Only a log that has a segment with ``unsigned`` entries needs it, so only an author who
    links to what they did not sign makes anybody keep these numbers. Two for each entry of the log is the most.
    """

    def __init__(self) -> None:
        self._expected: set[tuple[int, bytes]] = set()

    def of(self, summary: Summary) -> frozenset[tuple[int, bytes]]:
        """The entries of a segment that higher ones vouch for though their signatures are bad: number and digest."""
        return frozenset(self._expected.intersection(summary.unsigned or ()))

    def add(self, summary: Summary) -> None:
        """Take what a segment expects below itself; judge it again before, if ``of`` has entries of it."""
        expected = self._expected.union(summary.externals, summary.contradicting or ())
        self._expected = {pair for pair in expected if pair[0] < summary.low}


def segment_of(
    packs: Sequence[Pack], signatures: Signatures, vouched: frozenset[tuple[int, bytes]] = frozenset()
) -> tuple[Records, Summary]:
    """The segment that the packs of one block make: its records with signatures and pieces, and its summary.

    ``vouched``: entries that higher segments vouch for (``Vouched``), with ``HEADS`` only.
    """
    return _Judge(distinct(packs)).judged(signatures, vouched)


# -- links --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Links:
    """All links of one kind in a segment of ascending numbers.

    ``row`` is the record linked to, -1 if it is not there; ``fits`` says whether that has the hash that is expected.
    """

    linker: Offsets
    target: Numbers
    expected: Bytes
    row: Offsets
    fits: Flags

    @classmethod
    def of(cls, records: Records, at: Offsets, target: Numbers) -> _Links:
        linker = (at >= 0).nonzero()[0]
        target = target[linker]
        expected = records.digests[at[linker]]
        row = np.searchsorted(records.seq, target)  # below the linker: always a row
        row = np.where(records.seq[row] == target, row, -1)
        fits = (row >= 0) & (records.digest[row] == expected).all(axis=1)
        return cls(linker, target, expected, row, fits)


class _Judge:
    """Judges one segment.

    In the usual case the segment has only entries, one of each number, all authentic, and no two contradict each other.
    That case is judged with whole columns at once (``_links``, ``_quick_paths``). Every other case goes entry by entry,
    which is slower by far; both ways give the same result.
    """

    def __init__(self, records: Records) -> None:
        self._pack = records.pack
        self._records = records
        self._low, self._high = int(records.seq[0]), int(records.seq[-1])
        self._links: list[_Links] = []
        if records.ascending and not records.frames:
            fields = records.fields
            self._links = [
                _Links.of(records, fields.backlink, records.seq - np.uint64(1)),
                _Links.of(records, fields.lipmaalink, fields.target),
            ]
        self._expected: dict[int, bytes] = {}  # what is expected of numbers that are not there
        self._externals: list[int] = []
        self._contradicting: list[tuple[int, bytes]] = []
        self._tied: set[int] = set()  # rows that higher segments vouch for

    def judged(self, signatures: Signatures, vouched: frozenset[tuple[int, bytes]]) -> tuple[Records, Summary]:
        signature = self._checked(signatures, vouched)
        authentic = (signature == Signature.GOOD) | (signature == Signature.TIED)
        forked_at = 0
        if self._links and bool(authentic.all()) and self._agree():
            masks = self._masks_of_run() if self._is_run() else self._masks(self._quick_paths())
        else:
            forked_at = self._fork(authentic)
            masks = self._masks(self._paths(authentic, forked_at))
        numbers = {mask: number for number, mask in enumerate(dict.fromkeys([0, *masks]))}
        piece = np.array([numbers[mask] for mask in masks], np.uint16)
        self._records.pack = replace(self._pack, signature=signature, piece=piece)
        summary = self._summary(authentic, forked_at, piece, list(numbers))
        if signatures is Signatures.HEADS:
            bad = (signature == Signature.BAD).nonzero()[0].tolist()
            summary = replace(summary, unsigned=self._unsigned(bad), contradicting=self._contradicting)
        return self._records, summary

    # -- signatures

    def _checked(self, signatures: Signatures, vouched: frozenset[tuple[int, bytes]]) -> Bytes:
        signature = self._pack.signature.copy()
        signature[~self._records.is_entry] = Signature.NONE
        self._tied = {
            row
            for seq, digest in vouched
            for row in self._rows_of(seq)
            if self._records.digest[row].tobytes() == digest and self._records.is_entry[row]
        }
        if signatures is Signatures.STRICT:
            unknown = (signature == Signature.UNKNOWN).nonzero()[0]
            signature[unknown] = np.where(self._signed(unknown), Signature.GOOD, Signature.BAD)
            return signature
        if not self._links or not self._tie_at_once(signature):
            self._tie_downwards(signature)
        return signature

    def _signed(self, rows: Offsets) -> Flags:
        return signed(self._pack.data, self._pack.start[rows], self._pack.end[rows])

    def _tie_at_once(self, signature: Bytes) -> bool:
        """Check the heads. If all are good, so is all they lead to; if one is bad, return False and change nothing."""
        linked = np.zeros(len(signature), np.bool_)
        linked[list(self._tied)] = True
        for links in self._links:
            linked[links.row[links.fits]] = True
        heads = (~linked & (signature != Signature.GOOD)).nonzero()[0]
        if not self._signed(heads).all():
            return False
        signature[linked & (signature != Signature.GOOD)] = Signature.TIED
        signature[heads] = Signature.GOOD
        return True

    def _tie_downwards(self, signature: Bytes) -> None:
        """Do the same for any segment, entry by entry.

        From the last entry down, because only an authentic entry may vouch for others: each entry is settled before the
        entries it links to are reached.
        """
        records = self._records
        row_of = {digest.tobytes(): row for row, digest in enumerate(records.digest)}
        tied = set(self._tied)
        for row in range(len(records) - 1, -1, -1):
            if not records.is_entry[row]:
                continue
            if signature[row] != Signature.GOOD:
                good = row in tied or self._signed(np.array([row]))[0]
                signature[row] = Signature.TIED if row in tied else Signature.GOOD if good else Signature.BAD
            if signature[row] != Signature.BAD:
                for target, expected in records.links_of(row):
                    linked = row_of.get(expected)
                    if linked is not None and records.seq[linked] == target:
                        tied.add(linked)

    def _unsigned(self, bad: list[int]) -> list[tuple[int, bytes]]:
        """The entries among these rows to which entries above the segment can link."""
        records, linkable = self._records, set(links_across(self._high)) if bad else set()
        return [(seq, records.digest[row].tobytes()) for row in bad if (seq := int(records.seq[row])) in linkable]

    # -- contradictions

    def _agree(self) -> bool:
        """Whether all links agree with each other and with the entries held; notes what they expect of others."""
        if any(((links.row >= 0) & ~links.fits).any() for links in self._links):
            return False
        for links in self._links:
            for at in (links.row < 0).nonzero()[0]:
                expected = links.expected[at].tobytes()
                if self._expected.setdefault(int(links.target[at]), expected) != expected:
                    return False
        self._note_externals()
        return True

    def _fork(self, authentic: Flags) -> int:
        """The lowest position of a contradiction among the authentic entries, 0 if there is none."""
        records, auditor = self._records, LogAuditor()
        held = {int(seq) for seq in records.seq[authentic]}
        self._expected = {}
        for row in authentic.nonzero()[0].tolist():
            links = records.links_of(row)
            digests = [digest for _, digest in links]
            backlink, lipmaalink = (*digests, None, None)[:2]
            digest = records.digest[row].tobytes()
            ends = bool(records.fields.is_end[row])
            auditor.add_fields(int(records.seq[row]), digest, backlink, lipmaalink, is_end=ends)
            for target, expected in links:
                if target not in held and self._expected.setdefault(target, expected) != expected:
                    self._contradicting.append((target, expected))
        self._note_externals()
        return auditor.invalid_from or 0

    def _note_externals(self) -> None:
        self._externals = sorted(target for target in self._expected if target < self._low)

    # -- pieces

    def _is_run(self) -> bool:
        return self._high - self._low + 1 == len(self._records)

    def _masks_of_run(self) -> list[int]:
        """The pieces of a segment without gaps: an entry reaches all that the entry before it reaches.

        So the mask only changes at the few entries that link out of the segment, and needs no walk along the links.
        """
        bits = {target: ROOT << 1 + number for number, target in enumerate(self._externals)}
        found = (
            [
                (int(linker), bits[int(target)])
                for links in self._links
                for linker, target, row in zip(links.linker, links.target, links.row, strict=True)
                if row < 0
            ]
            if self._externals
            else []
        )
        masks: list[int] = []
        mask = ROOT if self._low == 1 else 0
        for linker, bit in sorted(found):
            masks += [mask] * (linker - len(masks))
            mask |= bit
        return masks + [mask] * (len(self._records) - len(masks))

    def _quick_paths(self) -> dict[int, list[tuple[int, int]]]:
        """The links of each row: the number linked to, and its row, -1 if it is not there."""
        paths: dict[int, list[tuple[int, int]]] = {row: [] for row in range(len(self._records))}
        for links in self._links:
            columns = (links.linker.tolist(), links.target.tolist(), links.row.tolist())
            for linker, target, row in zip(*columns, strict=True):
                paths[linker].append((target, row))
        return paths

    def _paths(self, authentic: Flags, forked_at: int) -> dict[int, list[tuple[int, int]]]:
        """The same for any segment, without what is forged or lies at or above a fork.

        What is left has one entry of each number, so that a number stands for its row.
        """
        records = self._records
        rows = [int(row) for row in authentic.nonzero()[0] if not forked_at or records.seq[row] < forked_at]
        row_of = {int(records.seq[row]): row for row in rows}
        return {row: [(target, row_of.get(target, -1)) for target, _ in records.links_of(row)] for row in rows}

    def _masks(self, paths: dict[int, list[tuple[int, int]]]) -> list[int]:
        """The piece of each row, as a mask of what it reaches; rows without paths reach nothing."""
        bits = {target: ROOT << 1 + number for number, target in enumerate(self._externals)}
        masks = [0] * len(self._records)
        for row, links in paths.items():
            mask = 0 if links else ROOT
            for target, linked in links:
                mask |= bits.get(target, 0) if linked < 0 else masks[linked]
            masks[row] = mask
        return masks

    # -- the summary

    def _summary(self, authentic: Flags, forked_at: int, piece: npt.NDArray[np.uint16], pieces: list[int]) -> Summary:
        records = self._records
        lied = authentic & (records.payload() == rank(SIZE_MISMATCH))
        ends = authentic & records.fields.is_end
        return Summary(
            low=self._low,
            high=self._high,
            greatest=_first(records.seq[::-1], authentic[::-1]),
            end_at=_first(records.seq, ends),
            forked_at=forked_at,
            lied_at=_first(records.seq, lied),
            externals=[(target, self._expected[target]) for target in self._externals],
            exports=self._exports(authentic, piece),
            pieces=pieces,
            risers=self._risers(authentic, piece),
        )

    def _exports(self, authentic: Flags, piece: npt.NDArray[np.uint16]) -> list[tuple[int, bytes, bool, int]]:
        records, found = self._records, []
        for target in links_across(self._high):
            if target < self._low:
                break
            row = self._row(target, authentic)
            if row is not None:
                found.append((target, records.digest[row].tobytes(), True, int(piece[row])))
            elif target in self._expected:
                found.append((target, self._expected[target], False, 0))
        return found

    def _risers(self, authentic: Flags, piece: npt.NDArray[np.uint16]) -> list[tuple[int, int, tuple[int, ...]]]:
        if self._low == 1:
            return []
        greatest, found = _first(self._records.seq[::-1], authentic[::-1]), []
        for _, start in steps_across(self._low - 1):
            pool = [seq for seq in path(spine(start), start) if seq <= greatest] if start <= greatest else []
            rows = [row for seq in pool if (row := self._row(seq, authentic)) is not None]
            if pool and len(rows) == len(pool):
                found.append((start, pool[0], tuple(sorted({int(piece[row]) for row in rows}))))
        return found

    def _row(self, seq: int, authentic: Flags) -> int | None:
        """The first authentic entry of a number."""
        return next((row for row in self._rows_of(seq) if authentic[row]), None)

    def _rows_of(self, seq: int) -> range:
        numbers, number = self._records.seq, np.uint64(seq)
        return range(int(np.searchsorted(numbers, number)), int(np.searchsorted(numbers, number, "right")))


def _first(seq: Numbers, rows: Flags) -> int:
    """The first of the numbers that are marked, 0 if there is none."""
    at = int(rows.argmax()) if len(rows) else 0
    return int(seq[at]) if len(rows) and rows[at] else 0
