"""The driver of a session: everything about a connection that is the same whatever the two sides speak.

A protocol connection (``culm.wire.connection``) turns bytes into events and back, and does no I/O. A *speaker*
(``culm.node.sessions.speaker``) knows what the node wants of the peer in that protocol. What remains is the same for
all protocols, and is done here once: the socket, turns, memory, idle time, keep-alives, timers, the end.

Three tasks share the work, so that neither direction can hold up the other:

- The *reader* takes a chunk from the inlet, has it parsed in portions, each in a turn of its own
  (``culm.node.sharing.turns``), and hands the events to the speaker. Then it lets the speaker wait for room, so that a
  peer that sends faster than we store is slowed down by TCP and not by our memory.
- The *writer* asks the speaker to compose what comes next, a bounded amount at a time, and waits until the socket has
  taken it. A slow peer therefore costs one such amount, not a whole log.
- The *watch* looks at the clock: is the peer silent, does it take nothing, is it time for a sign of life?

If the reader waited for the writer, two nodes could wait for each other for ever: each has a full socket and reads
nothing until the other one does. Only a peer that lets more than ``_MOST_UNSENT`` pile up is not read from meanwhile.

*Whose silence.* A session ends when its peer has said nothing for a while. While we deal with a chunk we read nothing,
and on a busy node, or a busy machine, that can take longer than any peer may be silent. So the peer's clock stands
still meanwhile, and goes on only by the computing that its bytes cost: that bounds what can be made of a small chunk,
such as one that unpacks to gigabytes. When the whole process was held up, no time has passed for any peer.

*The lock.* Parsing may run on a thread while the writer composes. Whatever uses the connection therefore holds
``lock``, and no one waits for a peer or a disk while holding it.
"""

import asyncio
import math
from collections.abc import Coroutine, Iterator
from itertools import islice
from typing import Generic, TypeVar

from culm.errors import RemoteProtocolError
from culm.node.sessions.inlet import let_go, take
from culm.node.sessions.speaker import Speaker
from culm.node.sessions.stats import PeerSilent
from culm.node.sessions.tasks import no_reader, run_together
from culm.node.sharing.rates import Streams, unsent
from culm.node.sharing.turns import Portion, Share
from culm.node.surroundings import clock
from culm.types import Buffer

EventT = TypeVar("EventT")

WRITE_BYTES = 512 * 1024
"""Bytes handed to the socket at once, at most: enough to keep a fast link busy."""

# On a slow link less: news that come up wait until the piece before them has gone. Such a piece should take so many
# seconds, at least and at most; below the least size its frame and its turn would cost too much.
_SHORT, _LONG = 0.005, 0.02
_LEAST_WRITE, _FIRST_WRITE = 16 * 1024, 64 * 1024
_SEVERAL = 4  # pieces

_READ_BYTES = 1024 * 1024  # Taken at once: enough for a fast link, and little memory for a session.
_MOST_UNSENT = 1024 * 1024  # Stop reading when the peer has not taken so many bytes: it may not make us queue more.
_LIGHT_SECONDS = 0.001  # Of parsing on the event loop in one turn: meanwhile nobody else is heard.
_CHECK_SECONDS = 0.25  # Between two looks of the watch: its times are seconds, so a quarter of one is exact enough.


