"""Addresses of peers and listeners: protocol, host and port, as in ``bushbaby://HOST:PORT``.

The address of a ``culm://`` listener also has its key, as in ``culm://KEY@HOST:PORT``: everybody with the address can
check who answers, and needs no directory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import SplitResult, urlsplit

from culm.errors import ConfigError
from culm.wire.places import author_text, parse_author

SCHEMES = ("culm", "bushbaby", "intervals", "proposals")
"""Protocols by which a node calls peers."""
LISTENER_SCHEMES = (*SCHEMES, "negentropy")
"""Protocols by which a node can be called."""
_SECURE = ("culm",)  # Protocols inside TLS, in which the listener proves the identity that its address names as KEY@.


def forms(schemes: Sequence[str], *, listening: bool = False) -> list[str]:
    """What addresses look like, for messages. Only an address to connect to needs the listener's key."""
    return [f"{scheme}://{'KEY@' if scheme in _SECURE and not listening else ''}HOST:PORT" for scheme in schemes]


@dataclass(frozen=True, slots=True)
class PeerUrl:
    """Where to listen or to connect, and by which protocol. As text, IPv6 addresses stand in brackets.

    ``key``: the identity (32 bytes) that the listener has to prove; None with protocols other than ``culm://``, and
    before a listener is started.
    """

    scheme: str
    host: str
    port: int
    key: bytes | None = None

    @classmethod
    def parse(cls, text: str, *, schemes: Sequence[str] = SCHEMES, may_be_zero: bool = False) -> Self:
        """Read an address; ``ConfigError`` if it is none, or has another protocol than one of ``schemes``.

        ``may_be_zero``: the address is one to listen at, so that port 0 (any free one) is allowed and no key is needed.
        """
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
            parts = urlsplit("")
        if host is None or port is None or parts.scheme not in schemes or _has_more(text, parts):
            expected = " or ".join(forms(schemes, listening=may_be_zero))
            raise ConfigError(f"{text!r} is not an address; expected {expected}")
        if port == 0 and not may_be_zero:
            raise ConfigError(f"{text!r}: no node can be reached at port 0; use the port that the listener printed")
        if parts.username is None:
            if parts.scheme in _SECURE and not may_be_zero:
                raise ConfigError(f"{text!r} lacks the listener's key; expected {parts.scheme}://KEY@HOST:PORT")
            return cls(parts.scheme, host, port)
        if parts.scheme not in _SECURE:
            raise ConfigError(f"{text!r}: only a culm:// address has a key; leave out what stands before the @")
        return cls(parts.scheme, host, port, parse_author(parts.username))

    @property
    def is_secure(self) -> bool:
        """Whether connections use TLS, in which the listener proves its identity."""
        return self.scheme in _SECURE

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        key = "" if self.key is None else f"{author_text(self.key)}@"
        return f"{self.scheme}://{key}{host}:{self.port}"


def _has_more(text: str, parts: SplitResult) -> bool:
    """Whether an address has more than protocol, key, host and port, or anything that ``urlsplit`` silently drops."""
    more = parts.path or parts.query or parts.fragment or parts.password is not None
    return bool(more) or text.endswith(("?", "#")) or not text.isprintable() or " " in text
