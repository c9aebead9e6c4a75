"""The pages of the site that speak of the code agree with it."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import culm.bushbaby
import culm.intervals
import culm.proposals
import culm.session
from culm.cli.command import Commands
from culm.node.config import NodeLimits
from docs.reference import page

DOCS = Path(__file__).parents[2] / "docs"
UNITS = {"": 1, "s": 1, "KiB": 1024, "MiB": 1024**2}


def limits() -> dict[str, float]:
    """The table of limits: what each is called, and its default."""
    row = re.compile(r"^\| `([\w.]+)` \| ([\d,]+) ?(s|KiB|MiB|) \| \S", re.MULTILINE)
    rows = row.findall((DOCS / "security.md").read_text())
    return {name: int(number.replace(",", "")) * UNITS[unit] for name, number, unit in rows}


def value_of(name: str) -> Any:
    """What the code has under a name of the table: in a module, or a default of a dataclass in one."""
    place, _, last = f"culm.{name}".rpartition(".")
    if not place.rpartition(".")[2][0].isupper():
        return getattr(importlib.import_module(place), last)
    module, _, kind = place.rpartition(".")
    fields = dataclasses.fields(getattr(importlib.import_module(module), kind))
    return next(field.default for field in fields if field.name == last)


def test_the_limits_are_those_of_the_code() -> None:
    """Each limit on the security page has the default that the code has."""
    table = limits()
    assert {name: value_of(name) for name in table} == table


def test_every_limit_is_on_the_page() -> None:
    """All limits of a node and of each protocol stand on the security page."""
    wanted = {
        f"{name}.{field.name}"
        for name, kind in {
            "node.config.NodeLimits": NodeLimits,
            "bushbaby.Limits": culm.bushbaby.Limits,
            "intervals.Limits": culm.intervals.Limits,
            "proposals.Limits": culm.proposals.Limits,
            "session.Limits": culm.session.Limits,
        }.items()
        for field in dataclasses.fields(kind)
    }
    assert wanted <= limits().keys()


def test_the_reference_has_every_command_and_option() -> None:
    """The page made from the parsers leaves none out."""
    text = page()
    for name, parser in Commands().loaded().items():
        (section,) = re.findall(rf"^## `culm {name}`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        for option in parser._option_string_actions:
            if option not in {"-h", "--help", "--home", "--config", "--json", "--no-pager"}:
                assert re.search(rf"^\| `[^`]*{re.escape(option)}(?![\w-])", section, re.MULTILINE), (name, option)


def test_every_argument_is_explained() -> None:
    """No option and no argument of a command goes without a word on what it is."""
    mute = [
        (name, action.dest)
        for name, parser in Commands().loaded().items()
        for action in parser._actions
        if not action.help
    ]
    assert [] == mute


def test_the_overview_has_every_command() -> None:
    """Every command that can be called stands in the table of the page on the command line."""
    cells = re.findall(r"^\| `culm (.*?) \| ", (DOCS / "cli.md").read_text(), re.MULTILINE)
    known = [set(re.findall(r"[a-z]+", cell)) for cell in cells]
    assert [] == [name for name in Commands().loaded() if not any(set(name.split()) <= words for words in known)]


def test_every_benchmark_is_on_the_page() -> None:
    """What can be measured with ``make bench`` stands on the page on performance."""
    text = (DOCS / "performance.md").read_text()
    names = (DOCS.parent / "bench" / "__main__.py").read_text()
    known = re.findall(r'^    "(\w+)": \w+\.run\w*,$', names, re.MULTILINE)
    assert known
    assert set(known) == set(re.findall(r"\| `([a-z]+)` \|$", text, re.MULTILINE))


def test_what_the_pages_import_is_there() -> None:
    """Each name of Culm that a block of Python on a page imports can be imported."""
    found = 0
    for file in sorted(DOCS.rglob("*.md")):
        for block in re.findall(r"^```python\n(.*?)^```", file.read_text(), re.MULTILINE | re.DOTALL):
            for name, imported in re.findall(r"^from (culm[\w.]*) import ([\w, ]+)$", block, re.MULTILINE):
                module = importlib.import_module(name)
                for one in imported.split(", "):
                    assert hasattr(module, one) or importlib.util.find_spec(f"{name}.{one}"), (file.name, name, one)
                    found += 1
    assert found > 10


def test_the_calls_side_by_side_exist() -> None:
    """Each command and each call of a node that "Coming from ..." names exists."""
    text = re.sub(r"^```.*?^```", "", (DOCS / "coming-from.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    codes = re.findall(r"`([^`]+)`", text)
    commands = {code.split()[1] for code in codes if code.startswith("culm ") and code.split()[1].isalpha()}
    calls = {name for code in codes for name in re.findall(r"\bnode\.(\w+)", code)}
    assert len(commands) > 6
    assert len(calls) > 9
    assert [] == sorted(commands - {name.split()[0] for name in Commands().loaded()})
    assert [] == sorted(name for name in calls if not hasattr(culm.Node, name))


def test_no_page_has_two_versions_of_a_line() -> None:
    """No page has marks of a merge that nobody settled; a table with such marks ends in the middle."""
    pages = [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]
    marks = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)
    assert [] == [page.name for page in pages if marks.search(page.read_text())]


def test_no_page_names_a_version_of_culm() -> None:
    """Pages say ``culm-VERSION``: a version on a page is wrong with the next release."""
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    named = re.compile(r"[Cc]ulm(-| | is version )0\.\d")
    assert [] == [page.name for page in pages if named.search(page.read_text())]
