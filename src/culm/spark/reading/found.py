"""What reading gives: rows, and payloads while they are read; and what a table must hold that is read as such rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from culm.bamboo import Entry, PayloadHasher
from culm.errors import ConfigError, Place
from culm.spark.batches.payload import HELD, PayloadFrame, judged
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

    def read(self, pieces: Iterable[bytes]) -> Payload:
        """Take the next bytes; returns itself."""
        for data in pieces:
            self.hasher.update(data)
            if self.hasher.size <= self._limit:
                self._kept.append(data)
            else:
                self._kept.clear()
        return self

    def state(self, entry: Entry) -> str:
        """The state of an entry's payload if these are all of its bytes (``batches.payload``)."""
        return judged(entry, self.hasher.hash, self.hasher.size)

    def bytes_for(self, entry: Entry) -> bytes | None:
        """The bytes, if they were kept and are the payload of this entry; else None."""
        if self.hasher.size > self._limit or self.state(entry) != HELD:
            return None
        return b"".join(self._kept)

    def frame(self, place: Place) -> bytes:
        """The payload as an encoded ``PayloadFrame`` of this place."""
        return PayloadFrame(place.author, place.log_id, place.seq, self.hasher.hash, self.hasher.size).encode()


# The columns of a table that are read, and what each has to hold. A table made by somebody else may hold anything.
_COLUMNS = {
    "source": "text",
    "offset": "whole numbers",
    "encoded": "bytes",
    "payload_state": "text",
    "payload_frame": "bytes",
    "reason": "text",
}
_TEXT = {"string", "large_string", "string_view"}
_ARROW_TYPES = {
    "text": _TEXT,
    "bytes": {"binary", "large_binary", "binary_view", "fixed_size_binary", *_TEXT},
    "whole numbers": {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"},  # what fits into a BIGINT
}


def check_columns(location: Location, schema: pa.Schema) -> None:
    """Raise ``ConfigError`` if a table has no column ``encoded``, or one that holds something else than it has to."""
    if "encoded" not in schema.names:
        raise ConfigError(f"{location}: a table of entries needs a binary column 'encoded'")
    for name in _COLUMNS.keys() & set(schema.names):
        if not _holds(schema.field(name).type, _COLUMNS[name]):
            raise ConfigError(
                f"{location}: the column '{name}' holds {schema.field(name).type}; in a table of entries it holds"
                f" {_COLUMNS[name]}"
            )


def _holds(found: pa.DataType, expected: str) -> bool:
    """Whether each value of an Arrow type can be read as what is expected."""
    # Columns of few different values are written as dictionaries, by pandas for instance.
    kind = str(getattr(found, "value_type", found)) if str(found).startswith("dictionary") else str(found)
    return kind == "null" or kind.partition("[")[0] in _ARROW_TYPES[expected]
