"""Selecting: what each of many ranges denotes, against the store; and the bundles made of it."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from culm.bamboo import MAX_U64, Entry, Identity, lipmaa, path, yamf_hash
from culm.cli.command import make_parser
from culm.errors import ConfigError, PayloadMismatch
from culm.ranges import Range, RangeSet, write_range
from culm.spark.reading.found import EntryRow
from culm.spark.runtime.columns import batch_of
from culm.spark.select import bundles, select_entries
from culm.spark.select import items as select_items
from culm.spark.select import job as select_job
from culm.spark.select import pieces as select_pieces
from culm.spark.select.bundles import Payloads, bundle_name, places_of
from culm.spark.select.job import run_select
from culm.spark.select.pieces import REASONS
from culm.spark.verification import gather
from culm.store import SQLiteStore, State
from culm.store.exchange import Importer, export_bundle, export_plain
from culm.testing import LogBuilder, build_log
from culm.wire.places import author_text
from tests.bamboo import oracle
from tests.spark import local, selecting
from tests.spark.random_logs import RandomLogs
from tests.spark.selecting import Request, Selected, Wanted, expected, given, numbers_of, random_range, request
from tests.spark.verification.test_steps import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_HELD, BEYOND = select_pieces.NOT_HELD, select_pieces.BEYOND


@pytest.fixture(params=[1, 2, 12])
def block_bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of 2, 4 and 4096 numbers: ranges are cut wherever they can be."""
    bits: int = request.param
    for module in (gather, *selecting.MODULES):
        monkeypatch.setattr(module, "BLOCK_BITS", bits)
    return bits


def requests_for(logs: RandomLogs, draw: random.Random, most: int) -> list[Request]:
    """Any ranges of all logs, several of one requester and log among them."""
    requests: list[Request] = []
    for of_log in logs.by_log():
        author, log_id = next(iter(of_log)).log
        newest = max(entry.seq for entry in of_log)
        requests += [
            (draw.choice(["alice", "b/o\\b", "ça\n"]), author, log_id, random_range(draw, newest))
            for _ in range(draw.randint(1, most))
        ]
    draw.shuffle(requests)
    return requests


def far_log() -> tuple[LogBuilder, list[Entry]]:
    """A log of few entries that all have a path to entry 1, the last of them number 2^64 - 1."""
    log = LogBuilder(Identity(b"\x09" * 32), MAX_U64)
    made: dict[int, Entry] = {}
    hashes: defaultdict[int, bytes] = defaultdict(lambda: yamf_hash(b"nobody has this"))
    middle = 2**40 + 12345
    for seq in sorted({*path(MAX_U64, 1), *path(middle, 1), *range(1, 60)}):
        backlink, lipmaalink = (None, None) if seq == 1 else (hashes[seq - 1], hashes[lipmaa(seq)])
        made[seq] = log.make(seq, b"%d" % (seq % 1000), backlink=backlink, lipmaalink=lipmaalink)
        hashes[seq] = made[seq].hash
    return log, list(made.values())


