"""Sums over records, as peers compare them (docs/specs/negentropy.md), and the row of a log, which has some."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from culm.store.schema import to_sql
from culm.types import Log

ID_BYTES = 32
_MASK = 2**256 - 1  # sums are kept modulo 2^256, as the protocol compares them


@dataclass(slots=True)
class Sums:
    """The number of records and the sum of their ids; the same for the records whose payload is held.

    The sums are not yet reduced modulo 2^256.
    """

    count: int = 0
    total: int = 0
    held_count: int = 0
    held_total: int = 0

    def add(self, numbers: Sequence[int], listed: Sequence[int], held: Sequence[int]) -> None:
        """Take up what happened to records; see ``Changes``."""
        self.count += sum(listed)
        self.total += _weighted(numbers, listed)
        self.held_count += sum(held)
        self.held_total += _weighted(numbers, held)

    def merge(self, other: Sums) -> None:
        """Add the records of another sum."""
        self.count += other.count
        self.total += other.total
        self.held_count += other.held_count
        self.held_total += other.held_total

    def row(self) -> tuple[int, bytes, int, bytes]:
        """The columns in which the sums are stored."""
        return (self.count, stored_total(self.total), self.held_count, stored_total(self.held_total))

    @classmethod
    def of(cls, count: int, total: bytes, held_count: int, held_total: bytes) -> Sums:
        """The sums that ``row`` made these columns of."""
        return cls(count, number_of(total), held_count, number_of(held_total))


def number_of(identity: bytes) -> int:
    """An id, or a sum of ids, as a number."""
    return int.from_bytes(identity, "little")


def _weighted(numbers: Sequence[int], weights: Sequence[int]) -> int:
    if weights.count(1) == len(weights):  # As nearly always: entries that are new, with their payloads.
        return sum(numbers)
    return sum(map(mul, numbers, weights))


def stored_total(total: int) -> bytes:
    """A sum of ids as it is stored and compared: modulo 2^256, in 32 bytes."""
    return (total & _MASK).to_bytes(ID_BYTES, "little")


WRITE_LOG = (
    "UPDATE logs SET newest = ?, greatest = ?, ended_at = ?, forked_at = ?, invalid_from = ?, contiguous = ?,"
    " change = ?, entry_count = ?, entry_total = ?, payload_count = ?, payload_total = ?, head = ? WHERE id = ?"
)
"""Writes a ``LogRow``."""


@dataclass(slots=True)
class LogRow(ABC):
    """The row of a log, in memory while entries are added. The columns are explained in ``culm.store.schema``.

    ``id`` is 0 as long as the log has no row, and a number of an entry as long as there is no such entry (None for
    those that are mostly missing). ``sums`` and ``head`` are as stored: ``culm.store.records.index`` brings both up to
    date at the end of a transaction.
    """

    log: Log
    id: int
    newest: int
    greatest: int
    contiguous: int
    ended_at: int | None
    forked_at: int | None
    invalid_from: int | None
    change: int
    sums: Sums
    head: bytes | None

    @property
    @abstractmethod
    def newest_hash(self) -> bytes:
        """The hash (66 bytes) of the newest verified entry; nothing if there is none."""

    def row(self) -> tuple[object, ...]:
        """The values for ``WRITE_LOG``."""
        numbers = self.newest, self.greatest, self.ended_at, self.forked_at, self.invalid_from
        places = [to_sql(number) if number else None for number in numbers]
        return *places, to_sql(self.contiguous), self.change, *self.sums.row(), self.head, self.id
