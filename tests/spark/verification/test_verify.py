"""Verdicts of the whole pipeline, against what is expected of each defect, and against a store."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import ConfigError
from culm.spark import read_entries, rejects, verify
from culm.spark.batches import payload as states
from culm.spark.runtime.columns import struct
from culm.spark.verification.verdicts import Verdict
from culm.store import PayloadState, SQLiteStore, State

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

    from culm.bamboo import Entry
    from tests.spark.defects import DataSet

pytestmark = pytest.mark.spark

STATES = {State.VERIFIED: "verified", State.WAITING: "unverified", State.INVALID: "invalid"}
Rows = dict[bytes, "Row"]


def by_hash(verdicts: DataFrame) -> Rows:
    """The verdicts by entry hash, of which no two are equal."""
    rows = verdicts.collect()
    found = {bytes(row.entry_hash): row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.fixture(scope="module")
def entries(spark: SparkSession, data: DataSet) -> DataFrame:
    """What is read from them."""
    return read_entries(spark, data.inputs).cache()


@pytest.fixture(scope="module")
def verdicts(entries: DataFrame) -> Rows:
    """The verdicts on them."""
    return by_hash(verify(entries))


def test_every_defect(data: DataSet, verdicts: Rows) -> None:
    """Of every entry of the data set the verdict, the reason and the payload are what its case says."""
    for key, expected in data.expected.items():
        row = verdicts[key]
        place = (expected.entry.author.hex(), expected.entry.seq)
        assert (expected.verdict, expected.payload) == (row.verdict, row.payload), (place, row.reason)
        if expected.reason is None:
            assert row.reason is None, place
        else:
            assert expected.reason in row.reason, place


def test_every_distinct_entry_is_there_once(data: DataSet, verdicts: Rows) -> None:
    """There is a row for each entry that was written, and for nothing else; it counts the copies merged."""
    assert data.copies == {key: row.copies for key, row in verdicts.items()}
    assert data.expected.keys() == verdicts.keys()


def test_the_fields_are_the_entries(spark: SparkSession, entries: DataFrame, data: DataSet, verdicts: Rows) -> None:
    """Author, log, number, size, payload hash and end are those of the entry, unsigned numbers as decimals."""
    assert spark.createDataFrame([], struct(Verdict)).dtypes == verify(entries).dtypes
    for key, row in verdicts.items():
        entry = data.expected[key].entry
        assert (entry.author, entry.payload_hash, entry.is_end) == (row.author, row.payload_hash, row.is_end)
        assert (Decimal(entry.log_id), Decimal(entry.seq), Decimal(entry.size)) == (row.log_id, row.seqnum, row.size)


def test_what_cannot_be_read_is_rejected(data: DataSet, entries: DataFrame) -> None:
    """Each damage gives one reject: the file, where in it, and why."""
    found = {row.source: row for row in rejects(entries).collect()}
    assert {str(data.folder / name) for name in data.rejects} == found.keys()
    for name, (offset, reason) in data.rejects.items():
        row = found[str(data.folder / name)]
        assert (offset, True) == (row.offset, reason in row.reason), (name, row.reason)


def states_of(items: list[tuple[Entry, bytes | None]], path: Path) -> dict[bytes, tuple[str, PayloadState]]:
    """State and payload's state of every entry after the items were added to a store."""
    with SQLiteStore(path) as store:
        store.add(items)
        return {
            stored.entry.hash: (STATES[stored.state], stored.payload_state)
            for log in {entry.log for entry, _ in items}
            for stored in store.entries(log, states=State)
        }


def test_a_store_says_the_same(data: DataSet, verdicts: Rows, tmp_path: Path) -> None:
    """A store that is given the same entries in any order comes to the same verdict on each that it takes."""
    random.Random(1).shuffle(data.items)
    found = states_of(data.items, tmp_path / "all")
    assert found.keys() == verdicts.keys() - data.refused
    for key, (state, payload_state) in found.items():
        row = verdicts[key]
        place = (row.author.hex(), int(row.seqnum))
        assert state == row.verdict, (place, row.reason)
        had = (states.HELD, states.FORGOTTEN)  # this store was given what the other one forgot
        assert (payload_state is PayloadState.COMPLETE) == (row.payload in had), place
        assert (payload_state is PayloadState.SIZE_MISMATCH) == (row.payload == states.SIZE_MISMATCH), place


def test_neither_order_nor_partitions_matter(entries: DataFrame, verdicts: Rows) -> None:
    """The same rows in another order and other partitions give the same table."""
    shuffled = entries.orderBy("payload_state", "encoded").repartition(5)
    assert verdicts == by_hash(verify(shuffled))


def test_any_rows_can_be_verified(spark: SparkSession, data: DataSet) -> None:
    """A column of bytes is enough; bytes that are no entry, and none at all, are rejects and fail nothing."""
    entry = next(iter(data.expected.values())).entry
    rows: list[tuple[Any]] = [(entry.encoded,), (entry.encoded,), (b"",), (b"\x02",), (None,), (entry.encoded + b".",)]
    entries = spark.createDataFrame(rows, "encoded BINARY")
    (row,) = verify(entries).collect()
    assert (entry.hash, 2, states.ABSENT) == (row.entry_hash, row.copies, row.payload)
    reasons = sorted(row.reason for row in rejects(entries).collect())
    assert ["a row without an entry", *["not an entry"] * 3] == [reason.split(":")[0] for reason in reasons]


def test_nothing_is_verified_of_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Stores that hold nothing give empty tables."""
    with SQLiteStore(tmp_path / "empty"):
        pass
    entries = read_entries(spark, [tmp_path / "empty"])
    assert [] == verify(entries).collect() == rejects(entries).collect()


def test_rows_without_entries_are_a_wrong_call(spark: SparkSession) -> None:
    """Without the column of entries there is nothing to verify."""
    with pytest.raises(ConfigError, match="'encoded'"):
        verify(spark.range(1))
