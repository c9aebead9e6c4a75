"""Many entries at once out of a stretch of bytes, each with its payload behind it (docs/specs/bamboo.md, "Entries").

Export files are such bytes, and one can hold millions of entries. To take each apart in Python costs more than to check
its signature in a batch. The native core therefore takes a whole stretch apart in one call, and hashes the entries on
the way; here they only become objects. Without the core ``Entry.decode_prefix`` does the same, one by one.
"""

from culm import native
from culm.bamboo.entry import AUTHOR_BYTES, SIGNATURE_BYTES, Entry
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import EncodingError

_DIGEST_BYTES = 64
_PREFIX = len(YAMF_PREFIX)


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


def _by_core(core: native.Core, data: bytes) -> list[tuple[int, Entry]]:
    columns, digests = core.entries_followed(data)
    start, end, log_id, seq, _, lipmaalink, backlink, size, payload_hash, _, is_end = columns
    rows = zip(
        _offsets(start),
        _offsets(end),
        _numbers(log_id),
        _numbers(seq),
        _offsets(lipmaalink),
        _offsets(backlink),
        _numbers(size),
        _offsets(payload_hash),
        is_end,
        range(0, len(digests), _DIGEST_BYTES),
        strict=True,
    )
    return [
        (
            begin,
            Entry(
                bool(ends_log),
                data[begin + 1 : begin + 1 + AUTHOR_BYTES],
                of_log,
                number,
                _hash_at(data, link),
                _hash_at(data, back),
                payload_bytes,
                data[payload - _PREFIX : payload + _DIGEST_BYTES],
                data[behind - SIGNATURE_BYTES : behind],
                data[begin:behind],
                YAMF_PREFIX + digests[at : at + _DIGEST_BYTES],
            ),
        )
        for begin, behind, of_log, number, link, back, payload_bytes, payload, ends_log, at in rows
    ]


def _offsets(column: bytes) -> list[int]:
    return memoryview(column).cast("q").tolist()


def _numbers(column: bytes) -> list[int]:
    return memoryview(column).cast("Q").tolist()


def _hash_at(data: bytes, digest: int) -> bytes | None:
    """The YAMF-hash whose digest begins at an offset; None for -1."""
    return None if digest < 0 else data[digest - _PREFIX : digest + _DIGEST_BYTES]
