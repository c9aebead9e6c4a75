"""Negentropy over a stream (docs/specs/negentropy.md, "Over TCP"): the side that listens, and the side that calls.

Each message stands behind its length, a VarU64. A session is about the *entries*, unless the caller has first sent a
message of a zero byte and a view's name. The listener repeats that message when it is ready.

A comparison takes several messages, and the store may change in between. If each message were answered from the store
as it is then, the rounds would contradict each other. So a session sees a snapshot of the store as it was at its start.

Each connection has a thread of its own. So it neither waits for the store's thread nor holds up the event loop. The
snapshot is closed on that thread, too, because SQLite may still be working there when the connection ends.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from culm.bamboo import decode_varu64, encode_varu64
from culm.errors import EncodingError, NetworkError, RemoteProtocolError
from culm.negentropy import Negentropy, Split, Storage, even
from culm.node.config import NodeConfig, NodeLimits
from culm.node.sharing.memory import MemoryBudget, MemoryShare
from culm.node.sharing.threads import Worker
from culm.node.sharing.turns import Share
from culm.node.storage.worker import AnyWorker
from culm.store import ReadableStore, View

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

FRAME_LIMIT = 1024 * 1024
"""Bytes of a message that we send: few rounds for large differences, and a bounded answer to each message."""
MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes of a message that we accept; larger than ``FRAME_LIMIT``, because other implementations may choose more."""
MAX_ROUNDS = 10_000
"""Messages of one connection. A comparison of millions of records takes dozens; more is a fault or an attack."""
SESSION_SECONDS = 600.0
"""After so long a connection ends, whatever it does, because a snapshot keeps the WAL file of the store from shrinking.
"""
_PIECE_BYTES = 64 * 1024  # Read from the stream at once, so that memory is taken for bytes that came and no others.
_CHOICE = b"\0"  # Begins a message that names a view. No negentropy message begins so.
_LONGEST_DIRECT = 247  # A VarU64 up to here is its own first byte; above, that byte tells how many follow.


@dataclass(frozen=True, slots=True)
class Differences:
    """What a comparison found, and what it cost."""

    have: list[bytes]
    """Record ids (32 bytes) that only we have."""
    need: list[bytes]
    """Record ids that only the other side has."""
    rounds: int
    """Messages that we have sent; each was answered by one."""
    bytes: int
    """Bytes of all messages in both directions, without the lengths in front of them."""


# -- messages -------------------------------------------------------------------------------------------------------


async def read_message(reader: asyncio.StreamReader, budget: MemoryShare | None = None) -> bytes | None:
    """The next message; None at the end of the stream. ``RemoteProtocolError`` for a length that is wrong or too large.

    Memory is taken for bytes that came, not for a length that was announced. A large message waits until the ``budget``
    has room for it.
    """
    first = await reader.read(1)
    if not first:
        return None
    try:
        size, _ = decode_varu64(first + await reader.readexactly(max(0, first[0] - _LONGEST_DIRECT)))
        if not 0 < size <= MAX_MESSAGE:
            raise RemoteProtocolError(f"the peer announced a message of {size} bytes; accepted: 1 to {MAX_MESSAGE}")
        message = bytearray()
        while len(message) < size:
            message += await reader.readexactly(min(_PIECE_BYTES, size - len(message)))
            if budget is not None:
                await budget.hold(len(message))
    except asyncio.IncompleteReadError:
        raise NetworkError("the peer closed the connection in the middle of a message") from None
    except EncodingError as error:
        raise RemoteProtocolError(f"the length of the peer's message cannot be decoded: {error}") from None
    return bytes(message)


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise NetworkError("the peer did not answer in time") from None
    except OSError as error:
        raise NetworkError(f"the connection broke: {error}") from None


