"""Which entries of a segment are authentic: certainly made by their author.

``STRICT`` checks every signature. ``HEADS`` saves most of that work: a link is the hash of all bytes of
the entry it leads to, so an author who signed an entry also vouched for the entries it links to. An entry is then
*authentic* if its signature is good, or if an authentic entry links to it. It is enough to check the *heads*, the
entries that no authentic entry of the segment links to, going down from the last entry. In a block without gaps that is
one signature. The price: an author can link to an entry that they never signed properly, and ``HEADS`` takes that entry
for verified. Nobody but the author can do that.

A head with a bad signature may still be authentic, because an entry of a higher segment links to it. The summary names
such heads in ``unsigned``, and ``segment.vouched`` finds those that a higher segment vouches for. Their segments are
judged a second time. Otherwise a verdict would depend on where the borders of the blocks are.
"""

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple, Never, Self

import numpy as np

from culm.errors import ConfigError
from culm.spark.batches.fields import Bytes, Flags, Numbers, Offsets, signed
from culm.spark.batches.pack import Pack, Signature


class Signatures(Enum):
    """Which signatures are checked; the values are the names on the command line, ``ConfigError`` for others."""

    STRICT = "all"
    HEADS = "heads"

    @classmethod
    def _missing_(cls, value: object) -> Never:
        raise ConfigError(f"signatures must be {' or '.join(way.value for way in cls)}, not {value!r}")


class Links(NamedTuple):
    """Some entries of a segment, and their links to each other: a row for each link, ascending, the backlink first.

    The entries ascend, too: ``rows`` says where they are among the records, ``seq`` are their numbers. ``linker`` and
    ``linked`` are places in these; ``linked`` is -1 if no entry has the number ``target``. ``fits`` says whether the
    entry there has the digest that is ``expected``.
    """

    rows: Offsets
    seq: Numbers
    linker: Offsets
    target: Numbers
    expected: Bytes
    linked: Offsets
    fits: Flags

    @classmethod
    def among(cls, records: Pack, rows: Offsets) -> Self:
        """The links among entries in these rows."""
        fields, seq = records.fields, records.seq[rows]
        at = np.column_stack([fields.backlink[rows], fields.lipmaalink[rows]])
        linker, kind = (at >= 0).nonzero()
        target = np.column_stack([seq - np.uint64(1), fields.target[rows]])[linker, kind]
        expected = records.digests[at[linker, kind]]
        linked = np.searchsorted(seq, target)  # below the linker: always a place
        held = seq[linked] == target
        fits = held & (records.digest[rows[linked]] == expected).all(axis=1)
        others = (held & ~fits).nonzero()[0]
        if len(others) and (seq[1:] == seq[:-1]).any():  # the link may lead to a further entry of this number
            place_of = {one.tobytes(): place for place, one in enumerate(records.digest[rows])}
            found = np.array([place_of.get(expected[link].tobytes(), linked[link]) for link in others])
            fits[others] = (found != linked[others]) & (seq[found] == target[others])
            linked[others] = np.where(fits[others], found, linked[others])
        return cls(rows, seq, linker, target, expected, np.where(held, linked, -1), fits)


Expected = Collection[tuple[int, bytes]]
"""Numbers, and the digests of entries that are expected there."""


def check(records: Pack, links: Links, signatures: Signatures, vouched: Expected = ()) -> Bytes:
    """The ``Signature`` of each record. Changes nothing.

    ``links``: those among all entries. ``vouched``: entries that higher segments vouch for, number and digest.
    """
    signature = records.signature.copy()
    signature[~records.is_entry] = Signature.NONE
    vouchers = np.zeros(len(records), np.int64)  # how many entries link to each that are authentic, as far as is known
    linker = linked = links.rows[:0]
    if signatures is Signatures.HEADS:
        signature[(signature == Signature.TIED) | (signature == Signature.BAD)] = Signature.UNKNOWN
        linker, linked = links.rows[links.linker[links.fits]], links.rows[links.linked[links.fits]]
        vouchers += np.bincount(linked, minlength=len(records))
        for seq, digest in vouched:
            vouchers[[row for row in records.rows_of(seq) if records.digest[row].tobytes() == digest]] += 1
    heads = ((signature == Signature.UNKNOWN) & (vouchers == 0)).nonzero()[0]
    while len(heads):
        good = signed(records.data, records.start[heads], records.end[heads])
        signature[heads] = np.where(good, Signature.GOOD, Signature.BAD)
        # What a bad head links to has one voucher less, and becomes a head itself with the last of them.
        lost = linked[np.isin(linker, heads[~good])]
        np.subtract.at(vouchers, lost, 1)
        heads = np.unique(lost[(vouchers[lost] == 0) & (signature[lost] == Signature.UNKNOWN)])
    signature[signature == Signature.UNKNOWN] = Signature.TIED
    return signature
