"""Clumps that must not be used, because their AUTH would sign something else.

An identity's key signs entries, proofs of ``culm://`` callers, TLS handshakes, and in Bushbaby's AUTH the clump and 32
bytes after it. Only AUTH begins with bytes that a person chooses. Suppose an attacker talks a victim into a clump that
is an entry without its last 32 bytes. Then the victim signs that entry: those last bytes are the end of the payload's
hash, and any bytes will do there. So ``check_clump`` refuses each clump that could begin anything else that is signed.

Entries begin with their tag, the other two with a fixed text. A clump is refused if it begins like one of them and is
long enough for the shortest of its kind. That refuses more than strict decoders need, so that a peer whose decoder is
more lenient than ours cannot be shown a forged entry either. The argument: docs/security.md, "Keys".
"""

from typing import NamedTuple

from culm.bamboo.yamf import YAMF_BYTES
from culm.errors import ConfigError

FRESH_BYTES = 32
"""What AUTH signs after the clump: a key of this connection."""


class _Signed(NamedTuple):
    what: str
    begins: tuple[bytes, ...]
    least: int  # bytes of the shortest one, without the signature


_SIGNED = (
    # Tag, author, log id, sequence number and size in one byte each, payload hash.
    _Signed("an entry", (b"\x00", b"\x01"), 1 + 32 + 1 + 1 + 1 + YAMF_BYTES),
    _Signed("a caller's proof in culm://", (b"culm session 1: caller\0",), 23 + 4 * 32),
    # RFC 8446, section 4.4.3: 64 spaces, a text of 33 bytes, a zero byte, a hash of at least 32 bytes.
    _Signed("a TLS handshake", (b" " * 64,), 64 + 33 + 1 + 32),
)


def check_clump(clump: bytes) -> None:
    """``ConfigError`` for a clump whose AUTH signature could be taken for the signature of something else."""
    for signed in _SIGNED:
        if clump.startswith(signed.begins) and len(clump) + FRESH_BYTES >= signed.least:
            raise ConfigError(
                f"the clump of {len(clump)} bytes that begins with {clump[:4].hex()} is not safe: what this identity "
                f"signs to enter it could be used as its signature of {signed.what}; choose another clump, at best"
                " 32 random bytes"
            )
