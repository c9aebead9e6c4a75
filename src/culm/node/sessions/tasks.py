"""What sessions of all protocols do the same way: run their tasks together, and let go of the connection."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from culm.errors import CulmError, NetworkError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence


async def run_together(
    *works: Coroutine[object, object, None], writer: asyncio.StreamWriter, flush: Callable[[], Awaitable[None]]
) -> None:
    """Run until one of the works ends, or raise why it did; then close the connection and call ``flush``.

    ``NetworkError`` where the connection broke. What came before it did is kept: that is what ``flush`` is for. Who
    cancels this gets no error of ``flush``, which would be taken for the end of the works.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await end_of_one(tasks)
    except OSError as error:  # a reset, no route any more, TLS that does not decrypt
        raise NetworkError(f"the connection broke: {error}") from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()
        try:
            await flush()
        except CulmError:
            me = asyncio.current_task()
            if me is not None and me.cancelling():  # before, or in the middle of it
                raise asyncio.CancelledError from None
            raise
        finally:
            try:
                async with asyncio.timeout(1):  # wait_for of Python 3.11 may lose a cancellation
                    await writer.wait_closed()
            except (OSError, TimeoutError):
                with suppress(AttributeError):  # of a TLS connection that is closed already
                    writer.transport.abort()


async def end_of_one(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until one of the tasks ends, and raise what it failed with: of several the first of them."""
    finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task in finished:
            task.result()


def no_reader() -> asyncio.StreamReader:
    """In place of the reader of a connection that is over.

    What waits in that goes at once then, and not with its session, which an error may keep until somebody collects the
    garbage.
    """
    return asyncio.StreamReader()


def peer_address(writer: asyncio.StreamWriter) -> str:
    """Where the other end of a connection is, as ``HOST:PORT``; empty if it is nowhere."""
    place = writer.get_extra_info("peername")
    if not isinstance(place, tuple):
        return ""  # a socket pair
    host, port = place[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
