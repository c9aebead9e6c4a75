"""Where the bytes of payloads are, and how they are read there.

Tables of entries have no payloads, because payloads can be large and most are never asked for. Where one is needed,
for a bundle, it is read from the store or file it was found in. A *place* here is that source and an offset in it, as
``read_entries`` gives them: the row of an entry in a store, the byte where an entry begins in an export file, in a
bundle also the byte where a payload's own frame begins.

A payload is known by its hash. So any copy serves, even one that stands beside another entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import BinaryIO, NamedTuple

import pyarrow as pa
from pyarrow.compute import field

from culm.bamboo import PayloadHasher
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import CulmError, PayloadMismatch
from culm.spark.batches.arrays import fields_of
from culm.spark.batches.fields import DIGEST_BYTES, cut
from culm.spark.batches.payload import HELD, PayloadFrame
from culm.spark.reading.inputs import SQLITE_MAGIC
from culm.spark.reading.scan import paired
from culm.spark.storage import Location, Settings, opened_store, settings_here
from culm.store.files import EntryRecord, PayloadRecord, read_records_from
from culm.store.payloads.pieces import read_pieces

Place = tuple[str, int]
_Pieces = Callable[[int], Iterator[bytes]]  # the payload of a row, or of the record that begins at a byte


class PlaceRow(NamedTuple):
    """A place where a payload was when the inputs were read; the source may have changed since."""

    payload_hash: bytes
    source: str
    offset: int


# Payloads up to this many bytes are read into memory, checked, and handed out. Larger ones are read twice, piece by
# piece: once to check them, once to hand them out, so that a payload of any size passes in little memory.
WHOLE_BYTES = 1024 * 1024

# Sources that are kept open; then all are closed. Payloads of one log mostly lie in one source, so few are enough; too
# many would use up file descriptors where a table names thousands of files.
_OPEN = 16


_PLACE = ["source", "offset"]

# -- noting places --------------------------------------------------------------------------------------------------


def places_of(batch: pa.RecordBatch) -> Iterator[PlaceRow]:
    """The payloads that a batch of ``found.EntryRow`` says are held; not empty ones: there is nothing to read."""
    placed = batch.filter(field("source").is_valid() & field("offset").is_valid())
    held = placed.filter((field("payload_state") == HELD) & field("encoded").is_valid())
    fields = fields_of(held.column("encoded"))
    some = (fields.good & (fields.size > 0)).nonzero()[0]
    digests = cut(fields.data, fields.payload_hash[some], DIGEST_BYTES)
    for row, digest in zip(held.take(pa.array(some)).select(_PLACE).to_pylist(), digests, strict=True):
        yield PlaceRow(YAMF_PREFIX + digest.tobytes(), **row)
    framed = placed.filter(field("payload_frame").is_valid())
    frames = map(PayloadFrame.decode, framed.column("payload_frame").to_pylist())
    for row, frame in zip(framed.select(_PLACE).to_pylist(), frames, strict=True):
        if frame.size:
            yield PlaceRow(frame.payload_hash, **row)


# -- reading there --------------------------------------------------------------------------------------------------


class Payloads(ExitStack):
    """Reads payloads at their places. Some sources stay open: use it in a ``with`` statement.

    ``settings`` open the sources of other machines; None: those of this process.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._settings = settings_here() if settings is None else settings
        self._sources: dict[str, _Pieces] = {}

    def find(self, places: Iterable[Place], size: int, payload_hash: bytes) -> Iterator[bytes] | None:
        """The pieces of the payload of this size and YAMF-hash, from the first place that has it; None if none has.

        Size and hash are checked before the first piece is handed out. A payload of more than ``WHOLE_BYTES`` is read
        a second time for its pieces: ``PayloadMismatch`` after the last one if it has changed in between.
        """
        for source, offset in places:
            try:
                pieces = self._checked(source, offset, size, payload_hash)
                if size <= WHOLE_BYTES:
                    return iter(list(pieces))
                for _ in pieces:
                    pass
            except (CulmError, OSError):
                continue
            return self._checked(source, offset, size, payload_hash)
        return None

    def _checked(self, source: str, offset: int, size: int, payload_hash: bytes) -> Iterator[bytes]:
        hasher = PayloadHasher()
        for piece in self._source(source)(offset):
            hasher.update(piece)
            if hasher.size > size:
                break
            yield piece
        if hasher.size != size or hasher.hash != payload_hash:
            raise PayloadMismatch(f"{source}: the payload at {offset} is missing or has changed since it was read")

    def _source(self, path: str) -> _Pieces:
        if path not in self._sources:
            if len(self._sources) >= _OPEN:
                self.close()
                self._sources.clear()
            location = Location(path, self._settings)
            with ExitStack() as opened:  # so that nothing stays open if the rest fails
                stream = opened.enter_context(location.open())
                is_store = stream.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
                store = opened.enter_context(opened_store(location)) if is_store else None
                self.push(opened.pop_all())
            self._sources[path] = partial(_pieces, stream) if store is None else partial(read_pieces, store)
        return self._sources[path]


def _pieces(stream: BinaryIO, offset: int) -> Iterator[bytes]:
    record, following = next(paired(read_records_from(stream, offset)), (None, None))
    found = following or record
    if isinstance(found, EntryRecord | PayloadRecord) and found.payload is not None:
        yield from found.payload
