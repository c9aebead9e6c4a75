"""The README keeps its word."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from bench.page import CHOSEN
from culm.cli.command import make_parser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
_ROW = re.compile(r"^\| (?!\| )(.*) \|$", re.MULTILINE)


def test_the_python_example_runs(tmp_path: Path) -> None:
    """What stands under "From Python" runs as it stands."""
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"tell a friend: culm://\w{43}@127\.0\.0\.1:\d+\n1 b'first light'\n", result.stdout)


def test_the_extras_are_named() -> None:
    """What can be installed besides stands where it is said how to install; the pages on Spark name those for Spark."""
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    install = README[README.index("To install Culm") : README.index("## The first five")]
    assert extras - {"remote", "connect"} == {word for word in re.findall(r"`(\w+)`", install) if word in extras}


def test_make_verbs_exist() -> None:
    """Every ``make`` verb that the README or the docs name is in the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    text = README + "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    verbs = set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE))
    assert {"demo", "test"} <= verbs
    for verb in verbs:
        assert re.search(rf"^{verb}:", makefile, re.MULTILINE), verb


def test_the_commands_exist() -> None:
    """Every command of the command line stands on its page."""
    page = (ROOT / "docs" / "cli.md").read_text()
    (group,) = (action for action in make_parser()._actions if action.metavar == "COMMAND")
    assert isinstance(group.choices, dict)
    for name in group.choices:
        assert re.search(rf"\b{name}\b", page), name


def test_links_lead_somewhere() -> None:
    """The files that the README links to are there."""
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


def test_it_is_short() -> None:
    """The README is read to its end: it has at most 110 lines, a picture, and ten figures."""
    assert len(README.splitlines()) <= 110
    assert "┌" in README
    assert 10 == len(CHOSEN) == len(_ROW.findall(README.partition("## Figures\n")[2].partition("\n## ")[0]))
