"""What a node is told: culm.toml, addresses, limits, its policy's file, requests for the status page, WebSockets."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from contextlib import suppress
from functools import cache
from hashlib import sha1
from typing import TYPE_CHECKING, cast

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from culm.bamboo.base62 import encode_base62
from culm.errors import ConfigError, NetworkError, ProtocolError
from culm.node.interests.policy import PolicyFile
from culm.node.lan.multicast import SERVICE, Gate, Multicast, Rates
from culm.node.names import NamesFile
from culm.node.network.urls import LISTENER_SCHEMES, PeerUrl
from culm.node.network.webaccess import WebAccess
from culm.node.network.websocket import join, upgraded
from culm.node.roster import Roster
from culm.node.settings.reading import Settings, load, read_limits
from culm.node.settings.schema import SECTIONS, Key, Section, example, written
from culm.node.status import queries
from culm.node.status.server import StatusServer
from culm.node.status.settings import StatusSettings
from culm.store import SQLiteStore
from culm.testing import build_log
from culm.wire.announcement import MAX_BYTES
from fuzz import fresh, talking
from fuzz.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.node.sharing.rates import Streams

_CLUMP = b"fuzz"
_TOKEN = "a-token-of-some-length"  # noqa: S105 - guards nothing
_AUTHOR = encode_base62(bytes(range(32))).decode()


def settings(data: bytes) -> None:
    """A file is refused, or read; what was read, written again, is read as the same."""
    found = load(fresh.file("culm.toml", data))
    text = "".join(_lines(found))
    again = load(fresh.file("again.toml", text.encode()))
    assert again.values == found.values
    assert again.peers == found.peers
    assert not set(found.origins) - {f"{section.name}.{key.name}".lstrip(".") for section, key in _keys()}


def _keys() -> Iterator[tuple[Section, Key]]:
    for section in SECTIONS:
        for key in section.keys:
            yield section, key


def _lines(found: Settings) -> Iterator[str]:
    """A file that says the same."""
    for section in SECTIONS:
        if section.name in {"peers", "peers.limits"}:
            continue
        if section.name:
            yield f"[{section.name}]\n"
        for key in section.keys:
            value = found.values[f"{section.name}.{key.name}" if section.name else key.name]
            if value is not None:
                yield f"{key.name} = {written(key, value)}\n"
    own = {key.name: key for section in SECTIONS if section.name == "peers.limits" for key in section.keys}
    peers = {key.name: key for section in SECTIONS if section.name == "peers" for key in section.keys}
    for peer in found.peers:
        yield "[[peers]]\n"
        for name in ("url", "name", "download", "upload"):
            yield f"{name} = {written(peers[name], getattr(peer, name))}\n"
        yield "[peers.limits]\n"
        for name, value in peer.limits.items():
            yield f"{name} = {written(own[name], value)}\n"


def mdns(data: bytes) -> None:
    """What is heard in a datagram was in it and is bounded; answers of others go no further."""
    heard: list[bytes] = []
    gate = Gate(None, Rates(lambda: 0.0), Multicast(heard.append)._take)  # noqa: SLF001 - as ``open`` sets it
    gate.datagram_received(_ANSWER + data, ("10.0.0.1", 5353))
    assert all(len(found) <= MAX_BYTES and b"culm=" + found in data for found in heard)
    assert sum(map(len, heard)) <= len(data)


def url(data: bytes) -> None:
    """An address is written and read as the same."""
    found = PeerUrl.parse(data.decode(errors="replace"), schemes=LISTENER_SCHEMES, may_be_zero=True)
    assert PeerUrl.parse(str(found), schemes=LISTENER_SCHEMES, may_be_zero=True) == found
    assert 0 <= found.port < 1 << 16
    assert found.host


def limits(data: bytes) -> None:
    """``--limit NAME=VALUE``: numbers that are none are refused."""
    found = read_limits(data.decode(errors="replace").split("\n"))
    assert all(value >= 0 for value in found.values())


def policy(data: bytes) -> None:
    """The policy's file is read, or called damaged; what is read is kept as the same."""
    path = fresh.file("policy.json", data)
    found = PolicyFile(path).load(_CLUMP)
    PolicyFile(path).save(_CLUMP, found)
    assert PolicyFile(path).load(_CLUMP) == found


def names(data: bytes) -> None:
    """The file of names, which comes with a backup, is read, or called damaged; a name means one key."""
    path = fresh.file("names.json", data)
    found = NamesFile(path).load()
    assert all(found.key(name.text.upper()) == key for key, name in found.of.items())
    NamesFile(path).save(found)
    assert NamesFile(path).load().of == found.of


def http(data: bytes) -> None:
    """Where the status page is served: nowhere that others can see it without a token."""
    text, _, token = data.decode(errors="replace").partition("\n")
    found = StatusSettings.parse(text, token or None)
    assert found.is_local or found.token
    assert found.is_local <= found.is_ours(text)


