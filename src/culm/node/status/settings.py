"""The settings of a status page: its address, its token and its limits."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Self
from urllib.parse import urlsplit

from culm.errors import ConfigError

LEAST_TOKEN = 16  # Characters. A shorter token could be guessed over the network.
MOST_TOKEN = 256  # characters, so that it fits into a header and an address
_LOCAL_NAME = "localhost"


@dataclass(frozen=True, slots=True)
class StatusSettings:
    """``port`` 0 is any free one. ``token``: what a viewer must present; None, on this machine only: nothing.

    ``tick``: seconds between two looks at what has changed. ``patience``: the most seconds that a request can take, and
    that a viewer can leave messages unread. ``most_viewers``: the most that follow live at once. ``most_connections``
    limits open connections, because each takes a file descriptor that the node needs for peers; ``most_from_address``
    those of one address. ``payloads``: whether viewers see payloads, too.
    """

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    tick: float = 1.0
    patience: float = 10.0
    most_viewers: int = 32
    most_connections: int = 256
    most_from_address: int = 64
    payloads: bool = False

    @classmethod
    def parse(cls, text: str, token: str | None = None, *, payloads: bool = False) -> Self:
        """Read ``HOST:PORT``; ``ConfigError`` if it is malformed, or open to other machines without a good token."""
        try:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if not host or port is None or parts.netloc != text or "@" in text:
            raise ConfigError(f"--http {text}: expected HOST:PORT, for example 127.0.0.1:8484")
        settings = cls(host, port, token, payloads=payloads)
        settings.check()
        return settings

    def check(self) -> None:
        """Raise ``ConfigError`` if other machines could see the page without a good token."""
        if self.token is None:
            if not self.is_local:
                raise ConfigError(
                    f"--http {self.host}:{self.port} would be open to other machines: set a token, in CULM_HTTP_TOKEN"
                    " or with --http-token-file FILE in a file that only you can read"
                )
        elif not LEAST_TOKEN <= len(self.token) <= MOST_TOKEN or not self._is_plain(self.token):
            raise ConfigError(
                f"the token of the status page must have {LEAST_TOKEN} to {MOST_TOKEN} letters, digits, '-' or '_'"
            )

    @staticmethod
    def _is_plain(token: str) -> bool:
        return token.isascii() and token.replace("-", "").replace("_", "").isalnum()

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the page."""
        return self.host == _LOCAL_NAME or _is_loopback(self.host)

    def is_ours(self, host: str) -> bool:
        """Whether a request's ``Host`` is a name of this machine that no other site can point at it."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in (self.host, _LOCAL_NAME) or _is_loopback(name)


def _is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:  # a name, not an address
        return False
