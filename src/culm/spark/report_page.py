"""The page of a report: from ``Numbers`` to HTML. The same numbers give the same page.

Plain HTML with drawings inside, no scripts, nothing from elsewhere. Whatever the inputs, the page is small: it shows
some rows of large tables, and says how many there are and where they all are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.spark.report_charts import completeness, copies, growth, lengths
from culm.spark.report_counts import seconds
from culm.spark.report_html import (
    Figure,
    Html,
    author_text,
    bar,
    bytes_text,
    details,
    element,
    foreign,
    join,
    log_name,
    meter,
    number,
    safe,
    share,
    swatch,
    table,
)
from culm.spark.report_logs import logs
from culm.spark.report_style import STYLE
from culm.spark.verdicts import INVALID, UNVERIFIED, VERIFIED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from culm.spark.report_numbers import ForkNumbers, Numbers, Totals

KINDS = {VERIFIED: "v", UNVERIFIED: "u", INVALID: "i"}

MEANING = (
    (
        VERIFIED,
        (
            "the author has signed the entry, and entries that are here link it, hash by hash, to entry 1 of its log."
            " What is here shows no fork, and no lie about a payload's size, at its number or below."
        ),
    ),
    (
        UNVERIFIED,
        (
            "the author has signed the entry, but entries that link it to entry 1 are missing. More entries can make it"
            " verified, or invalid."
        ),
    ),
    (
        INVALID,
        (
            "the signature is not the author's; or the log contradicts itself: it forks at this number or below, or a"
            " payload there has not the size that was signed. Nothing that is added makes the entry good again."
        ),
    ),
)


def page(numbers: Numbers) -> str:
    """The whole page."""
    title = f"Verification report: {numbers.name}"
    sections = [(anchor, heading, section(numbers)) for anchor, heading, section in _SECTIONS]
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
<p>Made {safe(numbers.made)} by <code>culm spark report</code>. All numbers of this page stand as Parquet tables in the
folder <code>numbers</code> beside it. Authors are written in base62.</p>
</footer>
</body>
</html>
"""


# -- the sections -------------------------------------------------------------------------------------------------


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
    parts = [element("p", _sentence(of_all), "lead"), f'<dl class="tiles">\n{shown}\n</dl>', element("p", _HONEST)]
    return join([*parts, _partial(numbers)])


_HONEST = (
    "Verified says who wrote an entry, and that it stands in its log where it claims to. It does not say that what is"
    " written there is true, and it is said of these inputs only: somebody may hold another branch of a log that shows"
    " no fork here."
)


def _sentence(of_all: Totals) -> str:
    if not of_all.entries:
        return "No entries: there was nothing in the inputs that could be judged."
    trusted = share(of_all.verified, of_all.entries)
    return (
        f"{_counted(of_all.entries, 'entry', 'entries')} of {_counted(of_all.logs, 'log', 'logs')} by"
        f" {_counted(of_all.authors, 'author', 'authors')}: {trusted} verified."
    )


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _partial(numbers: Numbers) -> Html:
    """A word if the summary counts other entries than the table has."""
    said = numbers.said.get("entries")
    if not isinstance(said, int) or said == numbers.totals.entries:
        return Html("")
    text = (
        f"The verification's summary counts {said:,} entries. This page is about the {numbers.totals.entries:,} in its"
        " table: a run with a state writes only what is new or has changed."
    )
    return element("p", text)


def _verdicts(numbers: Numbers) -> Html:
    of_all = numbers.totals
    counts = {VERIFIED: of_all.verified, UNVERIFIED: of_all.unverified, INVALID: of_all.invalid}
    rows = [
        (join([swatch(KINDS[name]), name], ""), count, Figure(share(count, of_all.entries)))
        for name, count in counts.items()
    ]
    title = ", ".join(f"{name} {share(count, of_all.entries)}" for name, count in counts.items())
    return join(
        [
            bar(title, [(KINDS[name], count) for name, count in counts.items()]),
            table("Entries by verdict", ("verdict", "entries", "share"), rows),
            *(
                element("p", join([element("strong", f"{name.capitalize()}: "), safe(meaning)], ""))
                for name, meaning in MEANING
            ),
            element(
                "p",
                "Where only the signatures of heads were checked (--signatures heads), what lies below a head is"
                " vouched for by its signature and the links between them.",
                "faint",
            ),
        ]
    )


def _reasons(numbers: Numbers) -> Html:
    untrusted = numbers.totals.unverified + numbers.totals.invalid
    if not untrusted:
        return element("p", "Every entry is verified." if numbers.totals.entries else "There are no entries.")
    rows = [
        (
            foreign(row.reason),
            join([swatch(KINDS.get(row.verdict, "a")), safe(row.verdict)], ""),
            row.entries,
            meter(row.entries, untrusted),
        )
        for row in numbers.reasons
    ]
    left = untrusted - sum(row.entries for row in numbers.reasons)
    note = f" Other reasons, not shown: {left:,} entries." if left else ""
    return join(
        [
            table("Entries that are not verified, by reason", ("reason", "verdict", "entries", "share of them"), rows),
            element(
                "p",
                "“fork” stands for every entry at a fork's position or above it, “payload size mismatch” in the same"
                f" way; “no path to entry 1” for entries whose links lead to something that is not here.{note}",
                "faint",
            ),
        ]
    )


def _coverage(numbers: Numbers) -> Html:
    return join([logs(numbers), _authors(numbers)])


