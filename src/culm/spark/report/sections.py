"""The sections of a report's page, in their order: tables, charts and the sentences that explain them.

Readers of the page do not know this code, and perhaps little of Bamboo. So each section says what its words mean,
and what follows from its numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.spark.report.charts import completeness, copies, growth, lengths
from culm.spark.report.counts import seconds
from culm.spark.report.html import (
    Figure,
    Html,
    bar,
    bytes_text,
    claimed_author,
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
from culm.spark.report.logs import logs
from culm.spark.verdicts import INVALID, UNVERIFIED, VERIFIED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from culm.spark.report.numbers import ForkNumbers, Numbers

KINDS = {VERIFIED: "v", UNVERIFIED: "u", INVALID: "i"}

MEANING = (
    (
        VERIFIED,
        (
            "the author signed the entry, and a path of links leads from it, hash by hash, to entry 1 of its log. The"
            " inputs show no fork, and no payload of another size than was signed, at its number or below."
        ),
    ),
    (
        UNVERIFIED,
        (
            "the author signed the entry, but entries on its path to entry 1 are missing. More entries can make it"
            " verified, or invalid."
        ),
    ),
    (
        INVALID,
        (
            "the signature is not the author's, or the log contradicts itself: it forks at this number or below, or a"
            " payload there has another size than was signed. No further entry makes this one valid again."
        ),
    ),
)


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
                "With --signatures heads only the signatures of heads were checked. A head vouches for the entries"
                " below it, because its links name their hashes.",
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
                "“fork” counts every entry at a fork's position or above it, “payload size mismatch” every entry at or"
                f" above such a payload. “no path to entry 1” means that linked entries are not in the inputs.{note}",
                "faint",
            ),
        ]
    )


def _coverage(numbers: Numbers) -> Html:
    return join([logs(numbers), _authors(numbers)])


def _authors(numbers: Numbers) -> Html:
    rows = [
        (
            element("code", claimed_author(row.author), "id"),
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
            "A log is forked where its author signed two things that contradict each other. Everything from that"
            " number on is invalid; entries below can still be trusted. The proof is the two signed entries. Anybody"
            " can check it, without the rest of the log.",
        ),
        table(_shown(len(numbers.forks), numbers.forks_in_all, "forks"), heads, map(_fork, numbers.forks)),
    ]
    if not numbers.proofs:
        text = (
            "No proofs of forks were written (culm spark verify --forks does). The forks are those that reasons name."
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
        "Held: all bytes were read and have the hash that was signed. Partial: only a beginning was there. Forgotten:"
        " deleted on purpose. Absent: not in the inputs. Mismatch: bytes with another hash stood in its place. Size"
        " mismatch: the right hash, but another size than was signed. Bytes are what entries claim: an author can claim"
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
        if numbers.totals.rejects:
            count = f"{numbers.totals.rejects:,}, over all runs."
            return element("p", f"{count} A state only counts them; the results of each run list them.")
        return element("p", "Everything in the inputs could be read.")
    rows = [(foreign(row.source), foreign(row.reason), row.rejects, row.first_offset) for row in numbers.rejects]
    shown = _shown(len(rows), numbers.rejects_in_all, "rows")
    caption = f"What could not be read, by source and reason (# stands for numbers): {shown}, most rejects first"
    return table(caption, ("source", "reason", "rejects", "first at"), rows)


def _cost(numbers: Numbers) -> Html:
    taken = seconds(numbers.said, "seconds")
    cpu = seconds(numbers.said, "cpu_seconds")
    rows: list[tuple[str, Html]] = []
    if taken is not None:
        rows.append(("verification, seconds from start to end", number(taken)))
        if taken > 0 and numbers.said.get("entries") == numbers.totals.entries:
            rows.append(("entries a second", number(numbers.totals.entries / taken)))
    if cpu is not None:
        rows.append(("verification, seconds of CPU", number(cpu)))
    rows.append(("this report, seconds until the page was drawn", number(numbers.seconds)))
    parts = [table("Time", ("what", "value"), rows)]
    if numbers.cost:
        stages = [(foreign(one.stage), number(one.seconds), number(one.cpu_seconds)) for one in numbers.cost]
        parts.append(table("Stages of the verification", ("stage", "seconds", "CPU seconds"), stages))
    return join(parts)


def _shown(shown: int, in_all: int, what: str) -> str:
    return f"All {in_all:,} {what}" if shown >= in_all else f"{shown:,} of {in_all:,} {what}"


SECTIONS: tuple[tuple[str, str, Callable[[Numbers], Html]], ...] = (
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
"""The anchor, the heading and the content of each section, in their order on the page."""
