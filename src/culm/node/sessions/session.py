"""Sessions: one connection with a peer, as the node sees it. Each protocol has a subclass, in the folder of its name.

A session is a speaker with a driver. It holds what the session has in common with its node, the ``Context``, and is
told what it is for by a ``Purpose``. ``culm.node.schemes`` lists the sessions that there are.
"""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from culm.bamboo import Entry, Identity
from culm.errors import ConfigError, NetworkError, Place
from culm.node.bushbaby.remembered import Remembered
from culm.node.config import NodeConfig
from culm.node.culm.claims import Claims
from culm.node.held import HeldByPeers
from culm.node.interests.policy import Policy
from culm.node.interests.relay import Relay
from culm.node.network.pipes import what_ended
from culm.node.peerevents import Kind
from culm.node.sessions.driver import Driver
from culm.node.sessions.speaker import Speaker
from culm.node.sessions.stats import PeerRefused, SessionStats
from culm.node.sessions.witness import Witness
from culm.node.sharing.memory import MemoryShare
from culm.node.sharing.rates import Streams
from culm.node.sharing.wrong import WrongPayloads
from culm.node.storage.source import StoreSource
from culm.node.storage.worker import AnyWorker
from culm.ranges import RangeSet
from culm.store import ImportReport
from culm.types import Log
from culm.wire.connection import ProtocolConnection
from culm.wire.places import author_text, log_text

EventT = TypeVar("EventT")
_logger = logging.getLogger("culm.node")
_FORKED = "another program has published with this identity; culm doctor says what to do"


@dataclass(frozen=True, slots=True)
class Context:
    """What a session shares with the node that it belongs to.

    ``stored`` is called when entries of the peer were stored, ``grew`` when bytes of a payload came that is not
    complete. ``refuses`` says for how many seconds a peer that has proved an identity is sent away. ``claims`` say
    which session fetches which log, ``wrong`` which payloads a peer sent wrong; ``address`` stands for a peer without a
    proved identity. ``budget`` bounds the memory of unfinished messages; None: the session is alone. ``identity`` is
    needed where a protocol proves who we are. ``bushbaby``: what sessions of that protocol remember together.
    ``relay`` is told what peers want; None: the node asks for nothing on behalf of others. ``held`` notes what peers
    hold of this node's logs. ``happened`` hears that the handshake is over, and that all has come; not of sessions
    inside other ones.
    """

    identity: Identity | None
    config: NodeConfig
    worker: AnyWorker
    source: StoreSource
    stored: Callable[[], None] = lambda: None
    grew: Callable[[Log], None] = lambda _: None
    refuses: Callable[[bytes], float] = lambda _: 0.0
    claims: Claims = field(default_factory=Claims)
    wrong: WrongPayloads = field(default_factory=WrongPayloads)
    address: str = ""
    budget: MemoryShare | None = None
    bushbaby: Remembered = field(default_factory=Remembered)
    relay: Relay | None = None
    held: HeldByPeers = field(default_factory=HeldByPeers)
    happened: Callable[["Session[Any]", Kind], None] = lambda *_: None

    def needed_identity(self) -> Identity:
        """The identity, for a protocol that proves it; ``ConfigError`` if there is none."""
        if self.identity is None:
            raise ConfigError("this protocol proves the identities of both sides; name one of yours")
        return self.identity


@dataclass(frozen=True, slots=True)
class Purpose:
    """What one session is for.

    ``called``: we opened the connection; ``key`` is then the identity that a ``culm://`` listener has to prove.
    ``is_live``: go on with what is new; else ``done`` is set once all that was wanted came, and the peer has all that
    it asked for. ``logs`` are asked for from the beginning, where a protocol asks by log; ``mirrors``: and those that
    the peer asks for. ``answers_only``: the peer reads from us, and is asked for nothing. ``interest`` says what of a
    log, by default the policy does. ``options`` and ``limits`` are the protocol's own. ``finished`` is called with logs
    that are complete, which are then no longer followed. ``peek`` is a part of a payload to ask for
    (``culm.node.intervals.peek``). ``is_counted`` is false for a session inside another one, because the outer session
    counts its bytes.
    """

    called: bool = False
    key: bytes | None = None
    is_live: bool = True
    logs: tuple[Log, ...] = ()
    mirrors: bool = True
    answers_only: bool = False
    interest: Callable[[Log], RangeSet] | None = None
    options: Any = None
    limits: Any = None
    finished: Callable[[list[Log]], None] | None = None
    peek: Any = None
    is_counted: bool = True


