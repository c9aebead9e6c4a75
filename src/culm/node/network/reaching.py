"""Reaching a node that has several addresses: one at home, one behind the router, a name.

Only some of them work from any one place, and a wrong one takes ten seconds to say so. So all are tried at once, and
the first connection in which the node proves its key is used.
"""

import asyncio
from collections.abc import Sequence

from culm.errors import CulmError, NetworkError
from culm.node.network.transport import Streams, connect
from culm.node.network.urls import PeerUrl


async def connect_any(urls: Sequence[PeerUrl]) -> tuple[PeerUrl, Streams]:
    """Connect to whichever of these addresses answers first; the address and the connection.

    ``NetworkError`` with the reason for each address if none does.
    """
    calls = {asyncio.create_task(connect(url)): url for url in urls}
    reasons: dict[PeerUrl, str] = {}
    waiting = set(calls)
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for call in done:
                try:
                    streams = call.result()
                except CulmError as error:
                    reasons[calls[call]] = str(error)
                else:
                    return calls.pop(call), streams
    finally:
        await _hang_up(calls)
    raise NetworkError("; ".join(reasons[url] for url in urls))


async def _hang_up(calls: dict[asyncio.Task[Streams], PeerUrl]) -> None:
    """Give up the calls that are under way, and close the connections that were made besides the first."""
    for call in calls:
        call.cancel()
    for found in await asyncio.gather(*calls, return_exceptions=True):
        if not isinstance(found, BaseException):
            found[1].transport.abort()