async def _send_message(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(encode_varu64(len(message)) + message)
    await writer.drain()


# -- the side that listens ------------------------------------------------------------------------------------------


class Answering:
    """One connection of a caller that compares. ``records`` opens the records of a view as they are at that moment."""

    def __init__(
        self,
        records: Callable[[View], AbstractContextManager[Storage]],
        share: Share,
        limits: NodeLimits,
        streams: Streams,
        budget: MemoryShare | None = None,
        thread: Executor | None = None,
    ) -> None:
        self._records = records
        self._share = share
        self._budget = budget or MemoryBudget(limits.max_unfinished).share(None)
        self._limits = limits
        self._reader, self._writer = streams
        self._session: Negentropy | None = None
        self._own = Worker(thread)  # The connection's own thread, for the snapshot and all questions to it.
        self._snapshot = ExitStack()

    async def run(self) -> None:
        """Answer until the peer ends the connection, or raise why it was ended: ``NetworkError``, ``ProtocolError``."""
        try:
            with _translated_errors():
                async with asyncio.timeout(SESSION_SECONDS):
                    for _ in range(MAX_ROUNDS):
                        if not await self._round():
                            return
            raise RemoteProtocolError(f"the peer sent more than {MAX_ROUNDS} messages in one connection")
        finally:
            self._own.finish(self._snapshot.close)
            self._budget.leave()
            self._writer.close()

    async def _round(self) -> bool:
        """Read a message and answer it; False if the peer has ended the connection."""
        async with asyncio.timeout(self._limits.idle_seconds):
            message = await read_message(self._reader, self._budget)
        if message is None:
            return False
        reply = await self._reply(message)
        await self._budget.hold(0)
        async with asyncio.timeout(self._limits.idle_seconds):
            await _send_message(self._writer, reply)
        return True

    async def _reply(self, message: bytes) -> bytes:
        if message[:1] == _CHOICE:
            self._session = await self._open(_view_of(message[1:]))
            return message
        if self._session is None:
            self._session = await self._open(View.ENTRIES)
        return await self._share.run_steps(self._own, self._session.reconcile_by_steps(message)) or b""

    async def _open(self, view: View) -> Negentropy:
        """A new session about a view. Its snapshot takes the place of an earlier one of this connection."""
        await self._share.run_on(self._own, self._snapshot.close)
        records = await self._share.run_on(self._own, self._snapshot.enter_context, self._records(view))
        return Negentropy(records, FRAME_LIMIT)


class Listening(Answering):
    """One connection of a caller that compares with a store. Logs that are not shared are left out."""

    def __init__(
        self, worker: AnyWorker, config: NodeConfig, streams: Streams, budget: MemoryShare | None = None
    ) -> None:
        only = config.policy.shares if config.policy.hides_logs else None
        records = partial(worker.store.record_set, only=only)
        super().__init__(records, worker.share, config.limits, streams, budget, config.surroundings.thread())


def _view_of(name: bytes) -> View:
    try:
        return View(name.decode())
    except ValueError:
        raise RemoteProtocolError(f"the peer asked for a view that does not exist: {name[:20]!r}") from None


# -- the side that calls --------------------------------------------------------------------------------------------


async def compare(
    store: ReadableStore, view: View, streams: Streams, *, idle_seconds: float = 30.0, split: Split = even
) -> Differences | None:
    """Compare a view of the store with the peer's; None if the peer does not know such a view.

    Views other than *entries* are asked for by name, which only a Culm node understands.
    """
    with store.record_set(view) as records:
        return await compare_records(records, view, streams, idle_seconds=idle_seconds, split=split)


async def compare_records(
    records: Storage, view: View, streams: Streams, *, idle_seconds: float = 30.0, split: Split = even
) -> Differences | None:
    """As ``compare``, with a set of records wherever it is kept."""
    reader, writer = streams
    size = 0

    async def ask(message: bytes) -> bytes | None:
        nonlocal size
        async with asyncio.timeout(idle_seconds):
            await _send_message(writer, message)
            reply = await read_message(reader)
        size += len(message) + len(reply or b"")
        return reply

    with _translated_errors():
        async with asyncio.timeout(SESSION_SECONDS):
            if view is not View.ENTRIES and await ask(choice := _CHOICE + view.value.encode()) != choice:
                return None
            session = Negentropy(records, FRAME_LIMIT, split=split)
            message = session.initiate()
            for rounds in range(1, MAX_ROUNDS + 1):
                reply = await ask(message)
                if reply is None:
                    raise NetworkError("the peer ended the connection before the sets were compared")
                following = session.reconcile(reply)
                if following is None:
                    return Differences(session.have, session.need, rounds, size)
                message = following
    raise RemoteProtocolError(f"the comparison has not ended after {MAX_ROUNDS} rounds")


def compare_stores(a: ReadableStore, b: ReadableStore, view: View, split: Split = even) -> Differences:
    """Compare a view of two stores, without a connection."""
    with a.record_set(view) as ours, b.record_set(view) as theirs:
        return compare_sets(ours, theirs, split)


def compare_sets(ours: Storage, theirs: Storage, split: Split = even) -> Differences:
    """Compare two sets of records, wherever they are kept, without a connection."""
    initiator, responder = Negentropy(ours, split=split), Negentropy(theirs, split=split)
    message: bytes | None = initiator.initiate()
    rounds = size = 0
    while message is not None:
        reply = responder.reconcile(message) or b""
        rounds += 1
        size += len(message) + len(reply)
        message = initiator.reconcile(reply)
    return Differences(initiator.have, initiator.need, rounds, size)
