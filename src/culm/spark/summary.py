"""What a verification adds up to, as numbers, as JSON, and as a table to read."""

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
    """How many distinct entries there are, and of which verdict.

    ``forks`` counts the logs that are forked, ``payload_mismatches`` the entries whose payload was at hand and is not
    the one they name, by its hash or its size, ``rejects`` what could not be read and is no entry. ``seconds`` is the
    time it all took, Spark's start included.
    """

    entries: int
    verified: int
    unverified: int
    invalid: int
    forks: int
    payload_mismatches: int
    rejects: int
    seconds: float

    def as_dict(self) -> dict[str, int | float]:
        """The numbers by name."""
        return asdict(self)

    def table(self) -> str:
        """The counts as aligned lines; the same data give the same text, so the time is not in it."""
        values = self.as_dict()
        rows = [(label, f"{values[name]:,}") for name, label in _LINES]
        left = max(len(label) for label, _ in rows)
        right = max(len(value) for _, value in rows)
        return "\n".join(f"{label:<{left}}  {value:>{right}}" for label, value in rows)
