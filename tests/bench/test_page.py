"""The pages with figures: what they show is what was measured, and nothing else."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from bench import harness, page
from bench.harness import Figure, median_rate

if TYPE_CHECKING:
    from pathlib import Path

RECORD = json.loads(page.RECORD.read_text(encoding="utf-8"))
COMMIT = "0123abcd"
TEXT = """Before.

<!-- figures: speed -->
stale
<!-- end of figures -->
After.
"""


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """The working tree is that of a commit, whatever is being worked on."""
    monkeypatch.setattr(page, "commit", lambda *_: COMMIT)


@pytest.mark.parametrize("place", page.PAGES, ids=lambda place: place.name)
def test_the_pages_show_what_was_measured(place: Path) -> None:
    """No figure was copied by hand or is left from an earlier run: ``python -m bench.page`` would change nothing."""
    text = place.read_text(encoding="utf-8")
    assert text == page.written(text, RECORD)
    assert "<!-- figures: " in text


@pytest.mark.usefixtures("clean")
def test_what_is_kept_comes_back_as_a_table(tmp_path: Path) -> None:
    """A table has the commit, the day and the command, and of each figure its value, what is beside it, its runs."""
    path = tmp_path / "figures.json"
    page.keep("other", [Figure("size", 1, "kB")], path)
    page.keep("speed", [Figure("stale", 1, "s")], path)
    taken = median_rate("rate", 1000, "entries/s", [0.25, 0.1, 0.5], "a bare loop", 0.512)
    page.keep("speed", [taken, Figure("bytes", 12.345, "MB", goal=3)], path)
    written = page.written(TEXT, json.loads(path.read_text(encoding="utf-8")))
    assert re.search(rf"Commit `{COMMIT}`, \d{{4}}-\d\d-\d\d, with(out)? the native core: ", written)
    assert written.startswith("Before.\n\n<!-- figures: speed -->\n")
    assert written.endswith(
        "`make bench BENCH_ARGS=speed`\n\n| what | figure | beside | runs |\n|---|---|---|---|\n"
        "| rate | 4,000 entries/s | 0.51 x a bare loop | 2,000 to 10,000 |\n"
        "| bytes | 12.3 MB |  |  |\n\n<!-- end of figures -->\nAfter.\n"
    )


@pytest.mark.usefixtures("clean")
def test_the_tables_of_two_benchmarks_stand_apart(tmp_path: Path) -> None:
    """Between them is an empty line, because Markdown takes a line that follows a table for one more row of it."""
    path = tmp_path / "figures.json"
    page.keep("size", [Figure("size", 1, "kB")], path)
    page.keep("speed", [Figure("speed", 2, "MB/s")], path)
    written = page.written(TEXT.replace("speed", "size speed"), json.loads(path.read_text(encoding="utf-8")))
    assert 2 == written.count("\n\nCommit `")


def test_a_benchmark_that_was_not_run_is_named() -> None:
    """A page that asks for figures which nobody measured is not written."""
    with pytest.raises(KeyError, match="speed"):
        page.written(TEXT, {})


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.934, "0.93"), (9.996, "10.00"), (12.345, "12.3"), (99.0, "99"), (10518.6, "10,519"), (0, "0")],
)
def test_numbers(value: float, text: str) -> None:
    """Three digits say enough, and whole numbers stay whole."""
    assert page.number(value) == text


def test_the_commit_that_was_measured(tmp_path: Path) -> None:
    """Figures that were recorded a moment ago are no change of the code; anything else that is in no commit is told."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "docs").mkdir()
    for name in ("docs/figures.json", "README.md", "code.py"):
        (tmp_path / name).write_text("old\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    known = page.commit(tmp_path)
    (tmp_path / "docs" / "figures.json").write_text("new\n")
    (tmp_path / "README.md").write_text("new\n")
    assert page.commit(tmp_path) == known
    (tmp_path / "code.py").write_text("new\n")
    assert page.commit(tmp_path) == f"{known}+"


def test_figures_of_code_that_no_commit_has_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could repeat them. The message names the commit and says what to do, and the record stays as it was."""
    monkeypatch.setattr(page, "commit", lambda *_: f"{COMMIT}+")
    path = tmp_path / "figures.json"

    with pytest.raises(ValueError, match=rf"differs from {COMMIT}\. Commit your changes"):
        page.keep("speed", [Figure("speed", 2, "MB/s")], path)

    assert not path.exists()


def test_recording_refuses_before_it_measures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A benchmark may take hours, so a changed tree is told at once: as a wrong call, without one line of figures."""
    monkeypatch.setattr(page, "commit", lambda *_: f"{COMMIT}+")
    monkeypatch.setattr(sys, "argv", ["bench", "--record", "verification"])
    monkeypatch.setattr(harness, "touch_memory", lambda: pytest.fail("it had begun"))

    with pytest.raises(SystemExit) as ended:
        runpy.run_module("bench", run_name="__main__")

    said = capsys.readouterr()
    assert 2 == ended.value.code
    assert not said.out
    assert f"bench: error: Figures are kept of a commit only, but the working tree differs from {COMMIT}." in said.err
