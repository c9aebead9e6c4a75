"""Backoff, penalties, calls, bandwidth: what each promises, on clocks that the tests turn."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.errors import NetworkError, RemoteProtocolError
from culm.node.config import NodeConfig, NodeLimits, PeerSettings
from culm.node.network.backoff import Backoff
from culm.node.network.urls import PeerUrl
from culm.node.sessions.stats import SessionStats
from culm.node.sharing.peering import Peering, network_of
from culm.node.sharing.penalties import CallGate, Penalties
from culm.node.sharing.rates import Bucket, PacedReader, PacedWriter, paced
from culm.node.sharing.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = b"k" * 32
ADDRESS = "203.0.113.9"


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


# -- backoff --------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    first=st.floats(0.01, 10), times=st.floats(1, 1000), chances=st.lists(st.floats(0, 0.999), min_size=1, max_size=80)
)
def test_waits_grow_and_stay_bounded(first: float, times: float, chances: list[float]) -> None:
    """The n-th wait is the first doubled n times, the most at most, less a half by chance; a good session resets it."""
    most = first * times
    source = iter(chances)
    backoff = Backoff(first, most, lambda: next(source))
    for attempt, chance in enumerate(chances):
        assert backoff.failed() == pytest.approx(min(most, first * 2.0**attempt) * (0.5 + chance / 2))
    assert backoff.failures
    backoff.succeeded()
    assert not backoff.failures
    again = Backoff(first, most, lambda: 0.0)
    assert again.failed() == first / 2


# -- penalties ------------------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(st.sampled_from(["blame", "forgive", "look"]), st.integers(0, 5), st.floats(0, 400)), max_size=60
)


@settings(deadline=None)
@given(events=EVENTS, capacity=st.integers(1, 4))
def test_penalties_are_bounded(events: list[tuple[str, int, float]], capacity: int) -> None:
    """Nobody is refused for longer than the most, who was not blamed is not refused, and memory stays bounded."""
    penalties: Penalties[int] = Penalties(10, 100, capacity)
    now, blamed = 0.0, set()
    for what, key, seconds in events:
        now += seconds
        if what == "blame":
            blamed.add(key)
            assert 10 <= penalties.blame(key, now) <= 100
        elif what == "forgive":
            penalties.forgive(key, now)
        assert 0 <= penalties.refused_for(key, now) <= 100
        assert key in blamed or not penalties.refused_for(key, now)
        assert len(penalties) <= capacity


def test_penalties_grow_and_are_forgiven() -> None:
    """Offence after offence the penalty doubles; as long a quiet time as it cost forgives one, a good session, too."""
    penalties: Penalties[str] = Penalties(10, 1000)
    now, costs = 0.0, []
    for _ in range(9):
        costs.append(penalties.blame("x", now))
        now += costs[-1]
    assert costs == [10, 20, 40, 80, 160, 320, 640, 1000, 1000]
    assert penalties.refused_for("x", now - 1) == 1
    assert not penalties.refused_for("x", now)
    assert penalties.blame("x", now + 20_000) == 10
    penalties.blame("y", 0)
    penalties.forgive("y", 10)
    assert penalties.blame("y", 10) == 10
    assert Penalties[str](0, 0).blame("z", 0) == 0


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), asks=st.booleans())
def test_an_honest_peer_behind_a_bad_address_gets_in(seed: int, asks: bool) -> None:
    """While another one at its address breaks the rules whenever it can, a peer that tries again gets in.

    Without ``asks`` the other one breaks them before it could be refused.
    """
    source = random.Random(seed)
    penalties: Penalties[str] = Penalties(10, 360)
    backoff = Backoff(1, 60, source.random)
    honest_at, admitted = backoff.failed(), False
    now = 0.0
    while now < 24 * 3600 and not admitted:
        now += source.uniform(0, 40)  # the other one tries twice a minute
        while honest_at <= now and not admitted:
            admitted = penalties.lets_through("x", honest_at)
            honest_at += backoff.failed()
        if not asks or penalties.lets_through("x", now):
            penalties.blame("x", now)
    assert admitted


# -- calls ----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 3), st.booleans()), max_size=120))
def test_calls_are_bounded(calls: list[tuple[int, float, bool]]) -> None:
    """In no minute more calls are taken than twice the bound, never more at once than may; memory is bounded."""
    gate: CallGate[int] = CallGate(10, 3, capacity=3)
    now, taken, open_calls = 0.0, list[tuple[float, int]](), {0: 0, 1: 0, 2: 0}
    for key, seconds, ends in calls:
        now += seconds
        if ends and open_calls[key]:
            open_calls[key] -= 1
        elif gate.call(key, now, open_calls[key]) is None:
            taken.append((now, key))
            open_calls[key] += 1
        assert open_calls[key] <= 3
        assert sum(at > now - 60 and other == key for at, other in taken) <= 20
        assert len(gate) <= 3


# -- bandwidth ------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    rate=st.floats(2000, 10**7),
    steps=st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 10**6)), min_size=1, max_size=60),
)
def test_a_bucket_is_smooth_and_wastes_nothing(rate: float, steps: list[tuple[float, int]]) -> None:
    """In no stretch of time more bytes go than its length allows and the burst; and none wait longer than they must."""
    bucket = Bucket(rate)
    now, sent, backlog_since = 0.0, list[tuple[float, int]](), 0.0
    for pause, size in steps:
        now += pause
        size = min(size, bucket.burst)  # noqa: PLW2901 - so much at once
        wait = bucket.reserve(size, now)
        if not wait:
            backlog_since = now
        sent.append((now + wait, size))
        assert wait <= sum(part for at, part in sent if at >= backlog_since) / rate + 1e-6
        now += wait
    for index, (begin, _) in enumerate(sent):
        total = 0
        for at, size in sent[index:]:
            total += size
            assert total <= rate * (at - begin) + bucket.burst + size * 1e-6 + 1


class Wire:
    """Both sides of a stream, with the times at which bytes passed."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.sent: list[tuple[float, bytes]] = []
        self.transport = SimpleNamespace(get_write_buffer_size=lambda: 0)
        self.closed = self.ended = False

    def write(self, data: bytes) -> None:
        """Take bytes."""
        self.sent.append((self.clock.now, bytes(data)))

    async def drain(self) -> None:
        """Nothing waits."""

    def write_eof(self) -> None:
        """The end."""
        self.ended = True

    def close(self) -> None:
        """Closed."""
        self.closed = True

    async def wait_closed(self) -> None:
        """It is."""
        assert self.closed

    async def read(self, size: int) -> bytes:
        """As many bytes as asked for."""
        return bytes(size)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that sleeping turns."""
    made = Clock()
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        made.now += seconds
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return made


def test_writing_at_a_pace(clock: Clock) -> None:
    """Everything written arrives in order, evenly; what waits is bounded; an end and a close come behind it."""
    wire: Any = Wire(clock)
    data = random.Random(1).randbytes(300_000)

    async def main() -> None:
        _, writer = paced((wire, wire), [], [Bucket(100_000), Bucket(1_000_000)], clock)
        assert isinstance(writer, PacedWriter)
        for at in range(0, len(data), 50_000):
            writer.write(memoryview(data)[at : at + 50_000])
            await writer.drain()
            assert writer.waiting <= 64 * 1024
        writer.write_eof()
        writer.close()
        await writer.wait_closed()

    asyncio.run(main())
    assert b"".join(piece for _, piece in wire.sent) == data
    assert wire.ended
    assert clock.now - 1000 == pytest.approx(3, rel=0.05)
    assert max(len(piece) for _, piece in wire.sent) <= 5000


def test_a_slow_close_can_be_given_up() -> None:
    """Who waits for a paced connection to close, and is cancelled, waits no longer."""

    async def main() -> bool:
        clock = Clock()
        wire: Any = Wire(clock)
        _, writer = paced((wire, wire), [], [Bucket(1)], clock)
        writer.write(bytes(5000))
        writer.close()
        task = asyncio.create_task(writer.wait_closed())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())


def test_reading_at_a_pace(clock: Clock) -> None:
    """What is read comes evenly, however much is asked for; without a cap streams are as they were."""
    wire: Any = Wire(clock)

    async def main() -> None:
        reader, same = paced((wire, wire), [Bucket(50_000)], [], clock)
        assert same is wire
        assert isinstance(reader, PacedReader)
        assert len(await reader.readexactly(100_000)) == 100_000
        assert len(await reader.read(10**6)) == 2500

    asyncio.run(main())
    assert clock.now - 1000 == pytest.approx(2, rel=0.05)


def test_a_write_that_fails(clock: Clock) -> None:
    """A connection that breaks while bytes wait raises where the session waits for them."""
    wire: Any = Wire(clock)

    async def broken() -> None:
        raise ConnectionResetError("gone")

    wire.drain = broken

    async def main() -> None:
        _, writer = paced((wire, wire), [], [Bucket(10_000)], clock)
        writer.write(bytes(200_000))
        with pytest.raises(ConnectionResetError):
            await writer.drain()
        writer.close()

    asyncio.run(main())
    assert wire.closed


# -- all of it ------------------------------------------------------------------------------------------------------


def peering(clock: Callable[[], float], **limits: Any) -> Peering:
    """One that decides for a node with these limits."""
    return Peering(NodeConfig(b"x", limits=NodeLimits(**limits)), clock)


def good() -> SessionStats:
    """What went through a good session."""
    return SessionStats(entries_received=1)


def test_identities_are_blamed_where_they_are_proved() -> None:
    """An identity that broke the rules is refused wherever it comes from; its address is not."""
    clock = Clock()
    mine = peering(clock, penalty_seconds=10, max_penalty_seconds=600)
    mine.ended("x", ADDRESS, KEY, good(), RemoteProtocolError("nonsense"))
    assert 10 == mine.refuses_peer(KEY, "198.51.100.1")
    assert mine.refuses_call(ADDRESS, proves=False) is None
    assert 0 == mine.refuses_peer(b"o" * 32, ADDRESS)
    clock.now += 10
    assert 0 == mine.refuses_peer(KEY, ADDRESS)


def test_addresses_are_blamed_where_nothing_is_proved(caplog: pytest.LogCaptureFixture) -> None:
    """A stranger's offence refuses its address for a while, told in one line; identities known as good get through."""
    clock = Clock()
    mine = peering(clock, penalty_seconds=10, max_penalty_seconds=600)
    mine.ended("good", ADDRESS, KEY, good(), None)
    for _ in range(8):
        mine.ended("bad", ADDRESS, None, SessionStats(), RemoteProtocolError("nonsense"))
    assert mine.refused_for(ADDRESS) == 60  # a tenth of what an identity gets at most
    assert "refused" in str(mine.refuses_call(ADDRESS, proves=False))
    assert mine.refuses_call(ADDRESS, proves=True) is None  # it may prove who it is
    assert 0 == mine.refuses_peer(KEY, ADDRESS)
    assert 60 == mine.refuses_peer(b"o" * 32, ADDRESS)
    assert mine.refuses_call("198.51.100.1", proves=False) is None
    line = caplog.records[0]
    assert line.message == f"refusing address {ADDRESS} for 10 s: nonsense (peer bad, seconds 10)"
    clock.now += 60
    assert mine.refuses_call(ADDRESS, proves=False) is None


