"""What reading gives: rows, and payloads while they are read; and what a table must hold that is read as such rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from culm.bamboo import Entry, PayloadHasher
from culm.errors import ConfigError, EncodingError, Place
from culm.spark.batches.payload import HELD, PayloadFrame, judged
from culm.spark.runtime.columns import schema
from culm.spark.storage import Location


class EntryRow(NamedTuple):
    """A row of ``entries.read_entries``: the columns of ``Found``, but for the payload."""

    source: str
    offset: int
    encoded: bytes | None
    payload_state: str | None
    payload_frame: bytes | None
    reason: str | None


class Found(NamedTuple):
    """A row that was read: an entry with its payload's state, a payload frame, or a reject with its reason.

    ``offset`` is a byte of a file, or the row id in a store. A reject may have the bytes that are not an entry.
    ``payload`` is None unless payloads were asked for, and this one is the entry's and not too large.
    """

    source: str
    offset: int
    encoded: bytes | None = None
    payload_state: str | None = None
    payload_frame: bytes | None = None
    reason: str | None = None
    payload: bytes | None = None


class Payload:
    """A payload while it is read: hashed, and kept in memory up to ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: list[bytes] = []
        self.hasher = PayloadHasher()

    def read(self, pieces: Iterable[bytes]) -> bool:
        """Take the next bytes; False if the file ends among them. What comes next in the file says so, too."""
        try:
            for data in pieces:
                self.hasher.update(data)
                if self.hasher.size <= self._limit:
                    self._kept.append(data)
                else:
                    self._kept.clear()
        except EncodingError:
            return False
        return True

    def found(self, source: str, offset: int, entry: Entry) -> Found:
        """The row of an entry, if these are all bytes of its payload, or of what stands in its place."""
        state = judged(entry, self.hasher.hash, self.hasher.size)
        is_kept = state == HELD and self.hasher.size <= self._limit
        return Found(source, offset, entry.encoded, state, payload=b"".join(self._kept) if is_kept else None)

    def frame(self, place: Place) -> bytes:
        """The payload as an encoded ``PayloadFrame`` of this place."""
        return PayloadFrame(place.author, place.log_id, place.seq, self.hasher.hash, self.hasher.size).encode()


# What a column of a table must hold that is read as one of these types. Tables of other people may hold anything.
_TEXT = {"string", "large_string", "string_view"}
_HOLDS = {
    "string": ("text", _TEXT),
    "binary": ("bytes", {"binary", "large_binary", "binary_view", "fixed_size_binary", *_TEXT}),
    "int64": ("whole numbers", {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"}),
}


def check_columns(location: Location, found: pa.Schema) -> None:
    """Raise ``ConfigError`` if a table has no column ``encoded``, or one that holds something else than it has to."""
    if "encoded" not in found.names:
        raise ConfigError(f"{location}: a table of entries needs a binary column 'encoded'")
    for name in {*found.names}.intersection(EntryRow._fields):
        kind, (what, accepted) = found.field(name).type, _HOLDS[str(schema(EntryRow).field(name).type)]
        # Columns of few different values are written as dictionaries, by pandas for instance.
        of_values = str(kind.value_type if pa.types.is_dictionary(kind) else kind).partition("[")[0]
        if of_values not in {"null", *accepted}:
            raise ConfigError(f"{location}: the column '{name}' holds {kind}; in a table of entries it holds {what}")
