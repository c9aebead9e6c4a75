"""The driver of a session, with a protocol of its own: each byte is an event, but ``-``, and ``!`` breaks the rules."""

from __future__ import annotations

import asyncio
from contextvars import Context
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import pytest

from culm.errors import CulmError, RemoteProtocolError
from culm.node.config import NodeConfig, NodeLimits
from culm.node.sessions.driver import WRITE_BYTES, Driver
from culm.node.sessions.speaker import Speaker
from culm.node.sessions.stats import PeerSilent, SessionStats
from culm.node.sharing.rates import unsent
from culm.node.storage.worker import Computing
from culm.node.surroundings import clock
from culm.testing.simulation.loop import HOST
from culm.wire.connection import UNLIMITED
from tests.node.links import SURROUNDINGS, run, stream_pair
from tests.node.peers import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from culm.testing.simulation.host import Host
    from culm.types import Buffer

LIMITS = NodeLimits(handshake_seconds=5, idle_seconds=20, keepalive_seconds=4, settle_seconds=3)


class Bytes:
    """A connection whose bytes are its events. ``deadline``: when it wants to be called."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.deadline: float | None = None
        self.fired: list[float] = []
        self.limits: list[int] = []
        self.has_more = False

    def receive_data(self, data: Buffer, now: float) -> Iterator[int]:  # noqa: ARG002 - the shape of a connection
        """Each byte; ``!`` is the fault of the peer."""
        for byte in data:
            if byte == ord("!"):
                raise RemoteProtocolError("the peer sent !")
            if byte != ord("-"):
                yield byte

    def data_to_send(self, limit: int = UNLIMITED) -> bytes:
        """What is queued, as far as the limit goes."""
        self.limits.append(limit)
        data = bytes(self.out[:limit])
        del self.out[: len(data)]
        return data

    def next_timer(self) -> float | None:
        """When to call."""
        return self.deadline

    def handle_timer(self, now: float) -> list[int]:
        """Note when that was."""
        self.fired.append(now)
        self.deadline = None
        return []

    def keep_alive(self) -> None:
        """Say something."""
        self.out += b"."


class Listening(Speaker[int]):
    """Notes what it hears and says what it is given to say, all of it at once."""

    connection: Bytes

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.config = NodeConfig(b"clump", limits=LIMITS, interval=10.0)
        self.connection = Bytes()
        self.is_live = True
        self.stats = SessionStats()
        self.heard = bytearray()
        self.to_say: list[bytes] = []
        self.open = True
        self.told: list[str] = []

    @property
    def is_open(self) -> bool:
        """As the test says."""
        return self.open

    async def handle(self, events: list[int]) -> None:
        """Note them."""
        self.heard += bytes(events)

    async def compose(self) -> bool:
        """One of the things to say."""
        if self.to_say:
            self.connection.out += self.to_say.pop(0)
        return bool(self.to_say)

    async def settle(self) -> None:
        """Note it."""
        self.told.append("settle")

    async def poll(self) -> None:
        """Note it."""
        self.told.append("poll")

    async def flush(self) -> None:
        """Note it."""
        self.told.append("flush")


async def driven(
    talk: Callable[[Listening, Driver[int], Any], Any],
    kind: type[Listening] = Listening,
    spent: Callable[[], float] = SURROUNDINGS.spent,
) -> tuple[Listening, CulmError | None]:
    """Run a driver while a test is its peer; the speaker, and why the session ended, None if the test ended it.

    ``spent``: the seconds that a thread has computed.
    """
    near, far = await stream_pair()
    speaker = kind(near[1])
    computing = Computing(replace(SURROUNDINGS, spent=spent))
    driver = Driver(speaker, near, computing.share())
    task = asyncio.create_task(driver.run())
    talking = asyncio.create_task(talk(speaker, driver, far))
    await asyncio.wait([task, talking], return_when=asyncio.FIRST_COMPLETED)
    talking.cancel()
    task.cancel()
    (result, _) = await asyncio.gather(task, talking, return_exceptions=True)
    computing.close()
    if isinstance(result, Exception) and not isinstance(result, CulmError):
        raise result
    return speaker, result if isinstance(result, CulmError) else None


def test_what_comes_before_a_fault_counts() -> None:
    """Events before a breach of the protocol are handled, then the session ends with its reason; all is flushed."""

    async def talk(_speaker: Listening, _driver: Driver[int], far: Any) -> None:
        far[1].write(b"abc!d")
        await asyncio.sleep(60)

    speaker, ended = run(lambda: driven(talk))
    assert (bytes(speaker.heard), speaker.told[-1]) == (b"abc", "flush")
    assert isinstance(ended, RemoteProtocolError)


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_no_event_is_left_out(batch: int) -> None:
    """All events of a chunk are handled in order, however many a speaker takes at once."""

    async def talk(speaker: Listening, _driver: Driver[int], far: Any) -> None:
        speaker.batch = batch  # type: ignore[misc]
        far[1].write(b"abcdefg")
        await until(lambda: len(speaker.heard) == 7)

    speaker, ended = run(lambda: driven(talk))
    assert (b"abcdefg", None) == (bytes(speaker.heard), ended)


def test_parsing_on_the_loop_stops_after_a_millisecond() -> None:
    """What takes long to parse is parsed in several turns, of a millisecond each, and is handled between them."""
    sizes, ticks = [], count()

    class Counting(Listening):
        async def handle(self, events: list[int]) -> None:
            sizes.append(len(events))
            await super().handle(events)

    async def talk(speaker: Listening, driver: Driver[int], far: Any) -> None:
        driver._now = lambda: next(ticks) * 0.0004
        far[1].write(b"abcdefg")
        await until(lambda: len(speaker.heard) == 7)

    speaker, ended = run(lambda: driven(talk, Counting))
    assert ([3, 3, 1], b"abcdefg", None) == (sizes, bytes(speaker.heard), ended)


@pytest.mark.parametrize(("whole", "lives"), [(False, True), (True, False)])
def test_what_is_a_sign_of_life(whole: bool, lives: bool) -> None:
    """Bytes that make no event keep a session alive, as the keep-alives of most protocols do, unless messages count."""

    async def talk(speaker: Listening, _driver: Driver[int], far: Any) -> None:
        if whole:
            speaker.hears_whole_messages = True  # type: ignore[misc]
        for _ in range(20):
            far[1].write(b"-")
            await asyncio.sleep(2)

    _, ended = run(lambda: driven(talk))
    assert lives is (ended is None), ended
    assert lives or isinstance(ended, PeerSilent)


@pytest.mark.parametrize("whole", [False, True])
def test_a_peer_is_not_silent_while_what_it_said_is_dealt_with(*, whole: bool) -> None:
    """A node that is slow does not take the time it needs for a chunk for the peer's silence, nor count it later."""

    class Slow(Listening):
        hears_whole_messages = whole

        async def handle(self, events: list[int]) -> None:
            await asyncio.sleep(1.5 * LIMITS.idle_seconds)
            await super().handle(events)

    silent = []

    async def say_no_more(speaker: Listening, driver: Driver[int], far: Any) -> None:
        far[1].write(b"abc")
        await until(lambda: bool(speaker.heard))
        silent.append(driver.silence())
        await asyncio.sleep(0.8 * LIMITS.idle_seconds)  # for less than a peer may
        silent.append(driver.silence())
        await asyncio.sleep(0.4 * LIMITS.idle_seconds)

    speaker, ended = run(lambda: driven(say_no_more, Slow))
    assert bytes(speaker.heard) == b"abc"
    assert silent == pytest.approx([0, 0.8 * LIMITS.idle_seconds], abs=1)
    assert isinstance(ended, PeerSilent)


