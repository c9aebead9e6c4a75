"""``docs/library.md`` keeps its word: every Python block in it runs, one after the other."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.node.links import run_really

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "library.md").read_text()


@pytest.mark.slow
def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The blocks run as they stand, as parts of one program, and print what their comments say."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CULM_HOME", raising=False)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

    async def main() -> None:
        names: dict[str, Any] = {}
        for number, block in enumerate(blocks):
            code = compile(block, f"block {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)
            if inspect.isawaitable(result):
                await result

    run_really(main)
    output = capsys.readouterr().out.splitlines()
    assert len(blocks) >= 15
    assert "4" in output  # the entry behind the cursor
    assert "1 True b'door opened'" in output
    assert "1 [] []" in output  # what another store made of the bundle


def test_every_example_has_a_page() -> None:
    """All examples are named in their list, which names no others; each program that uses the library has a page."""
    folder = ROOT / "docs" / "examples"
    page = (folder / "index.md").read_text()
    named = set(re.findall(r"`examples/([\w.]+)`", page))
    assert {path.name for path in (ROOT / "examples").iterdir() if path.name != "__pycache__"} == named
    pages = "".join(path.read_text() for path in folder.glob("*.md"))
    shown = set(re.findall(r"literalinclude\} \.\./\.\./examples/([\w.]+)$", pages, re.MULTILINE))
    assert {name for name in named if name.endswith(".py")} == shown


def test_every_method_is_told_of() -> None:
    """Each public method of a node is used or named on the page."""
    from culm import Node

    for name in vars(Node):
        if not name.startswith("_") and name not in ("is_closed", "identity", "author", "policy"):
            assert re.search(rf"\b{name}\b", PAGE), name
