"""What a report must say, computed by plain Python over the rows of verdicts; and a page read back."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from culm.spark.batches.payload import STATES
from culm.spark.report.numbers import LogNumbers, Report

if TYPE_CHECKING:
    from culm.types import Log

Row = dict[str, Any]

RANKS = {"verified": 0, "unverified": 1, "invalid": 2}
HOSTILE = "<script>alert(1)</script> & \"'\x1b[2J\u202e<img src=x onerror=y>"
VOID = {"meta", "br", "hr", "img", "input", "link"}


def verdict(author: bytes, log_id: int, seqnum: int, **more: Any) -> dict[str, Any]:
    """A row of verdicts; verified unless more is said."""
    return {
        "author": author,
        "log_id": log_id,
        "seqnum": seqnum,
        "size": 100,
        "reason": None,
        "payload": "held",
        "verdict": "verified",
        "copies": 1,
        **more,
    }


def by_log(rows: list[Row]) -> dict[Log, list[Row]]:
    """The rows of each log."""
    found: defaultdict[Log, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["author"], int(row["log_id"])].append(row)
    return dict(found)


def states(rows: list[Row]) -> dict[int, int]:
    """The best verdict of each number of a log, as its rank; without bad signatures."""
    found: dict[int, int] = {}
    for row in rows:
        if row["reason"] != "bad signature":
            number, rank = int(row["seqnum"]), RANKS[row["verdict"]]
            found[number] = min(rank, found.get(number, 3))
    return found


def log_numbers(log: Log, rows: list[Row], proved_at: int | None = None) -> LogNumbers:
    """The row of a log in the table of logs."""
    held = states(rows)
    newest = max(held, default=0)
    contiguous = 0
    while held.get(contiguous + 1) == 0:
        contiguous += 1
    said = [re.fullmatch(r"fork at (\d+)", row["reason"] or "") for row in rows]
    forked_at = min((int(match[1]) for match in said if match), default=None)
    verdicts = Counter(row["verdict"] for row in rows)
    payloads = Counter(row["payload"] for row in rows)
    return LogNumbers(
        author=log[0],
        log_id=log[1],
        entries=len(rows),
        verified=verdicts["verified"],
        unverified=verdicts["unverified"],
        invalid=verdicts["invalid"],
        bad_signatures=sum(row["reason"] == "bad signature" for row in rows),
        newest=newest,
        held=len(held),
        held_verified=sum(rank == 0 for rank in held.values()),
        contiguous=contiguous,
        missing=newest - len(held),
        forked_at=proved_at or forked_at,
        **{f"payload_{state}": payloads[state] for state in STATES},
        claimed_bytes=sum(int(row["size"]) for row in rows),
        held_bytes=sum(int(row["size"]) for row in rows if row["payload"] == "held"),
        copies=sum(row["copies"] for row in rows),
    )


def totals(logs: dict[Log, LogNumbers], rejects: int) -> Report:
    """The headline."""
    of = logs.values()
    return Report(
        entries=sum(log.entries for log in of),
        verified=sum(log.verified for log in of),
        unverified=sum(log.unverified for log in of),
        invalid=sum(log.invalid for log in of),
        logs=len(logs),
        authors=len({author for author, _ in logs}),
        forked_logs=sum(log.forked_at is not None for log in of),
        missing=sum(log.missing for log in of),
        wrong_payloads=sum(log.payload_mismatch + log.payload_size_mismatch for log in of),
        rejects=rejects,
    )


def reasons(rows: list[Row]) -> Counter[tuple[str, str]]:
    """Entries by verdict and reason, without the numbers."""
    named = ((row["verdict"], re.sub(r" at \d+$", "", row["reason"].split(":")[0])) for row in rows if row["reason"])
    return Counter(named)


def up_to(rows: list[Row], number: int) -> tuple[int, int, int, int]:
    """Entries, verified ones, claimed and held bytes up to a sequence number."""
    found = [row for row in rows if int(row["seqnum"]) <= number]
    return (
        len(found),
        sum(row["verdict"] == "verified" for row in found),
        sum(int(row["size"]) for row in found),
        sum(int(row["size"]) for row in found if row["payload"] == "held"),
    )


class Page(HTMLParser):
    """A page read back: its tables by caption, its text, its attributes; tags must be balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.tables: list[tuple[str, list[list[str]]]] = []
        self.titles: list[str] = []
        self.text = ""
        self.style = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without content, as drawings have them."""
        assert "svg" in self.open
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "title" and self.open[-1:] != ["head"]:
            self.titles.append("")
        if tag == "table":
            self.tables.append(("", []))
        elif tag == "tr":
            self.tables[-1][1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """End the innermost element, which must be this."""
        assert tag == self.open.pop(), self.getpos()

    def handle_data(self, data: str) -> None:
        """Text, where it belongs."""
        inside = self.open[-1] if self.open else ""
        if inside == "style":
            self.style += data
            return
        self.text += data
        if inside == "title" and "svg" in self.open:
            self.titles[-1] += data
        elif inside == "caption":
            self.tables[-1] = (self.tables[-1][0] + data, self.tables[-1][1])
        elif {"td", "th"} & set(self.open) and "svg" not in self.open:
            self.tables[-1][1][-1][-1] += data

    def table(self, caption: str) -> list[list[str]]:
        """The rows of the table whose caption begins so, without its heads."""
        return next(rows for text, rows in self.tables if text.startswith(caption))[1:]


def number(text: str) -> int:
    """A number as a page has it."""
    return int(text.replace(",", ""))
