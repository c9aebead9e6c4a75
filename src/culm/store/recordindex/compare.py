"""Comparing two record indexes: which records only one of them has.

Ranges with as many records and the same sum of ids are equal and are passed over. Any other range is cut where a block
begins, as near to its middle as possible, and both halves are compared in turn. A block is read only if the other index
does not have the same block, so the cost depends on the differences. As in the protocol itself, one id under two
timestamps is not noticed, which cannot happen with entries, because the id of an entry decides its timestamp; nor are
different ids that somebody chose so that their sums meet.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from culm.errors import ConfigError
from culm.store.recordindex.storage import IndexStorage
from culm.store.records.index import key_id, key_timestamp

_Span = tuple[int, int]


class Difference(NamedTuple):
    """A record that only one index has: ``side`` is ``a`` or ``b``."""

    side: str
    timestamp: int
    id: bytes


def compare(a: IndexStorage, b: IndexStorage) -> Iterator[Difference]:
    """The records that only one of two indexes has, in their order. Memory: a few blocks, however much differs.

    ``bytes_read`` of both indexes says what it cost. ``ConfigError`` if they are of different views, ``StoreDamaged``
    as soon as a damaged part is read.
    """
    if a.view is not b.view:
        raise ConfigError(
            f"{a.path} is an index of {a.view.value}, {b.path} one of {b.view.value}: compare two of the same kind"
        )
    return _compared(a, b)


def _compared(a: IndexStorage, b: IndexStorage) -> Iterator[Difference]:
    spans: list[tuple[_Span, _Span]] = [((0, len(a)), (0, len(b)))]
    while spans:
        in_a, in_b = spans.pop()
        count_a, count_b = in_a[1] - in_a[0], in_b[1] - in_b[0]
        if count_a == count_b and a.total(*in_a) == b.total(*in_b):
            continue
        one_is_empty = not (count_a and count_b)
        cut = None if one_is_empty else _cut(a, in_a, b, in_b)
        if cut is None:
            yield from _alone(a.keys(*in_a), b.keys(*in_b), one_is_empty=one_is_empty)
        else:
            at_a, at_b = cut
            spans.append(((at_a, in_a[1]), (at_b, in_b[1])))
            spans.append(((in_a[0], at_a), (in_b[0], at_b)))


def _cut(a: IndexStorage, in_a: _Span, b: IndexStorage, in_b: _Span) -> _Span | None:
    """Where to cut a range in each index; None if no block begins inside.

    The index with the larger blocks decides, because where one of these begins, a smaller one mostly begins too.
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
    """The keys that only one side has."""
    if one_is_empty:
        yield from (_difference("a", key) for key in a)
        yield from (_difference("b", key) for key in b)
        return
    keys_of_a, keys_of_b = set(a), set(b)
    for key in sorted(keys_of_a ^ keys_of_b):
        yield _difference("a" if key in keys_of_a else "b", key)


def _difference(side: str, key: bytes) -> Difference:
    return Difference(side, key_timestamp(key), key_id(key))
