"""The specifications stand in the repository: what cites them cites what is there, and every section is at work.

``tests/docs/citations.py`` finds the citations, and prints which module and which test belong to a section.
"""

from __future__ import annotations

import re

import pytest

from tests.docs.citations import (
    ROOT,
    SPECS,
    Section,
    citations,
    citations_in,
    citing,
    files,
    headings,
    main,
    pages,
    sections,
)

# Sections that explain and specify nothing: no module implements them.
EXPLANATIONS = {"The document", "Background", "Interoperability"}
# Sections of examples: tests check them, no module implements them.
EXAMPLES = {"Examples", "Worked examples"}

SECTIONS = [section for page in pages() for section in sections(page)]
_OLD_NAME = re.compile(r"\bseed 00\d\b", re.IGNORECASE)
_PAGE = re.compile(r'\.md[,:]?\s+"')  # the end of a page's name, with a heading behind it
_NAME = re.compile(r"(?<![\w/.-])[\w-]+$")  # a page that is named without its folder, if it ends there


def _names(section: Section) -> set[str]:
    return {section.heading, *section.above}


def _uncited(folder: str, exempt: set[str]) -> list[str]:
    """The sections that nothing in a folder cites."""
    wanted = [section for section in SECTIONS if not _names(section) & exempt]
    assert wanted
    return [f'{section.page}, "{section.heading}"' for section in wanted if not citing(section, folder)]


def test_every_specification_is_there() -> None:
    """Each protocol has one page; so have the log itself, proofs, invitations, neighbours and sealed payloads."""
    protocols = {"bushbaby", "culm", "intervals", "negentropy", "proposals", "ranges"}
    wanted = protocols | {"bamboo", "invitation", "neighbours", "proof", "sealed"}
    assert wanted == {page.stem for page in pages()}


def test_every_citation_leads_somewhere() -> None:
    """The page that a citation names exists, and so does the heading, word for word."""
    known: dict[str, set[str]] = {}
    wrong = []
    for citation in citations():
        page = ROOT / citation.page
        if citation.page not in known:
            known[citation.page] = {title for _, title in headings(page)} if page.is_file() else set()
        if not page.is_file() or (citation.heading is not None and citation.heading not in known[citation.page]):
            wrong.append(f'{citation.file.relative_to(ROOT)}: {citation.page}, "{citation.heading}"')
    assert citations()
    assert [] == wrong


def test_citations_have_one_form() -> None:
    """No citation names a document that is not here, or a page without its folder."""
    wrong = []
    for file in files():
        text = file.read_text()
        wrong += [f"{file.relative_to(ROOT)}: {found[0]}" for found in _OLD_NAME.finditer(text)]
        if file.suffix == ".py":
            ends = [found.start() for found in _PAGE.finditer(text)]  # Looking for names first takes half a second.
            names = [_NAME.search(text, max(0, end - 100), end) for end in ends]
            wrong += [f"{file.relative_to(ROOT)}: {name[0]}.md" for name in names if name]
    assert [] == wrong


def test_headings_are_unique() -> None:
    """A page has each heading once, so that a citation means one place."""
    for page in pages():
        titles = [title for _, title in headings(page)]
        assert len(set(titles)) == len(titles), page.name


def test_a_module_implements_every_section() -> None:
    """Each section that specifies something is cited by a module that does it."""
    assert [] == _uncited("src", EXPLANATIONS | EXAMPLES)


def test_a_test_checks_every_section() -> None:
    """Each section that specifies something, or gives examples, is cited by a test that checks it."""
    assert [] == _uncited("tests", EXPLANATIONS)


def test_few_sections_only_explain() -> None:
    """What is exempt exists, and is little: at most three sections of a page."""
    assert {section.heading for section in SECTIONS} >= EXPLANATIONS | EXAMPLES
    for page in pages():
        explaining = [section for section in sections(page) if _names(section) & EXPLANATIONS]
        assert len(explaining) <= len(EXPLANATIONS), page.name


def test_decisions_are_named_as_on_their_page() -> None:
    """Each decision that a test of proposals names (C3, X11, T91) stands on the page under that name."""
    page = (SPECS / "proposals.md").read_text()
    known = set(re.findall(r"^(?:- \*\*|\| )([A-Z]\d+)(?:\*\* | \|)", page, re.MULTILINE))
    named = set()
    for file in sorted((ROOT / "tests" / "proposals").glob("test_*.py")):
        named |= set(re.findall(r"\b[CXMGZST]\d{1,2}\b", file.read_text()))
    assert len(named) > 50
    assert set() == named - known


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('docs/specs/a.md, "One".', [("docs/specs/a.md", "One")]),
        ('(docs/specs/a.md, "One", "Two and more")', [("docs/specs/a.md", "One"), ("docs/specs/a.md", "Two and more")]),
        ('docs/specs/a.md, "One",\n    "Two"', [("docs/specs/a.md", "One"), ("docs/specs/a.md", "Two")]),
        ('# docs/specs/a.md,\n    # "One"', [("docs/specs/a.md", "One")]),
        ('docs/specs/a.md. Then "what" is quoted', [("docs/specs/a.md", None)]),
        ('docs/specs/a.md and docs/b.md, "B"', [("docs/specs/a.md", None), ("docs/b.md", "B")]),
    ],
)
def test_what_a_citation_is(text: str, expected: list[tuple[str, str | None]]) -> None:
    """Headings follow their page behind commas, in the next line too."""
    assert expected == [(found.page, found.heading) for found in citations_in(text, ROOT)]


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Who looks for a section is shown its modules and its tests."""
    main(["Framing"])
    printed = capsys.readouterr().out.splitlines()

    assert 'docs/specs/intervals.md, "Framing"' == printed[0]
    for folder in ("src", "tests"):
        assert any(line.startswith(f"    {folder}/") for line in printed[1:])
