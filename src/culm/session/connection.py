"""One side of a session: bytes of the TLS connection in, events out (docs/specs/culm.md, "Streams", "States").

::

    session = Connection(identity, clump, nonce, listener=key)
    events = session.receive_data(data, now)    # RemoteProtocolError: close the connection, say nothing
    out = session.data_to_send()
    session.tell_interests(interests)
    session.transfer(data)                  # bytes of the interval protocol, whose machine is the owner's
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator

from culm.bamboo import Identity
from culm.errors import EncodingError, FeatureRefused, LocalProtocolError, RemoteProtocolError
from culm.ranges import Feature, Range, RangeSet
from culm.ranges.features import first_used, set_as_it_is
from culm.session import messages
from culm.session.events import Asked, Ended, Established, Event, Named, Reconcile, Refused, Transferred
from culm.session.handshake import Handshake
from culm.session.interests import Interests, Key, TheirInterests
from culm.session.limits import HANDSHAKE_BYTES, ID_BYTES, INTEREST_BYTES, Limits
from culm.session.messages import Deframer, Discovery, Offer
from culm.session.states import CALLERS_WORD, CONTROL, DISCOVERY, Phase, Round
from culm.types import Buffer
from culm.wire.bymux import Closed, Multiplexer, Received, Stream, Unread
from culm.wire.connection import UNLIMITED, UntimedConnection

CONTROL_STREAM, DISCOVERY_STREAM, TRANSFER_STREAM = range(3)
CONTROL_CREDIT = 16 * 1024
"""Bytes that each side may write to the control stream from the start: enough for the handshake.

To the other streams it may write nothing, so that a stranger can make us hold no more than this.
"""
WINDOWS = {CONTROL_STREAM: 240 * 1024, DISCOVERY_STREAM: 256 * 1024, TRANSFER_STREAM: 1024 * 1024}
"""Bytes of credit that are given once the peer has proved itself.

