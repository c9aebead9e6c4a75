"""Messages, docstrings and comments avoid the worn phrases of CONTRIBUTING.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import voice
from tests.voice import KEPT, Text, Worn

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = '''"""Says of which file it is."""

LIMIT = 3  # that one more
# is of no use: nobody
# of which more is known


def check(count: int) -> None:
    """Say what came."""
    if count > LIMIT:
        text = f"{count} messages, " "of which {count - LIMIT} are too many, where 3 may be"
        raise ValueError(text)
'''


@pytest.mark.slow
def test_worn_phrases() -> None:
    """No text uses a worn phrase but those that are kept for a reason, and these are there."""
    assert sorted(KEPT) == voice.remaining(), "say it plainly: see CONTRIBUTING.md, python -m tests.voice worn"


def test_texts_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strings are joined as the program joins them, lines of a comment are one text, values are left out."""
    (tmp_path / "module.py").write_text(SOURCE)
    monkeypatch.setattr(voice, "SOURCE", tmp_path)

    found = {(text.line, text.kind, text.text) for text in voice.texts(tmp_path)}

    assert {
        (1, "docstring", "Says of which file it is."),
        (3, "comment", "that one more"),
        (4, "comment", "is of no use: nobody of which more is known"),
        (9, "docstring", "Say what came."),
        (11, "message", "{} messages, of which {count - LIMIT} are too many, where 3 may be"),
    } == found


def test_a_phrase_is_found() -> None:
    """A phrase is found as whole words, in any case, over line ends, with a few words in its gap; messages apart."""
    gap = Worn("as many ... as may", everywhere=False, why="")
    comma = Worn(", where", everywhere=True, why="")

    assert gap.is_in(Text("x.py", 1, "message", "As  many follow\n this page as may"))
    assert not gap.is_in(Text("x.py", 1, "comment", "as many follow this page as may"))
    assert not gap.is_in(Text("x.py", 1, "message", "as many follow this page as mayors"))
    assert not gap.is_in(Text("x.py", 1, "message", "as many as you like; and as may"))
    assert comma.is_in(Text("x.py", 1, "comment", "5, where 3 was expected"))
    assert not comma.is_in(Text("x.py", 1, "comment", "5, wherever"))


def test_the_table() -> None:
    """Each row of the table in CONTRIBUTING.md is read, and gives a reason; no phrase is listed twice."""
    worn = voice.worn_phrases()
    rows = [line for line in voice.GUIDE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]

    assert len(rows) - sum("`make " in row for row in rows) == len(worn) >= 25
    assert len({phrase.phrase for phrase in worn}) == len(worn)
    assert all(len(phrase.why) > 5 for phrase in worn)


@pytest.mark.slow
def test_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    """The report has a line for each package with its figures, and one for all."""
    assert voice.main([]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert {"culm.cli", "culm.node", "all"} <= {line.split()[0] for line in lines if line}
    assert voice.main(["what"]) == 2


def test_counting() -> None:
    """Lines that are a comment, lines that end in one, and reasons; comments for tools do not count."""
    count = voice.Count()
    count.add("# because\nx = 1  # so that\ny = 2  # noqa: E501\nz = 'otherwise'\n")

    assert (4, 1, 1, 3) == (count.lines, count.comment_lines, count.with_comment, count.reasons)
