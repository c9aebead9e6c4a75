"""TLS for ``culm://``: a certificate made from an identity, and what the other side's certificate proves.

On the web, a certificate binds a *name* to a key, and an authority that both sides trust signs it. Culm has neither
names nor authorities: an address contains the listener's key itself. What remains useful of TLS is encryption, and the
proof in its handshake that the listener holds the private key of the certificate it shows.

So a listener makes its own certificate, from its identity's Ed25519 key, and signs it itself. Names and dates in it
mean nothing. The caller takes any certificate, reads the key out of it (``peer_key``), and compares that with the key
in the address. If they differ, somebody else answers there.

The caller shows no certificate, because Python's ``ssl`` cannot accept a client certificate that no authority has
signed. It proves its key inside the encrypted connection instead (``culm.session.handshake``). TLS 1.3 only.

Specification: docs/specs/culm.md, "Addresses and TLS".
"""

import asyncio
import os
import secrets
import ssl
import tempfile
from datetime import UTC, datetime
from functools import lru_cache

from culm.bamboo import Identity
from culm.errors import RemoteProtocolError

ALPN = "culm/1"
"""The name of the protocol inside, as both sides tell each other in the TLS handshake."""
_FROM = datetime(2020, 1, 1, tzinfo=UTC)  # Fixed, so that an identity has one certificate; nobody looks at it.
_UNTIL = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # RFC 5280: "no well-defined expiration date"


def listening_context(identity: Identity) -> ssl.SSLContext:
    """The TLS context of a listener whose identity is ``identity``."""
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # Sessions are never resumed: a resumed one would skip the proof of the listener's key.
    _load(context, identity)
    return context


@lru_cache(1)
def calling_context() -> ssl.SSLContext:
    """The TLS context of a caller. It accepts any certificate, so the caller must compare ``peer_key`` itself."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # There is no authority to ask. ``connect`` compares the key with the address.
    return context


def _context(side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols([ALPN])
    return context


def _load(context: ssl.SSLContext, identity: Identity) -> None:
    """Give a context the identity's key and a certificate for it.

    ``ssl`` reads both from files only. The file lives for a moment, and the key in it is encrypted with a random
    password, so that a copy of the disk, or a crash at this moment, does not reveal the key.
    """
    from cryptography import x509  # noqa: PLC0415 - takes long to load
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    key = Ed25519PrivateKey.from_private_bytes(identity.seed)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity.public.hex())])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=int.from_bytes(identity.public[:16], "big") >> 1 or 1,
        not_valid_before=_FROM,
        not_valid_after=_UNTIL,
    )
    certificate = builder.sign(key, None)
    password = secrets.token_bytes(32).hex().encode()
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    sealed = key.private_bytes(pem, form, serialization.BestAvailableEncryption(password))
    handle, path = tempfile.mkstemp(prefix="culm-")  # Nobody but us may read it: mode 0600.
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate.public_bytes(pem) + sealed)
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)  # noqa: PTH108 - beside mkstemp


def peer_key(writer: asyncio.StreamWriter) -> bytes:
    """The listener's key (32 bytes) that a TLS connection has proved.

    ``RemoteProtocolError`` if the certificate cannot be read or holds no Ed25519 key.
    """
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    tls = writer.get_extra_info("ssl_object")
    data = tls.getpeercert(binary_form=True)
    try:
        key = x509.load_der_x509_certificate(data or b"").public_key()
    except ValueError as error:
        raise RemoteProtocolError(f"the peer's certificate cannot be read: {error}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise RemoteProtocolError("the peer's certificate holds no Ed25519 key, so it is not a Culm node's")
    return key.public_bytes_raw()
