"""The security page: each promise names the tests that hold it, and they exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
PROMISES = PAGE.partition("## What is promised\n")[2].partition("\n## ")[0].split("\n- ")[1:]
_NAMED = re.compile(r"`([a-z_/]+\.py)::(test_\w+)`")


def test_each_promise_is_tested() -> None:
    """Below a promise stand the tests that fail if it is broken."""
    assert PROMISES
    assert [] == [promise for promise in PROMISES if not _NAMED.findall(promise.partition("Tested by")[2])]


def test_each_test_that_is_named_exists() -> None:
    """A test that the page names is there."""
    named = set(_NAMED.findall(PAGE))
    assert named
    assert set() == named - {(file, name) for file, _ in named for name in _functions(file)}


@cache
def _functions(file: str) -> set[str]:
    """The names of all functions in a file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
