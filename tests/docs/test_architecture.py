"""The map of the code and the records of decisions are true: packages, arrows, modules, files."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name

from tests.test_structure import ALLOWED, SOURCE

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
DECISIONS = ROOT / "docs" / "decisions"
RECORDS = sorted(DECISIONS.glob("[0-9]*.md"))
NAMING = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_MODULE = re.compile(r"`(culm(?:\.(?!toml`)\w+)+)`")
_FILE = re.compile(r"`((?:src|tests|docs|bench|crash|fuzz|release|soak|storm|examples|deploy|requirements)/[\w/.-]+)`")


def rows() -> list[list[str]]:
    """The packages in the boxes of the picture, from the top down."""
    picture, _ = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [re.findall(r"│ +(\w+) +│", line) for line in picture.splitlines() if "│" in line]


def arrows() -> dict[str, set[str]]:
    """What each package may import, as the page says; ``everything`` and ``nothing`` as they are."""
    return {
        name: set(targets.split()) for name, targets in re.findall(r"^(\w+) +─▶ (.+)$", PAGE.read_text(), re.MULTILINE)
    }


def packages() -> set[str]:
    """The packages and modules directly in ``src/culm``."""
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    return folders | {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}


def test_the_picture_has_every_package_once() -> None:
    """The boxes are the packages that there are, and so are the rows of the table that explains them."""
    named = [name for row in rows() for name in row]
    explained = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \| ", PAGE.read_text(), re.MULTILINE)))

    assert sorted(packages()) == sorted(named)
    assert sorted(packages()) == sorted(explained)


def test_the_arrows_are_those_that_the_code_is_held_to() -> None:
    """Each package may import what ``tests/test_structure.py`` allows; ``cli``, on top, everything."""
    wanted = {name: allowed or {"nothing"} for name, allowed in ALLOWED.items()}
    assert {"cli": {"everything"}, **wanted} == arrows()


def test_arrows_go_down() -> None:
    """Each package imports packages of lower rows only."""
    row_of = {name: number for number, row in enumerate(rows()) for name in row}
    for name, targets in ALLOWED.items():
        assert all(row_of[target] > row_of[name] for target in targets), name


def there_is(name: str) -> bool:
    """Whether there is such a module, or such a name in a module."""
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_what_a_page_names_is_there() -> None:
    """Each module, name in a module, and file of the repository that a page names exists."""
    assert NAMING
    for page in NAMING:
        text = page.read_text()
        files = [name for name in _FILE.findall(text) if "TARGET" not in name]
        assert [] == [name for name in _MODULE.findall(text) if not there_is(name)], page
        assert [] == [name for name in files if not (ROOT / name).exists()], page


def test_every_step_of_a_walk_names_its_module() -> None:
    """The map has four walks, and each step of them says where it happens."""
    walks = re.findall(r"^## From (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert 4 == len(walks)
    for title, walk in walks:
        steps = re.split(r"^\d+\. ", walk, flags=re.MULTILINE)[1:]
        assert len(steps) > 4, title
        for step in steps:
            assert _MODULE.search(step) or "driver" in step, f"From {title}: {step}"


def test_every_decision_is_in_the_index() -> None:
    """The index has each record, by number, with the title that stands on its page."""
    index = (DECISIONS / "index.md").read_text()
    listed = re.findall(r"^\| (\d+) \| \[(.*?)\]\((.*?)\) \| ", index, re.MULTILINE)
    titles = [page.read_text().splitlines()[0] for page in RECORDS]

    assert len(RECORDS) >= 12
    assert [
        (f"{number:02}", title.removeprefix("# "), page.name)
        for number, (title, page) in enumerate(zip(titles, RECORDS, strict=True), 1)
    ] == listed


def test_a_decision_has_its_three_parts() -> None:
    """A record says what the situation was, what was decided, and what follows; on half a page, a proof apart."""
    for page in RECORDS:
        text = page.read_text().partition("\n## The argument\n")[0]
        assert ["Context", "Decision", "Consequences"] == re.findall(r"^## (.*)$", text, re.MULTILINE), page
        assert 100 < len(text.split()) < 400, page
