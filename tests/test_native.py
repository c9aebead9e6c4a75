"""Signatures of many entries at once have libsodium's verdicts, with the native core and without."""

from __future__ import annotations

import random
import time
from hashlib import blake2b
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from nacl.bindings import crypto_core_ed25519_add

from culm import native
from culm.bamboo import verification
from culm.bamboo.known import KnownSignature, known_signatures, wrong_verdicts
from culm.bamboo.verification import are_signed, is_signed
from culm.testing import build_log
from fuzz.crafted import NEUTRAL, ORDER, TORSION, Crafter
from fuzz.signatures import batch, read
from tests.quick import rounds

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = [entry.encoded for entry in build_log(300).entries]
with_core = pytest.mark.skipif(native.core is None, reason="the native core is not built (make native)")


def one_by_one(entries: list[bytes]) -> list[bool]:
    """What libsodium says."""
    return [is_signed(entry, entry[1:33]) for entry in entries]


def test_known_answers() -> None:
    """The libsodium in use follows the rule, signature by signature; a few are accepted, so that it is asked indeed."""
    assert [] == wrong_verdicts()
    assert 3 == sum(known.is_accepted for known in known_signatures())


@pytest.mark.slow
@pytest.mark.parametrize("known", known_signatures(), ids=lambda known: known.name)
def test_known_answers_in_batches(known: KnownSignature) -> None:
    """A crafted signature has the same verdict alone, often, and among honest ones, at both ways of checking R."""
    for entries in (
        [known.signed],
        9 * [known.signed],
        [*LOG[:100], known.signed],
        [*LOG, *(12 * [known.signed]), *LOG],
    ):
        assert [known.is_accepted if entry is known.signed else True for entry in entries] == are_signed(entries)


@pytest.mark.slow
@pytest.mark.parametrize("seed", rounds(12))
def test_batches(seed: int) -> None:
    """Whatever is in a batch, the verdicts are those of one by one."""
    entries, _ = batch(seed)

    assert one_by_one(entries) == are_signed(entries)


def test_torsion_points() -> None:
    """The crafted points are what they claim: eight, closed under addition, and none of order L."""
    assert 8 == len(set(TORSION))
    assert NEUTRAL == crypto_core_ed25519_add(TORSION[3], TORSION[5])
    assert pow(2, ORDER - 1, ORDER) == 1


@pytest.mark.slow
@pytest.mark.parametrize("torsion", range(1, 8))
@pytest.mark.parametrize("size", [9, 145, 300])
def test_all_have_the_same_torsion(torsion: int, size: int) -> None:
    """Where all signatures of a batch have the same torsion point, whose multiples vanish most often, none passes."""
    crafter = Crafter(random.Random(torsion))

    assert size * [False] == are_signed([crafter.with_torsion(torsion) for _ in range(size)])


