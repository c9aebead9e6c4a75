"""Who may read from a node at ``ws://`` and ``wss://``, and by what certificate it is reached there.

A browser lets any page open a WebSocket to any address, also to 127.0.0.1, where the page's author could never connect
by themselves. It only says which site the page is from, in ``Origin``, and no script can change that. So a page is
served only if its origin is in the list, and an empty list serves no page. A program sends no ``Origin``. It can
connect to a listener of any protocol, so the list is no obstacle for it and not meant to be.

Pages only read. A program that calls, such as a node behind a proxy, may bring entries, too, but only where the
operator says so (``exchange``), because a listener for pages is often open to everybody.

A *token* keeps out readers without it. A page cannot set headers of a WebSocket other than the list of subprotocols, so
the token is one of these. In the address it would end up in the logs of proxies.

``ws://`` is not encrypted, so a node listens there only on the loopback: for pages of this machine, and for a proxy
that adds TLS.

Certificates are renewed every few weeks, and tokens are taken back. So the files are looked at with each caller, and
read anew when they have changed (``WebFiles``). Two files of a pair are never replaced at the same moment. What cannot
be used is therefore no reason to stop: the node goes on with what it had, says so, and looks again at the next change.

Specification: docs/specs/intervals.md, "Over a WebSocket".
"""

import hmac
import logging
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Self, TypeVar
from urllib.parse import urlsplit

from culm.bamboo.keyfile import read_private
from culm.errors import ConfigError
from culm.node.network.urls import PeerUrl, is_loopback

PROTOCOL = "culm-intervals"
"""The subprotocol that a caller has to offer. The node chooses it for callers that only read."""
EXCHANGE = "culm-intervals-exchange"
"""The subprotocol that a program offers besides. The node chooses it if it takes entries from the program."""
TOKEN_PREFIX = "culm-token."  # noqa: S105 - a prefix
"""In front of the token, among the subprotocols."""
ANY_ORIGIN = "*"
LEAST_TOKEN, MOST_TOKEN = 16, 256  # Characters, as of the status page: a shorter token could be guessed.
_MOST_FILE = 64 * 1024  # Bytes of a file of tokens. Hundreds fit; each caller is compared with all of them.
_logger = logging.getLogger("culm.node")
Value = TypeVar("Value")


def read_origin(text: str) -> str:
    """An origin as browsers write it, such as ``https://example.org``, or ``*`` for any; ``ValueError`` if it is none.

    A path or a slash at the end is refused, because an origin with one would never match.
    """
    try:
        parts = urlsplit(text)
        is_whole = parts.hostname is not None and text == f"{parts.scheme}://{parts.netloc}" == text.lower()
        _ = parts.port
    except ValueError:
        is_whole = False
        parts = urlsplit("")
    if text != ANY_ORIGIN and (not is_whole or "@" in text or parts.scheme not in ("http", "https")):
        raise ValueError("expected an origin such as https://example.org, without a path, or *")
    return text