Data gets the most, because a fast link needs it. News and discoveries have credit of their own, so that they never wait
behind data.
"""
_ROOM = 64  # Bytes of a message that are left for what stands around its items: type, counts, flags.


class Connection(UntimedConnection[Event]):
    """One side of a session, which proves ``identity`` and the knowledge of ``clump``. ``nonce``: 32 fresh bytes.

    ``listener`` is the key (32 bytes) that TLS has proved, where we called; None where we were called. ``refuses`` then
    says for how many seconds a caller's key that was proved is refused: 0 if it is welcome, infinite if it is not
    allowed. ``refused_features``: of ranges, not to be used in the interests that the peer tells.

    ``peer`` is the other side's key: for the caller from the start, for the listener once it is proved. ``rounds``
    counts the discoveries that were begun.
    """

    def __init__(
        self,
        identity: Identity,
        clump: bytes,
        nonce: bytes,
        *,
        listener: bytes | None = None,
        refuses: Callable[[bytes], float] = lambda _: 0.0,
        limits: Limits | None = None,
        refused_features: Collection[Feature] = (),
    ) -> None:
        self.calls = listener is not None
        self.peer = listener
        self.limits = limits or Limits()
        self.their_limits = Limits(HANDSHAKE_BYTES, 1)
        self.rounds = 0
        self._handshake = Handshake(identity, clump, nonce, refuses)
        self._told = TheirInterests(self.limits.max_interests)
        self._refused_features = refused_features
        self._holds = False
        self._held: dict[int, int] = {}  # bytes by stream for which the peer gets no credit yet
        self._phase = Phase.UNGREETED if self.calls else Phase.UNPROVED
        self._round = Round.IDLE
        self._control = Deframer(HANDSHAKE_BYTES)
        self._discovery = Deframer(self.limits.max_message)
        streams = {CONTROL_STREAM: CONTROL_CREDIT, DISCOVERY_STREAM: 0, TRANSFER_STREAM: 0}
        self._mux = Multiplexer({number: Stream(credit, credit) for number, credit in streams.items()})
        if not self.calls:
            self._say(messages.Challenge(nonce))

    @property
    def is_open(self) -> bool:
        """Whether both sides have proved themselves."""
        return self._phase is Phase.OPEN

    @property
    def refused_for(self) -> int:
        """The seconds for which the listener refuses us, as it says; 0 if it has named no time."""
        return self._mux.room(None)

    @property
    def their_interests(self) -> Interests:
        """What the peer wants, as it said last."""
        return self._told.interests

    @property
    def is_comparing(self) -> bool:
        """Whether a discovery is under way."""
        return self._round is not Round.IDLE

    @property
    def _has_word(self) -> bool:
        return (self._round in CALLERS_WORD) is self.calls

    # -- in ----------------------------------------------------------------------------------------------------

    def _receive(self, data: Buffer) -> Iterator[Event]:
        """The events of some bytes.

        If the peer ends a stream, the events that came with that are not given, because there may be no stream left to
        answer them on.
        """
        events, failure = self._mux.receive(data)
        if any(isinstance(event, Closed | Unread) for event in events):
            raise failure or RemoteProtocolError("the peer ended a stream of the session")
        for event in events:
            if isinstance(event, Received):
                yield from self._take_written(event.stream, event.data)
        if failure is not None:
            raise failure

    def _take_written(self, number: int, data: bytes) -> Iterator[Event]:
        if number == TRANSFER_STREAM:
            yield Transferred(data)  # the owner says when it is dealt with
            return
        if number == CONTROL_STREAM:
            for message in self._control.feed(data):
                for part in messages.decode(message):
                    if isinstance(part, messages.Reading):
                        yield part
                    else:
                        yield from self._take(part)
        else:  # The multiplexer has refused every stream but the three.
            for message in self._discovery.feed(data):
                yield from self._take_discovery(*messages.decode_discovery(message))
        self._held[number] = self._held.get(number, 0) + len(data)
        if not self._holds:
            self.hold(holds=False)

    def hold(self, *, holds: bool) -> None:
        """Hold back the peer's credit on the control and the discovery stream, or give all of it that was held back.

        This is how an owner with too much to do stops a peer from telling it even more.
        """
        self._holds = holds
        if not holds:
            for number, amount in self._held.items():
                self._mux.consumed(number, amount)
            self._held.clear()

    def _take(self, message: messages.Message) -> Iterator[Event]:
        following = CONTROL.get((self._phase, message.kind))
        if following is None:
            raise RemoteProtocolError(f"{message.kind.name} came while the session was {self._phase.name.lower()}")
        match message:
            case messages.Challenge(nonce):
                assert self.peer is not None  # noqa: S101 - who calls knows whom
                self._say(self._handshake.prove(self.peer, nonce, self.limits))
            case messages.Proof(key, limits=limits):
                answer = self._handshake.check_caller(message, self.limits)
                self.peer = key
                if isinstance(answer, Refused):
                    self._refuse(answer)
                    yield answer
                    return
                self._say(answer)
                self.their_limits = limits
            case messages.Welcome(mac, limits):
                self._handshake.check_listener(mac)
                self.their_limits = limits
            case messages.InterestsTold(reset, items):
                self._check_features(items)
                self._told.take(dict(items).items(), reset=reset)
                yield message
            case messages.Offered() | messages.Settled():
                yield message
        was_open = self.is_open
        self._phase = following
        if self.is_open and not was_open:
            assert self.peer is not None  # noqa: S101 - it has proved itself
            self._control.limit = self.limits.max_message
            for number, window in WINDOWS.items():
                self._mux.grant(number, window)
            yield Established(self.peer)

    def _check_features(self, items: Iterable[tuple[Key, RangeSet]]) -> None:
        """``FeatureRefused`` if an interest uses what is not accepted; before anything is kept of any."""
        if not self._refused_features:
            return
        for _, ranges in items:
            try:
                feature = first_used(ranges, self._refused_features)
            except EncodingError as error:
                raise RemoteProtocolError(f"the peer told an interest that breaks the format: {error}") from None
            if feature is not None:
                raise FeatureRefused(
                    f"the peer told an interest with the range feature {feature}, which this node refuses; either take"
                    f" {feature} out of refuse_ranges here, or have the peer avoid it (avoid_ranges)"
                )

    def _refuse(self, refused: Refused) -> None:
        """Tell the caller how long its penalty runs; nothing if it is not allowed, as to any stranger."""
        self._phase = Phase.REFUSED
        if refused.seconds < math.inf:
            self._mux.grant(None, math.ceil(refused.seconds))

    def close(self) -> None:
        """The connection is over: forget what the peer told, and the parts of messages that came.

        The traceback of an error may keep the connection in memory for a while, and this would stay with it.
        """
        self.their_interests.clear()
        self._control, self._discovery = Deframer(HANDSHAKE_BYTES), Deframer(HANDSHAKE_BYTES)

    def _take_discovery(self, kind: Discovery, body: bytes) -> Iterator[Event]:
        before, following = self._round, DISCOVERY.get((self._round, kind))
        if following is None or self._has_word:
            raise RemoteProtocolError(f"{kind.name} came while the discovery was {before.name.lower()}")
        self._round = following
        match kind:
            case Discovery.RECONCILE:
                first = before is Round.IDLE
                self.rounds += first
                yield Reconcile(body, first)
            case Discovery.ASK:
                yield Asked(messages.decode_heads(body))
            case Discovery.NAMES:
                yield Named(messages.decode_names(body))
            case Discovery.END:
                if body:
                    raise RemoteProtocolError("the peer ended a discovery with bytes behind the message")
                yield Ended(self.rounds)

    # -- out ---------------------------------------------------------------------------------------------------

    def _say(self, message: messages.Message) -> None:
        self._mux.write(CONTROL_STREAM, messages.encode(message))

    def _expect_open(self) -> None:
        if not self.is_open:
            raise LocalProtocolError("the session is not open yet: both sides have to prove themselves first")

    @property
    def _room(self) -> int:
        """For the items of a message."""
        return min(self.limits.max_message, self.their_limits.max_message) - _ROOM

    def tell_interests(self, interests: Interests) -> None:
        """Say what we want, instead of what was said before.

        ``LocalProtocolError`` for more interests than the peer takes.
        """
        self._expect_open()
        if len(interests) > self.their_limits.max_interests:
            raise LocalProtocolError(
                f"{len(interests)} interests are too many: the peer accepts {self.their_limits.max_interests}"
            )
        told = list(interests.items())
        if sum(len(ranges.encode()) for _, ranges in told) > INTEREST_BYTES:  # more is told than is wanted, never less
            told = [(key, _stretch(ranges)) for key, ranges in told]
        sized = ((interest, len(messages.encode_item((*interest[0], interest[1])))) for interest in told)
        for number, group in enumerate(list(messages.batches(sized, self._room)) or [[]]):
            self._say(messages.InterestsTold(reset=number == 0, items=group))

    def offer(self, offers: Iterable[Offer]) -> None:
        """Say what we have got, or have no longer."""
        self._expect_open()
        for group in messages.offers_in_batches(offers, self._room):
            self._say(messages.Offered(group))

    def settle(self, number: int) -> None:
        """Say that we have fetched what we want of what was named in the discovery of that number."""
        self._expect_open()
        self._say(messages.Settled(number))

    def reconcile(self, message: bytes) -> None:
        """Send a negentropy message: the caller's first one begins a discovery."""
        if self._round is Round.IDLE:
            self._expect_open()
            if not self.calls:
                raise LocalProtocolError("only the side that called can begin a discovery")
            self.rounds += 1
        self._discover(Discovery.RECONCILE, message)

    def ask(self, heads: list[bytes]) -> None:
        """Ask for the names behind heads; ``most_asked`` at a time."""
        self._discover(Discovery.ASK, b"".join(heads))

    @property
    def most_asked(self) -> int:
        """How many heads can be asked for at once, so that the names fit into an answer."""
        return min(self._room // ID_BYTES, 1000)

    def name(self, offers: list[Offer]) -> None:
        """Name logs that differ: the caller of its own accord, the listener in answer to ``Asked``."""
        for number, group in enumerate(list(messages.offers_in_batches(offers, self._room)) or [[]]):
            if self.calls or number == 0:
                self._discover(Discovery.NAMES, messages.encode_item(group))
            else:  # A listener has one answer: what does not fit is offered.
                self._say(messages.Offered(group))

    def end_round(self) -> None:
        """Everything that differs was named."""
        self._discover(Discovery.END)

    def _discover(self, kind: Discovery, body: bytes = b"") -> None:
        following = DISCOVERY.get((self._round, kind))
        if following is None or not self._has_word:
            raise LocalProtocolError(f"{kind.name} cannot be sent while the discovery is {self._round.name.lower()}")
        self._round = following
        self._mux.write(DISCOVERY_STREAM, messages.encode_discovery(kind, body))

    def transfer(self, data: bytes) -> None:
        """Queue bytes of the interval protocol."""
        self._expect_open()
        self._mux.write(TRANSFER_STREAM, data)

    @property
    def transfer_queued(self) -> int:
        """Bytes that wait, for credit or for their turn."""
        return self._mux.queued(TRANSFER_STREAM)

    @property
    def offers_queued(self) -> int:
        """Bytes on the control stream that wait for credit. Offer no more while they are many: the peer takes none."""
        return self._mux.queued(CONTROL_STREAM)

    def consumed(self, amount: int) -> None:
        """Bytes of the interval protocol were dealt with."""
        self._mux.consumed(TRANSFER_STREAM, amount)

    def data_to_send(self, limit: int = UNLIMITED) -> bytes:
        """Take about ``limit`` bytes for the peer, as far as its credit allows."""
        return self._mux.data_to_send(limit)

    def keep_alive(self) -> None:
        """Queue a ping, which the peer answers."""
        self._mux.ping()


def _stretch(ranges: RangeSet) -> RangeSet:
    """All that lies between the ends of a set."""
    items = list(ranges)
    if not items:
        return ranges
    end = None if any(item.is_open for item in items) else max(item.last for item in items)
    return set_as_it_is([Range(items[0].start, end)])
