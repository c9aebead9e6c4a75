"""The forms in which programs name authors, logs and ranges, or give payloads, each read into one form."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from culm.bamboo import Entry
from culm.bamboo.entry import AUTHOR_BYTES
from culm.bamboo.varu64 import MAX_U64
from culm.errors import ConfigError
from culm.node.interests.policy import Policy
from culm.ranges import Range, RangeSet, size_limits
from culm.types import Buffer, Log
from culm.wire.places import parse_author, parse_log

AuthorName = bytes | str
"""An author: 32 bytes, or text (43 base62 characters, or 64 hex digits)."""

LogName = tuple[bytes, int] | str | int
"""A log: author and log id, or ``AUTHOR/LOG`` as text. A number alone is the id of one of the node's own logs."""

Ranges = Range | Iterable[Range]
"""What is wanted of a log. A ``Range`` has an end or not, sizes, entries or payloads alone, and more."""

RangesOf = Mapping[Any, Ranges]
"""Logs, each a ``LogName``, and what is wanted of them. ``Any``, because a dict with names of one kind is, to a type
checker, no dict with names of several."""

EntryName = Entry | str
"""An entry, or ``AUTHOR/LOG/SEQ`` as text; ``AUTHOR/LOG/SEQ..SEQ`` is the first and the last of several."""

Payload = bytes | bytearray | memoryview | str


def _kind(value: object) -> str:
    return type(value).__name__


def author_of(name: AuthorName) -> bytes:
    """The author's 32 bytes; ``ConfigError`` if the name is not an author, ``TypeError`` if it is no name."""
    author = parse_author(name) if isinstance(name, str) else name
    if not isinstance(author, bytes):
        raise TypeError(f"an author is bytes or text, not {_kind(author)}")
    if len(author) != AUTHOR_BYTES:
        raise ConfigError(f"an author is {AUTHOR_BYTES} bytes, not {len(author)}")
    return author


def log_of(name: LogName, own: bytes) -> Log:
    """The log's author and id; ``own`` is the node's author. ``ConfigError`` and ``TypeError`` as ``author_of``."""
    if isinstance(name, int):
        name = (own, name)
    parts: Any = parse_log(name) if isinstance(name, str) else name
    if not isinstance(parts, tuple | list) or len(parts) != 2:
        raise TypeError(f"a log is (AUTHOR, LOG_ID), 'AUTHOR/LOG', or the id of an own log, not {_kind(name)}")
    author, log_id = parts
    if not isinstance(log_id, int):
        raise TypeError(f"the id of a log is a number, not {_kind(log_id)}")
    if not 0 <= log_id <= MAX_U64:
        raise ConfigError(f"{log_id} is not a log id (0 to 2^64 - 1)")
    return author_of(author), log_id


def place_of(name: LogName, seq: int, own: bytes) -> tuple[Log, int]:
    """A log as ``log_of`` gives it, and the number of an entry; ``TypeError`` for one that is no number."""
    if not isinstance(seq, int):
        raise TypeError(f"the number of an entry is an int, not {_kind(seq)}")
    return log_of(name, own), seq


def what_of(name: AuthorName | LogName | None, own: bytes) -> tuple[bytes | None, int | None]:
    """Author and log id that a name selects; None for any author, or for all logs of an author."""
    if name is None:
        return None, None
    if isinstance(name, bytes) or (isinstance(name, str) and "/" not in name):
        return author_of(name), None
    return log_of(name, own)


def wanted_of(logs: Iterable[LogName] | RangesOf, own: bytes) -> dict[Log, RangeSet | None]:
    """What to ask for of each log that is named; None where no ranges are given."""
    if isinstance(logs, str | bytes):
        raise TypeError("logs are several names: put a single one into a list")
    if not isinstance(logs, Mapping):
        return {log_of(name, own): None for name in logs}
    return {log_of(name, own): _range_set(ranges) for name, ranges in logs.items()}


