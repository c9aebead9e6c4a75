"""Reading the query of a request. A ``ConfigError`` here becomes the answer 400 with one line."""

import string
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from culm.bamboo import MAX_U64
from culm.bamboo.entry import AUTHOR_BYTES
from culm.errors import ConfigError
from culm.types import Log
from culm.wire.base62 import BASE62_CHARS
from culm.wire.places import parse_log, parse_number

_E = TypeVar("_E", bound="StrEnum")
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase  # of base62, by their values
_HEX_CHARS = 2 * AUTHOR_BYTES


def number(query: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = MAX_U64) -> int:
    """A number, lowered to ``most``; ``default`` if it is missing. ``ConfigError`` if it is below ``least`` or none."""
    text = query.get(name)
    return default if text is None else min(parse_number(text, name, least), most)


def choice(query: Mapping[str, str], name: str, default: _E) -> _E:
    """A member of the enumeration of ``default``; ``ConfigError`` for another word."""
    text = query.get(name)
    if text is None:
        return default
    try:
        return type(default)(text)
    except ValueError:
        known = ", ".join(type(default))
        raise ConfigError(f"{name}: expected one of {known}") from None


def log(query: Mapping[str, str]) -> Log:
    """``AUTHOR/LOG``; ``ConfigError`` if it is missing or malformed."""
    return parse_log(query.get("log", ""))


def authors(text: str) -> tuple[tuple[bytes, bytes] | None, int | None]:
    """Read a search: the least and greatest author, and the log id; None for any.

    A search is the beginning of an author, in base62 or hex, or ``/`` and a log id, or both. ``ConfigError`` otherwise.
    """
    start, slash, log_id = text.strip().partition("/")
    wanted = parse_number(log_id, "log id") if log_id else None
    if not start:
        return None, wanted
    if len(start) > BASE62_CHARS or (slash and len(start) == _HEX_CHARS):
        low, high = _hex_span(start)
    else:
        low, high = _base62_span(start)
    return (low, high), wanted


def _hex_span(start: str) -> tuple[bytes, bytes]:
    if len(start) > _HEX_CHARS or not set(start) <= set(string.hexdigits):  # ``fromhex`` ignores spaces
        raise ConfigError("search for the beginning of an author, or for /LOG_ID")
    return bytes.fromhex(start.ljust(_HEX_CHARS, "0")), bytes.fromhex(start.ljust(_HEX_CHARS, "f"))


def _base62_span(start: str) -> tuple[bytes, bytes]:
    """The least and greatest author whose text begins with ``start``: texts sort as the authors' bytes do."""
    low = high = 0
    for at in range(BASE62_CHARS):
        digit = _DIGITS.find(start[at]) if at < len(start) else -1
        if at < len(start) and digit < 0:
            raise ConfigError("search for the beginning of an author, or for /LOG_ID")
        low = low * len(_DIGITS) + max(digit, 0)
        high = high * len(_DIGITS) + (digit if digit >= 0 else len(_DIGITS) - 1)
    greatest = 2 ** (8 * AUTHOR_BYTES) - 1
    return min(low, greatest).to_bytes(AUTHOR_BYTES, "big"), min(high, greatest).to_bytes(AUTHOR_BYTES, "big")
