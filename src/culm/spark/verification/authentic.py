"""Which entries of a segment are authentic: certainly made by their author.

``STRICT`` checks every signature. ``HEADS`` saves most of that work: a link is the hash of all bytes of
the entry it leads to, so an author who signed an entry also vouched for the entries it links to. An entry is then
*authentic* if its signature is good, or if an authentic entry links to it. It is enough to check the *heads*, the
entries that no authentic entry of the segment links to, going down from the last entry. In a block without gaps that is
one signature. The price: an author can link to an entry that they never signed properly, and ``HEADS`` takes that entry
for verified. Nobody but the author can do that.

A head with a bad signature may still be authentic, because an entry of a higher segment links to it. The summary names
such heads in ``unsigned``, and ``steps.vouched`` finds those that a higher segment vouches for. Their segments are
judged a second time. Otherwise a verdict would depend on where the borders of the blocks are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from culm.spark.batches.fields import Bytes, Flags, Numbers, Offsets, signed
from culm.spark.batches.pack import Signature
from culm.spark.batches.records import Records


class Signatures(Enum):
    """Which signatures are checked; the values are the names on the command line."""

    STRICT = "all"
    HEADS = "heads"


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """All links of one kind in a segment of ascending numbers.

    ``row`` is the record linked to, -1 if it is not there; ``fits`` says whether that has the hash that is expected.
    """

    linker: Offsets
    target: Numbers
    expected: Bytes
    row: Offsets
    fits: Flags

    @classmethod
    def of(cls, records: Records, at: Offsets, target: Numbers) -> Links:
        """``at``: where in each record the link's hash stands, -1 without one. ``target``: the number linked to."""
        linker = (at >= 0).nonzero()[0]
        target = target[linker]
        expected = records.digests[at[linker]]
        row = np.searchsorted(records.seq, target)  # below the linker: always a row
        row = np.where(records.seq[row] == target, row, -1)
        fits = (row >= 0) & (records.digest[row] == expected).all(axis=1)
        return cls(linker, target, expected, row, fits)


def check(
    records: Records, links: Sequence[Links], signatures: Signatures, vouched: frozenset[tuple[int, bytes]]
) -> Bytes:
    """The ``Signature`` of each record. Changes nothing.

    ``links``: those of a segment of entries only, one of each number; without, records are looked at one by one.
    ``vouched``: entries that higher segments vouch for, number and digest.
    """
    signature = records.pack.signature.copy()
    signature[~records.is_entry] = Signature.NONE
    if signatures is Signatures.STRICT:
        unknown = (signature == Signature.UNKNOWN).nonzero()[0]
        signature[unknown] = np.where(_signed(records, unknown), Signature.GOOD, Signature.BAD)
        return signature
    tied = {
        row
        for seq, digest in vouched
        for row in records.rows_of(seq)
        if records.digest[row].tobytes() == digest and records.is_entry[row]
    }
    if not links or not _tie_at_once(records, links, signature, tied):
        _tie_downwards(records, signature, tied)
    return signature


def _signed(records: Records, rows: Offsets) -> Flags:
    return signed(records.pack.data, records.pack.start[rows], records.pack.end[rows])


def _tie_at_once(records: Records, links: Sequence[Links], signature: Bytes, tied: set[int]) -> bool:
    """Check the heads. If all are good, so is all they lead to; if one is bad, return False and change nothing."""
    linked = np.zeros(len(signature), np.bool_)
    linked[list(tied)] = True
    for kind in links:
        linked[kind.row[kind.fits]] = True
    heads = (~linked & (signature != Signature.GOOD)).nonzero()[0]
    if not _signed(records, heads).all():
        return False
    signature[linked & (signature != Signature.GOOD)] = Signature.TIED
    signature[heads] = Signature.GOOD
    return True


def _tie_downwards(records: Records, signature: Bytes, tied: set[int]) -> None:
    """Do the same for any segment, entry by entry; ``tied`` grows.

    From the last entry down, because only an authentic entry may vouch for others: each entry is settled before the
    entries it links to are reached.
    """
    row_of = {digest.tobytes(): row for row, digest in enumerate(records.digest)}
    for row in range(len(records) - 1, -1, -1):
        if not records.is_entry[row]:
            continue
        if signature[row] != Signature.GOOD:
            good = row in tied or _signed(records, np.array([row]))[0]
            signature[row] = Signature.TIED if row in tied else Signature.GOOD if good else Signature.BAD
        if signature[row] != Signature.BAD:
            for target, expected in records.links_of(row):
                linked = row_of.get(expected)
                if linked is not None and records.seq[linked] == target:
                    tied.add(linked)