def test_what_is_no_offence() -> None:
    """Broken connections are nobody's fault; refused entries are, but of greedy peers, who cannot know."""
    mine = peering(Clock())
    mine.ended("x", ADDRESS, None, SessionStats(), NetworkError("gone"))
    assert not mine.refused_for(ADDRESS)
    mine.ended("x", ADDRESS, None, SessionStats(refused=["the waiting room is full"]), None)
    assert not mine.refused_for(ADDRESS)
    mine.ended("x", ADDRESS, None, SessionStats(refused=["a bad signature"], offences=1), None)
    assert mine.refused_for(ADDRESS)


class Caller:
    """A connection that comes in, and is held in a task of its own if it is taken."""

    def __init__(self, address: str = ADDRESS) -> None:
        self.is_taken = self.is_closed = False
        self.task: asyncio.Task[None] | None = None
        self._address = address

    def get_extra_info(self, _: str) -> tuple[str, int]:
        """Where it comes from."""
        return self._address, 4000

    def close(self) -> None:
        """It is not taken."""
        self.is_closed = True

    async def comes(self, mine: Peering) -> bool:
        """Come; whether it is taken."""

        async def held() -> None:
            self.is_taken = mine.take_call(self, proves=False)  # type: ignore[arg-type]
            await asyncio.sleep(60 if self.is_taken else 0)

        self.task = asyncio.create_task(held())
        await asyncio.sleep(0)
        return self.is_taken


