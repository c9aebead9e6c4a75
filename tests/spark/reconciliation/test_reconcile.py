"""Indexes written by Spark, and what tables differ in: the same as a node finds."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from culm.bamboo import MAX_U64, yamf_hash
from culm.errors import ConfigError, CulmError
from culm.negentropy import ArrayStorage
from culm.node.negentropy.comparison import compare_stores
from culm.spark.reconciliation.fingerprint import fingerprint
from culm.spark.reconciliation.fingerprint import run as run_fingerprint
from culm.spark.reconciliation.reconcile import Difference, reconcile
from culm.spark.reconciliation.reconcile import run as run_reconcile
from culm.spark.runtime.session import one_line_failures
from culm.store import SQLiteStore, View
from culm.store.recordindex import IndexStorage
from culm.store.recordindex.manifest import read_manifest
from tests.spark.random_logs import RandomLogs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from culm.types import Log

Entry = tuple[bytes, int, int, bytes]  # author, log id, number, hash

TABLE = pa.schema(
    [
        ("author", pa.binary()),
        ("log_id", pa.decimal128(20, 0)),
        ("seqnum", pa.decimal128(20, 0)),
        ("entry_hash", pa.binary()),
        ("payload", pa.string()),
        ("verdict", pa.string()),
    ]
)
module = import_module("culm.spark.reconciliation.fingerprint")
AUTHORS = [bytes([number]) * 32 for number in range(3)]


def rows_of(entries: Iterable[Entry], payload: str = "held", verdict: str = "verified") -> list[dict[str, Any]]:
    """Rows of a table of verdicts."""
    return [
        {
            "author": author,
            "log_id": Decimal(log_id),
            "seqnum": Decimal(seqnum),
            "entry_hash": digest,
            "payload": payload,
            "verdict": verdict,
        }
        for author, log_id, seqnum, digest in entries
    ]


def random_entries(seed: int, count: int) -> list[Entry]:
    """Entries of a few logs, many of them with the same number, some with the greatest."""
    rng = random.Random(seed)
    places = [(rng.choice(AUTHORS), rng.choice([0, 1, MAX_U64]), rng.randrange(1, 100)) for _ in range(count)]
    places += [(author, 1, seqnum) for author in AUTHORS for seqnum in (2**63, 2**63 + 1, MAX_U64)]
    return [(*place, yamf_hash(rng.randbytes(8))) for place in places]


def record(entry: Entry) -> tuple[int, bytes]:
    """The record of an entry, as a store has it."""
    return entry[2] - 1, entry[3][2:34]


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """A folder of Parquet files."""
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, TABLE), folder / "part-0.parquet")
    return folder


def found_in(folder: Path) -> set[tuple[Any, ...]]:
    """The rows of a result."""
    return {tuple(row.values()) for row in pq.read_table(folder / "differences").to_pylist()}


def expected(a: Iterable[Entry], b: Iterable[Entry]) -> set[tuple[Any, ...]]:
    """The rows that tell what two tables differ in."""
    sides = (("a", set(a) - set(b)), ("b", set(b) - set(a)))
    return {
        (author, Decimal(log_id), Decimal(seqnum), digest[2:34], digest, side)
        for side, entries in sides
        for author, log_id, seqnum, digest in entries
    }


def ids_only(rows: set[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """The same where nobody knows more than the numbers and ids."""
    return {(None, None, seqnum, identity, None, side) for _, _, seqnum, identity, _, side in rows}


# -- tables and indexes without Spark -------------------------------------------------------------------------------


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever starts Spark, or uses a session that runs, fails the test."""

    def fail(*_: object) -> None:
        raise AssertionError("Spark is used")

    monkeypatch.setattr(import_module("culm.spark.runtime.shell"), "running", fail)
    monkeypatch.setattr(module, "running", fail)


