"""The README, the tutorial and the how-tos do what they say: every command on them is run, in order, from nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import Reader, blocks, pattern
from tests.docs.warm import started

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Some of their blocks are formats, figures, or calls of another machine: see ``tests/docs/test_blocks.py``.
REFERENCE = [DOCS / f"{name}.md" for name in ("api", "cli", "ranges", "simulate", "protocols/negentropy")]
GUIDES = [
    ROOT / "README.md",
    DOCS / "tutorial.md",
    DOCS / "coming-from.md",
    *sorted(page for page in (DOCS / "howto").glob("*.md") if page.stem != "index"),
]
PAGES = [*GUIDES, *REFERENCE]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the ``culm`` command, warm."""
    with started(tmp_path_factory.mktemp("programs")) as folder:
        yield folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, programs: Path, tmp_path: Path) -> None:
    """Every command on the page ends as the page says, and prints what it shows."""
    assert Reader(page, tmp_path, programs).read()


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_no_command_is_left_out_silently(page: Path) -> None:
    """A command stands in a block that is run, or in one that says why it is not; few do."""
    left_out = 0
    for block in blocks(page):
        assert block.kind in {"sh", "text", "toml", "python", "before"}, f"{page.name}: {block}"
        if block.kind == "text":
            assert not re.search(r"^\s*(culm|sudo|systemctl) ", block.text, re.MULTILINE), block
        if block.what.startswith("not here"):
            assert re.fullmatch(r"not here: .{10,}", block.what), f"{page.name}: {block}"
            left_out += 1
    assert left_out <= 2, page.name


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("made /home/you/.culm\n", "made /home/you/.culm\n", True),
        ("received 1 entry (535 B) in 0.3 s\n", "received 1 entry (1.2 KiB) in 12.9 s\n", True),
        ("received 1 entry (535 B) in 0.3 s\n", "received 2 entries (535 B) in 0.3 s\n", False),
        (f"author {'A' * 43}\n", f"author {'b' * 43}\n", True),
        (f"author {'A' * 43}\n", f"author {'b' * 42}\n", False),
        ("disk: 5751 MiB free of 25801\n", "disk: 238 MiB free of 241\n", True),
        ("a\n...\nz\n", "a\nb\nc\nz\n", True),
        ("a\n...\nz\n", "a\nb\nc\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_what_is_printed_is_compared(shown: str, printed: str, fits: bool) -> None:
    """Keys, sizes and times may differ from what a page shows, numbers of entries and words may not."""
    assert fits == bool(pattern(shown).fullmatch(printed))
