"""Many entries at once (docs/specs/bamboo.md, "Entries").

A file or a store can hold millions of entries. To take each apart in Python costs more than to check its signature in a
batch. The native core therefore takes all of a stretch of bytes apart in one call, and hashes them on the way; here
they only become objects. Without the core ``Entry.decode_prefix`` does the same, one by one.
"""

from array import array
from collections.abc import Sequence
from itertools import accumulate

from culm import native
from culm.bamboo.entry import AUTHOR_BYTES, Entry
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import EncodingError

_DIGEST_BYTES = 64
_PREFIX = len(YAMF_PREFIX)
_FEW = 8  # Entries up to which the columns cost more than they save.


def entries_followed(data: bytes) -> list[tuple[int, Entry]]:
    """The entries from the beginning of ``data`` on, each with its whole payload behind it; and where each begins.

    Ends in front of the first entry that is malformed, or not whole, or whose payload is not. It does not say which;
    ``Entry.decode_prefix`` does.
    """
    return _by_core(native.core, data) if native.core is not None else _one_by_one(data)


def _one_by_one(data: bytes) -> list[tuple[int, Entry]]:
    found: list[tuple[int, Entry]] = []
    at = 0
    while at < len(data):
        try:
            entry, end = Entry.decode_prefix(data, at)
        except EncodingError:
            break
        if end + entry.size > len(data):
            break
        found.append((at, entry))
        at = end + entry.size
    return found


def entries_apart(encoded: Sequence[bytes]) -> list[Entry]:
    """``Entry.decode`` for the bytes of many entries, with their hashes; raises what it raises for one that is none."""
    core = native.core
    if core is None or len(encoded) <= _FEW:
        return [Entry.decode(data) for data in encoded]
    data = b"".join(encoded)
    ends = array("q", accumulate(map(len, encoded)))
    begins = (array("q", [0]) + ends[:-1]).tobytes()
    columns = core.entries_at(data, begins, ends.tobytes())
    if not all(columns[9]):
        return [Entry.decode(one) for one in encoded]
    return [entry for _, entry in _entries(data, columns, core.digests(data, begins, ends.tobytes()))]


def _by_core(core: native.Core, data: bytes) -> list[tuple[int, Entry]]:
    return _entries(data, *core.entries_followed(data))


def _entries(data: bytes, columns: tuple[bytes, ...], digests: bytes) -> list[tuple[int, Entry]]:
    """The entries that the core found in ``data``, and where each begins."""
    start, end, log_id, seq, _, lipmaalink, backlink, size, *_ = columns
    rows = zip(
        _offsets(start),
        _offsets(end),
        _numbers(log_id),
        _numbers(seq),
        _offsets(lipmaalink),
        _offsets(backlink),
        _numbers(size),
        range(0, len(digests), _DIGEST_BYTES),
        strict=True,
    )
    return [
        (
            begin,
            Entry(
                data[begin:behind],
                data[begin + 1 : begin + 1 + AUTHOR_BYTES],
                of_log,
                number,
                _hash_at(data, link),
                _hash_at(data, back),
                payload_bytes,
                YAMF_PREFIX + digests[at : at + _DIGEST_BYTES],
            ),
        )
        for begin, behind, of_log, number, link, back, payload_bytes, at in rows
    ]


def _offsets(column: bytes) -> list[int]:
    return memoryview(column).cast("q").tolist()


def _numbers(column: bytes) -> list[int]:
    return memoryview(column).cast("Q").tolist()


def _hash_at(data: bytes, digest: int) -> bytes | None:
    """The YAMF-hash whose digest begins at an offset; None for -1."""
    return None if digest < 0 else data[digest - _PREFIX : digest + _DIGEST_BYTES]
