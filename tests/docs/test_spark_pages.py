"""Every block of ``docs/spark*.md`` is run by ``tests/spark/test_pages.py``, or says why not and is well formed.

What cannot run here (a cloud, a scheduler) is parsed: Python, shell, YAML, JSON and properties; SQL by the tests with
Spark. Culm's own commands in such a block must exist, with their options.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from culm.cli.command import Commands
from tests.docs.pages import Block, blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("spark*.md"))
RUN = {"sh", "python", "before"}  # unless marked
SHOWN = {"text"}  # behind a block that is run: what it prints
USAGE = ""
EVERYWHERE = {"-h", "--help", "--home", "--config", "--json", "--no-pager"}

_COMMAND = re.compile(r"(?<![\w./-])culm (spark [a-z]+|[a-z]+)((?:[^\n\\#]|\\\n?)*)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def parse(block: Block) -> None:
    """Raise an error if the block is not what it says it is; ``sql`` is left to Spark."""
    if block.kind == "python":
        ast.parse(block.text)
    elif block.kind == "sh":
        subprocess.run(["bash", "-n", "-c", block.text], check=True, capture_output=True)
    elif block.kind == "yaml":
        assert all(isinstance(document, dict) for document in yaml.safe_load_all(block.text))
    elif block.kind == "json":
        json.loads(block.text)
    elif block.kind == "properties":
        assert all(re.fullmatch(r"spark\.\S+(\s+|=)\S.*", line) for line in block.text.splitlines() if line.strip())
    elif block.kind == "ini":
        configparser.ConfigParser(interpolation=None).read_string(block.text)
    else:
        assert block.kind == "sql+jinja", f"nothing parses {block.kind!r}"


def options(text: str) -> dict[str, set[str]]:
    """The commands of Culm in a text, as shell, lists of words or strings have them, each with its options."""
    plain = re.sub(r"[\"']", "", re.sub(r"[\"'],\s*[\"']", " ", text))
    found: dict[str, set[str]] = {}
    for name, rest in _COMMAND.findall(re.sub(r" +", " ", plain)):
        found.setdefault(name, set()).update(_OPTION.findall(rest))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    """No block is left out silently: it is run, shows what the one before prints, or is marked with the reason."""
    before: Block | None = None
    for block in blocks(page):
        at = f"{page.name}, line {block.line}"
        if block.mark == "run" and block.what.startswith("not here"):
            assert re.fullmatch(r"not here: .{10,}", block.what), at
            assert all((ROOT / test).is_file() for test in re.findall(r"tests/\S+\.py", block.what)), at
            parse(block)
        elif block.kind in SHOWN:
            assert before is not None, at
            assert before.kind in RUN, f"{at}: nothing prints this"
            assert not before.what.startswith("not here"), f"{at}: nothing prints this"
        elif block.mark == "file":
            parse(block)
        else:
            outside = block.kind in RUN and re.search(r"/srv\b|//(HOST|KEY@)", block.text)
            assert not outside, f"{at}: what it names is not on this machine"
            assert block.kind in {*RUN, USAGE}, f"{at}: nothing runs a block of the kind {block.kind!r}; mark it"
        before = block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_those_that_exist(page: Path) -> None:
    """A command on a page exists and has the options; the usage of one of ``culm spark`` has all of them."""
    parsers = Commands().loaded()
    for block in blocks(page):
        if block.kind in {*SHOWN, "sql+jinja"}:
            continue
        text = re.sub(r"\n +(?=[\[-])", " ", block.text) if block.kind == USAGE else block.text
        for name, given in options(text).items():
            at = f"{page.name}, line {block.line}: culm {name}"
            assert name in parsers, at
            known = {option for option in parsers[name]._option_string_actions if option.startswith("--")}
            assert given - EVERYWHERE <= known, at
            if block.kind == USAGE and name.startswith("spark "):
                assert known - EVERYWHERE == given - EVERYWHERE, at


SIZES = {  # rows of the table of sizes, by the beginnings of their labels, and what the benchmark calls these
    "CPU": "CPU",
    "memory of Java": "memory, Java",
    "memory of the largest": "memory, largest worker",
    "memory of the process": "memory, this process",
    "disk for packs": "disk, work",
    "disk for what": "disk, shuffled",
    "results": "disk, results",
}


def test_sizes_are_those_that_were_measured() -> None:
    """The table of sizes has the benchmark's figures, and the formula behind it is made of them."""
    record = json.loads((ROOT / "docs" / "figures.json").read_text())["sizing"]["figures"]
    figures = {figure["name"]: figure["value"] for figure in record}
    page = (ROOT / "docs" / "spark-operations.md").read_text()
    for label, name in SIZES.items():
        (row,) = re.findall(rf"^\| {label}[^|]*\|(.*)\|$", page, re.MULTILINE)
        shown = [re.sub(r"[^\d.]", "", cell) for cell in row.split("|")]
        each = re.sub(r"^\w+", r"\g<0> of each further entry", name)
        for cell, figure in zip(shown, (f"100,000: {name}", f"1,000,000: {name}", each), strict=True):
            if cell:
                assert f"{figures[figure]:.{len(cell.partition('.')[2])}f}" == cell, f"{label}: {figure}"

    cpu, rest = (figures[f"CPU of {name}"] for name in ("each further entry", "a run without entries"))
    disk = [figures[f"disk of each further entry, {name}"] for name in ("work", "results")]
    assert f"({rest:.0f} + {cpu:.0f}e-6 * entries)" in page
    assert "({:.0f} + {:.0f}) * entries".format(*disk) in page
    largest = "tasks as of 1,000,000,000: memory, largest worker"
    memory = [figures[name] for name in ("1,000,000: memory, Java", "1,000,000: memory, this process", largest)]
    assert "memory = {:.2f} + {:.2f} + {:.2f} * cores".format(*(size / 1000 for size in memory)) in page


def test_packages_are_those_that_culm_asks_for() -> None:
    """Where a page names versions of a package, they are those of ``pyproject.toml``."""
    pages = "".join(page.read_text() for page in PAGES)
    found = set(re.findall(r"[a-z0-9]+>=[\d.]+(?:,<[\d.]+)?", pages))
    asked = (ROOT / "pyproject.toml").read_text()

    assert found
    assert set() == {needed for needed in found if f'"{needed}"' not in asked}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("python", "def f(:"),
        ("sh", "for x in; done (\n"),
        ("yaml", "a: [1\n"),
        ("yaml", "- 1\n"),
        ("json", "{'a': 1}"),
        ("properties", "spark.jars\n"),
        ("ini", "[a\n"),
        ("rust", "fn main() {}"),
    ],
)
def test_what_is_malformed_is_found(kind: str, text: str) -> None:
    """A block that does not parse, or that nothing can parse, fails."""
    with pytest.raises(Exception):  # noqa: B017, PT011 - each parser has its own
        parse(Block(1, kind, text, "run", "not here: reasons of its own"))


def test_options_are_found() -> None:
    """Options are found over line ends in shell, and in lists of words."""
    shell = "nice culm spark verify --input a \\\n  --output b | tee --append x\nculm import c.culm d --x"
    assert {"spark verify": {"--input", "--output", "--append"}, "import": {"--x"}} == options(shell)
    assert {"spark verify": {"--input"}} == options('args: ["culm", "spark", "verify", "--input", "a"]')
