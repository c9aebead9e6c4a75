"""What a peer sends, with something wrong in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


def changed(rng: random.Random, data: bytes) -> bytes:
    """Bytes with a few changes, or none."""
    found = bytearray(data)
    for _ in range(rng.choice((0, 0, 1, 2))):
        at = rng.randrange(len(found))
        found[at : at + rng.randrange(3)] = rng.choice((b"", b"\x00", b"\x01", b"\xff", rng.randbytes(2)))
    return bytes(found)
