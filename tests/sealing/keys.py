"""Keys and age itself, as the tests of sealed payloads use them."""

from __future__ import annotations

import base64
from typing import Any

import pyrage
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from culm import Identity, author_text

__all__ = ["AGE_KEY", "ALICE", "BOB", "CAROL", "NAMES", "SECRET_AGE_KEY", "age_identity", "age_recipient", "pyrage"]

__all__ = [
    "AGE_KEY",
    "ALICE",
    "BOB",
    "CAROL",
    "NAMES",
    "SECRET_AGE_KEY",
    "age_identity",
    "age_recipient",
    "pyrage",
]

ALICE, BOB, CAROL = (Identity(bytes([number]) * 32) for number in (1, 2, 3))
NAMES = {identity: author_text(identity.public) for identity in (ALICE, BOB, CAROL)}
SECRET_AGE_KEY = "AGE-SECRET-KEY-1XKUCX50WRFUEZ4NRMC048YFNUDJ9LWDMJKKR9JQGZ0635GZFDWTSSF8EZ7"
AGE_KEY = "age134agkq03v5e9f4r269qpjk0ahxlnfndqhudvamcs6fgqzcsgxppsgvqxs3"


def age_identity(identity: Identity) -> Any:
    """An identity for age's own functions, by ``cryptography`` alone."""
    key = Ed25519PrivateKey.from_private_bytes(identity.seed)
    return pyrage.ssh.Identity.from_buffer(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))


def age_recipient(identity: Identity) -> Any:
    """The same as a recipient: a line of ``authorized_keys``."""
    key = Ed25519PrivateKey.from_private_bytes(identity.seed).public_key()
    line = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    assert base64.b64decode(line.split()[1]).endswith(identity.public)
    return pyrage.ssh.Recipient.from_str(line.decode())
