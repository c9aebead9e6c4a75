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

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from culm.bamboo import LogAuditor, path, spine
from culm.bamboo.certified import steps_across
from culm.bamboo.lipmaa import links_across
from culm.spark.batches.fields import Flags, Numbers
from culm.spark.batches.pack import Pack, Signature
from culm.spark.batches.payload import SIZE_MISMATCH, rank
from culm.spark.batches.records import Records, distinct
from culm.spark.verification.authentic import Links, Signatures, check
from culm.spark.verification.segment_summary import ROOT, Summary


def segment_of(
    packs: Sequence[Pack], signatures: Signatures, vouched: frozenset[tuple[int, bytes]] = frozenset()
) -> tuple[Records, Summary]:
    """The segment that the packs of one block make: its records with signatures and pieces, and its summary.

    ``vouched``: entries that higher segments vouch for (``steps.vouched``), with ``HEADS`` only.
    """
    return _Judge(distinct(packs)).judged(signatures, vouched)


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
        self._links: list[Links] = []
        if records.ascending and not records.frames:
            fields = records.fields
            self._links = [
                Links.of(records, fields.backlink, records.seq - np.uint64(1)),
                Links.of(records, fields.lipmaalink, fields.target),
            ]
        self._expected: dict[int, bytes] = {}  # what is expected of numbers that are not there
        self._externals: list[int] = []
        self._contradicting: list[tuple[int, bytes]] = []

    def judged(self, signatures: Signatures, vouched: frozenset[tuple[int, bytes]]) -> tuple[Records, Summary]:
        signature = check(self._records, self._links, signatures, vouched)
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
            backlink, lipmaalink, *_ = (*(digest for _, digest in links), None, None)
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
        missing = ((links, at) for links in self._links for at in (links.row < 0).nonzero()[0])
        found = [(int(links.linker[at]), bits[int(links.target[at])]) for links, at in missing]
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
        return next((row for row in self._records.rows_of(seq) if authentic[row]), None)


def _first(seq: Numbers, rows: Flags) -> int:
    """The first of the numbers that are marked, 0 if there is none."""
    at = int(rows.argmax()) if len(rows) else 0
    return int(seq[at]) if len(rows) and rows[at] else 0
