"""The one shape of every protocol connection in Culm: how bytes and time go in, and how events and bytes come out.

A protocol connection does no I/O and reads no clock. It is a machine that its owner turns: the owner has the socket
and the clock, the connection knows the protocol. Therefore the same connection runs under asyncio, over a blocking
socket, in a simulation whose clock jumps, and under a fuzzer; and one driver serves every protocol. The loop of an
owner is the same for all of them::

    for event in connection.receive_data(data, now):    # RemoteProtocolError: drop the connection
        ...                                             # act on it; call the protocol's own methods
    while connection.has_more:                          # see below; False for most protocols
        for event in connection.receive_data(b"", now):
            ...
    while data := connection.data_to_send(limit):
        socket.write(data)
    deadline = connection.next_timer()                  # None: it waits for no point in time
    if deadline is not None and deadline <= now:
        for event in connection.handle_timer(now):
            ...

``bushbaby.Connection``, ``intervals.Connection``, ``proposals.Connection`` and ``session.Connection`` have this shape,
and each has methods of its own beside it: what to ask for, what to announce, how much credit to give.

*Time* is an argument. ``now`` is in seconds of any clock that never goes back; all calls on one connection use the
same clock. A connection keeps no thread and no timer: it only says when it wants to be called.

*Failure* is the same everywhere. The events before the fault count: the iterator gives them first, then it raises
``RemoteProtocolError``. From then on the connection takes nothing more, and every later call of ``receive_data``
raises ``LocalProtocolError``. The bytes that ``data_to_send`` still holds need not be sent. To drop the connection is
the only thing left to do, because the two ends no longer agree on what was said.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar, runtime_checkable

from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.types import Buffer

EventT = TypeVar("EventT")
EventT_co = TypeVar("EventT_co", covariant=True)

UNLIMITED = sys.maxsize
"""The limit for ``data_to_send`` that takes everything, for owners that have memory for all of it."""


@runtime_checkable
class ProtocolConnection(Protocol[EventT_co]):
    """One end of a connection, as its owner feeds and drains it. Not to be used by two threads at once."""

    def receive_data(self, data: Buffer, now: float) -> Iterator[EventT_co]:
        """Take bytes that came from the peer, and give the events they make.

        Iterate to the end before any more bytes go in: a connection may do its work while the owner iterates, so that
        an owner with other things to do can stop between two events. The connection keeps no reference to ``data``
        once the iteration has ended.

        Raises ``RemoteProtocolError``, after the events before the fault, if the peer broke the protocol; and
        ``LocalProtocolError`` if it had broken the protocol before.
        """

    @property
    def has_more(self) -> bool:
        """Whether bytes that came are left for later, because they make more than is to be in memory at once.

        The owner then deals with the events it has, and calls ``receive_data(b"", now)`` until this is False. It hands
        in no other bytes in between.
        """

    def data_to_send(self, limit: int = UNLIMITED) -> bytes:
        """Take the bytes for the peer, about ``limit`` of them at most; none if nothing may be sent now.

        A connection may exceed the limit by one packet, rather than cut it. Each byte is given once.
        """

    def next_timer(self) -> float | None:
        """When to call ``handle_timer``, in seconds of the owner's clock; None if the connection waits for no time.

        A time that has passed means: call it at once. The answer holds until the next call of any other method.
        """

    def handle_timer(self, now: float) -> Iterable[EventT_co]:
        """Do what was due by ``now``; there may be more to send afterwards. Harmless if nothing was due."""

    def keep_alive(self) -> None:
        """Queue a message without effect.

        The owner calls this when it has sent nothing for a while, because peers drop a connection that is silent.
        When that is, depends on the node's settings and on the socket: so the owner decides, not the connection.
        """


class UntimedConnection(ABC, Generic[EventT]):
    """The common part of connections that wait for no time."""

    _failed = False

    def receive_data(self, data: Buffer, now: float) -> Iterator[EventT]:  # noqa: ARG002 - nothing is timed here
        """Take bytes from the peer; see ``ProtocolConnection``."""
        if self._failed:
            raise LocalProtocolError("the peer broke the protocol: the connection is over")
        try:
            yield from self._receive(data)
        except RemoteProtocolError:
            self._failed = True
            raise

    @abstractmethod
    def _receive(self, data: Buffer) -> Iterator[EventT]:
        """The events that bytes make; ``RemoteProtocolError`` behind those before a fault."""

    @property
    def has_more(self) -> bool:
        """False: no bytes are left for later, unless a connection says otherwise."""
        return False

    def next_timer(self) -> float | None:
        """None: nothing here waits for a time."""
        return None

    def handle_timer(self, now: float) -> Iterable[EventT]:  # noqa: ARG002 - see above
        """Nothing is ever due."""
        return ()
