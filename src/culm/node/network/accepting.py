"""Listening with asyncio, and what happens when the process has no descriptor left for a caller.

asyncio takes up to ``backlog`` connections in a row. When ``accept`` fails for want of descriptors, asyncio 3.11 goes
on with that row: it logs a traceback for each of a hundred failures, and sets as many timers to try again a second
later. Each timer fails a hundred times in turn, so after a few seconds the process does nothing but log. Two things
keep it quiet. The row is one connection long here, so one failure sets one timer. And such failures are a line of
Culm's log, once a minute.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from typing import Any

_WAITING_CALLS = 1024  # Connections that the system holds until they are accepted, if it allows so many.
_TELL_SECONDS = 60.0  # Between two lines in the log about failures to accept.
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_logger = logging.getLogger("culm.node")

Handler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


class _Complaints:
    """A loop's exception handler that tells of failures to accept once a minute, and hands on everything else."""

    def __init__(self, other: Handler | None) -> None:
        self._other = other
        self._silent_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not ("socket" in context and isinstance(error, OSError) and error.errno in _EXHAUSTED):
            (self._other or type(loop).default_exception_handler)(loop, context)
        elif loop.time() >= self._silent_until:
            self._silent_until = loop.time() + _TELL_SECONDS
            reason = f"{os.strerror(error.errno)}: allow more open files (ulimit -n), or set a lower max_sessions"
            _logger.warning("cannot accept connections", extra={"reason": reason})


async def listening(protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> asyncio.Server:
    """A server for connections to an address; ``OSError`` if that is not possible."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, asyncio.SelectorEventLoop):  # Other loops accept in their own way.
        return await loop.create_server(protocol, host, port)
    if not isinstance(other := loop.get_exception_handler(), _Complaints):
        loop.set_exception_handler(_Complaints(other))
    server = await loop.create_server(protocol, host, port, backlog=1)
    for listener in server.sockets:
        with listener.dup() as same:
            same.listen(_WAITING_CALLS)
    return server
