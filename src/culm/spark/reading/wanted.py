"""Which entries are asked for, and what of them, so that no more is read than indexes and formats make necessary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from culm.bamboo import MAX_U64
from culm.errors import ConfigError, Place
from culm.ranges import Range, trim
from culm.spark.batches.fields import Fields, Flags
from culm.types import Log

ALL_NUMBERS = Range(1, None)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries are wanted. None: those of all authors, or all logs; if both are given, what either names.

    ``payload_limit``: the most bytes of a payload in a row; -1 for no payloads. ``states``: whether the state of
    payloads is wanted, for which they are read and hashed. ``frames``: whether payloads that stand apart are.
    """

    authors: frozenset[bytes] | None = None
    logs: frozenset[Log] | None = None
    span: Range = ALL_NUMBERS
    payload_limit: int = -1
    states: bool = True
    frames: bool = True

    @staticmethod
    def within(span: Range, low: int, high: int) -> Range:
        """The part of a range from ``low`` to ``high``.

        ``ConfigError`` for an open sparse range, which depends on the newest entry of each log: files do not tell that.
        """
        if span.sparse and span.is_open:
            raise ConfigError("a sparse range without an end depends on the newest entry of each log; name its end")
        if span.sparse and (low > span.start or high < span.last):
            raise ConfigError("a sparse range cannot be cut by fromSeqnum or toSeqnum; name its start and end")
        if span.sparse or (low, high) == (1, MAX_U64):
            return span
        return trim(span, low, None if high == MAX_U64 else high)[0]

    @property
    def chooses_logs(self) -> bool:
        """Whether only some logs are wanted."""
        return self.authors is not None or self.logs is not None

    @property
    def chooses(self) -> bool:
        """Whether only some entries are wanted."""
        return self.chooses_logs or (self.span.start, self.span.last) != (1, MAX_U64)

    @property
    def reads_payloads(self) -> bool:
        """Whether any bytes of payloads must be read."""
        return self.states or self.frames or self.payload_limit >= 0

    def chosen(self, fields: Fields) -> Flags:
        """Which of these entries are wanted; never those that are not ``good``."""
        if self.span.is_empty:
            return np.zeros(len(fields.good), np.bool_)
        rows: Flags = (
            fields.good & (fields.seq >= np.uint64(self.span.start)) & (fields.seq <= np.uint64(self.span.last))
        )
        if self.span.sparse:
            rows &= np.isin(fields.seq, np.array(list(self.span.numbers(self.span.last)), np.uint64))
        if self.chooses_logs:
            for at in rows.nonzero()[0]:
                author = fields.data[fields.start[at] + 1 : fields.start[at] + 33].tobytes()
                rows[at] = self.has_log(author, int(fields.log_id[at]))
        return rows

    def has_log(self, author: bytes, log_id: int) -> bool:
        """Whether the entries of a log are wanted."""
        return not self.chooses_logs or author in (self.authors or ()) or (author, log_id) in (self.logs or ())

    def has(self, place: Place) -> bool:
        """Whether the entries of a place are wanted."""
        return not self.chooses or (self.span.covers(place.seq) and self.has_log(place.author, place.log_id))

    def has_payload(self, seq: int, size: int) -> bool:
        """Whether the payload of an entry that is wanted is wanted, too."""
        return size <= self.payload_limit and self.span.fits(size) and not self.span.forbids(seq)


EVERYTHING = Wanted()
