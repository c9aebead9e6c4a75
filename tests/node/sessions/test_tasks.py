"""What sessions of all protocols do the same way."""

from __future__ import annotations

import asyncio
import errno
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import NetworkError, StoreError
from culm.node.sessions.tasks import run_together
from culm.node.surroundings import clock
from tests.node.links import run, stream_pair

if TYPE_CHECKING:
    from asyncio import StreamReader


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        TimeoutError(errno.ETIMEDOUT, "Connection timed out"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        ssl.SSLError(1, "[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC]"),
    ],
)
def test_a_connection_that_breaks_is_a_network_error(error: OSError) -> None:
    """However a connection fails, what comes of it is the error that nodes expect and try again after."""

    async def main() -> list[str]:
        near, _ = await stream_pair()
        told = []

        async def read(reader: StreamReader) -> None:
            await reader.read(1)

        async def flush() -> None:
            told.append("flushed")

        near[0].set_exception(error)
        with pytest.raises(NetworkError) as found:
            await run_together(read(near[0]), writer=near[1], flush=flush)
        return [*told, str(found.value)]

    flushed, text = run(main)
    assert flushed == "flushed"
    assert (getattr(error, "strerror", None) or str(error)) in text


class Closing:
    """A writer that is closed when it is told so."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waited = asyncio.Event()
        self.transport = self
        self.is_cut = False

    def abort(self) -> None:
        """Nobody waits for it any more."""
        self.is_cut = True

    def close(self) -> None:
        """It is under way."""

    async def wait_closed(self) -> None:
        """It is now."""
        self.waited.set()
        await self.closed


def test_whoever_is_to_stop_stops() -> None:
    """A task that is cancelled at the moment when its connection closes is cancelled: it does not go on as if not."""

    async def main() -> bool:
        writer: Any = Closing()

        async def nothing() -> None:
            pass

        task = asyncio.create_task(run_together(nothing(), writer=writer, flush=nothing))
        await writer.waited.wait()
        writer.closed.set_result(None)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    assert run(main)


@pytest.mark.parametrize("answers", ["never", "with an error", "in time"])
def test_a_peer_that_does_not_close_is_cut(answers: str) -> None:
    """A connection is closed within a second, or cut: a peer that does not answer holds no descriptor for longer."""

    async def nothing() -> None:
        pass

    async def main() -> tuple[bool, float]:
        writer: Any = Closing()
        began = clock()
        task = asyncio.create_task(run_together(nothing(), writer=writer, flush=nothing))
        await writer.waited.wait()
        if answers == "with an error":
            writer.closed.set_exception(ConnectionResetError())
        elif answers == "in time":
            writer.closed.set_result(None)
        await task
        return writer.is_cut, clock() - began

    is_cut, seconds = run(main)
    assert is_cut == (answers != "in time")
    assert seconds == pytest.approx(1.0 if answers == "never" else 0.0, abs=0.01)


@pytest.mark.parametrize("cancelled", [None, "while it runs", "while what came is kept"])
def test_what_came_cannot_be_kept(cancelled: str | None) -> None:
    """Who waits for a session is told that what came could not be stored; who cancels it sees it cancelled."""

    async def main() -> None:
        near, far = await stream_pair()
        begun = asyncio.Event()

        async def read() -> None:
            begun.set()
            await near[0].read(1)

        async def flush() -> None:
            begun.set()
            try:
                await (asyncio.sleep(60) if cancelled == "while what came is kept" else asyncio.sleep(0))
            finally:
                raise StoreError("the disk is full")

        task = asyncio.create_task(run_together(read(), writer=near[1], flush=flush))
        await begun.wait()
        begun.clear()
        if cancelled != "while it runs":
            far[1].close()
            await begun.wait()
        if cancelled:
            task.cancel()
        with pytest.raises(asyncio.CancelledError if cancelled else StoreError):
            await task

    run(main)
