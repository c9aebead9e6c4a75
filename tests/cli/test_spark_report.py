"""``culm spark report``: what it passes on, what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from culm.cli.command import make_parser
from culm.errors import ConfigError
from culm.spark import report

if TYPE_CHECKING:
    from collections.abc import Callable

MADE = report.Report(
    entries=12_345,
    verified=12_000,
    unverified=300,
    invalid=45,
    logs=7,
    authors=3,
    forked_logs=1,
    missing=2**64,
    wrong_payloads=0,
    rejects=2,
    page_bytes=100_000,
    seconds=1.5,
)


def spark(*arguments: object) -> int:
    """The command of this module, as it stands in the group ``spark``."""
    parsed = make_parser().parse_args(["spark", *map(str, arguments)])
    code: int = parsed.run(parsed)
    return code


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The calls that reach the report, which takes none of Spark's time."""
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def run(*given: Any, progress: Callable[[str], None], **settings: Any) -> report.Report:
        found.append((given, settings))
        progress("counting")
        return MADE

    monkeypatch.setattr(report, "run", run)
    return found


def test_the_counts_are_printed(
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Counts and the page's place on stdout, progress on stderr; bad entries are no failure of the report."""
    assert 0 == spark("report", "verified", "--output", "out")
    out, err = capsys.readouterr()
    assert "counting\n" == err
    lines = {" ".join(line.split()) for line in out.splitlines()}
    assert {"entries 12,345", "forked logs 1", f"missing {2**64:,}", "out/report.html: 97.7 KiB"} <= lines
    assert [(("verified",), {"output": Path("out"), "logs": 25, "master": None, "overwrite": False})] == calls


def test_options_and_json(
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The options reach the report; JSON has the counts and the page's place."""
    assert 0 == spark("report", "v", "--output", "o", "--logs", "7", "--master", "local[1]", "--overwrite", "--json")
    assert {**MADE.as_dict(), "page": "o/report.html"} == json.loads(capsys.readouterr().out)
    assert [(("v",), {"output": Path("o"), "logs": 7, "master": "local[1]", "overwrite": True})] == calls


@pytest.mark.parametrize("logs", ["0", "-1", "x", "101"])
def test_wrong_numbers_of_logs(logs: str, tmp_path: Path) -> None:
    """What is no number of logs is a wrong call."""
    with pytest.raises(ConfigError, match=logs):
        spark("report", tmp_path, "--output", tmp_path / "out", f"--logs={logs}")


def test_no_results(tmp_path: Path) -> None:
    """A folder that no verification wrote is a wrong call, in one line."""
    with pytest.raises(ConfigError, match="not the results of culm spark verify"):
        spark("report", tmp_path, "--output", tmp_path / "out")
