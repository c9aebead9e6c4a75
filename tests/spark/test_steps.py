"""What the workers do, done here: the steps one after the other, in this process and without Spark."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import yamf_hash
from culm.spark import read, steps
from culm.spark.columns import Columns
from culm.spark.inputs import plan
from culm.spark.payload import PayloadFrame
from culm.spark.walk import Fact, Finding
from culm.store.schema import from_sql
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.spark.defects import DataSet

Row = tuple[Any, ...]


def passed(columns: Columns, rows: Iterable[Row]) -> list[Row]:
    """The rows after they went through Arrow batches."""
    return list(columns.rows(columns.batches(rows)))


def step(rows: list[Row], given: Columns, function: Any, result: Columns) -> list[Row]:
    """A step as Spark takes it, from batches to batches."""
    return list(result.rows(steps.mapped(given, function, result)(given.batches(rows))))


def test_the_steps_together(data: DataSet) -> None:
    """Reading, decoding, merging, checking and walking give the expected verdicts."""
    splits = plan(data.inputs)
    rows = list(read.FOUND.rows(read._reader(splits)(read._SPLIT.batches([(at,) for at in range(len(splits))]))))
    decoded = step(rows, read.FOUND, steps.decode, steps.DECODED)
    assert sorted(data.rejects) == sorted(row[0].rpartition("/")[2] for row in decoded if row[5] is not None)

    kept = [row for row in decoded if row[5] is None]
    copies = Counter(row[2] for row in kept)
    merged = {row[2]: row for row in sorted(kept, key=lambda row: int(row[4]))}
    unique = [(key, record, payload, copies[key]) for key, (_, _, _, record, payload, _) in merged.items()]
    facts = step(unique, steps.UNIQUE, steps.check, steps.FACTS)
    findings = [
        Finding._make(row)
        for row in step(sorted(facts, key=lambda fact: fact[:6]), steps.FACTS, steps.walk_logs, steps.FINDINGS)
    ]
    limits = {(one.author, one.log): one for one in findings if not one.is_entry}
    entries = {one.entry_hash or b"": one for one in findings if one.is_entry}
    assert data.expected.keys() == entries.keys()
    for key, expected in data.expected.items():
        finding = entries[key]
        limit = limits.get((finding.author, finding.log))
        beyond = limit is not None and finding.seq >= limit.seq
        assert ("invalid" if beyond else finding.verdict) == expected.verdict
        assert (finding.payload, finding.copies) == (expected.payload, data.copies[key])
        assert expected.entry.seq == from_sql(finding.seq)


def test_the_columns_are_the_fields() -> None:
    """Rows are tuples in the order of their columns."""
    assert Fact._fields == steps.FACTS.names
    assert Finding._fields == steps.FINDINGS.names
    assert ("source", "offset", "encoded", "payload_state", "payload_frame", "reason") == read.FOUND.names


@pytest.mark.parametrize("count", [0, 1, 2000, 4001])
def test_rows_through_batches(count: int) -> None:
    """Any number of rows of any values comes out as it went in."""
    columns = Columns(a="BINARY", b="BIGINT", c="BOOLEAN", d="STRING", e="TINYINT")
    rows = [(bytes([n % 256]), -(2**63) + n, n % 2 == 0, None if n % 3 else str(n), n % 7) for n in range(count)]
    assert rows == passed(columns, rows)
    assert "a BINARY, b BIGINT, c BOOLEAN, d STRING, e TINYINT" == columns.ddl


def test_every_row_is_decoded_or_rejected() -> None:
    """An entry, a frame and a reject keep what they are; bytes that are neither, and nothing at all, are rejects."""
    entry = build_log(1).entries[0]
    frame = PayloadFrame(entry.author, 0, 1, yamf_hash(b""), 0).encode()
    rows = [
        ("a", 1, entry.encoded, "held", None, None),
        ("b", 2, None, None, frame, None),
        ("c", 3, None, None, None, "why"),
        ("d", 4, b"\x02", None, None, None),
        ("e", 5, None, None, b"\x02", None),
        ("f", 6, None, None, None, None),
    ]
    first, second, *rest = steps.decode(rows)
    assert ("a", 1, entry.hash, entry.encoded) == first[:4]
    assert ("b", 2, frame, frame) == second[:4]
    assert ["c", "d", "e", "f"] == [row[0] for row in rest]
    assert ["why", "not an entry", "not an entry", "a row without an entry"] == [row[5].split(":")[0] for row in rest]


def test_an_unknown_payload_state_is_a_wrong_call() -> None:
    """Rows that somebody made up must use the known states."""
    row = ("a", 1, build_log(1).entries[0].encoded, "complete", None, None)
    with pytest.raises(ValueError, match="'complete' is not a payload state"):
        list(steps.decode([row]))


def test_the_greatest_number_fits_the_decimals() -> None:
    """20 digits hold 2^64 - 1."""
    assert len(Decimal(2**64 - 1).as_tuple().digits) == 20