@with_core
@pytest.mark.parametrize("size", [8, 64, 144, 145, 300])
def test_good_ones_need_no_libsodium(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core accepts a batch of good signatures by itself: nothing of it is checked one by one."""
    monkeypatch.setattr(verification, "is_signed", lambda *_: pytest.fail("libsodium was asked"))

    assert size * [True] == are_signed(LOG[:size])


@with_core
def test_authors_together() -> None:
    """Entries of many authors fit into one batch; an author of fewer than eight is left to libsodium."""
    assert native.core is not None
    few, many = ([entry.encoded for entry in build_log(length, seed=5).entries] for length in (7, 20))
    mixed = [entry for pair in zip(LOG[:20], many, strict=True) for entry in pair]

    assert bytes(40 * [1]) == native.core.accepted(mixed)
    assert bytes(20 * [1] + 7 * [0]) == native.core.accepted([*LOG[:20], *(few)])


@with_core
def test_one_bad_signature_leaves_the_others_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad signature among a thousand is found by halves, and libsodium has to check only its neighbours."""
    entries = 4 * LOG[:256]
    entries[700] = entries[700][:-64] + entries[701][-64:]
    asked = []

    def counted(entry: bytes, author: bytes) -> bool:
        asked.append(entry)
        return is_signed(entry, author)

    monkeypatch.setattr(verification, "is_signed", counted)

    assert [place != 700 for place in range(1024)] == are_signed(entries)
    assert len(asked) < 100


@pytest.mark.slow
@with_core
@pytest.mark.parametrize(("size", "bad"), [(4097, 4095), (4097, 4096), (8200, 4095), (8200, 4096), (8200, 8192)])
def test_a_bad_one_where_a_batch_is_split(size: int, bad: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core decides on 4,096 at a time: a bad one that ends or begins such a part costs its neighbours alone."""
    entries = (28 * LOG)[:size]
    entries[bad] = entries[bad][:-64] + entries[bad - 1][-64:]
    asked = []

    def counted(entry: bytes, author: bytes) -> bool:
        asked.append(entry)
        return is_signed(entry, author)

    monkeypatch.setattr(verification, "is_signed", counted)

    assert [place != bad for place in range(size)] == are_signed(entries)
    assert len(asked) < 100


def test_the_ledger_of_signatures() -> None:
    """Lines of every form are read: ten million signatures were compared, half of them crafted, and none differed."""
    done = read()

    assert [] == [seed for one in done for seed in one.differing]
    assert sum(one.signatures for one in done) >= 10_000_000
    assert 2 * sum(one.crafted for one in done) >= sum(one.signatures for one in done)
    assert {""} < {one.commit for one in done}


@with_core
@pytest.mark.parametrize("entry", [b"", bytes(96)])
def test_too_short(entry: bytes) -> None:
    """What has no author or no signature is refused, not read beyond its end."""
    assert native.core is not None
    with pytest.raises(ValueError, match="at least its author and a signature"):
        native.core.accepted([*LOG[:10], entry])


def test_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches can be turned off: then each signature is checked by libsodium."""
    monkeypatch.setattr(verification, "_batches", True)
    monkeypatch.setattr(verification, "native", None)  # nothing of it can be used
    verification.check_one_by_one()

    assert 300 * [True] == are_signed(LOG)


CASES: dict[str, Callable[[Crafter], list[bytes]]] = {
    "all with torsion": lambda crafter: [crafter.with_torsion() for _ in range(1024)],
    "every tenth flipped": lambda crafter: [crafter.honest() if at % 10 else crafter.flipped() for at in range(1024)],
    "small, the last quarter with torsion": lambda crafter: [
        crafter.honest() if at % 128 < 96 else crafter.with_torsion() for at in range(128)
    ],
}


@pytest.mark.slow
@with_core
@pytest.mark.parametrize("case", CASES)
def test_bad_ones_cost_little(case: str) -> None:
    """However bad signatures are spread, a batch costs at most 1.5 times one by one (median of seven turns)."""
    entries = CASES[case](Crafter(random.Random(3)))
    ratios = []
    for _ in range(7):
        start = time.thread_time()
        are_signed(entries)
        middle = time.thread_time()
        one_by_one(entries)
        ratios.append((middle - start) / (time.thread_time() - middle))

    assert 1.5 >= sorted(ratios)[3]


@with_core
def test_pieces_are_hashed_as_hashlib_does() -> None:
    """BLAKE2b of pieces of any lengths, asked for in between, and none at all; CRC-32 from any value on."""
    assert native.core is not None
    rng = random.Random(5)
    for _ in rounds(30):
        pieces = [rng.randbytes(rng.choice((0, 1, 127, 128, 129, 5000))) for _ in range(rng.randrange(6))]
        mine, right = native.core.Blake2b(), blake2b()
        assert mine.digest() == right.digest()
        at_once = native.core.Blake2b()
        at_once.update(pieces)
        for piece in pieces:
            mine.update([piece])
            right.update(piece)
            assert mine.digest() == right.digest()
            before = rng.getrandbits(32)
            start = rng.randint(0, len(piece))
            end = rng.randint(start, len(piece))
            assert native.core.crc32(piece, before, start, end) == crc32(piece[start:end], before)
            with pytest.raises(ValueError, match="outside"):
                native.core.crc32(piece, 0, 1, len(piece) + 2)
        assert at_once.digest() == right.digest()
