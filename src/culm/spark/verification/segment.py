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

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from culm.bamboo import path, spine
from culm.bamboo.certified import steps_across
from culm.bamboo.lipmaa import links_across
from culm.spark.batches.fields import Numbers
from culm.spark.batches.pack import Pack, Signature, distinct
from culm.spark.batches.payload import SIZE_MISMATCH, rank
from culm.spark.batches.slices import Shelf, fetched
from culm.spark.reading.inputs import packed
from culm.spark.verification.authentic import Expected, Links, Signatures, check
from culm.spark.verification.gather import PackRow
from culm.spark.verification.merge import BLOCK, LOG, ROOT, IndexRow, SegmentRow, Summary, grouped
from culm.spark.verification.verdicts import Findings, JudgedSegment
from culm.store.schema import to_sql


def judge(records: Pack, signatures: Signatures, vouched: Expected = ()) -> Summary:
    """Give the records of one block, which are ``distinct``, their signatures and pieces; the summary of their segment.

    ``vouched``: entries that higher segments vouch for (``vouched``), with ``HEADS`` only.
    """
    links = Links.among(records, records.is_entry.nonzero()[0])
    records.signature = check(records, links, signatures, vouched)
    is_bad = records.signature == Signature.BAD
    if is_bad.any():
        links = Links.among(records, (records.is_entry & ~is_bad).nonzero()[0])
    summary = _summary(records, links)
    if signatures is Signatures.STRICT:
        return summary._replace(contradicting=())
    bad = [(int(records.seq[row]), records.digest[row].tobytes()) for row in is_bad.nonzero()[0]]
    linkable = set(links_across(summary.high)) if bad else set()
    return summary._replace(unsigned=[(seq, digest) for seq, digest in bad if seq in linkable])


def _summary(records: Pack, links: Links) -> Summary:
    """The summary of a segment whose authentic entries have these links; gives the entries their pieces."""
    low, high, seq = int(records.seq[0]), int(records.seq[-1]), links.seq
    expected: dict[int, bytes] = {}  # what is expected of numbers that are not there
    contradicting: list[tuple[int, bytes]] = []  # what else is expected of them
    for at in (links.linked < 0).nonzero()[0]:
        target, digest = int(links.target[at]), links.expected[at].tobytes()
        if expected.setdefault(target, digest) != digest:
            contradicting.append((target, digest))
    externals = sorted((target, digest) for target, digest in expected.items() if target < low)
    twice = seq[1:][seq[1:] == seq[:-1]]
    denied = links.target[(links.linked >= 0) & ~links.fits]
    said = (*twice[:1], *denied, *(target for target, _ in contradicting))
    forked_at = min(map(int, said), default=0)  # the lowest number about which entries say different things
    masks = _masks(links, forked_at, externals, ROOT if low == 1 else 0)
    pieces = {mask: piece for piece, mask in enumerate(dict.fromkeys([0, *masks]))}
    records.piece = np.zeros(len(records), np.uint16)
    records.piece[links.rows] = [pieces[mask] for mask in masks]
    rows = dict(zip(reversed(seq.tolist()), reversed(links.rows.tolist()), strict=True))  # the first of each number
    greatest, end_at = _first(seq[::-1]), _first(seq[records.fields.is_end[links.rows]])
    lied_at = _first(seq[records.known_payload()[links.rows] == rank(SIZE_MISMATCH)])

    def exports() -> Iterator[tuple[int, bytes, bool, int]]:
        for target in links_across(high):
            if (row := rows.get(target)) is not None:
                yield target, records.digest[row].tobytes(), True, int(records.piece[row])
            elif target >= low and target in expected:
                yield target, expected[target], False, 0

    def risers() -> Iterator[tuple[int, int, tuple[int, ...]]]:
        for _, start in steps_across(low - 1) if low > 1 else ():
            pool = [seq for seq in path(spine(start), start) if seq <= greatest] if start <= greatest else []
            if pool and all(seq in rows for seq in pool):
                yield start, pool[0], tuple(sorted({int(records.piece[rows[seq]]) for seq in pool}))

    positions = low, high, greatest, end_at, forked_at, lied_at
    return Summary(*positions, externals, [*exports()], [*pieces], [*risers()], contradicting=contradicting)


def _masks(links: Links, forked_at: int, externals: Expected, mask: int) -> list[int]:
    """What each entry reaches: nothing from the fork on. Below it there is one entry of each number.

    An entry reaches all that the entry right below it reaches, the first one ``mask``. So this only changes at entries
    that have a link out of their stretch of neighbouring numbers; these are few if there are few gaps.
    """
    seq = links.seq
    count = int(np.searchsorted(seq, np.uint64(forked_at))) if forked_at else len(seq)
    begins = np.maximum.accumulate(np.where(np.diff(seq, prepend=np.uint64(0)) != 1, np.arange(len(seq)), 0))
    far = (links.linked < begins[links.linker]) & (links.linker < count)
    bits = {target: ROOT << 1 + number for number, (target, _) in enumerate(externals)}
    masks: list[int] = []
    columns = (links.linker[far].tolist(), links.target[far].tolist(), links.linked[far].tolist())
    for linker, target, linked in zip(*columns, strict=True):
        masks += [mask] * (linker - len(masks))
        if begins[linker] == linker and target + 1 == seq[linker]:  # the first link of a stretch
            mask = 0
        mask |= bits.get(target, 0) if linked < 0 else masks[linked]
    return masks + [mask] * (count - len(masks)) + [0] * (len(seq) - count)


