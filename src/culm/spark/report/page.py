"""The page of a report: from ``Numbers`` to HTML. The same numbers give the same page.

It is one file of plain HTML with drawings inside. It has no scripts and loads nothing from elsewhere, so that it can be
mailed, printed and kept. It shows some rows of large tables, and says how many rows there are and where all of them
are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.spark.report.html import Html, element, join, safe, share
from culm.spark.report.sections import SECTIONS
from culm.spark.report.style import STYLE
from culm.spark.verdicts import INVALID, UNVERIFIED, VERIFIED

if TYPE_CHECKING:
    from culm.spark.report.numbers import Numbers


def page(numbers: Numbers) -> str:
    """The page as HTML, from ``<!DOCTYPE html>`` on."""
    title = f"Verification report: {numbers.name}"
    sections = [(anchor, heading, section(numbers)) for anchor, heading, section in SECTIONS]
    links = join((f'<a href="#{anchor}">{heading}</a>' for anchor, heading, _ in sections), "\n")
    body = join(
        f'<section id="{anchor}">\n<h2>{heading}</h2>\n{content}\n</section>' for anchor, heading, content in sections
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{safe(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{safe(title)}</h1>
{_headline(numbers)}
<nav aria-label="Sections">
{links}
</nav>
</header>
<main>
{body}
</main>
<footer>
<p>Made {safe(numbers.made)} by <code>culm spark report</code>. All numbers on this page are also Parquet tables, in the
folder <code>numbers</code> beside it. Authors are written in base62.</p>
</footer>
</body>
</html>
"""


def _headline(numbers: Numbers) -> Html:
    of_all = numbers.totals
    tiles = (
        ("entries", f"{of_all.entries:,}"),
        ("logs", f"{of_all.logs:,}"),
        ("authors", f"{of_all.authors:,}"),
        (VERIFIED, share(of_all.verified, of_all.entries)),
        (UNVERIFIED, share(of_all.unverified, of_all.entries)),
        (INVALID, share(of_all.invalid, of_all.entries)),
        ("forked logs", f"{of_all.forked_logs:,}"),
        ("wrong payloads", f"{of_all.wrong_payloads:,}"),
        ("rejects", f"{of_all.rejects:,}"),
    )
    shown = join(f"<div><dt>{safe(name)}</dt><dd>{safe(value)}</dd></div>" for name, value in tiles)
    tiles_shown = Html(f'<dl class="tiles">\n{shown}\n</dl>')
    parts = [element("p", _sentence(numbers), "lead"), _covers(numbers), tiles_shown, element("p", _HONEST)]
    return join(part for part in parts if part)


_HONEST = (
    "Verified means that the author signed the entry, and that it belongs where it stands in its log. It does not mean"
    " that its content is true. And it holds for these inputs only: somebody may have another branch of a log that"
    " shows no fork here."
)


def _sentence(numbers: Numbers) -> str:
    of_all = numbers.totals
    if not of_all.entries:
        if _in_all(numbers):
            return "No entries: the last run found nothing new, and nothing that changed."
        return "No entries: the inputs have none that could be read."
    trusted = share(of_all.verified, of_all.entries)
    return (
        f"{_counted(of_all.entries, 'entry', 'entries')} of {_counted(of_all.logs, 'log', 'logs')} by"
        f" {_counted(of_all.authors, 'author', 'authors')}: {trusted} verified."
    )


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _in_all(numbers: Numbers) -> int:
    """How many entries the verification's summary counts, if its table has another number of them; else 0."""
    said = numbers.said.get("entries")
    return said if isinstance(said, int) and said != numbers.totals.entries else 0


def _covers(numbers: Numbers) -> Html:
    """A paragraph that says what the page covers, unless it is simply the inputs of a verification."""
    if numbers.of_state:
        return element("p", "This page covers everything that the state knows, from all runs with it.", "covers")
    said = _in_all(numbers)
    if not said:
        return Html("")
    return element(
        "p",
        Html(
            f"This page covers a part only. The verification's summary counts {said:,} entries, but its table has"
            f" {numbers.totals.entries:,}, because a run with a state writes only entries that are new or whose verdict"
            " changed. Coverage, missing numbers, growth and shares on this page are those of these entries alone."
            " For all entries make a report on the state itself: <code>culm spark report STATE</code>."
        ),
        "covers",
    )
