"""Looking at the inputs: what is refused, and how the rest is cut into splits."""

from __future__ import annotations

import io
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING
from unittest import mock

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFile
from pyarrow import fs, parquet

from culm.errors import ConfigError, CulmError, StoreDamaged
from culm.spark.reading import inputs
from culm.spark.reading.entries import split_batches
from culm.spark.reading.found import EntryRow
from culm.spark.reading.inputs import SQLITE_MAGIC, Part, Piece, plan
from culm.spark.reading.scan import scan
from culm.spark.runtime.columns import rows
from culm.store import SQLiteStore
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyarrow.fs import FileSystem


def refused(path: Path) -> str:
    """The one line that refuses a path; it names the path."""
    with pytest.raises(CulmError) as error:
        plan([path])
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_can_never_be_read_is_refused(tmp_path: Path) -> None:
    """A path that is missing, empty, no regular file, or a folder of such is refused by name."""
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    assert "nothing in it can be read: 2 files; empty: the file is empty" in refused(tmp_path)
    assert "no such file" in refused(tmp_path / "missing")
    assert "empty" in refused(tmp_path / "empty")
    assert "not a regular file" in refused(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="no input was given"):
        plan([])


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    """A file without permission is refused, too."""
    (tmp_path / "secret").write_bytes(b"x")
    with mock.patch("pathlib.Path.open", side_effect=PermissionError(13, "Permission denied")):
        assert "cannot be read: Permission denied" in refused(tmp_path / "secret")


def test_databases_that_are_no_stores_are_refused(tmp_path: Path) -> None:
    """An SQLite file of somebody else, or a damaged one, is refused as a store would refuse it."""
    with closing(sqlite3.connect(tmp_path / "other")) as connection, connection:
        connection.execute("CREATE TABLE entries (id)")
    assert "not a Culm store" in refused(tmp_path / "other")
    (tmp_path / "damaged").write_bytes(b"SQLite format 3\x00" + bytes(5000))
    with pytest.raises(StoreDamaged):
        plan([tmp_path / "damaged"])
    assert refused(tmp_path / "damaged")


def test_stores_are_cut_by_rows(tmp_path: Path) -> None:
    """The pieces of a store are ranges of row ids that cover each row once; an empty store has none."""
    log = build_log(25)
    other = log.make(25, b"other")
    with SQLiteStore(tmp_path / "store") as store:
        store.add([*log.items(), (other, b"other")])
    with SQLiteStore(tmp_path / "empty"):
        pass
    with mock.patch.object(inputs, "ROWS", 10), mock.patch.object(inputs, "SPLIT_BYTES", 1):
        splits = plan([tmp_path / "store", tmp_path / "empty"])
    (first, second, third, forks) = [piece for (piece,) in splits]
    assert (Part.ENTRIES, Part.ENTRIES, Part.ENTRIES, Part.FORKS) == (first.part, second.part, third.part, forks.part)
    assert [(1, 10), (11, 20), (21, 26)] == [(piece.low, piece.high) for piece in (first, second, third)]


def test_folders_may_be_mixed(tmp_path: Path) -> None:
    """Of a folder every file is read or becomes a reject; hidden ones, and what belongs to a store, are left out."""
    log, folder = build_log(3), tmp_path / "folder"
    (folder / "deep" / "_temporary").mkdir(parents=True)
    with SQLiteStore(folder / "deep" / "a.culm") as store:
        store.add(log.items())
        for name in ("a.culm-wal", "a.culm-shm"):
            (folder / "deep" / name).touch()
        (folder / "deep" / "a.culm-payloads").mkdir()
        (folder / "deep" / "a.culm-payloads" / "piece").write_bytes(b"large")
        parquet.write_table(pa.table({"encoded": [log.entries[0].encoded]}), folder / "b.parquet")
        parquet.write_table(pa.table({"other": [1]}), folder / "c.parquet")
        (folder / "d.bundle").write_bytes(log.entries[0].encoded + log.payloads[log.entries[0].hash])
        (folder / "README").write_bytes(b"not an entry")
        os.mkfifo(folder / "pipe")
        (folder / "broken").symlink_to("nowhere")
        for name in (".hidden", "_SUCCESS", "deep/_temporary/part"):
            (folder / name).write_bytes(b"x")
        (split,) = plan([folder])
        found = [(piece.uri.removeprefix(f"{folder}/"), row) for piece in split for row in split_rows(piece)]
    assert {("deep/a.culm", 3), ("b.parquet", 1), ("d.bundle", 1)} == {
        (name, sum(row.encoded is not None for other, row in found if other == name))
        for name, row in found
        if row.encoded is not None
    }
    reasons = {name: row.reason or "" for name, row in found if row.encoded is None}
    assert {"README", "broken", "c.parquet", "pipe"} == reasons.keys()
    assert "needs a binary column 'encoded'" in reasons["c.parquet"]
    assert "not an entry" in reasons["README"]
    assert ("not a regular file", "not a regular file") == (reasons["pipe"], reasons["broken"])


def split_rows(piece: Piece) -> Iterator[EntryRow]:
    """The rows of a piece."""
    return rows(EntryRow, split_batches((piece,)))


