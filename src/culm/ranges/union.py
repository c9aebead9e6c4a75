"""The union of many encoded ranges of one log, merged as bytes (docs/specs/ranges.md, "Operations on bytes").

A router keeps what each of its peers wants, and merges it anew whenever one of them changes its mind. Each range is
checked once, when it is received; after that it is merged as it is, without being decoded (``culm.ranges.onbytes``).
"""

from collections.abc import Iterable

from culm.bamboo import encode_varu64
from culm.ranges.encoding import decode_prefix
from culm.ranges.model import EMPTY
from culm.ranges.onbytes import hull_bytes, merge_bytes, view
from culm.ranges.sets import RangeSet, UnreadRanges

_LOOK_BACK = 4  # Earlier ranges with which a range is compared, because with all it would cost their number squared.
_NOTHING = EMPTY.encode()


def ranges_in(ranges: RangeSet) -> list[bytes]:
    """The encoded ranges of a set, each checked; ``EncodingError`` if a peer's set is wrong."""
    data, found = ranges.encode(), []
    at = len(encode_varu64(len(ranges)))
    while at < len(data):
        _, behind = decode_prefix(data, at)
        found.append(data[at:behind])
        at = behind
    return found


def union_of(ranges: Iterable[bytes], most: int) -> RangeSet:
    """A set of at most ``most`` ranges that has every item of the ``ranges``, which have to be valid encodings.

    It has no other items, unless more than ``most`` ranges were needed for that.
    """
    kept: list[bytes] = []
    for item in sorted(set(ranges) - {_NOTHING}, key=lambda data: view(data).start):
        _push(kept, item)
    while len(kept) > most:  # Neighbours are joined by pairs, which asks for what is between them, too.
        kept = [_joined(kept[at : at + 2]) for at in range(0, len(kept), 2)]
    return UnreadRanges(encode_varu64(len(kept)) + b"".join(kept))


def _push(kept: list[bytes], item: bytes) -> None:
    back = 1
    while back <= min(len(kept), _LOOK_BACK):
        joined, is_exact = merge_bytes(kept[-back], item)
        if is_exact:
            del kept[-back]
            item, back = joined, 1
        else:
            back += 1
    kept.append(item)


def _joined(pair: list[bytes]) -> bytes:
    return hull_bytes(*pair) if len(pair) > 1 else pair[0]
