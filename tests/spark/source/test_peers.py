"""Following a live ``culm://`` peer: a real ``culm serve``, and the rows that come of it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import Entry, Identity
from culm.cli import main
from culm.errors import ConfigError, CulmError, NetworkError
from culm.node.home import Home
from culm.spark.source.peers import LiveStream
from culm.spark.source.rows import Options
from culm.spark.source.spool import BEGINNING, Spool
from culm.store import SQLiteStore
from culm.testing import LogBuilder, build_log
from culm.wire.places import author_text, log_text
from tests.cli.culm import serving
from tests.docs.pages import blocks
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from culm.spark.source.spool import Offset

    Rows = list[dict[str, Any]]

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[3] / "docs" / "spark-stream.md"


@pytest.fixture
def peer(tmp_path: Path) -> Path:
    """A home of the peer, still without logs."""
    home = Home(tmp_path / "peer")
    home.create()
    home.add_identity("default", Identity(b"\x07" * 32), None)
    return home.path


def add(home: Path, log: LogBuilder, *entries: Entry) -> None:
    """Put entries of a log into a home's store, with their payloads; without ``entries`` all."""
    with Home(home).store() as store:
        store.add(log.items(list(entries) or log.entries))


@contextmanager
def following(url: str, home: Path, **options: str) -> Iterator[LiveStream]:
    """A stream as Spark makes it, stopped at the end."""
    stream = LiveStream(url, Options.parse({"home": str(home), **options}))
    try:
        yield stream
    finally:
        stream.stop()


def rows_between(stream: LiveStream, begin: Offset, end: Offset) -> Rows:
    """The rows of a batch."""
    return [row for task in stream.partitions(begin, end) for batch in stream.read(task) for row in batch.to_pylist()]


def read_until(stream: LiveStream, count: int, begin: Offset = BEGINNING) -> tuple[Rows, list[Offset]]:
    """The rows behind an offset, batch by batch as they come, once there are so many; and the batches' offsets."""
    rows: Rows = []
    offsets = [begin]
    deadline = time.monotonic() + PATIENCE
    while len(rows) < count and time.monotonic() < deadline:
        end = stream.latestOffset(offsets[-1])
        if end != offsets[-1]:
            rows += rows_between(stream, offsets[-1], end)
            offsets.append(end)
    assert len(rows) == count
    return rows, offsets


def read_again(stream: LiveStream, offsets: list[Offset]) -> Rows:
    """The rows of the same batches."""
    return [row for begin, end in pairwise(offsets) for row in rows_between(stream, begin, end)]


def test_rows_arrive_live(spark: SparkSession, peer: Path, tmp_path: Path) -> None:
    """What the page shows: a running query gets what the peer has, and what it gets meanwhile, each entry once."""
    log = build_log(8)
    add(peer, log, *log.entries[:4])
    (text,) = (block.text for block in blocks(PAGE) if "culm://" in block.text and "parquet" in block.text)
    with serving(peer) as url:
        page: dict[str, Any] = {"session": spark}
        exec(text.replace("culm://KEY@HOST:7979", url).replace("/srv", str(tmp_path)), page)
        try:
            wait_for(page["query"], 4)
            add(peer, log, *log.entries[4:])
            wait_for(page["query"], 8)
        finally:
            page["query"].stop()
    rows = spark.read.parquet(f"file://{tmp_path / 'entries'}").collect()
    assert 8 == len(rows)
    assert {(url, "held")} == {(row.source, row.payload_state) for row in rows}
    assert {entry.encoded: log.payloads[entry.hash] for entry in log.entries} == {
        bytes(row.encoded): bytes(row.payload) for row in rows
    }


def wait_for(query: StreamingQuery, count: int) -> None:
    """Wait until the batches of a query have so many rows together."""
    deadline = time.monotonic() + PATIENCE
    while sum(one["numInputRows"] for one in query.recentProgress) < count:
        assert query.exception() is None
        assert time.monotonic() < deadline


def test_a_batch_is_the_same_again(peer: Path, tmp_path: Path) -> None:
    """What lies between two offsets is the same after a restart and without the peer, also as the store grows."""
    logs = [build_log(9, seed=seed) for seed in (1, 2)]
    add(peer, logs[0])
    with serving(peer) as url:
        with following(url, tmp_path / "s", batch="5", payloads="true") as stream:
            rows, offsets = read_until(stream, 9)
        add(peer, logs[1])
        with following(url, tmp_path / "s", payloads="true") as stream:
            read_until(stream, 9, offsets[-1])
    with following(url, tmp_path / "s", payloads="true") as stream:
        assert rows == read_again(stream, offsets)
        assert len(offsets) > 2
    assert [entry.encoded for entry in logs[0].entries] == [row["encoded"] for row in rows]
    assert {"held"} == {row["payload_state"] for row in rows}