def _first(seq: Numbers) -> int:
    """The first of some numbers, 0 if there is none."""
    return int(seq[0]) if len(seq) else 0


# Packs of one block wait until they have this many bytes; then copies of entries among them are merged. This bounds a
# worker's memory when one block comes in very many copies. A smaller value would sort the same entries more often.
_WAITING_BYTES = 64 * 1024 * 1024


def segmented(
    rows: Iterable[PackRow], signatures: Signatures, *, keep: bool = False, folder: Path | None = None
) -> Iterator[SegmentRow | IndexRow]:
    """Packs, sorted by block, to segments, and which of them have a head in doubt, so that their logs pass ``vouched``.

    ``keep``: with the entries themselves.

    With a ``folder`` findings and entries are written there, and the rows say where (``batches.slices``).
    """
    with Shelf(folder) as shelf:
        for block, of_block in grouped(rows, BLOCK):
            records = _collected(row.packed for row in of_block)
            summary = judge(records, signatures)
            yield _row_of(block, records, summary, shelf, keep=keep)
            if summary.unsigned:
                yield IndexRow(block[0], block[1], to_sql(summary.low))


def _row_of(block: tuple[bytes, int, int], records: Pack, summary: Summary, shelf: Shelf, *, keep: bool) -> SegmentRow:
    findings = shelf.put(Findings.of(records).parts())
    packed = shelf.put([records.encode()]) if keep or summary.unsigned else None
    return SegmentRow(*block, to_sql(summary.low), to_sql(summary.high), summary.encode(), findings, packed)


def vouched(rows: Iterable[SegmentRow], *, folder: Path | None = None) -> Iterator[SegmentRow]:
    """The segments of whole logs, sorted by log and from the highest down, with all heads settled. For ``HEADS`` only.

    Entries whose signature is bad, but that a higher segment vouches for, are taken as signed. So what segments expect
    of numbers below them is remembered as they pass by: two numbers for each entry of the log at most. Only logs with
    such entries come here, so only an author who links to what they did not sign makes anybody do that.
    """
    with Shelf(folder) as shelf:
        for _, of_log in grouped(rows, LOG):
            expected: frozenset[tuple[int, bytes]] = frozenset()
            for row in of_log:
                summary, settled = Summary.decode(row.summary), row
                if row.packed is not None and (pairs := expected.intersection(summary.unsigned)):
                    records = Pack.decode(fetched(row.packed))
                    summary = judge(records, Signatures.HEADS, pairs)
                    settled = _row_of((row.author, row.log, row.block), records, summary, shelf, keep=True)
                every = expected.union(summary.externals, summary.contradicting)
                expected = frozenset((number, digest) for number, digest in every if number < summary.low)
                if row.findings is not None:
                    yield settled


def _collected(cells: Iterable[bytes]) -> Pack:
    """The records of the packs of one block, each once."""
    packs: list[Pack] = []
    for together in packed(map(fetched, cells), _WAITING_BYTES, len):
        packs = [distinct([*packs, *map(Pack.decode, together)])]
    return packs[0]


# -- on top of a state ----------------------------------------------------------------------------------------------

# Segments that a block may have. New entries that overlap none of them become a segment of their own, so that a log
# that grows daily costs what is new. Each segment costs a summary that is read whenever its log changes, though. From
# this many on, all segments of a block are merged into one when the block is next added to.
MOST_SEGMENTS = 8


def told_apart(rows: Iterable[IndexRow], *, heads: bool) -> Iterator[IndexRow]:
    """Which segments the packs of their block overlap. Rows come sorted by block; those of packs have no ``made``.

    Segments that stay keep their ``generation``. Those that are merged with packs leave it, and have ``previous``.

    With ``heads`` packs overlap all segments of their block, because which signatures count depends on the whole
    block: a new entry may vouch for one that was a head before. Otherwise the order of the runs would matter. For the
    same reason they overlap all segments of the log that have a head with a bad signature.
    """
    for _, of_block in grouped(rows, BLOCK):
        every = list(of_block)
        new, old = [row for row in every if row.made is None], [row for row in every if row.made is not None]
        low, high = min((row.low for row in new), default=0), max((row.high or 0 for row in new), default=0)
        for row in old:
            near = row.low <= high and (row.high or 0) >= low
            touched = new and (near or heads or len(old) >= MOST_SEGMENTS)
            again = touched or (heads and row.summary and Summary.decode(row.summary).unsigned)
            yield row._replace(generation=None, previous=row.outcome) if again else row


def reloaded(rows: Iterable[SegmentRow]) -> Iterator[PackRow]:
    """Segments become packs again. Each entry remembers its verdict, to find what changes."""
    for row in rows:
        pack = Pack.decode(row.packed or b"")
        pack.before[pack.is_entry] = JudgedSegment(row).said
        yield PackRow(row.author, row.log, row.block, row.low, row.high, pack.encode())
