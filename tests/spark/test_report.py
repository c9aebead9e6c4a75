"""Reports: every number against plain Python over the same rows, and what a page may and may not hold."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from shutil import copytree
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markupsafe import escape

import culm
from culm.bamboo import MAX_U64
from culm.bamboo.base62 import encode_base62
from culm.charts import Bars, bar_chart
from culm.errors import ConfigError, CulmError
from culm.spark import report, run
from culm.spark.report import job as report_job
from culm.spark.report.numbers import SMALL, LogNumbers
from culm.spark.report.page import short, shown
from culm.spark.report.steps import CELLS
from culm.spark.runtime import columns, shell
from culm.spark.runtime.output import FORMAT
from culm.spark.verification.gather import Reject
from culm.spark.verification.verdicts import Verdict
from culm.store.files import BundleWriter
from culm.testing import build_log
from tests.spark import report_oracle as oracle
from tests.spark.random_logs import RandomLogs
from tests.spark.report_oracle import HOSTILE, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from culm.types import Log
    from tests.spark.defects import DataSet

# One test waits for a verification and a report: some 40 s, and more where others work beside it.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(autouse=True, scope="module")
def _chart() -> None:
    """A chart is drawn before the tests, so that none of them takes the half second that matplotlib needs to load."""
    bar_chart("", ["one"], [Bars("bar", [1])], y_label="")


@dataclass
class Made:
    """A verification's folder, its rows, and the report on it."""

    results: Path
    output: Path
    report: report.Report

    def __post_init__(self) -> None:
        self.rows: list[dict[str, Any]] = pq.read_table(self.results / "verdicts").to_pylist()
        self.rejects: list[dict[str, Any]] = pq.read_table(self.results / "rejects").to_pylist()
        self.html = (self.output / report.PAGE).read_text(encoding="utf-8")
        self.page = oracle.Page(self.html)
        proofs = pq.read_table(self.results / "forks").to_pylist() if (self.results / "forks").exists() else []
        self.proved = {(row["author"], int(row["log_id"])): int(row["position"]) for row in proofs}
        of = oracle.by_log(self.rows)
        self.logs = {log: oracle.log_numbers(log, rows, self.proved.get(log)) for log, rows in of.items()}

    def log_rows(self) -> list[list[str]]:
        """The rows of the page's tables of logs."""
        return [*self.page.table("Logs with most trouble"), *self.page.table("The largest of the other logs")]

    def numbers(self, name: str) -> list[dict[str, Any]]:
        """A table of numbers."""
        folder = self.output / "numbers"
        path = folder / name if (folder / name).exists() else folder / f"{name}.parquet"
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return [{key: int(of) if isinstance(of, Decimal) else of for key, of in row.items()} for row in rows]


def add_rows(folder: Path, rows: Sequence[Mapping[str, Any]], rejects: Sequence[Mapping[str, Any]] = ()) -> None:
    """Add rows to the folder of a verification, or make it; with a summary of other counts, as of runs with a state.

    The file of verdicts is one of an earlier version, without the column ``certified``.
    """
    for name, table, given_rows in (("verdicts", Verdict, rows), ("rejects", Reject, rejects)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        schema = pa.schema([field for field in columns.schema(table) if field.name != "certified"])
        arrays = [pa.array([row.get(field.name) for row in given_rows], field.type) for field in schema]
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), folder / name / "more.parquet")
    (folder / "summary.json").write_text(json.dumps({"entries": 123_456, "seconds": 2.0}))


def seen(text: str) -> str:
    """Foreign text as a reader sees it."""
    return str(shown(text))


