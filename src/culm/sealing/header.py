"""The header of a sealed payload: a bounded look, before any key is tried (docs/specs/sealed.md, "A sealed payload").

The header is text. Its first line names the format, then come *stanzas*, one for each reader, each with the file key
encrypted for that reader, and a line with a MAC ends it::

    age-encryption.org/v1
    -> ssh-ed25519 eivTJw FrXQ5xsDk7DEVt64s26vttJCGiifHtCxj2f/GKGcP2g
    uDnI8WOV7k2shhNIrL/3SUM0SFeNOlrANUJvxcK6Np8
    --- ERriAQJz6P23h7QcLsth/XFuMIpBdBG6BzMQms7WNng

The header comes from the author of the entry, and the library that reads it has no limit. It parses a header from its
beginning with each buffer that it reads, so that the time grows with the square of the length: half a second for 1,000
readers, forty seconds for 10,000. A stanza of kind ``scrypt`` can demand any amount of memory and time. So this module
looks first, and refuses what is too long, and every passphrase. What passes is checked by the library, MAC included.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from culm.errors import SealedPayload
from culm.sealing.mark import FIRST_LINE, is_sealed

MAX_READERS = 1000
"""Readers of a payload. A stanza has about 110 bytes, so as many fit into the header."""
MAX_HEADER_BYTES = 128 * 1024
"""Bytes of a header with its MAC. The library reads one of this length in half a second, and a double one in two."""
_END = b"\n--- "
_MAC_LINE_BYTES = 43 + 1  # 32 bytes in base64 without padding, and the end of the line
_FOR_IDENTITIES, _FOR_AGE_KEYS = "ssh-ed25519", "X25519"
_TAG_CHARACTERS = 6  # of the four bytes that tell a reader of an ssh-ed25519 stanza, in base64


@dataclass(frozen=True, slots=True)
class Header:
    """What a header shows to everybody: ``tags`` of readers that are identities, the number of readers that are not."""

    tags: tuple[str, ...]
    age_keys: int

    @property
    def readers(self) -> int:
        """How many readers the payload has."""
        return len(self.tags) + self.age_keys

    def may_open(self, author: bytes) -> bool:
        """Whether this identity is among the readers; a wrong yes has a chance of one in four billion each."""
        return tag_of(author) in self.tags


def tag_of(author: bytes) -> str:
    """How an ``ssh-ed25519`` stanza names its reader: the beginning of the SHA-256 of the key in SSH's encoding."""
    return b64encode(sha256(ssh_key(author)).digest()[:4]).decode()[:_TAG_CHARACTERS]


def ssh_key(author: bytes) -> bytes:
    """An identity's public key in SSH's encoding (RFC 8709, section 4): two strings, each with its length before it."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", author))


def read_start(pieces: Iterable[bytes]) -> bytes:
    """Take pieces of a sealed payload until its header is whole; the bytes taken, which may go on behind the header.

    ``SealedPayload`` if the header does not end within ``MAX_HEADER_BYTES``.
    """
    start = bytearray()
    for piece in pieces:
        start += piece
        if (end := _end_of(start)) is not None and end <= len(start):
            return bytes(start)
        if len(start) > MAX_HEADER_BYTES:
            break
    if len(start) <= MAX_HEADER_BYTES:
        raise SealedPayload("it ends within its header")
    raise SealedPayload(
        f"its header is longer than {MAX_HEADER_BYTES:,} bytes, so it is damaged, or has more than {MAX_READERS:,}"
        " readers"
    )


def _end_of(data: bytes | bytearray) -> int | None:
    """Where the header ends; None if that is not within the limit."""
    mac = data.find(_END, 0, MAX_HEADER_BYTES - _MAC_LINE_BYTES)
    return None if mac < 0 else mac + len(_END) + _MAC_LINE_BYTES


def parse_header(start: bytes) -> Header:
    """Read the header that ``read_start`` found; ``SealedPayload`` if it is none, or one that Culm does not open."""
    end = start.find(_END, 0, MAX_HEADER_BYTES)
    if not is_sealed(start) or end < 0:
        raise SealedPayload("it has no whole header")
    tags: list[str] = []
    age_keys = 0
    for line in start[len(FIRST_LINE) : end].split(b"\n"):
        if not line.startswith(b"-> "):
            continue  # the body of a stanza, which only its reader understands
        kind, *arguments = line[3:].decode("ascii", errors="replace").split(" ")
        if kind == "scrypt":
            raise SealedPayload(
                "it is sealed with a passphrase, and Culm tries none: the author of the payload would choose how much"
                " memory and time that takes"
            )
        if kind == _FOR_IDENTITIES:
            tags.append(arguments[0] if arguments else "")
        age_keys += kind == _FOR_AGE_KEYS
    if len(tags) + age_keys > MAX_READERS:
        raise SealedPayload(f"it has {len(tags) + age_keys:,} readers; accepted: up to {MAX_READERS:,}")
    return Header(tuple(tags), age_keys)
