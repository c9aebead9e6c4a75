"""Inputs that are more than a peer's bytes: what the owner of a connection does between them.

A script is a row of steps. A byte below the number of actions is one of them; any other byte says how many bytes of
the peer's follow, one for the first of those values. So every input is a script, and bytes that are put into it or
taken out of it leave the rest what it was.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def steps(data: bytes, actions: int) -> Iterator[int | bytes]:
    """The steps of a script: the number of an action, or bytes of the peer's."""
    at = 0
    while at < len(data):
        step, at = data[at], at + 1
        if step < actions:
            yield step
        else:
            size = step - actions + 1
            yield data[at : at + size]
            at += size


def written(row: Iterable[int | bytes], actions: int) -> bytes:
    """The script of these steps; bytes of any length stand in as many as it takes."""
    longest = 256 - actions
    out = bytearray()
    for step in row:
        if isinstance(step, int):
            out.append(step)
            continue
        for at in range(0, len(step), longest):
            piece = step[at : at + longest]
            out.append(actions + len(piece) - 1)
            out += piece
    return bytes(out)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Bytes in pieces of so many; of 0: as a whole."""
    size = size or max(1, len(data))
    for low, high in pairwise([*range(0, len(data), size), len(data)]):
        yield data[low:high]


def records(data: bytes, most: int = 64) -> Iterator[bytes]:
    """Records, each behind two bytes that say how long it is; the last may be cut."""
    at = 0
    for _ in range(most):
        if at + 2 > len(data):
            return
        size = int.from_bytes(data[at : at + 2], "big")
        yield data[at + 2 : at + 2 + size]
        at += 2 + size


def recorded(row: Iterable[bytes]) -> bytes:
    """What ``records`` reads as these."""
    return b"".join(len(item).to_bytes(2, "big") + item for item in row)
