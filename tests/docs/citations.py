"""Which module implements a section of a specification, and which test checks it: told by the citations in them.

A citation names a page and headings on it, as in ``docs/specs/intervals.md, "Framing", "States"``. Modules and tests
cite what they implement and check. So the table of both is derived, and moves with the files::

    python -m tests.docs.citations [WORD]    # the sections whose page or heading contains the word, all without one
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "docs" / "specs"
FOLDERS = ("src", "tests", "bench", "fuzz", "crash", "release", "soak", "examples", "deploy", "docs")
ENDINGS = {".py", ".md", ".toml", ".sh", ".yaml", ".yml"}

_OWN = {Path(__file__), Path(__file__).with_name("test_citations.py")}  # their examples cite nothing

_GAP = r"(?:\s|#|\n\s*#)+"  # a citation may go on in the next line, of a comment too
_CITATION = re.compile(rf'\b(docs/[\w/.-]+\.md)((?:,{_GAP}"[^"\n]+(?:\n[^"\n]+)?")*)')
_HEADING = re.compile(r"^(#{1,6}) (.+?)\s*$")


class Citation(NamedTuple):
    """A file that cites a page; ``heading`` is None where it names the page alone."""

    file: Path
    page: str
    heading: str | None


class Section(NamedTuple):
    """A heading of a page, the headings it stands under, and those that stand under it."""

    page: str
    heading: str
    above: tuple[str, ...]
    below: tuple[str, ...]


def files() -> Iterator[Path]:
    """Every file in which a citation may stand."""
    yield from sorted(path for path in ROOT.glob("*.md"))
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in ENDINGS and path.is_file() and path not in _OWN:
                yield path


def citations_in(text: str, file: Path) -> Iterator[Citation]:
    """The citations of a text, in order."""
    for found in _CITATION.finditer(text):
        page = found[1]
        names = [re.sub(_GAP, " ", quoted) for quoted in re.findall(r'"([^"]+)"', found[2])]
        if not names:
            yield Citation(file, page, None)
        for heading in names:
            yield Citation(file, page, heading)


@cache
def citations() -> tuple[Citation, ...]:
    """All citations in the repository."""
    return tuple(citation for file in files() for citation in citations_in(file.read_text(), file))


def headings(page: Path) -> list[tuple[int, str]]:
    """The headings of a page in order, each with its level; what stands in a block of code is none."""
    found, in_code = [], False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code and (match := _HEADING.match(line)):
            found.append((len(match[1]), match[2].replace("`", "")))
    return found


def sections(page: Path) -> list[Section]:
    """The headings of a page below its title, each with its surroundings."""
    found = headings(page)[1:]
    result = []
    for index, (level, heading) in enumerate(found):
        above: list[str] = []
        least = level
        for other, title in reversed(found[:index]):
            if other < least:
                above.append(title)
                least = other
        below = []
        for other, title in found[index + 1 :]:
            if other <= level:
                break
            below.append(title)
        result.append(Section(f"docs/specs/{page.name}", heading, tuple(above), tuple(below)))
    return result


def pages() -> list[Path]:
    """The pages of the specifications."""
    return sorted(SPECS.glob("*.md"))


@cache
def table() -> dict[tuple[str, str], tuple[Path, ...]]:
    """The files that cite a heading, by page and heading."""
    found: defaultdict[tuple[str, str], list[Path]] = defaultdict(list)
    for citation in citations():
        if citation.heading is not None and citation.file not in found[citation.page, citation.heading]:
            found[citation.page, citation.heading].append(citation.file)
    return {key: tuple(paths) for key, paths in found.items()}


def citing(section: Section, folder: str) -> list[Path]:
    """The files below a folder that cite a section, or one that stands under it."""
    names = (section.heading, *section.below)
    cited = [file for name in names for file in table().get((section.page, name), ())]
    return sorted({file for file in cited if file.is_relative_to(ROOT / folder)})


def main(arguments: list[str]) -> None:
    """Print the table."""
    word, lines = " ".join(arguments).lower(), list[str]()
    for page in pages():
        for section in sections(page):
            if word in f"{page.stem} {section.heading}".lower():
                lines.append(f'{section.page}, "{section.heading}"')
                for folder in ("src", "tests"):
                    lines += [f"    {file.relative_to(ROOT)}" for file in citing(section, folder)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(sys.argv[1:])
