"""The counts of a verification, for ``summary.json`` and for the terminal."""

from __future__ import annotations

from dataclasses import asdict, dataclass

_LINES = (
    ("entries", "entries"),
    ("verified", "  verified"),
    ("unverified", "  unverified"),
    ("invalid", "  invalid"),
    ("forks", "forked logs"),
    ("payload_mismatches", "wrong payloads"),
    ("rejects", "rejects"),
)


@dataclass(frozen=True, slots=True)
class Summary:
    """How many distinct entries there are, and how many of each verdict.

    ``forks`` counts forked logs. ``payload_mismatches`` counts entries whose payload was read and has another hash or
    size than the entry names. ``rejects`` counts rows and parts of inputs that could not be read as entries.
    ``seconds`` is the time of the whole run, Spark's start included. ``signatures`` says which ones were checked.
    """

    entries: int
    verified: int
    unverified: int
    invalid: int
    forks: int
    payload_mismatches: int
    rejects: int
    seconds: float
    signatures: str

    def as_dict(self) -> dict[str, int | float | str]:
        """The values by name."""
        return asdict(self)

    def table(self) -> str:
        """The counts as aligned lines. The time is left out, so that the same inputs give the same text."""
        rows = [(label, f"{getattr(self, name):,}") for name, label in _LINES]
        left = max(len(label) for label, _ in rows)
        right = max(len(value) for _, value in rows)
        return "\n".join(f"{label:<{left}}  {value:>{right}}" for label, value in rows)
