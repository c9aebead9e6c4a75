"""A Bushbaby connection without I/O: bytes in, events out; calls in, bytes out.

Both sides are alike, and each goes through three states of what it has heard and of what it has said::

    heard   GREETING  --HELLO-->  PROVING  --AUTH-->  REPLICATING  (HAVE, WANT, BAMBOO in any order)
    said    NOTHING   --HELLO-->  GREETED  --AUTH-->  PROVED

``_ACCEPTED`` is the whole machine of what is heard: for each state the messages that may come, the lengths they may
have, and the state after. What is not in the table is refused, before a byte of it is kept, because a peer may claim
any length. What we say depends on the options: a careful side waits until it has heard enough.

Specification: docs/specs/bushbaby.md, "Messages", "Recognising Culm".
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

from nacl.bindings import crypto_scalarmult_base

from culm.bamboo import Entry, ForkProof, Identity
from culm.bushbaby import handshake, messages
from culm.bushbaby.clump import check_clump
from culm.bushbaby.events import (
    Authenticated,
    BambooReceived,
    Event,
    ForksReceived,
    HaveReceived,
    OtherDialect,
    PeerIdentified,
    WantReceived,
)
from culm.bushbaby.greeting import Greeting
from culm.bushbaby.handshake import HELLO_BYTES, SIGNATURE_BYTES, Dialect, Hello
from culm.bushbaby.messages import AUTH, BAMBOO, FORKS, HAVE, HELLO, WANT, BambooWriter, HaveItem, WantItem
from culm.bushbaby.options import MAX_PLAINTEXT, Options
from culm.bushbaby.outbox import Outbox
from culm.bushbaby.secretbox import NONCE_BYTES, OVERHEAD, Boxes
from culm.errors import EncodingError, LocalProtocolError, RemoteProtocolError
from culm.types import Buffer
from culm.wire.connection import UNLIMITED
from culm.wire.stlv import StlvReader, encode_header

AUTH_BYTES = OVERHEAD + SIGNATURE_BYTES
MAX_LIST_BYTES = 1024 * 1024  # of one HAVE or WANT between our own nodes; the deployed peer takes ``MAX_PLAINTEXT``
_BUSY_A_LOG = 0.005  # Seconds without another message behind a HAVE: the deployed peer looks each log up in its store.
_OVER = "the peer broke the protocol: this connection is over"


class State(Enum):
    """What the peer has to say next."""

    GREETING = "HELLO"
    PROVING = "AUTH"
    REPLICATING = "HAVE, WANT or BAMBOO"


class _Said(IntEnum):
    """What we have said of ourselves."""

    NOTHING = 0
    GREETED = 1
    PROVED = 2


class _Accepted(NamedTuple):
    least: int  # bytes of the message's value
    most: int | None  # None: the configured maximum
    after: State


_ACCEPTED: dict[State, dict[int, _Accepted]] = {
    State.GREETING: {HELLO: _Accepted(HELLO_BYTES, HELLO_BYTES, State.PROVING)},
    State.PROVING: {AUTH: _Accepted(AUTH_BYTES, AUTH_BYTES, State.REPLICATING)},
    State.REPLICATING: {
        HAVE: _Accepted(OVERHEAD + 1, None, State.REPLICATING),
        WANT: _Accepted(OVERHEAD + 1, None, State.REPLICATING),
        BAMBOO: _Accepted(OVERHEAD + 1, None, State.REPLICATING),
        FORKS: _Accepted(OVERHEAD + 1, None, State.REPLICATING),
    },
}


class Connection:
    """One connection to a peer. ``random_bytes(n)`` gives n unpredictable bytes.

    ``ephemeral_secret`` (32 bytes) is drawn from them if it is None; only tests give one.
    """

    def __init__(
        self,
        identity: Identity,
        clump: bytes,
        *,
        random_bytes: Callable[[int], bytes],
        options: Options | None = None,
        ephemeral_secret: bytes | None = None,
    ) -> None:
        check_clump(clump)
        self.options = options or Options()
        self.state = State.GREETING
        self.generation = 0  # Of a peer that is a Culm node: 1, or 2 if it tells of forks. 0: another peer.
        self._identity = identity
        self._random = random_bytes
        secret = ephemeral_secret or random_bytes(handshake.KEY_BYTES)
        self._greeting = Greeting(clump, Hello(identity.public, crypto_scalarmult_base(secret)), secret, self.options)
        self.boxes = Boxes(self.options.limits.max_boxes, odd_counter=False)
        self._reader = StlvReader(self._check_header)
        self._outbox = Outbox(paced=False)
        self._speak(self.options.dialect)
        self._said = _Said.NOTHING
        self._accepted = False  # our owner talks to this peer
        self._failed = False
        self._has_told = False  # the peer sent a HAVE or a BAMBOO
        if not (self.options.wait_for_hello or self.options.hello_seconds):
            self._send_hello()

    # -- receiving ---------------------------------------------------------------------------------------------

    def receive_data(self, data: Buffer, now: float) -> Iterator[Event]:  # noqa: ARG002 - only what is sent is timed
        """Take bytes from the peer (``culm.wire.connection``); messages are decoded one by one, as you iterate."""
        if self._failed:
            raise LocalProtocolError(_OVER)
        rest = memoryview(data)
        try:
            while True:
                message, rest = self._reader.read(rest)
                if message is None:
                    return
                if not (yield from self._receive(*message)):
                    return
        except EncodingError as error:
            self._failed = True
            raise RemoteProtocolError(f"the peer sent a message that breaks the format: {error}") from None
        except RemoteProtocolError:
            self._failed = True
            raise

    def _check_header(self, kind: int, length: int) -> None:
        accepted = _ACCEPTED[self.state].get(kind)
        if self.state is State.REPLICATING and self._said is not _Said.PROVED:
            raise RemoteProtocolError(f"the peer sent a message of type {kind} before we have proved who we are")
        if accepted is None:
            raise RemoteProtocolError(f"the peer sent a message of type {kind}; expected: {self.state.value}")
        most = self.options.limits.max_message if accepted.most is None else accepted.most
        if not accepted.least <= length <= most:
            raise RemoteProtocolError(
                f"the peer sent a message of type {kind} with {length} bytes; accepted: {accepted.least} to {most}"
            )

    def _receive(self, kind: int, value: memoryview) -> Generator[Event, None, bool]:
        """Give the event that a message makes; whether more messages can be read."""
        after = _ACCEPTED[self.state][kind].after
        if kind == HELLO:
            event: Event = self._receive_hello(bytes(value))
        else:
            nonce = bytes(value[:NONCE_BYTES])
            plaintext = self.boxes.open(value)
            if kind == AUTH:
                event = self._receive_auth(bytes(plaintext), nonce)
            elif kind == HAVE:
                event = HaveReceived(messages.decode_have(plaintext, self.options.limits))
                self._has_told = True
            elif kind == FORKS:
                event = ForksReceived(messages.decode_forks(plaintext))
            elif kind == WANT:
                event = WantReceived(messages.decode_want(plaintext, self.options.limits))
            else:
                event = BambooReceived(self._entries(plaintext), len(value))
                self._has_told = True
        self.state = after
        yield event
        return not self._failed

    def _receive_hello(self, value: bytes) -> Event:
        peer, dialect = handshake.unpack_hello(value, self._greeting.clump)
        if dialect is not self.dialect and not self.options.any_dialect:
            self._failed = True
            return OtherDialect(dialect)
        self._speak(dialect)
        if peer.public == self._greeting.ours.public or peer.ephemeral == self._greeting.ours.ephemeral:
            raise RemoteProtocolError("the peer claims to be ourselves: it sent our own keys back")
        self.boxes.keys = handshake.derive_keys(self._identity, self._greeting.secret, peer)
        if not self.options.ask_first:
            self.accept()
        return PeerIdentified(peer.public)

    def _receive_auth(self, signature: bytes, nonce: bytes) -> Event:
        peer = self.boxes.session_keys.peer
        handshake.check_auth(signature, self._greeting.clump, self.boxes.session_keys)
        if self.options.mark:
            self.generation = handshake.generation_of(nonce, peer.ephemeral)
        if self.is_culm:  # the rules for the deployed peer end here
            self.boxes.odd_counter = self._outbox.paced = False
        if self._accepted:
            self._send_auth()
        return Authenticated(peer.public, self.is_culm)

    def _entries(self, plaintext: memoryview) -> Iterator[tuple[Entry, memoryview]]:
        try:
            yield from messages.decode_bamboo(plaintext, self.options.limits)
        except EncodingError as error:
            self._failed = True
            raise RemoteProtocolError(f"the peer sent a message that breaks the format: {error}") from None

    # -- sending -----------------------------------------------------------------------------------------------

    def data_to_send(self, limit: int = UNLIMITED) -> bytes:
        """Take at most ``limit`` bytes for the peer, as far as the pace allows; call ``next_timer`` afterwards."""
        return self._outbox.take(limit)

    @property
    def has_more(self) -> bool:
        """False: one message is the most that is held."""
        return False

    def next_timer(self) -> float | None:
        """When the pace allows more, our HELLO is due, or the time has to be told; else None."""
        return self._outbox.next_call() if self._greeting.due is None else self._greeting.due

    def handle_timer(self, now: float) -> tuple[Event, ...]:
        """Tell the pace what time it is, and send our HELLO if it is due; makes no events."""
        self._outbox.tell(now)
        if self._greeting.is_due(now):
            self._send_hello()
        return ()

    def keep_alive(self) -> None:
        """Queue a message without content. ``LocalProtocolError`` before the handshake is over.

        It is a BAMBOO without entries for a Culm node, which takes an empty WANT as word that we lack nothing, and
        for a peer that has said nothing yet; otherwise an empty WANT.
        """
        if self.is_culm or not self._has_told:
            self.start_bamboo([]).send()
        else:
            self.send_want([])

    def accept(self) -> None:
        """Go on with a peer that was identified (see ``ask_first``)."""
        if self._failed:
            raise LocalProtocolError(_OVER)
        _ = self.boxes.session_keys
        self._accepted = True
        self._send_hello()
        if not self.options.wait_for_auth or self.state is State.REPLICATING:
            self._send_auth()

    def send_have(self, items: Iterable[HaveItem]) -> int:
        """Announce logs, in as many messages as it takes; their number. An empty list is one message, too.

        Tips and forks are left out for a peer that does not know them.
        """
        short = items if self.tells_forks else (HaveItem(*item[:3]) for item in items)
        encoded = [messages.encode_have_item(item) for item in short]
        return self._send_lists(HAVE, encoded, self.options.limits.max_have_items)

    def send_want(self, items: Iterable[WantItem]) -> int:
        """Ask for logs, in as many messages as it takes; their number. An empty list is one message, too."""
        encoded = [messages.encode_want_item(item) for item in items]
        return self._send_lists(WANT, encoded, self.options.limits.max_want_items)

    def send_forks(self, proofs: Iterable[ForkProof]) -> None:
        """Show fork proofs. ``LocalProtocolError`` unless the peer ``tells_forks``, too."""
        if not self.tells_forks:
            raise LocalProtocolError("this peer does not know how to read a fork proof")
        self._send_lists(FORKS, map(messages.encode_fork, proofs), messages.MAX_FORKS)

    def _send_lists(self, kind: int, items: Iterable[bytes], most: int) -> int:
        self._check_replicating()
        arrays = messages.encode_lists(items, MAX_LIST_BYTES if self.is_culm else MAX_PLAINTEXT, most)
        for array, count in arrays:
            self._send_box(kind, array, pause=_BUSY_A_LOG * count if kind == HAVE else 0.0)
        return len(arrays)

    def start_bamboo(self, item_sizes: Sequence[int]) -> BambooWriter:
        """Begin a BAMBOO message with items of these sizes (in bytes, none empty); write them, then call ``send``."""
        self._check_replicating()
        if not all(item_sizes):
            raise LocalProtocolError("an item of no bytes: an item has at least one entry")
        size = messages.bamboo_size(item_sizes)
        if size + OVERHEAD > self.options.limits.max_message:
            raise LocalProtocolError(
                f"a message of {size} bytes cannot be sent: max_message is {self.options.limits.max_message}"
            )
        return BambooWriter(item_sizes, self.dialect, self._seal_and_queue)

    def can_send(self, item_size: int) -> bool:
        """Whether one item of this size fits a message."""
        return messages.bamboo_size([item_size]) + OVERHEAD <= self.options.limits.max_message

    @property
    def is_culm(self) -> bool:
        """Whether both sides recognised each other as Culm nodes."""
        return self.generation > 0

    @property
    def dialect(self) -> Dialect:
        """The peer's dialect, once its HELLO has come; before, the one in which ours goes out."""
        return self._greeting.dialect

    @property
    def said(self) -> Dialect | None:
        """The dialect in which our HELLO went out; None if it did not."""
        return self._greeting.said

    @property
    def is_deployed(self) -> bool:
        """Whether the peer has to be spoken to as the deployed one."""
        return not self.is_culm and self.dialect is Dialect.DEPLOYED

    @property
    def tells_forks(self) -> bool:
        """Whether tips, forks and fork proofs can be sent to the peer."""
        return self.generation > 1

    @property
    def replicating(self) -> bool:
        """Whether both sides have proved who they are, so that HAVE, WANT and BAMBOO may be sent."""
        return self.state is State.REPLICATING and self._said is _Said.PROVED and not self._failed

    @property
    def unfinished(self) -> int:
        """Bytes of a message of the peer that has begun to come."""
        return self._reader.held

    def close(self) -> None:
        """The connection is over: what had come of a message is let go, and nothing is read any more."""
        self._failed = True
        self._reader.clear()

    def _check_replicating(self) -> None:
        if not self.replicating:
            raise LocalProtocolError("the handshake is not over: nothing can be announced, asked for or sent yet")

    def _speak(self, dialect: Dialect) -> None:
        is_deployed = dialect is Dialect.DEPLOYED
        self._greeting.dialect, self.boxes.odd_counter = dialect, is_deployed
        self._outbox.paced = is_deployed and self.options.paced

    def _send_hello(self) -> None:
        if self._said is _Said.NOTHING:
            self._said = _Said.GREETED
            self._outbox.add(encode_header(HELLO, HELLO_BYTES) + self._greeting.value())

    def _send_auth(self) -> None:
        if self._said is _Said.PROVED:
            return
        self._said = _Said.PROVED
        nonce = self._random(NONCE_BYTES)
        if self.options.mark:
            nonce = handshake.marked_nonce(nonce, self._greeting.ours.ephemeral)
        self._send_box(AUTH, handshake.make_auth(self._identity, self._greeting.clump, self.boxes.session_keys), nonce)

    def _send_box(self, kind: int, plaintext: bytes, nonce: bytes | None = None, pause: float = 0.0) -> None:
        message = bytearray(encode_header(kind, OVERHEAD + len(plaintext)))
        start = len(message)
        message += bytes(OVERHEAD)
        message += plaintext
        self._seal_and_queue(message, start, nonce, pause)

    def _seal_and_queue(self, message: bytearray, start: int, nonce: bytes | None = None, pause: float = 0.0) -> None:
        self.boxes.seal(memoryview(message)[start:], nonce or self._random(NONCE_BYTES))
        self._outbox.add(message, pause)
