"""HELLO and AUTH: who speaks, in which clump, and the keys of the connection.

Each side sends its long-term Ed25519 key, an X25519 key made for this connection, and a MAC that shows it knows the
clump. Each direction has a key of its own: the sender's ephemeral secret with the receiver's long-term key, hashed.
Besides the sender, only the owner of the long-term secret can compute it. AUTH proves that the peer is that owner: it
signs the key by which it receives.

Departure, ``deployed`` dialect: the deployed peer keys the MAC with the clump and hashes the ephemeral key; the
document has it the other way round.

Specification: docs/specs/bushbaby.md, "Handshake", "Dialects".
"""

import hmac
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b

from nacl import bindings
from nacl.exceptions import BadSignatureError, CryptoError

from culm.bamboo import Identity
from culm.errors import RemoteProtocolError, WrongClump

KEY_BYTES = 32
HELLO_BYTES = 3 * KEY_BYTES
SIGNATURE_BYTES = 64
MARK_BYTES = 8
NONCE_START_BYTES = 8


class Dialect(Enum):
    """Whom we can talk to: the deployed peer (and our own nodes), or peers that follow the document to the letter."""

    DEPLOYED = "deployed"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class Hello:
    """What a HELLO says: the sender's long-term key and its key for this connection (32 bytes each)."""

    public: bytes
    ephemeral: bytes


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The keys (32 bytes each) of the boxes we send to a peer and of those we receive from it."""

    peer: Hello
    send: bytes = field(repr=False)
    receive: bytes = field(repr=False)


def clump_mac(clump: bytes, ephemeral: bytes, dialect: Dialect) -> bytes:
    """The MAC (32 bytes) that shows knowledge of the clump."""
    key, message = (clump, ephemeral) if dialect is Dialect.DEPLOYED else (ephemeral, clump)
    return hmac.digest(key, message, "sha512")[:KEY_BYTES]


def pack_hello(hello: Hello, clump: bytes, dialect: Dialect) -> bytes:
    """The value of a HELLO message (96 bytes)."""
    return hello.public + hello.ephemeral + clump_mac(clump, hello.ephemeral, dialect)


def unpack_hello(value: bytes, clump: bytes) -> tuple[Hello, Dialect]:
    """Read a HELLO of 96 bytes, in either dialect; ``WrongClump`` if its sender is of another one."""
    hello = Hello(value[:KEY_BYTES], value[KEY_BYTES : 2 * KEY_BYTES])
    for dialect in Dialect:
        if hmac.compare_digest(value[2 * KEY_BYTES :], clump_mac(clump, hello.ephemeral, dialect)):
            return hello, dialect
    raise WrongClump("the peer is of another clump")


def derive_keys(identity: Identity, ephemeral_secret: bytes, peer: Hello) -> SessionKeys:
    """The connection's keys; ``RemoteProtocolError`` if the peer's keys are not usable."""
    try:
        # libsodium refuses points of small order, whose secrets anyone could know.
        peer_curve = bindings.crypto_sign_ed25519_pk_to_curve25519(peer.public)
        own_curve = bindings.crypto_sign_ed25519_sk_to_curve25519(identity.seed + identity.public)
        send = bindings.crypto_scalarmult(ephemeral_secret, peer_curve)
        receive = bindings.crypto_scalarmult(own_curve, peer.ephemeral)
    except (CryptoError, RuntimeError):
        raise RemoteProtocolError("the peer's keys are points of small order, whose secrets anyone knows") from None
    return SessionKeys(peer, _hashed(send), _hashed(receive))


def _hashed(secret: bytes) -> bytes:
    return blake2b(secret, digest_size=KEY_BYTES).digest()


def make_auth(identity: Identity, clump: bytes, keys: SessionKeys) -> bytes:
    """What our AUTH box contains: a signature (64 bytes) that ties our long-term key to this connection."""
    return identity.sign(clump + keys.receive)


def check_auth(signature: bytes, clump: bytes, keys: SessionKeys) -> None:
    """Raise ``RemoteProtocolError`` unless the peer has shown to be who its HELLO says."""
    try:
        bindings.crypto_sign_open(signature + clump + keys.send, keys.peer.public)
    except BadSignatureError:
        raise RemoteProtocolError("the peer does not hold the key it claims") from None


def marked_nonce(start: bytes, ephemeral: bytes) -> bytes:
    """The nonce (24 bytes) by which our nodes recognise each other: 8 random bytes, and two marks of 8 bytes each.

    The last mark says that the sender is a Culm node, the one before that it tells of forks. To everyone else the nonce
    looks random. The box's tag ties it to the session, ``ephemeral`` to its sender's HELLO.
    """
    nonce = start[:NONCE_START_BYTES]
    for generation in (2, 1):
        nonce += _mark(nonce, ephemeral, generation)
    return nonce


def generation_of(nonce: bytes, ephemeral: bytes) -> int:
    """Which marks a nonce has: 0, none; 1, that of a Culm node; 2, that of one that tells of forks, too."""
    if nonce[16:] != _mark(nonce[:16], ephemeral, 1):
        return 0
    return 2 if nonce[8:16] == _mark(nonce[:8], ephemeral, 2) else 1


def _mark(before: bytes, ephemeral: bytes, generation: int) -> bytes:
    return blake2b(
        before, digest_size=MARK_BYTES, key=ephemeral, person=f"culm-bushbaby-{generation}".encode()
    ).digest()
