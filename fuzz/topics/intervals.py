"""Point-2-Point with interval requests: messages, and endpoints that ask, answer and change their minds."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from culm.bamboo import PayloadHasher
from culm.errors import EncodingError, LocalProtocolError, RemoteProtocolError
from culm.intervals import (
    At,
    Connection,
    Forks,
    FromGreatest,
    FromLeast,
    Limits,
    MetadataOnly,
    Reason,
    Regular,
    Request,
    Single,
    SingleOffset,
)
from culm.intervals.codec import pull_message, push_message
from culm.intervals.messages import Adjust, End, Lazy, ProofEntry
from culm.testing import build_log
from fuzz.script import pieces, steps, written
from fuzz.target import Target
from tests.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.intervals.interval import Interval

_LIMITS = Limits(requests=20, window=4000, chunk=100, logs=4)
_LOG = build_log(14, payload_size=9)
_FORK = build_log(14, payload_size=8)
_NAME = _LOG.identity.public, _LOG.log_id
_STORE = MemoryStore()
for _entry_, _payload_ in _LOG.items(_LOG.entries[:9]):
    _STORE.put(_entry_, bytes(_payload_ or b""))
_FULL = MemoryStore()
for _entry_, _payload_ in _LOG.items():
    _FULL.put(_entry_, bytes(_payload_ or b""))
_FORKED = MemoryStore()
_FORKED.looks_for_forks = True
for _entry_ in (*_LOG.entries[:7], _FORK.entries[6]):
    _FORKED.put(_entry_, _LOG.payloads.get(_entry_.hash, b"other..."))
_STORES = _STORE, _FULL, MemoryStore(), _FORKED

_INTERVALS: tuple[Interval, ...] = (
    Regular(At(1, 0), FromGreatest(0)),
    Regular(At(9, 0, own=_LOG.entries[8].hash), At(3)),
    Regular(FromGreatest(3), FromLeast(0)),
    Regular(At(2), At(14, outer=_LOG.entries[13].hash)),
    Single(5, low_outer=_LOG.entries[3].hash, own=_LOG.entries[4].hash),
    SingleOffset(FromGreatest(1)),
    MetadataOnly(13, ascending=False, dist=3),
    MetadataOnly(5, ascending=True),
)


class _Anything:
    """Reads messages as if no start was relative."""

    def starts(self) -> bool:
        """No."""
        return False

    def has_hash(self, items: int, following: bytes) -> bool:  # noqa: ARG002
        """Where one seems to follow."""
        return following == b"\x00\x40"


def message(data: bytes) -> None:
    """What is read is written again, and then read as the same."""
    found, _ = pull_message(data, 0, _Anything())
    encoded = push_message(found)
    assert pull_message(encoded, 0, _Anything()) == (found, len(encoded))


def _ask(end: Connection, interval: Interval, *, verified: bool = True, lazy: bool = False) -> None:
    end.request(*_NAME, interval, verified=verified, lazy=lazy)


def _resume(end: Connection) -> None:
    """Go on with a payload at its fourth byte."""
    entry = _LOG.entries[9]
    hasher = PayloadHasher()
    hasher.update(_LOG.payloads[entry.hash][:4])
    end.request(*_NAME, Regular(At(10), At(14)), payload_offset=4, begun=(entry, hasher))


def _anchored(end: Connection) -> None:
    """Ask for one branch of a fork."""
    end.request(*_NAME, _INTERVALS[3], forks=Forks.LOCAL, anchor=(7, _FORK.entries[6].hash))


def _sized(end: Connection) -> None:
    end.request(*_NAME, _INTERVALS[0], least_size=3, greatest_size=8)


_ACTIONS: tuple[Callable[[Connection], object], ...] = (
    *(lambda end, item=item: _ask(end, item) for item in _INTERVALS),
    lambda end: _ask(end, _INTERVALS[0], verified=False),
    lambda end: _ask(end, _INTERVALS[0], lazy=True),
    lambda end: _ask(end, _INTERVALS[4], lazy=True, verified=False),
    _resume,
    _anchored,
    _sized,
    lambda end: end.ours.cancel(min(end.ours.requests, default=0)),
    lambda end: end.ours.cancel(max(end.ours.requests, default=0)),
    lambda end: end.ours.adjust(max(end.ours.requests, default=0)),
    lambda end: end.ours.adjust(min(end.ours.requests, default=0), 5),
    lambda end: end.ours.adjust(max(end.ours.requests, default=0), 4, 3),
    lambda end: end.respond(1 << 20),
    lambda end: end.respond(30),
    lambda end: end.theirs.refuse(min(end.theirs.requests, default=0)),
    lambda end: end.wake([_NAME]),
    lambda end: end.refill(),
    lambda end: end.keep_alive(),
    lambda end: end.data_to_send(),
    lambda end: end.take_events(),
)
_MOST = len(_ACTIONS)
_RESPOND, _REFILL = 19, 23


def connection(data: bytes) -> None:
    """An endpoint that does what it likes meanwhile takes anything, within its bounds.

    The first byte says of what kind it is.
    """
    kind = data[0] if data else 0
    end = Connection(_STORES[kind % 4], limits=_LIMITS, stateless=bool(kind & 4))
    for step in steps(data[1:], _MOST):
        if isinstance(step, int):
            with suppress(LocalProtocolError):
                _ACTIONS[step](end)
            continue
        try:
            list(end.receive_data(step, 0.0))
        finally:
            assert len(end.theirs.requests) <= end.limits.requests
            end.respond(1 << 12)
    end.data_to_send()


def cut(data: bytes) -> None:
    """What an endpoint that asked is told does not depend on how the peer's bytes are cut."""
    kind, rest = data[:1], data[1:]
    size = 1 + kind[0] // 4 if kind else 1
    assert _told(kind, rest, size) == _told(kind, rest, 0)