def many_rows() -> Iterator[dict[str, Any]]:
    """5,000 logs with holes, forks and lies, some of numbers up to 2^64 - 1."""
    chance = random.Random(5)
    outcomes: tuple[dict[str, Any], ...] = (
        {},
        {},
        {},
        {"verdict": "unverified", "reason": "no path to entry 1: needs 8"},
        {"verdict": "unverified", "reason": HOSTILE},
        {"verdict": "invalid", "reason": "bad signature"},
    )
    for number in range(4990):
        author = (number // 3).to_bytes(32, "big")
        bad = {"verdict": "invalid", "reason": f"fork at {chance.randint(1, 5)}"} if chance.random() < 0.1 else None
        for seqnum in sorted(chance.choices(range(1, 12), k=chance.randint(1, 6))):
            yield verdict(author, number, seqnum, **(bad or chance.choice(outcomes)), copies=chance.randint(1, 300))
    for number, numbers in enumerate(
        (
            [*range(1, 11), MAX_U64],
            [2**63 - 1, 2**63, 2**63 + 1],
            range(1, 1001),
            [*range(1, 30), *range(31, 300)],
            [1, 1000, 10**6, 10**9, 10**12, 10**15, 10**18],
            [number * 17 + 1 for number in range(200)],
            [MAX_U64],
        )
    ):
        for seqnum in numbers:
            yield verdict(b"\xff" * 31 + bytes([number]), MAX_U64 - number, seqnum, size=MAX_U64, payload="absent")


@contextmanager
def without_spark() -> Iterator[None]:
    """What runs meanwhile runs in this process, though a session may be active."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shell, "is_running", lambda: False)
        yield


@pytest.fixture(scope="module")
def made(data: DataSet, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The report on the inputs with every defect, and on 5,000 logs more that only have verdicts."""
    folder = tmp_path_factory.mktemp("report")
    results = folder / "verified"
    with without_spark():
        run(data.inputs, results, with_forks=True)
    rejects = [
        {"source": f"{HOSTILE}{number}", "offset": number, "reason": f"no entry: 0x{number:x} at {number}"}
        for number in range(300)
    ]
    add_rows(results, list(many_rows()), rejects)
    lines: list[str] = []
    with without_spark():
        found = report.run(str(results), folder / "report", logs=40, progress=lines.append)
    assert len(lines) == len(set(lines)) >= 4
    return Made(results, folder / "report", found)


def all_numbers(output: Path) -> dict[str, list[str]]:
    """All tables of a report, but for the times; their rows in an order of their own."""
    names = {path.name for path in (output / "numbers").iterdir()}
    return {name: sorted(map(repr, pq.read_table(output / "numbers" / name).to_pylist())) for name in names}


def timeless(html: str) -> str:
    """A page without the times at which it was made."""
    return re.sub(r"<p>Made .* UTC|until the page was drawn</th><td[^>]*>[^<]*", "", html)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_counts_the_same(made: Made, tmp_path: Path) -> None:
    """On Spark every table, and the page, is what it is without."""
    found = report.run(str(made.results), tmp_path / "report", logs=40)
    assert all_numbers(made.output) == all_numbers(tmp_path / "report")
    assert timeless(made.html) == timeless((tmp_path / "report" / report.PAGE).read_text(encoding="utf-8"))
    assert replace(made.report, seconds=0) == replace(found, seconds=0, page_bytes=made.report.page_bytes)
    assert {"report.html", "numbers", "summary.json"} == {path.name for path in (tmp_path / "report").iterdir()}


@pytest.mark.slow
@pytest.mark.xdist_group("report")  # they share a report that takes long to make
class TestNumbers:
    """Tests of what is counted."""

    def test_logs_and_totals(self, made: Made) -> None:
        """The table of logs has every log's numbers; authors and totals are their sums, also as JSON and headline."""
        rows = {(row["author"], row["log_id"]): LogNumbers(**row) for row in made.numbers("logs")}
        assert made.logs == rows
        totals = oracle.totals(made.logs, len(made.rejects))
        said = made.report.as_dict()
        assert replace(totals, page_bytes=said["page_bytes"], seconds=said["seconds"]).as_dict() == said
        summary = json.loads((made.output / "summary.json").read_text())
        assert ("report", {"logs": 40}) == (summary["made"]["command"], summary.pop("made")["mode"])
        assert made.report.as_dict() == summary
        of_author: defaultdict[bytes, list[LogNumbers]] = defaultdict(list)
        for log in made.logs.values():
            of_author[log.author].append(log)
        assert {
            author: {
                "logs": len(logs),
                "entries": sum(log.entries for log in logs),
                "verified": sum(log.verified for log in logs),
                "unverified": sum(log.unverified for log in logs),
                "invalid": sum(log.invalid for log in logs),
                "forked_logs": sum(log.forked_at is not None for log in logs),
                "missing": sum(log.missing for log in logs),
            }
            for author, logs in of_author.items()
        } == {row.pop("author"): row for row in made.numbers("authors")}
        headline = f"{totals.entries:,} entries of {totals.logs:,} logs by {totals.authors:,} authors"
        assert headline in made.page.text

    @pytest.mark.slow
    def test_small_tables(self, made: Made) -> None:
        """Reasons, payloads, copies, completeness, lengths and growth are what plain Python counts."""
        rows, logs = made.rows, made.logs.values()
        for row in made.numbers("reasons"):
            assert oracle.reasons(rows)[row["verdict"], row["reason"]] == row["entries"]
        assert sum(oracle.reasons(rows).values()) == sum(row["entries"] for row in made.numbers("reasons"))
        sizes: Counter[tuple[str, str]] = Counter()
        for row in rows:
            sizes[row["verdict"], row["payload"]] += int(row["size"])
        counts = Counter((row["verdict"], row["payload"]) for row in rows)
        assert {kind: (counts[kind], sizes[kind]) for kind in counts} == {
            (row["verdict"], row["payload"]): (row["entries"], row["claimed_bytes"]) for row in made.numbers("payloads")
        }
        copies = [row["copies"] for row in rows]
        assert len(copies) == sum(row["entries"] for row in made.numbers("copies"))
        for row in made.numbers("copies"):
            assert sum(row["low"] <= count <= row["high"] for count in copies) == row["entries"]
        shares = Counter(log.held_verified * 10 // log.newest * 10 if log.newest else None for log in logs)
        assert shares == {row["percent"]: row["logs"] for row in made.numbers("completeness") if row["logs"]}
        for row in made.numbers("lengths"):
            assert sum(row["low"] <= log.entries <= row["high"] for log in logs) == row["logs_by_entries"]
            assert sum(row["low"] <= log.newest <= row["high"] for log in logs) == row["logs_by_newest"]
        for row in made.numbers("growth"):
            number, *sums = row.values()
            assert oracle.up_to(rows, number) == tuple(sums)
        assert oracle.up_to(rows, MAX_U64) == tuple(list(made.numbers("growth")[-1].values())[1:])

    def test_strips(self, made: Made) -> None:
        """The cells of a strip hold the log's numbers by verdict; what lies between them is missing, all of it."""
        of = oracle.by_log(made.rows)
        cells: defaultdict[Log, list[dict[str, Any]]] = defaultdict(list)
        for row in made.numbers("coverage"):
            cells[row["author"], row["log_id"]].append(row)
        assert len(cells) >= 40
        for log, drawn in cells.items():
            held = oracle.states(of[log])
            counted: Counter[int] = Counter()
            assert len(drawn) <= CELLS
            for row in drawn:
                ranks = Counter(rank for number, rank in held.items() if row["first"] <= number <= row["last"])
                assert (ranks[0], ranks[1], ranks[2]) == (row["verified"], row["unverified"], row["invalid"])
                assert row["last"] - row["first"] + 1 == row["missing"] + ranks.total()
                counted.update(ranks)
            assert len(held) == counted.total()

    @pytest.mark.slow
    def test_forks(self, made: Made, tmp_path: Path) -> None:
        """Forks are those of the verification with their proofs; where there are none, those that reasons tell of."""
        kept = pq.read_table(made.results / "forks").to_pylist()
        assert sorted(map(str, kept)) == sorted(map(str, pq.read_table(made.output / "numbers" / "forks").to_pylist()))
        rows = made.page.table("All 9 forks")
        assert {row["proof"].hex() for row in kept} == {row[-1].split()[-1] for row in rows}
        assert {f"{row['position']:,}" for row in kept} == {row[1] for row in rows}
        unproved = tmp_path / "unproved"
        copytree(made.results, unproved, ignore=lambda *_: ["forks"])
        with without_spark():
            other = Made(unproved, tmp_path / "report", report.run(str(unproved), tmp_path / "report"))
        found = {(row["author"], row["log_id"], row["position"], row["valid_to"]) for row in other.numbers("forks")}
        forked = [log for log in other.logs.values() if log.forked_at is not None]
        assert {(log.author, log.log_id, log.forked_at, log.contiguous) for log in forked} == found
        assert len(forked) > 100
        assert f"50 of {len(forked):,} forks" in other.page.text
        assert "No proofs of forks were written" in other.page.text
        assert {("\N{EN DASH}",) * 3} == {(row[2], row[3], row[5]) for row in other.page.table("50 of")}
        assert not re.search(r"\b(None|nan)\b", other.page.text + made.page.text)

    def test_rejects(self, made: Made) -> None:
        """Rejects are counted by source and reason; numbers in reasons make no difference."""
        assert len(made.rejects) == sum(row["rejects"] for row in made.numbers("rejects"))
        assert {row["source"]: row["offset"] for row in made.rejects} == {
            row["source"]: row["first_offset"] for row in made.numbers("rejects")
        }
        reasons = Counter(row["reason"] for row in made.numbers("rejects"))
        assert 300 == reasons["no entry: # at #"]


@pytest.mark.slow
@pytest.mark.xdist_group("report")
class TestPage:
    """Tests of the page."""

    def test_its_tables_have_the_numbers(self, made: Made) -> None:
        """Each number of a table of the page is that of the Parquet table."""
        counts = Counter(row["verdict"] for row in made.rows)
        assert dict(counts) == {row[0]: oracle.number(row[1]) for row in made.page.table("Entries by verdict")}
        found = {(row[1], row[0]): oracle.number(row[2]) for row in made.page.table("Entries that are not verified")}
        reasons = oracle.reasons(made.rows)
        assert {(name, seen(reason)): count for (name, reason), count in reasons.items()} == found
        shown = [[*map(oracle.number, row[1:])] for row in made.page.table(f"25 of {made.report.authors:,} authors")]
        authors = sorted(made.numbers("authors"), key=lambda row: (-row["entries"], row["author"]))
        assert [list(row.values())[1:] for row in authors[:25]] == shown
        shown = [[*map(oracle.number, row[:3])] for row in made.page.table("Sums over all logs")]
        assert [list(row.values())[:3] for row in made.numbers("growth")] == shown
        shown = [[oracle.number(row[2])] for row in made.page.table("Entries by what is known")]
        assert [[row["entries"]] for row in made.numbers("payloads")] == shown
        assert [row["logs"] for row in made.numbers("completeness")] == [
            oracle.number(row[1]) for row in made.page.table("Logs by the share")
        ]

    def test_its_logs(self, made: Made) -> None:
        """A row of the table of logs has the log's numbers; what is folded below the name says all of them in words."""
        logs = {f"{encode_base62(log.author).decode()}/{log.log_id}": log for log in made.logs.values()}
        for name, _, _, entries, newest, missing, trouble in made.log_rows():
            log = logs[name.split()[0]]
            for number, cell in ((log.entries, entries), (log.newest, newest), (log.missing, missing)):
                assert short(number) == cell
            words = " ".join(name.split())
            assert f"Newest {log.newest:,}; " in words or (not log.newest and "No entry has a good signature." in words)
            verdicts = f"{log.verified:,} verified, {log.unverified:,} unverified, {log.invalid:,} invalid"
            said = rf"{log.entries:,} entr(y|ies): {verdicts}"
            assert re.search(said, words)
            assert (log.forked_at is not None) == trouble.startswith(f"forked at {log.forked_at or 0:,}")
            assert (f"{log.invalid:,} invalid" in trouble) == (log.invalid > 0)

    def test_what_is_long_is_folded(self, made: Made) -> None:
        """The logs are one table; what there is to say of each is folded, and so is all of a chart's numbers."""
        head, _, rest = made.html.partition('<table class="logs">')
        table = rest.partition("</table>")[0]
        assert "<details" in head
        assert table.count("<details><summary>") == table.count('<tr class="log">') == 40
        assert not re.search(r"<details[^>]*open", made.html)
        assert made.page.tags["details"] > 85

    def test_what_a_summary_lacks(self, made: Made, tmp_path: Path) -> None:
        """Of results without a word on their making the page says so. Only those of heads get the caveat of heads."""
        assert ["not recorded", "an earlier version of Culm made these results"] in made.page.table("The verification")
        assert "--signatures heads" not in made.page.text
        wrong = {"mode": [], "version": ["1"], "inputs": [1, {"path": HOSTILE, "files": [[]]}], HOSTILE: 1}
        for told, words in (("all", "every one"), ("heads", "those of heads only"), (HOSTILE, seen(HOSTILE))):
            results, output = tmp_path / "verified", tmp_path / "report"
            add_rows(results, [verdict(bytes(32), 0, 1)])
            summary = json.loads((results / "summary.json").read_text())
            (results / "summary.json").write_text(json.dumps({**summary, "signatures": told, "made": wrong}))
            with without_spark():
                report.run(str(results), output, overwrite=True)
            page = oracle.Page((output / report.PAGE).read_text(encoding="utf-8"))
            assert [["signatures that were checked", words]] == page.table("The verification")
            assert [[seen(HOSTILE), *"\N{EN DASH}" * 4]] == [
                [one.strip() for one in row] for row in page.table("1 input")
            ]
            assert (told == "heads") == ("--signatures heads" in page.text)

    def test_nothing_from_elsewhere(self, made: Made) -> None:
        """No address, no script, no font: a page that needs nothing but itself. Its charts are inside, as pictures."""
        own, charts = re.subn(
            r'src="data:image/svg\+xml;base64,[\w+/=]+"', "", made.html.replace(str(escape(seen(HOSTILE))), "")
        )
        assert charts == 5
        assert not re.search(r"https?:|src\s*=|@import|url\(|<link|<script|<iframe|<object|<embed", own)
        assert not {"script", "link", "iframe", "object", "embed", "use", "image"} & made.page.tags.keys()
        for tag, name, value in made.page.attributes:
            assert not name.startswith("on")
            assert name != "src" or (tag == "img" and value.startswith("data:image/svg+xml;base64,"))
            assert name not in ("srcset", "action", "data", "xlink:href", "xmlns")
            assert name != "href" or (tag == "a" and value.startswith("#"))
        assert not re.search(r"@import|url\(|//", made.page.style)
        anchors = {value for _, name, value in made.page.attributes if name == "href"}
        assert anchors == {f"#{value}" for _, name, value in made.page.attributes if name == "id"}

    def test_it_can_be_read_by_all(self, made: Made) -> None:
        """A language, a title, a size for phones; every drawing has a title, every table a caption and heads."""
        assert ("html", "lang", "en") in made.page.attributes
        assert ("meta", "name", "viewport") in made.page.attributes
        hidden = sum(name == "aria-hidden" for _, name, _ in made.page.attributes)
        drawn = [name for tag, name, _ in made.page.attributes if tag == "svg" and name == "role"]
        assert made.page.tags["svg"] == hidden + len(drawn)
        assert len(drawn) == len(re.findall(r'<svg[^>]* role="img" aria-label="[^"]+"[^>]*><title>[^<]', made.html))
        assert all(title.strip() for title in made.page.titles)
        assert made.page.tags["img"] == len(
            [value for _, name, value in made.page.attributes if name == "alt" and value]
        )
        assert all(caption and rows for caption, rows in made.page.tables)
        assert "prefers-color-scheme: dark" in made.page.style
        assert "@media print" in made.page.style

    def test_it_is_small(self, made: Made) -> None:
        """Of 5,000 logs it shows some, and says how many there are and where; of rejects, too."""
        assert made.report.page_bytes == len(made.html.encode()) < 500_000
        rows = len(made.log_rows())
        assert 40 <= rows <= 80
        assert f"{rows} of {len(made.logs):,} logs are shown; " in " ".join(made.page.text.split())
        assert "numbers/logs" in made.page.text
        assert len(made.page.table("What could not be read")) == 50
        assert any("50 of 310 rows" in caption for caption, _ in made.page.tables)

    def test_it_says_what_it_is_about(self, made: Made) -> None:
        """Where the summary counts more than the table has, the page says so; and how long the verification took."""
        assert "summary counts 123,456 entries" in made.page.text
        assert ["verification, seconds from start to end", "2.0"] in made.page.table("Time")
        assert not [row for row in made.page.table("Time") if row[0].startswith("ent")]  # of how many is not known

    def test_hostile_text_is_harmless(self, made: Made) -> None:
        """Reasons and names of files are text, and what cannot be seen in them is written out."""
        assert "<script>alert(1)</script> & \"'\\u001b[2J\\u202e<img src=x onerror=y>" in made.page.text
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", made.html)

    def test_the_greatest_numbers(self, made: Made) -> None:
        """Entries 1 to 10 and one at 2^64 - 1: both are seen, and what lies between is said to be left out."""
        (log,) = (log for log in made.logs.values() if log.newest == MAX_U64 and log.entries == 11)
        assert (10, MAX_U64 - 11) == (log.contiguous, log.missing)
        cells = [row for row in made.numbers("coverage") if (row["author"], row["log_id"]) == log[:2]]
        assert [*range(1, 11), MAX_U64] == [row["first"] for row in cells]
        assert all(row["verified"] == 1 for row in cells)
        assert f"{MAX_U64 - 11:,} (11 to {MAX_U64 - 1:,})" in made.page.text


def test_no_entries(tmp_path: Path) -> None:
    """A verification that found nothing has a report, too, whose page says so."""
    results = tmp_path / "verified"
    add_rows(results, [])
    with without_spark():
        made = Made(results, tmp_path / "report", report.run(str(results), tmp_path / "report"))
    assert {0} == {made.report.entries, made.report.logs, made.report.rejects, made.report.missing}
    assert "No entries: the last run found nothing new" in made.page.text
    assert {"report.html", "numbers", "summary.json"} == {path.name for path in made.output.iterdir()}
    assert not made.numbers("logs")
    assert {*SMALL} <= {path.stem for path in (made.output / "numbers").glob("*.parquet")}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_what_is_no_verdict_is_one_line_on_spark(tmp_path: Path) -> None:
    """A number that no entry can have ends the report with one line, and leaves nothing."""
    results = tmp_path / "verified"
    add_rows(results, [verdict(bytes(32), 0, 0)])
    with pytest.raises(CulmError, match=r"^Spark: a row is not an entry: .* its seqnum 1 to"):
        report.run(str(results), tmp_path / "report")
    assert [results] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seqnum": 0}, "its seqnum 1 to"),
        ({"seqnum": 2**64}, "its seqnum 1 to"),
        ({"seqnum": None}, "its seqnum 1 to"),
        ({"verdict": "good"}, "'good' is not a verdict"),
        ({"payload": None}, "None is not a state of a payload"),
    ],
)
def test_what_is_no_verdict_is_one_line(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    """What no verification writes ends the report with one line, and leaves nothing."""
    results = tmp_path / "verified"
    add_rows(results, [{**verdict(bytes(32), 0, 1), **wrong}])
    with without_spark(), pytest.raises(CulmError, match=message):
        report.run(str(results), tmp_path / "report")
    assert [results] == list(tmp_path.iterdir())


def test_tables_that_cannot_be_read(tmp_path: Path) -> None:
    """A file that is no Parquet, or lacks a column, is named."""
    results = tmp_path / "verified"
    add_rows(results, [])
    file = results / "verdicts" / "more.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["copies"]), file)
    with without_spark(), pytest.raises(CulmError, match=r"more\.parquet: a table without the column 'copies'"):
        report.run(str(results), tmp_path / "report")
    file.write_bytes(b"PAR1")
    with without_spark(), pytest.raises(CulmError, match=r"more\.parquet: not a Parquet file"):
        report.run(str(results), tmp_path / "report")


def test_how_the_results_were_made(tmp_path: Path) -> None:
    """The page says what the summary of a real run says: command, version, times, and each input with its digest."""
    log, entries, results = build_log(3), tmp_path / "entries", tmp_path / "verified"
    entries.write_bytes(b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries))
    said: list[str] = []
    with without_spark():
        run([str(entries)], results, signatures="heads")
        report.run(str(results), tmp_path / "report", progress=said.append)
    html = (tmp_path / "report" / report.PAGE).read_text(encoding="utf-8")
    page, made = oracle.Page(html), json.loads((results / "summary.json").read_text())["made"]
    assert [
        ["command of culm spark", "verify"],
        ["version of Culm", culm.__version__],
        ["signatures that were checked", "those of heads only"],
        ["format of the results", str(FORMAT)],
        ["started", made["started"]],
        ["ended", made["ended"]],
    ] == page.table("The verification")
    (given,) = made["inputs"]
    size = entries.stat().st_size
    assert [[str(entries), "1", f"{size:,}", given["digest"], "content"]] == page.table("1 input")
    assert "made by" not in page.text + "".join(said)


