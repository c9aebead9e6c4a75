"""Running the tasks of a connection together, and letting go of the connection when one of them ends.

Three things are easy to get wrong here. Everything that came before a break has to be stored, also when the session is
cancelled. The socket has to be closed on every way out. And closing must not take for ever, because a peer that does
not answer would otherwise keep the task.
"""

import asyncio
import errno
import os
import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress

from culm.errors import CulmError, NetworkError


def reason_of(error: OSError) -> str:
    """What has happened, in the system's words, without the error's number and the address that some errors repeat."""
    if isinstance(error, ssl.SSLError):  # Its number is one of OpenSSL, not of the system.
        return getattr(error, "reason", None) or str(error)
    if error.errno == errno.EADDRINUSE:
        return "another program listens there, perhaps a node of yours; stop it, or choose another address"
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or "it was closed"


async def run_together(
    *works: Coroutine[object, object, None], writer: asyncio.StreamWriter, flush: Callable[[], Awaitable[None]]
) -> None:
    """Run until one of ``works`` ends, then close the connection and call ``flush``, which stores all that came.

    Raises what the work failed with; a broken connection becomes a ``NetworkError``. If the caller is cancelled, an
    error of ``flush`` is dropped: otherwise the caller would see the error and not that it was cancelled.
    """
    try:
        await until_one_ends(*works)
    except OSError as error:  # A reset, a lost route, TLS records that do not decrypt.
        raise NetworkError(f"the connection broke: {reason_of(error)}") from None
    finally:
        writer.close()
        try:
            await flush()
        except CulmError:
            me = asyncio.current_task()
            if me is not None and me.cancelling():  # Before ``flush`` was called, or meanwhile.
                raise asyncio.CancelledError from None
            raise
        finally:
            try:
                # One second is enough for a peer that answers. Not asyncio.wait_for: that of Python 3.11 can lose a
                # cancellation.
                async with asyncio.timeout(1):
                    await writer.wait_closed()
            except (OSError, TimeoutError):
                with suppress(AttributeError):  # asyncio raises it for a TLS connection that is closed already.
                    writer.transport.abort()


async def until_one_ends(*works: Coroutine[object, object, None]) -> None:
    """Run until one of ``works`` ends, cancel the others, and raise what it failed with.

    Of several that end at once the first counts.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task in finished:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def beside(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Run something for as long as a block lasts."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def no_reader() -> asyncio.StreamReader:
    """An empty reader, to put in place of the one of a connection that is over.

    The old reader may hold bytes that nobody has read. Replacing it frees them at once. Otherwise it
    would stay as long as the session, which the traceback of an error keeps until the next garbage collection.
    """
    return asyncio.StreamReader()


def forget_frames(error: BaseException) -> None:
    """Let go of what the frames of an error hold, and of those that led to it: bytes of a peer, for instance.

    A frame and its traceback refer to each other, so otherwise that stays until garbage is collected.
    """
    following: BaseException | None = error
    while following is not None:
        traceback.clear_frames(following.__traceback__)
        following = following.__cause__ or following.__context__
