"""Strips: which sequence numbers of a log are held, drawn in at most ``CELLS`` cells.

A strip shows the numbers from 1 to the newest, to scale. That fails for a log with the entries 1 to 10 and one entry at
2^64 - 1: to scale, the ten entries are invisible. So a strip is broken where one stretch of missing numbers would take
more than ``WIDEST`` of it, at most ``BREAKS`` times.

Where to break is not known before the numbers are counted, and counting goes over large tables. So it is done in
rounds. The first counts the cells of the whole strip; each cell tells its lowest and its greatest number held, and the
stretches between these are candidates. If the strip is broken, the pieces that remain are cut into finer cells and
counted again, which may show a further stretch.

Numbers are exact up to 2^64 - 1: Python's integers here, decimals in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from culm.types import Log

CELLS = 96  # of a strip: about 10 pixels each on a large screen; more would not be seen, and make the page larger
WIDEST = Fraction(9, 10)  # of a strip that may be one stretch of missing numbers; the rest then still has 9 cells
BREAKS = 4  # in a strip; each costs one more pass over the runs, and a log with more such gaps is seen to have gaps


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a strip: ``first`` to ``last``, drawn in cells of ``width`` numbers; the last cell may have fewer."""

    first: int
    last: int
    width: int

    @property
    def numbers(self) -> int:
        """How many numbers the piece has."""
        return self.last - self.first + 1

    @property
    def cells(self) -> int:
        """How many cells the piece has."""
        return -(-self.numbers // self.width)


@dataclass(frozen=True, slots=True)
class Counted:
    """A cell in which something is held: the piece, the cell in it (from 0), and how many numbers have which verdict.

    ``low`` and ``high`` are the least and the greatest number held in the cell.
    """

    piece: int
    cell: int
    verified: int
    unverified: int
    invalid: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Cell:
    """Numbers from ``first`` to ``last``; ``counts``: how many are verified, unverified, invalid."""

    first: int
    last: int
    counts: tuple[int, int, int]

    @property
    def missing(self) -> int:
        """How many of its numbers are not held."""
        return self.last - self.first + 1 - sum(self.counts)


@dataclass(frozen=True, slots=True)
class Strip:
    """The cells of each piece. All numbers between pieces, and before the first piece, are missing."""

    pieces: tuple[tuple[Cell, ...], ...]

    @property
    def cells(self) -> list[Cell]:
        """The cells of all pieces, in order."""
        return [cell for piece in self.pieces for cell in piece]


def cut(spans: Sequence[tuple[int, int]]) -> tuple[Piece, ...]:
    """The spans as pieces with at most ``CELLS`` cells together. All cells have one width, so that lengths compare."""
    numbers = sum(last - first + 1 for first, last in spans)
    width = max(1, -(-numbers // (CELLS - len(spans) + 1)))
    return tuple(Piece(first, last, width) for first, last in spans)


def broken(pieces: Sequence[Piece], counted: Iterable[Counted]) -> list[tuple[int, int]]:
    """The spans that remain when the widest stretches of missing numbers are left out."""
    spans = [(piece.first, piece.last) for piece in pieces]
    held = sorted((cell.low, cell.high) for cell in counted)
    gaps = sorted(_gaps(spans, held), key=lambda gap: (gap[0] - gap[1], gap[0]))
    breaks = sum(1 for at, (first, _) in enumerate(spans) if first > 1 or at)
    for first, last in gaps:
        drawn = sum(b - a + 1 for a, b in spans)
        if breaks == BREAKS or drawn <= CELLS or last - first + 1 <= WIDEST * drawn:
            break
        at = next(at for at, (a, b) in enumerate(spans) if a <= first and last <= b)
        a, b = spans[at]
        spans[at : at + 1] = [(a, first - 1), (last + 1, b)] if first > a else [(last + 1, b)]
        breaks += 1
    return spans


def _gaps(spans: Sequence[tuple[int, int]], held: Sequence[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """The stretches of missing numbers between cells, and before the first cell of each span."""
    for first, last in spans:
        free = first
        for low, high in held:
            if first <= low <= last:
                if low > free:
                    yield free, low - 1
                free = high + 1


def strip_of(pieces: Sequence[Piece], counted: Iterable[Counted]) -> Strip:
    """The strip that counted cells make; cells that were not counted are empty."""
    found = {(cell.piece, cell.cell): (cell.verified, cell.unverified, cell.invalid) for cell in counted}
    return Strip(
        tuple(
            tuple(
                Cell(
                    piece.first + cell * piece.width,
                    min(piece.last, piece.first + (cell + 1) * piece.width - 1),
                    found.get((number, cell), (0, 0, 0)),
                )
                for cell in range(piece.cells)
            )
            for number, piece in enumerate(pieces)
        )
    )


def strips(
    newest: Mapping[Log, int], count: Callable[[Mapping[Log, Sequence[Piece]]], Mapping[Log, list[Counted]]]
) -> dict[Log, Strip]:
    """The strips of some logs. ``newest`` has their newest numbers; ``count`` counts the cells of pieces of some logs.

    ``count`` is called again for the logs whose strip was broken, so at most ``BREAKS`` + 1 times.
    """
    made: dict[Log, Strip] = {log: Strip(()) for log, last in newest.items() if not last}
    waiting = {log: cut([(1, last)]) for log, last in newest.items() if last}
    while waiting:
        counted = count(waiting)
        again: dict[Log, tuple[Piece, ...]] = {}
        for log, pieces in waiting.items():
            cells = counted.get(log, [])
            spans = broken(pieces, cells)
            if len(spans) == len(pieces) and spans[0][0] == pieces[0].first:
                made[log] = strip_of(pieces, cells)
            else:
                again[log] = cut(spans)
        waiting = again
    return {log: made[log] for log in newest}
