"""Each command and each piece of Python on a page is run, or says why not and is at least well formed."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from culm.cli.command import Commands
from tests.docs.pages import Block, blocks
from tests.docs.test_pages import PAGES as READ
from tests.docs.test_spark_pages import EVERYWHERE, options
from tests.docs.test_spark_pages import PAGES as ON_SPARK

DOCS = Path(__file__).parents[2] / "docs"
# Pages that a test runs from beginning to end, besides those on Spark, which have their own rules for blocks.
RUN = {*READ, DOCS / "library.md"}
PAGES = sorted({*DOCS.rglob("*.md")} - {*ON_SPARK})
_NOTHING = re.compile(r"^<!-- run: nothing on this page: .{20,} -->$", re.MULTILINE)
_TYPED = re.compile(r"^\s*(?:\$ )?(?:culm|make|pip|sudo|podman|python3?|\.venv/\S+) [\w-]", re.MULTILINE)


def unmarked(page: Path) -> list[Block]:
    """The commands and the pieces of Python on a page that no test runs and that do not say why."""
    if page in RUN or _NOTHING.search(page.read_text()):
        return []
    return [
        block for block in blocks(page) if block.kind in {"sh", "python"} and not block.what.startswith("not here: ")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_command_is_run_or_says_why_not(page: Path) -> None:
    """What a reader would type stands in a block that a test runs, or that has a reason why none does."""
    assert [] == unmarked(page)
    for block in blocks(page):  # A line with options in brackets is a usage.
        assert block.kind or "[--" in block.text or not _TYPED.search(block.text), f"{page.name}: is it sh? {block}"


def test_what_is_not_run_is_well_formed() -> None:
    """Such a block is Python or shell without a syntax error, and its commands of Culm exist, with their options."""
    known = {name: set(parser._option_string_actions) for name, parser in Commands().loaded().items()}
    seen = 0
    for page in PAGES:
        for block in blocks(page):
            if block.kind == "python":
                ast.parse(f"async def page():\n{re.sub('^', ' ', block.text, flags=re.MULTILINE)}")
            elif block.kind == "sh":
                subprocess.run(["bash", "-n", "-c", block.text], check=True, capture_output=True)
            else:
                continue
            for name, used in options(block.text).items() if block.kind == "sh" else ():
                takes = {
                    option
                    for command, taken in known.items()
                    if name in {command, command.split()[0]}
                    for option in taken
                }
                assert used <= takes | EVERYWHERE, f"{page.name}: {name} {used - takes}\n{block.text}"
                seen += 1
    assert seen > 50