def put_index(folder: Path, entries: Iterable[Entry], **settings: Any) -> Path:
    """An index, made without Spark."""
    from tests.store.recordindex.indexes import make_index

    make_index(folder, map(record, entries), **settings).close()
    return folder


@pytest.mark.usefixtures("no_spark")
def test_two_indexes_need_no_spark(tmp_path: Path) -> None:
    """Indexes are compared by whoever asks: the ids and numbers that only one has; Spark is not started."""
    entries = random_entries(1, 300)
    a = put_index(tmp_path / "a", entries[20:], files=2)
    b = put_index(tmp_path / "b", entries[:-30], block_records=8)
    made = run_reconcile(str(a), str(b), tmp_path / "out")
    assert ids_only(expected(entries[20:], entries[:-30])) == found_in(tmp_path / "out")
    assert (made.view, made.a_lacks, made.b_lacks) == ("entries", 20, 30)
    assert 0 < made.bytes_read
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {**made.as_dict(), "made": written["made"]} == written
    assert {"differences", "summary.json"} == {path.name for path in (tmp_path / "out").iterdir()}
    equal = run_reconcile(str(a), str(a), tmp_path / "out", overwrite=True)
    assert (equal.a_lacks, equal.b_lacks) == (0, 0)
    assert found_in(tmp_path / "out") == set()
    answer = [Difference.found("b", bytes(32))]
    assert run_reconcile(str(a), lambda _: answer, tmp_path / "peer").a_lacks == 1
    assert found_in(tmp_path / "peer") == {(None, None, None, bytes(32), None, "b")}


@pytest.mark.usefixtures("no_spark")
def test_wrong_calls_before_spark_is_started(tmp_path: Path) -> None:
    """Sides that are not there or of another view, and outputs that cannot be, are refused at once."""
    entries = random_entries(1, 10)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bundle").write_bytes(b"what culm export writes")
    index, payloads = put_index(tmp_path / "i", entries), put_index(tmp_path / "p", entries, view=View.PAYLOADS)
    table = write(tmp_path / "t", rows_of(entries))
    out = tmp_path / "out"
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: run_fingerprint(str(tmp_path / "nothing"), out), "there is no such file or folder"),
        (lambda: run_fingerprint(str(tmp_path / "empty"), out), "not a folder with Parquet files.*culm spark verify"),
        (lambda: run_fingerprint(str(tmp_path / "bundle"), out), "not a folder.*culm spark verify"),
        (lambda: run_fingerprint(str(table), out, view="heads"), "entries or payloads"),
        (lambda: run_fingerprint(str(table), tmp_path / "empty" / "x" / "y"), "there is no folder"),
        (lambda: run_fingerprint(str(table), index), "is there already"),
        (lambda: run_reconcile(str(index), str(payloads), out), "an index of the payloads, not the entries"),
        (lambda: run_reconcile(str(index), str(table), out, view="payloads"), "an index of the entries"),
        (lambda: run_reconcile(str(table), str(tmp_path / "empty"), out), "not a folder with Parquet files"),
        (lambda: run_reconcile(str(table), str(table), table, overwrite=True), "holds something else"),
    ]
    for call, message in wrong:
        with pytest.raises(ConfigError, match=message):
            call()
    assert not out.exists()


# -- with Spark -----------------------------------------------------------------------------------------------------


