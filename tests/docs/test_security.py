"""The security page: each promise names the tests that hold it, and they exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
PROMISES = PAGE.partition("## What is promised\n")[2].partition("\n## ")[0].split("\n- ")[1:]
_NAMED = re.compile(r"`([a-z_/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.split("**")[1])
def test_each_promise_is_tested(promise: str) -> None:
    """Below a promise stand the tests that fail if it is broken."""
    assert _NAMED.findall(promise.partition("Tested by")[2])


@pytest.mark.parametrize(("file", "name"), sorted(set(_NAMED.findall(PAGE))))
def test_each_test_that_is_named_exists(file: str, name: str) -> None:
    """A test that the page names is there."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
