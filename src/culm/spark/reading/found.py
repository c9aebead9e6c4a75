"""What is asked for of the inputs, so that no more is read than indexes and formats make necessary; and what is found.

Also what a table must hold that is read as rows of these types.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from culm.bamboo import MAX_U64
from culm.errors import ConfigError, Place
from culm.ranges import Range, trim
from culm.spark.batches.fields import Fields, Flags
from culm.spark.runtime.columns import schema
from culm.spark.storage import Location
from culm.types import Log

ALL_NUMBERS = Range(1, None)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries are wanted.

    ``named``: the authors and logs whose entries are; None: all. ``payload_limit``: the most bytes of a payload in a
    row; -1 for no payloads. ``states``: whether the state of payloads is wanted, for which they are read and hashed.
    ``frames``: whether payloads that stand apart are.
    """

    named: frozenset[bytes | Log] | None = None
    span: Range = ALL_NUMBERS
    payload_limit: int = -1
    states: bool = True
    frames: bool = True

    @property
    def chooses(self) -> bool:
        """Whether only some entries are wanted."""
        return self.named is not None or (self.span.start, self.span.last) != (1, MAX_U64)

    @property
    def reads_payloads(self) -> bool:
        """Whether any bytes of payloads must be read."""
        return self.states or self.frames or self.payload_limit >= 0

    def chosen(self, fields: Fields) -> Flags:
        """Which of these entries are wanted; never those that are not ``good``."""
        rows: Flags = fields.good & (fields.seq >= self.span.start) & (fields.seq <= self.span.last)
        if self.span.sparse:
            rows &= np.isin(fields.seq, np.array(list(self.span.numbers(self.span.last)), np.uint64))
        if self.named is not None:
            authors = fields.authors()
            for at in rows.nonzero()[0]:
                rows[at] = self.has_log(authors[at].tobytes(), int(fields.log_id[at]))
        return rows

    def has_log(self, author: bytes, log_id: int) -> bool:
        """Whether the entries of a log are wanted."""
        return self.named is None or author in self.named or (author, log_id) in self.named

    def has(self, place: Place) -> bool:
        """Whether the entries of a place are wanted."""
        return not self.chooses or (self.span.covers(place.seq) and self.has_log(place.author, place.log_id))

    def has_payload(self, seq: int, size: int) -> bool:
        """Whether the payload of an entry that is wanted is wanted, too."""
        return size <= self.payload_limit and self.span.fits(size) and not self.span.forbids(seq)


EVERYTHING = Wanted()


def within(span: Range, low: int, high: int) -> Range:
    """The part of a range from ``low`` to ``high``.

    ``ConfigError`` for an open sparse range, which depends on the newest entry of each log: files do not tell that.
    """
    if span.sparse and span.is_open:
        raise ConfigError("a sparse range without an end depends on the newest entry of each log; name its end")
    if span.sparse and (low > span.start or high < span.last):
        raise ConfigError("a sparse range cannot be cut by fromSeqnum or toSeqnum; name its start and end")
    return span if span.sparse or (low, high) == (1, MAX_U64) else trim(span, low, None if high == MAX_U64 else high)[0]


class EntryRow(NamedTuple):
    """A row that was read: an entry with its payload's state, a payload frame, or a reject with its reason.

    ``offset`` is a byte of a file, or the row id in a store. A reject may have the bytes that are not an entry.
    ``payload`` is None unless payloads were asked for, and this one is the entry's and not too large. It comes last:
    the columns before it (``READ``) are all that a verification needs.
    """

    source: str
    offset: int
    encoded: bytes | None = None
    payload_state: str | None = None
    payload_frame: bytes | None = None
    reason: str | None = None
    payload: bytes | None = None


READ = EntryRow._fields[:-1]
"""The columns of ``entries.read_entries``."""

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
    for name in {*found.names}.intersection(READ):
        kind, (what, accepted) = found.field(name).type, _HOLDS[str(schema(EntryRow).field(name).type)]
        # Columns of few different values are written as dictionaries, by pandas for instance.
        of_values = str(kind.value_type if pa.types.is_dictionary(kind) else kind).partition("[")[0]
        if of_values not in {"null", *accepted}:
            raise ConfigError(f"{location}: the column '{name}' holds {kind}; in a table of entries it holds {what}")
