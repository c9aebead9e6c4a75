"""The part of a report's page that shows single logs: a strip of its numbers for each, and its counts in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.spark.report.html import Html, element, join, log_name, share, strip, swatch
from culm.spark.verdicts import INVALID, UNVERIFIED, VERIFIED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from culm.spark.report.numbers import CoverageNumbers, LogNumbers, Numbers
    from culm.types import Log

    Strip = list[list[CoverageNumbers]]


def pieces(cells: Sequence[CoverageNumbers]) -> dict[Log, Strip]:
    """The strip of each log: its cells, in pieces between which something is left out."""
    found: dict[Log, Strip] = {}
    for cell in cells:
        pieces = found.setdefault((cell.author, cell.log_id), [])
        if pieces and pieces[-1][-1].last + 1 == cell.first:
            pieces[-1].append(cell)
        else:
            pieces.append([cell])
    return found


_LEGEND = (("v", VERIFIED), ("u", UNVERIFIED), ("i", INVALID), ("m", "missing"))


def logs(numbers: Numbers) -> Html:
    """The logs with most trouble, and the largest ones that are not among those."""
    if not numbers.largest:
        return element("p", "There are no logs.")
    troubled = {(log.author, log.log_id) for log in numbers.troubled}
    others = [log for log in numbers.largest if (log.author, log.log_id) not in troubled]
    shown, in_all = len(troubled) + len(others), numbers.totals.logs
    said = f"All {in_all:,} logs are shown." if shown == in_all else f"{shown:,} of {in_all:,} logs are shown."
    strips = pieces(numbers.coverage)
    parts = [
        element(
            "p",
            Html(
                f"{said} Each strip shows a log's sequence numbers from 1 to its newest. How high it is filled says how"
                " many of the numbers there are held. A zigzag stands for missing numbers that are left out. A number"
                " that several entries have counts once. Entries with a bad signature do not count, because anybody"
                " can make them. All logs are in <code>numbers/logs</code>."
            ),
        ),
        element("p", join((f"<span>{swatch(kind)}{name}</span>" for kind, name in _LEGEND), "\n"), "legend"),
    ]
    if troubled:
        parts.append(element("h3", "Most trouble: forks, entries that are not verified, wrong payloads"))
        parts += [_log(log, strips.get((log.author, log.log_id), [])) for log in numbers.troubled]
    if others:
        parts.append(element("h3", "The largest of the others" if troubled else "The largest logs"))
        parts += [_log(log, strips.get((log.author, log.log_id), [])) for log in others]
    return join(parts)


def _log(log: LogNumbers, drawn: Strip) -> Html:
    parts = [element("h4", log_name(log.author, log.log_id))]
    if drawn:
        parts += [strip(_title(log), drawn), _ends(drawn)]
    parts += [element("p", sentence) for sentence in (_numbers(log), _entries(log), _broken(drawn)) if sentence]
    return element("article", join(parts))


def _title(log: LogNumbers) -> str:
    other = log.held - log.held_verified
    held = f"{log.held_verified:,} verified, {other:,} held but not verified"
    return f"Numbers 1 to {log.newest:,}: {held}, {log.missing:,} missing"


def _ends(drawn: Strip) -> Html:
    """The numbers at which each piece of a strip begins and ends."""
    spans = [_span(piece[0].first, piece[-1].last) for piece in drawn]
    if len(spans) == 1:
        first, last = drawn[0][0].first, drawn[0][-1].last
        spans = [f"{first:,}", f"{last:,}"] if first < last else [f"{first:,}"]
    return element("div", join((f"<span>{span}</span>" for span in spans), ""), "ends")


def _span(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _numbers(log: LogNumbers) -> str:
    if not log.newest:
        return "No entry has a good signature."
    whole = f"1 to {log.contiguous:,} complete and verified" if log.contiguous else "entry 1 is not verified"
    fork = "" if log.forked_at is None else f"; forked at {log.forked_at:,}"
    return (
        f"Newest {log.newest:,}; {whole}; {log.missing:,} missing ({share(log.held_verified, log.newest)} held and"
        f" verified){fork}."
    )


def _entries(log: LogNumbers) -> str:
    states = [f"{count:,} {state.replace('_', ' ')}" for state, count in log.payloads().items() if count]
    bad = f" ({log.bad_signatures:,} with a bad signature)" if log.bad_signatures else ""
    verdicts = f"{log.verified:,} verified, {log.unverified:,} unverified, {log.invalid:,} invalid{bad}"
    entries = f"{log.entries:,} {'entry' if log.entries == 1 else 'entries'}"
    return f"{entries}: {verdicts}. Payloads: {', '.join(states)}. Copies in the inputs: {log.copies:,}."


def _broken(drawn: Strip) -> str:
    """A sentence that names the numbers left out of a strip; empty if none are."""
    gaps: list[str] = []
    free = 1
    for piece in drawn:
        if piece[0].first > free:
            gaps.append(f"{piece[0].first - free:,} ({_span(free, piece[0].first - 1)})")
        free = piece[-1].last + 1
    return f"Left out of the strip, all missing: {' and '.join(gaps)}." if gaps else ""