def test_results_of_another_version(tmp_path: Path) -> None:
    """That another version made the results stands on the page, and is said while the report is made."""
    results, lines = tmp_path / "verified", list[str]()
    add_rows(results, [verdict(bytes(32), 0, 1)])
    (results / "summary.json").write_text(json.dumps({"entries": 1, "made": {"version": "0.0.1<b>"}}))
    with without_spark():
        report.run(str(results), tmp_path / "report", progress=lines.append)
    expected = f"the results were made by version 0.0.1<b> of Culm; this is version {culm.__version__}"
    assert expected in lines
    assert f"Note: {expected}." in oracle.Page((tmp_path / "report" / report.PAGE).read_text(encoding="utf-8")).text


def test_every_table_says_how_it_was_made(tmp_path: Path) -> None:
    """The small tables, too, say in their metadata which command and version made them."""
    add_rows(tmp_path / "verified", [verdict(bytes(32), 0, 1)])
    with without_spark():
        report.run(str(tmp_path / "verified"), tmp_path / "report")
    files = [*(tmp_path / "report" / "numbers").rglob("*.parquet")]
    assert {*SMALL, "logs", "authors", "forks", "rejects"} == {
        path.stem if path.parent.name == "numbers" else path.parent.name for path in files
    }
    for path in files:
        stated = json.loads(pq.read_schema(path).metadata[b"culm"])
        assert ("report", culm.__version__) == (stated["command"], stated["version"]), path