def _authors(numbers: Numbers) -> Html:
    rows = [
        (
            element("code", author_text(row.author), "id"),
            row.logs,
            row.entries,
            row.verified,
            row.unverified,
            row.invalid,
            row.forked_logs,
            row.missing,
        )
        for row in numbers.authors
    ]
    if not rows:
        return Html("")
    heads = ("author", "logs", "entries", "verified", "unverified", "invalid", "forked logs", "missing numbers")
    caption = f"{_shown(len(rows), numbers.totals.authors, 'authors')}, those with most entries first"
    return join(["<h3>By author</h3>", table(caption, heads, rows)])


def _spread(numbers: Numbers) -> Html:
    if not numbers.totals.logs:
        return element("p", "There are no logs.")
    return join([completeness(numbers.completeness), lengths(numbers.lengths)])


def _forks(numbers: Numbers) -> Html:
    if not numbers.forks:
        return element("p", "No forks are known.")
    heads = ("log", "forked at", "case", "entries", "valid up to", "proof")
    parts = [
        element(
            "p",
            "A log is forked where its author has signed two things that contradict each other. Everything from that"
            " number on is invalid; what is below can still be trusted. The proof are the two signed entries: whoever"
            " has them can check them alone.",
        ),
        table(_shown(len(numbers.forks), numbers.forks_in_all, "forks"), heads, map(_fork, numbers.forks)),
    ]
    if not numbers.proofs:
        text = (
            "No proofs of forks were written by this verification: forks are those that the verdicts' reasons tell of."
        )
        parts.append(element("p", text, "faint"))
    return join(parts)


def _fork(fork: ForkNumbers) -> Sequence[object]:
    between = None if fork.first_seq is None else f"{fork.first_seq:,} and {fork.second_seq:,}"
    proof: object = None
    if fork.proof is not None:
        proof = details(f"{len(fork.proof):,} bytes, in hex", element("code", fork.proof.hex(), "proof"))
    return log_name(fork.author, fork.log_id), fork.position, foreign(fork.case), between, fork.valid_to, proof


def _growth(numbers: Numbers) -> Html:
    if not numbers.growth:
        return element("p", "There are no entries.")
    return growth(numbers.growth)


def _payloads(numbers: Numbers) -> Html:
    rows = [(_state(row.payload), row.verdict, row.entries, bytes_text(row.claimed_bytes)) for row in numbers.payloads]
    if not rows:
        return element("p", "There are no entries.")
    note = (
        "Held: all bytes were there and have the hash that was signed. Partial: the beginning was there. Forgotten:"
        " deleted on purpose. Absent: not in the inputs. Mismatch: bytes of another hash stood in its place. Size"
        " mismatch: the right hash, and another size than was signed. Bytes are what entries claim: an author can claim"
        " any size."
    )
    return join(
        [
            table(
                "Entries by what is known of their payload", ("payload", "verdict", "entries", "bytes claimed"), rows
            ),
            element("p", note, "faint"),
        ]
    )


def _state(name: str) -> str:
    return name.replace("_", " ")


def _copies(numbers: Numbers) -> Html:
    if not numbers.copies:
        return element("p", "There are no entries.")
    return copies(numbers.copies)


def _rejects(numbers: Numbers) -> Html:
    if not numbers.rejects:
        return element("p", "Everything in the inputs could be read.")
    rows = [(foreign(row.source), foreign(row.reason), row.rejects, row.first_offset) for row in numbers.rejects]
    shown = _shown(len(rows), numbers.rejects_in_all, "rows")
    caption = f"What is no entry, by source and reason (# stands for numbers): {shown}, those with most rejects first"
    return table(caption, ("source", "reason", "rejects", "first at"), rows)


def _cost(numbers: Numbers) -> Html:
    taken = seconds(numbers.said, "seconds")
    cpu = seconds(numbers.said, "cpu_seconds")
    rows: list[tuple[str, Html]] = []
    if taken is not None:
        rows.append(("verification, seconds from start to end", number(taken)))
        if taken > 0:
            rows.append(("entries a second", number(numbers.totals.entries / taken)))
    if cpu is not None:
        rows.append(("verification, seconds of CPU", number(cpu)))
    rows.append(("this report, seconds until the page was drawn", number(numbers.seconds)))
    parts = [table("Time, Spark's start included", ("what", "value"), rows)]
    if numbers.cost:
        stages = [(foreign(one.stage), number(one.seconds), number(one.cpu_seconds)) for one in numbers.cost]
        parts.append(table("Stages of the verification", ("stage", "seconds", "CPU seconds"), stages))
    return join(parts)


def _shown(shown: int, in_all: int, what: str) -> str:
    return f"All {in_all:,} {what}" if shown >= in_all else f"{shown:,} of {in_all:,} {what}"


_SECTIONS: tuple[tuple[str, str, Callable[[Numbers], Html]], ...] = (
    ("verdicts", "Verdicts", _verdicts),
    ("reasons", "Why entries are not trusted", _reasons),
    ("coverage", "Coverage by log and author", _coverage),
    ("logs", "All logs", _spread),
    ("forks", "Forks", _forks),
    ("growth", "Growth over sequence numbers", _growth),
    ("payloads", "Payloads", _payloads),
    ("copies", "Copies", _copies),
    ("rejects", "Rejects", _rejects),
    ("cost", "Run cost", _cost),
)