def test_of_a_home_only_the_store_is_read(tmp_path: Path) -> None:
    """A home that is named as an input is its store: keys and settings are neither read nor rejects.

    Without a store beside them such files are inputs like any others.
    """
    home = tmp_path / "home"
    (home / "identities").mkdir(parents=True)
    with SQLiteStore(home / "store.db") as store:
        store.add(build_log(3).items())
    beside = ("identities/default", "policy.json", "names.json", "peers.json", "culm.toml")
    for name in beside:
        (home / name).write_text('{"key": "secret"}')
    (home / "notes.txt").write_text("something else")
    assert {piece.uri for split in plan([home]) for piece in split} == {
        str(home / "store.db"),
        str(home / "notes.txt"),
    }
    (home / "store.db").unlink()
    assert {piece.uri for split in plan([home]) for piece in split} >= {str(home / name) for name in beside}


@pytest.mark.slow
def test_a_store_elsewhere_is_copied_once(s3: tuple[str, FileSystem], tmp_path: Path) -> None:
    """A store in a bucket is read with its large payloads, from one copy that all its pieces share."""
    uri, system = s3
    log = build_log(3)
    large = log.append(b"x" * 2_000_000)
    with SQLiteStore(tmp_path / "a.culm") as store:
        store.add(log.items())
    fs.copy_files(str(tmp_path), f"{uri[6:]}/in", destination_filesystem=system)
    with mock.patch.dict(os.environ, SPARK_LOCAL_DIRS=str(tmp_path)), mock.patch.object(inputs, "ROWS", 2):
        with mock.patch("pyarrow.fs.copy_files", wraps=fs.copy_files) as copied:
            rows = [row for split in plan([f"{uri}/in"]) for piece in split for row in scan(piece)]
        assert 2 == copied.call_count  # the store and the folder of its payloads
    assert [(entry.encoded, "held") for entry in (*log.entries,)] == [(row.encoded, row.payload_state) for row in rows]
    assert large in log.entries
    assert {f"{uri}/in/a.culm"} == {row.source for row in rows}


def test_looking_at_a_file_fetches_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file elsewhere only the first bytes are fetched to see what it is: the tasks fetch the rest."""
    fetched: list[int] = []

    def read(self: MemoryFile, size: int = -1) -> bytes:
        data = io.BytesIO.read(self, size)
        fetched.append(len(data))
        return data

    with fsspec.filesystem("memory").open("/in/file", "wb") as stream:
        stream.write(b"x" * 1_000_000)
    monkeypatch.setattr(MemoryFile, "read", read, raising=False)
    assert [[1_000_000]] == [[piece.size for piece in split] for split in plan(["memory://in/file"])]
    assert [len(SQLITE_MAGIC)] == fetched


def test_small_inputs_share_a_split(tmp_path: Path) -> None:
    """Many small files make few tasks, a large one has its own; every file is read once, even if given twice."""
    paths = [tmp_path / str(number) for number in range(10)]
    for number, path in enumerate(paths):
        path.write_bytes(b"x" * (1000 if number == 4 else 100))
    with mock.patch.object(inputs, "SPLIT_BYTES", 450):
        splits = plan([*paths, paths[3]])
    assert [4, 1, 4, 1] == [len(split) for split in splits]
    pieces = [piece for split in splits for piece in split]
    assert [Piece(str(path), Part.FILE, 0, 0, path.stat().st_size) for path in paths] == pieces


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have working directories of their own."""
    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    (((piece,)),) = plan(["file"])
    assert str(tmp_path / "file") == piece.uri


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("encoded", pa.array([1, 2]), "'encoded' holds int64; in a table of entries it holds bytes"),
        ("encoded", pa.array([[1], [2]]), "'encoded' holds list"),
        ("encoded", pa.array([{"a": 1}, None]), "'encoded' holds struct"),
        (
            "offset",
            pa.array(["first", "second"]),
            "'offset' holds string; in a table of entries it holds whole",
        ),
        ("offset", pa.array([2**64 - 1, 0], pa.uint64()), "'offset' holds uint64"),
        ("offset", pa.array([0.5, 1.5]), "'offset' holds double"),
        ("reason", pa.array([b"a", b"b"]), "'reason' holds binary; in a table of entries it holds text"),
        ("payload_state", pa.array([1, 2]), "'payload_state' holds int64"),
    ],
)
def test_tables_of_other_types_are_refused(tmp_path: Path, column: str, values: pa.Array, said: str) -> None:
    """A column that cannot be read as what it should hold is refused by name, before anything is read."""
    columns = {"encoded": pa.array([b"a", b"b"]), column: values}
    parquet.write_table(pa.table(columns), tmp_path / "table.parquet")
    assert said in refused(tmp_path / "table.parquet")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("encoded", pa.array([b"a", b"b"], pa.large_binary())),
        ("encoded", pa.array([b"a", b"b"], pa.binary(1))),
        ("encoded", pa.array([b"a", None]).dictionary_encode()),
        ("offset", pa.array([7, 8], pa.uint32())),
        ("source", pa.array(["one", "one"]).dictionary_encode()),
        ("reason", pa.nulls(2)),
    ],
)
def test_tables_of_kindred_types_are_read(tmp_path: Path, column: str, values: pa.Array) -> None:
    """Types that say the same in another way are read, row by row."""
    columns = {"encoded": pa.array([b"a", b"b"]), column: values}
    parquet.write_table(pa.table(columns), tmp_path / "table.parquet")
    ((piece,),) = plan([tmp_path / "table.parquet"])
    found = list(split_rows(piece))
    assert values.to_pylist() == [getattr(row, column) for row in found]