@pytest.mark.parametrize("cost", [0.5, 0.1])
def test_a_chunk_that_makes_ever_more_work_is_not_dealt_with_for_ever(cost: float) -> None:
    """What a chunk costs in computing counts as its sender's silence: a bomb ends when its sender would have to speak.

    Waiting for the disk or for other peers does not count: each step takes a second, and ``cost`` of it is computing.
    """
    ticks = count()

    class Endless(Listening):
        async def make_room(self) -> None:
            self.connection.has_more = True
            self.told.append("step")
            await asyncio.sleep(1)

    async def throw(_speaker: Listening, _driver: Driver[int], far: Any) -> None:
        far[1].write(b"b")
        await asyncio.sleep(100 * LIMITS.idle_seconds)

    # The clock of a thread is read at the beginning and the end of a turn, and of the parsing in it.
    speaker, ended = run(lambda: driven(throw, Endless, lambda: next(ticks) * cost), patience=1000)
    assert isinstance(ended, PeerSilent)
    assert speaker.told.count("step") == pytest.approx(LIMITS.idle_seconds / cost, abs=3)


def test_time_in_which_the_node_was_held_up_is_nobodys_silence() -> None:
    """A node whose machine stood still does not find all its peers silent when it goes on."""
    silent = []

    async def talk(_speaker: Listening, driver: Driver[int], _far: Any) -> None:
        await asyncio.sleep(0.6 * LIMITS.idle_seconds)
        machine = cast("Host", HOST.get())
        machine.freeze()
        Context().run(asyncio.get_running_loop().call_later, 3 * LIMITS.idle_seconds, machine.thaw)
        await asyncio.sleep(0.1 * LIMITS.idle_seconds)  # which are over when it goes on
        silent.append(driver.silence())

    _, ended = run(lambda: driven(talk), patience=1000)
    assert ended is None
    assert silent == pytest.approx([0.6 * LIMITS.idle_seconds], abs=1)


