"""The parts of a report's page that need no table: strips, words for numbers, HTML."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from culm.bamboo import MAX_U64
from culm.spark.batches.payload import STATES
from culm.spark.report import steps
from culm.spark.report.job import completeness, growth, lengths
from culm.spark.report.numbers import SMALL, Coverage, LogNumbers, Numbers, Reasons, RejectNumbers
from culm.spark.report.page import LogView, page, portions, share, short, shown, view
from culm.spark.report.source import Source
from culm.spark.report.steps import BREAKS, CELLS, coverage, logs_of, within
from culm.spark.report.stretches import Stretch, magnitude, magnitudes, stretches
from culm.spark.runtime import columns
from culm.spark.verification.forks import Fork
from culm.spark.verification.verdicts import VERDICTS, Verdict
from tests.spark import report_oracle as oracle
from tests.spark.report_oracle import HOSTILE, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def strip_over(held: Mapping[int, int]) -> list[Coverage]:
    """The strip of a log that has these numbers, with these positions in ``VERDICTS``."""
    rows = [verdict(b"", 0, number, verdict=VERDICTS[state]) for number, state in held.items()]
    return coverage_of(rows)


def coverage_of(rows: Sequence[dict[str, Any]]) -> list[Coverage]:
    """The cells of the only log that has rows."""
    table = pa.Table.from_pylist(rows, READ)
    found = coverage(within(stretches(table), {(row["author"], row["log_id"]) for row in rows}))
    return list(columns.rows(Coverage, found.to_batches()))


READ = pa.schema([field for field in columns.schema(Verdict) if field.name in verdict(b"", 0, 1)])
NUMBERS = st.one_of(st.integers(1, 200), st.integers(1, MAX_U64), st.integers(0, 63).map(lambda power: 2**power))


@given(st.dictionaries(NUMBERS, st.integers(0, 2), min_size=1, max_size=40))
def test_a_strip_shows_what_is_held(held: dict[int, int]) -> None:
    """Every number held is in one cell; cells are in order and few; what is left out is missing, and much."""
    drawn = strip_over(held)
    assert len(drawn) <= CELLS
    free, gaps = 1, []
    for cell in drawn:
        gaps += [cell.first - free] if cell.first > free else []
        free = cell.last + 1
        ranks = Counter(rank for number, rank in held.items() if cell.first <= number <= cell.last)
        assert (ranks[0], ranks[1], ranks[2]) == (cell.verified, cell.unverified, cell.invalid)
        assert cell.last - cell.first + 1 == cell.missing + ranks.total()
    assert free == max(held, default=0) + 1
    assert sum(cell.verified + cell.unverified + cell.invalid for cell in drawn) == len(held)
    assert len(gaps) <= BREAKS
    assert all(10 * gap > 9 * CELLS for gap in gaps)


ENTRIES = st.fixed_dictionaries(
    {
        "author": st.sampled_from([b"a" * 32, b"short", b""]),
        "log_id": st.sampled_from([0, 1, MAX_U64]),
        "seqnum": st.one_of(st.integers(1, 30), NUMBERS),
        "verdict": st.sampled_from(VERDICTS),
        "payload": st.sampled_from(STATES),
        "reason": st.sampled_from([None, "bad signature", "fork at 7", f"fork at {MAX_U64}", "no path to entry 1: x"]),
        "size": st.integers(0, MAX_U64),
        "copies": st.integers(1, MAX_U64 // 2**10),
    }
)


@given(st.lists(ENTRIES, min_size=1, max_size=60), st.integers(1, 5))
def test_stretches_are_all_that_is_needed(rows: list[dict[str, Any]], parts: int) -> None:
    """In whatever order rows come, and in however many portions, the logs are those of plain Python over the rows."""
    parted = [pa.Table.from_pylist(rows[part::parts], READ) for part in range(parts)]
    found = pa.concat_tables([stretches(portion).cast(columns.schema(Stretch)) for portion in parted if len(portion)])
    whole = found.sort_by([("author", "ascending"), ("log", "ascending")]).combine_chunks()
    made = list(columns.rows(LogNumbers, logs_of(whole).to_batches()))
    of = oracle.by_log(rows)
    assert {log: oracle.log_numbers(log, of[log]) for log in of} == {log[:2]: log for log in made}
    assert len(rows) == sum(row["high"] - row["low"] + 1 for row in found.to_pylist())


def test_neighbours_are_one_stretch() -> None:
    """A log of 65,536 entries without trouble is some forty rows, one for each magnitude."""
    rows = [verdict(b"a", 0, number) for number in range(1, 65_537)]
    assert 4 * 9 + 6 == len(stretches(pa.Table.from_pylist(rows, READ)))


@given(st.integers(0, MAX_U64))
def test_magnitudes(number: int) -> None:
    """Numbers with as many digits and the same first digit are one magnitude; each number is within its own."""
    low, high = magnitude(int(magnitudes(np.array([number], np.uint64))[0]))
    assert low <= number <= high
    assert str(low)[0] == str(high)[0] == str(number)[0]
    assert len(str(low)) == len(str(high)) == len(str(number))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3))), st.integers(1, 9))
def test_spark_gives_steps_whole_logs(keys: list[tuple[int, int]], rows: int) -> None:
    """However rows come in batches, a portion has whole logs; none is lost, none comes twice."""
    keys.sort()
    given = {"author": [bytes([author]) for author, _ in keys], "log": [log for _, log in keys]}
    table = pa.table({"author": pa.array(given["author"], pa.binary()), "log": pa.array(given["log"], pa.int64())})
    with mock.patch.object(steps, "_STEP_ROWS", rows):
        found = list(steps._portions(table.to_batches(max_chunksize=3), by_log=True))
    assert given == pa.concat_tables([table.slice(0, 0), *found]).to_pydict()
    ends = [(batch.slice(at, 1).to_pylist()[0]) for batch in found for at in (0, len(batch) - 1)]
    assert all(before != after for before, after in zip(ends[1::2], ends[2::2], strict=False))


def test_a_strip_is_drawn_to_scale() -> None:
    """Runs are as wide as they are long, equal neighbours are one shape, shares of a cell are parts of its height."""

    def drawn(held: Mapping[int, int]) -> LogView:
        return view(log_row(b""), strip_over(held))

    assert {"v": "M0 0h9600v24h-9600z"} == drawn(dict.fromkeys(range(1, 97), 0)).shapes
    halves = drawn(dict.fromkeys(range(1, 49), 0) | dict.fromkeys(range(49, 97), 2))
    assert {"v": "M0 0h4800v24h-4800z", "i": "M4800 0h4800v24h-4800z"} == halves.shapes
    assert {"u": "M0 12h9600v12h-9600z"} == drawn(dict.fromkeys(range(2, 193, 2), 1)).shapes
    broken = drawn({1: 0, MAX_U64: 0})
    assert "M0 0h4700v24h-4700zM4900 0h4700v24h-4700z" == broken.shapes["v"]
    assert "z" in broken.shapes
    assert "9600" == broken.width
    assert [(2, MAX_U64 - 1)] == broken.gaps
    assert [(1, MAX_U64 - 1)] == drawn({MAX_U64: 0}).gaps


@given(st.lists(st.integers(0, 10**30), min_size=1, max_size=6), st.integers(24, 1000))
def test_portions(counts: list[int], room: int) -> None:
    """Portions fill the room if there is anything, and nothing that is there gets none."""
    found = portions(counts, room)
    assert sum(found) == (room if any(counts) else 0)
    assert [bool(count) for count in counts] == [bool(units) for units in found]


def test_words_for_numbers() -> None:
    """Shares are exact at both ends."""
    parts = {0: "0 %", 1: "under 0.01 %", 10**9 // 3: "33.33 %", 10**9 - 1: "over 99.99 %", 10**9: "100 %"}
    assert parts == {part: share(part, 10**9) for part in parts}
    assert share(0, 0) is None
    assert ["999,999,999,999", "1T", "1.84e+19"] == [short(number) for number in (10**12 - 1, 10**12, MAX_U64)]


def test_what_a_page_prints_is_cut_and_shown() -> None:
    """Foreign text is as long as can be read, without anything that acts; numbers have separators, None is a dash."""
    assert len(str(shown("x" * 10**6))) < 400
    printed = {"\ud800\u202e": "\\ud800\\u202e", 1234: "1,234", None: "\N{EN DASH}", "<b>": "<b>"}
    assert printed == {value: shown(value) for value in printed}
    safe = Markup("<b>" * 1000)
    assert shown(safe) is safe


def log_row(author: bytes, **more: Any) -> LogNumbers:
    """A log of one entry."""
    row = oracle.log_numbers((author, 0), [verdict(author, 0, 1)])
    return row._replace(**more)


def numbers_with(**more: Any) -> Numbers:
    """The numbers of a report on nothing, changed; rows are given by the name of their table."""
    names = (*SMALL, "troubled", "largest", "authors", "forks", "rejects")
    tables: dict[str, Sequence[Any]] = dict.fromkeys(names, ())
    tables |= {name: more.pop(name) for name in tables.keys() & more.keys()}
    source = Source(Path(more.pop("name", "name")), more.pop("said", {}), 0, 0)
    found = Numbers(source, "now", oracle.totals({}, 0), tables, {"forks": 0, "rejects": 0}, proofs=False, seconds=0.0)
    return found._replace(**more)


@pytest.mark.slow
def test_a_page_of_hostile_numbers() -> None:
    """Whatever stands in the tables, the page is whole, and small at the most that it is given."""
    shown = [log_row(bytes([number]) * 32, log_id=MAX_U64, newest=MAX_U64) for number in range(200)]
    cells = [
        Coverage(*log[:2], at * 100 + 1, at * 100 + 100, 10 + at % 30, 25, 45 - at % 20, 20)
        for log in shown
        for at in range(CELLS)
    ]
    numbers = numbers_with(
        name=HOSTILE,
        troubled=shown[:100],
        largest=shown,
        coverage=cells,
        forks=[Fork._make((b"short", 1, 2, HOSTILE, None, None, b"\xff" * 4096, 0))] * 50,
        in_all={"forks": 10**9, "rejects": 50},
        proofs=True,
        rejects=[RejectNumbers(HOSTILE * 99, None, 1, None)] * 50,
        reasons=[Reasons(HOSTILE, HOSTILE, 5)] * 30,
        totals=replace(oracle.totals({}, 0), entries=10**12, invalid=10**12),
        said={"entries": HOSTILE, "seconds": float("nan")},
    )
    html = page(numbers)
    found = oracle.Page(html)
    assert not {"script", "img"} & found.tags.keys()
    assert len(html.encode()) < 2_000_000
    assert "50 of 1,000,000,000 forks" in found.text
    assert page(numbers) == html
    one = {**numbers.tables, "forks": numbers.tables["forks"][:1]}
    single = oracle.Page(page(numbers._replace(tables=one, in_all={"forks": 1, "rejects": 50})))
    assert "All 1 " not in single.text
    assert "1 fork\n" in single.text or "1 fork " in single.text, single.text[:200]


def test_counts_of_nothing() -> None:
    """Small tables of no rows."""
    assert ([], []) == (growth([]), lengths([]))
    assert 11 == len(completeness([]))
