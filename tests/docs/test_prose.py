"""The pages speak plainly: without the worn phrases of CONTRIBUTING.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.voice import Text, worn_phrases

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_no_worn_phrase(page: Path) -> None:
    """No sentence of the page has a phrase that makes its reader go back; code and comments are not looked at."""
    text = re.sub(r"^```.*?^```|<!--.*?-->|`[^`]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    prose = Text(page.name, 1, "docstring", text)
    assert [] == [worn.phrase for worn in worn_phrases() if worn.is_in(prose)]
