"""What a request asks of the store, from its query. A ``ConfigError`` here becomes the answer 400 with one line."""

import string
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import TypeVar

from culm.bamboo import MAX_U64
from culm.bamboo.base62 import BASE62_CHARS
from culm.bamboo.entry import AUTHOR_BYTES
from culm.errors import ConfigError
from culm.node.status import holdings
from culm.node.status.asked import Plain
from culm.store.survey import Only, Order
from culm.types import Log
from culm.wire.places import parse_log, parse_number

Query = Mapping[str, str]
Question = Callable[..., Plain]
"""Takes a store, and as ``known`` what only the node knows."""
_E = TypeVar("_E", bound="StrEnum")
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase  # of base62, by their values
_HEX_CHARS = 2 * AUTHOR_BYTES


def number(query: Query, name: str, default: int, *, least: int = 0, most: int = MAX_U64) -> int:
    """A number, lowered to ``most``; ``default`` if it is missing. ``ConfigError`` if it is below ``least`` or none."""
    text = query.get(name)
    return default if text is None else min(parse_number(text, name, least), most)


def choice(query: Query, name: str, default: _E) -> _E:
    """A member of the enumeration of ``default``; ``ConfigError`` for another word."""
    text = query.get(name)
    if text is None:
        return default
    try:
        return type(default)(text)
    except ValueError:
        known = ", ".join(type(default))
        raise ConfigError(f"{name}: expected one of {known}") from None


def log(query: Query) -> Log:
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
    if not set(start) <= set(_DIGITS):
        raise ConfigError("search for the beginning of an author, or for /LOG_ID")
    first = 0
    for digit in map(_DIGITS.index, start):
        first = first * len(_DIGITS) + digit
    span = len(_DIGITS) ** (BASE62_CHARS - len(start))  # as many texts have the same beginning
    greatest = 2 ** (8 * AUTHOR_BYTES) - 1
    low, high = (min(value, greatest) for value in (first * span, (first + 1) * span - 1))
    return low.to_bytes(AUTHOR_BYTES, "big"), high.to_bytes(AUTHOR_BYTES, "big")


# -- questions -------------------------------------------------------------------------------------------------------


def _logs(query: Query) -> Question:
    span, log_id = authors(query.get("search", ""))
    return partial(
        holdings.logs,
        order=choice(query, "order", Order.NAME),
        only=choice(query, "only", Only.ALL),
        authors=span,
        log_id=log_id,
        offset=number(query, "offset", 0, most=2**32),
        limit=number(query, "limit", 50, most=holdings.MOST_LOGS),
    )


def _log(query: Query) -> Question:
    return partial(holdings.log, which=log(query))


def _coverage(query: Query) -> Question:
    low = number(query, "low", 1, least=1)
    high = number(query, "high", MAX_U64, least=1)
    if high < low:
        raise ConfigError(f"high ({high}) is below low ({low})")
    most = number(query, "cells", 240, least=1, most=holdings.MOST_CELLS)
    return partial(holdings.coverage, which=log(query), low=low, high=high, most=most)


def _links(query: Query) -> Question:
    return partial(
        holdings.links,
        which=log(query),
        chosen=number(query, "seq", 1, least=1),
        most=number(query, "count", 40, least=1, most=holdings.MOST_LINKED),
        low=number(query, "low", 1, least=1) if "low" in query else None,
    )


def _evidence(query: Query) -> Question:
    which, seq = log(query), number(query, "seq", 1, least=1)
    return lambda store, **_: holdings.evidence(store, which, seq)


def _forks(query: Query) -> Question:
    offset = number(query, "offset", 0, most=2**32)
    return partial(holdings.forks, offset=offset, limit=number(query, "limit", 20, most=holdings.MOST_LOGS))


QUESTIONS: dict[str, Callable[[Query], Question]] = {
    "logs": _logs,
    "log": _log,
    "coverage": _coverage,
    "links": _links,
    "evidence": _evidence,
    "forks": _forks,
}
"""By the last part of the address: what makes a question of a query."""