def search(data: bytes) -> None:
    """A search for authors finds a span of them, or is refused."""
    span, log_id = queries.authors(data.decode(errors="replace"))
    assert span is None or (span[0] <= span[1] and {len(bound) for bound in span} == {32})
    assert log_id is None or 0 <= log_id < 1 << 64


# -- web pages -----------------------------------------------------------------------------------------------------

_ACCESS = WebAccess(frozenset({"https://pages.example"}), (_TOKEN,))
_HANDSHAKE = (
    "GET / HTTP/1.1\r\nHost: node.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nOrigin: https://pages.example\r\n"
    f"Sec-WebSocket-Protocol: culm-intervals, culm-token.{_TOKEN}\r\n\r\n"
).encode()


def websocket(data: bytes) -> None:
    """A handshake ends in a connection, or as documented; no more content comes out of frames than went in."""
    asyncio.run(_content(data))


class _Unheard(talking.Streams):
    """A connection whose peer has said all that it has to say."""

    def write(self, data: bytes) -> None:
        """Nobody hears it."""


async def _content(data: bytes) -> None:
    ends = _Unheard(talking.Peer())
    ends.reader.feed_data(data)
    ends.reader.feed_eof()
    (reader, writer), _ = await upgraded(cast("Streams", (ends.reader, ends)), _ACCESS, 60)
    size = 0
    while some := await reader.read(100):
        size += len(some)
        assert size < len(data)
    writer.write(b"answer")


