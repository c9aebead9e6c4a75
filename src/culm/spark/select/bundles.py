"""Bundles: what was selected for each requester, as a file that ``culm import`` takes.

One task writes the bundle of a requester as a stream, so that it need not fit into memory: entries log by log in
ascending order, each followed by its payload if that is wanted and can be read. Payloads do not travel through Spark,
because they can be large and most are never asked for: the task that writes a bundle reads them where they were found.

A *place* of a payload is its source, and there the row of an entry in a store, the byte where an entry begins in a
file, or in a bundle the byte where the payload's own frame begins. A payload is known by its hash. So any copy serves,
even one that stands beside another entry.

A file gets its final name when it is complete. So a task that Spark runs twice, or again after a failure, never leaves
half a bundle under that name.

On a cluster the folder, and the sources, must be under the same paths on every machine.
"""

import re
import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import blake2b
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
from pyarrow.compute import field
from pyspark.sql import DataFrame, functions

from culm.bamboo import PayloadHasher
from culm.errors import CulmError, PayloadMismatch, Place
from culm.spark.batches.arrays import fields_of, hashes
from culm.spark.batches.fields import DIGEST_BYTES, cut
from culm.spark.batches.payload import HELD, PayloadFrame
from culm.spark.reading.inputs import SQLITE_MAGIC, start_of
from culm.spark.runtime.columns import Unsigned
from culm.spark.runtime.engine import Table
from culm.spark.runtime.onspark import OnSpark, SparkTable
from culm.spark.storage import Location, Settings, opened_store, settings_here
from culm.store.files import BundleWriter, ProofRecord, read_records_from
from culm.store.payloads.pieces import read_pieces

_Pieces = Callable[[int], Iterator[bytes]]  # the payload of a row, or of the record that begins at a byte


class BundleRow(NamedTuple):
    """A bundle in the manifest: its requester, its name in the folder, and counts.

    ``payloads`` are the wanted payloads that it has; empty ones count, since they need no bytes. ``lacking`` are those
    that are not held, or could no longer be read where they were. ``bytes`` is the size of the file.
    """

    requester: str
    file: str
    entries: int
    payloads: int
    lacking: int
    bytes: int


class Bundled(NamedTuple):
    """An item on its way to its bundle, with the places of its payload."""

    requester: str
    author: bytes
    log_id: Unsigned
    seqnum: Unsigned
    metadata: bool
    payload: bool
    payload_state: str
    size: Unsigned
    payload_hash: bytes
    encoded: bytes
    places: list[dict[str, Any]] | None


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

# Sources that are tried for one payload. Copies are equal, so more are needed only if sources changed after they were
# read; without a bound, a payload that thousands of stores hold would make rows of thousands of places.
_COPIES = 8

_NAME_CHARS = 40  # Letters of a requester's name in its file's name; file systems allow 255 bytes, a hash follows.
_BUFFER = 256 * 1024  # bytes written at once, so that small entries do not cost a system call each
_FETCHED = f"payload AND payload_state = '{HELD}' AND size > 0"


# -- reading payloads ---------------------------------------------------------------------------------------


class Payloads(ExitStack):
    """Reads payloads at their places. Some sources stay open: use it in a ``with`` statement.

    ``settings`` open the sources of other machines.
    """

    def __init__(self, settings: Settings = ()) -> None:
        super().__init__()
        self._settings = settings
        self._sources: dict[str, _Pieces] = {}

    def find(self, places: Iterable[tuple[str, int]], size: int, payload_hash: bytes) -> Iterator[bytes] | None:
        """The pieces of the payload of this size and YAMF-hash, from the first place that has it; None if none has.

        Size and hash are checked before the first piece is handed out. A payload of more than ``WHOLE_BYTES`` is read
        a second time for its pieces: ``PayloadMismatch`` after the last one if it has changed in between.
        """
        for source, offset in places:
            with suppress(CulmError, OSError):
                is_kept = size <= WHOLE_BYTES
                pieces = deque(self._checked(source, offset, size, payload_hash), None if is_kept else 0)
                return iter(pieces) if is_kept else self._checked(source, offset, size, payload_hash)
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
            location = Location(path, settings=self._settings)
            if start_of(location) == SQLITE_MAGIC:
                self._sources[path] = partial(read_pieces, self.enter_context(opened_store(location)))
            else:
                self._sources[path] = partial(_pieces, self.enter_context(location.open()))
        return self._sources[path]


def _pieces(stream: BinaryIO, offset: int) -> Iterator[bytes]:
    for record in islice(read_records_from(stream, offset), 2):  # in a bundle a payload follows its entry
        if not isinstance(record, ProofRecord) and record.payload is not None:
            yield from record.payload
            return


# -- writing bundles ------------------------------------------------------------------------------------------


