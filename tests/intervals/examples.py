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


# Messages that break the format, each followed by whatever comes next.
MALFORMED = [
    "6000 00 PK 0504ffff",  # fork handling 11
    "0240 00 PK 0504ff07ff",  # intervals of form 01
    "0230 00 PK 050007ff",  # a start of form 11x
    "0238 00 PK 050007ff",
    "0206 00 PK 0504ff00",  # an end of form 11x
    "0290 00 PK 0504",  # a single-number interval of form 01
    "062c 00 PK 05000000",  # immediate, with a relative start
    "06c0 00 PK 05000500",  # immediate, metadata only
    "06b0 00 PK 050000",  # immediate, a single offset
    "0200 00 PK 0500ff07ff",  # sequence number 0: start, end, single, metadata, anchor, proof, adjustment
    "0200 00 PK 0504ff00ff",
    "0280 00 PK 0500ffff",
    "02c0 00 PK 0500ff",
    "4280 00 PK 0500 H11 04ffff",
    "a40000 H11 H22 0a H33 S77",
    "f8050600",
    "81",
    "91",
    "b1",
    "c1",
    "d1",
    "e4",
    "f4",
    "f9",
    "ff",
    "f00505",  # an adjustment to the same id
    "a0 02",  # a tag that there is not
    "a40004 0020" + "11" * 64,  # a hash that is not of 64 bytes, and one of another function
    "a40004 0140" + "11" * 64,
    "a40002 H11 H22 0a H33 S77",  # two links to one entry that differ
]
