"""Signatures, links and payloads (docs/specs/bamboo.md, "Signatures", "Payloads", "Verification")."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.bindings import crypto_scalarmult_ed25519_base_noclamp

from culm import native
from culm.bamboo import (
    Entry,
    Identity,
    PayloadHasher,
    are_authentic,
    check_ahead,
    check_payload,
    check_signature,
    is_authentic,
    verification,
    yamf_hash,
)
from culm.bamboo.entry import encode_unsigned
from culm.errors import BadSignature, PayloadMismatch, PayloadSizeMismatch
from culm.testing import build_log, tampered
from tests.nativecalls import accepted_in_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = build_log(40)
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
NEUTRAL_ELEMENT = b"\x01" + bytes(31)


def test_authentic() -> None:
    """What an identity signs is authentic, and checking it does not raise."""
    check_signature(LOG.entries[0])

    assert [True] * 40 == [is_authentic(entry) for entry in LOG.entries]


def test_tampered() -> None:
    """An entry with a changed signature is not authentic; the error names it."""
    entry = Entry.decode(tampered(LOG.entries[3]))
    with pytest.raises(BadSignature) as caught:
        check_signature(entry)

    assert not is_authentic(entry)
    assert LOG.entries[3].place == caught.value.place


def test_signature_of_another_author() -> None:
    """A signature counts for its own author only."""
    mine, other = LOG.entries[0], Identity(bytes(32))
    entry = Entry.decode(b"\x00" + other.public + mine.encoded[33:])

    assert not is_authentic(entry)


def test_no_second_signature_of_an_entry() -> None:
    """S + L in place of S satisfies the same equation; accepting it would let anyone make a second entry of one."""
    entry = LOG.entries[0]
    scalar = int.from_bytes(entry.signature[32:], "little") + GROUP_ORDER
    twin = Entry.decode(entry.encoded[:-32] + scalar.to_bytes(32, "little"))

    assert entry.encoded[:-32] == twin.encoded[:-32]
    assert not is_authentic(twin)


def test_no_author_of_small_order() -> None:
    """The neutral element as author would verify [r]B, r under every message: it is refused as a key."""
    scalar = (12345).to_bytes(32, "little")
    unsigned = encode_unsigned(
        is_end=False,
        author=NEUTRAL_ELEMENT,
        log_id=0,
        seq=1,
        lipmaalink=None,
        backlink=None,
        size=0,
        payload_hash=yamf_hash(b""),
    )
    forged = Entry.decode(unsigned + crypto_scalarmult_ed25519_base_noclamp(scalar) + scalar)

    assert not is_authentic(forged)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
@pytest.mark.parametrize("threads", [None, 1, 2])
def test_many_at_once(count: int, threads: int | None) -> None:
    """Checking many entries says of each what checking it alone says, on any number of threads."""
    rng = random.Random(count)
    entries = [rng.choice(LOG.entries) for _ in range(count)]
    entries = [Entry.decode(tampered(entry)) if rng.random() < 0.3 else entry for entry in entries]

    assert [is_authentic(entry) for entry in entries] == are_authentic(entries, threads)


@pytest.mark.skipif(native.core is None, reason="the native core is not built (make native)")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_caller_can_do_without_batches(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a peer that has sent a bad signature, libsodium checks each, on threads too."""
    calls = accepted_in_batches(monkeypatch)
    entries = 5 * LOG.entries

    assert [True] * 200 == are_authentic(entries, threads, in_batches=False)
    assert [] == calls
    assert [True] * 200 == are_authentic(entries, threads)
    assert [] != calls


