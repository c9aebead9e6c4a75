"""Entries with everything that can be wrong with a signed one: bytes alone would never get past the signatures.

A script chooses among them: each byte is the place of an entry in the pool, and in its two highest bits what comes with
it of the payload.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, Entry, Identity, yamf_hash
from culm.testing import LogBuilder, tampered

if TYPE_CHECKING:
    from collections.abc import Iterator

_LENGTH = 14
_PLACES = 0x3F
NONE, WHOLE, OTHER, LONGER = range(4)
"""What comes of a payload: nothing, all of it, other bytes of its size, other bytes of another size."""


@cache
def pool() -> tuple[tuple[bytes, bytes], ...]:
    """64 entries as bytes, each with its payload: an honest log, forks, wrong links, ends, lies, bad signatures."""
    log = LogBuilder(Identity(bytes([7]) * 32), 3)
    for seq in range(1, _LENGTH + 1):
        log.append(b"" if seq == 6 else b"%d" % seq)
    nowhere = yamf_hash(b"nobody has this")
    made = list(log.entries)
    made += [log.make(seq, b"other %d" % seq) for seq in (1, 2, 4, 5, 8, 13, 14)]
    made += [log.make(seq, b"back %d" % seq, backlink=nowhere) for seq in (2, 4, 5, 9, 14)]
    made += [log.make(seq, b"lipmaa %d" % seq, lipmaalink=nowhere) for seq in (4, 8, 13)]
    made += [log.make(seq, b"end %d" % seq, is_end=True) for seq in (1, 3, 8, 13, 14)]
    made += [log.make(seq, b"lie %d" % seq, size=size) for seq, size in ((1, 0), (3, 9), (5, MAX_U64), (14, 4))]
    later = LogBuilder(log.identity, 3)
    later.entries = [*log.entries[:4], log.make(5, b"other 5"), *log.entries[5:]]
    made += [later.make(seq, b"branch %d" % seq) for seq in (6, 8, 13)]
    elsewhere = LogBuilder(Identity(bytes([8]) * 32), MAX_U64)
    made += [elsewhere.append(b"elsewhere %d" % seq) for seq in range(1, 6)]
    beside = LogBuilder(log.identity, 4)
    made += [beside.append(b"beside %d" % seq) for seq in range(1, 5)]
    for seq in (MAX_U64, 1 << 40):
        made.append(
            log.identity.create_entry(
                log_id=3,
                seq=seq,
                backlink=nowhere,
                lipmaalink=nowhere,
                size=0,
                payload_hash=yamf_hash(b""),
            )
        )
    payloads = {**log.payloads, **later.payloads, **elsewhere.payloads, **beside.payloads}
    rows = [(entry.encoded, payloads.get(entry.hash, b"")) for entry in made]
    unsigned = [(tampered(entry), payloads[entry.hash]) for entry in (*log.entries[:8], made[_LENGTH + 2])]
    found = (rows + unsigned)[: _PLACES + 1]
    return tuple(found + unsigned[: _PLACES + 1 - len(found)])


def chosen(script: bytes) -> Iterator[tuple[Entry, bytes | None]]:
    """The entries that a script chooses, each with what comes of its payload."""
    entries = pool()
    for byte in script:
        encoded, payload = entries[byte & _PLACES]
        what = byte >> 6
        if what == NONE:
            yield Entry.decode(encoded), None
        else:
            yield Entry.decode(encoded), payload if what == WHOLE else b"?" * (len(payload) + (what == LONGER))
