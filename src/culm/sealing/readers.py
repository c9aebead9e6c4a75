"""Readers and keys, as people write them and as age takes them (docs/specs/sealed.md, "Readers").

A reader is an identity, named by its public key like an author, or an age key (``age1...``). An identity's Ed25519 key
is given to age in the form in which SSH has such keys: age's ``ssh-ed25519`` recipients convert it to a key of X25519,
by the same map as libsodium. ``docs/decisions/15-one-key-signs-and-opens.md`` says why one key may do both.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType

from nacl.bindings import crypto_sign_ed25519_pk_to_curve25519
from nacl.exceptions import CryptoError

from culm.bamboo import Identity
from culm.errors import ConfigError, SealedPayload
from culm.sealing.header import Header, ssh_key
from culm.wire.places import author_text, parse_author

AGE_KEY = re.compile(r"age1[02-9ac-hj-np-z]{58}")
"""The public key of an age key pair: 32 bytes and a checksum in Bech32. Keys of plugins look different."""
_SECRET_AGE_KEY = re.compile(r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}")


def reader_of(name: str | bytes) -> str:
    """The one reader that a name means, in its only form; ``ConfigError`` if it means none.

    This is where a name becomes a key: an author as text or as 32 bytes, or an age key. The checksum of an age key is
    left to ``recipient_of``, so that lists can be shown without ``pyrage``.
    """
    if isinstance(name, str) and AGE_KEY.fullmatch(name):
        return name
    # The text is a secret, so it is not shown.
    if isinstance(name, str) and name.upper().startswith("AGE-SECRET-KEY-"):
        raise ConfigError("a secret age key is no reader: give the public key that belongs to it (age1...)")
    try:
        author = parse_author(name) if isinstance(name, str) else parse_author(name.hex())
    except ConfigError:
        raise ConfigError(
            f"{name!r} is no reader: expected an author (43 characters), an age key (age1...) or a group (AUTHOR/LOG)"
        ) from None
    reader = author_text(author)
    _check_point(author, reader)
    return reader


def _check_point(author: bytes, reader: str) -> None:
    """Refuse 32 bytes that no identity has. Of some, everybody can compute the secret that the seal rests on."""
    try:
        crypto_sign_ed25519_pk_to_curve25519(author)
    except (CryptoError, ValueError, TypeError):
        raise ConfigError(f"nothing can be sealed for {reader}: it is not the public key of any identity") from None


def recipient_of(reader: str) -> object:
    """A reader as ``pyrage`` takes it; ``ConfigError`` if its checksum is wrong."""
    pyrage = the_library()
    try:
        if reader.startswith("age1"):
            return pyrage.x25519.Recipient.from_str(reader)
        author = parse_author(reader)
        _check_point(author, reader)
        return pyrage.ssh.Recipient.from_str(f"ssh-ed25519 {b64encode(ssh_key(author)).decode()}")
    except pyrage.RecipientError as error:
        raise ConfigError(f"nothing can be sealed for {reader}: {error}") from None


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys that may open a payload.

    ``identities``: by public key (32 bytes), how to get each, which may ask for a passphrase. An identity is only asked
    for if the payload is sealed for it. ``age_keys`` are secret ones, as ``age-keygen`` writes them.
    """

    identities: Mapping[bytes, Callable[[], Identity]] = field(default_factory=dict)
    age_keys: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, keys: Iterable[Identity | str]) -> Keyring:
        """Identities and secret age keys at hand. ``ConfigError`` for a text that is no such key."""
        identities: dict[bytes, Callable[[], Identity]] = {}
        age_keys: list[str] = []
        for key in keys:
            if isinstance(key, Identity):
                identities[key.public] = lambda found=key: found  # type: ignore[misc]  # mypy does not infer defaults
            elif _SECRET_AGE_KEY.fullmatch(key):
                age_keys.append(key)
            else:  # The text is not shown, because it could be a secret with a typing error.
                raise ConfigError("not a secret age key: expected AGE-SECRET-KEY-1 and 58 characters")
        return cls(identities, tuple(age_keys))

    def keys_for(self, header: Header) -> list[object]:
        """The keys to try, as ``pyrage`` takes them; ``SealedPayload`` if none can be right."""
        authors = [author for author in self.identities if header.may_open(author)]
        age_keys = self.age_keys if header.age_keys else ()
        if not authors and not age_keys:
            raise SealedPayload(self.refusal(header))
        pyrage = the_library()
        try:
            found = [pyrage.x25519.Identity.from_str(key) for key in age_keys]
        except pyrage.IdentityError:
            raise ConfigError("a secret age key has a typing error: its checksum is wrong") from None
        return [*(_ssh_identity(self.identities[author]()) for author in authors), *found]

    def refusal(self, header: Header) -> str:
        """Why no key opens a payload."""
        mine = len(self.identities) + len(self.age_keys)
        keys = "your key is not" if mine == 1 else f"none of your {mine} keys is"
        readers = f"{header.readers} reader{'s' if header.readers != 1 else ''}"
        has_more = header.age_keys and not self.age_keys
        hint = "; some readers are age keys: if you have one, give its file with --key FILE" if has_more else ""
        return f"it is sealed for {readers}, and {keys} among them{hint}"


def _ssh_identity(identity: Identity) -> object:
    """An identity's secret key in SSH's file format, which is how age takes it. It is never written to a file."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - takes long to import
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    pem = Ed25519PrivateKey.from_private_bytes(identity.seed).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    return the_library().ssh.Identity.from_buffer(pem)


def the_library() -> ModuleType:
    """``pyrage``, imported at its first use; ``ConfigError`` if it is not installed."""
    try:
        return import_module("pyrage")
    except ImportError:
        raise ConfigError("sealed payloads need pyrage: pip install 'culm[sealed]'") from None
