"""The counts of a verification, for ``summary.json`` and for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from culm.spark.runtime.shell import Result

_LINES = (
    ("entries", "entries"),
    ("verified", "  verified"),
    ("uncertified", "    not certified"),
    ("unverified", "  unverified"),
    ("invalid", "  invalid"),
    ("forks", "forked logs"),
    ("payload_mismatches", "wrong payloads"),
    ("rejects", "rejects"),
)

_WHY = (
    "not certified: each of these entries has a path to entry 1, but entries of its certificate pool are missing or"
    " invalid, so a fork could hide there"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Result):
    """How many distinct entries there are, and how many of each verdict.

    ``forks`` counts forked logs. ``payload_mismatches`` counts entries whose payload was read and has another hash or
    size than the entry names. ``rejects`` counts rows and parts of inputs that could not be read as entries.
    ``signatures`` says which ones were checked. ``uncertified`` counts verified entries of whose certificate pool
    something is missing or invalid; None if that is not known, on top of a state of an earlier version.
    """

    entries: int
    verified: int
    unverified: int
    invalid: int
    forks: int
    payload_mismatches: int
    rejects: int
    signatures: str
    uncertified: int | None = None

    @classmethod
    def of(cls, counts: Mapping[str, int], signatures: str) -> Summary:
        """The summary of the counts of a verification (``verify.Verification.pronounce``)."""
        rest = {name: value for name, value in counts.items() if name != "certified"}
        known = "certified" in counts
        return cls(
            **rest, signatures=signatures, uncertified=counts["verified"] - counts["certified"] if known else None
        )

    def table(self) -> str:
        """The counts as aligned lines, and what to think of entries that are not certified.

        The time is left out, so that the same inputs give the same text.
        """
        values = self.as_dict()
        rows = [(label, f"{values[name]:,}") for name, label in _LINES if values[name] is not None]
        left = max(len(label) for label, _ in rows)
        right = max(len(value) for _, value in rows)
        lines = [f"{label:<{left}}  {value:>{right}}" for label, value in rows]
        return "\n".join([*lines, *([_WHY] if self.uncertified else [])])