@pytest.mark.slow
@pytest.mark.usefixtures("block_bits")
@pytest.mark.parametrize("seed", range(2))
def test_random_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Of logs with anything wrong in them, every range gets what it denotes in the store, and lacks what that lacks."""
    draw = random.Random(seed)
    logs = RandomLogs(seed=seed, count=30)
    (tmp_path / "inputs").mkdir()
    found = rows_of(logs.write(tmp_path / "inputs"))
    requests = requests_for(logs, draw, 12)
    with SQLiteStore(tmp_path / "store") as store:
        store.add(logs.items)
        wanted, missing, beyond = expected(store, requests)
    monkeypatch.setattr(select_job, "_SHARE_PAIRS", draw.choice([3, 10**6]))
    selected = Selected(found, given(requests))
    assert wanted == selected.wanted()
    assert missing == selected.missing(NOT_HELD)
    assert beyond == selected.missing(BEYOND)
    assert not selected.rejects


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [1, 100, 1 << 16])
def test_any_number_of_pieces_at_once(monkeypatch: pytest.MonkeyPatch, pairs: int) -> None:
    """The items do not depend on how many pieces are laid out at once, nor on where batches end."""
    monkeypatch.setattr(select_items, "_PAIRS", pairs)
    monkeypatch.setattr("culm.spark.runtime.columns.BATCH_ROWS", 7)
    draw, log = random.Random(pairs), build_log(40)
    author, log_id = log.identity.public, log.log_id
    requests = [(draw.choice("abcdefgh"), author, log_id, random_range(draw, 40)) for _ in range(200)]
    selected = Selected(local.found_rows(entry.encoded for entry in log.entries), given(requests))
    wanted: dict[tuple[str, bytes, int, int], list[bool]] = {}
    for requester, _, _, item in requests:
        items = {one.seq for one in item.items(40, lambda _: 20)}
        for one in item.wanted(40, lambda _: 20):
            flags = wanted.setdefault((requester, author, log_id, one.seq), [False, False, False])
            flags[0] |= one.metadata
            flags[1] |= one.payload
            flags[2] |= one.metadata and one.seq in items
    assert {key: (flags[0], flags[1], flags[0] and not flags[2]) for key, flags in wanted.items()} == selected.wanted()


FAR_RANGES = (
    Range(1),
    Range(2, MAX_U64 - 1),
    Range(1, sparse=True),
    Range(MAX_U64),
    Range(2**40, 2**40 + 20_000, forbidden=(2**40 + 12345,)),
    Range(2**40, 2**40 + 30 * 2**22, payloads=False),
    Range(2**40 - 3 * 2**22, 2**40 + 2**22),
    Range(5, 2**41, metadata=False, forbidden=(7, 2**40 + 12345)),
    Range(2**63, MAX_U64, sparse=True),
)


def check_far(entries: list[Entry], requests: list[Request], wanted: Wanted, gaps: list[Any]) -> None:
    """Of a log far too long to count up, the items are those of the ranges, and everything else is in the gaps.

    ``gaps``: requester, first and last number.
    """
    held = {entry.seq: entry for entry in entries}
    expected: Wanted = {}
    for requester, author, log_id, item in requests:
        certificates = set(item.certificates(MAX_U64))
        for seq, entry in held.items():
            metadata = item.contains_metadata(seq, MAX_U64)
            payload = item.contains_payload(seq, entry.size, MAX_U64)
            if metadata or payload or seq in certificates:
                flags = (metadata or seq in certificates, payload, seq in certificates)
                expected[requester, author, log_id, seq] = flags
        mine = sorted((first, last) for who, first, last in gaps if who == requester)
        assert all(after[0] > before[1] + 1 for before, after in pairwise(mine))
        if item.sparse:
            denoted = len([*item.numbers(MAX_U64)]) + len(certificates)
        else:
            denoted = item.last - item.start + 1 + len(certificates)
            if not item.metadata:
                denoted -= len(item.forbidden)
        there = sum(1 for who, *_ in expected if who == requester)
        assert denoted - there == sum(last - first + 1 for first, last in mine), item
        assert not any(first <= seq <= last for first, last in mine for who, _, _, seq in expected if who == requester)
    assert expected == wanted


def far_requests(log: LogBuilder) -> list[Request]:
    """A requester for each of ``FAR_RANGES``."""
    return [(str(at), log.identity.public, log.log_id, item) for at, item in enumerate(FAR_RANGES)]


@pytest.mark.slow
def test_the_end_of_the_numbers() -> None:
    """Ranges up to 2^64 - 1 cost what is there and the ends of the gaps, and are exact; few entries in many pages."""
    log, entries = far_log()
    requests = far_requests(log)
    selected = Selected(local.found_rows(entry.encoded for entry in entries), given(requests))
    check_far(entries, requests, selected.wanted(), [(row.requester, row.first, row.last) for row in selected.gaps])


def test_requests_that_cannot_be_read() -> None:
    """Each is a reject with its reason and what it was; the others are served. Bytes may be a range or a set."""
    log = build_log(3)
    author, text = log.identity.public, author_text(log.identity.public)
    several = RangeSet([Range(1), Range(3, payloads=False)])
    rows = [
        request("a", author, several=several.encode()),
        request("b", text, "2..3; 1 metadata"),
        request("c", author, "nothing"),
        request("d", author[:5], "1"),
        request("e", "nobody", "1"),
        request("f", author, "1", log="1.5"),
        request("g", author, "1", log=None),
        request("h", author),
        request("i", author, one=b"\x80\x02\x01"),
        request(None, author, "1"),
        request("k", author, several=b"\x01\x00"),
    ]
    selected = Selected(local.found_rows(entry.encoded for entry in log.entries), rows)
    assert {("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3)} == {
        (key[0], key[3]) for key in selected.wanted()
    }
    reasons = {row.requester: row.reason for row in selected.rejects}
    for requester, reason in {
        "d": f"'{author[:5].hex()}' is not an author (43 base62 characters, or 64 hex digits)",
        "e": "is not an author",
        "f": "'1.5' is not a log id",
        "g": "without a log id",
        "h": "without ranges",
        "i": "the range ends at 1, not after its start 2",
        None: "without a requester",
        "k": "a VarU64 is missing",
    }.items():
        assert reason in reasons.pop(requester)
    assert not reasons
    assert {"800201"} == {row.ranges for row in selected.rejects if row.requester == "i"}


# -- on Spark -------------------------------------------------------------------------------------------------------


def command(*arguments: object) -> int:
    """The command, as it stands in the group ``spark``."""
    parsed = make_parser().parse_args(["spark", *map(str, arguments)])
    code: int = parsed.run(parsed)
    return code


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_requests_without_a_column_are_refused_before_the_inputs_are_read(tmp_path: Path) -> None:
    """Verifying can take hours, so a table of requests that cannot be used is refused first, with what it has."""
    (tmp_path / "plain").write_bytes(build_log(3).entries[0].encoded)
    (tmp_path / "requests.csv").write_text("requester,author,log,ranges\nx,y,1,1..\n")
    said = list[str]()
    with pytest.raises(
        ConfigError, match="needs a column 'log_id'; this one has 'requester', 'author', 'log', 'ranges'"
    ):
        run_select([str(tmp_path / "plain")], str(tmp_path / "requests.csv"), tmp_path / "out", progress=said.append)
    assert not any("reading the inputs" in line for line in said), said


class Inputs:
    """Inputs with anything wrong in them and some whole logs, requests for them, and what the store tells of these."""

    def __init__(self, folder: Path) -> None:
        draw, logs = random.Random(5), RandomLogs(seed=5, count=15)
        self.whole, (self.far, self.far_entries) = build_log(50, seed=77, payload_size=30), far_log()
        self.big = LogBuilder(Identity(b"\x0b" * 32))
        self.big.append(b"large" * 500_000)
        self.big.append(b"")
        self.paths = [*logs.write(folder), str(folder / "more")]
        items = [*self.whole.items(), *self.big.items()]
        with SQLiteStore(folder / "more") as more:
            more.add([*items, *self.far.items(self.far_entries)])
        requests = requests_for(logs, draw, 8)
        requests += [("whole", self.whole.identity.public, 0, item) for item in (Range(9, 30), Range(20, sparse=True))]
        requests += [("big", self.big.identity.public, 0, Range(1))]
        with SQLiteStore(folder / "oracle") as store:
            store.add([*logs.items, *items])
            self.wanted, self.missing, self.beyond = expected(store, requests)
        self.entries = {entry.hash: entry for entry, _ in [*logs.items, *items, *self.far.items(self.far_entries)]}
        self.requests = folder / "requests.jsonl"
        self.ranges = sum(not item.is_empty for *_, item in [*requests, *far_requests(self.far)])
        rows: list[dict[str, object]] = [
            {"requester": who, "author": author_text(author), "log_id": log_id, "ranges": write_range(item)}
            for who, author, log_id, item in [*requests, *far_requests(self.far)]
        ]
        rows.append({"requester": "nobody", "author": "?", "log_id": 0, "ranges": "1"})
        self.requests.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def is_far(self, author: bytes) -> bool:
        """Whether an author is that of the log that is too long to count up."""
        return author == self.far.identity.public


def check_tables(inputs: Inputs, items: list[dict[str, Any]], missing: list[dict[str, Any]]) -> None:
    """The items and what is missing are what the store tells."""
    found = selecting.wanted_of(items)
    far = {key: flags for key, flags in found.items() if inputs.is_far(key[1])}
    assert inputs.wanted == {key: flags for key, flags in found.items() if key not in far}
    for row in items:
        entry = inputs.entries[row["entry_hash"]]
        assert (entry.encoded, entry.size, entry.payload_hash) == (row["encoded"], row["size"], row["payload_hash"])
    runs: dict[str, list[tuple[str, bytes, int, int, int]]] = {"not held": [], "beyond the newest entry": []}
    gaps = []
    for row in missing:
        log_id, first, last = (int(row[name]) for name in ("log_id", "first", "last"))
        assert int(row["entries"]) == last - first + 1
        if inputs.is_far(row["author"]):
            gaps.append((row["requester"], first, last))
        else:
            runs[row["reason"]].append((row["requester"], row["author"], log_id, first, last))
    check_far(inputs.far_entries, far_requests(inputs.far), far, gaps)
    assert [inputs.missing, inputs.beyond] == [numbers_of(found) for found in runs.values()]


def check_bundle(file: Path, items: list[dict[str, Any]], store: SQLiteStore) -> None:
    """A bundle, imported, is what was selected for its requester, with the payloads that are held.

    Who asks for payloads alone has the entries. What the inputs lack of a certificate pool, the bundle lacks, too.
    """
    store.add([(Entry.decode(row["encoded"]), None) for row in items if not row["metadata"]])
    with file.open("rb") as stream:
        assert not Importer(store).run(stream).refused
    by_hash = {row["entry_hash"]: row for row in items}
    by_log: defaultdict[tuple[bytes, int], list[Entry]] = defaultdict(list)
    for row in items:
        entry = Entry.decode(row["encoded"])
        by_log[entry.log].append(entry)
    assert set(by_log) == {(log.author, log.log_id) for log in store.logs()}
    for log, entries in by_log.items():
        paths = oracle.connected(entries)
        stored = list(store.entries(log, states=State))
        assert {entry.hash for entry in entries} == {found.entry.hash for found in stored}
        for found in stored:
            assert (State.VERIFIED if found.entry in paths else State.WAITING) == found.state
            row = by_hash[found.entry.hash]
            assert found.payload_complete or not (row["payload"] and row["payload_state"] == "held")
            assert row["payload"] or found.payload_held == 0


@pytest.mark.spark
@pytest.mark.timeout(300)  # some thirty stages of Spark
@pytest.mark.usefixtures("spark")
class TestWithSpark:
    """The whole."""

    def test_results(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        """The folder has what the store tells of the same entries; each bundle, imported, is what was selected."""
        monkeypatch.setattr(select_job, "_SHARE_PAIRS", 100)
        inputs, output = Inputs(tmp_path), tmp_path / "results [1]"
        call = ("--input", *inputs.paths, "--requests", inputs.requests, "--output", output, "--bundles", "--json")
        assert 1 == command("select", *call)
        summary = json.loads(capsys.readouterr().out)
        items, missing, rejects, manifest = (
            pq.read_table(output / name).to_pylist() for name in ("items", "missing", "rejects", "bundles/manifest")
        )
        check_tables(inputs, items, missing)
        assert ["nobody"] == [row["requester"] for row in rejects]
        assert {"items", "missing", "rejects", "bundles", "summary.json"} == {file.name for file in output.iterdir()}
        written = json.loads((output / "summary.json").read_text())
        assert {**summary, "made": written["made"]} == written
        counts = [len(items), 1, sum(row["certificate"] for row in items), sum(row["payload"] for row in items)]
        assert counts == [summary[name] for name in ("items", "rejects", "certificates", "payloads")]
        assert inputs.ranges == summary["ranges"]
        entries = {reason: sum(int(row["entries"]) for row in missing if row["reason"] == reason) for reason in REASONS}
        assert [len(missing), *entries.values()] == [
            summary[name] for name in ("missing_rows", "not_held", "beyond_newest")
        ]
        assert all(entries.values())

        assert {*(row["file"] for row in manifest), "manifest"} == {
            file.name for file in (output / "bundles").iterdir()
        }
        assert {row["requester"] for row in items} == {row["requester"] for row in manifest}
        for made in manifest:
            file = output / "bundles" / made["file"]
            mine = [row for row in items if row["requester"] == made["requester"]]
            payloads = [row["payload_state"] == "held" for row in mine if row["payload"]]
            assert [
                sum(row["metadata"] for row in mine),
                sum(payloads),
                payloads.count(False),
                file.stat().st_size,
            ] == [made[name] for name in ("entries", "payloads", "lacking", "bytes")]
            with SQLiteStore(tmp_path / f"of {made['file']}") as store:
                check_bundle(file, mine, store)
                if made["requester"] in ("whole", "big"):
                    assert all(found.entries and not found.waiting for found in store.logs())

    def test_tables(self, spark: SparkSession) -> None:
        """From Python: a table of entries and one of requests, with a set's bytes; entries without their bytes."""
        log, other = build_log(9, log_id=3), build_log(5, seed=2)
        author = log.identity.public
        entries = spark.createDataFrame(
            [(entry.encoded,) for made in (log, other) for entry in made.entries[:8]], "encoded BINARY"
        )
        rows = [
            ("a", author, Decimal(3), RangeSet([Range(2, 3), Range(8, 12, payloads=False)]).encode()),
            ("a", author, Decimal(3), RangeSet([Range(3, metadata=False)]).encode()),
        ]
        requests = spark.createDataFrame(rows, "requester STRING, author BINARY, log_id DECIMAL(20,0), ranges BINARY")
        found = select_entries(entries, requests, signatures="heads", encoded=False)
        items = found.items.collect()
        assert sorted((int(row.seqnum), row.metadata, row.payload, row.certificate) for row in items) == [
            (1, True, False, True),
            (2, True, True, False),
            (3, True, True, False),
            *((seq, seq == 4, True, seq == 4) for seq in range(4, 8)),
            (8, True, True, False),
        ]
        assert {None} == {row.encoded for row in items}
        for wrong, message in (
            (requests.drop("author"), "needs a column 'author'"),
            (requests.drop("ranges"), "needs a column 'ranges' or 'range'"),
            (requests.withColumnRenamed("requester", "log").withColumn("requester", requests.log_id), "DECIMAL"),
        ):
            with pytest.raises(ConfigError, match=message):
                select_entries(entries, wrong)