def test_callers_that_say_nothing_keep_nobody_out(caplog: pytest.LogCaptureFixture) -> None:
    """Where all places are taken, a caller that has not said its first word for two seconds gives up its place."""
    clock = Clock()
    mine = peering(clock, max_sessions=4)
    mutes = [Caller(f"198.51.100.{number}") for number in range(3)]
    speaker, late = Caller("198.51.100.9"), Caller()

    async def speaks() -> None:
        mine.take_call(speaker, proves=False)  # type: ignore[arg-type]
        mine.began(lambda: 20.0, lambda: True)
        await asyncio.sleep(60)

    async def main() -> None:
        for one in mutes:
            clock.now += 0.5
            assert await one.comes(mine)
        speaking = asyncio.create_task(speaks())
        await asyncio.sleep(0)
        clock.now += 1.0
        assert not await late.comes(mine)  # the first has had two seconds, and not longer
        clock.now += 0.1
        assert await late.comes(mine)
        await asyncio.sleep(0)
        assert [True, False, False] == [one.task is None or one.task.done() for one in mutes]
        assert not speaking.done()

    asyncio.run(main())
    assert ["refused", "ended"] == [record.message.split()[0] for record in caplog.records]


def test_a_crowd_keeps_nobody_out(caplog: pytest.LogCaptureFixture) -> None:
    """Where all places are taken, who has few gets that of the youngest connection of the address that has most."""
    mine = peering(Clock(), max_sessions=8)
    crowd, late, other = [Caller() for _ in range(8)], Caller(), Caller("198.51.100.1")

    def ended() -> list[int]:
        return [number for number, one in enumerate(crowd) if one.task is None or one.task.done()]

    async def main() -> None:
        assert [await one.comes(mine) for one in crowd] == [True] * 8
        assert not await late.comes(mine)  # nobody is displaced by its own kind
        assert late.is_closed
        assert await other.comes(mine)
        assert not await Caller("198.51.100.1").comes(mine)  # 7 are fewer than 4 times 2
        await asyncio.sleep(0)
        assert ended() == [7]
        assert await Caller("198.51.100.2").comes(mine)
        await asyncio.sleep(0)
        assert ended() == [6, 7]
        assert other.task is not None
        assert not other.task.done()

    asyncio.run(main())
    assert ["refused", "ended", "refused", "ended"] == [record.message.split()[0] for record in caplog.records]


