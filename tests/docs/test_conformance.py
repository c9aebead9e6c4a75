"""The conformance page: each item of the documents has a module and tests that exist, or a reason."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([PINBR]\d+) \| (.+) \| (.*) \| (.+) \|$", PAGE, re.MULTILINE)
LETTERS = {
    "Point-2-Point with proposals": "P",
    "Point-2-Point with intervals": "I",
    "Negentropy": "N",
    "Bushbaby": "B",
    "Bamboo Ranges": "R",
}
"""The documents, with the letter of their items."""

_TEST = re.compile(r'`([\w/]+\.py)::(test_\w+)`(?: \("([^"]+)"\))?')
_REASON = re.compile(r"(?:not done|otherwise): .{30,}")


@cache
def source(file: str) -> str:
    """The text of a test module."""
    return (ROOT / "tests" / file).read_text(encoding="utf-8")


@cache
def functions_of(file: str) -> frozenset[str]:
    """The names of the tests of a module."""
    return frozenset(node.name for node in ast.walk(ast.parse(source(file))) if isinstance(node, ast.FunctionDef))


def test_every_document_is_gone_through() -> None:
    """Each document has its part, and its items are numbered without a gap."""
    parts = re.split(r"^## (.*)$", PAGE, flags=re.MULTILINE)[1:]
    assert list(LETTERS) == parts[::2]
    for document, part in zip(parts[::2], parts[1::2], strict=True):
        found = re.findall(r"^\| ([A-Z]\d+) \|", part, re.MULTILINE)
        assert [f"{LETTERS[document]}{count}" for count in range(1, len(found) + 1)] == found
        assert len(found) > 25
    assert len(re.findall(r"^\| [A-Z]\d+ \|", PAGE, re.MULTILINE)) == len(ROWS)


@pytest.mark.parametrize("letter", LETTERS.values())
def test_an_item_has_a_module_and_tests_or_a_reason(letter: str) -> None:
    """What is done names a module and tests, and cases of their tables, that exist; what is not done says why."""
    for number, item, module, proof in ROWS:
        if not number.startswith(letter):
            continue
        has_reason = bool(_REASON.fullmatch(proof))
        if module or not has_reason:
            (name,) = re.findall(r"^`culm\.([\w.]+)`$", module)
            assert (ROOT / "src" / "culm" / f"{name.replace('.', '/')}.py").is_file(), item
        named = _TEST.findall(proof)
        assert has_reason or proof == ", ".join(_shown(*each) for each in named), item
        for file, name, case in named:
            assert name in functions_of(file), item
            assert not case or f'"{case}"' in source(file), item


def _shown(file: str, name: str, case: str) -> str:
    return f"`{file}::{name}`" + (f' ("{case}")' if case else "")
