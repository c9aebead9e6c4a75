"""Payloads that are hashed piece by piece, large pieces on another thread."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo import PayloadHasher, hashing
from culm.bamboo.hashing import handed_over
from culm.errors import PayloadMismatch, PayloadSizeMismatch
from culm.testing import build_log

_SIZES = st.sampled_from([0, 1, 127, 128, 5_000, 65_535, 65_536, 200_000, 1_048_576])
_KINDS = st.sampled_from([bytes, bytearray, memoryview])


def digest(data: bytes) -> bytes:
    """The YAMF-hash by hand: the tag of BLAKE2b, the length of the digest, the digest."""
    return bytes((0x00, 0x40)) + blake2b(data).digest()


@given(st.lists(st.tuples(_SIZES, _KINDS, st.booleans()), max_size=8))
def test_as_if_in_one_piece(pieces: list[tuple[int, type, bool]]) -> None:
    """Whatever the pieces are and whenever the hash is asked for, it is that of all bytes so far."""
    hasher, whole = PayloadHasher(), b""
    for number, (size, kind, asks) in enumerate(pieces):
        piece = bytes((number,)) * size
        hasher.update(kind(piece))
        whole += piece
        assert not asks or hasher.hash == digest(whole)
    assert (hasher.size, hasher.hash) == (len(whole), digest(whole))


def test_what_changes_afterwards() -> None:
    """A buffer may be used again as soon as it was handed in."""
    hasher, buffer = PayloadHasher(), bytearray(b"a" * 300_000)
    for letter in b"bcd":
        hasher.update(buffer)
        hasher.update(memoryview(buffer))
        buffer[:] = bytes((letter,)) * len(buffer)
    assert hasher.hash == digest(b"".join(bytes((letter,)) * 600_000 for letter in b"abc"))


def test_little_waits() -> None:
    """Pieces that come faster than they are hashed are hashed by whoever brings them, so few are kept."""
    hasher, piece = PayloadHasher(), bytes(1_200_000)
    before = sys.getrefcount(piece)
    for _ in range(20):
        hasher.update(piece)
        assert sys.getrefcount(piece) <= before + 4  # One waits, and one is being hashed, for which it is named thrice.
    assert hasher.hash == digest(bytes(20 * 1_200_000))
    assert sys.getrefcount(piece) == before


def test_the_thread_does_it() -> None:
    """What is given to the thread is done without anybody asking, one after the other."""
    first, second = Event(), Event()
    hashing._background.do(first.set)
    hashing._background.do(second.set)
    assert first.wait(20)
    assert second.wait(20)


def test_what_is_handed_over_counts_for_the_thread() -> None:
    """Bytes that another thread hashes are counted for the thread that gave them, and for no other."""
    before, piece = handed_over(), bytes(100_000)
    hasher = PayloadHasher()
    hasher.update(piece)
    hasher.update(bytes(100))
    assert handed_over() - before == 100_000
    with ThreadPoolExecutor(1) as other:
        assert other.submit(handed_over).result() == 0
    assert hasher.hash == digest(bytes(100_100))


@pytest.mark.subprocess
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_after_a_fork() -> None:
    """A process that was forked off hashes as well: it does not wait for its parent's thread."""
    begun = PayloadHasher()
    begun.update(bytes(100_000))
    assert begun.hash == digest(bytes(100_000))
    assert _right_in_a_fork(begun, 100_000)


@pytest.mark.subprocess
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_while_the_thread_hashes() -> None:
    """A fork waits for what the thread is just hashing, so that the new process has all of it and no lock is held."""
    begun, hashing, forking = PayloadHasher(), Event(), Event()
    state = begun._state

    class Slow:
        """Hashes the first piece no earlier than somebody forks."""

        def update(self, pieces: list[bytes]) -> None:
            hashing.set()
            assert forking.wait(10)
            state.update(pieces)
            begun._state = state

    begun._state = Slow()  # type: ignore[assignment]
    os.register_at_fork(before=forking.set)  # called before what was registered earlier
    begun.update(bytes(100_000))
    assert hashing.wait(10)
    assert _right_in_a_fork(begun, 100_000)
    assert begun.hash == digest(bytes(100_000))


def _right_in_a_fork(begun: PayloadHasher, size: int) -> bool:
    """Whether a new process hashes right, after as many zeros as are given already and from the beginning."""
    child = os.fork()
    if not child:
        signal.alarm(20)  # It holds the files of the process that runs the tests: the run would wait for it for ever.
        anew = PayloadHasher()
        for _ in range(30):
            begun.update(bytes(100_000))
            anew.update(bytes(100_000))
        right = (begun.hash, anew.hash) == (digest(bytes(size + 3_000_000)), digest(bytes(3_000_000)))
        os._exit(not right)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_check() -> None:
    """Bytes of another hash, or of another size than the entry claims, are told apart."""
    log = build_log(1)
    entry, payload = next(iter(log.items()))
    hasher = PayloadHasher()
    hasher.update(payload or b"")
    hasher.check(entry)
    hasher.update(b"more")
    with pytest.raises(PayloadMismatch):
        hasher.check(entry)
    liar = PayloadHasher()
    liar.update(payload or b"")
    liar.size += 1
    with pytest.raises(PayloadSizeMismatch):
        liar.check(entry)
