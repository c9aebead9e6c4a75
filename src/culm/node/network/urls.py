"""Addresses: the protocol, the host and the port, as in ``bushbaby://HOST:PORT``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import SplitResult, urlsplit

from culm.errors import ConfigError
from culm.wire.places import author_text, parse_author

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMES = ("culm", "bushbaby", "intervals", "proposals")  # protocols in which we contact peers
LISTENER_SCHEMES = (*SCHEMES, "negentropy")
_SECURE = ("culm",)  # TLS, in which the listener proves the identity that the address names as ``KEY@``
_MAX_PORT = 65535


def forms(schemes: Sequence[str], *, listening: bool = False) -> list[str]:
    """What addresses look like. To connect by ``culm://`` the listener's key is needed."""
    return [f"{scheme}://{'KEY@' if scheme in _SECURE and not listening else ''}HOST:PORT" for scheme in schemes]


@dataclass(frozen=True, slots=True)
class PeerUrl:
    """Where to listen or to connect, and by which protocol. IPv6 addresses stand in brackets.

    ``key``: with ``culm://``, the listener's identity (32 bytes); nobody else is talked to.
    """

    scheme: str
    host: str
    port: int
    key: bytes | None = None

    @classmethod
    def parse(cls, text: str, *, schemes: Sequence[str] = SCHEMES, may_be_zero: bool = False) -> Self:
        """Read a URL; ``ConfigError`` if it is none. Port 0 (any free one) makes sense for listening only."""
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
            parts = urlsplit("")
        if host is None or port is None or parts.scheme not in schemes or _has_more(text, parts):
            expected = " or ".join(forms(schemes, listening=may_be_zero))
            msg = f"{text!r} is not an address; expected {expected}"
            raise ConfigError(msg)
        if port == 0 and not may_be_zero:
            msg = f"{text!r}: no node can be reached at port 0; use the port that the listener printed"
            raise ConfigError(msg)
        if parts.username is None:
            if parts.scheme in _SECURE and not may_be_zero:
                raise ConfigError(f"{text!r} lacks the listener's key; expected {parts.scheme}://KEY@HOST:PORT")
            return cls(parts.scheme, host, port)
        if parts.scheme not in _SECURE:
            raise ConfigError(f"{text!r}: only a culm:// address has a key; leave out what stands before the @")
        return cls(parts.scheme, host, port, parse_author(parts.username))

    @property
    def is_secure(self) -> bool:
        """Whether connections are TLS, in which the listener proves its identity."""
        return self.scheme in _SECURE

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        key = "" if self.key is None else f"{author_text(self.key)}@"
        return f"{self.scheme}://{key}{host}:{self.port}"


def _has_more(text: str, parts: SplitResult) -> bool:
    """Whether there is anything in an address but protocol, key, host and port; also what ``urlsplit`` passes over."""
    more = parts.path or parts.query or parts.fragment or parts.password is not None
    return bool(more) or text.endswith(("?", "#")) or not text.isprintable() or " " in text
