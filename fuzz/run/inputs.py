"""Inputs made without guidance: every corruption of a valid message, and random mutations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

_MAX_RANDOM_BYTES = 400
_FLIPS = (0x01, 0x80, 0xFF)


def corruptions(message: bytes) -> Iterator[bytes]:
    """Every truncation of a message, and every byte changed: in one bit, in the highest, in all, to 0, 255 and 248."""
    for length in range(len(message)):
        yield message[:length]
    for at, byte in enumerate(message):
        for changed in {byte ^ flip for flip in _FLIPS} | {0x00, 0xFF, 0xF8}:
            if changed != byte:
                yield message[:at] + bytes([changed]) + message[at + 1 :]


def random_inputs(messages: Sequence[bytes], rng: random.Random) -> Iterator[bytes]:
    """Random bytes and mutated messages in turn, without end."""
    while True:
        yield rng.randbytes(rng.randrange(_MAX_RANDOM_BYTES))
        message = bytearray(rng.choice(messages))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(message) + 1)
            kind = rng.randrange(3)
            if kind == 0:
                message[at:] = rng.choice(messages)[rng.randrange(1 + len(message)) :]
            elif kind == 1:
                message[at : at + rng.randrange(9)] = rng.randbytes(rng.randrange(9))
            elif at < len(message):
                message[at] = rng.randrange(256)
        yield bytes(message)
