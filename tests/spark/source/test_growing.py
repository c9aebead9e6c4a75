"""Following a folder into which bundles are dropped."""

from __future__ import annotations

import json
import os
import time
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import fs
from pyspark.sql.types import BinaryType, StructField, StructType

from culm.bamboo import Entry, encode_varu64
from culm.errors import ConfigError
from culm.spark.source.growing import BEGINNING, FolderStream
from culm.spark.source.rows import Options
from culm.spark.source.source import CulmSource
from culm.spark.storage import located
from culm.store import SQLiteStore
from culm.testing import build_log
from tests.docs.pages import blocks

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession

    from culm.spark.source.growing import Offset

    Rows = list[dict[str, Any]]

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[3] / "docs" / "spark-stream.md"
LOG = build_log(12)


def bundle(*entries: Entry) -> bytes:
    """A bundle of entries alone, frame by frame: type 1, length, entry; at the end type 0, length 32, checksum."""
    data = b"CULMBUNDLE1\n" + b"".join(b"\x01" + encode_varu64(len(one.encoded)) + one.encoded for one in entries)
    return data + b"\x00\x20" + blake2b(data, digest_size=32).digest()


def following(folder: Path | str, **options: str) -> FolderStream:
    """A stream as Spark makes it."""
    (place,) = located([folder])
    return FolderStream(place, Options.parse(options))


def batches(stream: FolderStream, start: Offset = BEGINNING) -> tuple[list[Rows], Offset]:
    """The rows of each batch behind an offset, and the last offset."""
    found = []
    while (end := stream.latestOffset(start)) != start:
        found.append(rows_between(stream, start, end))
        start = end
    return found, start


def rows_between(stream: FolderStream, start: Offset, end: Offset) -> Rows:
    """The rows of a batch."""
    return [row for task in stream.partitions(start, end) for batch in stream.read(task) for row in batch.to_pylist()]


def encoded(rows: Rows) -> list[bytes]:
    """The entries of rows, in the order of their log."""
    return sorted((row["encoded"] for row in rows if row["reason"] is None), key=lambda data: Entry.decode(data).seq)


def of_log(first: int, last: int) -> list[bytes]:
    """Some entries of the log."""
    return [entry.encoded for entry in LOG.entries[first - 1 : last]]


def settle(path: Path) -> None:
    """Let a file be an hour old."""
    os.utime(path, (time.time() - 3600,) * 2)


@pytest.mark.long
def test_what_the_page_shows(spark: SparkSession, tmp_path: Path) -> None:
    """Bundles that are dropped come once each, across restarts of the query; a damaged one is a reject."""
    (text,) = (block.text for block in blocks(PAGE) if "/srv/drop" in block.text)
    folder = tmp_path / "drop"
    folder.mkdir()
    (folder / "1").write_bytes(bundle(*LOG.entries[:4]))
    damaged = bytearray(bundle(*LOG.entries[8:]))
    damaged[20] ^= 1
    for name, data in (("2", bundle(*LOG.entries[4:8])), ("3", bytes(damaged))):
        page: dict[str, Any] = {"session": spark}
        exec(text.replace("/srv", str(tmp_path)), page)
        assert page["query"].awaitTermination(100)
        (folder / name).write_bytes(data)
    page = {"session": spark}
    exec(text.replace("/srv", str(tmp_path)), page)
    assert page["query"].awaitTermination(100)
    rows = [row.asDict() for row in spark.read.parquet(f"file://{tmp_path / 'entries'}").collect()]
    assert of_log(1, 8) == encoded([row for row in rows if row["source"] != str(folder / "3")])
    assert {str(folder / "3")} == {row["source"] for row in rows if row["reason"] is not None}