@pytest.mark.slow
class TestStates:
    """Reports on states, and on what a run with one wrote."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Two runs with a state, and one over everything."""
        logs = RandomLogs(seed=9, count=40)
        items = logs.items
        for name, part in (("one", items[::2]), ("two", items[1::2]), ("all", items)):
            with (tmp_path / name).open("wb") as stream:
                writer = BundleWriter(stream)
                for entry, payload in part:
                    writer.entry(entry)
                    if payload is not None:
                        writer.payload(entry.place, len(payload), [payload])
                writer.close()
        (tmp_path / "rubbish").write_bytes(b"\x07no entry")
        with without_spark():
            run([str(tmp_path / "all")], tmp_path / "of all", with_forks=True)
            for name in ("one", "two"):
                inputs = [str(tmp_path / name), *([str(tmp_path / "rubbish")] if name == "one" else [])]
                run(inputs, tmp_path / f"of {name}", state=tmp_path / "state")
        return tmp_path

    def test_all_that_a_state_knows(self, folder: Path) -> None:
        """The report on a state is that on one verification of everything, whatever the runs were; copies count."""
        with without_spark():
            whole = report.run(str(folder / "of all"), folder / "whole")
            found = report.run(str(folder / "state"), folder / "known")
        assert found.forked_logs > 3
        assert {**whole.as_dict(), "seconds": 0, "page_bytes": 0, "rejects": 1} == {
            **found.as_dict(),
            "seconds": 0,
            "page_bytes": 0,
        }
        one, other = all_numbers(folder / "whole"), all_numbers(folder / "known")
        assert one == other
        page = (folder / "known" / report.PAGE).read_text(encoding="utf-8")
        assert "everything that the state knows" in page
        assert "A state only counts them" in page
        assert [["signatures that were checked", "every one"]] == oracle.Page(page).table("The verification")

    @pytest.mark.spark
    @pytest.mark.usefixtures("spark")
    def test_on_spark(self, folder: Path) -> None:
        """Spark counts the same of a state."""
        with without_spark():
            report.run(str(folder / "state"), folder / "known")
        report.run(str(folder / "state"), folder / "spark")
        assert all_numbers(folder / "known") == all_numbers(folder / "spark")

    def test_what_a_run_changed(self, folder: Path) -> None:
        """The report on a run with a state says, before any number, that it covers a part, and where the whole is."""
        with without_spark():
            found = report.run(str(folder / "of two"), folder / "part")
        page = oracle.Page((folder / "part" / report.PAGE).read_text(encoding="utf-8")).text
        said = json.loads((folder / "of two" / "summary.json").read_text())["entries"]
        assert found.entries < said
        told = page.index("This page covers a part only.")
        assert told < page.index("wrong payloads")
        assert f"counts {said:,} entries, but its table has {found.entries:,}" in " ".join(page.split())
        assert "culm spark report STATE" in page


