"""The step in which pieces meet the entries they denote, in a worker, block by block.

The rows of a block come sorted: first its verified entries, then the pieces, by requester. Pieces are laid out as pairs
of a piece and a number, thousands at a time with numpy, but a bounded number, so that memory stays bounded. Numbers
without an entry are gaps. Several pieces of one requester may denote the same entry; since they follow each other,
their pairs are merged into one item.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from culm.spark.batches.arrays import begins
from culm.spark.batches.fields import Offsets
from culm.spark.batches.pack import BLOCK_BITS
from culm.spark.runtime.columns import Batch, Unsigned, schema
from culm.spark.select.pieces import NOT_HELD, batch_of, gaps_of, numbers_of, unpacked
from culm.spark.select.requests import CERTIFICATE, METADATA, PAYLOAD


class Item(NamedTuple):
    """An entry that a requester gets: a row of ``culm.spark.select.Selection.items``.

    =============  =============  ================================================================================
    requester      STRING
    author         BINARY         32 bytes
    log_id         DECIMAL(20,0)
    seqnum         DECIMAL(20,0)
    metadata       BOOLEAN        the entry itself is wanted
    payload        BOOLEAN        its payload is wanted
    certificate    BOOLEAN        the entry is wanted only to verify others
    entry_hash     BINARY         YAMF-hash, 66 bytes
    size           DECIMAL(20,0)  of the payload, as the entry claims
    payload_hash   BINARY         66 bytes
    payload_state  STRING         what is known of the payload (``batches.payload.STATES``)
    encoded        BINARY         the entry
    =============  =============  ================================================================================

    Each entry is there once for a requester, however many ranges denote it. The newest entry of a log, by which open
    ranges end, is its greatest verified one.
    """

    requester: str
    author: bytes
    log_id: Unsigned
    seqnum: Unsigned
    metadata: bool
    payload: bool
    certificate: bool
    entry_hash: bytes
    size: Unsigned
    payload_hash: bytes
    payload_state: str
    encoded: bytes | None


_KEY = ("author", "log", "block", "share")

# Pairs of a piece and an entry that are laid out at once. More would take more memory of the worker; far fewer would
# lose the speed of whole columns.
_PAIRS = 1 << 16

_WANTS_BITS = 3  # METADATA, PAYLOAD and CERTIFICATE


def chosen(batches: Iterable[pa.RecordBatch], *, encoded: bool = True) -> Iterator[Batch]:
    """Batches of ``Piece``, sorted by block, share and requester, to batches of ``Item``.

    Numbers that a piece denotes and that no entry has become batches of ``Gap``. ``encoded``: with the entries' bytes.
    """
    for (_, _, block, _), parts in groupby(chain.from_iterable(map(_parts, filter(len, batches))), key=itemgetter(0)):
        _, first = next(parts)
        found = _Block(block, first, encoded=encoded)
        for _, rows in chain([((), first)], parts):
            yield from found.take(rows.filter(rows.column("requester").is_valid()))
        yield from found.finish()


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[tuple[bytes, int, int, int], pa.RecordBatch]]:
    """The parts of a batch that are of one block and share, each with its ``_KEY``."""
    columns = [np.asarray(batch.column(name)) for name in _KEY]
    for low, high in pairwise([*begins(*columns).tolist(), len(batch)]):
        author, log, block, share = (column[low] for column in columns)
        yield (author, int(log), int(block), int(share)), batch.slice(low, high - low)


class _Block:
    """One block while its pieces pass by, sorted by requester.

    The items of the last requester wait, because the next batch may have more of its pieces. A pair of a requester and
    an entry is one number, which sorts quickly: the requester's number times the count of entries, plus the entry's
    row; what is wanted is in the lowest bits.
    """

    def __init__(self, block: int, rows: pa.RecordBatch, *, encoded: bool) -> None:
        self._base = np.uint64(block << BLOCK_BITS)
        self._entries = pa.RecordBatch.from_pylist([], schema=schema(Item))
        if not rows.column("requester")[0].is_valid:  # the block has entries
            self._entries = pa.ipc.read_record_batch(rows.column("data")[0].as_buffer(), schema(Item))
        if not encoded:
            self._entries = self._entries.drop_columns("encoded")
        seq, self._size = (np.asarray(self._entries.column(name).cast(pa.uint64())) for name in ("seqnum", "size"))
        self._row_of = np.full(1 << BLOCK_BITS, -1)
        self._row_of[seq - self._base] = np.arange(len(seq))
        self._waiting = np.zeros(0, np.int64)  # The pairs of the last requester, whose number among them is 0.
        self._requester = pa.array([], pa.string())

    def take(self, pieces: pa.RecordBatch) -> Iterator[Batch]:
        """Take more pieces; yields the items of all requesters but the last."""
        piece, first, last, wants = unpacked(pieces.column("data"))
        count = last - first + 1
        for runs in np.split(np.arange(len(count)), np.diff(np.cumsum(count) // _PAIRS).nonzero()[0] + 1):
            run = np.repeat(runs, count[runs])
            offset = first[run] + np.arange(len(run)) - np.repeat(np.cumsum(count[runs]) - count[runs], count[runs])
            if len(run):
                low, high = int(piece[run[0]]), int(piece[run[-1]]) + 1
                yield from self._pairs(pieces.slice(low, high - low), piece[run] - low, offset, wants[run])

    def finish(self) -> Iterator[Batch]:
        """Yield the items of the last requester, when the block has no more pieces."""
        yield from self._items(self._requester, self._waiting)

    def _pairs(self, pieces: pa.RecordBatch, piece: Offsets, offset: Offsets, wants: Offsets) -> Iterator[Batch]:
        """Pairs of a piece and a number, with what is wanted of it."""
        rows = self._row_of[offset]
        there = rows >= 0
        if not there.all():
            yield self._gaps(pieces, piece[~there], offset[~there])
        piece, rows, wants = piece[there], rows[there], wants[there]
        least, limit = (numbers_of(pieces.column(name))[piece] for name in ("least", "limit"))
        size = self._size[rows]
        wants[(size < least) | ((limit > 0) & (size >= limit))] &= ~PAYLOAD  # payloads of other sizes
        some, requesters = wants != 0, pieces.column("requester")
        named = pa.concat_arrays([self._requester, requesters]).dictionary_encode()  # in this order, as they are sorted
        who = np.asarray(named.indices)[len(self._requester) :].astype(np.int64)[piece]
        new = (who * len(self._entries) + rows << _WANTS_BITS | wants)[some]
        pairs: Offsets = np.sort(np.concatenate((self._waiting, new)))
        pairs = np.bitwise_or.reduceat(pairs, begins(pairs >> _WANTS_BITS))  # each once, with all that is wanted of it
        last = (len(named.dictionary) - 1) * len(self._entries) << _WANTS_BITS
        at = int(np.searchsorted(pairs, last))
        self._requester, self._waiting = requesters[-1:], pairs[at:] - last
        yield from self._items(named.dictionary, pairs[:at])

    def _gaps(self, pieces: pa.RecordBatch, piece: Offsets, offset: Offsets) -> Batch:
        """The pairs of a piece and a number that is not held, as runs of neighbours."""
        starts = begins(piece, offset - np.arange(len(offset)))
        ends = np.append(starts[1:], len(offset)) - 1
        first, last = (offset[at].astype(np.uint64) + self._base for at in (starts, ends))
        return gaps_of(pieces, piece[starts], first, last, NOT_HELD)

    def _items(self, requesters: pa.Array, pairs: Offsets) -> Iterator[Batch]:
        if not len(pairs):
            return
        who, rows = np.divmod(pairs >> _WANTS_BITS, len(self._entries))
        metadata = pairs & (METADATA | CERTIFICATE)
        wants = {"metadata": metadata != 0, "payload": pairs & PAYLOAD != 0, "certificate": metadata == CERTIFICATE}
        yield batch_of(Item, self._entries, rows, requester=requesters.take(pa.array(who)), **wants)