def test_a_peer_that_does_not_read_is_not_read_from_without_end() -> None:
    """However much a peer sends that takes nothing itself, little more is queued for it than is written at once."""
    queued = []

    async def talk(speaker: Listening, driver: Driver[int], far: Any) -> None:
        speaker.connection.out += bytes(8 * WRITE_BYTES)
        driver.wake()
        for _ in range(200):
            far[1].write(b"x")
            await asyncio.sleep(0.01)
            queued.append(unsent(speaker.writer))

    run(lambda: driven(talk))
    assert WRITE_BYTES / 2 < max(queued) < 3 * WRITE_BYTES


def test_timers_of_the_connection_fire() -> None:
    """A deadline is met though nothing else happens, one that has passed at once."""
    began = []

    async def talk(speaker: Listening, driver: Driver[int], _far: Any) -> None:
        began.append(clock())
        speaker.connection.deadline = clock() + 1.5
        driver.wake()
        await until(lambda: bool(speaker.connection.fired))
        speaker.connection.deadline = clock() - 1
        driver.wake()
        await until(lambda: len(speaker.connection.fired) == 2)

    speaker, _ = run(lambda: driven(talk))
    first, second = speaker.connection.fired
    assert 1.5 <= first - began[0] < 1.6
    assert second - first < 0.1


@pytest.mark.parametrize(("is_open", "after"), [(True, 20.0), (False, 5.0)])
def test_silence_ends_a_session(is_open: bool, after: float) -> None:
    """A peer that says nothing is dropped: sooner while the handshake is not over."""
    began = []

    async def talk(speaker: Listening, _driver: Driver[int], far: Any) -> None:
        began.append(clock())
        speaker.open = is_open
        while await far[0].read(100):  # it takes what is said
            pass

    async def timed() -> tuple[CulmError | None, float]:
        _, ended = await driven(talk)
        return ended, clock() - began[0]

    ended, seconds = run(timed)
    assert isinstance(ended, PeerSilent)
    assert after <= seconds < after + 2  # closing takes a second where the peer does not


def test_a_handshake_may_take_all_of_its_time() -> None:
    """A peer that ends its handshake just as its time is over is not dropped."""

    async def talk(speaker: Listening, _driver: Driver[int], _far: Any) -> None:
        speaker.open = False
        await asyncio.sleep(LIMITS.handshake_seconds + 0.1)  # the watch has looked when the time was just over
        speaker.open = True
        await asyncio.sleep(5)

    _, ended = run(lambda: driven(talk))
    assert ended is None


def test_a_quiet_session_says_something_settles_and_polls() -> None:
    """When nothing happens, a sign of life goes out in time, and the speaker is told to settle and to ask again."""
    came = bytearray()

    async def talk(_speaker: Listening, _driver: Driver[int], far: Any) -> None:
        for _ in range(12):
            far[1].write(b"x")
            await asyncio.sleep(1)
        came.extend(await far[0].read(100))

    speaker, ended = run(lambda: driven(talk))
    assert ended is None
    assert bytes(came) == b".."  # after 4 and 8 seconds
    assert {"settle", "poll"} <= set(speaker.told)


def test_a_session_does_not_settle_before_the_peer_has_spoken() -> None:
    """A peer that takes long to start is waited for, and its first answers are, too."""
    told: list[list[str]] = []

    async def talk(speaker: Listening, _driver: Driver[int], far: Any) -> None:
        await asyncio.sleep(12)  # longer than any settling
        far[1].write(b"x")
        await asyncio.sleep(0.5)
        told.append(list(speaker.told))
        await asyncio.sleep(5)
        told.append(list(speaker.told))

    run(lambda: driven(talk))
    assert ["settle" in some for some in told] == [False, True]


@pytest.mark.parametrize(("pause", "pieces", "sizes"), [(0.0, 32, {WRITE_BYTES}), (0.1, 8, {16 * 1024, 32 * 1024})])
def test_a_slow_link_gets_small_pieces(pause: float, pieces: int, sizes: set[int]) -> None:
    """A peer that takes long gets less at a time, so that news wait for little; a quick one gets as much as goes."""

    async def talk(speaker: Listening, driver: Driver[int], far: Any) -> None:
        speaker.to_say = [bytes(WRITE_BYTES)] * pieces
        driver.wake()
        came = 0
        while came < pieces * WRITE_BYTES * 3 / 4:
            came += len(await far[0].read(32 * 1024))
            await asyncio.sleep(pause)

    speaker, ended = run(lambda: driven(talk))
    assert ended is None
    assert set(speaker.connection.limits[-20:]) <= sizes


def test_what_is_composed_goes_out_in_order() -> None:
    """All that a speaker has to say reaches the peer, whole and in order, however small the pieces and the reads."""
    said = [bytes([number]) * (number * 3000) for number in range(1, 40)]
    came = bytearray()

    async def talk(speaker: Listening, driver: Driver[int], far: Any) -> None:
        speaker.to_say = list(said)
        driver.wake()
        while len(came) < sum(map(len, said)):
            came.extend(await far[0].read(5000))

    speaker, ended = run(lambda: driven(talk))
    assert (bytes(came), ended) == (b"".join(said), None)
    assert speaker.stats.bytes_sent == len(came)
