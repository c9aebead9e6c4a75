"""Sessions of a node, with its store behind: whatever a peer says, they end as documented and the store is right.

A session runs on streams without sockets; the peer's bytes are there from the start, and the end behind them. Where a
peer has to prove itself first, it does, and the bytes of an input are what it says then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from culm.bamboo import Identity
from culm.bushbaby import Connection as BushbabyConnection
from culm.bushbaby import Dialect
from culm.bushbaby.secretbox import NONCE_BYTES, OVERHEAD, seal
from culm.errors import LocalProtocolError, NetworkError, ProtocolError
from culm.intervals import At, FromGreatest, Regular
from culm.intervals import Connection as IntervalConnection
from culm.intervals.messages import RequestCredit
from culm.negentropy import ArrayStorage, Negentropy
from culm.node.bushbaby.session import BushbabySession
from culm.node.config import NodeConfig, NodeLimits
from culm.node.culm.session import CulmSession
from culm.node.intervals.followed import FollowOptions
from culm.node.intervals.session import IntervalSession
from culm.node.proposals.options import ProposalOptions
from culm.node.proposals.session import ProposalSession
from culm.node.sessions.session import Context, Purpose
from culm.proposals import EVERYTHING, Adjust, Offered, Proposal, Setup
from culm.proposals import Connection as ProposalEnd
from culm.ranges import Range, RangeSet
from culm.session import Connection as SecureConnection
from culm.session import Interests, Offer
from culm.session.events import Asked, Ended, Reconcile, Transferred
from culm.testing import build_log
from culm.wire.stlv import encode_header
from fuzz import talking
from fuzz.script import recorded, records
from fuzz.talking import MakeSession, Peer
from fuzz.target import Target
from fuzz.topics import bushbaby
from tests.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from culm.node.storage.source import StoreSource
    from culm.node.storage.worker import StoreWorker

_ME, _PEER = Identity(bytes([21]) * 32), Identity(bytes([22]) * 32)
_CLUMP = b"fuzz"
_LIMITS = NodeLimits(idle_seconds=60, handshake_seconds=60, settle_seconds=60)
_LOG = build_log(14, payload_size=9)
_NAME = _LOG.identity.public, _LOG.log_id
_ENOUGH = 1 << 20
_OTHER = build_log(3, seed=2, payload_size=9)
_OTHER_NAME = _OTHER.identity.public, _OTHER.log_id
_FULL = MemoryStore()
for _entry_, _payload_ in (*_LOG.items(), *_OTHER.items()):
    _FULL.put(_entry_, bytes(_payload_ or b""))
_NO_RECORDS = ArrayStorage.of([])


def _context(worker: StoreWorker, source: StoreSource) -> Context:
    # With a dialect a Bushbaby caller says hello at once, where it would listen for a second.
    config = NodeConfig(_CLUMP, dialect=Dialect.DEPLOYED, limits=_LIMITS, surroundings=talking.surroundings())
    return Context(_ME, config, worker, source)


def talk(peer: Callable[[], Peer], session: MakeSession, said: Callable[[Peer], Iterator[bytes]]) -> None:
    """Run a session over a store that holds the half of a log."""
    talking.talk(peer, session, said, _LOG.items(_LOG.entries[:7]))


# -- without a handshake -------------------------------------------------------------------------------------------


def _interval_session(how: int) -> MakeSession:
    options = FollowOptions(
        verified=not how & 1,
        newest=3 if how & 2 else None,
        newest_first=bool(how & 4),
        greatest_size=8 if how & 8 else None,
    )
    logs = [] if how & 16 else [_NAME]
    return lambda worker, source, both: IntervalSession(
        _context(worker, source), both, Purpose(logs=tuple(logs), options=options, is_live=not how & 32)
    )


def interval_session(data: bytes) -> None:
    """A session that speaks intervals, which follows a log or not, and mirrors what it is asked for."""
    talk(Peer, _interval_session(data[0] if data else 0), lambda _: records(data[1:]))


def _proposal_session(how: int) -> MakeSession:
    options = ProposalOptions(
        greedy=bool(how & 1), window=1000 if how & 2 else 0, notify_only=bool(how & 4), small=bool(how & 32)
    )
    logs = [_NAME] if how & 8 else []
    return lambda worker, source, both: ProposalSession(
        _context(worker, source), both, Purpose(called=bool(how & 16), logs=tuple(logs), options=options)
    )


def proposal_session(data: bytes) -> None:
    """A session that speaks proposals, of either side, greedily or not."""
    talk(Peer, _proposal_session(data[0] if data else 0), lambda _: records(data[1:]))


# -- with one ------------------------------------------------------------------------------------------------------


class _Sealing(Peer):
    """A Bushbaby peer that proves itself, and then seals what the input says, as ``fuzz.topics.bushbaby.peer``."""

    def __init__(self) -> None:
        super().__init__()
        self.opened.clear()
        self._nonces = iter(range(1, 1000))
        self._connection = BushbabyConnection(
            _PEER, _CLUMP, random_bytes=lambda size: (next(self._nonces) << 64).to_bytes(size, "big")
        )

    def hears(self, data: bytes) -> bytes:
        """Its part of the handshake."""
        if self.opened.is_set():
            return super().hears(data)
        for _ in self._connection.receive_data(data, 0.0):
            pass
        if self._connection.replicating:
            self.opened.set()
        return self._connection.data_to_send()

    def sealed(self, data: bytes) -> Iterator[bytes]:
        """The messages of an input."""
        key = self._connection.boxes.session_keys.send
        at = 0
        while at + 4 <= len(data):
            kind, nonce, size = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
            message = bytearray(OVERHEAD) + data[at + 4 : at + 4 + size]
            seal(memoryview(message), key, (nonce + 1).to_bytes(NONCE_BYTES, "big"), odd_counter=False)
            yield encode_header(kind, len(message)) + message
            at += 4 + size


def bushbaby_session(data: bytes) -> None:
    """A session that speaks Bushbaby, with a peer that has proved itself."""
    talk(
        _Sealing,
        lambda worker, source, both: BushbabySession(_context(worker, source), both, Purpose(called=True)),
        lambda peer: cast("_Sealing", peer).sealed(data[1:]),
    )


class _Proving(Peer):
    """A ``culm://`` caller or listener that proves itself."""

    def __init__(self, *, calls: bool) -> None:
        super().__init__()
        self.opened.clear()
        if calls:
            self._connection = SecureConnection(_PEER, _CLUMP, b"c" * 32, listener=_ME.public)
        else:
            self._connection = SecureConnection(_PEER, _CLUMP, b"l" * 32)

    def hears(self, data: bytes) -> bytes:
        """Its part of the handshake."""
        if self.opened.is_set():
            return super().hears(data)
        for _ in self._connection.receive_data(data, 0.0):
            pass
        said = self._connection.data_to_send()
        if self._connection.is_open:
            self.opened.set()
        return said

    def greeting(self) -> bytes:
        """What a listener says first."""
        return self._connection.data_to_send()


