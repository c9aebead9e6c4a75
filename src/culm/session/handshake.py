"""Who calls, and that both know the clump (docs/specs/culm.md, "The handshake", "Penalties").

TLS proves the listener: its key is the one of the certificate, and the caller knew that key before. TLS does not prove
the caller, because that would tell its identity to any listener. So the caller proves itself inside: it signs the
listener's key, the listener's nonce, its own key and its own nonce. The listener's key makes the signature worthless to
anybody else, and the listener's nonce makes it worthless a second time.

Both sides show with a MAC, keyed with the clump, that they know the clump. The caller goes first: a stranger who calls
gets no MAC from which it could guess the clump at leisure.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from culm.bamboo import Identity
from culm.errors import RemoteProtocolError, WrongClump
from culm.session.events import Refused
from culm.session.limits import Limits
from culm.session.messages import Proof, Welcome

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


class Handshake:
    """One side's part of the handshake. ``refuses`` says for how many seconds a key that was proved is refused."""

    def __init__(self, identity: Identity, clump: bytes, nonce: bytes, refuses: Callable[[bytes], float]) -> None:
        self._identity = identity
        self._clump = clump
        self._nonce = nonce
        self._refuses = refuses
        self._transcript: Transcript | None = None

    def prove(self, listener: bytes, listener_nonce: bytes, limits: Limits) -> Proof:
        """What the caller says, challenged by a listener."""
        key = self._identity.public
        transcript = self._transcript = Transcript(listener, listener_nonce, key, self._nonce)
        return Proof(key, self._nonce, transcript.sign(self._identity), transcript.caller_mac(self._clump), limits)

    def check_caller(self, proof: Proof, limits: Limits) -> Welcome | Refused:
        """The listener's answer to a caller that has proved itself; ``RemoteProtocolError`` for one that has not.

        The clump comes last. A refused caller does not learn whether it has the right one, so nobody can try clumps
        faster than penalties run.
        """
        transcript = Transcript(self._identity.public, self._nonce, proof.key, proof.nonce)
        if not transcript.is_signed_by_caller(proof.signature):
            raise RemoteProtocolError("the caller does not hold the key it claims")
        if seconds := self._refuses(proof.key):
            return Refused(seconds)
        if not hmac.compare_digest(proof.mac, transcript.caller_mac(self._clump)):
            raise WrongClump("the caller is of another clump")
        return Welcome(transcript.listener_mac(self._clump), limits)

    def check_listener(self, mac: bytes) -> None:
        """``RemoteProtocolError`` unless the listener knows the clump. Only after ``prove``."""
        assert self._transcript is not None  # noqa: S101 - the states let no WELCOME come before the challenge
        if not hmac.compare_digest(mac, self._transcript.listener_mac(self._clump)):
            raise WrongClump("the peer is of another clump")
