"""Record indexes on the command line: compared with stores, each other and peers, and served."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from culm import SQLiteStore
from culm.cli.command import make_parser
from culm.errors import ConfigError
from culm.spark.reconciliation.fingerprint import Fingerprint
from culm.store import View
from culm.testing import build_log
from tests.cli.culm import start
from tests.patience import PATIENCE
from tests.store.recordindex.indexes import make_index

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from culm.testing import LogBuilder
    from tests.cli.culm import Culm


def index_of(folder: Path, *logs: LogBuilder, **settings: Any) -> Path:
    """An index of all entries of some logs."""
    items = [(entry.seq - 1, entry.hash[2:34]) for log in logs for entry in log.entries]
    make_index(folder, items, **settings).close()
    return folder


@pytest.fixture
def logs() -> list[LogBuilder]:
    """Three logs."""
    return [build_log(length, seed=length) for length in (200, 30, 7)]


@contextmanager
def serving(home: Path, *arguments: object) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """``culm serve`` in a process of its own: its address as a peer's, and the process."""
    process = start(home, "serve", "--listen", "negentropy://127.0.0.1:0", *arguments)
    try:
        assert process.stdout is not None
        word, url = process.stdout.readline().split()
        assert word == "listening"
        yield url.replace("negentropy", "tcp"), process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def spark(*arguments: object) -> int:
    """The commands of this module, as they stand in the group ``spark``."""
    parsed = make_parser().parse_args(["spark", *map(str, arguments)])
    code: int = parsed.run(parsed)
    return code


def test_an_index_and_a_store(culm: Culm, tmp_path: Path, logs: list[LogBuilder]) -> None:
    """Either way round: what each lacks, by log where the store has it, and the ids."""
    one, two, three = logs
    with SQLiteStore(tmp_path / "store.db") as store:
        store.add(one.items() + two.items())
    index = index_of(tmp_path / "index", one, three)
    result = culm("reconcile", tmp_path / "store.db", index, "--json").json
    assert (result["a_lacks"], result["b_lacks"]) == (7, 30)
    assert set(result["a_lacks_ids"]) == {entry.hash[2:34].hex() for entry in three.entries}
    assert [row["b_lacks_entries"] for row in result["logs"]] == [30]
    assert result["views"]["entries"]["rounds"] >= 1
    turned = culm("reconcile", index, tmp_path / "store.db", "--json").json
    assert (turned["a_lacks_ids"], turned["b_lacks_ids"]) == (result["b_lacks_ids"], result["a_lacks_ids"])
    assert [row["a_lacks_entries"] for row in turned["logs"]] == [30]
    shown = culm("reconcile", index, tmp_path / "store.db")
    assert f"{index} lacks 30 entries that {tmp_path / 'store.db'} has" in shown.out
    assert f"{tmp_path / 'store.db'} lacks 7 entries that {index} has" in shown.out


def test_two_indexes(culm: Culm, tmp_path: Path, logs: list[LogBuilder]) -> None:
    """Without any protocol: ids only; the cost is what was read."""
    a, b = index_of(tmp_path / "a", *logs[:2]), index_of(tmp_path / "b", *logs[1:], block_records=8)
    result = culm("reconcile", a, b, "--json").json
    assert (result["a_lacks"], result["b_lacks"], result["logs"]) == (7, 200, [])
    assert result["views"]["entries"]["rounds"] == 0
    assert 0 < result["views"]["entries"]["bytes"]
    assert "lacks 0 entries" in culm("reconcile", a, a).out


