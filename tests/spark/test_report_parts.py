"""The parts of a report's page that need no table: strips, words for numbers, HTML."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo import MAX_U64
from culm.spark.report.counts import completeness, cost, growth, lengths
from culm.spark.report.html import Html, bytes_text, foreign, portions, share, strip
from culm.spark.report.numbers import (
    ForkNumbers,
    LogNumbers,
    Numbers,
    ReasonNumbers,
    RejectNumbers,
)
from culm.spark.report.page import page
from culm.spark.report.strips import BREAKS, CELLS, Cell, Counted, Strip, strips
from tests.spark import report_oracle as oracle
from tests.spark.report_oracle import HOSTILE, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from culm.spark.report.strips import Piece
    from culm.types import Log


def count_of(held: Mapping[Log, Mapping[int, int]]) -> Any:
    """What counts the cells of pieces, in plain Python."""

    def count(wanted: Mapping[Log, Sequence[Piece]]) -> dict[Log, list[Counted]]:
        found: dict[Log, list[Counted]] = {}
        for log, pieces in wanted.items():
            cells: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
            for number in held[log]:
                for at, piece in enumerate(pieces):
                    if piece.first <= number <= piece.last:
                        cells[at, (number - piece.first) // piece.width].append(number)
            found[log] = [_counted(*cell, of, held[log]) for cell, of in cells.items()]
        return found

    return count


def _counted(piece: int, cell: int, numbers: list[int], held: Mapping[int, int]) -> Counted:
    verified, unverified, invalid = (sum(held[number] == rank for number in numbers) for rank in range(3))
    return Counted(piece, cell, verified, unverified, invalid, min(numbers), max(numbers))


def strip_over(held: Mapping[int, int]) -> Strip:
    """The strip of a log."""
    log = (b"", 0)
    return strips({log: max(held, default=0)}, count_of({log: held}))[log]


NUMBERS = st.one_of(st.integers(1, 200), st.integers(1, MAX_U64), st.integers(0, 63).map(lambda power: 2**power))


@given(st.dictionaries(NUMBERS, st.integers(0, 2), max_size=40))
def test_a_strip_shows_what_is_held(held: dict[int, int]) -> None:
    """Every number held is in one cell; cells are in order and few; what is left out is missing, and much."""
    drawn = strip_over(held)
    assert sum(sum(cell.counts) for cell in drawn.cells) == len(held)
    assert len(drawn.cells) <= CELLS
    free, gaps = 1, []
    for piece in drawn.pieces:
        gaps += [piece[0].first - free] if piece[0].first > free else []
        free = piece[-1].last + 1
        assert [cell.last + 1 for cell in piece[:-1]] == [cell.first for cell in piece[1:]]
    assert free == max(held, default=0) + 1
    assert len(gaps) <= BREAKS
    assert all(10 * gap > 9 * CELLS for gap in gaps)
    for cell in drawn.cells:
        ranks = Counter(rank for number, rank in held.items() if cell.first <= number <= cell.last)
        assert (ranks[0], ranks[1], ranks[2]) == cell.counts
        assert cell.missing >= 0


def test_a_strip_is_drawn_to_scale() -> None:
    """Runs are as wide as they are long, equal neighbours are one shape, shares of a cell are parts of its height."""
    whole = str(strip("t", strip_over(dict.fromkeys(range(1, 97), 0))))
    assert '<path class="v" d="M0 0h9600v24h-9600z"/>' in whole
    halves = str(strip("t", strip_over(dict.fromkeys(range(1, 49), 0) | dict.fromkeys(range(49, 97), 2))))
    assert 'class="v" d="M0 0h4800v24h-4800z"' in halves
    assert 'class="i" d="M4800 0h4800v24h-4800z"' in halves
    half_full = str(strip("t", strip_over(dict.fromkeys(range(2, 193, 2), 1))))
    assert 'class="u" d="M0 12h9600v12h-9600z"' in half_full
    broken = str(strip("t", strip_over({1: 0, MAX_U64: 0})))
    assert 'class="v" d="M0 0h4700v24h-4700zM4900 0h4700v24h-4700z"' in broken
    assert 'class="z"' in broken


@given(st.lists(st.integers(0, 10**30), min_size=1, max_size=6), st.integers(24, 1000))
def test_portions(counts: list[int], room: int) -> None:
    """Portions fill the room if there is anything, and nothing that is there gets none."""
    found = portions(counts, room)
    assert sum(found) == (room if any(counts) else 0)
    assert [bool(count) for count in counts] == [bool(units) for units in found]


def test_words_for_numbers() -> None:
    """Shares are exact at both ends; bytes have units up to sums of the greatest claims."""
    parts = {0: "0 %", 1: "under 0.01 %", 10**9 // 3: "33.33 %", 10**9 - 1: "over 99.99 %", 10**9: "100 %"}
    assert parts == {part: share(part, 10**9) for part in parts}
    sizes = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", MAX_U64: "16.0 EiB", 3 * 2**90: "3,072.0 YiB"}
    assert sizes == {size: bytes_text(size) for size in sizes}


def test_text_from_elsewhere_is_cut_and_escaped() -> None:
    """Foreign text is as long as can be read, without anything that acts; ``Html`` alone is set as it is."""
    assert "&lt;b&gt;" in foreign("<b>")
    assert len(foreign("x" * 10**6)) < 400
    assert "\\ud800" in foreign("\ud800")
    assert isinstance(foreign(None), Html)


def log_row(author: bytes, **more: Any) -> LogNumbers:
    """A log of one entry."""
    row = oracle.log_numbers((author, 0), [verdict(author, 0, 1)])
    return row._replace(**more)


def numbers_with(**more: Any) -> Numbers:
    """The numbers of a report on nothing, changed."""
    return replace(Numbers("name", "now", oracle.totals({}, 0)), **more)


def test_a_page_of_hostile_numbers() -> None:
    """Whatever stands in the tables, the page is whole, and small at the most that it is given."""
    logs = [log_row(bytes([number]) * 32, log_id=MAX_U64, newest=MAX_U64) for number in range(200)]
    cells = [Cell(at * 100 + 1, at * 100 + 100, (10 + at % 30, 25, 45 - at % 20)) for at in range(CELLS)]
    drawn = Strip((tuple(cells),))
    numbers = numbers_with(
        name=HOSTILE,
        troubled=logs[:100],
        largest=logs,
        strips={log[:2]: drawn for log in logs},
        forks=[ForkNumbers(b"short", 1, 2, HOSTILE, None, None, b"\xff" * 4096, 0)] * 50,
        forks_in_all=10**9,
        proofs=True,
        rejects=[RejectNumbers(HOSTILE * 99, None, 1, None)] * 50,
        reasons=[ReasonNumbers(HOSTILE, HOSTILE, 5)] * 30,
        totals=replace(oracle.totals({}, 0), entries=10**12, invalid=10**12),
        said={"entries": HOSTILE, "seconds": float("nan"), "stages": {}},
    )
    html = page(numbers)
    found = oracle.Page(html)
    assert not {"script", "img"} & found.tags.keys()
    assert len(html.encode()) < 2_000_000
    assert "50 of 1,000,000,000 forks" in found.text
    assert page(numbers) == html


def test_counts_of_nothing() -> None:
    """Small tables of no rows."""
    assert ([], [], []) == (growth([]), lengths([]), cost({}))
    assert 11 == len(completeness([]))