def _secure_session(calls: bool) -> MakeSession:
    peer = _PEER.public if calls else None
    return lambda worker, source, both: CulmSession(_context(worker, source), both, Purpose(key=peer))


def secure_session(data: bytes) -> None:
    """A session of ``culm://``, of either side, with a peer that has proved itself."""
    calls = data[:1] < b"\x80"  # the peer does, and the session listens
    talk(
        lambda: _Proving(calls=calls),
        _secure_session(not calls),
        lambda _: records(data[1:]),
    )


# -- seeds: what peers say that mean well --------------------------------------------------------------------------


class _Answering(Peer, ABC):
    """Answers with a protocol's machine over a store that has everything, and notes what it said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[bytes] = []

    def hears(self, data: bytes) -> bytes:
        """An answer."""
        answer = self.answer(data)
        self.said.append(answer)
        return answer

    @abstractmethod
    def answer(self, data: bytes) -> bytes:
        """What the machine says."""


class _Intervals(_Answering):
    def __init__(self) -> None:
        super().__init__()
        self._end = IntervalConnection(_FULL)
        names = (_NAME, _OTHER_NAME)
        self._end.ours.take_credit(RequestCredit(len(names)))
        for key in names:
            self._end.request(*key, Regular(At(1, 0), FromGreatest(0)))

    def answer(self, data: bytes) -> bytes:
        list(self._end.receive_data(data, 0.0))
        self._end.respond(_ENOUGH)
        self._end.refill()
        return self._end.data_to_send()


class _Proposals(_Answering):
    def __init__(self, *, proactive: bool) -> None:
        super().__init__()
        self._end = ProposalEnd(_FULL, proactive=proactive, setup=Setup(True, True, 1000, 1000))
        self._proposed = False

    def answer(self, data: bytes) -> bytes:
        for event in self._end.receive_data(data, 0.0):
            if isinstance(event, Offered) and self._end.endpoint.is_offered(event.proposal.id):
                with suppress(LocalProtocolError):
                    self._end.endpoint.confirm(Adjust(event.proposal.id, EVERYTHING, may_skip=True))
        if not self._proposed and self._end.endpoint.credit:
            self._proposed = True
            self._end.endpoint.propose(Proposal(0, *_OTHER_NAME, 1, 1))
        self._end.respond(_ENOUGH)
        self._end.refill()
        return self._end.data_to_send()


class _Secure(_Proving):
    """Also compares, offers what it has, and transfers what it is asked for; notes what it said once it was open."""

    def __init__(self, *, calls: bool) -> None:
        super().__init__(calls=calls)
        self.said: list[bytes] = []
        self._end = IntervalConnection(_FULL)
        self._told = False

    def hears(self, data: bytes) -> bytes:
        side = self._connection
        was_open = side.is_open
        for event in side.receive_data(data, 0.0):
            with suppress(LocalProtocolError):
                self._handle(event)
        if side.is_open:
            self.opened.set()
        if was_open and not self._told:
            self._told = True
            side.tell_interests(Interests({(): RangeSet([Range(1)])}))
            side.offer([Offer(*_NAME, RangeSet([Range(1, 14)])), Offer(*_OTHER_NAME, RangeSet([Range(1, 3)]))])
            if side.calls:
                side.reconcile(Negentropy(_NO_RECORDS).initiate())
        said = side.data_to_send()
        if was_open:
            self.said.append(said)
        return said

    def _handle(self, event: object) -> None:
        side = self._connection
        match event:
            case Transferred(data):
                list(self._end.receive_data(data, 0.0))
                self._end.respond(_ENOUGH)
                self._end.refill()
                side.consumed(len(data))
                side.transfer(self._end.data_to_send())
            case Reconcile(message) if not side.calls:
                side.reconcile(Negentropy(_NO_RECORDS).reconcile(message) or b"")
            case Reconcile():
                side.name([Offer(*_NAME, RangeSet([Range(1, 14)]))])
                side.end_round()
            case Asked():
                side.name([])
            case Ended() if not side.calls:
                side.end_round()
            case _:
                pass


def _recorded(how: int, peer: Callable[[], Peer], run: MakeSession) -> bytes:
    """The input that is what such a peer said."""
    made: list[Peer] = []

    def kept() -> Peer:
        made.append(peer())
        return made[0]

    talk(kept, run, lambda _: iter([b""] * 8))
    said = cast("_Answering", made[0]).said
    return bytes([how]) + recorded(said)


def _seeds() -> tuple[Target, ...]:
    allowed = (ProtocolError, NetworkError)
    interval = [_recorded(how, _Intervals, _interval_session(how)) for how in (0, 1 + 4, 2 + 8, 16)]
    proposal = [
        _recorded(how, partial(_Proposals, proactive=not how & 16), _proposal_session(how))
        for how in (0, 8, 8 + 16 + 1 + 2, 8 + 4 + 32)
    ]
    secure = [_recorded(how, partial(_Secure, calls=how < 0x80), _secure_session(how >= 0x80)) for how in (0, 255)]
    return (
        Target("nodes.intervals", interval_session, allowed, tuple(interval), longest=8000),
        Target("nodes.proposals", proposal_session, allowed, tuple(proposal), longest=8000),
        Target("nodes.bushbaby", bushbaby_session, allowed, (b"\0" + bushbaby.messages(),), longest=8000),
        Target("nodes.secure", secure_session, allowed, tuple(secure), longest=8000),
    )


TARGETS = _seeds()