@pytest.mark.spark
class TestWithSpark:
    """Tests that share the session."""

    def test_an_index_is_the_set(self, spark: SparkSession, tmp_path: Path) -> None:
        """Spark's index is the set of records, each once, whatever the number of files; numbers to 2^64 - 1 are right.

        Rows that are not verified have no part in it, and of payloads only those that are held.
        """
        entries = random_entries(2, 800)
        rows = rows_of(entries) + rows_of(entries[::2])  # some twice
        rows += rows_of(random_entries(3, 50), verdict="unverified") + rows_of(random_entries(4, 50), payload="absent")
        table = spark.createDataFrame(pa.Table.from_pylist(rows, TABLE)).repartition(3)
        made = fingerprint(spark, table, tmp_path / "p", view="payloads", block_records=16)
        array = ArrayStorage.of(set(map(record, entries)))
        with IndexStorage(tmp_path / "p") as index:
            assert index.view is View.PAYLOADS
            assert index.ids(0, len(index)) == array.ids(0, len(array))
            assert [index.timestamp(at) for at in range(len(index))] == [
                array.timestamp(at) for at in range(len(array))
            ]
        assert made.fingerprint == array.fingerprint(0, len(array)).hex()
        assert (made.records, made.view) == (len(set(entries)), "payloads")
        names = {"index.json", "summary.json", *(file.name for file in read_manifest(tmp_path / "p").files)}
        assert names == {path.name for path in (tmp_path / "p").iterdir()}
        every = set(entries) | set(random_entries(4, 50))
        array = ArrayStorage.of(set(map(record, every)))
        spark.conf.set("spark.sql.adaptive.enabled", "false")  # else few rows come in one part
        try:
            made = fingerprint(spark, table, tmp_path / "e")
        finally:
            spark.conf.unset("spark.sql.adaptive.enabled")
        assert (made.files, made.fingerprint) == (4, array.fingerprint(0, len(array)).hex())

    def test_an_empty_table(self, spark: SparkSession, tmp_path: Path) -> None:
        """Nothing makes an index of nothing."""
        table = spark.createDataFrame([], "seqnum DECIMAL(20,0), entry_hash BINARY")
        assert fingerprint(spark, table, tmp_path / "i").records == 0
        with IndexStorage(tmp_path / "i") as index:
            assert len(index) == 0

    @pytest.mark.parametrize(
        ("seqnum", "digest"),
        [(0, yamf_hash(b"")), (None, yamf_hash(b"")), (1, yamf_hash(b"")[2:])],
        ids=["number 0", "no number", "no YAMF-hash"],
    )
    def test_rows_that_are_no_entries(
        self, spark: SparkSession, tmp_path: Path, seqnum: int | None, digest: bytes
    ) -> None:
        """A row without a number or a hash: one line, and neither an index nor what was begun of it."""
        number = None if seqnum is None else Decimal(seqnum)
        table = spark.createDataFrame([(number, digest)], "seqnum DECIMAL(20,0), entry_hash BINARY")
        with pytest.raises(CulmError, match="a row is not an entry"), one_line_failures():
            fingerprint(spark, table, tmp_path / "i")
        assert list(tmp_path.iterdir()) == []

    def test_tables_without_the_columns(self, spark: SparkSession, tmp_path: Path) -> None:
        """What a table lacks is named."""
        table = spark.createDataFrame([(1,)], "seqnum BIGINT")
        with pytest.raises(ConfigError, match="entry_hash"):
            fingerprint(spark, table, tmp_path / "i")
        with pytest.raises(ConfigError, match="author, entry_hash, log_id"):
            reconcile(spark, table, table)
        with pytest.raises(ConfigError, match="payload"):
            fingerprint(spark, table, tmp_path / "i", view="payloads")

    def test_every_way_finds_the_same(self, spark: SparkSession, tmp_path: Path) -> None:
        """Tables, tables with their indexes, a table and an index, a table and a peer: the difference of the sets."""
        entries = random_entries(5, 400)
        ours, theirs = entries[15:], entries[:-25]
        a = write(tmp_path / "a", rows_of(ours) + rows_of(ours[:9]) + rows_of(theirs[:5], verdict="invalid"))
        b = write(tmp_path / "b", rows_of(theirs))
        right = expected(ours, theirs)
        made = run_reconcile(str(a), str(b), tmp_path / "tables")
        assert right == found_in(tmp_path / "tables")
        assert (made.a_lacks, made.b_lacks, made.bytes) == (15, 25, 0)

        frames: list[DataFrame] = [spark.read.parquet(str(folder)) for folder in (a, b)]
        indexes = [put_index(tmp_path / name, side) for name, side in (("i", ours), ("j", theirs))]
        with IndexStorage(indexes[0]) as one, IndexStorage(indexes[1]) as other:
            rows = reconcile(spark, *frames, indexes=(one, other)).collect()
        assert right == {
            tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in rows
        }

        made = run_reconcile(str(indexes[0]), str(b), tmp_path / "mixed")
        assert found_in(tmp_path / "mixed") == {row for row in right if row[5] == "b"} | {
            row for row in ids_only(right) if row[5] == "a"
        }
        assert (made.a_lacks, made.b_lacks) == (15, 25)
        assert made.bytes > 0
        assert {"differences", "summary.json"} == {path.name for path in (tmp_path / "mixed").iterdir()}

        def peer(index: IndexStorage) -> list[Difference]:
            assert len(index) == len(set(ours))
            return [Difference.found(row[5], row[3]) for row in right]

        run_reconcile(str(a), peer, tmp_path / "peer")
        assert found_in(tmp_path / "peer") == {row for row in right if row[5] == "a"} | {
            (None, None, None, row[3], None, "b") for row in right if row[5] == "b"
        }

    @pytest.mark.usefixtures("spark")
    @pytest.mark.parametrize("view", [View.ENTRIES, View.PAYLOADS])
    def test_a_node_says_the_same(self, tmp_path: Path, view: View) -> None:
        """Of random logs in two stores, with forks and gaps, the pipeline finds the differences that the node finds."""
        items = RandomLogs(7, 8).items
        stores = [SQLiteStore(tmp_path / f"{name}.db") for name in "ab"]
        held: list[list[dict[str, Any]]] = []
        for store, part in zip(stores, (items[: len(items) * 2 // 3], items[len(items) // 3 :]), strict=True):
            store.add(part)
            held.append([row for log in store.logs() for row in rows_of_store(store, (log.author, log.log_id))])
        node = compare_stores(stores[0], stores[1], view)
        for store in stores:
            store.close()
        assert node.have
        assert node.need
        folders = [str(write(tmp_path / name, rows)) for name, rows in zip("xy", held, strict=True)]
        run_reconcile(folders[0], folders[1], tmp_path / "tables", view=view.value)
        results = ["tables"]
        if view is View.PAYLOADS:
            for name, folder in zip("ij", folders, strict=True):
                run_fingerprint(folder, tmp_path / name, view=view.value)
            run_reconcile(str(tmp_path / "i"), str(tmp_path / "j"), tmp_path / "indexes")
            results.append("indexes")
        for name in results:
            found = [(row[5], row[3]) for row in found_in(tmp_path / name)]
            assert {("a", one) for one in node.have} | {("b", one) for one in node.need} == set(found)

    def test_attempts_that_did_not_count(
        self, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Files that a task left behind before it was done again are neither listed nor kept."""
        entries = random_entries(6, 100)
        table = spark.createDataFrame(pa.Table.from_pylist(rows_of(entries), TABLE))
        write_files = module._write_files

        def twice(*arguments: Any) -> Any:
            write_files(*arguments)
            folder: Path = arguments[2]
            (folder / ".records-00000-dead.part").write_bytes(b"begun")
            return write_files(*arguments)

        monkeypatch.setattr(module, "_write_files", twice)
        made = fingerprint(spark, table, tmp_path / "i")
        assert made.records == len(set(entries))
        assert len(list((tmp_path / "i").iterdir())) == made.files + 2


def rows_of_store(store: SQLiteStore, log: Log) -> list[dict[str, Any]]:
    """The verified entries of a log, as a table of verdicts has them."""
    return [
        row
        for stored in store.entries(log)
        for row in rows_of(
            [(*log, stored.entry.seq, stored.entry.hash)], payload="held" if stored.payload_complete else "absent"
        )
    ]
