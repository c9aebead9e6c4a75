"""Who calls, and that both know the clump (docs/specs/culm.md, "The handshake").

TLS proves the listener: its key is the one of the certificate, and the caller knew that key before. TLS does not prove
the caller, because that would tell its identity to any listener. So the caller proves itself inside: it signs the
listener's key, the listener's nonce, its own key and its own nonce. The listener's key makes the signature worthless to
anybody else, and the listener's nonce makes it worthless a second time.

Both sides show with a MAC, keyed with the clump, that they know the clump. The caller goes first: a stranger who calls
gets no MAC from which it could guess the clump at leisure.
"""

import hmac
from dataclasses import dataclass

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from culm.bamboo import Identity

NONCE_BYTES = 32
KEY_BYTES = 32
SIGNATURE_BYTES = 64
MAC_BYTES = 32
_SIGNED = b"culm session 1: caller\0"
_CALLER_MAC = b"culm session 1: clump of the caller\0"
_LISTENER_MAC = b"culm session 1: clump of the listener\0"


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a session hangs on: both keys and both nonces, 32 bytes each."""

    listener: bytes
    listener_nonce: bytes
    caller: bytes
    caller_nonce: bytes

    @property
    def _bytes(self) -> bytes:
        return self.listener + self.listener_nonce + self.caller + self.caller_nonce

    def sign(self, caller: Identity) -> bytes:
        """The caller's signature."""
        return caller.sign(_SIGNED + self._bytes)

    def is_signed_by_caller(self, signature: bytes) -> bool:
        """Whether a signature (64 bytes) is the caller's."""
        try:
            crypto_sign_open(signature + _SIGNED + self._bytes, self.caller)
        except (BadSignatureError, ValueError):
            return False
        return True

    def caller_mac(self, clump: bytes) -> bytes:
        """The caller's proof (32 bytes) that it knows the clump."""
        return hmac.digest(clump, _CALLER_MAC + self._bytes, "sha256")

    def listener_mac(self, clump: bytes) -> bytes:
        """The listener's proof (32 bytes)."""
        return hmac.digest(clump, _LISTENER_MAC + self._bytes, "sha256")
