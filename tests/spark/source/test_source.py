"""``format("culm")``: reading, writing and following, as those do it who use Spark."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

import pyarrow as pa
import pytest
from pyarrow import fs, parquet
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo
from pyspark.sql.types import StructType

from culm import spark as culm_spark
from culm.bamboo import MAX_U64, Entry, Identity, yamf_hash
from culm.errors import ConfigError, CulmError, NetworkError
from culm.node.config import NodeConfig
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.spark.reading.inputs import plan
from culm.spark.reading.scan import scan
from culm.spark.source.feed import fetched
from culm.spark.source.peers import PeerStream
from culm.spark.source.rows import ENTRIES, Options
from culm.spark.source.source import BundlesWriter, CulmSource
from culm.spark.storage import Location, located
from culm.store import SQLiteStore
from culm.store.exchange import Importer
from culm.store.files import EntryRecord, read_records
from culm.testing import LogBuilder, build_log
from culm.wire.places import log_text
from pyspark_culm import DefaultSource
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.defects import DataSet

pytestmark = pytest.mark.spark
PAYLOAD = list(ENTRIES).index("payload")


def load(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """Read some paths."""
    return spark.read.format("culm").options(**options).load(paths)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with two logs of 30 entries."""
    path = tmp_path / "store.culm"
    with SQLiteStore(path) as store:
        for seed in (1, 2):
            store.add(build_log(30, seed=seed).items())
    return path


def test_the_columns_are_the_fields(spark: SparkSession, tmp_path: Path) -> None:
    """All fields of an entry have a column, right up to 2^64 - 1; links and payloads that are not there are null."""
    link = yamf_hash(b"x")
    log = LogBuilder(Identity(b"\x05" * 32), MAX_U64)
    entries = [
        log.append(b"first"),
        log.make(MAX_U64, b"last", backlink=link, lipmaalink=link, is_end=True),
        log.make(2, b"", backlink=link, size=MAX_U64),
    ]
    path = tmp_path / "table.parquet"
    spark.createDataFrame([(entry.encoded,) for entry in entries], "encoded BINARY").write.parquet(f"file://{path}")
    found = {bytes(row.encoded): row for row in load(spark, str(path)).collect()}
    for entry in entries:
        row = found[entry.encoded]
        assert (entry.author, Decimal(entry.log_id), Decimal(entry.seq)) == (row.author, row.log_id, row.seqnum)
        assert (entry.lipmaalink, entry.backlink, entry.payload_hash) == (
            row.lipmaalink,
            row.backlink,
            row.payload_hash,
        )
        assert (int(entry.is_end), Decimal(entry.size), entry.signature) == (row.tag, row.size, row.sig)
        assert (None, None, None) == (row.payload, row.payload_frame, row.reason)


def test_every_defect_is_a_row(spark: SparkSession, data: DataSet) -> None:
    """Of inputs with every defect, all entries come, and a row for each damage with its place and its reason."""
    rows = load(spark, data.inputs).collect()
    assert data.expected.keys() == {Entry.decode(row.encoded).hash for row in rows if row.seqnum is not None}
    rejects = load(spark, data.inputs, rejects="only").collect()
    assert {str(data.folder / name) for name in data.rejects} == {row.source for row in rejects}
    for row in rejects:
        offset, reason = data.rejects[row.source.rpartition("/")[2]]
        assert (offset, True, None) == (row.offset, reason in row.reason, row.author)
    assert 0 == load(spark, data.inputs, rejects="false").where("reason IS NOT NULL").count()


def test_ranges(spark: SparkSession, store: Path) -> None:
    """Options choose authors, logs and sequence numbers, alone and together; a second query sees all rows again."""
    one, other = build_log(1, seed=1).identity.public, build_log(1, seed=2).identity.public
    assert 60 == load(spark, str(store)).count()
    assert 30 == load(spark, str(store), authors=one.hex()).count()
    assert 5 == load(spark, str(store), logs=log_text((other, 0)), fromSeqnum=26).count()
    assert 0 == load(spark, str(store), logs=log_text((other, 1))).count()
    chosen = load(spark, str(store), fromSeqnum=10, toSeqnum=12)
    assert (6, 2, 6) == (chosen.count(), chosen.where("seqnum = 11").count(), chosen.count())


