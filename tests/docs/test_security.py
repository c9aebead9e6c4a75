"""The security page: each promise names the tests that hold it, and they exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
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


def test_each_limit_exists() -> None:
    """A name in the table of limits is that of something in the code."""
    table = PAGE.partition("## Limits\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    assert len(cells) > 50
    for cell in cells:
        whole = ""
        for name in re.findall(r"`([^`]+)`", cell):
            # ".x", or "X" alone, stands for another name in the same place as the one before it.
            whole = name if name.count(".") and name[0] != "." else f"{whole.rpartition('.')[0]}.{name.lstrip('.')}"
            assert _is_there(f"culm.{whole}"), name


def _is_there(name: str) -> bool:
    """Whether there is something of this name in a module, or in a class of one."""
    value: object = import_module("culm")
    module = "culm"
    for part in name.split(".")[1:]:
        module = f"{module}.{part}"
        if not hasattr(value, part):
            try:
                value = import_module(module)
            except ModuleNotFoundError:
                return False
        else:
            value = getattr(value, part)
    return True


@cache
def _functions(file: str) -> set[str]:
    """The names of all functions in a file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
