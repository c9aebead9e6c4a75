"""Point-2-Point with interval requests: messages, and an endpoint that asks and answers."""

from __future__ import annotations

from culm.errors import EncodingError, RemoteProtocolError
from culm.intervals import At, FromGreatest, Reason, Regular, Single
from culm.intervals import Connection as IntervalConnection
from culm.intervals import Request as IntervalRequest
from culm.intervals.codec import pull_message, push_message
from culm.intervals.messages import Adjust, End, Lazy, ProofEntry
from culm.testing import build_log
from culm.testing.memory import MemoryStore
from fuzz.target import Target

_STORE = MemoryStore()
_LOG = build_log(14, payload_size=9)
for _entry_, _payload_ in _LOG.items():
    _STORE.put(_entry_, bytes(_payload_ or b""))
_ASKED = (
    IntervalRequest(0, _LOG.identity.public, 0, Regular(At(1, 0), FromGreatest(0))),
    IntervalRequest(1, _LOG.identity.public, 0, Regular(At(9, 0, own=_LOG.entries[8].hash), At(3))),
    IntervalRequest(2, _LOG.identity.public, 0, Regular(FromGreatest(3), FromGreatest(0)), verified=False),
    IntervalRequest(3, _LOG.identity.public, 0, Single(5), lazy=True),
)
_GRANTS = b"\xb0\x32\xc0\xfa\x01\x00\x00"


class _Anything:
    """Reads messages of the interval protocol as if no start was relative."""

    def starts(self) -> bool:
        """No."""
        return False

    def has_hash(self, items: int, following: bytes) -> bool:  # noqa: ARG002
        """Where one seems to follow."""
        return following == b"\x00\x40"


def _interval_message(data: bytes) -> None:
    """What is read is written again, and then read as the same."""
    message, _ = pull_message(data, 0, _Anything())
    encoded = push_message(message)
    assert pull_message(encoded, 0, _Anything()) == (message, len(encoded))


def _ask(connection: IntervalConnection) -> None:
    """Open requests of several kinds, one of them adjusted and one cancelled."""
    for asked in _ASKED:
        connection.request(*asked.log, asked.interval, verified=asked.verified, lazy=asked.lazy)
    connection.adjust(3)
    connection.cancel(0)


def _intervals(data: bytes) -> None:
    """An endpoint with requests of its own takes anything, and answers what it is asked."""
    connection = IntervalConnection(_STORE)
    list(connection.receive_data(_GRANTS))
    _ask(connection)
    try:
        for _ in connection.receive_data(data):
            pass
    finally:
        assert len(connection.theirs) <= connection.limits.requests
        connection.respond(1 << 20)
        connection.data_to_send()


def _interval_streams() -> tuple[bytes, ...]:
    """What two endpoints say, in both directions."""
    sides = IntervalConnection(_STORE), IntervalConnection(MemoryStore())
    said = [sides[0].data_to_send(), sides[1].data_to_send()]
    for side, data in zip(sides, reversed(said), strict=True):
        list(side.receive_data(data))
    _ask(sides[1])
    asking = sides[1].data_to_send()
    list(sides[0].receive_data(asking))
    sides[0].respond(1 << 20)
    return said[0] + sides[0].data_to_send(), asking


def _messages() -> tuple[bytes, ...]:
    last, fork = _LOG.entries[-1], _LOG.make(5, b"another")
    end = End(Reason.FULL_PROOF, (ProofEntry.of(_LOG.entries[4]), ProofEntry.of(fork)), activates=1)
    messages = (*_ASKED, end, Adjust(5, 6, 11, 1000), Lazy(5, 7, last.hash))
    return tuple(push_message(message) for message in messages)


TARGETS = (
    Target("intervals.message", _interval_message, (EncodingError,), _messages()),
    Target("intervals.connection", _intervals, (RemoteProtocolError,), _interval_streams()),
)
