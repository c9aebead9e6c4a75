"""Negentropy over a stream (docs/specs/negentropy.md, "Over TCP"): the side that listens, and the side that calls.

Each message stands behind its length, a VarU64. A session is about the *entries*, unless the caller has first sent a
message of a zero byte and a view's name. The listener repeats that message when it is ready.

Ids do not say what a log is called, and negentropy moves nothing. So a caller can ask for the logs of heads, and can go
on by intervals over the same connection. A listener allows both only where it listens at ``intervals://``, too: a
node that was opened for comparing alone gives no contents away.

A comparison takes several messages, and the store may change in between. If each message were answered from the store
as it is then, the rounds would contradict each other. So a session sees a snapshot of the store as it was at its start.

Each connection has a thread of its own. So it neither waits for the store's thread nor holds up the event loop. The
snapshot is closed on that thread, too, because SQLite may still be working there when the connection ends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from culm.bamboo import decode_varu64, encode_varu64
from culm.bamboo.entry import AUTHOR_BYTES
from culm.errors import EncodingError, NetworkError, RemoteProtocolError
from culm.negentropy import Negentropy, Split, Storage, even
from culm.negentropy.codec import ID_BYTES
from culm.node.config import NodeConfig, NodeLimits
from culm.node.network.pipes import what_ended
from culm.node.sessions.tasks import reason_of
from culm.node.sharing.memory import MemoryBudget, MemoryShare
from culm.node.sharing.threads import Worker
from culm.node.sharing.turns import Share
from culm.node.storage.worker import AnyWorker
from culm.store import ReadableStore, View
from culm.types import Log

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
_CHOICE = b"\0"  # Begins a message that is ours: it names a view, or one of the two below. No negentropy message does.
_LOGS = _CHOICE + b"logs"  # Before ids of heads in a question, and before authors and log ids in its answer.
_TRANSFER = _CHOICE + b"transfer"  # From here on both sides speak intervals.
_MOST_HEADS = 1024  # In one question, because each costs a search in the store.
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
        raise NetworkError(f"the connection broke: {reason_of(error)}") from None


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
        logs_of: Callable[[list[bytes]], Awaitable[list[Log]]] | None = None,
    ) -> None:
        """``logs_of``: names the logs of heads, for a caller that goes on by intervals; None: a caller may not."""
        self._records = records
        self._logs_of = logs_of
        self._share = share
        self._budget = budget or MemoryBudget(limits.max_unfinished).share(None)
        self._limits = limits
        self._reader, self._writer = streams
        self._session: Negentropy | None = None
        self._own = Worker(thread)  # The connection's own thread, for the snapshot and all questions to it.
        self._snapshot = ExitStack()

    async def run(self, answered: Callable[[], object] = lambda: None) -> bool:
        """Answer until the peer ends the connection, or raise why it was ended: ``NetworkError``, ``ProtocolError``.

        True if the caller goes on by intervals instead. The streams are then left open. ``answered`` is called when the
        first message was answered.
        """
        goes_on = False
        try:
            with _translated_errors():
                async with asyncio.timeout(SESSION_SECONDS):
                    for number in range(MAX_ROUNDS):
                        message = await self._round()
                        if not number and message is not None:
                            answered()
                        if goes_on := message == _TRANSFER:
                            return True
                        if message is None:
                            return False
            raise RemoteProtocolError(f"the peer sent more than {MAX_ROUNDS} messages in one connection")
        finally:
            self._own.finish(self._snapshot.close)
            self._budget.leave()
            if not goes_on:
                self._writer.close()

    async def _round(self) -> bytes | None:
        """Read a message and answer it; the message, None if the peer has ended the connection."""
        async with asyncio.timeout(self._limits.idle_seconds):
            message = await read_message(self._reader, self._budget)
        if message is None:
            return None
        reply = await self._reply(message)
        await self._budget.hold(0)
        async with asyncio.timeout(self._limits.idle_seconds):
            await _send_message(self._writer, reply)
        return message

    async def _reply(self, message: bytes) -> bytes:
        if self._logs_of is not None and message == _TRANSFER:
            return message
        if self._logs_of is not None and message.startswith(_LOGS):
            logs = await self._logs_of(_heads_in(message))
            return _LOGS + b"".join(author + encode_varu64(log_id) for author, log_id in logs)
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
    """One connection of a caller that compares with a store. Logs that are not shared are left out.

    ``moves``: the caller may go on by intervals.
    """

    def __init__(
        self,
        worker: AnyWorker,
        config: NodeConfig,
        streams: Streams,
        budget: MemoryShare | None = None,
        *,
        moves: bool = False,
    ) -> None:
        policy, store = config.policy, worker.store

        async def logs_of(heads: list[bytes]) -> list[Log]:
            return [log for log in await worker.run(store.logs_of, heads) if policy.shares(log)]

        records = partial(store.record_set, **policy.shown)
        thread = config.surroundings.thread()
        super().__init__(records, worker.share, config.limits, streams, budget, thread, logs_of if moves else None)


def _heads_in(message: bytes) -> list[bytes]:
    heads = message[len(_LOGS) :]
    if len(heads) % ID_BYTES or len(heads) > _MOST_HEADS * ID_BYTES:
        raise RemoteProtocolError(f"the peer asked for the logs of {len(heads)} bytes of heads, {ID_BYTES} bytes each")
    return [heads[at : at + ID_BYTES] for at in range(0, len(heads), ID_BYTES)]


def _view_of(name: bytes) -> View:
    try:
        return View(name.decode())
    except ValueError:
        raise RemoteProtocolError(f"the peer asked for a view that does not exist: {name[:20]!r}") from None


# -- the side that calls --------------------------------------------------------------------------------------------


async def compare(
    store: ReadableStore,
    view: View,
    streams: Streams,
    *,
    only: Callable[[Log], bool] | None = None,
    hidden: Iterable[Log] = (),
    idle_seconds: float = 30.0,
    split: Split = even,
) -> Differences | None:
    """Compare a view of the store with the peer's; None if the peer does not know such a view.

    Views other than *entries* are asked for by name, which only a Culm node understands. ``only``: logs for which it is
    false have no part, and those of ``hidden`` neither.
    """
    with store.record_set(view, only=only, hidden=hidden) as records:
        return await compare_records(records, view, streams, idle_seconds=idle_seconds, split=split)


async def compare_records(
    records: Storage, view: View, streams: Streams, *, idle_seconds: float = 30.0, split: Split = even
) -> Differences | None:
    """As ``compare``, with a set of records wherever it is kept."""
    reader, writer = streams
    size = 0

    async def ask(message: bytes) -> bytes | None:
        nonlocal size
        reply: bytes | None = None
        failure: OSError | None = None
        try:
            async with asyncio.timeout(idle_seconds):
                await _send_message(writer, message)
                reply = await read_message(reader)
        except OSError as error:
            failure = error
        if reply is None and not size and (reason := await what_ended(writer)) is not None:
            raise NetworkError(reason)
        if failure is not None:
            raise failure
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
                    at_once = " at once: it may speak another protocol, be full, or refuse us for now"
                    later = " before the sets were compared; call again"
                    raise NetworkError(f"the peer hung up{later if rounds > 1 else at_once}")
                following = session.reconcile(reply)
                if following is None:
                    return Differences(session.have, session.need, rounds, size)
                message = following
    raise RemoteProtocolError(f"the comparison has not ended after {MAX_ROUNDS} rounds")


async def ask_logs(heads: list[bytes], streams: Streams, *, idle_seconds: float = 30.0) -> list[Log]:
    """The logs whose heads the peer has under these ids; ``NetworkError`` if it does not say."""
    found: list[Log] = []
    for at in range(0, len(heads), _MOST_HEADS):
        answer = await _ask(_LOGS + b"".join(heads[at : at + _MOST_HEADS]), streams, idle_seconds)
        place = len(_LOGS)
        with suppress(EncodingError):  # What cannot be decoded is no answer, as below.
            while place < len(answer):
                log_id, behind = decode_varu64(answer, place + AUTHOR_BYTES)
                found.append((answer[place : place + AUTHOR_BYTES], log_id))
                place = behind
        if not answer.startswith(_LOGS) or place != len(answer) or len(found) > len(heads):
            raise RemoteProtocolError("the peer's answer about logs cannot be decoded")
    return found


async def begin_transfer(streams: Streams, *, idle_seconds: float = 30.0) -> None:
    """Go on by intervals, over the same streams; ``NetworkError`` if the peer does not."""
    if await _ask(_TRANSFER, streams, idle_seconds) != _TRANSFER:
        raise RemoteProtocolError("the peer did not agree to move entries")


async def _ask(message: bytes, streams: Streams, idle_seconds: float) -> bytes:
    with _translated_errors():
        async with asyncio.timeout(idle_seconds):
            await _send_message(streams[1], message)
            answer = await read_message(streams[0])
    if answer is None:
        raise NetworkError(
            "the peer compares and moves nothing; a Culm node moves entries where it listens at intervals://, too"
        )
    return answer


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
