"""Signatures made to be taken for good by a rule that is not libsodium's (docs/specs/bamboo.md, "Signatures").

The points of the curve are a group of 8 L elements, L prime. Keys and the R of honest signatures lie in its subgroup of
order L. A *torsion point* is one of the eight whose order divides 8; most crafted signatures have one added somewhere.
An equation that is multiplied by 8 does not see it. All arithmetic here is libsodium's.

A signed message is like an entry: one byte, the author's 32, anything, and the 64 bytes of the signature.
"""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from nacl.bindings import (
    crypto_core_ed25519_add,
    crypto_core_ed25519_scalar_add,
    crypto_core_ed25519_scalar_mul,
    crypto_core_ed25519_scalar_reduce,
    crypto_core_ed25519_scalar_sub,
    crypto_scalarmult_ed25519_base_noclamp,
)

ORDER = 2**252 + 27742317777372353535851937790883648493
FIELD = 2**255 - 19
NEUTRAL = (1).to_bytes(32, "little")
_EIGHTH = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")  # a point of order 8


def _multiples(point: bytes) -> tuple[bytes, ...]:
    found = [NEUTRAL]
    while len(found) < 8:
        found.append(crypto_core_ed25519_add(found[-1], point))
    return tuple(found)


TORSION = _multiples(_EIGHTH)  # The torsion points: j times a point of order 8, at j.
# Numbers from p on as y, without and with a sign: each is another encoding of a point, or of none.
UNREDUCED = tuple((y + sign).to_bytes(32, "little") for y in range(FIELD, 2**255) for sign in (0, 2**255))
# x = 0 has no sign, so these are second encodings of two points of small order.
SIGNED_ZEROS = tuple((y | 2**255).to_bytes(32, "little") for y in (1, FIELD - 1))


@dataclass(slots=True)
class Signer:
    """An author who computes without clamping, so that everything can be made as it should not be.

    The public key is ``secret`` times the base point, plus the torsion point of number ``torsion``.
    """

    secret: bytes
    torsion: int = 0
    public: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.public = plus(crypto_scalarmult_ed25519_base_noclamp(self.secret), self.torsion)

    def sign(self, message: bytes, nonce: bytes, torsion: int = 0) -> bytes:
        """A signature whose R is ``nonce`` times the base point plus a torsion point; libsodium takes it for 0 only."""
        point = plus(crypto_scalarmult_ed25519_base_noclamp(nonce), torsion)
        factor = hashed(point, self.public, message)
        return point + crypto_core_ed25519_scalar_add(nonce, crypto_core_ed25519_scalar_mul(factor, self.secret))


def plus(point: bytes, torsion: int) -> bytes:
    """The point and a torsion point."""
    return crypto_core_ed25519_add(point, TORSION[torsion]) if torsion else point


def hashed(point: bytes, public: bytes, message: bytes) -> bytes:
    """The k of a signature."""
    return crypto_core_ed25519_scalar_reduce(hashlib.sha512(point + public + message).digest())


class Crafter:
    """Signed messages of some authors, honest and crafted, the same for the same random numbers.

    ``authors`` of them are honest. ``kinds``: how to make one, each a function of a message that returns the whole.
    """

    def __init__(self, rng: random.Random, authors: int = 1) -> None:
        self._rng = rng
        self._honest = [Signer(self.scalar()) for _ in range(authors)]
        self._mixed = Signer(self.scalar(), 1 + rng.randrange(7))
        self.kinds: dict[str, Callable[[], bytes]] = {
            "honest": self.honest,
            "R with a torsion part": self.with_torsion,
            "S + L": self.with_second_scalar,
            "S beyond 2^253": self.with_large_scalar,
            "a bit flipped": self.flipped,
            "author with a torsion part": self.of_mixed_author,
            "author of small order": self.of_small_author,
            "author not canonical": self.of_unreduced_author,
            "R of small order": self.with_small_point,
            "R not canonical": self.with_unreduced_point,
        }

    def scalar(self) -> bytes:
        """A random number below L."""
        return crypto_core_ed25519_scalar_reduce(self._rng.randbytes(64))

    def message(self, author: bytes) -> bytes:
        """One byte, the author, and up to 40 bytes more."""
        return b"\x00" + author + self._rng.randbytes(self._rng.randrange(41))

    def honest(self) -> bytes:
        """As the author's program makes it."""
        return self._signed(0)

    def with_torsion(self, torsion: int = 0) -> bytes:
        """Good but for a torsion point in R: a rule with the factor 8 takes it."""
        return self._signed(torsion or 1 + self._rng.randrange(7))

    def with_second_scalar(self) -> bytes:
        """S + L, which satisfies the equation like S."""
        return self._with_scalar(ORDER)

    def with_large_scalar(self) -> bytes:
        """High bits of S are set, which old rules cut off."""
        return self._with_scalar(self._rng.randrange(1, 8) << 253)

    def flipped(self) -> bytes:
        """A good one with a bit flipped behind the author."""
        whole = bytearray(self.honest())
        whole[self._rng.randrange(33, len(whole))] ^= 1 << self._rng.randrange(8)
        return bytes(whole)

    def of_mixed_author(self) -> bytes:
        """Of an author with a torsion part. R is such that libsodium takes one in eight or more of them."""
        return self._of_author(self._mixed)

    def of_small_author(self) -> bytes:
        """Of an author who is a torsion point, or a second encoding of one: anybody can sign for it by S B = R."""
        return self._of_anybody(self._rng.choice((*TORSION, *SIGNED_ZEROS)))

    def of_unreduced_author(self) -> bytes:
        """Of an author that is not encoded canonically."""
        return self._of_anybody(self._rng.choice(UNREDUCED))

    def with_small_point(self) -> bytes:
        """R is a torsion point, so S = k a."""
        return self._with_point(self._rng.choice((*TORSION, *SIGNED_ZEROS)))

    def with_unreduced_point(self) -> bytes:
        """R is not encoded canonically."""
        return self._with_point(self._rng.choice(UNREDUCED))

    def pair(self) -> tuple[bytes, bytes]:
        """Two whose torsion points cancel, in an equation that gives both the same factor."""
        torsion = 1 + self._rng.randrange(7)
        return self.with_torsion(torsion), self.with_torsion(8 - torsion)

    def _signed(self, torsion: int) -> bytes:
        signer = self._rng.choice(self._honest)
        message = self.message(signer.public)
        return message + signer.sign(message, self.scalar(), torsion)

    def _with_scalar(self, added: int) -> bytes:
        whole = self.honest()
        scalar = int.from_bytes(whole[-32:], "little") + added
        return whole[:-32] + (scalar % 2**256).to_bytes(32, "little")

    def _of_author(self, signer: Signer) -> bytes:
        message = self.message(signer.public)
        return message + signer.sign(message, self.scalar(), self._rng.randrange(8))

    def _of_anybody(self, author: bytes) -> bytes:
        scalar = self.scalar()
        return self.message(author) + crypto_scalarmult_ed25519_base_noclamp(scalar) + scalar

    def _with_point(self, point: bytes) -> bytes:
        signer = self._rng.choice(self._honest)
        message = self.message(signer.public)
        factor = hashed(point, signer.public, message)
        product = crypto_core_ed25519_scalar_mul(factor, signer.secret)
        return message + point + self._rng.choice((product, crypto_core_ed25519_scalar_sub(product, self.scalar())))
