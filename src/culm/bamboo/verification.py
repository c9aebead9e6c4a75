"""Checking entries: signatures and payloads (docs/specs/bamboo.md, "Verification", "Signatures", "Payloads").

The checks of single entries raise instead of returning False, because a forgotten ``if`` must not let a forged entry
through. A signature is valid if libsodium accepts it (canonical S, no small-order keys, cofactorless). The rule has to
be the same on every node; otherwise an entry could be verified for some and forged for others.

Checking signatures is most of the work of verifying. The native core checks many of an author together at a quarter of
the cost, with the same verdicts (docs/decisions/14-signatures-in-batches.md). ``CULM_VERIFY=one-by-one`` in the
environment and ``check_one_by_one`` turn that off.

Whether an entry is *verified* depends on its links and on the other entries of its log that are at hand.
``culm.bamboo.audit`` decides that for a log read in ascending order, and ``culm.store`` for entries that arrive in any
order. A link that does not fit is a fork (``culm.bamboo.forks``).
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import cache, partial
from math import ceil
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from nacl.exceptions import BadSignatureError

from culm import native
from culm.bamboo.entry import AUTHOR_BYTES, SIGNATURE_BYTES, Entry
from culm.bamboo.yamf import yamf_hash
from culm.errors import BadSignature, PayloadMismatch, PayloadSizeMismatch

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_CHUNK = 64  # Entries that a thread takes at a time: enough that checking them outweighs handing them over.
# The same with the native core, whose batches cost less the larger they are, up to the second number. Halves of fewer
# than the first would take a tenth more time of two cores than the whole takes of one.
_LEAST_LARGE_CHUNK, _LARGE_CHUNK = 512, 4096
_MOST_AHEAD = 4  # Batches whose signatures are checked, or wait for that, while the caller deals with another one.
_FEWEST = 8  # Entries from which on a batch of the native core pays.
_B = TypeVar("_B")
_AUTHOR = slice(1, 1 + AUTHOR_BYTES)  # Where an entry has it (docs/specs/bamboo.md, "Entries").


class Verify(Enum):
    """How signatures are checked: ``BATCHES``, where the native core is; ``ONE_BY_ONE``, by libsodium always."""

    BATCHES = "batches"
    ONE_BY_ONE = "one-by-one"


_batches = os.environ.get("CULM_VERIFY") != Verify.ONE_BY_ONE.value


def is_authentic(entry: Entry) -> bool:
    """Whether the signature verifies under the claimed author. See ``check_signature`` for the raising form."""
    return is_signed(entry.encoded, entry.author)


def is_signed(encoded: bytes, author: bytes) -> bool:
    """``is_authentic`` for the bytes of an entry (author's 32 bytes given), for callers without an ``Entry`` object."""
    try:
        _libsodium().crypto_sign_open(encoded[-SIGNATURE_BYTES:] + encoded[:-SIGNATURE_BYTES], author)
    except BadSignatureError:
        return False
    return True


@cache
def _libsodium() -> ModuleType:
    """libsodium, loaded with the first signature that is checked by itself: batches of the native core need none."""
    from nacl import bindings  # noqa: PLC0415 - see above

    return bindings


def check_signature(entry: Entry) -> None:
    """Raise ``BadSignature`` unless the entry is authentic."""
    if not is_authentic(entry):
        raise BadSignature("the signature does not verify under the claimed author", entry.place)


def are_signed(entries: list[bytes], *, in_batches: bool = True) -> list[bool]:
    """``is_signed`` for the bytes of many entries, each with its author inside as usual.

    With the native core hundreds of entries of one author cost about a quarter of one by one; if some are bad, at most
    1.5 times as much. So ``in_batches`` is False for a peer that has sent a bad one: it makes us pay that once.
    """
    core = native.core if _batches and in_batches else None
    if core is None or len(entries) < _FEWEST:
        return [is_signed(entry, entry[_AUTHOR]) for entry in entries]
    certain = core.accepted(entries)
    return [
        bool(is_certain) or is_signed(entry, entry[_AUTHOR]) for is_certain, entry in zip(certain, entries, strict=True)
    ]


def check_one_by_one() -> None:
    """From now on this process checks each signature by itself, with libsodium."""
    global _batches  # noqa: PLW0603 - a choice for the whole process, as the rule itself is
    _batches = False


def are_authentic(entries: Sequence[Entry], threads: int | None = None, *, in_batches: bool = True) -> list[bool]:
    """``is_authentic`` for many entries, on ``threads`` threads (default: one for each core); see ``are_signed``.

    Threads help because neither libsodium nor the native core holds the interpreter's lock. Hashes are computed on the
    way, because the caller needs them next, to compare links.
    """
    threads = threads or os.cpu_count() or 1
    if threads == 1 or len(entries) <= _CHUNK:
        return _check_chunk(entries, in_batches)
    return start_checking(entries, threads, in_batches=in_batches)()


def start_checking(
    entries: Sequence[Entry],
    threads: int | None = None,
    *,
    parts: int | None = None,
    beside_work: bool = False,
    in_batches: bool = True,
) -> Callable[[], list[bool]]:
    """Begin ``are_authentic`` on other threads; the function returned waits for its end, and gives the verdicts.

    ``parts``: into how many equal ones the native core's work is cut; default: one for each thread. ``beside_work``:
    the caller has more to do meanwhile than batches of the native core take, so a processor is left to it. Without that
    core the check takes longest, and gets all of them.
    """
    uses_core = _uses_core(in_batches=in_batches)
    threads = threads or _threads(beside_work=beside_work and uses_core)
    size = _large_chunk(len(entries), parts or threads) if uses_core else _CHUNK
    chunks = [entries[at : at + size] for at in range(0, len(entries), size)]
    checks = _pool(threads).map(partial(_check_chunk, in_batches=in_batches), chunks)
    return lambda: [verdict for chunk in checks for verdict in chunk]


def _uses_core(*, in_batches: bool = True) -> bool:
    return native.core is not None and _batches and in_batches


def _threads(*, beside_work: bool) -> int:
    return max(1, (os.cpu_count() or 1) - beside_work)


def _large_chunk(count: int, threads: int) -> int:
    """How many of ``count`` entries a thread takes at a time with the native core: of many, all threads as often."""
    rounds = ceil(count / (threads * _LARGE_CHUNK))
    parts = max(1, min(threads * rounds, count // _LEAST_LARGE_CHUNK))
    return max(1, ceil(count / parts))


def _check_chunk(entries: Sequence[Entry], in_batches: bool) -> list[bool]:
    verdicts = are_signed([entry.encoded for entry in entries], in_batches=in_batches)
    for entry in entries:
        _ = entry.hash
    return verdicts


def check_ahead(
    batches: Iterable[_B],
    entries: Callable[[_B], Sequence[Entry]],
    threads: int | None = None,
    *,
    beside_work: bool = False,
) -> Iterator[tuple[_B, list[bool]]]:
    """Each batch with the verdicts on its ``entries``, in the order in which the batches come.

    The signatures of some batches are checked on other threads (as ``start_checking`` says) while the caller deals with
    the one before, and the next one is made. Each of two or three threads has a batch to itself, because the
    native core takes a tenth less time for a whole one than for two halves. At most six batches are in memory.
    """
    threads = threads or _threads(beside_work=beside_work and _uses_core())
    ahead = min(threads + 1, _MOST_AHEAD)  # One more than are checked, so that no thread waits for the caller.
    checked: deque[tuple[_B, Callable[[], list[bool]]]] = deque()
    for batch in batches:
        checked.append((batch, start_checking(entries(batch), threads, parts=ceil(threads / (ahead - 1)))))
        if len(checked) > ahead:
            first, verdicts = checked.popleft()
            yield first, verdicts()
    for batch, verdicts in checked:
        yield batch, verdicts()


@cache
def _pool(threads: int) -> "ThreadPoolExecutor":
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - commands without threads start sooner

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
