"""Comparing two record indexes: what one of them has and the other lacks.

Ranges of keys whose records are as many, and whose ids have the same sum, are passed over; others are cut where a block
begins, as near to their middle as can be, and looked at again. A block is read only if the other index has not the same
block. As with the protocol itself, one id under two timestamps is not noticed; an entry's id settles its timestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from culm.errors import ConfigError
from culm.store.records import key_id, key_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from culm.store.recordindex import IndexStorage

_Span = tuple[int, int]


class Difference(NamedTuple):
    """A record that is in one index only, ``side`` ``a`` or ``b``."""

    side: str
    timestamp: int
    id: bytes


def compare(a: IndexStorage, b: IndexStorage) -> Iterator[Difference]:
    """What only one of two indexes has, in the order of records. Memory: a few blocks, however much differs.

    What it costs is in ``bytes_read`` of both. ``ConfigError`` if they are not of the same view, ``StoreDamaged``.
    """
    if a.view is not b.view:
        raise ConfigError(f"{a.path} has the {a.view.value}, {b.path} the {b.view.value}: they cannot be compared")
    return _compared(a, b)


def _compared(a: IndexStorage, b: IndexStorage) -> Iterator[Difference]:
    spans: list[tuple[_Span, _Span]] = [((0, len(a)), (0, len(b)))]
    while spans:
        in_a, in_b = spans.pop()
        count_a, count_b = in_a[1] - in_a[0], in_b[1] - in_b[0]
        if count_a == count_b and a.total(*in_a) == b.total(*in_b):
            continue
        cut = _cut(a, in_a, b, in_b) if count_a and count_b else None
        if cut is None:
            yield from _alone(a.keys(*in_a), b.keys(*in_b), one_is_empty=not (count_a and count_b))
        else:
            at_a, at_b = cut
            spans.append(((at_a, in_a[1]), (at_b, in_b[1])))
            spans.append(((in_a[0], at_a), (in_b[0], at_b)))


def _cut(a: IndexStorage, in_a: _Span, b: IndexStorage, in_b: _Span) -> _Span | None:
    """Where to cut a range, in either index; None if no block begins within.

    Larger blocks first: where one of them begins, a smaller one does, too, for the most part.
    """
    if a.block_records < b.block_records:
        cut = _cut(b, in_b, a, in_a)
        return None if cut is None else (cut[1], cut[0])
    if (at := a.middle(*in_a)) is not None:
        return at, b.find(a.key(at))
    if (at := b.middle(*in_b)) is not None:
        return a.find(b.key(at)), at
    return None


def _alone(a: Iterable[bytes], b: Iterable[bytes], *, one_is_empty: bool) -> Iterator[Difference]:
    """The keys that stand on one side only."""
    if one_is_empty:
        yield from (_difference("a", key) for key in a)
        yield from (_difference("b", key) for key in b)
        return
    keys_of_a, keys_of_b = set(a), set(b)
    for key in sorted(keys_of_a ^ keys_of_b):
        yield _difference("a" if key in keys_of_a else "b", key)


def _difference(side: str, key: bytes) -> Difference:
    return Difference(side, key_timestamp(key), key_id(key))
