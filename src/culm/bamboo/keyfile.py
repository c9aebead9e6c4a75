"""Identities on disk: one small JSON file each, readable by its owner alone.

``{"culm-identity": 1, "public": HEX, "secret": HEX}``, or, under a passphrase, ``"sealed"`` in place of ``"secret"``:
the seed in a NaCl secretbox whose key comes from the passphrase by Argon2id, with the salt and the costs beside it. The
public key stays readable, so that listing identities needs no passphrase.
"""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nacl.exceptions import CryptoError
from nacl.pwhash import argon2id
from nacl.secret import SecretBox
from nacl.utils import random as random_bytes

from culm.bamboo.entry import AUTHOR_BYTES
from culm.bamboo.identity import SEED_BYTES, Identity
from culm.errors import ConfigError
from culm.staging import staged_file, sync

_VERSION = 1
_MAX_FILE_BYTES = 10_000  # A key file has a few hundred bytes; the limit keeps a wrong path from filling the memory.
# A file names its own costs of decryption. Above these limits (seconds, 1 GiB) it is refused; otherwise a forged file
# could block the reader or exhaust its memory.
_MAX_OPSLIMIT = argon2id.OPSLIMIT_SENSITIVE
_MAX_MEMLIMIT = argon2id.MEMLIMIT_SENSITIVE


def dump_identity(identity: Identity, passphrase: str | None = None) -> str:
    """The text of an identity's file, with the secret encrypted if there is a passphrase."""
    document: dict[str, Any] = {"culm-identity": _VERSION, "public": identity.public.hex()}
    if passphrase is None:
        document["secret"] = identity.seed.hex()
    else:
        salt = random_bytes(argon2id.SALTBYTES)
        opslimit, memlimit = argon2id.OPSLIMIT_MODERATE, argon2id.MEMLIMIT_MODERATE
        key = argon2id.kdf(SecretBox.KEY_SIZE, passphrase.encode(), salt, opslimit=opslimit, memlimit=memlimit)
        box = SecretBox(key).encrypt(identity.seed)
        document["sealed"] = {
            "kdf": "argon2id",
            "salt": salt.hex(),
            "opslimit": opslimit,
            "memlimit": memlimit,
            "box": bytes(box).hex(),
        }
    return json.dumps(document, indent=2) + "\n"


@contextmanager
def _reading() -> Iterator[None]:
    """``ConfigError`` for everything that the text of a wrong file can lead to."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ConfigError("not a Culm identity file") from None


def load_identity(text: str, passphrase: str | None = None) -> Identity:
    """Read the text that ``dump_identity`` wrote. ``ConfigError`` if it is not one or the passphrase is wrong."""
    with _reading():
        document = json.loads(text)
        version = document["culm-identity"]
        if version != _VERSION:
            raise ConfigError(f"identity file of version {version!r}; this program reads version {_VERSION}")
        public = bytes.fromhex(document["public"])
        sealed = document.get("sealed")
        seed = bytes.fromhex(document["secret"]) if sealed is None else _unseal(sealed, passphrase)
        if len(seed) != SEED_BYTES:
            raise ConfigError(f"the secret of an identity is {SEED_BYTES} bytes, not {len(seed)}")
        identity = Identity(seed)
    if identity.public != public:
        raise ConfigError("the identity file is damaged: its secret does not belong to its public key")
    return identity


def is_sealed(text: str) -> bool:
    """Whether an identity file needs a passphrase. False also for a text that is not an identity file."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "sealed" in document


def public_key(text: str) -> bytes:
    """The public key (32 bytes) in an identity file, with no need for its passphrase. ``ConfigError`` if none."""
    with _reading():
        public = bytes.fromhex(json.loads(text)["public"])
    if len(public) != AUTHOR_BYTES:
        raise ConfigError("not a Culm identity file")
    return public


def _unseal(sealed: dict[str, Any], passphrase: str | None) -> bytes:
    if passphrase is None:
        raise ConfigError("this identity is encrypted: give its passphrase")
    opslimit, memlimit = int(sealed["opslimit"]), int(sealed["memlimit"])
    if sealed["kdf"] != "argon2id" or not (0 < opslimit <= _MAX_OPSLIMIT and 0 < memlimit <= _MAX_MEMLIMIT):
        raise ConfigError("this identity is encrypted in a way that this version of Culm does not know")
    try:
        salt = bytes.fromhex(sealed["salt"])
        key = argon2id.kdf(SecretBox.KEY_SIZE, passphrase.encode(), salt, opslimit=opslimit, memlimit=memlimit)
        return SecretBox(key).decrypt(bytes.fromhex(sealed["box"]))
    except CryptoError:
        raise ConfigError("the passphrase is wrong, or the identity file is damaged") from None


def write_private(path: Path, text: str) -> None:
    """Write a new file with mode 0600, completely or not at all. ``ConfigError`` if it exists or cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with staged_file(path, 0o600) as staged:
            staged.write_text(text, encoding="ascii")
            sync(staged)
            os.link(staged, path)  # A rename would replace an existing key, which could be the only copy; a link fails.
            sync(path.absolute().parent)
    except FileExistsError:
        raise ConfigError(f"{path} exists already, and a key file is never overwritten: choose another name") from None
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None


def read_private(path: Path) -> str:
    """Read a key file. ``ConfigError`` if it is missing, not ASCII, or if other users have any access to it."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path} is not a regular file")
        if status.st_mode & 0o077:
            raise ConfigError(f"other users can read {path}; protect it: chmod 600 {path}")
        with path.open("rb") as file:
            return file.read(_MAX_FILE_BYTES).decode("ascii")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a Culm identity file") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
