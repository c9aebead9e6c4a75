"""Negentropy: messages into both sides of a session."""

from __future__ import annotations

from culm.errors import RemoteProtocolError
from culm.negentropy import ArrayStorage, Negentropy, read_ranges
from fuzz.target import Target

_RECORDS = ArrayStorage.of((number // 3, bytes([number % 251]) * 32) for number in range(400))


def _negentropy(data: bytes) -> None:
    """Both sides of a session take a message; what they answer is well formed and within its limit."""
    initiator = Negentropy(_RECORDS, 4096)
    initiator.initiate()
    for session in (Negentropy(_RECORDS, 4096), initiator):
        answer = session.reconcile(data)
        if answer is not None:
            assert len(answer) <= 4096
            list(read_ranges(answer))


def _negentropy_messages() -> tuple[bytes, ...]:
    """What two sides of a session say."""
    few = ArrayStorage.of((number // 3, bytes([number % 251]) * 32) for number in range(0, 400, 3))
    first = Negentropy(few).initiate()
    answer = Negentropy(_RECORDS, 4096).reconcile(first)
    assert answer is not None
    return first, answer, b"\x61"


TARGETS = (Target("negentropy.message", _negentropy, (RemoteProtocolError,), _negentropy_messages()),)
