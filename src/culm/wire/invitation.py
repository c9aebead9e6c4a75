"""Invitations: one URL that brings a person to a node.

Specification: docs/specs/invitation.md, "What an invitation holds", "Format", "Text", "Refusing", "Example".

To reach a node and read its logs, a person needs its address, its key and its clump, and has to know which logs to ask
for. Each is long, and a mistake in one of them gives nothing but a refused connection. So an invitation carries all of
them, with a checksum that tells a mistyped character from a node that is down.

It is text of letters and digits in base32. That takes a fifth more than base64, but it has no characters that end a
double click, capital and small letters mean the same, and a QR code has a mode for it that makes up for the length.

An invitation holds the clump, which is a secret, and is not encrypted: who has the URL has what it says. The expiry
binds ``culm join`` alone.
"""

from __future__ import annotations

import re
from base64 import b32decode, b32encode
from binascii import Error as Base32Error
from dataclasses import dataclass
from hashlib import blake2b
from ipaddress import AddressValueError, IPv6Address
from typing import Self

from culm.bamboo.varu64 import decode_varu64, encode_varu64
from culm.errors import ConfigError, EncodingError, Truncated
from culm.types import Log
from culm.wire.places import is_name

SCHEME = "culm:"
VERSION = 1
MAX_CHARS = 2000
"""The longest URL. Browsers, mail programs and QR codes all take as many."""
MAX_ADDRESSES, MAX_LOGS, MAX_CLUMP_BYTES, MAX_HOST_CHARS = 8, 32, 255, 253
END_OF_TIME = 253_402_300_800
"""Seconds since 1970 at the beginning of the year 10000, before which an invitation has to expire: no calendar that
Python has goes on behind it."""

Address = tuple[str, int]
"""A host (name, IPv4 or IPv6 address, without brackets, in small letters) and a port, at which ``culm://`` answers."""

_KEY_BYTES, _CHECK_BYTES, _MOST_PORT = 32, 4, 65535
_READER = 1  # The bit of the flags that says so.
_OWN, _OTHER = 0, 1  # Whether a log is the inviter's own, or its author's key follows.
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Invitation:
    """What an invitation says. ``key`` is the node's identity (32 bytes), and that of the person who invites.

    ``addresses``: one or more. ``clump``: empty if there is none. ``logs``: to follow; empty for all of the clump.
    ``name``: what the inviter suggests to be called, or empty. ``expires``: seconds since 1970, 0 for never.
    ``as_reader``: the person who joins only reads, so that ``culm join`` keeps their own logs out of the clump.
    """

    key: bytes
    addresses: tuple[Address, ...]
    clump: bytes = b""
    logs: tuple[Log, ...] = ()
    name: str = ""
    expires: int = 0
    as_reader: bool = False

    def __post_init__(self) -> None:
        """``ConfigError`` for what no invitation can say."""
        if not self.addresses or len(self.addresses) > MAX_ADDRESSES:
            raise ConfigError(f"an invitation has 1 to {MAX_ADDRESSES} addresses, not {len(self.addresses)}")
        if len(self.logs) > MAX_LOGS:
            raise ConfigError(f"an invitation names at most {MAX_LOGS} logs, not {len(self.logs)}")
        if len(set(self.addresses)) < len(self.addresses) or len(set(self.logs)) < len(self.logs):
            raise ConfigError("an invitation names each address and each log once")
        if len(self.clump) > MAX_CLUMP_BYTES:
            raise ConfigError(f"the clump has {len(self.clump)} bytes; an invitation takes {MAX_CLUMP_BYTES}")
        if self.name and not is_name(self.name):
            raise ConfigError(f"{self.name!r} cannot be a name in an invitation")
        if not 0 <= self.expires < END_OF_TIME:
            raise ConfigError("an invitation expires before the year 10000")
        for host, port in self.addresses:
            if not _is_host(host) or not 0 < port <= _MOST_PORT:
                raise ConfigError(f"{host!r} with port {port} cannot be an address in an invitation")

    def encode(self) -> bytes:
        """The bytes of the invitation."""
        out = bytearray([VERSION, _READER if self.as_reader else 0])
        out += self.key + encode_varu64(self.expires)
        _push(out, self.clump)
        _push(out, self.name.encode())
        out += encode_varu64(len(self.addresses))
        for host, port in self.addresses:
            _push(out, host.encode())
            out += encode_varu64(port)
        out += encode_varu64(len(self.logs))
        for author, log_id in self.logs:
            out += bytes([_OWN]) if author == self.key else bytes([_OTHER]) + author
            out += encode_varu64(log_id)
        return bytes(out + _check(out))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read an invitation; ``ConfigError`` for bytes that are none. There is one encoding for what one can say."""
        if not data:
            raise ConfigError("the invitation is empty")
        if data[0] != VERSION:
            raise ConfigError(
                f"the invitation has version {data[0]}, and this program reads {VERSION}: install a newer one"
            )
        if _check(data[:-_CHECK_BYTES]) != data[-_CHECK_BYTES:]:
            raise ConfigError("the invitation has a mistake: its checksum differs; copy the whole URL once more")
        try:
            reader = _Reader(data[1:-_CHECK_BYTES])
            flags = reader.byte(_READER)
            found = cls(
                key=(key := reader.take(_KEY_BYTES)),
                expires=reader.number(),
                clump=reader.text(),
                name=reader.text().decode("ascii"),
                addresses=tuple(
                    (reader.text().decode("ascii"), reader.number()) for _ in range(reader.count(MAX_ADDRESSES))
                ),
                logs=tuple((reader.author(key), reader.number()) for _ in range(reader.count(MAX_LOGS))),
                as_reader=flags == _READER,
            )
            reader.expect_end()
        except (EncodingError, ValueError) as error:
            raise ConfigError(f"the invitation is malformed: {error}") from None
        return found

    def url(self) -> str:
        """The invitation as text; ``ConfigError`` if it is longer than ``MAX_CHARS``."""
        text = SCHEME + b32encode(self.encode()).decode().rstrip("=").lower()
        if len(text) > MAX_CHARS:
            raise ConfigError(
                f"the invitation has {len(text)} characters, and {MAX_CHARS} are the most; name fewer logs or addresses"
            )
        return text

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a URL, in capital or small letters; ``ConfigError`` if it is not an invitation. Reads ``MAX_CHARS``."""
        if len(text) > MAX_CHARS:
            raise ConfigError(f"this is not an invitation: it is longer than {MAX_CHARS} characters")
        if not text[: len(SCHEME)].lower() == SCHEME:
            raise ConfigError(f"{text[:20]!r} is not an invitation: one begins with {SCHEME}")
        if text[len(SCHEME) :].startswith("//"):
            raise ConfigError("this is the address of a node, not an invitation; try it with: culm sync ADDRESS")
        code = text[len(SCHEME) :].upper()
        try:
            data = b32decode(code + "=" * (-len(code) % 8))
        except (Base32Error, ValueError):
            data = b""
        if not data or b32encode(data).decode().rstrip("=") != code:
            raise ConfigError("the invitation is cut off, or has a character that none has; copy the whole URL again")
        return cls.decode(data)


