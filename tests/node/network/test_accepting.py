"""Running out of descriptors: the node says so once, stays quiet, and goes on when there are some again.

It runs really, because it is about the system's sockets and limits.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from culm.node.network.accepting import listening
from culm.node.network.transport import connect, listen_at
from culm.node.network.urls import PeerUrl
from tests.node.links import run_really

if TYPE_CHECKING:
    from collections.abc import Iterator

_RETRY_SECONDS = 0.01  # instead of asyncio's one second


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let the process open nothing more while the block runs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = os.dup(0)
    os.close(last)
    resource.setrlimit(resource.RLIMIT_NOFILE, (last, hard))  # the lowest number that is free, and so no number is
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_no_descriptor_is_left(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three callers wait while a hundred attempts to accept them fail: that is one line, and then they are answered."""
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", _RETRY_SECONDS)
    failures = 0

    async def main() -> None:
        loop = asyncio.get_running_loop()
        accepted = asyncio.Queue[None]()

        class Greeting(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                accepted.put_nowait(None)
                transport.close()

        server = await listening(Greeting, "127.0.0.1", 0)
        handler = loop.get_exception_handler()

        def count(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            nonlocal failures
            failures += 1
            assert handler is not None
            handler(loop, context)

        loop.set_exception_handler(count)
        callers = [socket.socket() for _ in range(3)]
        with no_descriptors():
            for caller in callers:
                caller.connect(server.sockets[0].getsockname())
            while failures < 100:
                await asyncio.sleep(_RETRY_SECONDS)
        for caller in callers:
            await accepted.get()
            caller.close()
        server.close()

    seconds = asyncio.run(_timed(main))
    assert ["cannot accept connections: Too many open files"] == [
        record.message.partition(": allow")[0] for record in caplog.records if record.levelname != "DEBUG"
    ]
    assert seconds >= 50 * _RETRY_SECONDS, "each failure leads to one more attempt, and not to a hundred"


async def _timed(main: Any) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(30):
        await main()
    return loop.time() - began


def test_other_complaints_go_where_they_went() -> None:
    """What else a loop complains of is handed to the handler that the program has set before."""
    heard: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(context["message"]))
        for _ in range(2):
            (await listening(asyncio.Protocol, "127.0.0.1", 0)).close()
        loop.call_exception_handler({"message": "a task failed", "exception": OSError(24, "Too many open files")})

    run_really(main)
    assert ["a task failed"] == heard


def test_many_callers_wait() -> None:
    """Callers are accepted one after the other, and those who come at once still wait in the system's queue."""

    async def main() -> None:
        server = await listening(asyncio.Protocol, "127.0.0.1", 0)
        callers = [socket.socket() for _ in range(60)]
        for caller in callers:  # the loop accepts none of them meanwhile
            caller.settimeout(0.5)
            caller.connect(server.sockets[0].getsockname())
            caller.close()
        server.close()

    run_really(main)


_LOGGING = """
import logging, resource, sys
from culm.node.settings.logformat import FORMATTERS
lines = [FORMATTERS[name]() for name in ("text", "json")]
resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    open("/dev/null")
except OSError:
    record = logging.LogRecord("asyncio", logging.ERROR, "x", 1, "no\\nfiles \\x1b \\u2028", (), sys.exc_info())
for line in lines:
    print(line.format(record))
"""


def test_a_line_needs_no_descriptor() -> None:
    """A process that can open nothing any more still writes its log: escapes and a trace import nothing."""
    done = subprocess.run([sys.executable, "-c", _LOGGING], capture_output=True, text=True, check=False)
    assert ("", 0) == (done.stderr, done.returncode)
    text, json = done.stdout.splitlines()
    assert r"no\nfiles \x1b \u2028: OSError: [Errno 24] Too many open files" in text
    assert r"no\nfiles \u001b \u2028" in json


def test_the_system_finds_dead_peers() -> None:
    """Both ends of a TCP connection have the system ask a silent peer for life, or nothing would notice a dead one."""

    async def main() -> list[list[int]]:
        accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

        async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.put_nowait(writer)

        server, url = await listen_at(PeerUrl.parse("intervals://127.0.0.1:0", may_be_zero=True), accept)
        _, calling = await connect(url)
        called = await accepted.get()
        found = [
            [
                one.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                one.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
                one.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            ]
            for one in (calling, called)
        ]
        for writer in (calling, called):
            writer.close()
        server.close()
        return found

    assert [[1, 120_000, 60]] * 2 == run_really(main)  # real sockets, because those of the simulation have no options