def test_few_are_ended_at_a_time() -> None:
    """Who was told to go takes time to go: not more than some are, whoever comes."""
    slots: Slots[int] = Slots()
    for number in range(100):
        slots.take("crowd", number)
    going = [slots.displaced_by(f"{number}") for number in range(20)]
    assert going == [*range(99, 83, -1), None, None, None, None]
    assert slots.taken == 84
    slots.leave("crowd", 90)
    assert slots.displaced_by("another") == 83
    for number in range(100):
        slots.leave("crowd", number)
    assert slots.taken == 0
    assert slots.displaced_by("another") is None


def test_idle_connections_give_way_first() -> None:
    """Where no slot is left, the connection goes that is idle longest, of the address that has the most."""
    idle = {"a1": 50.0, "a2": 90.0, "b1": 300.0, "b2": 0.0, "b3": 0.0}
    slots: Slots[str] = Slots(lambda call: idle.get(call, 0.0))
    for call in ("a1", "a2", "a3", "b1", "b2"):
        slots.take(call[0], call)
    assert slots.displaced_by("c") == "a2"
    slots.take("c", "c1")
    assert slots.displaced_by("c") == "b1"  # "a" and "b" have two each: the one that is idle longer
    slots.take("b", "b3")
    assert slots.displaced_by("d") == "a1"  # of "b" nobody is idle
    assert slots.displaced_by("d") is None  # nobody is idle, and no address has four times as many


