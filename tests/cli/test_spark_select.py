"""``culm spark select``: what the command is told and what it prints; the selection itself is in ``tests/spark``."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from culm.cli.command import make_parser
from culm.errors import ConfigError, StoreError
from culm.spark.select.job import SelectSummary
from culm.testing import build_log

if TYPE_CHECKING:
    from pathlib import Path

SUMMARY = SelectSummary(
    requesters=2,
    ranges=3,
    rejects=0,
    items=12345,
    certificates=5,
    payloads=8,
    payloads_held=7,
    missing_rows=4,
    not_held=10,
    beyond_newest=10**20,
    unreadable=0,
    bundles=2,
    bundle_bytes=4096,
    lacking=1,
    seconds=2.5,
)


def select(*arguments: object) -> int:
    """The command, as it stands in the group ``spark``."""
    parsed = make_parser().parse_args(["spark", "select", *map(str, arguments)])
    code: int = parsed.run(parsed)
    return code


@pytest.mark.parametrize(("changes", "code"), [({}, 0), ({"rejects": 1}, 1), ({"unreadable": 4}, 1)])
def test_what_it_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], changes: dict[str, int], code: int
) -> None:
    """All that was said is handed on; the numbers as a table or as JSON; 1 if anything could not be read."""
    told: dict[str, Any] = {}

    def run_select(inputs: list[str], requests: str, output: Path, **settings: Any) -> SelectSummary:
        told.update(settings, inputs=inputs, requests=requests, output=str(output))
        return replace(SUMMARY, **changes)

    monkeypatch.setattr(import_module("culm.spark.select.job"), "run_select", run_select)
    call = ("--input", "a", "b", "--requests", "r.csv", "--output", "out", "--bundles", "--signatures", "heads")
    assert code == select(*call, "--json", "--master", "local[2]", "--overwrite")
    assert json.loads(capsys.readouterr().out) == {**SUMMARY.as_dict(), **changes}
    del told["progress"]
    assert told == {
        "inputs": ["a", "b"],
        "requests": "r.csv",
        "output": "out",
        "bundles": True,
        "signatures": "heads",
        "master": "local[2]",
        "overwrite": True,
    }
    assert code == select(*call[:-3])
    shown = capsys.readouterr().out
    assert "12,345" in shown
    assert "payloads held" in shown
    assert told["bundles"] is False


def test_what_cannot_work_is_refused_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs and requests that are not there, an output that is, and an input inside it cost no start of Spark."""
    monkeypatch.setattr("culm.spark.runtime.shell.running", None)
    log = build_log(1)
    plain = tmp_path / "plain"
    plain.write_bytes(log.entries[0].encoded + log.payloads[log.entries[0].hash])
    requests = tmp_path / "requests.csv"
    requests.touch()
    output = tmp_path / "results"
    output.mkdir()
    (output / "summary.json").write_bytes(plain.read_bytes())
    for inputs, asked, target, message in (
        (tmp_path / "missing", requests, tmp_path / "new", "missing: there is no such file"),
        (plain, tmp_path / "missing", tmp_path / "new", "missing: there is no such file or folder"),
        (plain, requests, output, "is there already"),
    ):
        with pytest.raises((ConfigError, StoreError), match=message):
            select("--input", inputs, "--requests", asked, "--output", target)
    with pytest.raises(ConfigError, match="is inside the output"):
        select("--input", output / "summary.json", "--requests", requests, "--output", output, "--overwrite")
