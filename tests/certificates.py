"""A certificate that signs itself, for listeners of ``wss://`` in the tests: that of localhost, and of node.example."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path


def certified(folder: Path, *, password: bytes | None = None) -> tuple[Path, Path]:
    """Files of a certificate and of its key, made anew; the key is encrypted if there is a password."""
    made = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node.example")])
    begin = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    end = begin + dt.timedelta(days=36500)
    builder = x509.CertificateBuilder(name, name, made.public_key(), 1, begin, end)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.DNSName("node.example")])
    builder = builder.add_extension(names, critical=False)
    certificate, pem = folder / "certificate.pem", folder / "key.pem"
    form = serialization.Encoding.PEM
    certificate.write_bytes(builder.sign(made, SHA256()).public_bytes(form))
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pem.write_bytes(made.private_bytes(form, serialization.PrivateFormat.PKCS8, how))
    return certificate, pem