def test_an_address_with_few_idle_connections_does_not_give_way_to_one_with_more() -> None:
    """A host that takes all slots cannot drive out the one idle peer that has been there before it."""
    slots: Slots[str] = Slots(lambda call: 100.0 if call == "quiet" else 0.0)
    slots.take("home", "quiet")
    for number in range(9):
        slots.take("host", f"{number}")
    assert slots.displaced_by("host") is None
    assert slots.displaced_by("another") == "quiet"


def test_floods_of_calls_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    """More calls than may be are refused, told once a minute; others are let in meanwhile, and the same one later."""
    clock = Clock()
    mine = peering(clock, max_address_calls=5, max_address_sessions=3)
    callers = [Caller() for _ in range(5)]

    async def end(*ended: Caller) -> None:
        for one in ended:
            assert one.task is not None
            one.task.cancel()
        await asyncio.sleep(0.01)

    async def main() -> None:
        assert [await one.comes(mine) for one in callers] == [True] * 3 + [False] * 2
        assert await Caller("198.51.100.1").comes(mine)
        await end(callers[0])
        callers[0] = Caller()
        assert await callers[0].comes(mine)
        assert [await Caller().comes(mine) for _ in range(100)] == [False] * 100
        assert len(caplog.records) == 1
        clock.now += 61
        await end(callers[0])
        assert await Caller().comes(mine)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("alice.example", "alice.example"),
    ],
)
def test_networks(host: str, expected: str) -> None:
    """An address of IPv6 is known by its network: whoever has one has all of it."""
    assert network_of(host) == expected


def test_each_peer_has_its_own_pace_and_limits() -> None:
    """A configured peer's caps and limits win over those for all; the node's own caps go for everybody together."""
    url = PeerUrl.parse("bushbaby://a:1")
    peer = PeerSettings(url, "a", 20_000, 0, {"idle_seconds": 99.0})
    config = NodeConfig(b"x", limits=NodeLimits(max_rate=30_000), peers=(peer,), upload=90_000)
    mine = Peering(config)
    wire: Any = Wire(Clock())
    reader, writer = mine.paced((wire, wire), config.for_peer(url)[1])
    other_reader, other_writer = mine.paced((wire, wire))
    assert isinstance(reader, PacedReader)
    assert isinstance(other_reader, PacedReader)
    assert isinstance(writer, PacedWriter)
    assert isinstance(other_writer, PacedWriter)
    assert [bucket.rate for bucket in reader.pace.buckets] == [20_000]
    assert [bucket.rate for bucket in other_reader.pace.buckets] == [30_000]
    assert writer.pace.buckets[0] is other_writer.pace.buckets[0]
    assert config.for_peer(url)[0].limits.idle_seconds == 99
    assert config.for_peer(PeerUrl.parse("bushbaby://b:1"))[0].limits.idle_seconds == 30
