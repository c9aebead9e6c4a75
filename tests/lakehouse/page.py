"""The blocks of ``docs/spark-tables.md``, by what they need."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import Block, blocks

PAGE = Path(__file__).parents[2] / "docs" / "spark-tables.md"
NEEDS = {
    "delta": "not here: needs Delta's jars; make lakehouse runs it",
    "iceberg": "not here: needs Iceberg's jars; make lakehouse runs it",
    "s3": "not here: needs Delta's jars and those for S3; make lakehouse runs it",
    "any": "not here: needs a format's jars; make lakehouse runs it",
}


def all_blocks() -> list[Block]:
    """All of them, in order."""
    return list(blocks(PAGE))


def on_the_page(kind: str, table_format: str) -> list[str]:
    """The texts of a kind (``python``) that are for a table format, or for Delta in S3, in order."""
    fit = {NEEDS["any"], NEEDS[table_format]}
    return [block.text for block in all_blocks() if block.kind == kind and block.what in fit]
