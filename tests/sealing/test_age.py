"""Sealing and opening, compared with age's own functions, and with hostile bytes.

Specification: docs/specs/sealed.md, "A sealed payload".
"""

from __future__ import annotations

import random
import sys
import threading
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from culm.errors import ConfigError, SealedPayload
from culm.sealing import MAX_READERS, Keyring, Sealer, is_sealed, opened
from culm.sealing.age import skipped
from tests.sealing.keys import AGE_KEY, ALICE, BOB, CAROL, NAMES, SECRET_AGE_KEY, age_identity, age_recipient, pyrage

if TYPE_CHECKING:
    from collections.abc import Iterator

MINE = Keyring.of([ALICE])


def content(sealed: bytes, ring: Keyring = MINE) -> bytes:
    """What a payload opens to."""
    return b"".join(opened([sealed], ring))


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 300_000])
def test_there_and_back(size: int) -> None:
    """What is sealed, whole or in pieces, opens for each reader and for nobody else."""
    payload = random.Random(size).randbytes(size)
    sealer = Sealer([NAMES[ALICE], NAMES[BOB], AGE_KEY])
    for sealed in (sealer.whole(payload), b"".join(sealer.pieces([payload[:100], payload[100:]]))):
        assert is_sealed(sealed)
        for key in (ALICE, BOB, SECRET_AGE_KEY):
            assert payload == content(sealed, Keyring.of([key]))
        with pytest.raises(SealedPayload, match="it is sealed for 3 readers, and your key is not among them"):
            content(sealed, Keyring.of([CAROL]))


def test_age_opens_ours() -> None:
    """Age's own functions open what Culm seals."""
    sealed = Sealer([NAMES[BOB], AGE_KEY]).whole(b"for both")
    assert b"for both" == pyrage.decrypt(sealed, [age_identity(BOB)])
    assert b"for both" == pyrage.decrypt(sealed, [pyrage.x25519.Identity.from_str(SECRET_AGE_KEY)])


def test_ours_opens_what_age_made() -> None:
    """Culm opens what age's own functions sealed, for an SSH key and for an age key."""
    recipients = [age_recipient(ALICE), pyrage.x25519.Recipient.from_str(AGE_KEY)]
    sealed = pyrage.encrypt(b"from elsewhere", recipients)
    assert b"from elsewhere" == content(sealed)
    assert b"from elsewhere" == content(sealed, Keyring.of([SECRET_AGE_KEY]))


def test_another_age_key() -> None:
    """Stanzas for age keys show no name, so the key is tried, and a refusal says the same as for identities."""
    other = str(pyrage.x25519.Identity.generate())
    with pytest.raises(SealedPayload, match=r"it is sealed for 1 reader, and your key is not among them$"):
        content(Sealer([AGE_KEY]).whole(b"x"), Keyring.of([other]))


@pytest.mark.parametrize("payload", [b"", b"plain", b"age-encryption.org/v1", b"age-encryption.org/v2\n" + bytes(99)])
def test_what_is_not_sealed(payload: bytes) -> None:
    """A payload with another first line passes as it is, in pieces of any size."""
    assert payload == content(payload)
    assert payload == b"".join(opened([payload[at : at + 1] for at in range(len(payload))], MINE))


def test_bytes_that_look_sealed() -> None:
    """A payload that only begins like a sealed one is refused, and not given out as if it were content."""
    for rest in (
        b"",
        b"hello\n",
        b"--- \n",
        b"\n--- " + b"A" * 43 + b"\n",
        b"-> ssh-ed25519\n--- " + b"A" * 43 + b"\n",
    ):
        with pytest.raises(SealedPayload):
            content(b"age-encryption.org/v1\n" + rest)


def test_every_truncation() -> None:
    """A payload that its author cut off is refused, wherever that is."""
    sealed = Sealer([NAMES[ALICE]]).whole(b"short")
    for length in range(22, len(sealed)):
        with pytest.raises(SealedPayload):
            content(sealed[:length])


def test_a_cut_between_chunks() -> None:
    """Chunks are opened as they come; that the last one is missing shows at the end."""
    sealed = Sealer([NAMES[ALICE]]).whole(bytes(3 * 65_536))
    pieces = opened([sealed[: -(65_536 + 16)]], MINE)
    with pytest.raises(SealedPayload, match="it is damaged, or its author cut it off"):
        list(pieces)


@pytest.mark.slow
def test_a_thousand_mutations() -> None:
    """A changed byte is refused, or lies where the format has no meaning; the content is never another one."""
    sealed, draw, refused = Sealer([NAMES[ALICE], NAMES[BOB]]).whole(b"payload"), random.Random(1), 0
    for _ in range(1000):
        changed = bytearray(sealed)
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        try:
            assert content(bytes(changed)) in {b"payload", bytes(changed)}
            assert not is_sealed(changed)
        except SealedPayload:
            refused += 1
    assert 900 < refused


@pytest.mark.slow
def test_as_many_readers_as_allowed() -> None:
    """1,000 readers are sealed for, in a header that is opened; 1,001 are refused."""
    readers = [str(pyrage.x25519.Identity.generate().to_public()) for _ in range(MAX_READERS - 1)]
    sealed = Sealer([*readers, NAMES[ALICE]]).whole(b"many")
    assert b"many" == content(sealed)
    with pytest.raises(ConfigError, match="1,001 readers are too many: accepted are up to 1,000"):
        Sealer([*readers, NAMES[ALICE], NAMES[BOB]])


def test_nobody_to_seal_for() -> None:
    """Nothing is sealed for nobody; a reader who is named twice gets one stanza."""
    with pytest.raises(ConfigError, match="there is no reader to seal for"):
        Sealer([])
    assert 1 == Sealer([NAMES[ALICE]] * 2).whole(b"").count(b"-> ssh-ed25519")


@pytest.mark.slow
def test_memory_is_constant() -> None:
    """64 MiB are sealed and opened with less than 4 MiB of memory, so 1 GB is, too."""

    def zeros() -> Iterator[bytes]:
        for _ in range(1024):
            yield bytes(65_536)

    tracemalloc.start()
    try:
        sealed = Sealer([NAMES[ALICE]]).pieces(zeros())
        size = sum(map(len, opened(sealed, MINE)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 64 * 1024 * 1024 == size
    assert peak < 4 * 1024 * 1024


def test_leaving_early() -> None:
    """A caller that stops in the middle leaves no thread."""
    pieces = opened(Sealer([NAMES[ALICE]]).pieces([bytes(3_000_000)]), MINE)
    next(pieces)
    del pieces
    assert not [thread for thread in threading.enumerate() if thread.name == "culm-sealing"]


def test_skipping() -> None:
    """Bytes are left out of the front, across pieces."""
    for count in range(8):
        assert b"abcdef"[count:] == b"".join(skipped(iter([b"ab", b"", b"cde", b"f"]), count))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``pyrage`` a sealed payload is recognized, sealing and opening say what to install; the rest works."""
    sealed = Sealer([NAMES[ALICE]]).whole(b"x")
    monkeypatch.setitem(sys.modules, "pyrage", None)
    assert is_sealed(sealed)
    assert b"plain" == content(b"plain")
    with pytest.raises(SealedPayload, match="your key is not among them"):
        content(sealed, Keyring.of([BOB]))
    for call in (lambda: content(sealed), lambda: Sealer([NAMES[ALICE]])):
        with pytest.raises(ConfigError, match=r"sealed payloads need pyrage: pip install 'culm\[sealed\]'"):
            call()