def read_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a file, one a line; ``ConfigError`` if it has none, or one that is too short or malformed."""
    tokens = tuple(line.strip() for line in text[:_MOST_FILE].splitlines() if line.strip())
    if not tokens:
        raise ConfigError("the file of tokens for ws:// and wss:// has none; write one a line")
    for token in tokens:
        is_plain = token.isascii() and token.replace("-", "").replace("_", "").isalnum()
        if not (LEAST_TOKEN <= len(token) <= MOST_TOKEN and is_plain):
            raise ConfigError(
                f"a token for ws:// and wss:// must have {LEAST_TOKEN} to {MOST_TOKEN} letters, digits, '-' or '_'"
            )
    return tokens


@dataclass(frozen=True, slots=True)
class WebAccess:
    """``origins``: of the pages that may read. ``tokens``: one of them has to be shown; none: nobody needs one.

    ``certificate``, ``key``: files in PEM, for ``wss://``. ``token_file``: where the tokens are, in place of
    ``tokens``. ``exchange``: programs may bring entries.
    """

    origins: frozenset[str] = frozenset()
    tokens: tuple[str, ...] = field(default=(), repr=False)
    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None
    exchange: bool = False

    @classmethod
    def of(
        cls,
        origins: tuple[str, ...],
        token_file: str | None,
        certificate: str | None,
        key: str | None,
        *,
        exchange: bool = False,
    ) -> Self:
        """From settings. ``ConfigError`` if the file of tokens cannot be used."""
        first, second, third = (None if name is None else Path(name) for name in (certificate, key, token_file))
        access = cls(frozenset(origins), (), first, second, third, exchange)
        access.with_tokens()
        return access

    def with_tokens(self) -> Self:
        """The same, with what is in the file of tokens now; ``ConfigError`` if that cannot be used."""
        if self.token_file is None:
            return self
        return replace(self, tokens=read_tokens(read_private(self.token_file)))

    def check(self, url: PeerUrl) -> None:
        """Raise ``ConfigError`` if a node cannot listen at an address of a WebSocket with these settings."""
        if url.scheme == "ws" and not is_loopback(url.host):
            raise ConfigError(
                f"cannot listen at {url}: ws:// is not encrypted, so its host has to be this machine's loopback, such"
                " as 127.0.0.1; use wss:// with a certificate, or a proxy that adds TLS"
            )
        if url.scheme == "wss" and (self.certificate is None or self.key is None):
            raise ConfigError(f"cannot listen at {url}: set web_certificate_file and web_key_file, which wss:// needs")

    def tls(self) -> ssl.SSLContext:
        """The TLS context of a ``wss://`` listener; ``ConfigError`` if certificate or key cannot be used."""
        assert self.certificate is not None  # noqa: S101 - see ``check``
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3  # Every browser with WebCrypto's Ed25519 speaks it.
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without a password OpenSSL would ask for one at the terminal, where a service waits for ever.
            context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ValueError) as error:  # An ``SSLError`` is an ``OSError``.
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"cannot use {self.certificate} with {self.key} for wss://: {reason}") from None
        return context

    def objection(self, origin: str | None, subprotocols: list[str]) -> tuple[int, str] | None:
        """Why a caller is refused, with the HTTP status that says so; None if it is let in.

        ``origin``: the header's value, which only pages send.
        """
        if origin is not None and not self.origins & {origin, ANY_ORIGIN}:
            return 403, "its page is of an origin that is not in web_origins"
        if PROTOCOL not in subprotocols:
            return 400, f"it does not offer the subprotocol {PROTOCOL}"
        shown = [name.removeprefix(TOKEN_PREFIX) for name in subprotocols if name.startswith(TOKEN_PREFIX)]
        if self.tokens and not (len(shown) == 1 and self._is_known(shown[0])):
            return 401, "it shows none of the tokens in web_token_file"
        return None

    def _is_known(self, token: str) -> bool:
        given = token.encode(errors="replace")
        # All are compared, and each in constant time, so that the time tells nothing about any of them.
        return sum(hmac.compare_digest(given, known.encode()) for known in self.tokens) > 0


class WebFiles:
    """What the files of a ``WebAccess`` say, read anew when they have changed; ``ConfigError`` at the beginning."""

    def __init__(self, access: WebAccess) -> None:
        files = [access.token_file] if access.token_file else []
        self._access = _Read(files, access.with_tokens)
        self._tls: _Read[ssl.SSLContext] | None = None

    @property
    def access(self) -> WebAccess:
        """The access, with the tokens of now."""
        return self._access.value()

    def tls(self) -> ssl.SSLContext:
        """The TLS context of a ``wss://`` listener, with the certificate of now."""
        if self._tls is None:
            access = self.access
            files = [file for file in (access.certificate, access.key) if file]
            self._tls = _Read(files, access.tls)
        return self._tls.value()


class _Read(Generic[Value]):
    """A value that is read from files, and again when one of them has changed."""

    def __init__(self, files: Sequence[Path], read: Callable[[], Value]) -> None:
        self._files, self._read = files, read
        self._state = self._look()  # Before the files are read, so that no change is missed.
        self._value = read()

    def value(self) -> Value:
        """The value of now, or the last one that could be used."""
        if (state := self._look()) != self._state:
            self._state = state
            names = " and ".join(map(str, self._files))
            try:
                self._value = self._read()
            except ConfigError as error:
                reason = f"{error}; the node goes on with what it read before"
                _logger.warning("cannot use what has changed in %s", names, extra={"reason": reason})
            else:
                _logger.info("read %s anew", names)
        return self._value

    def _look(self) -> list[tuple[int, int, int] | None]:
        """What changes when a file is written, or replaced by another one; links are followed."""
        found: list[tuple[int, int, int] | None] = []
        for file in self._files:
            found.append(None)
            with suppress(OSError):
                status = file.stat()
                found[-1] = status.st_ino, status.st_mtime_ns, status.st_size
        return found