def _told(kind: bytes, data: bytes, size: int) -> tuple[list[tuple[str, object]], bool]:
    """The entries and the bytes of payloads that came, in order, and whether the peer was refused."""
    end = _asking(_STORES[kind[0] % 4] if kind else _STORE)
    found: list[tuple[str, object]] = []
    try:
        for piece in pieces(data, size):
            for event in end.receive_data(piece, 0.0):
                name = type(event).__name__
                if name in {"EntryReceived", "Ended", "Request", "PayloadFailed", "Started"}:
                    found.append((name, event))
    except RemoteProtocolError:
        return found, True
    return found, False


def _asking(store: MemoryStore) -> Connection:
    """An endpoint with open requests of several kinds, one of them adjusted and one cancelled."""
    end = Connection(store)
    list(end.receive_data(_GRANTS, 0.0))
    for interval in _INTERVALS[:3]:
        _ask(end, interval)
    _ask(end, _INTERVALS[4], lazy=True)
    end.ours.adjust(3)
    end.ours.cancel(0)
    return end


_GRANTS = b"\xb0\x32\xc0\xfa\x01\x00\x00"


def _talk(ours: MemoryStore, theirs: MemoryStore, actions: tuple[int, ...]) -> tuple[bytes, bytes]:
    """An endpoint that takes these actions with one that answers: the script of it, and all that the other said."""
    one, other = Connection(ours, limits=_LIMITS), Connection(theirs, limits=_LIMITS)
    row: list[int | bytes] = []
    said = b""
    for action in (_RESPOND, *actions, _RESPOND, _REFILL, _RESPOND, _REFILL, _RESPOND):
        row.append(action)
        with suppress(LocalProtocolError):
            _ACTIONS[action](one)
        list(other.receive_data(one.data_to_send(), 0.0))
        other.respond(1 << 20)
        other.refill()
        answer = other.data_to_send()
        row.append(answer)
        said += answer
        list(one.receive_data(answer, 0.0))
    return written(row, _MOST), said


def _scripts() -> tuple[bytes, ...]:
    """Talks from every side, with the kind of endpoint first."""
    found = []
    talks: tuple[tuple[int, tuple[int, ...]], ...] = (
        (2, (0, 14)),
        (2, (1, 2)),
        (0, (3, 11)),
        (2, (9, 16)),
        (2, (5, 6, 7)),
        (0, (13, 18, 12)),
    )
    for kind, actions in talks:
        found.append(bytes([kind]) + _talk(_STORES[kind], _FULL, actions)[0])
    asked: tuple[tuple[int, tuple[int, ...]], ...] = ((1, (0,)), (3, (3, 9)), (3, (0, 8, 16)), (5, (0, 4)))
    for kind, actions in asked:
        found.append(bytes([kind]) + b"".join(_turned(_STORES[kind % 4], actions)))
    return tuple(found)


def _turned(store: MemoryStore, actions: tuple[int, ...]) -> list[bytes]:
    """What an endpoint hears that is asked: requests, and credit."""
    one, other = Connection(_STORES[2], limits=_LIMITS), Connection(store, limits=_LIMITS)
    row: list[int | bytes] = []
    for action in (_RESPOND, *actions, _REFILL):
        list(one.receive_data(other.data_to_send(), 0.0))
        with suppress(LocalProtocolError):
            _ACTIONS[action](one)
        asked = one.data_to_send()
        row += [asked, _RESPOND]
        list(other.receive_data(asked, 0.0))
        other.respond(1 << 20)
    return [written(row, _MOST)]


def _streams() -> tuple[bytes, ...]:
    """What a peer answers to the requests of ``_asking``."""
    one, other = _asking(_STORE), Connection(_FULL)
    list(other.receive_data(one.data_to_send(), 0.0))
    other.respond(1 << 20)
    answers = other.data_to_send()[len(_GRANTS) :]
    return tuple(bytes([kind]) + answers for kind in (0, 2, 21))


def _messages() -> tuple[bytes, ...]:
    asked = [Request(number, *_NAME, item, lazy=number > 4) for number, item in enumerate(_INTERVALS)]
    proof = ProofEntry.of(_LOG.entries[4]), ProofEntry.of(_LOG.make(5, b"another"))
    end = End(Reason.FULL_PROOF, proof, activates=1)
    others = (end, Adjust(5, 6, 11, 1000), Lazy(5, 7, _LOG.entries[13].hash))
    return tuple(push_message(item) for item in asked) + tuple(push_message(item) for item in others)


TARGETS = (
    Target("intervals.message", message, (EncodingError,), _messages()),
    Target("intervals.connection", connection, (RemoteProtocolError,), _scripts(), share=2.0),
    Target("intervals.cut", cut, (), _streams()),
)