def write_bundles(engine: OnSpark, items: DataFrame, places: DataFrame, folder: Path) -> Table[BundleRow]:
    """Write a bundle for each requester into a new folder, and beside them the table ``manifest``, which is returned.

    ``items``: rows of ``culm.spark.select.items.Item`` with the entries' bytes. ``places``: ``payload_hash``,
    ``source``, ``offset`` (``PlaceRow``). If an entry is wanted for its payload
    only, the payload stands alone in the bundle. A payload that can be read at none of its places is left out, and
    counted in ``lacking``. If this raises, the folder holds parts of bundles.
    """
    folder.mkdir()
    rows = SparkTable(engine, Bundled, _with_places(items, places))
    spread = rows.spread(["requester"], ["author", "log_id", "seqnum"])
    step = partial(_written, folder=str(folder), settings=settings_here())
    (manifest,) = spread.keep(step, BundleRow, at={BundleRow: folder / "manifest"})
    for left in folder.glob(".*.part-*"):  # left behind by tasks that were killed
        left.unlink()
    return manifest


def bundle_name(requester: str) -> str:
    """The name of a requester's file: letters of its name for people, and a hash so that no two names are equal.

    Only ASCII letters, digits, ``_`` and ``-`` are kept, because a requester's name may be anything, even a path.
    """
    known = re.sub(r"[^A-Za-z0-9_]+", "-", requester)[:_NAME_CHARS].strip("-")
    digest = blake2b(requester.encode(), digest_size=12).hexdigest()
    return f"{known}-{digest}.bundle" if known else f"{digest}.bundle"


def _with_places(items: DataFrame, places: DataFrame) -> DataFrame:
    """The items as ``Bundled``. Only items whose payload must be read are joined with the places; most are not."""
    fetched = items.where(_FETCHED)
    wanted = places.join(fetched, "payload_hash", "leftsemi")
    one_each = wanted.groupBy("payload_hash", "source").agg(functions.min("offset").alias("offset"))
    all_of_it = functions.sort_array(functions.collect_list(functions.struct("source", "offset")))
    known = one_each.groupBy("payload_hash").agg(functions.slice(all_of_it, 1, _COPIES).alias("places"))
    others = items.where(f"NOT ({_FETCHED})")
    return fetched.join(known, "payload_hash", "left").unionByName(others, allowMissingColumns=True)


# -- noting places ---------------------------------------------------------------------------------------------


def places_of(batch: pa.RecordBatch) -> Iterator[PlaceRow]:
    """The payloads that a batch of ``found.EntryRow`` says are held; not empty ones: there is nothing to read."""
    placed = batch.filter(field("source").is_valid() & field("offset").is_valid())
    held = placed.filter((field("payload_state") == HELD) & field("encoded").is_valid())
    fields = fields_of(held.column("encoded"))
    some = (fields.good & (fields.size > 0)).nonzero()[0]
    found = hashes(cut(fields.data, fields.payload_hash[some], DIGEST_BYTES)).to_pylist()
    framed = placed.filter(field("payload_frame").is_valid())
    frames = [PayloadFrame.decode(frame) for frame in framed.column("payload_frame").to_pylist()]
    found += [frame.payload_hash if frame.size else None for frame in frames]
    at = pa.concat_batches([held.take(pa.array(some)), framed]).select(["source", "offset"]).to_pylist()
    yield from (PlaceRow(digest, **place) for digest, place in zip(found, at, strict=True) if digest is not None)


# -- writing --------------------------------------------------------------------------------------------------------


def _written(rows: Iterable[Bundled], folder: str, settings: Settings) -> Iterator[BundleRow]:
    with Payloads(settings) as payloads:
        for requester, of_requester in groupby(rows, key=attrgetter("requester")):
            name = bundle_name(requester)
            part = Path(folder, f".{name}.part-{secrets.token_hex(4)}")
            entries, has_payload = 0, Counter[bool]()
            with part.open("wb", _BUFFER) as stream:
                bundle = BundleWriter(stream)
                for row in of_requester:
                    if row.metadata:
                        bundle.encoded_entry(row.encoded)
                        entries += 1
                    if row.payload:
                        has_payload[_write_payload(bundle, row, payloads)] += 1
                bundle.close()
                size = stream.tell()
            part.rename(part.with_name(name))
            yield BundleRow(requester, name, entries, has_payload[True], has_payload[False], size)


def _write_payload(bundle: BundleWriter, row: Bundled, payloads: Payloads) -> bool:
    """Write the payload of an item; returns whether it is held, and one of its places still had it."""
    if row.payload_state != HELD or not row.size:  # an empty one needs no bytes
        return row.payload_state == HELD
    pieces = payloads.find(map(itemgetter("source", "offset"), row.places or ()), row.size, row.payload_hash)
    if pieces is not None:
        bundle.payload(Place(row.author, row.log_id, row.seqnum), row.size, pieces)
    return pieces is not None