def test_only_what_is_named_is_asked_for(peer: Path, tmp_path: Path) -> None:
    """Entries of other authors stay with the peer, and so do payloads that do not get into rows."""
    logs = [build_log(3, seed=seed) for seed in (1, 2)]
    for log in logs:
        add(peer, log)
    author = logs[1].identity.public
    with serving(peer) as url, following(url, tmp_path / "s", author=author_text(author)) as stream:
        rows, _ = read_until(stream, 3)
    assert {(author, "absent", None)} == {(row["author"], row["payload_state"], row["payload"]) for row in rows}
    with Home(tmp_path / "s").store(read_only=True) as store:
        assert [author] == [log.author for log in store.logs()]
        assert {0} == {one.payload_held for one in store.entries((author, 0))}


def test_payloads_that_do_not_come(peer: Path, tmp_path: Path) -> None:
    """An entry without its payload waits a while, then comes without it, and stays so when it is asked for again."""
    log = build_log(6)
    add(peer, log)
    lost = log.entries[2]
    with Home(peer).store() as store:
        store.forget(lost.place)
    begun = time.monotonic()
    with serving(peer) as url:
        with following(url, tmp_path / "s", payloads="true", wait="0.5") as stream:
            rows, offsets = read_until(stream, 6)
        assert time.monotonic() - begun > 0.5
        with Home(tmp_path / "s").store() as store:
            store.add(log.items([lost]))
        with following(url, tmp_path / "s", payloads="true") as stream:
            assert rows == read_again(stream, offsets)
    states = {row["encoded"]: (row["payload_state"], row["payload"]) for row in rows}
    assert states == {
        entry.encoded: ("absent", None) if entry == lost else ("held", log.payloads[entry.hash])
        for entry in log.entries
    }


def test_a_fork_is_told(peer: Path, tmp_path: Path) -> None:
    """Of a log that forks while it is followed come both entries of one number, and a row that says so."""
    log = build_log(4)
    other = log.make(3, b"another")
    add(peer, log, *log.entries[:3])
    with serving(peer) as url, following(url, tmp_path / "s") as stream:
        rows, offsets = read_until(stream, 3)
        with Home(peer).store() as store:
            store.add([(other, b"another")])
        rows += read_until(stream, 4, offsets[-1])[0]
    assert {log.entries[2].encoded, other.encoded, None} == {row["encoded"] for row in rows[3:]}
    (told,) = (row["reason"] for row in rows if row["reason"] is not None)
    assert told.startswith(f"the log {log_text(other.log)} is forked: its author signed two entries 3")


def test_several_clumps_and_identities(peer: Path, tmp_path: Path) -> None:
    """The stream shows the identity and the clump that its options name; a peer that knows neither is an error."""
    log = build_log(2)
    add(peer, log)
    home = Home(tmp_path / "s")
    home.create()
    for name, seed in (("one", b"\x01"), ("two", b"\x02")):
        home.add_identity(name, Identity(seed * 32), None)
    assert 0 == main(["--home", str(peer), "allow", "peer", author_text(home.identity_public("two")), "--clump", "x"])
    with serving(peer, "--clump", "x") as url:
        with following(url, home.path, identity="two", clump="x") as stream:
            read_until(stream, 2)
        for options in ({"identity": "one", "clump": "x"}, {"identity": "two", "clump": "y"}):
            with following(url, home.path, **options) as stream, pytest.raises(NetworkError, match="hung up"):
                stream.prepareForTriggerAvailableNow()


def test_another_peer_at_the_address(peer: Path, tmp_path: Path) -> None:
    """If somebody else answers than the key says, or nobody, the query fails and says why."""
    with serving(peer) as url:
        wrong = url.replace(author_text(Identity(b"\x07" * 32).public), author_text(b"\x03" * 32))
        with following(wrong, tmp_path / "s") as stream, pytest.raises(NetworkError, match="another node answers"):
            read_until(stream, 1)
    with following(url, tmp_path / "s") as stream, pytest.raises(NetworkError, match="cannot reach"):
        read_until(stream, 1)


