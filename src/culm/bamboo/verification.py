"""Checking entries: signatures and payloads (docs/specs/bamboo.md, "Verification", "Signatures", "Payloads").

The checks of single entries raise instead of returning False, because a forgotten ``if`` must not let a forged entry
through. A signature is valid if libsodium accepts it (canonical S, no small-order keys, cofactorless). The rule has to
be the same on every node; otherwise an entry could be verified for some and forged for others.

Whether an entry is *verified* depends on its links and on the other entries of its log that are at hand.
``culm.bamboo.audit`` decides that for a log read in ascending order, and ``culm.store`` for entries that arrive in any
order. A link that does not fit is a fork (``culm.bamboo.forks``).
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import blake2b

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from culm.bamboo.entry import SIGNATURE_BYTES, Entry
from culm.bamboo.yamf import YAMF_PREFIX, yamf_hash
from culm.errors import BadSignature, PayloadMismatch, PayloadSizeMismatch

_CHUNK = 64  # Entries that a thread takes at a time: enough that checking them outweighs handing them over.


def is_authentic(entry: Entry) -> bool:
    """Whether the signature verifies under the claimed author. See ``check_signature`` for the raising form."""
    return is_signed(entry.encoded, entry.author)


def is_signed(encoded: bytes, author: bytes) -> bool:
    """``is_authentic`` for the bytes of an entry (author's 32 bytes given), for callers without an ``Entry`` object."""
    try:
        crypto_sign_open(encoded[-SIGNATURE_BYTES:] + encoded[:-SIGNATURE_BYTES], author)
    except BadSignatureError:
        return False
    return True


def check_signature(entry: Entry) -> None:
    """Raise ``BadSignature`` unless the entry is authentic."""
    if not is_authentic(entry):
        raise BadSignature("the signature does not verify under the claimed author", entry.place)


def are_authentic(entries: Sequence[Entry], threads: int | None = None) -> list[bool]:
    """``is_authentic`` for many entries, on ``threads`` threads (default: one for each core).

    Threads help because libsodium runs without the interpreter's lock. Hashes are computed on the way, because the
    caller needs them next, to compare links.
    """
    threads = threads or os.cpu_count() or 1
    if threads == 1 or len(entries) <= _CHUNK:
        return _check_chunk(entries)
    chunks = [entries[at : at + _CHUNK] for at in range(0, len(entries), _CHUNK)]
    return [verdict for chunk in _pool(threads).map(_check_chunk, chunks) for verdict in chunk]


def _check_chunk(entries: Sequence[Entry]) -> list[bool]:
    verdicts = []
    for entry in entries:
        verdicts.append(is_authentic(entry))
        _ = entry.hash
    return verdicts


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="culm-verify")


def check_payload(entry: Entry, payload: bytes | bytearray | memoryview) -> None:
    """Raise ``PayloadMismatch``, or ``PayloadSizeMismatch`` if the hash is right and the size is not."""
    check_payload_digest(entry, yamf_hash(payload), len(payload))


def check_payload_digest(entry: Entry, payload_hash: bytes, size: int) -> None:
    """``check_payload`` for a payload hashed elsewhere: its YAMF-hash and its size in bytes."""
    if payload_hash != entry.payload_hash:
        raise PayloadMismatch("the payload does not match its entry: the hash differs", entry.place)
    if size != entry.size:
        msg = f"the payload has {size} bytes but its entry claims {entry.size}: the log is invalid from here on"
        raise PayloadSizeMismatch(msg, entry.place)


class PayloadHasher:
    """Hashes a payload piece by piece, so that a large one is never held in memory. ``size``: bytes so far."""

    def __init__(self) -> None:
        self._state = blake2b()
        self.size = 0

    def update(self, piece: bytes | bytearray | memoryview) -> None:
        """Add the next piece."""
        self._state.update(piece)
        self.size += len(piece)

    @property
    def hash(self) -> bytes:
        """The YAMF-hash (66 bytes) of all pieces so far."""
        return YAMF_PREFIX + self._state.digest()

    def check(self, entry: Entry) -> None:
        """Raise as ``check_payload`` does, for all pieces so far."""
        check_payload_digest(entry, self.hash, self.size)