class Session(Speaker[EventT]):
    """One session. ``done`` is set when one that is not live has nothing left to do; its owner then cancels ``run``."""

    scheme: ClassVar[str]
    may_differ: ClassVar[str] = "speak another protocol"
    """Why a peer may hang up at once; completes "it may ..."."""

    def __init__(
        self, context: Context, streams: Streams, connection: ProtocolConnection[EventT], purpose: Purpose
    ) -> None:
        self.config = context.config
        self.connection = connection
        self.is_live = purpose.is_live
        self.is_called = purpose.called
        self.stats = SessionStats()
        self.done = asyncio.Event()
        self._refusals_told: set[Log | None] = set()  # One line of each log; the others would say the same.
        self._forks_told: set[Log] = set()  # The same of forks.
        self.name = ""  # What the node calls the peer in its log.
        self._has_settled = False
        self._is_inner = not purpose.is_counted
        self.over_because = ""  # Why this side has ended a session, so that a new one goes on at once.
        self.proved: bytes | None = None  # The other side's identity, once it has proved it.
        self._writer = streams[1]
        self.driver = Driver(self, streams, context.worker.share, is_counted=purpose.is_counted)
        own = context.config.policy.own
        self.witness = Witness(context.worker, context.source, own, self._peer_said, self._peer_showed)
        self._context = context
        self._purpose = purpose
        self._share = context.worker.share
        self._now = asyncio.get_running_loop().time  # Callable on the threads where sessions compute, unlike ``clock``.

    @property
    def peer(self) -> bytes | None:
        """The other side's identity as it says; None where a protocol has none."""
        return None

    async def run(self) -> None:
        """Run until the peer ends the connection, or raise why it was ended: ``NetworkError``, ``ProtocolError``."""
        try:
            await self.driver.run(*self.works())
        except NetworkError:
            if not self.stats.bytes_received and (reason := await what_ended(self._writer)) is not None:
                raise PeerRefused(reason) from None
            raise
        finally:
            self._context.wrong.leave(self)
            self.close()

    def opened(self) -> None:
        """Write a line to the log, if this is a session of a node."""
        if self.name:
            reason = {} if self.proved is None else {"reason": f"it is {author_text(self.proved)}"}
            _logger.info("connected", extra={"peer": self.name, **reason})
        if not self._is_inner:
            self._context.happened(self, "connected")

    def settled(self) -> None:
        """All that was asked for has come. Programs hear of it once."""
        if not (self._is_inner or self._has_settled):
            self._has_settled = True
            self._context.happened(self, "settled")

    async def end_of_stream(self) -> None:
        """``PeerRefused`` if we called, and the peer has closed the connection before it took part.

        Only ``culm://`` has a way to say why. The other protocols are not ours, and have no message for that.
        """
        if self.is_called and not (self.is_open and self.stats.bytes_received):
            raise PeerRefused(f"the peer hung up at once: it may {self.may_differ}, be full, or refuse us for now")

    # -- what the node tells the session -----------------------------------------------------------------------

    @abstractmethod
    def store_changed(self) -> None:
        """The store has changed: the peer may wait for what is new."""

    def log_grew(self, log: Log) -> None:
        """More bytes of a payload that is being fetched are there, or it is not being fetched any more."""

    async def lost(self, log: Log, seq: int) -> None:
        """The payload of an entry was damaged on our disk: ask the peer for it again."""

    @abstractmethod
    async def change_policy(self, policy: Policy) -> None:
        """Go on with other choices of the operator."""

    @property
    def worn_out(self) -> bool:
        """Whether the connection carried all that a connection may, so that a new one has to go on."""
        return False

    # -- what the peer sent wrong ------------------------------------------------------------------------------

    def worth_asking(self, log: Log, interest: RangeSet) -> RangeSet:
        """What to ask this peer for of an interest; see ``culm.node.sharing.wrong``."""
        return self._context.wrong.without(self.proved or self._context.address, log, interest, self._now(), self)

    def note_wrong(self, place: Place, *, is_theirs: bool = True) -> None:
        """The payload of an entry is wrong. ``is_theirs``: all of it came from this peer."""
        log, wrong, now = (place.author, place.log_id), self._context.wrong, self._now()
        if is_theirs:
            wrong.note(self.proved or self._context.address, log, place.seq, now)
            wrong.leave(self, log, place.seq)
        else:
            wrong.fetch_alone(self, log, place.seq, now)

    # -- what the peer holds of our own logs --------------------------------------------------------------------

    def _peer_said(self, log: Log, newest: int) -> None:
        self._context.held.said(self.proved, self._context.address, log, newest)

    def _peer_showed(self, entry: Entry) -> None:
        self._context.held.shown(self.proved, self._context.address, entry.log, entry.seq)

    # -- life --------------------------------------------------------------------------------------------------

    def works(self) -> Iterable[Coroutine[object, object, None]]:
        """What is to run beside the connection."""
        return ()

    def close(self) -> None:
        """Let go of whatever others may wait for."""

    # -- storing -----------------------------------------------------------------------------------------------

    def note_stored(self, report: ImportReport, peer: str | None = None) -> None:
        """Count what the store took and refused; the node hears of what is new."""
        stats = self.stats
        stats.forks += len(report.forks)
        for proof in report.forks:
            stats.note_fork(proof.log, proof.position)
            if self.config.policy.quotas is not None:
                self.config.policy.quotas.add_proof((proof.first, proof.second))
            if proof.author in self.config.policy.own and proof.log not in self._forks_told:
                self._forks_told.add(proof.log)
                about = {"log": log_text(proof.log), "seq": proof.position, "reason": _FORKED}
                _logger.warning("one of your own logs is forked", extra=about)
        for place, error in report.refused:
            log = None if place is None else (place.author, place.log_id)
            if stats.note_refused(place, error, peer, tell=log not in self._refusals_told):
                self._refusals_told.add(log)
        if report.added or report.payloads:
            self._context.stored()
