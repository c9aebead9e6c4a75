"""Addresses of peers and listeners: protocol, host and port, as in ``bushbaby://HOST:PORT``.

The address of a ``culm://`` listener also has its key, as in ``culm://KEY@HOST:PORT``: everybody with the address can
check who answers, and needs no directory.

A peer may also be a command, ``intervals+exec:ssh HOST culm serve --stdio``, or a Unix socket, ``intervals+unix:PATH``
(``culm.node.network.pipes``). Without a protocol these mean intervals, or negentropy where sets are compared.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self
from urllib.parse import SplitResult, urlsplit

from culm.errors import ConfigError
from culm.wire.places import author_text, parse_author

SCHEMES = ("culm", "bushbaby", "intervals", "proposals")
"""Protocols by which both sides bring each other entries."""
WEB_SCHEMES = ("ws", "wss")
"""Intervals in a WebSocket: for web pages, and for nodes that reach others only through a proxy."""
CALL_SCHEMES = (*SCHEMES, *WEB_SCHEMES)
"""Protocols by which a node calls peers."""
LISTENER_SCHEMES = (*SCHEMES, "negentropy", *WEB_SCHEMES)
"""Protocols by which a node can be called."""
_WAYS = {"exec": "exec", "stdio": "exec", "unix": "unix"}
"""What may stand in front of the colon instead of a host and a port, and how a connection is made then."""
_SECURE = ("culm",)  # Protocols inside TLS, in which the listener proves the identity that its address names as KEY@.
_WITH_HOST = ("culm", *WEB_SCHEMES)  # Protocols that need a host: TLS and WebSocket bring nothing over a pipe.

PIPE_SCHEMES = tuple(scheme for scheme in LISTENER_SCHEMES if scheme not in _WITH_HOST)
"""Protocols that also work over a pipe or a Unix socket."""

UNIX_FORM, EXEC_FORM = "PROTOCOL+unix:PATH", "PROTOCOL+exec:COMMAND"
"""What addresses without a host look like; PROTOCOL is any but culm, ws and wss."""


def forms(schemes: Sequence[str], *, listening: bool = False) -> list[str]:
    """What addresses with a host look like, for messages. Only an address to connect to needs the listener's key.

    ``ws`` is not among the addresses to connect to: it is for this machine alone.
    """
    if not listening and "wss" in schemes:
        schemes = [scheme for scheme in schemes if scheme != "ws"]
    return [f"{scheme}://{'KEY@' if scheme in _SECURE and not listening else ''}HOST:PORT" for scheme in schemes]


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by a name or address that never leaves it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_address(text: str) -> bool:
    """Whether a text is meant as an address, and not as a path."""
    return "://" in text or _way(text) is not None


def _way(text: str) -> tuple[str, str] | None:
    """The protocol (empty if none is named) and the way of an address without a host; None if it has one."""
    front, colon, _ = text.partition(":")
    protocol, _, way = front.rpartition("+")
    return (protocol, _WAYS[way]) if colon and way in _WAYS else None


@dataclass(frozen=True, slots=True)
class PeerUrl:
    """Where to listen or to connect, and by which protocol. As text, IPv6 addresses stand in brackets.

    ``key``: the identity (32 bytes) that the listener has to prove; None with protocols other than ``culm://``, and
    before a listener is started. ``via``: empty with TCP; else ``host`` is a command (``exec``), the path of a socket
    (``unix``), or this process's own stdin and stdout (``stdio``). ``path``: empty, or that of a WebSocket behind a
    proxy that has others besides.
    """

    scheme: str
    host: str
    port: int
    key: bytes | None = None
    via: str = ""
    path: str = ""

    @classmethod
    def parse(cls, text: str, *, schemes: Sequence[str] = CALL_SCHEMES, may_be_zero: bool = False) -> Self:
        """Read an address; ``ConfigError`` if it is none, or has another protocol than one of ``schemes``.

        ``may_be_zero``: the address is one to listen at, so that port 0 (any free one) is allowed and no key is needed.
        """
        if not isinstance(text, str):
            raise TypeError(f"an address is text such as culm://KEY@HOST:PORT, not {type(text).__name__}")
        if (found := _way(text)) is not None:
            return cls._without_host(text, *found, schemes, is_listener=may_be_zero)
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
            parts = urlsplit("")
        has_path = parts.scheme in WEB_SCHEMES and not may_be_zero
        path = parts.path.rstrip("/") if has_path else ""
        more = _has_more(text, parts, has_path=has_path)
        if host is None or port is None or parts.scheme not in schemes or more:
            meant = [scheme for scheme in schemes if text.startswith(f"{scheme}://")]
            expected = " or ".join(forms(meant or schemes, listening=may_be_zero))
            if host is not None and parts.scheme in LISTENER_SCHEMES and not meant:
                raise ConfigError(f"{text!r}: {parts.scheme} cannot do this; expected {expected}")
            if text.startswith("culm:") and not text.startswith("culm:/"):
                raise ConfigError("this is an invitation, and not an address; take it with: culm join URL")
            raise ConfigError(f"{text!r} is not an address; expected {expected}")
        if parts.username is not None and parts.scheme not in _SECURE:
            raise ConfigError(f"{text!r}: only a culm:// address has a key; leave out what stands before the @")
        key = None if parts.username is None else parse_author(parts.username)
        url = cls(parts.scheme, host, port, key, path=path)
        if not may_be_zero:
            url._check_callable(text)
        return url

    def _check_callable(self, text: str) -> None:
        """Raise ``ConfigError`` if nobody can be called at this address, given as ``text``."""
        if not self.port:
            raise ConfigError(f"{text!r}: no node can be reached at port 0; use the port that the listener printed")
        if self.is_secure and self.key is None:
            raise ConfigError(f"{text!r} lacks the listener's key; expected {self.scheme}://KEY@HOST:PORT")
        if self.scheme == "ws" and not is_loopback(self.host):
            raise ConfigError(
                f"{text!r}: ws:// is not encrypted, so it reaches this machine only, such as 127.0.0.1; use wss://"
            )

    @classmethod
    def _without_host(cls, text: str, scheme: str, via: str, schemes: Sequence[str], *, is_listener: bool) -> Self:
        scheme = scheme or ("intervals" if "intervals" in schemes else schemes[0])
        rest = text.partition(":")[2]
        if scheme not in schemes or scheme in _WITH_HOST:
            others = " or ".join(name for name in schemes if name not in _WITH_HOST)
            raise ConfigError(f"{text!r}: a command or a Unix socket works with {others} only, not with {scheme}")
        if via == "exec" and is_listener:
            raise ConfigError(f"{text!r} is a command, at which no node can listen; it can run: culm serve --stdio")
        try:
            is_usable = "\0" not in rest and bool(shlex.split(rest) if via == "exec" else rest)
        except ValueError:  # A quotation mark that is not closed.
            is_usable = False
        if not is_usable:
            raise ConfigError(f"{text!r}: expected a {'command' if via == 'exec' else 'path'} behind the colon")
        return cls(scheme, rest, 0, via=via)

    @property
    def protocol(self) -> str:
        """What is spoken there: the scheme, or ``intervals`` where they are inside a WebSocket."""
        return "intervals" if self.scheme in WEB_SCHEMES else self.scheme

    @property
    def is_secure(self) -> bool:
        """Whether connections use TLS, in which the listener proves its identity."""
        return self.scheme in _SECURE

    def __str__(self) -> str:
        if self.via:
            return f"{self.scheme}+{self.via}:{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        key = "" if self.key is None else f"{author_text(self.key)}@"
        return f"{self.scheme}://{key}{host}:{self.port}{self.path}"


def _has_more(text: str, parts: SplitResult, *, has_path: bool) -> bool:
    """Whether an address has more than protocol, key, host and port, or anything that ``urlsplit`` silently drops."""
    more = (parts.path and not has_path) or parts.query or parts.fragment or parts.password is not None
    return bool(more) or text.endswith(("?", "#")) or not text.isprintable() or " " in text