def _check(data: bytes | bytearray) -> bytes:
    return blake2b(data, digest_size=_CHECK_BYTES).digest()


def _push(out: bytearray, data: bytes) -> None:
    out += encode_varu64(len(data)) + data


def _is_host(host: str) -> bool:
    if ":" not in host or "%" in host:  # A zone, as in fe80::1%eth0, means nothing on another machine.
        return len(host) <= MAX_HOST_CHARS and _HOST.fullmatch(host) is not None
    try:
        return str(IPv6Address(host)) == host
    except AddressValueError:
        return False


class _Reader:
    """Pulls the fields of an invitation, one after the other; ``EncodingError`` for one that is not there."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise Truncated("a field is cut off", self._at)
        self._at += size
        return found

    def number(self) -> int:
        """A VarU64."""
        number, self._at = decode_varu64(self._data, self._at)
        return number

    def byte(self, most: int) -> int:
        """A byte of at most ``most``."""
        if (found := self.take(1)[0]) > most:
            raise EncodingError(f"{found} is above {most}", self._at - 1)
        return found

    def count(self, most: int) -> int:
        """A VarU64 of at most ``most``."""
        if (found := self.number()) > most:
            raise EncodingError(f"{found} items, and {most} are the most", self._at)
        return found

    def text(self) -> bytes:
        """Bytes behind their number."""
        return self.take(self.number())

    def author(self, own: bytes) -> bytes:
        """The author of a log; ``own`` is the inviter's key, which is never written out."""
        if self.byte(_OTHER) == _OWN:
            return own
        if (author := self.take(_KEY_BYTES)) == own:
            raise EncodingError("the inviter's key is written out", self._at)
        return author

    def expect_end(self) -> None:
        """``EncodingError`` unless all bytes have been read."""
        if self._at < len(self._data):
            raise EncodingError(f"{len(self._data) - self._at} bytes follow", self._at)