@pytest.mark.parametrize(
    ("count", "threads", "sizes"),
    [
        (1000, 2, [1000]),
        (1024, 2, [512] * 2),
        (8192, 2, [4096] * 2),
        (8193, 2, [2049] * 3 + [2046]),
        (20_000, 2, [3334] * 5 + [3330]),
        (20_000, 3, [3334] * 5 + [3330]),
        (9000, 1, [3000] * 3),
    ],
)
def test_all_threads_check_as_much(count: int, threads: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the native core no thread is left with a batch more than another, and no batch is beyond 4,096 entries."""
    monkeypatch.setattr(native, "core", object())
    monkeypatch.setattr(verification, "_check_chunk", lambda entries, in_batches: in_batches * [len(entries)])
    assert sizes == verification.start_checking([LOG.entries[0]] * count, threads)()


@pytest.mark.parametrize(("threads", "ahead"), [(None, 5), (1, 3), (2, 4), (64, 5)])
def test_ahead(threads: int | None, ahead: int) -> None:
    """Each batch comes with its own verdicts, in order, and few are made ahead of the one dealt with."""
    rng = random.Random(7)
    entries = [Entry.decode(tampered(entry)) if rng.random() < 0.3 else entry for entry in LOG.entries]
    sizes = ((0, 1), (1, 0), (1, 25), (26, 14), (0, 3), (3, 9), (2, 2), (5, 1))
    batches = [entries[at : at + size] for at, size in sizes]
    made: list[int] = []

    def making() -> Iterator[list[Entry]]:
        for number, batch in enumerate(batches):
            made.append(number)
            yield batch

    for number, (batch, verdicts) in enumerate(check_ahead(making(), list, threads)):
        assert batch == batches[number]
        assert verdicts == [is_authentic(entry) for entry in batch]
        assert len(made) <= number + ahead
    assert made == [*range(len(sizes))]


@pytest.mark.parametrize(("threads", "parts"), [(1, [1200]), (2, [1200]), (4, [600, 600])])
def test_whole_batches_ahead(threads: int, parts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two threads checks a batch of its own, because whole ones cost less; of more, several share a batch."""
    monkeypatch.setattr(native, "core", object())
    monkeypatch.setattr(verification, "_check_chunk", lambda entries, in_batches: in_batches * [len(entries)])
    batches = [[LOG.entries[0]] * 1200] * 5
    assert [verdicts for _, verdicts in check_ahead(batches, list, threads)] == [parts] * 5


@pytest.mark.parametrize(
    ("core", "processors", "threads"), [(True, 4, 3), (True, 1, 1), (True, None, 1), (False, 4, 4)]
)
def test_a_caller_with_work_keeps_a_processor(
    core: bool, processors: int | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of the native core leave a processor to a caller that works meanwhile; slower checks take them all."""
    asked: list[int] = []

    class Pool:
        """Does all at once."""

        map = staticmethod(map)

    def pool(number: int) -> Pool:
        asked.append(number)
        return Pool()

    monkeypatch.setattr("os.cpu_count", lambda: processors)
    monkeypatch.setattr(verification, "_pool", pool)
    monkeypatch.setattr(verification, "_check_chunk", lambda entries, in_batches: in_batches * [True] * len(entries))
    monkeypatch.setattr(native, "core", object() if core else None)
    assert verification.start_checking(LOG.entries, beside_work=True)() == [True] * 40
    assert asked == [threads]


def test_payload() -> None:
    """The payload of an entry passes, in any kind of buffer."""
    entry = LOG.make(1, b"a payload")
    for kind in (bytes, bytearray, memoryview):
        check_payload(entry, kind(b"a payload"))


@pytest.mark.parametrize("payload", [b"", b"a payloae", b"a payload "])
def test_payload_of_something_else(payload: bytes) -> None:
    """Bytes of another hash are a mismatch that says nothing against the author."""
    entry = LOG.make(1, b"a payload")
    with pytest.raises(PayloadMismatch) as caught:
        check_payload(entry, payload)

    assert (PayloadMismatch, entry.place) == (type(caught.value), caught.value.place)


@pytest.mark.parametrize("size", [0, 8, 10, 2**64 - 1])
def test_lie_about_the_size(size: int) -> None:
    """A payload of the right hash and another size than claimed shows that the author lied."""
    with pytest.raises(PayloadSizeMismatch, match=f"9 bytes but its entry claims {size}"):
        check_payload(LOG.make(1, b"a payload", size=size), b"a payload")


@given(pieces=st.lists(st.binary(max_size=20), max_size=6))
@settings(deadline=None)
def test_hashing_in_pieces(pieces: list[bytes]) -> None:
    """A payload hashed in pieces has the hash and the size of the whole."""
    whole = b"".join(pieces)
    hasher = PayloadHasher()
    for piece in pieces:
        hasher.update(piece)
    hasher.check(LOG.make(1, whole))

    assert (yamf_hash(whole), len(whole)) == (hasher.hash, hasher.size)
