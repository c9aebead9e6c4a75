"""Numbers as people type them: decimal digits, up to 2^64 - 1.

Python converts up to 4300 digits and raises ``ValueError`` for more; here what is too long is no number.
"""

from __future__ import annotations

from culm.bamboo.varu64 import MAX_U64

_MOST_DIGITS = len(str(MAX_U64))


def read_u64(text: str) -> int | None:
    """The number that ASCII digits stand for, with or without zeros before it; None if it is none up to 2^64 - 1."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0")
    if len(digits) > _MOST_DIGITS:
        return None
    number = int(digits or "0")
    return number if number <= MAX_U64 else None
