"""Announcements: how a node tells the members of its clump, on the same network, where it is.

Specification: docs/specs/neighbours.md, "What an announcement holds", "The MAC", "Refusing", "Example".

Everybody on a network hears what is announced there, and can announce anything. So a node cannot call all that it
hears: a stranger could have it call a million addresses. An announcement therefore carries a MAC that only members of
the clump can make. It covers the key and the addresses, so a stranger cannot lead members elsewhere either. It covers
the hour, so that what was heard once cannot be repeated the next day.

The MAC is keyed BLAKE2b. BLAKE2b takes a key of 64 bytes at most and a clump can be longer, so the key is the clump's
hash. The two uses are told apart by BLAKE2b's own parameter for that, ``person``.

Nothing here reads a clock: ``now`` is an argument, in seconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest
from ipaddress import IPv4Address, IPv6Address, ip_address

from culm.errors import EncodingError, Truncated

VERSION = 1
MAX_ADDRESSES = 4
"""Of a node: a cable and a radio, each with both kinds of addresses."""
HOUR_SECONDS = 3600
STRONG_BYTES = 16
"""From this length on a clump can be random enough that nobody guesses it from a MAC. A shorter one never is."""

Address = tuple[IPv4Address | IPv6Address, int]
"""An IP address and a port, at which ``culm://`` answers."""

_KEY_BYTES, _MAC_BYTES = 32, 32
_FOR_KEY, _FOR_MAC = b"culm lan clump 1", b"culm neighbour 1"
_HEAD_BYTES = 1 + _KEY_BYTES + 1
MAX_BYTES = _HEAD_BYTES + MAX_ADDRESSES * (1 + 16 + 2) + _MAC_BYTES
"""The longest announcement, 142 bytes: with its name it fits into one string of a TXT record, which takes 255."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """``key``: the node's identity (32 bytes). ``addresses``: one to ``MAX_ADDRESSES``, the best one first."""

    key: bytes
    addresses: tuple[Address, ...]

    def __post_init__(self) -> None:
        """``EncodingError`` for what no announcement can say."""
        if not 0 < len(self.addresses) <= MAX_ADDRESSES or len(set(self.addresses)) < len(self.addresses):
            raise EncodingError(f"an announcement has 1 to {MAX_ADDRESSES} addresses, each once", _HEAD_BYTES - 1)
        for host, port in self.addresses:
            if not is_callable(host) or not port:
                raise EncodingError(f"no node can be called at {host} with port {port}", _HEAD_BYTES)


def is_callable(host: IPv4Address | IPv6Address) -> bool:
    """Whether a node of the same network can be called at an address that is written without a zone."""
    if isinstance(host, IPv6Address) and (host.ipv4_mapped is not None or host.is_link_local):
        return False
    return not (host.is_multicast or host.is_unspecified or host == IPv4Address(0xFFFFFFFF))


def clump_key(clump: bytes) -> bytes:
    """The key that a clump's members use for announcements (32 bytes)."""
    return blake2b(clump, digest_size=32, person=_FOR_KEY).digest()


def seal(announcement: Announcement, key: bytes, now: float) -> bytes:
    """The bytes of an announcement, with the MAC of this hour; ``key`` is the clump's (``clump_key``)."""
    out = bytearray([VERSION])
    out += announcement.key + bytes([len(announcement.addresses)])
    for host, port in announcement.addresses:
        out += bytes([host.version]) + host.packed + port.to_bytes(2, "big")
    return bytes(out + _mac(out, key, int(now // HOUR_SECONDS)))


def unseal(data: bytes, key: bytes, now: float) -> Announcement:
    """Read an announcement of this hour, the one before or the one after.

    ``EncodingError`` for bytes that are malformed, or whose MAC is not of this clump and of one of these hours. The MAC
    is checked first, so that a stranger learns nothing by how something else is refused.
    """
    if not _HEAD_BYTES + _MAC_BYTES < len(data) <= MAX_BYTES:
        raise Truncated(f"{len(data)} bytes are no announcement", min(len(data), MAX_BYTES))
    if data[0] != VERSION:
        raise EncodingError(f"version {data[0]} is unknown", 0)
    body, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
    hour = int(now // HOUR_SECONDS)
    if not any(compare_digest(mac, _mac(body, key, hour + off)) for off in (0, -1, 1) if hour + off >= 0):
        raise EncodingError("the MAC is of another clump or hour", len(body))
    addresses, at = [], _HEAD_BYTES
    for _ in range(body[_HEAD_BYTES - 1]):
        address, at = _pull_address(body, at)
        addresses.append(address)
    if at < len(body):
        raise EncodingError(f"{len(body) - at} bytes follow the addresses", at)
    return Announcement(body[1 : 1 + _KEY_BYTES], tuple(addresses))


def _mac(body: bytes | bytearray, key: bytes, hour: int) -> bytes:
    return blake2b(hour.to_bytes(8, "big") + body, digest_size=_MAC_BYTES, key=key, person=_FOR_MAC).digest()


def _pull_address(body: bytes, at: int) -> tuple[Address, int]:
    if at == len(body):
        raise Truncated("an address is missing", at)
    size = {4: 4, 6: 16}.get(body[at])
    if size is None:
        raise EncodingError(f"an address of version {body[at]}", at)
    end = at + 1 + size + 2
    if end > len(body):
        raise Truncated("an address is cut off", at)
    return (ip_address(body[at + 1 : at + 1 + size]), int.from_bytes(body[end - 2 : end], "big")), end
