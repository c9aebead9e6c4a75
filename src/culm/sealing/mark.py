"""How a sealed payload is told from others: by its first line (docs/specs/sealed.md, "A sealed payload").

A module of its own, because commands that look at payloads import it at every start.
"""

from culm.types import Buffer

FIRST_LINE = b"age-encryption.org/v1\n"
"""What a sealed payload begins with, and no other payload does."""


def is_sealed(start: Buffer) -> bool:
    """Whether a payload that begins with these bytes is a sealed one. 22 bytes are enough to tell."""
    return bytes(start[: len(FIRST_LINE)]) == FIRST_LINE
