"""Addresses of peers: ``bushbaby://HOST:PORT``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from culm.errors import ConfigError

SCHEMES = ("bushbaby",)
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class PeerUrl:
    """Where to listen or to connect, and by which protocol. IPv6 addresses stand in brackets."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str, *, may_be_zero: bool = False) -> Self:
        """Read a URL; ``ConfigError`` if it is none. Port 0 (any free one) makes sense for listening only."""
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
            parts = urlsplit("")
        if host is None or port is None or parts.scheme not in SCHEMES or parts.path or parts.query or parts.username:
            msg = f"{text!r} is not an address; expected bushbaby://HOST:PORT"
            raise ConfigError(msg)
        if port == 0 and not may_be_zero:
            msg = f"{text!r}: nobody listens at port 0"
            raise ConfigError(msg)
        return cls(parts.scheme, host, port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"