class _Answered(_Unheard):
    """A connection whose peer answers the request with what it has to say; ``@`` there stands for the right key."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(talking.Peer())
        self._answer: bytes | None = answer

    def write(self, data: bytes) -> None:
        """Answer, once."""
        if self._answer is not None:
            asked = re.search(rb"sec-websocket-key: (\S+)", data, re.IGNORECASE)
            assert asked is not None
            digest = sha1(asked[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False).digest()
            self.reader.feed_data(self._answer.replace(b"@", b64encode(digest)))
            self.reader.feed_eof()
            self._answer = None


def webcall(data: bytes) -> None:
    """What answers a call ends in a connection, or as documented; no more content comes out of frames than went in."""

    async def called() -> None:
        ends = _Answered(data)
        reader, _ = await join(cast("Streams", (ends.reader, ends)), PeerUrl("ws", "127.0.0.1", 80), _TOKEN)
        size = 0
        while some := await reader.read(100):
            size += len(some)
            assert size < len(data)

    asyncio.run(called())


# -- the status page -----------------------------------------------------------------------------------------------


class _Page:
    """A status server that nobody can connect to: requests are handed to it."""

    def __init__(self, *, token: str | None) -> None:
        path = fresh.folder() / "status.db"
        if not path.exists():
            with SQLiteStore(path) as store:
                _fill(store)
        self._loop = asyncio.new_event_loop()
        self._server = StatusServer(Roster(bytes(32), path), StatusSettings("127.0.0.1", 0, token))
        self._loop.run_until_complete(self._server.__aenter__())
        self._app = self._server._app()  # noqa: SLF001 - what answers, without the sockets before it
        self._app.freeze()

    def answer(self, method: str, target: str, headers: dict[str, str]) -> int:
        """The status of an answer."""
        request = make_mocked_request(method, target, headers, app=self._app)
        try:
            response = self._loop.run_until_complete(self._app._handle(request))  # noqa: SLF001
        except web.HTTPException as error:
            return error.status
        return response.status


def _fill(store: SQLiteStore) -> None:
    log = build_log(14, payload_size=9)
    store.add([*log.items(), (log.make(13, b"another"), None)])


@cache
def _page(*, guarded: bool) -> _Page:
    return _Page(token=_TOKEN if guarded else None)


_ANSWER = b"\0\0\x84"  # The first bytes of an answer: RFC 1035, section 4.1.1.
_TXT_OF = b"\0\x10\0\x01\0\0\0\x78"  # Type, class, time to live: behind it come the length and the strings.
_INSTANCE = b"\x01x" + b"".join(bytes((len(part),)) + part.encode() for part in SERVICE.split("."))
_HEARD = (
    b"\0" + b"\0\0\0\x01" + bytes(4) + _INSTANCE + _TXT_OF + b"\0\x07\x06culm=a",
    b"\0\0\0\0\x02" + bytes(4) + _INSTANCE + _TXT_OF + b"\0\0" + b"\x01y\xc0\x0e" + _TXT_OF + b"\0\x09\0\x07culm=bc",
)
_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
_STATUSES = {200, 303, 304, 400, 401, 403, 404, 405, 421}


def status(data: bytes) -> None:
    """Whatever is asked for is answered as documented; never with an error of the server's.

    The first byte says how, the first line what for, further lines are headers.
    """
    how, (target, *lines) = data[:1] or b"\0", data[1:].decode("latin-1").split("\n")
    headers = {"Host": "127.0.0.1"}
    for line in lines:
        name, _, value = line.partition(":")
        if name.isascii() and name.replace("-", "").isalnum():
            headers[name] = value.strip()
    if not target.startswith("/") or target.startswith("/events"):  # a stream, which has no end
        return
    with suppress(ValueError):  # not an address at all: the parser of requests refuses it
        code = _page(guarded=bool(how[0] & 4)).answer(_METHODS[how[0] & 3], target, headers)
        assert code in _STATUSES, code


_LOG = build_log(14, payload_size=9)
_NAME = encode_base62(_LOG.identity.public).decode()
_REQUESTS = (
    b"\x00/",
    b"\x00/api/overview",
    b"\x00/api/logs?search=a&order=name&only=all&offset=0&limit=3",
    f"\0/api/log?log={_NAME}/0".encode(),
    f"\0/api/coverage?log={_NAME}/0&low=2&high=9&cells=3".encode(),
    f"\0/api/links?log={_NAME}/0&seq=5&count=9&low=3".encode(),
    f"\0/api/evidence?log={_NAME}/0&seq=5".encode(),
    b"\x00/api/forks?offset=0&limit=1",
    f"\0/api/proof?log={_NAME}/0".encode(),
    b"\x00/metrics",
    b"\x04/?token=" + _TOKEN.encode(),
    b"\x04/healthz\nAuthorization: Bearer " + _TOKEN.encode() + b"\nCookie: culm-status-0=1",
    b"\x02/\nSec-Fetch-Site: cross-site\nHost: elsewhere",
)
_TOML = (
    example().encode(),
    (
        b'clump = "garden"\nlisten = ["culm://0.0.0.0:8483"]\nhoard = true\ninterval = 2.5\n'
        b'[limits]\nmax_rate = "1MB"\nidle_seconds = 9\n[proposals]\nprofile = "small"\nwindow = "64kB"\n'
        b'[[peers]]\nurl = "bushbaby://alice.example:7878"\nname = "alice"\n[peers.limits]\nmax_logs = 3\n'
    ),
    f'clump_hex = "0a0b"\npromote = ["{_AUTHOR}/7"]\nhttp = "127.0.0.1:8484"\ndialect = "document"\n'.encode(),
)
_URLS = (
    f"culm://{_AUTHOR}@[::1]:8483".encode(),
    b"bushbaby://alice.example:7878",
    b"negentropy://0.0.0.0:0",
    b"intervals://127.0.0.1:65535",
)
_POLICY = (
    b'{"66757a7a": {"allow_peers": ["%s"], "block_authors": [], "unshared": [["%s", 5]],'
    b' "interests": [["%s", null, ["1..9", "20.."]], ["%s", 7, []]]}}' % ((b"0a" * 32,) * 4)
)
_PLACES = b"127.0.0.1:0", b"0.0.0.0:1\n" + _TOKEN.encode()
_SEARCHES = b"am0L", b"/17", b"00ff" * 16, _AUTHOR.encode() + b"/3", b""
_WEBSOCKETS = (
    _HANDSHAKE,
    _HANDSHAKE + b"\x82\x82\0\0\0\0\xb0\x00\x88\x82\1\2\3\4\x02\xea",
    _HANDSHAKE + b"\x02\x81\0\0\0\0\xb0\x89\x81\0\0\0\0p\x80\x81\0\0\0\0\0" + b"\x82\xfe\1\0\0\0\0\0" + bytes(256),
)
_JOINED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: @\r\n"
    b"Sec-WebSocket-Protocol: culm-intervals\r\n\r\n"
)
_CALLED = (
    _JOINED + b"\x82\x02\xb0\x00\x88\x02\x03\xe8",
    _JOINED.replace(b"ls\r", b"ls-exchange\r") + b"\x02\x01\xb0\x89\x01p\x80\x01\0" + b"\x82\x7e\1\0" + bytes(256),
)
_NAMED = b'{"%064x": {"name": "alice"}, "%064x": {"name": "Bob-2.x", "suggested": true}}' % (1, 2**256 - 1)
TARGETS = (
    Target("node.settings", settings, (ConfigError,), _TOML, longest=8000, share=1.5),
    Target("node.url", url, (ConfigError,), _URLS, longest=200, share=0.3),
    Target("node.limits", limits, (ConfigError,), (b"max_logs=5\nidle_seconds=2.5",), longest=1000, share=0.2),
    Target("node.names", names, (ConfigError,), (b"{}", _NAMED), longest=1000, share=0.2),
    Target("node.policy", policy, (ConfigError,), (b"{}", _POLICY), share=0.5),
    Target(
        "node.http", http, (ConfigError,), (b"127.0.0.1:0", b"0.0.0.0:1\n" + _TOKEN.encode()), longest=300, share=0.3
    ),
    Target("node.search", search, (ConfigError,), _SEARCHES, longest=6000, share=0.2),
    Target("node.mdns", mdns, (), _HEARD, longest=4096, share=0.5),
    Target("node.websocket", websocket, (NetworkError, ProtocolError), _WEBSOCKETS, longest=3000, share=0.5),
    Target("node.webcall", webcall, (NetworkError, ProtocolError), _CALLED, longest=3000, share=0.5),
    Target("node.status", status, (), _REQUESTS, longest=1000),
)
