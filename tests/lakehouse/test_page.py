"""The page about tables, as far as no jars are needed: its blocks are Python, and its versions the locked ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lakehouse.jars import listed
from tests.lakehouse.page import NEEDS, PAGE, all_blocks, on_the_page

REQUIREMENTS = Path(__file__).parents[2] / "requirements"


def test_every_block_is_run_by_make_lakehouse() -> None:
    """Each block says why it is not run here, and is Python or settings; ``test_tables`` runs what has these words."""
    assert {block.kind for block in all_blocks()} == {"properties", "python", "sh"}
    assert {block.what for block in all_blocks()} == set(NEEDS.values())


@pytest.mark.parametrize("kind", ["delta", "iceberg", "s3"])
def test_the_blocks_are_python(kind: str) -> None:
    """The Python for a format is read without an error."""
    found = on_the_page("python", kind)
    assert len(found) == 5
    for text in found:
        compile(text, str(PAGE), "exec")


@pytest.mark.parametrize(("kind", "reader"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_the_versions_are_those_that_are_tested(kind: str, reader: str) -> None:
    """The table names the locked PySpark, jars and reader, and the settings name all jars."""
    lock = (REQUIREMENTS / f"{kind}.lock").read_text()
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| {kind.title()} |"))
    jars = [Path(jar.path).stem.rpartition("-") for jar in listed(REQUIREMENTS / f"{kind}.jars")]
    spark, version = (re.search(rf"^{name}==(\S+)", lock, re.MULTILINE) for name in ("pyspark", reader))
    assert spark is not None
    assert version is not None

    named = ", ".join(f"`{name}` {number}" for name, _, number in jars)
    assert row == f"| {kind.title()} | {spark[1]} | {named} | `{reader}` {version[1]} |"
    (settings,) = on_the_page("properties", kind)
    assert ",".join(f"/opt/jars/{name}-{number}.jar" for name, _, number in jars) == settings.split()[1]