def test_wrong_calls(culm: Culm, tmp_path: Path, logs: list[LogBuilder]) -> None:
    """What cannot be done with an index is one line and the exit code for a wrong call, or for bad data."""
    a, p = index_of(tmp_path / "a", *logs), index_of(tmp_path / "p", *logs, view=View.PAYLOADS)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "index.json").write_text("{}")
    for code, *arguments in (
        (2, "reconcile", a, culm.home, "--apply"),
        (2, "reconcile", a, p),
        (1, "reconcile", a, tmp_path / "nothing"),
        (1, "reconcile", tmp_path / "damaged", a),
        (2, "serve", "--index", a, "--listen", "bushbaby://127.0.0.1:0"),
        (2, "serve", "--index", a, "--listen", "negentropy://127.0.0.1:0", "--peer", "intervals://127.0.0.1:1"),
        (1, "serve", "--index", tmp_path / "damaged", "--listen", "negentropy://127.0.0.1:0"),
        (1, "serve", "--index", tmp_path, "--listen", "negentropy://127.0.0.1:0"),
    ):
        result = culm(*arguments)
        assert (code, 1) == (result.code, result.err.count("\n")), arguments


def test_an_index_is_served(
    culm: Culm, tmp_path: Path, logs: list[LogBuilder], capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that has nothing but an index answers stores, other indexes and the pipeline, until it is stopped."""
    one, two, three = logs
    with SQLiteStore(tmp_path / "store.db") as store:
        store.add(one.items() + two.items())
    served, other = index_of(tmp_path / "served", one, three), index_of(tmp_path / "other", two, three)
    with serving(tmp_path / "no home", "--index", served) as (url, process):
        result = culm("reconcile", tmp_path / "store.db", url, "--json").json
        assert (result["store_lacks"], list(result["views"])) == ({"entries": 7}, ["entries"])
        result = culm("reconcile", other, url, "--json").json
        assert (result["a_lacks"], result["b_lacks"]) == (200, 30)
        assert 0 == spark("reconcile", other, url, "--output", tmp_path / "out", "--json")
        found = json.loads(capsys.readouterr().out)
        assert (found["a_lacks"], found["b_lacks"]) == (200, 30)
        assert (tmp_path / "out" / "differences").is_dir()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert not (tmp_path / "no home").exists()
    assert culm("reconcile", other, url).code == 3


def test_the_pipeline_compares_indexes(
    tmp_path: Path, logs: list[LogBuilder], capsys: pytest.CaptureFixture[str]
) -> None:
    """``culm spark reconcile`` on two indexes writes the differences and says how many, and what was read."""
    a, b = index_of(tmp_path / "a", *logs[:2]), index_of(tmp_path / "b", *logs[1:])
    assert 0 == spark("reconcile", a, b, "--output", tmp_path / "out")
    out = capsys.readouterr().out
    assert f"{a} lacks 7 entries that {b} has" in out
    assert f"{b} lacks 200 entries that {a} has" in out
    assert " of indexes" in out
    with pytest.raises(ConfigError, match="is there already"):
        spark("reconcile", a, b, "--output", tmp_path / "out")
    assert 0 == spark("reconcile", a, b, "--output", tmp_path / "out", "--overwrite")


def test_fingerprints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """``culm spark fingerprint`` hands on what it was told, and prints what the index is of."""
    made = Fingerprint(view="payloads", records=1234, fingerprint="00ff", files=2, bytes=2048, seconds=1.0)
    told: dict[str, Any] = {}

    def run(table: str, output: Path, **settings: Any) -> Fingerprint:
        told.update(settings, table=table, output=output)
        return made

    monkeypatch.setattr(import_module("culm.spark.reconciliation.fingerprint"), "run", run)
    call = ("fingerprint", "--input", "x", "--output", tmp_path, "--view", "payloads", "--master", "local[2]")
    assert 0 == spark(*call)
    assert capsys.readouterr().out == "1,234 payloads, fingerprint 00ff, in 2.0 KiB\n"
    assert 0 == spark(*call, "--json", "--overwrite")
    assert json.loads(capsys.readouterr().out) == made.as_dict()
    del told["progress"]
    assert told == {"table": "x", "output": tmp_path, "view": "payloads", "master": "local[2]", "overwrite": True}