def test_payloads(spark: SparkSession, store: Path) -> None:
    """Payloads come if they are asked for and are not too large; their state comes always."""
    log = build_log(30, seed=1)
    rows = load(spark, str(store), payloads=True, authors=log.identity.public.hex()).collect()
    assert {entry.seq: log.payloads[entry.hash] for entry in log.entries} == {
        int(row.seqnum): bytes(row.payload) for row in rows
    }
    small = load(spark, str(store), payloads=True, maxPayload=19).collect()
    assert {(None, "held")} == {(row.payload, row.payload_state) for row in small}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"from": "3"}, "no option 'from'"),
        ({"fromSeqnum": "0"}, "not a sequence number"),
        ({"payloads": "yes"}, "payloads must be true or false"),
        ({"rejects": "some"}, "rejects must be"),
        ({"columns": "author,other"}, "no column 'other'"),
        ({"range": "5..x"}, "range"),
        ({"bundles": "all"}, "bundles must be partition or log"),
        ({"logs": "x"}, "not AUTHOR/LOG"),
        ({"wait": "0"}, "is not a time; expected seconds"),
        ({"wait": "soon"}, "is not a time; expected seconds"),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    """An option that is not known, or has a wrong value, is refused by name."""
    with pytest.raises(ConfigError, match=message):
        Options.parse(options)


def test_columns(spark: SparkSession, store: Path) -> None:
    """A DataFrame has the columns that are asked for, by option, argument or schema, and a comment on each."""
    entries = culm_spark.read(spark, store, columns=["seqnum", "author"], range="5..6 sparse")
    assert ["seqnum", "author"] == entries.columns
    assert [5, 5, 6, 6] == sorted(int(row.seqnum) for row in entries.collect())
    named = spark.read.schema("reason STRING, encoded BINARY").format("culm").load(str(store))
    assert {(None, True)} == {(row.reason, row.encoded is not None) for row in named.collect()}
    every = load(spark, str(store))
    assert tuple(ENTRIES) == tuple(every.columns)
    assert all(field.metadata["comment"] for field in every.schema.fields)


@pytest.mark.parametrize(
    ("schema", "message"),
    [("author BINARY, nothing INT", "no column 'nothing'"), ("seqnum BIGINT", r"'seqnum' of format culm is DECIMAL")],
)
@pytest.mark.usefixtures("spark")
def test_another_schema_is_refused(schema: str, message: str) -> None:
    """A schema that asks for other columns, or for other types, is refused on the driver."""
    source = CulmSource({"path": "nowhere"})
    with pytest.raises(ConfigError, match=message):
        source.reader(cast("StructType", StructType.fromDDL(schema)))


@pytest.mark.xfail(strict=True, reason="a second query on a DataFrame gets the rows of the first one's filter")
def test_pushed_filters(spark: SparkSession) -> None:
    """What a filter pushes to a source stays with its query. Once this passes, the source can take filters."""
    spark.dataSource.register(Filtering)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        rows = spark.read.format("filtering").load()
        assert (1, 10, 1) == (rows.where("n = 3").count(), rows.count(), rows.where("n = 4").count())
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


class Filtering(DataSource):
    """The numbers 0 to 9, of which a reader leaves out what Spark's filters do."""

    @classmethod
    def name(cls) -> str:
        """How it is called."""
        return "filtering"

    def schema(self) -> str:
        """One column."""
        return "n INT"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's method
        """A reader that takes filters."""

        class Reader(DataSourceReader):
            wanted = frozenset(range(10))

            def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802 - Spark's name
                for one in filters:
                    if isinstance(one, EqualTo):
                        self.wanted &= {one.value}
                    else:
                        yield one

            def read(self, partition: Any) -> Iterator[tuple[int]]:  # noqa: ARG002 - Spark's method
                return ((number,) for number in sorted(self.wanted))

        return Reader()


def test_there_is_work_for_all_cores(spark: SparkSession, tmp_path: Path) -> None:
    """``culm.spark.read`` cuts its inputs into more tasks than the session has cores, where they are worth it."""
    table = pa.table({"encoded": [bytes(2**20)] * 30})
    parquet.write_table(table, tmp_path / "table.parquet", row_group_size=5, use_dictionary=False)
    assert 1 == load(spark, str(tmp_path)).rdd.getNumPartitions()
    assert 6 == load(spark, str(tmp_path), minPartitions=6).rdd.getNumPartitions()
    assert spark.sparkContext.defaultParallelism < culm_spark.read(spark, tmp_path).rdd.getNumPartitions()


def test_wrong_paths_are_told(spark: SparkSession, tmp_path: Path) -> None:
    """A path that is not there is named in the error."""
    with pytest.raises(Exception, match="there is no such file"):
        load(spark, str(tmp_path / "missing")).count()