def test_a_file_that_is_being_written(tmp_path: Path) -> None:
    """A bundle without its end, a plain export and a hidden file are not taken; once they are finished they are."""
    whole = bundle(*LOG.entries[:3])
    plain = b"".join(entry.encoded + LOG.payloads[entry.hash] for entry in LOG.entries[3:6])
    stream = following(tmp_path)
    for size in (0, 5, len(whole) // 2, len(whole) - 1):
        (tmp_path / "bundle").write_bytes(whole[:size])
        assert BEGINNING == stream.latestOffset(BEGINNING)
    (tmp_path / "plain").write_bytes(plain)
    (tmp_path / ".hidden").write_bytes(whole)
    assert BEGINNING == stream.latestOffset(BEGINNING)
    (tmp_path / "bundle").write_bytes(whole)
    (rows,), end = batches(stream)
    assert of_log(1, 3) == encoded(rows)
    settle(tmp_path / "plain")
    (rows,), end = batches(stream, end)
    assert of_log(4, 6) == encoded(rows)
    assert {"bundle", "plain"} == set(end["files"])


def test_a_cut_bundle_is_told_in_the_end(tmp_path: Path) -> None:
    """A bundle whose writer died is read as far as it goes once it is a minute old, and a reject says so."""
    (tmp_path / "cut").write_bytes(bundle(*LOG.entries[:3])[:-40])
    stream = following(tmp_path)
    assert BEGINNING == stream.latestOffset(BEGINNING)
    settle(tmp_path / "cut")
    (rows,), _ = batches(stream)
    assert of_log(1, 2) == encoded(rows)
    (reject,) = (row for row in rows if row["reason"] is not None)
    assert str(tmp_path / "cut") == reject["source"]


def test_a_batch_is_the_same_again(tmp_path: Path) -> None:
    """Batches end at about so many entries; one that is made again has the same files, whatever came since."""
    for number in range(4):
        (tmp_path / str(number)).write_bytes(bundle(*LOG.entries[number * 3 : number * 3 + 3]))
    stream = following(tmp_path, batch="4")
    offsets = [BEGINNING]
    while (end := stream.latestOffset(offsets[-1])) != offsets[-1]:
        offsets.append(end)
    assert len(offsets) == 3
    found = [rows_between(stream, *pair) for pair in pairwise(offsets)]
    (tmp_path / "00").write_bytes(bundle(LOG.entries[0]))
    again = following(tmp_path)
    assert found == [rows_between(again, *pair) for pair in pairwise(offsets)]
    assert of_log(1, 12) == encoded([row for rows in found for row in rows])


def test_available_now_ends(tmp_path: Path) -> None:
    """A query over what is there now does not take what comes meanwhile."""
    (tmp_path / "1").write_bytes(bundle(*LOG.entries[:3]))
    stream = following(tmp_path)
    stream.prepareForTriggerAvailableNow()
    (tmp_path / "2").write_bytes(bundle(*LOG.entries[3:]))
    (rows,), _ = batches(stream)
    assert of_log(1, 3) == encoded(rows)


def test_a_file_that_changes(tmp_path: Path) -> None:
    """A file that changes after it was read, or before it is read, is a reject, once; one that is gone is an error."""
    path = tmp_path / "1"
    path.write_bytes(bundle(*LOG.entries[:3]))
    stream = following(tmp_path)
    _, end = batches(stream)
    path.write_bytes(bundle(*LOG.entries[:4]))
    (rows,), changed = batches(stream, end)
    assert [None] == [row["encoded"] for row in rows]
    assert rows[0]["reason"].startswith(f"changed from {end['files']['1']} to {changed['files']['1']} bytes")
    (row,) = rows_between(stream, BEGINNING, end)
    assert row["reason"].startswith(f"changed from {end['files']['1']} to {changed['files']['1']} bytes")
    path.unlink()
    with pytest.raises(ConfigError, match="is gone: put it back"):
        stream.partitions(BEGINNING, end)


def test_offsets_stay_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was moved away is forgotten after a day, not before; too many at once are an error."""
    stream = following(tmp_path)
    now = time.time()
    end = BEGINNING
    for hour, name in ((0, "1"), (1, "2"), (20, "3"), (26, "4")):
        monkeypatch.setattr("culm.spark.source.growing.time.time", lambda hour=hour: now + hour * 3600)
        (tmp_path / name).write_bytes(bundle(*LOG.entries[:2]))
        if name == "2":
            (tmp_path / "1").unlink()
        end = stream.latestOffset(end)
        assert ("1" in end["files"]) == (hour < 25)
    assert {"2", "3", "4"} == set(end["files"])
    assert {} == end["gone"]
    monkeypatch.setattr("culm.spark.source.growing._MOST_FILES", 3)
    (tmp_path / "5").write_bytes(bundle(*LOG.entries[:2]))
    with pytest.raises(ConfigError, match="more than 3 files: move those away"):
        stream.latestOffset(end)


def test_a_file_that_comes_back(tmp_path: Path) -> None:
    """A file that was out of sight for a while is not read again."""
    (tmp_path / "1").write_bytes(bundle(*LOG.entries[:2]))
    stream = following(tmp_path)
    _, end = batches(stream)
    away = (tmp_path / "1").rename(tmp_path / ".1")
    (tmp_path / "2").write_bytes(bundle(*LOG.entries[2:4]))
    _, end = batches(stream, end)
    assert ["1"] == list(end["gone"])
    away.rename(tmp_path / "1")
    (tmp_path / "3").write_bytes(bundle(*LOG.entries[4:6]))
    (rows,), end = batches(stream, end)
    assert of_log(5, 6) == encoded(rows)
    assert {} == end["gone"]


def test_a_store_among_bundles(tmp_path: Path) -> None:
    """A store is a reject that says how to follow it; a file that is nothing of Culm's is one, too."""
    with SQLiteStore(tmp_path / "store") as store:
        store.add(LOG.items())
        (tmp_path / "text").write_text("hello")
        for path in tmp_path.iterdir():
            settle(path)
        (rows,), _ = batches(following(tmp_path))
    found = {row["source"]: row["reason"] for row in rows}
    assert {str(tmp_path / "store"), str(tmp_path / "text")} == found.keys()
    assert found[str(tmp_path / "store")].endswith("follow it by its own path")


def test_a_folder_in_a_bucket(s3: tuple[str, FileSystem]) -> None:
    """Bundles in a bucket come as those of a folder do."""
    uri, system = s3
    for number in (0, 1):
        with system.open_output_stream(f"{uri[6:]}/drop/{number}.bundle") as stream:
            stream.write(bundle(*LOG.entries[number * 3 : number * 3 + 3]))
    (rows,), end = batches(following(f"{uri}/drop"))
    assert of_log(1, 6) == encoded(rows)
    assert {"0.bundle", "1.bundle"} == set(end["files"])
    assert 2 == len(system.get_file_info(fs.FileSelector(f"{uri[6:]}/drop")))


def test_there_must_be_a_folder(tmp_path: Path) -> None:
    """A folder that is missing is an error at once."""
    with pytest.raises(ConfigError, match="there is no such file or folder"):
        following(tmp_path / "missing")


def test_one_folder_a_stream(tmp_path: Path) -> None:
    """Two folders, or a folder and a store, are refused: the options of a stream would not say which is meant."""
    source = CulmSource({"paths": json.dumps([str(tmp_path), str(tmp_path / "store")])})
    with pytest.raises(ConfigError, match="2 inputs: a stream follows one peer or folder"):
        source.streamReader(StructType([StructField("encoded", BinaryType())]))
