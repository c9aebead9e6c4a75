"""The boxes of one connection: sealing and opening, and the rule that a nonce is used once.

A box that is sent twice would be accepted twice, because nothing in it says which message it is; and two boxes sealed
with one nonce show their difference to anyone who listens. So both sides remember every nonce of the connection. That
memory is what ``Limits.max_boxes`` bounds: when it is full, the connection has to be made anew.
"""

from collections.abc import Callable

from culm.bushbaby.handshake import SessionKeys
from culm.bushbaby.secretbox import NONCE_BYTES, open_box, seal
from culm.errors import LocalProtocolError, RemoteProtocolError


class Boxes:
    """Seals what goes out and opens what comes. ``odd_counter``: with the deployed peer's cipher for large boxes.

    ``keys`` is None until the peer's HELLO came. ``most``: boxes in either direction.
    """

    def __init__(self, most: int, random_bytes: Callable[[int], bytes], *, odd_counter: bool) -> None:
        self.keys: SessionKeys | None = None
        self.odd_counter = odd_counter
        self._most = most
        self._random = random_bytes
        self._seen: set[bytes] = set()
        self._used: set[bytes] = set()

    @property
    def session_keys(self) -> SessionKeys:
        """The keys; ``LocalProtocolError`` before the peer's HELLO came."""
        if self.keys is None:
            raise LocalProtocolError("the peer has not sent its HELLO yet")
        return self.keys

    @property
    def left(self) -> int:
        """How many more boxes can be sealed."""
        return self._most - len(self._used)

    @property
    def received(self) -> int:
        """How many boxes came."""
        return len(self._seen)

    def nonce(self) -> bytes:
        """A new nonce (24 bytes)."""
        return self._random(NONCE_BYTES)

    def open(self, box: memoryview) -> memoryview:
        """The plaintext of a box, decrypted in place; ``RemoteProtocolError`` if it is forged, or came before."""
        nonce = bytes(box[:NONCE_BYTES])
        if nonce in self._seen:
            raise RemoteProtocolError("the peer used a nonce twice: the message is a replay")
        if len(self._seen) >= self._most:
            raise RemoteProtocolError(f"the peer sent more than {self._most} messages in one connection")
        plaintext = open_box(box, self.session_keys.receive, odd_counter=self.odd_counter)
        self._seen.add(nonce)
        return plaintext

    def seal(self, box: memoryview, nonce: bytes | None = None) -> None:
        """Seal a box in place. ``LocalProtocolError`` if this connection has sent all the boxes it can."""
        if nonce is None:
            nonce = self.nonce()
        if nonce in self._used or self.left <= 0:
            raise LocalProtocolError("this connection has sent all the messages it can: make a new one")
        self._used.add(nonce)
        seal(box, self.session_keys.send, nonce, odd_counter=self.odd_counter)
