"""What is released: a commit, its version and what the changelog says of it; and whether it may be released."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from release import Refused, run

_SECTION = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?$", re.MULTILINE)
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
URLS = ("Source", "Changelog")
"""What ``[project.urls]`` must have: users look for a package's source, and for what changed, on its index's page."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the changelog: a version, or ``Unreleased`` without a date."""

    name: str
    date: str | None
    text: str


def sections(changelog: str) -> list[Section]:
    """The sections of a changelog, in its order."""
    heads = list(_SECTION.finditer(changelog))
    ends = [*(head.start() for head in heads[1:]), len(changelog)]
    return [
        Section(head["name"], head["date"], changelog[head.end() : end].strip())
        for head, end in zip(heads, ends, strict=False)  # without a head there is an end all the same
    ]


@dataclass(frozen=True, slots=True)
class Tree:
    """A commit that is to be released. ``epoch``: when it was made, in seconds since 1970."""

    folder: Path
    version: str
    commit: str
    epoch: int


def version_of(folder: Path) -> str:
    """The version of the package in a working tree, without importing it."""
    (found,) = _VERSION.findall((folder / "src/culm/__init__.py").read_text())
    return str(found)


def checked(folder: Path) -> Tree:
    """The commit in a working tree; ``Refused`` if the tree, its tag, its version and its changelog do not agree."""
    version = version_of(folder)
    changes = run(["git", "status", "--porcelain"], folder, fails="git does not know this folder")
    if changes:
        raise Refused(
            "the working tree has changes that are not committed, so no commit would name what is released."
            f" Commit or remove them:\n{changes.rstrip()}"
        )
    commit = run(["git", "rev-parse", "HEAD"], folder, fails="git names no commit").strip()
    tags = run(["git", "tag", "--points-at", "HEAD"], folder, fails="git lists no tags").split()
    if f"v{version}" not in tags:
        there = run(["git", "tag", "--list", f"v{version}"], folder, fails="git lists no tags").split()
        if there:
            raise Refused(
                f"the tag v{version} is at another commit than {commit[:12]}. If v{version} is released, raise"
                " __version__ in src/culm/__init__.py; if not, move the tag"
            )
        raise Refused(
            f"the commit {commit[:12]} has no tag v{version}, by which users find the source of a release."
            f" Make it: git tag -a v{version} -m 'Culm {version}'"
        )
    _check_changelog((folder / "CHANGELOG.md").read_text(), version)
    _check_urls(folder)
    epoch = run(["git", "log", "-1", "--format=%ct"], folder, fails="git has no time of the commit")
    return Tree(folder, version, commit, int(epoch))


def _check_changelog(changelog: str, version: str) -> None:
    found = {section.name: section for section in sections(changelog)}
    newest = next((name for name in found if name != "Unreleased"), "none")
    if newest != version or found[version].date is None:
        raise Refused(
            f"CHANGELOG.md has no section for this version: expected '## [{version}] - DATE' as the newest one,"
            f" found {newest}"
        )
    if "Unreleased" in found and found["Unreleased"].text:
        raise Refused(
            f"CHANGELOG.md lists changes under Unreleased that this commit has. Move them to the section [{version}]"
        )


def _check_urls(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    missing = [name for name in URLS if not str(project.get("urls", {}).get(name, "")).startswith("https://")]
    if missing:
        raise Refused(
            f"pyproject.toml has no {' and no '.join(missing)} under [project.urls], so the package would not say where"
            " its source is. Write the address of the project's public home there, as https://..., commit, and tag that"
            " commit. docs/howto/release.md says why it is not there yet"
        )
