"""Reading what is asked for and no more: shown by counting what comes out of stores, and what is hashed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pytest
from pyarrow import parquet

from culm.bamboo import Entry, PayloadHasher
from culm.errors import ConfigError
from culm.ranges import read_range
from culm.spark.reading import inputs
from culm.spark.reading import scan as scanning
from culm.spark.reading.entries import split_batches
from culm.spark.reading.found import Wanted
from culm.spark.reading.inputs import Part, plan
from culm.spark.reading.scan import scan
from culm.spark.runtime import columns
from culm.spark.source.rows import Options, entry_batches
from culm.store import SQLiteStore
from culm.store.files import BundleWriter
from culm.store.rows import all_rows
from culm.store.schema import to_sql
from culm.testing import build_log
from culm.wire.places import log_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOGS = {seed: build_log(40, seed=seed) for seed in range(1, 6)}
ONE = LOGS[3].entries[0].log


@pytest.fixture(params=["store", "bundle", "table"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An input of each kind with five logs of 40 entries."""
    place = tmp_path / f"input.{request.param}"
    if request.param == "store":
        with SQLiteStore(place) as store:
            for log in LOGS.values():
                store.add(log.items())
        return place
    if request.param == "table":
        parquet.write_table(
            pa.table({"encoded": [entry.encoded for log in LOGS.values() for entry in log.entries]}), place
        )
        return place
    with place.open("wb") as stream:
        bundle = BundleWriter(stream)
        for log in LOGS.values():
            for entry in log.entries:
                bundle.entry(entry)
                bundle.payload(entry.place, entry.size, [log.payloads[entry.hash]])
        bundle.close()
    return place


def read(path: Path, **options: str) -> list[dict[str, Any]]:
    """The rows that the source gives for some options."""
    asked = Options.parse(options)
    splits = plan([path], None, asked.wanted)
    found = (batch for split in splits for batch in split_batches(split, asked.wanted))
    return [row for batch in entry_batches(found, asked) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("options", "logs", "numbers"),
    [
        ({}, LOGS, range(1, 41)),
        ({"author": ONE[0].hex()}, {3}, range(1, 41)),
        ({"log": log_text(ONE), "range": "5..10"}, {3}, range(5, 11)),
        ({"log": log_text(ONE), "range": "5..14 sparse"}, {3}, (5, 6, 7, 8, 12, 13, 14)),
        ({"range": "40"}, LOGS, (40,)),
        ({"range": "30..", "toSeqnum": "31"}, LOGS, (30, 31)),
        ({"range": "nothing"}, LOGS, ()),
        ({"log": log_text((ONE[0], 1))}, {3}, ()),
    ],
)
def test_what_is_asked_for_comes(path: Path, options: dict[str, str], logs: Any, numbers: Any) -> None:
    """Inputs of every kind give the same entries for the same options, each once."""
    expected = {LOGS[seed].entries[number - 1].encoded for seed in logs for number in numbers}
    found = [row["encoded"] for row in read(path, **options)]
    assert expected == set(found)
    assert len(expected) == len(found)


@pytest.mark.parametrize("path", ["store"], indirect=True)
def test_a_store_gives_no_more(path: Path) -> None:
    """Of a store with many logs only the rows of what is asked for are read, however it is cut, and only once."""
    real = all_rows
    for options, rows in (
        ({"log": log_text(ONE), "range": "5..14 sparse"}, 7),
        ({"log": log_text(ONE)}, 40),
        ({"range": "39.."}, 10),
    ):
        count = 0

        def counted(*given: Any) -> Any:
            nonlocal count
            found = real(*given)
            count += len(found)
            return found

        with (
            mock.patch.object(scanning, "all_rows", counted),
            mock.patch.object(scanning, "_PAGE", 7),
            mock.patch.object(inputs, "ROWS", 9),
        ):
            assert rows == len(read(path, **options))
        assert rows == count


def hashed(path: Path, **options: str) -> int:
    """How many bytes of payloads are hashed for some options."""
    count, real = 0, PayloadHasher.update

    def counted(self: PayloadHasher, data: bytes) -> None:
        nonlocal count
        count += len(data)
        real(self, data)

    with mock.patch.object(PayloadHasher, "update", counted):
        read(path, **options)
    return count


@pytest.mark.parametrize("path", ["store", "bundle"], indirect=True)
def test_payloads_are_read_for_columns_that_need_them(path: Path) -> None:
    """Payloads are hashed for their state and for themselves, of what is asked for, and else not at all."""
    whole = sum(entry.size for log in LOGS.values() for entry in log.entries)
    few = sum(entry.size for entry in LOGS[3].entries[4:6])
    assert whole == hashed(path)
    assert 0 == hashed(path, columns="author,log_id,seqnum")
    assert few == hashed(path, columns="seqnum,payload_state", log=log_text(ONE), range="5..6")
    assert [{"seqnum": 5, "payload": LOGS[3].payloads[LOGS[3].entries[4].hash]}] == read(
        path, columns="seqnum,payload", payloads="true", log=log_text(ONE), range="5"
    )


@pytest.mark.parametrize("path", ["store", "bundle"], indirect=True)
def test_a_range_leaves_payloads_out(path: Path) -> None:
    """A range's limits of size and its forbidden numbers are for payloads: the entry comes without it."""
    rows = read(path, columns="seqnum,payload", payloads="true", log=log_text(ONE), range="5..7 without 6")
    assert {5: False, 6: True, 7: False} == {int(row["seqnum"]): row["payload"] is None for row in rows}
    rows = read(path, columns="seqnum,payload", payloads="true", log=log_text(ONE), range="5 max 1")
    assert [None] == [row["payload"] for row in rows]


def test_pages_are_counted_in_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has few rows if their payloads are large, so that a task needs little memory."""
    monkeypatch.setattr(columns, "BATCH_BYTES", 2000)
    asked = Options.parse({"payloads": "true"})
    found = [batch for split in plan([path], None, asked.wanted) for batch in split_batches(split, asked.wanted)]
    assert 200 == sum(batch.num_rows for batch in found)
    if path.suffix != ".table":  # its rows have no payloads, and come as Parquet's reader cuts them
        assert 2 < max(batch.num_rows for batch in found) < 10


@pytest.mark.parametrize("options", [{"range": "5.. sparse"}, {"range": "5..9 sparse", "fromSeqnum": "6"}])
def test_sparse_ranges_have_ends(options: dict[str, str]) -> None:
    """A sparse range depends on its ends, so they must be known."""
    with pytest.raises(ConfigError, match="name its"):
        Options.parse(options)


def test_a_log_with_a_gap_makes_few_pieces(tmp_path: Path) -> None:
    """A log may hold the greatest number there is: the pieces follow the rows of the store, not the numbers."""
    log = build_log(3)
    with SQLiteStore(tmp_path / "store") as store:
        store.add(log.items())
    with closing(sqlite3.connect(tmp_path / "store")) as connection, connection:
        connection.execute("UPDATE logs SET greatest = ?", (to_sql(2**64 - 1),))
    wanted = Wanted(frozenset([log.entries[0].log]), span=read_range("2.."))
    (split,) = plan([tmp_path / "store"], None, wanted)
    assert [Part.FORKS, Part.ENTRIES] == [piece.part for piece in split]
    assert [2, 3] == [Entry.decode(row.encoded).seq for piece in split for row in entries(piece, wanted)]


def entries(piece: inputs.Piece, wanted: Wanted) -> Iterator[Any]:
    """The rows of a piece that have an entry."""
    return (row for row in scan(piece, wanted) if row.encoded is not None)
