"""Speakers: what a node does on a connection of one protocol. The driver does the rest (``culm.node.sessions.driver``).

A speaker answers five questions for its protocol: what do these events ask of us, what comes next, is the handshake
over, has all that was wanted come, and what is to be done when it has been quiet for a while? This is all that the
driver knows of it. The sessions of the node (``culm.node.sessions.session``) are the speakers.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar

from culm.node.config import NodeConfig
from culm.node.sessions.stats import SessionStats
from culm.types import Buffer
from culm.wire.connection import ProtocolConnection

EventT = TypeVar("EventT")


class Speaker(ABC, Generic[EventT]):
    """What the driver asks of a protocol. ``is_live``: the session stays open for what is new after all has come."""

    config: NodeConfig
    connection: ProtocolConnection[EventT]
    is_live: bool
    stats: SessionStats
    batch: ClassVar[int] = sys.maxsize
    """Events that are handled together. 1: an event changes how the bytes behind it are to be read."""
    hears_whole_messages: ClassVar[bool] = False
    """Whether only what makes an event counts as a sign of life.

    Otherwise a peer could hold a place for ever by sending a byte of an endless message now and then.
    """

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over."""
        return True

    @property
    def may_be_silent(self) -> bool:
        """Whether a peer that says nothing for ``idle_seconds`` is as it should be."""
        return False

    def opened(self) -> None:
        """The handshake is over."""

    async def flush(self) -> None:
        """The connection is over: store all that came before."""

    # -- reading -----------------------------------------------------------------------------------------------

    def part_size(self, available: int, portion: int) -> int:
        """How many of the available bytes to parse next, where ``portion`` is what usually makes a short turn."""
        return min(available, portion)

    def is_light(self, size: int) -> bool:  # noqa: ARG002 - some depend on it
        """Whether so many bytes are parsed within a millisecond: then no thread is worth its while."""
        return True

    def receive(self, data: Buffer, now: float) -> Iterator[EventT]:
        """Parse bytes; may run on a thread. See ``ProtocolConnection.receive_data``."""
        return self.connection.receive_data(data, now)

    @abstractmethod
    async def handle(self, events: list[EventT]) -> None:
        """Do what events ask for, in their order."""

    async def make_room(self) -> None:
        """Wait here until more may be read from the peer."""

    def end_chunk(self) -> None:
        """All that was read at once is handled. Called with the lock held."""

    async def end_of_stream(self) -> None:
        """The peer says nothing more; an error raised here becomes the reason of the end."""

    # -- writing -----------------------------------------------------------------------------------------------

    @abstractmethod
    async def compose(self) -> bool:
        """Hand the connection what is to be sent next, a bounded amount; whether there is more at once."""

    def sent(self) -> None:
        """Bytes went to the socket."""

    async def check_done(self) -> None:
        """There is nothing to send: set ``done`` if a session that is not live has nothing left to do."""

    # -- watching ----------------------------------------------------------------------------------------------

    def keep_alive(self) -> None:
        """Queue something without effect, because we have sent nothing for a while. Called with the lock held."""
        self.connection.keep_alive()

    async def settle(self) -> None:
        """No useful message has come for ``settle_seconds``: stop waiting for answers, or ask again."""

    async def poll(self) -> None:
        """Ask again for what the peer did not have. Called every ``interval`` seconds in live sessions."""
