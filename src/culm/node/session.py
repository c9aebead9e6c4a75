"""One connection to a peer: the Bushbaby protocol, a socket, and what the node wants of it.

Two tasks. The *reader* takes what comes, in order: entries go to the ``Intake``, a HAVE is answered by a WANT once all
that came before it is stored. It stops reading while too much waits to be stored. The *writer* announces, serves the
peer's WANTs one page of entries after the other, and waits for the socket: a slow peer holds up itself and nobody else.
Neither waits for the other, so two nodes can never wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from culm.bushbaby import (
    Authenticated,
    BambooReceived,
    Connection,
    HaveReceived,
    PeerIdentified,
    WantReceived,
)
from culm.errors import CulmError, NetworkError, RemoteProtocolError
from culm.node.intake import Intake
from culm.node.ledger import Ledger
from culm.node.serving import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.bamboo import Identity
    from culm.bushbaby import Event
    from culm.node.config import NodeConfig
    from culm.node.worker import StoreWorker
    from culm.store import ImportReport, Log

_READ_BYTES = 256 * 1024
_logger = logging.getLogger("culm.node")


class Refused(NetworkError):
    """The peer is not one we talk to."""


@dataclass(slots=True)
class SessionStats:
    """What went through a session. Bytes are those on the wire; ``missing`` counts entries known to be lacking."""

    entries_received: int = 0
    entries_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    payload_bytes: int = 0
    missing: int = 0
    report: ImportReport | None = None
    started: float = field(default_factory=time.monotonic)


class Session:
    """Runs one connection. ``stored`` is called when entries of this peer were stored, with the logs they are of."""

    def __init__(
        self,
        identity: Identity,
        config: NodeConfig,
        worker: StoreWorker,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        stored: Callable[[], None] | None = None,
    ) -> None:
        policy = config.policy
        guarded = bool(policy.allow_peers)
        self.config = config
        self.peer: bytes | None = None
        self.stats = SessionStats()
        self.refused: list[str] = []
        self._worker = worker
        self._reader, self._writer = streams
        self._connection = Connection(
            identity,
            config.clump,
            dialect=config.dialect,
            limits=config.protocol_limits,
            random_bytes=os.urandom,
            wait_for_hello=guarded if config.wait_for_hello is None else config.wait_for_hello,
            wait_for_auth=guarded if config.wait_for_auth is None else config.wait_for_auth,
        )
        self._ledger = Ledger(config.limits.max_logs)
        self._intake = Intake(worker, self._was_stored)
        self._server = Server(worker, policy)
        self._stored = stored
        self._wake = asyncio.Event()
        self._announced = -1  # the store's change number that our last HAVE covers
        self._announce = False
        self._last_news = time.monotonic()  # when anything but a sign of life came or went
        self._held_back: set[Log] = set()
        self.is_culm = False
