"""The table of versions in docs/compatibility.md is that of the program, and leaves none out."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
ROW = re.compile(r"^\| [^|]+ \| `(?P<value>[^`]+)` \| `(?P<module>culm\.[\w.]+)\.(?P<name>\w+)` \|", re.MULTILINE)
# How constants are called that say the version of something; a tuple may be assigned in one line.
VERSION = re.compile(
    r"^(?:\w+, )?(_?(?:VERSION|FORMAT|MAGIC|INTERFACE|FIRST_LINE|ALPN|PROTOCOL|EXCHANGE))(?:: .*)? = ", re.MULTILINE
)
NO_VERSIONS = {("culm.spark.runtime.java", "_VERSION"), ("culm.node.settings.schema", "_PROTOCOL")}


def named() -> dict[tuple[str, str], object]:
    """The constants that the page names, with the values that it gives them."""
    return {(row["module"], row["name"]): ast.literal_eval(row["value"]) for row in ROW.finditer(PAGE)}


def test_the_versions_are_those_of_the_program() -> None:
    """Each format and protocol has the version that the page says."""
    rows = named()
    assert len(rows) == len(re.findall(r"^\| (?!what|---)", PAGE, re.MULTILINE))
    assert rows == {(module, name): getattr(importlib.import_module(module), name) for module, name in rows}


def test_no_version_is_left_out() -> None:
    """Each constant of the program that is called like a version stands on the page, or is none."""
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        module = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        found |= {(module, name) for name in VERSION.findall(file.read_text())}
    assert {module for module, _ in found} & {"culm.store.schema", "culm.store.recordindex.manifest"}
    assert sorted(found - NO_VERSIONS) == sorted(named())