class Driver(Generic[EventT]):
    """Runs the connection of one speaker over a pair of streams.

    ``is_counted``: whether its bytes count in the session's statistics. Those of a connection inside another one do
    not, because the outer driver counts them already.
    """

    def __init__(self, speaker: Speaker[EventT], streams: Streams, share: Share, *, is_counted: bool = True) -> None:
        self.lock = asyncio.Lock()
        self._now = asyncio.get_running_loop().time  # Callable on the threads where bytes are parsed, unlike ``clock``.
        self.is_taking = False  # A chunk is being dealt with, so what it holds may be in no count yet.
        self.heard_at = self.spoke_at = self.news_at = self._began_at = self._polled_at = clock()
        self._speaker = speaker
        self._reader, self._writer = streams
        self._share = share
        self._is_counted = is_counted
        self._portion = Portion()
        self.write_bytes = _FIRST_WRITE  # What to compose and to hand to the socket at once, learned from the link.
        self._taken, self._waited = 0, 0.0  # Bytes that the socket has taken, and how long that took.
        self._wake = asyncio.Event()
        self.was_heard = False  # Whether the peer has sent anything yet.
        self._was_open = self._has_ended = False
        self._kept_at = self._began_at  # When the speaker was asked for a sign of life last.
        self._unsent_at: float | None = None  # When bytes began to wait for the peer; None: none wait.
        self._dealing_at: float | None = None  # The peer's clock while we deal with what it sent; None: it runs.

    async def run(self, *works: Coroutine[object, object, None]) -> None:
        """Run until the peer ends the connection, or raise why it was ended: ``NetworkError``, ``ProtocolError``.

        ``works`` are run beside it; the connection ends with the first of them.
        """
        try:
            await run_together(
                self._read(), self._write(), self._watch(), *works, writer=self._writer, flush=self._speaker.flush
            )
        finally:
            let_go(self._reader)
            self._reader = no_reader()

    def wake(self) -> None:
        """Let the writer look whether there is something to compose. Cheap, so call it rather too often."""
        self._wake.set()

    def heard_news(self) -> None:
        """Note that something of use came from the peer, so that the session does not settle yet."""
        self.news_at = self.heard_at

    def silence(self) -> float:
        """The seconds for which the peer has said nothing; the time that we needed for what it said is not its own."""
        now = clock() if self._dealing_at is None else self._dealing_at
        return max(0.0, now - self.heard_at)

    def close(self) -> None:
        """Close the connection at once; ``run`` then ends."""
        self._writer.close()

    async def send_now(self) -> None:
        """Hand the socket what the connection has to send, because the session ends now."""
        async with self.lock:
            self._put_out()

    async def end_writing(self) -> None:
        """Tell the peer that nothing more comes, and wait until it hangs up, which ends the session.

        What the peer sends until then is read. Closing at once would make the system answer it with a reset, and the
        peer would take the connection for broken. TLS cannot end one direction: then the session ends at once.
        """
        if not self._writer.transport.can_write_eof():
            return
        self._has_ended = True
        self._writer.write_eof()
        await asyncio.Future()

    # -- reading -----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        speaker = self._speaker
        while data := await take(self._reader, _READ_BYTES):
            if not speaker.hears_whole_messages:
                self.heard_at = clock()
            if not self.was_heard:  # Until then the peer may be starting, as a program behind a pipe does.
                self.was_heard, self.news_at = True, clock()
            if self._is_counted:
                speaker.stats.bytes_received += len(data)
            self.is_taking = True
            at = 0
            while at < len(data):
                self._dealing_at = clock()
                async with self.lock:
                    portion = self._portion.size(is_alone=not self._share.has_others)
                    size = speaker.part_size(len(data) - at, portion)
                await self._hear(data[at : at + size])
                if speaker.is_open and not self._was_open:
                    self._was_open = True
                    speaker.opened()
                at += size
                self._excuse(clock() - self._dealing_at)
                self._dealing_at = None
            async with self.lock:
                speaker.end_chunk()
                if unsent(self._writer) < WRITE_BYTES:  # Otherwise a large message would be queued as fast as we read.
                    self._put_out()  # Credit goes out at once: the peer may wait for it, and composing takes a while.
            self.is_taking = False
            if unsent(self._writer) > _MOST_UNSENT:
                await self._writer.drain()
            self.wake()
        await speaker.end_of_stream()

    async def _hear(self, part: Buffer) -> None:
        """Parse some bytes and deal with what they say."""
        speaker, size, seconds, is_alone = self._speaker, len(part), 0.0, not self._share.has_others
        while True:
            events = speaker.receive(part, clock())
            is_light: bool | None = None  # Only the first event may complete a long message that had begun before.
            while True:
                async with self.lock:
                    if is_light is None:
                        is_light = speaker.is_light(len(part))
                    if is_light:
                        async with self._share.turn():
                            some, failure, may_be_more, spent = self._parsed(events, _LIGHT_SECONDS)
                    else:
                        some, failure, may_be_more, spent = await self._share.run(self._parsed, events)
                seconds += spent
                self._charge(spent)
                if some:
                    if speaker.hears_whole_messages:
                        self.heard_at = clock()
                    await speaker.handle(some)
                if failure is not None:
                    raise failure
                if not may_be_more:
                    break
                is_light = True
            await speaker.make_room()
            if not speaker.connection.has_more:
                break
            part = b""
        self._portion.took(seconds, size, is_alone=is_alone)

    def _parsed(
        self, events: Iterator[EventT], most: float = math.inf
    ) -> tuple[list[EventT], RemoteProtocolError | None, bool, float]:
        """The next events; why there are no more; whether there may be more; seconds of CPU.

        They are at most as many as the speaker takes at once, and no more begin after ``most`` seconds. Events before a
        fault count: they are returned along with it.
        """
        some: list[EventT] = []
        began, ends = self._share.spent(), self._now() + most
        may_be_more = False
        try:
            for event in islice(events, self._speaker.batch):
                some.append(event)
                may_be_more = len(some) == self._speaker.batch or self._now() > ends
                if may_be_more:
                    break
        except RemoteProtocolError as error:
            return some, error, False, 0.0
        return some, None, may_be_more, self._share.spent() - began

    # -- writing -----------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        while True:
            self._wake.clear()
            more = await self._speaker.compose()
            sent = await self._send()
            if self._has_ended:
                await asyncio.Future()  # Nothing that is composed could be sent any more.
            if not (more or sent):
                await self._speaker.check_done()
                await self._wait()

    async def _send(self) -> bool:
        """Hand the socket all that the connection may send now, and wait until it is taken; whether there was any."""
        any_sent = False
        while True:
            async with self.lock:
                size = self._put_out()
            if not size:
                return any_sent
            any_sent, began = True, clock()
            await self._writer.drain()
            self._unsent_at = None
            self._learn(size, clock() - began)

    def _learn(self, size: int, seconds: float) -> None:
        """Learn from the time that the link needed how large pieces should be.

        Buffers on the way take some pieces at once, so several count together, unless they take long already.
        """
        self._taken += size
        self._waited += seconds
        if self._taken < _SEVERAL * self.write_bytes and self._waited < _SEVERAL * _LONG:
            return
        each = self._waited * self.write_bytes / self._taken
        if each > _LONG:
            self.write_bytes = max(_LEAST_WRITE, self.write_bytes // 2)
        elif each < _SHORT:
            self.write_bytes = min(WRITE_BYTES, self.write_bytes * 2)
        self._taken, self._waited = 0, 0.0

    def _put_out(self) -> int:
        """Hand bytes to the socket, in the order in which the connection gives them; how many. Holds the lock."""
        speaker = self._speaker
        data = b"" if self._has_ended else speaker.connection.data_to_send(self.write_bytes)
        now = clock()
        if data:
            self.spoke_at = now
            self._unsent_at = self._unsent_at or now
            if self._is_counted:
                speaker.stats.bytes_sent += len(data)
            self._writer.write(data)
            speaker.sent()
        self._fire_timers(now)
        return len(data)

    def _fire_timers(self, now: float) -> None:
        connection = self._speaker.connection
        while (deadline := connection.next_timer()) is not None and deadline <= now:
            connection.handle_timer(now)

    async def _wait(self) -> None:
        """Wait until there may be something to compose, or the connection wants to be called."""
        deadline = self._speaker.connection.next_timer()
        if deadline is None:
            await self._wake.wait()
            return
        try:
            async with asyncio.timeout(max(0.0, deadline - clock())):
                await self._wake.wait()
        except TimeoutError:
            async with self.lock:
                self._fire_timers(max(deadline, clock()))

    # -- watching ----------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        speaker = self._speaker
        while True:
            due = clock() + _CHECK_SECONDS
            await asyncio.sleep(_CHECK_SECONDS)
            now, limits = clock(), speaker.config.limits
            self._began_at += now - due
            if self._dealing_at is None:
                self._excuse(now - due)
            if not speaker.is_open:
                if now - self._began_at > limits.handshake_seconds:
                    raise PeerSilent(f"the peer did not finish the handshake within {limits.handshake_seconds:g} s")
                continue
            self._check_silence(now, limits.idle_seconds)
            if now - max(self.spoke_at, self._kept_at) > limits.keepalive_seconds and self._unsent_at is None:
                self._kept_at = now
                async with self.lock:
                    speaker.keep_alive()
                    self._put_out()
            if self.was_heard and now - self.news_at > limits.settle_seconds:
                await speaker.settle()
            if speaker.is_live and now - self._polled_at > speaker.config.interval:
                self._polled_at = now
                await speaker.poll()
            self.wake()

    def _check_silence(self, now: float, most: float) -> None:
        """``PeerSilent`` if the peer has said nothing, or taken nothing, for ``most`` seconds."""
        if not self._writer.transport.get_write_buffer_size():
            self._unsent_at = None
        if self._unsent_at is not None and now - self._unsent_at > most:
            raise PeerSilent(f"the peer has not read what we sent for {most:g} s")
        if self.silence() > most and not self._speaker.may_be_silent:
            raise PeerSilent(f"the peer sent nothing for {most:g} s")

    def _charge(self, seconds: float) -> None:
        """Let the peer's clock go on by the computing that its bytes cost."""
        if self._dealing_at is not None:
            self._dealing_at += seconds

    def _excuse(self, seconds: float) -> None:
        """Take time that we were busy, or held up, off the time for which the peer has been silent."""
        self.heard_at = min(clock(), self.heard_at + seconds)
