"""Connections that are no TCP: a command that is run, this process's own stdin and stdout, a Unix socket.

``exec:ssh HOST culm serve --stdio`` reaches a node on a machine where nothing listens: ssh proves who both sides are,
and encrypts. The command gets one end of a socket pair as its stdin and stdout, so to the session it is a connection
like any other, with the same end: EOF.

The other side of such a command is ``culm serve --stdio``. What it was given as stdin and stdout differs: sshd gives
one socket for both, a shell gives pipes.

Specification: docs/specs/proposals.md, "Over pipes".
"""

import asyncio
import logging
import os
import shlex
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from culm.errors import ConfigError
from culm.node.network.urls import PeerUrl
from culm.node.sharing.rates import Streams

ENDING_SECONDS = 5.0
"""For a command to end after its connection was closed: a node stores the last entries within that. Then it is killed.
"""
_EXIT_SECONDS = 1.0  # Between a command's last byte and its exit code. An idle system needs a few milliseconds.
_ONLY_ME = 0o600
_logger = logging.getLogger("culm.node")
_endings: set[asyncio.Task[None]] = set()  # So that nobody collects them: asyncio itself refers to tasks weakly.


@dataclass(slots=True)
class _Command:
    """A command that was run for a connection. ``is_told``: an error tells of its end, so the log need not."""

    process: asyncio.subprocess.Process
    url: PeerUrl
    is_told: bool = False


_commands: WeakKeyDictionary[asyncio.BaseTransport, _Command] = WeakKeyDictionary()


async def call(url: PeerUrl, limit: int) -> Streams:
    """Connect to a Unix socket or to a command's stdin and stdout; ``OSError`` if that fails."""
    if url.via == "unix":
        return await asyncio.open_unix_connection(url.host, limit=limit)
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            end = theirs.fileno()
            process = await asyncio.create_subprocess_exec(*shlex.split(url.host), stdin=end, stdout=end)
    except BaseException:
        ours.close()
        raise
    streams = await asyncio.open_connection(sock=ours, limit=limit)
    command = _commands[streams[1].transport] = _Command(process, url)
    ending = asyncio.create_task(_ended(command, streams[1]))
    _endings.add(ending)
    ending.add_done_callback(_endings.discard)
    return streams


async def what_ended(writer: asyncio.StreamWriter) -> str | None:
    """Why a peer behind a command has said nothing: the command has ended. None if it runs, and without a command.

    To be asked when the connection has ended. The exit code may come a moment after that.
    """
    command = _commands.get(writer.transport)
    if command is None:
        return None
    with suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_SECONDS):
            await command.process.wait()
    if (code := command.process.returncode) is None:
        return None
    command.is_told = True
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return (
        f"the command {how} before it sent anything: {command.url.host}; its own messages, if any, are on stderr;"
        f" it has to speak {command.url.scheme} until its stdin ends, as culm serve --stdio {command.url.scheme} does"
    )


async def _ended(command: _Command, writer: asyncio.StreamWriter) -> None:
    """Wait for the connection's end, and then for the command's, so that none is left behind.

    When the loop ends, asyncio cancels this task and waits for it. It goes on all the same.
    """
    process = command.process
    with suppress(OSError, asyncio.CancelledError):
        await writer.wait_closed()
    writer.close()
    deadline = asyncio.get_running_loop().time() + ENDING_SECONDS
    while process.returncode is None and asyncio.get_running_loop().time() < deadline:
        with suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout_at(deadline):
                await process.wait()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    elif process.returncode and not command.is_told:
        _logger.warning("a command ended with exit code %d", process.returncode, extra={"peer": str(command.url)})


class _TwoPipes(asyncio.StreamWriter):
    """A writer to one pipe that closes the other one, too."""

    reading: asyncio.BaseTransport

    def close(self) -> None:
        self.reading.close()
        super().close()


async def own_streams(limit: int, stdin: int = 0, stdout: int = 1) -> Streams:
    """This process's stdin and stdout as a connection; ``ConfigError`` if they are neither pipes nor a socket."""
    given = [os.fstat(number) for number in (stdin, stdout)]
    if stat.S_ISSOCK(given[0].st_mode) and os.path.samestat(*given):
        return await asyncio.open_connection(sock=socket.socket(fileno=os.dup(stdin)), limit=limit)
    if not all(stat.S_ISFIFO(item.st_mode) or stat.S_ISSOCK(item.st_mode) for item in given):
        raise ConfigError(
            "--stdio needs a pipe or a socket as stdin and stdout: let another program run this command, for example"
            " culm sync 'exec:ssh HOST culm serve --stdio'"
        )
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit, loop)
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader, loop=loop), os.fdopen(os.dup(stdin), "rb", 0)
    )
    writing, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), loop=loop),
        os.fdopen(os.dup(stdout), "wb", 0),
    )
    writer = _TwoPipes(writing, protocol, None, loop)
    writer.reading = reading
    return reader, writer


def bound(path: str) -> socket.socket:
    """A Unix socket to listen at, which only this user can open; ``OSError`` if that is not possible.

    A file that a killed node left there is taken away. One at which somebody answers is not.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        with suppress(FileNotFoundError), socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                if Path(path).is_socket():
                    Path(path).unlink()
        os.fchmod(listener.fileno(), _ONLY_ME)  # On Linux the file has these rights from its first moment.
        listener.bind(path)
        Path(path).chmod(_ONLY_ME)  # On other systems from here on.
    except BaseException:
        listener.close()
        raise
    return listener
