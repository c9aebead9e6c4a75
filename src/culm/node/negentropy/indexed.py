"""A ``negentropy://`` listener that answers from a record index (``culm.store.recordindex``).

The records may be far more than fit into memory, for instance the index that the Spark pipeline writes. The listener
talks as a node's does, about the one view that the index is of. All connections read through one opened index and share
its caches, so that more connections take no more memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from culm.errors import CulmError
from culm.negentropy import Storage
from culm.node.config import NodeConfig, NodeLimits
from culm.node.negentropy.comparison import Answering
from culm.node.network.transport import listen_at
from culm.node.network.urls import PeerUrl
from culm.node.sessions.stats import PeerRefused, SessionStats
from culm.node.sharing.peering import Peering, address_of, place_of
from culm.node.storage.worker import Computing
from culm.store import View

if TYPE_CHECKING:  # it loads numpy, which takes long
    from culm.store.recordindex import IndexStorage

_logger = logging.getLogger("culm.node")


def records_of(index: IndexStorage, view: View) -> AbstractContextManager[Storage]:
    """The records of an index for a caller that asks for a view; ``PeerRefused`` if the index is of another view."""
    if view is not index.view:
        raise PeerRefused(f"the peer wants to compare {view.value}, but this index holds {index.view.value}")
    return nullcontext(index)


class IndexNode:
    """Serves an index until it is stopped, with the limits and penalties of a node (``culm.node.sharing.peering``)."""

    def __init__(self, index: IndexStorage, limits: NodeLimits) -> None:
        self._index = index
        self._limits = limits
        self._tasks: set[asyncio.Task[None]] = set()
        self._computing = Computing()
        self._peering = Peering(NodeConfig(b"", limits=limits))

    async def run(
        self, listen: Sequence[PeerUrl], *, stop: asyncio.Event, listening: Callable[[PeerUrl], None] = lambda _: None
    ) -> None:
        """Listen until ``stop`` is set. ``listening`` is called for each listener.

        ``ConfigError`` if an address cannot be listened at.
        """
        servers: list[asyncio.Server] = []
        try:
            for url in listen:
                server, place = await listen_at(url, self._accept)
                servers.append(server)
                listening(place)
            await stop.wait()
        finally:
            for server in servers:
                server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._computing.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place, address = place_of(writer), address_of(writer)
        if not self._peering.take_call(writer, proves=False):
            return
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            share = self._computing.share(address)
            await Answering(partial(records_of, self._index), share, self._limits, (reader, writer)).run()
        except CulmError as error:
            _logger.warning("dropped a negentropy caller", extra={"peer": place, "reason": str(error)})
            self._peering.ended(place, address, None, SessionStats(), error)
        except asyncio.CancelledError:
            pass  # The node stops. Passed on, asyncio would report the task as failed.