def test_what_is_written_can_be_imported(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """Bundles of several tasks give a store with the same entries and payloads; writing again needs a mode."""
    rows = load(spark, str(store), payloads=True)
    rows.repartition(3).write.format("culm").mode("overwrite").save(str(tmp_path / "export"))
    with SQLiteStore(tmp_path / "imported.culm") as target:
        for path in sorted((tmp_path / "export").glob("*.bundle")):
            with path.open("rb") as stream:
                assert not Importer(target).run(stream).refused
        for seed in (1, 2):
            log = build_log(30, seed=seed)
            held = [(one.entry.encoded, b"".join(target.payload(one))) for one in target.entries(log.entries[0].log)]
            assert [(entry.encoded, log.payloads[entry.hash]) for entry in log.entries] == held
    again = load(spark, [str(path) for path in (tmp_path / "export").glob("*.bundle")])
    assert 60 == again.where("payload_state = 'held'").count()


def test_a_bundle_for_each_log(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """Each log can become a bundle of its own, which has its name, if its rows come together."""
    entries, folder = culm_spark.read(spark, store), tmp_path / "export"
    together = entries.repartition("author", "log_id").sortWithinPartitions("author", "log_id", "seqnum")
    together.write.format("culm").mode("overwrite").option("bundles", "log").save(str(folder))
    for seed in (1, 2):
        log = build_log(30, seed=seed)
        path = folder / f"{log_text(log.entries[0].log).replace('/', '-')}.bundle"
        with path.open("rb") as stream:
            found = [record.entry for record in read_records(stream) if isinstance(record, EntryRecord)]
        assert log.entries == found
    assert 2 == len(list(folder.iterdir()))


@pytest.mark.parametrize("where", ["partition", "partitions"])
def test_logs_that_are_not_together(tmp_path: Path, where: str) -> None:
    """If a log's rows are apart, in a task or in several, nothing is written, and the error says what to write."""
    logs = [build_log(2, seed=seed).entries for seed in (1, 2)]
    batch = pa.record_batch({"encoded": [logs[at][number].encoded for number in (0, 1) for at in (0, 1)]})
    writer = BundlesWriter(Location(str(tmp_path / "export")), ["encoded"], overwrite=False, by_log=True)
    with pytest.raises(CulmError, match=r"write df.repartition\('author', 'log_id'\).sortWithinPartitions"):
        if where == "partition":
            writer.write(iter([batch]))
        else:
            writer.commit([writer.write(iter([batch.slice(at, 1)])) for at in (0, 2)])
    writer.abort([])
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("where", ["here", "bucket"])
def test_what_killed_jobs_left_is_removed(tmp_path: Path, where: str, request: pytest.FixtureRequest) -> None:
    """Files that a job wrote aside go with a later job, a day after they changed; those of other folders stay."""
    base = request.getfixturevalue("s3")[0] if where == "bucket" else str(tmp_path)
    batch = pa.record_batch({"encoded": [build_log(1).entries[0].encoded]})
    (place,) = located([base])
    system, root = place.filesystem()

    def killed(name: str) -> None:
        BundlesWriter(place / name, ["encoded"], overwrite=False).write(iter([batch]))

    def left() -> int:
        found = system.get_file_info(fs.FileSelector(root, recursive=True))
        return sum(one.is_file and "partial-" in one.path for one in found)

    for name in ("export", "export", "other"):
        killed(name)
    assert 3 == left()  # the first is young, and may be of a job that is at work
    with mock.patch("culm.spark.source.source.time", return_value=time.time() + 86_500):
        killed("export")

    assert 2 == left()


def test_bundles_go_to_buckets(s3: tuple[str, FileSystem]) -> None:
    """Bundles are written into a bucket: those of successful tasks, and with ``overwrite`` no earlier ones."""
    log = build_log(4)
    (folder,) = located([f"{s3[0]}/export"])
    batch = pa.record_batch({"encoded": [entry.encoded for entry in log.entries]})
    for rows in (4, 2):
        writer = BundlesWriter(folder, ["encoded"], overwrite=True)
        writer.write(iter([batch]))  # of a task that Spark ran twice
        writer.commit([writer.write(iter([batch.slice(0, rows)])), writer.write(iter([]))])
    (split,) = plan([folder.uri])
    assert [entry.encoded for entry in log.entries[:2]] == [row.encoded for piece in split for row in scan(piece)]
    failed = BundlesWriter(folder, ["encoded"], overwrite=False)
    failed.write(iter([batch]))
    failed.abort([])
    assert 1 == len([one for one in s3[1].get_file_info(fs.FileSelector(f"{s3[0][6:]}/export")) if one.is_file])


def test_writing_needs_a_mode(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """Spark's default mode is not for Python sources; the error names the modes that are."""
    with pytest.raises(Exception, match='use either the "Append" or "Overwrite" mode'):
        load(spark, str(store)).write.format("culm").save(str(tmp_path / "export"))


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_closed_socket_ends_a_worker_quietly(error: type[OSError], capfd: pytest.CaptureFixture[str]) -> None:
    """When Spark has enough rows it closes the socket; the worker's process then ends without a traceback."""
    from culm.spark.runtime import daemon

    with (
        mock.patch.object(daemon, "_worker", side_effect=error),
        mock.patch("os._exit", side_effect=SystemExit) as ended,
        pytest.raises(SystemExit),
    ):
        daemon.quiet_worker(mock.Mock(), authenticated=True)
    ended.assert_called_once_with(1)
    assert ("", "") == capfd.readouterr()


def test_rejects_are_not_written(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that are no entries fail the job, which then leaves nothing."""
    rows = spark.createDataFrame([(build_log(1).entries[0].encoded,), (None,), (b"x",)], "encoded BINARY")
    with pytest.raises(Exception, match="cannot be written"):
        rows.write.format("culm").mode("append").save(str(tmp_path / "export"))
    assert [] == list(tmp_path.iterdir())


def drain(spark: SparkSession, path: str, folder: Path, **options: Any) -> list[tuple[bytes, int]]:
    """Run a stream over all there is, from where it was; everything it has written so far."""
    stream = spark.readStream.format("culm").options(**options).load(path)
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)
    rows = spark.read.parquet(f"file://{folder / 'out'}").collect()
    return sorted((bytes(row.author), int(row.seqnum)) for row in rows)


def test_what_is_registered_shares_no_table_with_other_streams(spark: SparkSession) -> None:
    """Two streams that start at once can break a table of Spark's that they share, so each gets one of its own."""
    manager = cast("Any", spark)._jsparkSession.sessionState().dataSourceManager()
    tables = []
    for _ in range(2):
        spark.dataSource.register(DefaultSource)
        tables.append(manager.lookupDataSource("culm").dataSourceCls().envVars())
        tables[-1].put("HERE", str(len(tables)))
    assert [dict(table)["HERE"] for table in tables] == ["1", "2"]


def test_following_a_store(spark: SparkSession, tmp_path: Path) -> None:
    """A query that is started again reads what came since, each entry once, whatever the size of its batches."""
    log, path = build_log(25), tmp_path / "store.culm"
    author = log.identity.public
    for reached in (20, 25):
        with SQLiteStore(path) as store:
            store.add(log.items(log.entries[:reached]))
        assert [(author, seq) for seq in range(1, reached + 1)] == drain(spark, str(path), tmp_path, batch=15)


@contextmanager
def serving(path: Path) -> Iterator[tuple[str, Callable[[Callable[[SQLiteStore], object]], object]]]:
    """A node that answers requests for intervals: its address, and a way to do something to its store."""
    ready = threading.Event()
    found: dict[str, Any] = {}

    async def run() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        with SQLiteStore(path) as store:
            node = NodeService(Identity(b"\x09" * 32), NodeConfig(b"clump"), store)
            found.update(node=node, stop=lambda: loop.call_soon_threadsafe(stop.set), loop=loop)

            def listening(url: PeerUrl) -> None:
                found["url"] = str(url)
                ready.set()

            address = PeerUrl.parse("intervals://127.0.0.1:0", may_be_zero=True)
            await node.run([address], [], stop=stop, listening=listening)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(PATIENCE)

    def do(work: Callable[[SQLiteStore], object]) -> object:
        worker = found["node"].worker
        return asyncio.run_coroutine_threadsafe(worker.run(work, worker.store), found["loop"]).result(20)

    try:
        yield found["url"], do
    finally:
        for _ in range(500):
            if not found["node"].sessions:
                break
            ready.clear()
            ready.wait(0.01)
        found["stop"]()
        thread.join()


def add(log: LogBuilder, reached: int, store: SQLiteStore) -> None:
    """Put the beginning of a log into a store."""
    store.add(log.items(log.entries[:reached]))


def test_following_a_peer(spark: SparkSession, tmp_path: Path) -> None:
    """Logs of a live peer come entry by entry with their payloads, across restarts of the query, each once."""
    logs = [build_log(length, seed=length) for length in (30, 3)]
    authors = [log.identity.public for log in logs]
    names = ",".join(log_text((author, 0)) for author in [*authors, b"\x01" * 32])
    with serving(tmp_path / "peer.culm") as (url, do):
        for reached in (20, 30):
            for log in logs:
                do(partial(add, log, reached))
            expected = [
                (author, seq)
                for log, author in zip(logs, authors, strict=True)
                for seq in range(1, min(reached, len(log.entries)) + 1)
            ]
            assert sorted(expected) == drain(spark, url, tmp_path, batch=15, wait=0.2, logs=names, payloads=True)
    rows = spark.read.parquet(f"file://{tmp_path / 'out'}").collect()
    for row in rows:
        log = logs[authors.index(bytes(row.author))]
        assert log.payloads[Entry.decode(row.encoded).hash] == row.payload


def test_asking_again(tmp_path: Path) -> None:
    """What lies between two offsets is the same whenever it is asked for; a peer that has not got it is an error.

    Payloads come only if they are asked for.
    """
    log = build_log(12)
    name = log_text((log.identity.public, 0))
    with serving(tmp_path / "peer.culm") as (url, do):
        do(partial(add, log, 12))
        stream = PeerStream(url, Options.parse({"logs": name, "batch": "5"}))
        rows, end = stream.read(stream.initialOffset())
        first = list(rows)
        assert {name: 5} == end
        assert first == list(PeerStream(url, Options.parse({"logs": name})).readBetweenOffsets({name: 0}, end))
        assert {None} == {row[PAYLOAD] for row in first}
        assert 7 == len(list(stream.readBetweenOffsets(end, {name: 12})))
        assert [] == list(stream.readBetweenOffsets(end, end))
        with pytest.raises(NetworkError, match="up to 12 only; 6 to 13 were asked for"):
            list(PeerStream(url, Options.parse({"logs": name, "wait": "0.1"})).readBetweenOffsets(end, {name: 13}))


def test_what_a_killed_query_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is in ``TMPDIR``, in a folder that is locked; one that nobody holds was left by a killed query."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("culm.spark.source.feed.sync", mock.AsyncMock())
    left = tmp_path / ".culm-0123abcd.part"
    left.mkdir()
    with fetched(PeerUrl.parse("intervals://localhost:1"), {}, 1.0):
        (one,) = tmp_path.iterdir()
        assert one != left
        with fetched(PeerUrl.parse("intervals://localhost:2"), {}, 1.0):
            assert one.exists()

    assert [] == list(tmp_path.iterdir())


def test_payloads_that_a_peer_has_not_got(tmp_path: Path) -> None:
    """Entries whose payload the peer forgot come without it, and those behind them come, too."""
    log = build_log(9)
    forgotten = (log.entries[3], log.entries[8])
    name = log_text((log.identity.public, 0))
    with serving(tmp_path / "peer.culm") as (url, do):
        do(partial(add, log, 9))
        for entry in forgotten:
            do(partial(SQLiteStore.forget, place=entry.place))
        stream = PeerStream(url, Options.parse({"logs": name, "payloads": "true", "wait": "0.3"}))
        found, at = [], stream.initialOffset()
        while True:
            rows, end = stream.read(at)
            found += [(row[11], row[12]) for row in rows]
            if end == at:
                break
            at = end
        assert {name: 9} == at
        again = [(row[11], row[12]) for row in stream.readBetweenOffsets({name: 0}, at)]
    expected = [(entry.encoded, "absent" if entry in forgotten else "held") for entry in log.entries]
    assert expected == found == again


def test_a_peer_needs_logs() -> None:
    """Without logs, or with a wrong address, nothing is followed; a peer that is not there is told."""
    with pytest.raises(ConfigError, match="name the logs"):
        PeerStream("intervals://127.0.0.1:1", Options())
    with pytest.raises(ConfigError, match="expected intervals://HOST:PORT"):
        PeerStream("bushbaby://127.0.0.1:1", Options())
    stream = PeerStream("intervals://127.0.0.1:1", Options.parse({"logs": log_text((b"\x01" * 32, 0))}))
    with pytest.raises(NetworkError, match=r"cannot reach intervals://127\.0\.0\.1:1"):
        stream.read(stream.initialOffset())
