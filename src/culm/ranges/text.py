"""Ranges as people type and read them (docs/specs/ranges.md, "As text"), one for one with the bytes.

``5``, ``1..10``, ``100..``; then words in any order: ``sparse``, ``metadata`` or ``payloads`` (only those),
``sizes 11..999`` (or ``min SIZE``, ``max SIZE``), ``without 3,7``, ``head N``, ``tail N``. The empty range is
``nothing``.

Sizes that people type, and those of the wire protocols, are inclusive: "max 1000" includes 1,000. The limits of a
``Range`` are the least size included and the first one left out. Only ``size_limits`` and ``inclusive_sizes`` convert
between the two, so that there is one place to get it right.
"""

import re
from collections.abc import Iterator
from typing import Any

from culm.bamboo import MAX_U64, read_u64
from culm.errors import ConfigError
from culm.ranges.model import EMPTY, Range

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS |= {f"{_letter}b": 1000**_power, f"{_letter}ib": 1024**_power}
_SPAN = re.compile(r"(0|[1-9][0-9]*)(?:(\.\.)(0|[1-9][0-9]*)?)?\Z")
_SIZE = re.compile(r"([0-9]+)([a-z]*)\Z", re.IGNORECASE)
_FORMS = "N, N.. or N..M"
_FLAGS = {"sparse": {"sparse": True}, "metadata": {"payloads": False}, "payloads": {"metadata": False}}
_WITH_VALUE = ("without", "head", "tail", "min", "max", "sizes")


def size_limits(least: int, greatest: int | None) -> tuple[int, int]:
    """``least_size`` and ``size_limit`` of a range that keeps the sizes from ``least`` to ``greatest``, inclusive.

    ``greatest`` None, or 2^64 - 1, is no limit.
    """
    return least, 0 if greatest is None or greatest >= MAX_U64 else greatest + 1


def inclusive_sizes(item: Range) -> tuple[int, int]:
    """The least and the greatest payload size that a range keeps; 2^64 - 1 if there is no limit."""
    return item.least_size, item.size_limit - 1 if item.size_limit else MAX_U64


def write_range(item: Range) -> str:
    """A text from which ``read_range`` makes the same range."""
    if item.is_empty:
        return "nothing"
    words = [str(item.start)]
    if not item.is_single:
        words[0] += ".." if item.end is None else f"..{item.end}"
        words += ["sparse"] if item.sparse else []
    if not item.payloads:
        words.append("metadata")
    if not item.metadata:
        words.append("payloads")
    if item.least_size or item.size_limit:
        least, greatest = inclusive_sizes(item)
        low, high = str(least) if item.least_size else "", str(greatest) if item.size_limit else ""
        words.append(f"sizes {low}..{high}")
    if item.forbidden:
        words.append("without " + ",".join(map(str, item.forbidden)))
    words += [f"head {item.head_max}"] if item.head_max else []
    words += [f"tail {item.tail_min}"] if item.tail_min else []
    return " ".join(words)


def read_size(text: str) -> int:
    """A size in bytes: ``1000``, ``64kB``, ``1MiB``; ``ConfigError`` if it is none."""
    match = _SIZE.match(text)
    number, unit = (read_u64(match[1]), _UNITS.get(match[2].lower())) if match else (None, None)
    if number is None or unit is None or number * unit > MAX_U64:
        raise ConfigError(
            f"{text!r} is not a size; expected a number of bytes, or a number with kB, MB, GB, KiB, MiB or GiB"
        )
    return number * unit


def read_range(text: str) -> Range:
    """Read a range; ``ConfigError`` with the reason if the text is not one."""
    words = text.split()
    if words == ["nothing"]:
        return EMPTY
    match = _SPAN.match(words[0]) if words else None
    if match is None:
        raise ConfigError(f"{text!r} is not a range: expected {_FORMS} at its beginning")
    start = read_u64(match[1])
    end = start if match[2] is None else read_u64(match[3]) if match[3] else None
    if start is None or (end is None and match[3]):
        raise ConfigError(f"{text!r} is not a range: {words[0]} is not a range of sequence numbers")
    try:
        return Range(start, end, **_filters(iter(words[1:])))
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a range: {error}") from None


def _filters(words: Iterator[str]) -> dict[str, Any]:
    """The parameters of ``Range`` that words set; ``ValueError`` for an unknown word or value."""
    values: dict[str, Any] = {}
    seen: set[str] = set()
    for word in words:
        if word in seen:
            raise ValueError(f"{word!r} is given twice")
        seen.add(word)
        if word in _FLAGS:
            values |= _FLAGS[word]
        elif word not in _WITH_VALUE:
            raise ValueError(f"unknown word {word!r}")
        elif (value := next(words, None)) is None:
            raise ValueError(f"a value is missing after {word!r}")
        else:
            values |= _filter(word, value)
    if {"metadata", "payloads"} <= seen:
        raise ValueError("give 'metadata' or 'payloads', not both; without either the range has both")
    return values


def _filter(word: str, value: str) -> dict[str, Any]:
    match word:
        case "without":
            return {"forbidden": tuple(map(_number, value.split(",")))}
        case "head":
            return {"head_max": _number(value)}
        case "tail":
            return {"tail_min": _number(value)}
        case "min":
            return {"least_size": read_size(value)}
        case "max":
            return {"size_limit": size_limits(0, read_size(value))[1]}
    low, dots, high = value.partition("..")
    if not dots or not (low or high):
        raise ValueError("expected sizes as LEAST..GREATEST")
    least, limit = size_limits(read_size(low) if low else 0, read_size(high) if high else None)
    return {"least_size": least, "size_limit": limit}


def _number(text: str) -> int:
    number = read_u64(text)
    if number is None:
        raise ValueError(f"{text!r} is not a sequence number")
    return number
