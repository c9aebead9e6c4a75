"""All protocol connections have one shape: they are fed, drained and timed the same way, and they fail the same way."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from culm import bushbaby, intervals, proposals, session
from culm.bamboo import Identity
from culm.bushbaby.outbox import MESSAGES_A_WRITE, TICK_SECONDS
from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.intervals.codec import push_message
from culm.intervals.messages import Cancel
from culm.wire.bymux import packet
from culm.wire.connection import ProtocolConnection
from tests.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

ALICE, BOB = Identity(b"\1" * 32), Identity(b"\2" * 32)
KEY = ALICE.public


@dataclass(frozen=True)
class Case:
    """A connection, bytes for it that make an event of some class, and bytes that break its protocol."""

    connection: ProtocolConnection[object]
    good: bytes
    event: type
    bad: bytes


def _bushbaby_pair(*, paced: bool = False, mark: bool = True) -> tuple[bushbaby.Connection, bushbaby.Connection]:
    numbers = iter(range(1, 10_000))
    one, other = (
        bushbaby.Connection(
            identity,
            b"clump",
            random_bytes=lambda size: next(numbers).to_bytes(size, "big"),
            options=bushbaby.Options(paced=paced, mark=mark),
        )
        for identity in (ALICE, BOB)
    )
    return one, other


def _of_bushbaby() -> Case:
    one, other = _bushbaby_pair()
    return Case(one, other.data_to_send(), bushbaby.PeerIdentified, b"\x09\x00")


def _of_sessions() -> Case:
    caller = session.Connection(BOB, b"clump", b"c" * 32, listener=ALICE.public)
    listener = session.Connection(ALICE, b"clump", b"l" * 32)
    list(caller.receive_data(listener.data_to_send(), 0.0))
    return Case(listener, caller.data_to_send(), session.Established, packet(7, 0))


def _of_intervals() -> Case:
    request = intervals.Request(3, KEY, 0, intervals.Regular(intervals.At(1), intervals.At(2)))
    connection = intervals.Connection(MemoryStore())
    return Case(connection, push_message(request), intervals.Request, push_message(Cancel(9)))


def _of_proposals() -> Case:
    peer = proposals.Connection(MemoryStore(), proactive=True)
    connection = proposals.Connection(MemoryStore(), proactive=False)
    list(peer.receive_data(connection.data_to_send(), 0.0))
    peer.endpoint.propose(proposals.Proposal(0, KEY, 0, 1, 1))
    return Case(connection, peer.data_to_send(), proposals.Offered, packet(7, 0))


CASES = {
    "bushbaby": _of_bushbaby,
    "session": _of_sessions,
    "intervals": _of_intervals,
    "proposals": _of_proposals,
}
CONNECTIONS: list[type[ProtocolConnection[object]]] = [
    bushbaby.Connection,
    session.Connection,
    intervals.Connection,
    proposals.Connection,
]
METHODS = [name for name in vars(ProtocolConnection) if not name.startswith("_")]


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    """Each protocol's connection in turn."""
    make: Callable[[], Case] = request.param
    return make()


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_all_connections_have_the_same_methods(connection: type) -> None:
    """Each method of the shape is there, with the same parameters of the same types and the same defaults."""
    assert len(METHODS) == 6
    for name in METHODS:
        expected, found = vars(ProtocolConnection)[name], getattr(connection, name)
        assert isinstance(expected, property) == isinstance(found, property), name
        if not isinstance(expected, property):
            ours, theirs = (inspect.signature(method, eval_str=True).parameters for method in (expected, found))
            assert list(ours.values()) == list(theirs.values()), name


def test_a_connection_is_recognised(case: Case) -> None:
    """``isinstance`` tells a connection from anything else."""
    assert isinstance(case.connection, ProtocolConnection)
    assert not isinstance(MemoryStore(), ProtocolConnection)


def test_the_events_before_a_fault_count(case: Case) -> None:
    """Bytes that are in order make their events, even if others behind them break the protocol."""
    events = []
    with pytest.raises(RemoteProtocolError):
        for event in case.connection.receive_data(case.good + case.bad, 1.0):
            events.append(event)  # noqa: PERF402 - those before the fault
    assert [case.event] == [type(event) for event in events]