def test_a_peer_that_restarts(peer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that was reached may be away for a while, and is called again; away too long, it is an error."""
    log = build_log(6)
    add(peer, log, *log.entries[:3])
    with serving(peer) as url, following(url, tmp_path / "s") as stream:
        _, offsets = read_until(stream, 3)
    with following(url, tmp_path / "s") as stream:
        with serving(peer, port=port_of(url)):
            stream.latestOffset(offsets[-1])
            add(peer, log, *log.entries[3:4])
            _, offsets = read_until(stream, 1, offsets[-1])
        add(peer, log, *log.entries[4:])
        with serving(peer, port=port_of(url)):
            _, offsets = read_until(stream, 2, offsets[-1])
        monkeypatch.setattr("culm.spark.source.feed._AWAY_SECONDS", 0.5)
        with pytest.raises(NetworkError):
            read_until(stream, 1, offsets[-1])


def port_of(url: str) -> int:
    """The port of an address."""
    return int(url.rpartition(":")[2])


def test_available_now(peer: Path, tmp_path: Path) -> None:
    """A query over what is there now gets all of it, with payloads, in batches, and ends."""
    log = build_log(25)
    add(peer, log)
    with serving(peer) as url, following(url, tmp_path / "s", batch="10", payloads="true") as stream:
        stream.prepareForTriggerAvailableNow()
        offsets = [BEGINNING]
        while (end := stream.latestOffset(offsets[-1])) != offsets[-1]:
            offsets.append(end)
        assert [0, 10, 20, 25] == [offset["entries"] for offset in offsets]
        assert [log.payloads[entry.hash] for entry in log.entries] == [
            row["payload"] for row in read_again(stream, offsets)
        ]


def test_a_checkpoint_of_another_home(tmp_path: Path) -> None:
    """A store that is not the one of the offset is refused, also where it has as many rows."""
    for number in (1, 2):
        with SQLiteStore(tmp_path / str(number)) as store:
            store.add(build_log(3, seed=number).items())
    wanted = Options.parse({}).wanted
    one, two = (Spool(tmp_path / str(number), wanted, 1.0) for number in (1, 2))
    end = one.end(BEGINNING, 100)
    assert end == one.end(end, 100)
    with pytest.raises(ConfigError, match="belongs to another store"):
        two.end(end, 100)
    with pytest.raises(ConfigError, match="belongs to another store"):
        list(two.rows(BEGINNING, end, "x"))


def test_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch ends at so many bytes, of entries and of payloads that get into rows, and at so many missing payloads."""
    log = build_log(6)
    with SQLiteStore(tmp_path / "store") as store:
        store.add(log.items())
    size = sum(len(entry.encoded) + entry.size for entry in log.entries[:2])
    monkeypatch.setattr("culm.spark.source.spool._MOST_BYTES", size)
    spool = Spool(tmp_path / "store", Options.parse({"payloads": "true"}).wanted, 1.0)
    assert 2 == spool.end(BEGINNING, 100)["entries"]
    with SQLiteStore(tmp_path / "store") as store:
        for entry in log.entries:
            store.forget(entry.place)
            store.want_again(entry.place)
    monkeypatch.setattr("culm.spark.source.spool._MOST_WITHOUT", 3)
    assert BEGINNING == spool.end(BEGINNING, 100)
    spool.wait_no_longer()
    monkeypatch.setattr("culm.spark.source.spool._MOST_BYTES", 10**6)
    end = spool.end(BEGINNING, 100)
    assert (3, [1, 2, 3]) == (end["entries"], end["without"])


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("culm://127.0.0.1:1", {"home": "h"}, "lacks the listener's key"),
        (f"culm://{author_text(bytes(32))}@127.0.0.1:1", {}, r"name a folder for the stream: option\('home'"),
    ],
)
def test_wrong_calls(url: str, options: dict[str, str], message: str) -> None:
    """A peer without a key, and a stream without a home, are refused before anybody is called."""
    with pytest.raises(CulmError, match=message):
        LiveStream(url, Options.parse(options))


def test_an_old_pyspark(peer: Path, tmp_path: Path) -> None:
    """PySpark 4.1 does not tell where a batch begins; the error says what is needed."""
    with serving(peer) as url, following(url, tmp_path / "s") as stream:  # noqa: SIM117
        with pytest.raises(ConfigError, match=r"needs PySpark 4\.2"):
            stream.latestOffset()
