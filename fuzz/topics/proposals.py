"""What is fuzzed of Point-2-Point with proposals: messages, a whole session."""

from __future__ import annotations

from contextlib import suppress

from culm.errors import EncodingError, LocalProtocolError, RemoteProtocolError
from culm.proposals import (
    EVERYTHING,
    Adjust,
    Cancel,
    Code,
    Offered,
    Proposal,
    Session,
    Setup,
    pull_control,
    pull_data,
    push_control,
    push_data,
)
from culm.proposals.messages import Metadata
from culm.testing import build_log
from culm.testing.memory import MemoryStore
from fuzz.target import Target

_LOG = build_log(14, payload_size=9)
_STORE = MemoryStore()
for _entry in _LOG.entries[:9]:
    _STORE.put(_entry, _LOG.payloads[_entry.hash])
_FULL = MemoryStore()
for _entry in _LOG.entries:
    _FULL.put(_entry, _LOG.payloads[_entry.hash])
_NAME = (_LOG.identity.public, _LOG.log_id)
_SETUP = Setup(sends_greedily=True, takes_greedily=True, send_window=1000, receive_window=1000)
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


def session(data: bytes) -> None:
    """An endpoint with a proposal of its own takes anything, and answers what it is proposed."""
    end = _asking()
    end.data_to_send()
    try:
        for event in end.receive_data(data):
            if isinstance(event, Offered) and end.connection.is_offered(event.proposal.id):
                with suppress(LocalProtocolError):
                    end.connection.confirm(event.proposal.id, EVERYTHING)
    finally:
        assert len(end.connection.exchanges) <= 2 * end.connection.limits.proposals
        end.respond(_MOST)
        end.data_to_send()


def _asking() -> Session:
    end = Session(_STORE, proactive=True, setup=_SETUP)
    end.connection.credit = 10
    end.connection.propose(Proposal(0, *_NAME, 9, None, hash=_LOG.entries[8].hash, offset=9))
    end.connection.propose(Proposal(0, *_NAME, 2, 1, 5, 13, sparse=True))
    return end


def _stream() -> bytes:
    """What another endpoint says to that one."""
    one, other = _asking(), Session(_FULL, proactive=False, setup=_SETUP)
    said = bytearray()
    other.connection.credit = 10
    other.connection.propose(Proposal(1, *_NAME, 14, 1))
    for _ in range(4):
        for event in other.receive_data(one.data_to_send()):
            if isinstance(event, Offered) and other.connection.is_offered(event.proposal.id):
                other.connection.confirm(event.proposal.id, EVERYTHING)
        other.respond(_MOST)
        out = other.data_to_send()
        said += out
        one.receive_data(out)
    return bytes(said)


def _controls() -> tuple[bytes, ...]:
    first = _LOG.entries[4]
    return (
        push_control(Proposal(2, *_NAME, 5, 4, 9, 13, first.hash, mandatory=True)),
        push_control(Adjust(300, EVERYTHING, may_skip=True, end=7, upper=8, least=1, greatest=32768)),
        push_control(Cancel(2, Code.FORKED, (first, _LOG.make(5, b"another")))),
    )


def _data_messages() -> tuple[bytes, ...]:
    first = _LOG.entries[4]
    return push_data(Metadata(False, first.backlink, 300, first.payload_hash, first.signature)), b"\x03\xf9\x01\x2c"


TARGETS = (
    Target("proposals.control", control, (EncodingError,), _controls()),
    Target("proposals.data", data_message, (EncodingError,), _data_messages()),
    Target("proposals.session", session, (RemoteProtocolError,), (_stream(),)),
)
