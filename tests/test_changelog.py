"""The changelog has the form of Keep a Changelog, and the version is said once."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import culm
from release.tree import sections, version_of

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_the_sections_are_versions() -> None:
    """Unreleased comes first, then versions with their dates, newest first, and nothing else on that level."""
    found = sections(CHANGELOG)
    versions = [tuple(map(int, section.name.split("."))) for section in found[1:]]
    dates = [section.date or "" for section in found[1:]]

    assert ("Unreleased", None) == (found[0].name, found[0].date)
    assert versions == sorted(versions, reverse=True)
    assert dates == sorted(dates, reverse=True)
    assert all(dates)
    assert len(found) == len(re.findall(r"^## ", CHANGELOG, re.MULTILINE))


def test_changes_are_of_six_kinds() -> None:
    """A section has the kinds of changes of Keep a Changelog, in its order, each once and none empty."""
    for section in sections(CHANGELOG):
        kinds = re.findall(r"^### (.*)$", section.text, re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds], section.name
        for part in section.text.split("\n### ")[1:]:
            assert re.search(r"^- \S", part, re.MULTILINE), (section.name, part.splitlines()[0])


def test_a_version_begins_with_what_to_do() -> None:
    """What an operator has to do for an upgrade stands before the changes, except for the first version."""
    *later, _first = sections(CHANGELOG)[1:]
    assert later
    for section in later:
        assert section.text.startswith("**To upgrade"), section.name


def test_the_newest_section_is_of_this_version() -> None:
    """The package has the version of the newest section; a version that is being written has one, too."""
    assert culm.__version__ == sections(CHANGELOG)[1].name == version_of(ROOT)


def test_the_version_is_said_once() -> None:
    """``culm.__version__`` is the one place: metadata are made from it, and ``web/`` has no version of its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert "src/culm/__init__.py" == project["tool"]["hatch"]["version"]["path"]
    assert "version" not in json.loads((ROOT / "web" / "package.json").read_text())
