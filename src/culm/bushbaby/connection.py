"""A Bushbaby connection without I/O: bytes in, events out; calls in, bytes out.

Both sides are alike and go through three states of what they have heard::

    GREETING  --HELLO-->  PROVING  --AUTH-->  REPLICATING  (HAVE, WANT, BAMBOO in any order)

``_ACCEPTED`` is the whole machine: for each state the messages that may come, the lengths they may have, and the state
after. What is not in the table is refused, before a byte of it is kept. Anything that is wrong raises
``RemoteProtocolError``, and the only thing left to do then is to drop the connection.

Specification: docs/specs/bushbaby.md, "Messages", "Recognising Culm".
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from nacl.bindings import crypto_scalarmult_base

from culm.bushbaby import handshake, messages
from culm.bushbaby.events import Authenticated, BambooReceived, HaveReceived, PeerIdentified, WantReceived
from culm.bushbaby.handshake import HELLO_BYTES, SIGNATURE_BYTES, Dialect, Hello, SessionKeys
from culm.bushbaby.limits import MAX_PLAINTEXT, Limits
from culm.bushbaby.pacing import Pacer
from culm.bushbaby.secretbox import NONCE_BYTES, OVERHEAD, open_box, seal
from culm.errors import EncodingError, LocalProtocolError, RemoteProtocolError
from culm.wire.connection import UNLIMITED
from culm.wire.stlv import StlvReader, encode_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from culm.bamboo import Entry, Identity
    from culm.bushbaby.events import Event
    from culm.bushbaby.messages import HaveItem, WantItem
    from culm.types import Buffer

HELLO, AUTH, HAVE, WANT, BAMBOO = 1, 2, 5, 6, 8
AUTH_BYTES = OVERHEAD + SIGNATURE_BYTES
MAX_LIST_BYTES = 1024 * 1024  # of one HAVE or WANT between our own nodes


class State(Enum):
    """What the peer has to say next."""

    GREETING = "HELLO"
    PROVING = "AUTH"
    REPLICATING = "HAVE, WANT or BAMBOO"


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
    },
}


class Connection:
    """One connection to a peer.

    ``random_bytes(n)`` gives n unpredictable bytes. ``ask_first``: after the peer's HELLO nothing more is sent until
    ``accept`` is called. ``wait_for_hello`` and ``wait_for_auth``: let the peer show itself first; two such sides wait
    for ever, so the one who called should not. ``mark``: let other Culm nodes recognise us. ``paced``: give a peer that
    is no Culm node only as many messages at once as the deployed peer stands (``culm.bushbaby.pacing``); the owner must
    heed ``next_timer`` then.
    """

    def __init__(
        self,
        identity: Identity,
        clump: bytes,
        *,
        random_bytes: Callable[[int], bytes],
        dialect: Dialect = Dialect.DEPLOYED,
        limits: Limits | None = None,
        ephemeral_secret: bytes | None = None,
        ask_first: bool = False,
        wait_for_hello: bool = False,
        wait_for_auth: bool = False,
        mark: bool = True,
        paced: bool = False,
    ) -> None:
        self.state = State.GREETING
        self.is_culm = False
        self._identity = identity
        self._clump = clump
        self._random = random_bytes
        self._dialect = dialect
        self.limits = limits or Limits()
        self._mark = mark
        self._ask_first = ask_first
        self._wait_for_auth = wait_for_auth
        self._secret = ephemeral_secret or random_bytes(handshake.KEY_BYTES)
        self._ours = Hello(identity.public, crypto_scalarmult_base(self._secret))
        self._peer: Hello | None = None
        self._keys: SessionKeys | None = None
        self._reader = StlvReader(self._check_header)
        self._nonces_seen: set[bytes] = set()
        self._nonces_used: set[bytes] = set()
        self._hello_sent = self._auth_sent = self._accepted = self._broken = False
        self._heard = False  # a HAVE or a BAMBOO came
        self._pacer = Pacer() if paced else None
        self._out: deque[memoryview] = deque()  # messages; of the first one, what is left of it
        self._is_cut = False  # the first message in ``_out`` went in part
        if not wait_for_hello:
            self._send_hello()

    # -- receiving ---------------------------------------------------------------------------------------------

    def receive_data(self, data: Buffer, now: float) -> Iterator[Event]:  # noqa: ARG002 - only what is sent is timed
        """Take bytes from the peer (``culm.wire.connection``); messages are decoded one by one, as you iterate."""
        if self._broken:
            raise LocalProtocolError("the peer broke the protocol: this connection is over")
        rest = memoryview(data)
        try:
            while True:
                message, rest = self._reader.read(rest)
                if message is None:
                    return
                yield from self._receive(*message)
        except EncodingError as error:
            self._broken = True
            raise RemoteProtocolError(f"malformed message: {error}") from None
        except RemoteProtocolError:
            self._broken = True
            raise

    def _check_header(self, kind: int, length: int) -> None:
        accepted = _ACCEPTED[self.state].get(kind)
        if self.state is State.REPLICATING and not self._auth_sent:
            raise RemoteProtocolError(f"a message of type {kind} before we have proved who we are")
        if accepted is None:
            raise RemoteProtocolError(f"a message of type {kind}, where {self.state.value} was expected")
        most = self.limits.max_message if accepted.most is None else accepted.most
        if not accepted.least <= length <= most:
            raise RemoteProtocolError(
                f"a message of type {kind} with {length} bytes; {accepted.least} to {most} may be"
            )

    def _receive(self, kind: int, value: memoryview) -> Iterator[Event]:
        after = _ACCEPTED[self.state][kind].after
        if kind == HELLO:
            event: Event = self._receive_hello(bytes(value))
        else:
            nonce = bytes(value[:NONCE_BYTES])
            plaintext = self._open(value)
            if kind == AUTH:
                event = self._receive_auth(bytes(plaintext), nonce)
            elif kind == HAVE:
                event = HaveReceived(messages.decode_have(plaintext, self.limits))
                self._heard = True
            elif kind == WANT:
                event = WantReceived(messages.decode_want(plaintext, self.limits))
            else:
                event = BambooReceived(self._entries(plaintext), len(value))
                self._heard = True
        self.state = after
        yield event

    def _receive_hello(self, value: bytes) -> Event:
        peer = handshake.unpack_hello(value, self._clump, self._dialect)
        if peer.public == self._ours.public or peer.ephemeral == self._ours.ephemeral:
            raise RemoteProtocolError("the peer claims to be ourselves")
        self._peer = peer
        self._keys = handshake.derive_keys(self._identity, self._secret, peer)
        if not self._ask_first:
            self.accept()
        return PeerIdentified(peer.public)

    def _receive_auth(self, signature: bytes, nonce: bytes) -> Event:
        peer = self._known_peer
        handshake.check_auth(signature, self._clump, self._session_keys, peer)
        self.is_culm = self._mark and nonce[16:] == handshake.mark(nonce[:16], peer.ephemeral)
        if self._accepted:
            self._send_auth()
        return Authenticated(peer.public, self.is_culm)

    def _open(self, value: memoryview) -> memoryview:
        nonce = bytes(value[:NONCE_BYTES])
        if nonce in self._nonces_seen:
            raise RemoteProtocolError("a nonce came twice: a replayed message")
        if len(self._nonces_seen) >= self.limits.max_boxes:
            raise RemoteProtocolError(f"more than {self.limits.max_boxes} messages in one connection")
        plaintext = open_box(value, self._session_keys.receive, odd_counter=self._odd_counter)
        self._nonces_seen.add(nonce)
        return plaintext

    def _entries(self, plaintext: memoryview) -> Iterator[tuple[Entry, memoryview]]:
        try:
            yield from messages.decode_bamboo(plaintext, self.limits)
        except EncodingError as error:
            self._broken = True
            raise RemoteProtocolError(f"malformed message: {error}") from None

    # -- sending -----------------------------------------------------------------------------------------------

    def data_to_send(self, limit: int = UNLIMITED) -> bytes:
        """Take at most ``limit`` bytes for the peer, as far as the pace allows; call ``next_timer`` afterwards."""
        pacer = None if self.is_culm else self._pacer
        parts: list[memoryview] = []
        size = 0
        while self._out and size < limit:
            if pacer is not None and not self._is_cut:
                if not pacer.left:
                    break
                pacer.hand_out()
            part = self._out[0][: limit - size]
            parts.append(part)
            size += len(part)
            self._is_cut = len(part) < len(self._out[0])
            if self._is_cut:
                self._out[0] = self._out[0][len(part) :]
            else:
                self._out.popleft()
        return b"".join(parts)

    @property
    def has_more(self) -> bool:
        """False: one message is the most that is held."""
        return False

    def next_timer(self) -> float | None:
        """When the pace allows more, or has to be told the time (``paced``); else None."""
        if self._pacer is None or self.is_culm:
            return None
        return self._pacer.next_call(waits=bool(self._out))

    def handle_timer(self, now: float) -> tuple[Event, ...]:
        """Tell the pace what time it is; makes no events."""
        if self._pacer is not None:
            self._pacer.tell(now)
        return ()

    def keep_alive(self) -> None:
        """Queue a message without content. ``LocalProtocolError`` before the handshake is over.

        It is a BAMBOO without entries for a Culm node, because an empty WANT tells that one that we lack nothing, and
        for a peer that has said nothing yet; otherwise an empty WANT.
        """
        if self.is_culm or not self._heard:
            self.start_bamboo([]).send()
        else:
            self.send_want([])

    def accept(self) -> None:
        """Go on with a peer that was identified (see ``ask_first``)."""
        if self._broken:
            raise LocalProtocolError("the peer broke the protocol: this connection is over")
        _ = self._known_peer
        self._accepted = True
        self._send_hello()
        if not self._wait_for_auth or self.state is State.REPLICATING:
            self._send_auth()

    def send_have(self, items: Iterable[HaveItem]) -> int:
        """Announce logs, in as many messages as it takes; their number. An empty list is one message, too."""
        encoded = [messages.encode_have_item(item) for item in items]
        return self._send_lists(HAVE, encoded, self.limits.max_have_items)

    def send_want(self, items: Iterable[WantItem]) -> int:
        """Ask for logs, in as many messages as it takes; their number. An empty list is one message, too."""
        encoded = [messages.encode_want_item(item) for item in items]
        return self._send_lists(WANT, encoded, self.limits.max_want_items)

    def _send_lists(self, kind: int, items: Iterable[bytes], most: int) -> int:
        self._check_replicating()
        arrays = messages.encode_lists(items, MAX_LIST_BYTES if self.is_culm else MAX_PLAINTEXT, most)
        for array in arrays:
            self._send_box(kind, array)
        return len(arrays)

    def start_bamboo(self, item_sizes: Sequence[int]) -> BambooWriter:
        """Begin a BAMBOO message with items of these sizes (in bytes, none empty); write them, then call ``send``."""
        self._check_replicating()
        if not all(item_sizes):
            raise LocalProtocolError("an item is at least one entry")
        size = messages.bamboo_size(item_sizes)
        if size + OVERHEAD > self.limits.max_message:
            raise LocalProtocolError(f"a message of {size} bytes; the limit is {self.limits.max_message}")
        return BambooWriter(item_sizes, self._dialect, self._seal_and_queue)

    def can_send(self, item_size: int) -> bool:
        """Whether one item of this size fits a message."""
        return messages.bamboo_size([item_size]) + OVERHEAD <= self.limits.max_message

    @property
    def replicating(self) -> bool:
        """Whether both sides have proved who they are, so that HAVE, WANT and BAMBOO may be sent."""
        return self.state is State.REPLICATING and self._auth_sent and not self._broken

    @property
    def unfinished(self) -> int:
        """Bytes of a message of the peer that has begun to come."""
        return self._reader.held

    def close(self) -> None:
        """The connection is over: what had come of a message is let go, and nothing is read any more."""
        self._broken = True
        self._reader.clear()

    @property
    def boxes_left(self) -> int:
        """How many more messages this connection can send before it has to be made anew."""
        return self.limits.max_boxes - len(self._nonces_used)

    @property
    def boxes_received(self) -> int:
        """How many messages the peer has sent in boxes."""
        return len(self._nonces_seen)

    @property
    def _odd_counter(self) -> bool:
        return self._dialect is Dialect.DEPLOYED and not self.is_culm

    @property
    def _known_peer(self) -> Hello:
        if self._peer is None:
            raise LocalProtocolError("the peer has not said who it is")
        return self._peer

    @property
    def _session_keys(self) -> SessionKeys:
        if self._keys is None:
            raise LocalProtocolError("the peer has not said who it is")
        return self._keys

    def _check_replicating(self) -> None:
        if not self.replicating:
            raise LocalProtocolError("the handshake is not over")

    def _send_hello(self) -> None:
        if not self._hello_sent:
            self._hello_sent = True
            hello = handshake.pack_hello(self._ours, self._clump, self._dialect)
            self._out.append(memoryview(encode_header(HELLO, HELLO_BYTES) + hello))

    def _send_auth(self) -> None:
        if self._auth_sent:
            return
        self._auth_sent = True
        nonce = self._random(NONCE_BYTES)
        if self._mark:
            nonce = nonce[:16] + handshake.mark(nonce[:16], self._ours.ephemeral)
        self._send_box(AUTH, handshake.make_auth(self._identity, self._clump, self._session_keys), nonce)

    def _send_box(self, kind: int, plaintext: bytes, nonce: bytes | None = None) -> None:
        message = bytearray(encode_header(kind, OVERHEAD + len(plaintext)))
        start = len(message)
        message += bytes(OVERHEAD)
        message += plaintext
        self._seal(memoryview(message)[start:], nonce)
        self._out.append(memoryview(message))

    def _seal_and_queue(self, message: bytearray, start: int) -> None:
        self._seal(memoryview(message)[start:], None)
        self._out.append(memoryview(message))

    def _seal(self, box: memoryview, nonce: bytes | None) -> None:
        if nonce is None:
            nonce = self._random(NONCE_BYTES)
        if nonce in self._nonces_used or self.boxes_left <= 0:
            raise LocalProtocolError("this connection has sent all the messages it can: make a new one")
        self._nonces_used.add(nonce)
        seal(box, self._session_keys.send, nonce, odd_counter=self._odd_counter)


class BambooWriter:
    """Puts a BAMBOO message together in one buffer, which is then sealed in place."""

    def __init__(
        self, item_sizes: Sequence[int], dialect: Dialect, seal_and_queue: Callable[[bytearray, int], None]
    ) -> None:
        size = messages.bamboo_size(item_sizes)
        self._queue = seal_and_queue
        self._dialect = dialect
        self._sizes = iter(item_sizes)
        self._left = 0
        self._message = bytearray(encode_header(BAMBOO, OVERHEAD + size))
        self._start = len(self._message)
        self._end = self._start + OVERHEAD + size
        self._sent = False
        self._message += bytes(OVERHEAD)
        messages.push_bamboo_head(self._message, len(item_sizes))

    def write(self, piece: Buffer) -> None:
        """The next bytes of the item that is under way, or of the next one."""
        if not piece:
            return
        if not self._left:
            self._left = next(self._sizes, 0)
            messages.push_item_head(self._message, self._left, self._dialect)
        if len(piece) > self._left:
            raise LocalProtocolError("an item is larger than was announced")
        self._message += piece
        self._left -= len(piece)

    def send(self) -> None:
        """All items are written: seal the message and queue it."""
        if self._sent:
            raise LocalProtocolError("this message was sent already")
        if self._left or len(self._message) != self._end:
            raise LocalProtocolError("an item is smaller than was announced")
        self._sent = True
        self._queue(self._message, self._start)
