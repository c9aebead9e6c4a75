"""Point-2-Point with proposals: messages, both channels of an endpoint, a whole session over one stream."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from culm.bamboo import PayloadHasher
from culm.errors import EncodingError, LocalProtocolError, RemoteProtocolError
from culm.proposals import (
    EVERYTHING,
    NOTHING,
    SMALL,
    Adjust,
    Cancel,
    Code,
    Connection,
    Eagerness,
    Endpoint,
    Offered,
    Proposal,
    Setup,
    Wish,
)
from culm.proposals.control import pull_control, push_control
from culm.proposals.data import Metadata, pull_data, push_data
from culm.proposals.messages import Grant
from culm.testing import build_log
from fuzz.script import steps, written
from fuzz.target import Target
from tests.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = build_log(14, payload_size=90)
_FORK = build_log(14, payload_size=80)
_NAME = (_LOG.identity.public, _LOG.log_id)
_HELD, _FULL, _FORKED = MemoryStore(), MemoryStore(), MemoryStore()
for _entry in _LOG.entries[:9]:
    _HELD.put(_entry, _LOG.payloads[_entry.hash])
for _entry in _LOG.entries:
    _FULL.put(_entry, _LOG.payloads[_entry.hash])
_FORKED.looks_for_forks = True
for _entry in (*_LOG.entries[:7], _FORK.entries[6]):
    _FORKED.put(_entry)
_STORES = _HELD, _FULL, MemoryStore(), _FORKED
_MOST = 100_000


def control(data: bytes) -> None:
    """What is read is written again, and then read as the same."""
    message, _ = pull_control(data)
    with suppress(ValueError):  # an adjustment that changes nothing is not written
        encoded = push_control(message)
        assert pull_control(encoded) == (message, len(encoded))


def data_message(data: bytes) -> None:
    """The same for the data channel."""
    message, _ = pull_data(data)
    encoded = push_data(message)
    assert pull_data(encoded) == (message, len(encoded))


def setup(data: bytes) -> None:
    """The same for the setup, of which every one is valid."""
    found, end = Setup.pull(data)
    assert Setup.pull(found.encode()) == (found, len(found.encode()))
    assert end <= len(data)


# -- an endpoint ---------------------------------------------------------------------------------------------------


def _propose(end: Endpoint, proposal: Proposal) -> None:
    end.propose(proposal)


def _resume(end: Endpoint) -> None:
    """Go on with a payload at its tenth byte."""
    entry = _LOG.entries[9]
    hasher = PayloadHasher()
    hasher.update(_LOG.payloads[entry.hash][:10])
    end.propose(Proposal(0, *_NAME, 10, None, hash=entry.hash, offset=10), hasher)


def _oldest(end: Endpoint, *, ours: bool) -> int:
    return min((number for number, item in end.exchanges.items() if item.is_ours == ours), default=0)


def _newest(end: Endpoint) -> int:
    return max(end.exchanges, default=0)


_PROPOSALS = (
    Proposal(0, *_NAME, 9, None, hash=_LOG.entries[8].hash, offset=9),
    Proposal(0, *_NAME, 2, 1, 5, 13, sparse=True),
    Proposal(0, *_NAME, 10, 9, hash=_LOG.entries[8].hash),
    Proposal(0, *_NAME, 1, 1, 4, 4, eagerness=NOTHING, mandatory=True),
    Proposal(0, *_NAME, 1, 1, eagerness=Eagerness(Wish.LIMITED, 50), least=10, greatest=100),
    Proposal(0, *_NAME, 6, 1, 8, 13, payload_only=True),
)
_ACTIONS: tuple[Callable[[Endpoint], object], ...] = (
    *(lambda end, item=item: _propose(end, item) for item in _PROPOSALS),
    _resume,
    lambda end: end.confirm(Adjust(_oldest(end, ours=False), EVERYTHING, may_skip=True)),
    lambda end: end.confirm(Adjust(_newest(end), NOTHING, least=5, greatest=100)),
    lambda end: end.confirm(Adjust(_oldest(end, ours=False), EVERYTHING, may_skip=True, end=6, upper=8)),
    lambda end: end.adjust(Adjust(_oldest(end, ours=True), EVERYTHING)),
    lambda end: end.adjust(Adjust(_newest(end), NOTHING, least=3)),
    lambda end: end.cancel(_oldest(end, ours=True)),
    lambda end: end.cancel(_newest(end), Code.RESOURCE_LIMIT),
    lambda end: end.wake([_NAME]),
    lambda end: end.respond(_MOST),
    lambda end: end.respond(40),
    lambda end: end.control_to_send(),
    lambda end: end.data_to_send(),
    lambda end: end.take_events(),
)
_ON_DATA = len(_ACTIONS)  # from now on the peer's bytes are those of the data channel
_ON_CONTROL = _ON_DATA + 1
_COUNT = _ON_CONTROL + 1
_CONFIRM, _RESPOND = 7, 15


def _endpoint(kind: int) -> tuple[Endpoint, Setup]:
    """An endpoint whose kind is bits, and the setup that its peer tells it."""
    ours = Setup(bool(kind & 4), bool(kind & 8), 1000 if kind & 16 else 0, 1000 if kind & 16 else 0)
    end = Endpoint(_STORES[kind % 4], proactive=bool(kind & 32), setup=ours, limits=SMALL)
    return end, Setup(sends_greedily=True, takes_greedily=True, send_window=1000, receive_window=1000)


def channels(data: bytes) -> None:
    """An endpoint of any kind, which does what it likes, takes anything on both channels, within its bounds."""
    end, theirs = _endpoint(data[0] if data else 0)
    end.peer_setup(theirs)
    take = end.receive_control
    for step in steps(data[1:], _COUNT):
        if isinstance(step, bytes):
            try:
                take(step)
            finally:
                live = sum(not item.is_ours for item in end.exchanges.values())
                assert live <= 2 * end.limits.proposals
        elif step == _ON_DATA:
            take = end.receive_data
        elif step == _ON_CONTROL:
            take = end.receive_control
        else:
            with suppress(LocalProtocolError):
                _ACTIONS[step](end)
    end.respond(_MOST)
    end.data_to_send()
    end.control_to_send()


def session(data: bytes) -> None:
    """A session whose endpoint confirms whatever is offered takes any bytes."""
    end = _asking(data[0] if data else 0)
    end.data_to_send()
    for step in steps(data[1:], 4):
        if isinstance(step, bytes):
            try:
                _confirm(end, step)
            finally:
                assert len(end.endpoint.exchanges) <= 2 * end.endpoint.limits.proposals
        else:
            (end.refill, end.keep_alive, end.close, lambda: end.respond(_MOST))[step]()
    end.data_to_send()


def _confirm(end: Connection, data: bytes) -> None:
    for event in end.receive_data(data, 0.0):
        if isinstance(event, Offered) and end.endpoint.is_offered(event.proposal.id):
            with suppress(LocalProtocolError):
                end.endpoint.confirm(Adjust(event.proposal.id, EVERYTHING, may_skip=True))


# -- seeds ---------------------------------------------------------------------------------------------------------


def _asking(kind: int) -> Connection:
    window = 1000 if kind & 16 else 0
    ours = Setup(
        sends_greedily=bool(kind & 4), takes_greedily=bool(kind & 8), send_window=window, receive_window=window
    )
    end = Connection(_STORES[kind % 4], proactive=True, setup=ours, limits=SMALL)
    end.endpoint.credit = 10
    end.endpoint.propose(_PROPOSALS[0])
    end.endpoint.propose(_PROPOSALS[1])
    return end


def _stream(kind: int) -> bytes:
    """The script of a session with an endpoint that has everything."""
    one = _asking(kind)
    other = Connection(_FULL, proactive=False, setup=Setup(True, True, 1000, 1000), limits=SMALL)
    other.endpoint.credit = 10
    other.endpoint.propose(Proposal(1, *_NAME, 14, 1))
    row: list[int | bytes] = []
    for _ in range(5):
        _confirm(other, one.data_to_send())
        other.respond(_MOST)
        out = other.data_to_send()
        row += [out, 0, 3]
        _confirm(one, out)
        one.refill()
        one.respond(_MOST)
    return bytes([kind]) + written([*row, 1, 2], 4)


def _talk(kind: int, ours: tuple[int, ...], theirs: tuple[Proposal, ...]) -> bytes:
    """The script of an endpoint that takes these actions, with a peer that has everything and proposes, too."""
    one, their_setup = _endpoint(kind)
    one.peer_setup(their_setup)
    other = Endpoint(_FULL, proactive=not kind & 32, setup=their_setup, limits=SMALL)
    other.peer_setup(one.setup)
    row: list[int | bytes] = []
    actions = list(ours)
    for turn in range(6):
        if turn == 1:
            for item in theirs:
                with suppress(LocalProtocolError):
                    other.propose(item)
        said = _heard(other, one)
        for channel, data in zip((_ON_CONTROL, _ON_DATA), said, strict=True):
            if data:
                row += [channel, data]
        one.receive_control(said[0])
        one.receive_data(said[1])
        for action in [*actions[:2], _CONFIRM, _RESPOND]:
            row.append(action)
            with suppress(LocalProtocolError):
                _ACTIONS[action](one)
        del actions[:2]
    return bytes([kind]) + written(row, _COUNT)


def _heard(other: Endpoint, one: Endpoint) -> tuple[bytes, bytes]:
    """What the other endpoint says to what one has said."""
    events = other.receive_control(one.control_to_send()) + other.receive_data(one.data_to_send())
    for event in events:
        if isinstance(event, Offered) and other.is_offered(event.proposal.id):
            with suppress(LocalProtocolError):
                other.confirm(Adjust(event.proposal.id, EVERYTHING, may_skip=True))
    other.respond(_MOST)
    return other.control_to_send(), other.data_to_send()


_OPEN = Proposal(0, *_NAME, 1, 1)
_TALKS = (
    (0, (0, 1), ()),
    (2, (4, 10), ()),
    (2 + 16, (1, 5), ()),
    (1 + 32, (), (_PROPOSALS[1], _PROPOSALS[3])),
    (2 + 8 + 16, (), (_OPEN,)),
    (3, (3, 12, 13), (_OPEN,)),
    (0 + 32 + 4, (6, 11), (_PROPOSALS[2],)),
)


def _controls() -> tuple[bytes, ...]:
    first = _LOG.entries[4]
    return (
        *(push_control(item) for item in _PROPOSALS),
        push_control(Proposal(2, *_NAME, 5, 4, 9, 13, first.hash, mandatory=True)),
        push_control(Adjust(300, EVERYTHING, may_skip=True, end=7, upper=8, least=1, greatest=32768)),
        push_control(Cancel(2, Code.FORKED, (first, _LOG.make(5, b"another")))),
        push_control(Cancel(2, Code.END_OF_LOG, seq=9)),
        push_control(Grant(7)),
    )


def _data_messages() -> tuple[bytes, ...]:
    first = _LOG.entries[4]
    metadata = Metadata(False, first.backlink, 300, first.payload_hash, first.signature)
    return push_data(metadata), b"\x03\xf9\x01\x2c", b"\x09\x20\x10", b"\x00\x05", b"\x20\x05", b"\x10", b"\x04"


_SETUPS = Setup(True, True, 1000, 2**64 - 1).encode(), b"\xff\xf9\x00\x01\x05"
TARGETS = (
    Target("proposals.control", control, (EncodingError,), _controls(), share=0.5),
    Target("proposals.data", data_message, (EncodingError,), _data_messages(), share=0.3),
    Target("proposals.setup", setup, (EncodingError,), _SETUPS, longest=32, share=0.1),
    Target("proposals.channels", channels, (RemoteProtocolError,), tuple(_talk(*item) for item in _TALKS), share=2.0),
    Target("proposals.session", session, (RemoteProtocolError,), tuple(map(_stream, (0, 8 + 16, 2 + 4 + 16)))),
)