def test_large_results_go_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many entries for this process, or a master that is named: Spark counts."""
    results = tmp_path / "verified"
    add_rows(results, [verdict(bytes(32), 0, 1)])
    monkeypatch.setattr(shell, "is_running", lambda: False)
    monkeypatch.setattr(shell, "running", mock.Mock(side_effect=CulmError("Spark")))
    with pytest.raises(CulmError, match="Spark"):
        report.run(str(results), tmp_path / "report", master="local[1]")
    monkeypatch.setattr(report_job, "SMALL_ENTRIES", 0)
    with pytest.raises(CulmError, match="Spark"):
        report.run(str(results), tmp_path / "report")
    assert [results] == list(tmp_path.iterdir())


def test_what_cannot_work_is_refused_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that are no results, outputs that are there, and numbers of logs out of range."""
    monkeypatch.setattr(shell, "running", None)
    results = tmp_path / "verified"
    add_rows(results, [])
    with pytest.raises(ConfigError, match="there is no verdicts"):
        report.run(str(tmp_path), tmp_path / "report")
    with pytest.raises(ConfigError, match="is there already"):
        report.run(str(results), results)
    with pytest.raises(ConfigError, match="is inside the output"):
        report.run(str(results), results, overwrite=True)
    for logs in (0, report.MOST_LOGS + 1):
        with pytest.raises(ConfigError, match=f"^{logs} logs; accepted: 1 to 100"):
            report.run(str(results), tmp_path / "report", logs=logs)
    for text in ("[]", "{", "[" * 100_000):
        (results / "summary.json").write_text(text)
        with pytest.raises(ConfigError, match="not a summary"):
            report.run(str(results), tmp_path / "report")
