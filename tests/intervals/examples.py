"""The worked examples: how they write intervals, stores and messages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from culm.intervals import At, FromGreatest, FromLeast, Interval, MetadataOnly, Regular, Single, SingleOffset
from culm.intervals.exchanged import Items

EXAMPLES: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "intervals" / "examples.json").read_text()
)
AUTHOR = bytes(range(0xA0, 0xC0))


def held(name: str) -> Items:
    """The store of that name."""
    items = Items()
    for seq in EXAMPLES["held"][name]["metadata"]:
        items.add(seq, is_payload=False)
    for seq in EXAMPLES["held"][name]["payloads"]:
        items.add(seq, is_payload=True)
    return items


def read_bound(text: str) -> At | FromLeast | FromGreatest:
    """A bound as the examples write it: ``...3``, ``3...``, ``3`` or ``3<2>``."""
    text = text.strip()
    if text.startswith("..."):
        return FromLeast(int(text[3:]))
    if text.endswith("..."):
        return FromGreatest(int(text[:-3]))
    seq, _, dist = text.rstrip(">").partition("<")
    return At(int(seq), int(dist or 255))


def read_interval(text: str) -> Interval:
    """An interval as the examples write it, in parentheses."""
    text = text.strip()[1:-1]
    if found := re.fullmatch(r"m:<(\d+)>(\d+)", text):
        return MetadataOnly(int(found[2]), ascending=False, dist=int(found[1]))
    if found := re.fullmatch(r"m:(\d+)<(\d+)>", text):
        return MetadataOnly(int(found[1]), ascending=True, dist=int(found[2]))
    if "," in text:
        start, end = map(read_bound, text.split(","))
        return Regular(start, end)
    if "..." in text:
        bound = read_bound(text)
        assert not isinstance(bound, At)
        return SingleOffset(bound)
    found = re.fullmatch(r"(?:<(\d+)>)?(\d+)(?:<(\d+)>)?", text)
    assert found is not None
    return Single(int(found[2]), int(found[1] or 255), int(found[3] or 255))


def example_hash(digits: str) -> bytes:
    """``H11``: a hash whose digest repeats a byte."""
    return b"\x00\x40" + bytes.fromhex(digits) * 64


def expand(text: str) -> bytes:
    """The bytes of a message as the examples write it: hex, PK, H.. and S.. ."""
    parts = []
    for part in text.split():
        if part == "PK":
            parts.append(AUTHOR)
        elif part[0] == "H":
            parts.append(example_hash(part[1:]))
        elif part[0] == "S":
            parts.append(bytes.fromhex(part[1:]) * 64)
        else:
            parts.append(bytes.fromhex(part))
    return b"".join(parts)