def entries_of(entries: Iterable[EntryName] | RangesOf, own: bytes) -> dict[Log, RangeSet]:
    """The ranges of each log that entries are of; ``ConfigError`` for a text that names no entry."""
    if isinstance(entries, Mapping):
        return {log_of(name, own): _range_set(ranges) for name, ranges in entries.items()}
    if isinstance(entries, str | Entry):
        raise TypeError("entries are several: put a single one into a list")
    found: dict[Log, list[Range]] = {}
    for entry in entries:
        if isinstance(entry, Entry):
            found.setdefault(entry.log, []).append(Range(entry.seq, entry.seq))
            continue
        if not isinstance(entry, str):
            raise TypeError(f"an entry to fetch is an Entry or AUTHOR/LOG/SEQ as text, not {_kind(entry)}")
        log, _, numbers = entry.rpartition("/")
        first, _, last = numbers.partition("..")
        try:
            if "/" not in log:
                raise ValueError  # noqa: TRY301 - one error for all that is no entry
            found.setdefault(parse_log(log), []).append(Range(int(first), int(last or first)))
        except ValueError:
            raise ConfigError(f"{entry!r} is not an entry; expected AUTHOR/LOG/SEQ or AUTHOR/LOG/SEQ..SEQ") from None
    return {log: _range_set(ranges) for log, ranges in found.items()}


def _range_set(ranges: Ranges) -> RangeSet:
    items = [ranges] if isinstance(ranges, Range) else list(ranges)
    return RangeSet(items, most=max(1, len(items)))


def whole(payload: Payload) -> bytes:
    """The payload's bytes, text as UTF-8. They never change, as those of a bytearray might."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return payload.encode()
    try:
        return bytes(memoryview(payload))  # ``bytes`` alone would make zeros of a number, and an entry is for ever.
    except TypeError:
        raise TypeError(f"a payload is bytes or text, not {_kind(payload)}") from None


def pieces(payload: Iterable[Buffer]) -> Iterable[Buffer]:
    """The pieces of a payload as they are; ``TypeError`` if it has none. The store checks that each is bytes."""
    if not isinstance(payload, Iterable):
        raise TypeError(f"a payload is bytes, text, or an iterable of bytes, not {_kind(payload)}")
    return payload


def several(payloads: Iterable[Payload]) -> Iterable[Payload]:
    """Payloads as they are; ``TypeError`` for a single one, whose characters would become entries."""
    if isinstance(payloads, str | Buffer):
        raise TypeError("append_many takes several payloads: put a single one into a list, or use append")
    return payloads


def checked(entry: Entry) -> Entry:
    """The entry as it is; ``TypeError`` if it is none."""
    if not isinstance(entry, Entry):
        raise TypeError(f"an Entry is expected, not {_kind(entry)}: Node.entry finds one by its log and number")
    return entry


What = bytes | tuple[bytes, int]


def make_range(first: int, last: int | None, *, sparse: bool, min_payload: int, max_payload: int | None) -> Range:
    """A range from the arguments of ``Node.follow``; sizes in bytes, both included. ``ConfigError`` if it is empty."""
    if max_payload is not None and not 0 <= min_payload <= max_payload:
        raise ConfigError(f"no payload has from {min_payload} to {max_payload} bytes")
    least, limit = size_limits(min_payload, max_payload)
    try:
        return Range(first, last, sparse=sparse, least_size=least, size_limit=limit)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def followed(policy: Policy, what: What, item: Range, *, add: bool) -> Policy:
    """The policy with one more interest. ``add`` keeps the ranges that are followed already; else they are replaced."""
    interests = dict(policy.interests or {})
    before = interests.get(what)
    interests[what] = before.add(item) if add and before is not None else RangeSet([item])
    return replace(policy, interests=interests)


def unfollowed(policy: Policy, what: What | Log) -> Policy:
    """The policy without an interest; ``ConfigError`` if the policy does not have it."""
    interests = dict(policy.interests or {})
    if interests.pop(what, None) is None:
        raise ConfigError("the node does not follow this author or log")
    return replace(policy, interests=interests)
