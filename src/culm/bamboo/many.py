"""Many entries at once (docs/specs/bamboo.md, "Entries").

A file or a store can hold millions of entries. To take each apart in Python costs more than to check its signature in a
batch. The native core therefore takes all of a stretch of bytes apart in one call, and hashes them on the way; here
they only become objects. Without the core ``Entry.decode_prefix`` does the same, one by one.
"""

from collections.abc import Sequence

from culm import native
from culm.bamboo.entry import Entry
from culm.errors import EncodingError


def entries_followed(data: bytes) -> list[tuple[int, Entry]]:
    """The entries from the beginning of ``data`` on, each with its whole payload behind it; and where each begins.

    Ends in front of the first entry that is malformed, or not whole, or whose payload is not. It does not say which;
    ``Entry.decode_prefix`` does.
    """
    core = native.core
    return _one_by_one(data) if core is None else [(at, Entry(*row)) for at, row in core.entries_followed(data)]


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
    rows = None if native.core is None else native.core.entries_apart(list(encoded))
    return [Entry.decode(data) for data in encoded] if rows is None else [Entry(*row) for row in rows]
