"""The page of a report: from ``Numbers`` to HTML, by the templates beside this module.

The page is one file of plain HTML with drawings inside. It has no scripts and loads nothing from elsewhere, so that it
can be mailed, printed and kept. The same numbers give the same page. It shows some rows of large tables, and says how
many rows there are and where all of them are. What is long is folded (``<details>``), which browsers open without a
script.
"""

from __future__ import annotations

from math import isfinite

from jinja2 import Environment, PackageLoader, StrictUndefined

from culm.bamboo.decimal import size_text
from culm.spark.report import charts
from culm.spark.report.numbers import Numbers
from culm.spark.report.view import KINDS, author_name, bar, decimal, in_hex, picture, share, short, shown, span, views
from culm.spark.verification.authentic import Signatures


def page(numbers: Numbers) -> str:
    """The page as HTML, from ``<!DOCTYPE html>`` on."""
    troubled, largest = views(numbers)
    whole = numbers.totals.entries
    counts = {name: getattr(numbers.totals, name) for name in KINDS}
    return (
        _environment()
        .get_template("report.html")
        .render(
            numbers=numbers,
            of_all=numbers.totals,
            counts=counts,
            untrusted=numbers.totals.unverified + numbers.totals.invalid,
            verdicts=", ".join(f"{name} {share(count, whole)}" for name, count in counts.items() if whole),
            heads_only=numbers.said.get("signatures") == Signatures.HEADS.value,
            in_all=_in_all(numbers),
            troubled=troubled,
            largest=largest,
            taken=_taken(numbers.said.get("seconds")),
        )
    )


def _environment() -> Environment:
    """Templates that escape everything, and fail for a name that is not there."""
    made = Environment(
        loader=PackageLoader("culm.spark.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "KINDS": KINDS,
        "bar": bar,
        "charts": charts,
        "counted": _counted,
        "of": _of,
        "picture": picture,
        "share": share,
        "span": span,
    }
    made.filters |= {"author": author_name, "bytes": size_text, "decimal": decimal, "hex": in_hex, "short": short}
    return made


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _of(shown_rows: int, in_all: int, what: str) -> str:
    """How many of all rows a table shows; ``what`` is a plural with an s."""
    if in_all == 1:
        return f"1 {what.removesuffix('s')}"
    return f"All {in_all:,} {what}" if shown_rows >= in_all else f"{shown_rows:,} of {in_all:,} {what}"


def _in_all(numbers: Numbers) -> int:
    """How many entries the verification's summary counts, if its table has another number of them; else 0."""
    said = numbers.said.get("entries")
    return said if isinstance(said, int) and not numbers.of_state and said != numbers.totals.entries else 0


def _taken(value: object) -> float | None:
    """The seconds that a verification took; None if its summary tells no finite number."""
    return float(value) if isinstance(value, int | float) and isfinite(value) else None
