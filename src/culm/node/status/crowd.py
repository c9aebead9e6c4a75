"""Who is connected to the status page: not more than fit, and nobody can keep others out.

Each connection takes a descriptor that the node needs for peers, so their number has a limit. With a limit alone, one
program that connects and says nothing holds all places, and ``/healthz`` does not answer any more: a supervisor then
restarts a node that is well. So a new caller always gets a place, and somebody else loses one:

- An address that has its share gives up one of its own connections.
- If all places are taken, the address with the most connections gives up one.

Of the connections of an address the oldest one without a request goes first, and then the oldest one. So a viewer that
follows live stays while idle connections of its address come and go. No place is kept for ``/healthz``, because a
caller that asks for it gets one like every other.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from aiohttp.http_exceptions import HttpProcessingError

from culm.node.sharing.peering import network_of
from culm.node.status.settings import StatusSettings

_TELL_SECONDS = 60.0  # Between two lines in the log about requests of a kind, so that callers cannot fill the disk.
_logger = logging.getLogger("culm.node")


class Crowd:
    """The open connections, by address, the oldest first; with each, the requests that are being answered."""

    def __init__(self, settings: StatusSettings) -> None:
        self._settings = settings
        self._open: dict[str, dict[asyncio.Transport, int]] = {}

    def enter(self, transport: asyncio.Transport) -> None:
        """Take a new connection, and end another one if there is no place for it."""
        self._forget_closed()
        mine = self._open.setdefault(_address(transport), {})
        if len(mine) >= self._settings.most_from_address:
            _end_one(mine)
        elif sum(map(len, self._open.values())) >= self._settings.most_connections:
            _end_one(max(self._open.values(), key=len))
        mine[transport] = 0

    @contextmanager
    def busy(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """Count a request of a connection while it is being answered."""
        connection = cast("asyncio.Transport", transport)
        mine = self._open.get(_address(connection), {}) if transport is not None else {}
        if connection in mine:
            mine[connection] += 1
        try:
            yield
        finally:
            if connection in mine:
                mine[connection] -= 1

    def _forget_closed(self) -> None:
        for address, connections in list(self._open.items()):
            for transport in [one for one in connections if one.is_closing()]:
                del connections[transport]
            if not connections:
                del self._open[address]


def _end_one(connections: dict[asyncio.Transport, int]) -> None:
    transport = next((one for one, requests in connections.items() if not requests), next(iter(connections)))
    del connections[transport]
    transport.abort()


def _address(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")
    return network_of(str(name[0])) if name else ""


class Door(asyncio.Protocol):
    """The first protocol of a connection, which counts it in and then hands it to the HTTP server's."""

    def __init__(self, crowd: Crowd, http: Callable[[], asyncio.Protocol]) -> None:
        self._crowd = crowd
        self._http = http

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection on."""
        connection = cast("asyncio.Transport", transport)
        self._crowd.enter(connection)
        protocol = self._http()
        connection.set_protocol(protocol)
        protocol.connection_made(connection)


class Complaints:
    """What the HTTP server logs by: one line a minute about requests that cannot be read, and one about failures.

    aiohttp would write a traceback for each malformed request.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._silent_until = {True: 0.0, False: 0.0}

    def debug(self, *_: object, **__: object) -> None:
        """Nothing, because these lines are about requests that broke off, as every browser's do."""

    def exception(self, _message: str, *arguments: object, exc_info: BaseException | None = None) -> None:
        """Tell why a request could not be answered; the only argument is the caller's address, if there is one."""
        is_theirs = isinstance(exc_info, HttpProcessingError)
        if self._clock() < self._silent_until[is_theirs]:
            return
        self._silent_until[is_theirs] = self._clock() + _TELL_SECONDS
        extra: dict[str, object] = {"peer": arguments[0]} if arguments else {}
        if isinstance(exc_info, HttpProcessingError):
            reason = " ".join(exc_info.message.split())
            _logger.warning("refused a request to the status page", extra={**extra, "reason": reason})
        else:
            _logger.error("failed to answer a request to the status page", extra=extra, exc_info=exc_info)