def test_after_a_fault_nothing_is_taken(case: Case) -> None:
    """A connection whose peer broke the protocol refuses everything, and says that this is its owner's mistake."""
    connection = case.connection
    with pytest.raises(RemoteProtocolError):
        list(connection.receive_data(case.good + case.bad, 1.0))
    for data in (b"", case.good):
        with pytest.raises(LocalProtocolError, match="the peer broke the protocol"):
            list(connection.receive_data(data, 2.0))


def test_bytes_may_come_one_by_one(case: Case) -> None:
    """However the bytes are cut, they make the same events."""
    events = [
        event
        for at in range(len(case.good))
        for event in case.connection.receive_data(case.good[at : at + 1], float(at))
    ]
    assert [case.event] == [type(event) for event in events]
    assert not case.connection.has_more


@pytest.mark.parametrize("make", list(CASES.values()), ids=list(CASES))
def test_a_limit_changes_nothing_but_the_pieces(make: Callable[[], Case]) -> None:
    """What is taken in small pieces adds up to what is taken at once."""
    (whole, cut), pieces = (make(), make()), []
    for case in (whole, cut):
        list(case.connection.receive_data(case.good, 0.0))
        if not isinstance(case.connection, bushbaby.Connection):
            case.connection.keep_alive()
    while piece := cut.connection.data_to_send(1):
        pieces.append(piece)
    assert b"".join(pieces) == whole.connection.data_to_send() != b""
    assert whole.connection.data_to_send() == b""


def test_nothing_is_due_by_itself(case: Case) -> None:
    """A connection with nothing to wait for names no time, and being called all the same does no harm."""
    list(case.connection.receive_data(case.good, 5.0))
    case.connection.data_to_send()
    assert case.connection.next_timer() is None
    assert list(case.connection.handle_timer(1000.0)) == []
    assert case.connection.next_timer() is None


def test_a_paced_connection_names_the_time_of_the_next_tick() -> None:
    """Towards a peer that is no Culm node five messages go at once, and the next five when their tick is over."""
    one, other = _bushbaby_pair(paced=True, mark=False)
    for _ in range(2):
        list(other.receive_data(one.data_to_send(), 0.0))
        list(one.receive_data(other.data_to_send(), 0.0))
        for side in (one, other):
            side.handle_timer(0.0)
    one.handle_timer(1.0)
    for _ in range(MESSAGES_A_WRITE + 1):
        one.send_want([])
    first = one.data_to_send()
    assert len(list(other.receive_data(first, 1.0))) == MESSAGES_A_WRITE
    assert one.data_to_send() == b""
    assert one.next_timer() == float("-inf")
    one.handle_timer(1.0)
    assert one.data_to_send() == b""
    due = one.next_timer()
    assert due == 1.0 + TICK_SECONDS
    one.handle_timer(due)
    assert len(list(other.receive_data(one.data_to_send(), due))) == 1


def test_a_culm_node_is_not_paced() -> None:
    """Two Culm nodes say all they have at once, also where pacing was asked for."""
    one, other = _bushbaby_pair(paced=True)
    for _ in range(2):
        list(other.receive_data(one.data_to_send(), 0.0))
        list(one.receive_data(other.data_to_send(), 0.0))
    for _ in range(3 * MESSAGES_A_WRITE):
        one.send_have([])
    assert len(list(other.receive_data(one.data_to_send(), 0.0))) == 3 * MESSAGES_A_WRITE
    assert one.next_timer() is None


def test_signs_of_life(case: Case) -> None:
    """A sign of life is a few bytes, and makes no event; Bushbaby has none before the handshake is over."""
    case.connection.data_to_send()
    if isinstance(case.connection, bushbaby.Connection):
        with pytest.raises(LocalProtocolError):
            case.connection.keep_alive()
        return
    case.connection.keep_alive()
    assert 0 < len(case.connection.data_to_send()) < 20
