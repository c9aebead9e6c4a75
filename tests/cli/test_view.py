"""``culm view rebuild``: the rows of an application's view, made anew."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.culm import Culm

THREAD = f"{Path(__file__).parents[1] / 'views' / 'thread.py'}:THREAD"
LINES = """
import time
from dataclasses import dataclass
from culm.views import View, decode_text
@dataclass
class Line:
    text: str
LINES = View("CREATE TABLE lines (text TEXT); CREATE TABLE empty (x)",
             lambda rows, _, text: rows.execute("INSERT INTO lines VALUES (?)", (text,)), decode=decode_text)
CLOCK = View("CREATE TABLE times (time REAL)",
             lambda rows, *_: rows.execute("INSERT INTO times VALUES (?)", (time.perf_counter(),)), decode=decode_text)
OTHER = 7
"""


@pytest.fixture
def folder(culm: Culm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, with a file of views, and a home with three entries."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines_of_this_test.py").write_text(LINES)
    for text in ("one", "two", "three"):
        culm("append", 1, "--text", text)
    return tmp_path


def rows(path: Path) -> list[str]:
    """The lines in a view's file."""
    with closing(sqlite3.connect(path)) as database:
        return [text for (text,) in database.execute("SELECT text FROM lines ORDER BY rowid")]


@pytest.mark.parametrize("module", ["lines_of_this_test.py", "lines_of_this_test"])
def test_making_and_making_anew(culm: Culm, folder: Path, module: str) -> None:
    """A file is made, made anew, and brought up to date, from a module by file or by name; its rows stay the same."""
    for expected in (["one", "two", "three"], ["one", "two", "three"], ["one", "two", "three", "four"]):
        if "four" in expected:
            culm("append", 1, "--text", "four")
        done = culm("view", "rebuild", f"{module}:LINES", folder / "view.db")
        assert (done.code, done.err) == (0, "")
        made = f"made {len(expected)} rows of {len(expected)} entries"
        assert done.out == f"{made}; 0 rejected, 0 waiting for entries that they refer to\n"
        assert rows(folder / "view.db") == expected
    shown = culm("view", "rebuild", f"{module}:LINES", folder / "view.db", "--json").json
    assert shown == {"applied": 4, "rejected": 0, "waiting": 0, "rows": {"lines": 4, "empty": 0}, "differ": []}


def test_rows_that_differ(culm: Culm, folder: Path) -> None:
    """A view that depends on something besides the entries is found out, with exit code 1."""
    call = ("view", "rebuild", "lines_of_this_test.py:CLOCK", folder / "view.db")
    assert culm(*call).code == 0
    again = culm(*call)
    assert again.code == 1
    assert again.err == (
        "the rows of times are not those from before: the view depends on something besides the entries\n"
    )
    assert culm(*call, "--json").json["differ"] == ["times"]


def test_rejected_and_waiting(culm: Culm, folder: Path) -> None:
    """Entries that a view rejects, and those that wait for others, are counted."""
    culm("append", 2, "--text", '{"text": "no 7"}')
    culm("append", 3, "--text", '{"text": "an answer", "about": ["' + "00" * 66 + '"]}')
    shown = culm("view", "rebuild", THREAD, folder / "view.db", "--json").json
    assert (shown["rejected"], shown["waiting"]) == (1, 1)


def test_wrong_calls(culm: Culm, folder: Path) -> None:
    """A name that is none, a module that is not there or is no Python, and what is no view: one line, and no file."""
    (folder / "broken.py").write_text("this is no Python")
    for view, why in (
        ("lines.py", "'lines.py' is not MODULE:NAME, such as todo.py:TODO"),
        ("nothing_of_this_name:LINES", "cannot import nothing_of_this_name: No module named 'nothing_of_this_name'"),
        ("nowhere.py:LINES", "cannot import nowhere.py: [Errno 2] No such file or directory"),
        ("broken.py:LINES", "cannot import broken.py: invalid syntax"),
        ("lines_of_this_test.py:NOTHING", "lines_of_this_test.py has no NOTHING"),
        ("lines_of_this_test.py:OTHER", "OTHER of lines_of_this_test.py is not a culm.views.View"),
    ):
        done = culm("view", "rebuild", view, folder / "view.db")
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert done.err.startswith(f"culm: {why}")
    assert not (folder / "view.db").exists()
    shutil.copy(culm.home / "store.db", folder / "other.db")
    assert "not of a view" in culm("view", "rebuild", "lines_of_this_test.py:LINES", folder / "other.db").err