# -- bundles --------------------------------------------------------------------------------------------------------


def test_names_of_bundles() -> None:
    """Any requester has a name of a file of its own, whatever the file system makes of large and small letters."""
    requesters = ["alice", "Alice", "", "..", "../../etc/passwd", "a/b", "a b", "x" * 300, "ç\n", "\x00", "-", "a_b"]
    names = [bundle_name(requester) for requester in requesters]
    assert len(requesters) == len({name.lower() for name in names})
    for name in names:
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,70}\.bundle", name), name
    assert names[0].startswith("alice-")


class TestPayloads:
    """Reading payloads where they are said to be."""

    @pytest.fixture
    def log(self) -> LogBuilder:
        """A small and a large payload."""
        log = build_log(1)
        log.append(b"large" * 500_000)
        return log

    @pytest.fixture
    def places(self, tmp_path: Path, log: LogBuilder) -> dict[bytes, list[tuple[str, int]]]:
        """Each payload in a plain file, a bundle and a store."""
        with SQLiteStore(tmp_path / "store") as store:
            store.add(log.items())
            for name, write in (("plain", export_plain), ("bundle", export_bundle)):
                with (tmp_path / name).open("wb") as stream:
                    write(store, [log.entries[0].log], stream, *([print] if name == "plain" else []))
        found: dict[bytes, list[tuple[str, int]]] = defaultdict(list)
        inputs = [str(tmp_path / name) for name in ("plain", "bundle", "store")]
        for place in places_of(batch_of(EntryRow, rows_of(inputs))):
            found[place.payload_hash].append((place.source, place.offset))
        return found

    def test_every_source(self, log: LogBuilder, places: dict[bytes, list[tuple[str, int]]]) -> None:
        """A payload is read from a plain file, a bundle and a store; the places are those of each."""
        with Payloads() as payloads:
            for entry, payload in log.items():
                assert {"plain", "bundle", "store"} == {Path(source).name for source, _ in places[entry.payload_hash]}
                for place in places[entry.payload_hash]:
                    pieces = payloads.find([place], entry.size, entry.payload_hash)
                    assert payload == b"".join(pieces or ())

    def test_the_first_place_that_has_it(
        self,
        tmp_path: Path,
        log: LogBuilder,
        places: dict[bytes, list[tuple[str, int]]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """What is gone, cut, changed or something else is passed over; nothing is given that is not the payload."""
        monkeypatch.setattr(bundles, "_OPEN", 2)
        for entry, payload in log.items():
            of = {Path(source).name: (source, offset) for source, offset in places[entry.payload_hash]}
            (tmp_path / "cut").write_bytes((tmp_path / "plain").read_bytes()[: of["plain"][1] + 170])
            wrong = [
                (str(tmp_path / "gone"), 0),
                (str(tmp_path / "cut"), of["plain"][1]),
                (str(tmp_path / "plain"), 10**9),
                (str(tmp_path / "bundle"), 13),
                (str(tmp_path / "store"), 77),
                (str(tmp_path), 0),
            ]
            with Payloads() as payloads:
                assert payloads.find(wrong, entry.size, entry.payload_hash) is None
                assert payloads.find([of["store"]], entry.size, yamf_hash(b"")) is None
                assert payloads.find([of["plain"]], entry.size - 1, entry.payload_hash) is None
                assert payload == b"".join(payloads.find([*wrong, of["bundle"]], entry.size, entry.payload_hash) or ())

    def test_a_large_payload_that_changes_meanwhile(
        self, tmp_path: Path, log: LogBuilder, places: dict[bytes, list[tuple[str, int]]]
    ) -> None:
        """It was looked at, and is another one when it is read: an error, and no wrong payload."""
        entry = log.entries[1]
        place = next(place for place in places[entry.payload_hash] if place[0].endswith("plain"))
        with Payloads() as payloads:
            pieces = payloads.find([place], entry.size, entry.payload_hash)
            assert pieces is not None
            data = (tmp_path / "plain").read_bytes()
            (tmp_path / "plain").write_bytes(data[:-1] + b"?")
            with pytest.raises(PayloadMismatch):
                list(pieces)
