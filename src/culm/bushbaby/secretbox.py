"""Nonce boxes, sealed and opened in place (docs/specs/bushbaby.md, "Nonce boxes").

A nonce box is a nonce (24 bytes), a Poly1305 tag (16) and the ciphertext: NaCl's secretbox with its nonce in front. A
box can be as large as a payload, so it is never copied: the caller lays out one buffer, and plaintext and ciphertext
take each other's place in it. libsodium allows that.

Departure, in the ``deployed`` dialect only: beyond 16,352 bytes of plaintext the deployed peer's keystream is not the
standard one (see ``culm.bushbaby.salsa_tail``), while its tag is a standard tag over the ciphertext it sends. libsodium
makes and checks that tag, and encrypts the head. Two facts make this simple. XORing with a keystream is its own
inverse, so one function turns plaintext to ciphertext and back. And encrypting twice in place gives back the bytes one
had, the second time with the tag over exactly those bytes.

A box that is sent twice would be accepted twice, because nothing in it says which message it is; and two boxes sealed
with one nonce show their difference to anyone who listens. So both sides remember every nonce of the connection
(``Boxes``). That memory is what ``Limits.max_boxes`` bounds: when it is full, the connection has to be made anew.
"""

from typing import Any

from nacl._sodium import ffi, lib

from culm.bushbaby.handshake import SessionKeys
from culm.bushbaby.options import MAX_PLAINTEXT
from culm.errors import LocalProtocolError, RemoteProtocolError

NONCE_BYTES = 24
TAG_BYTES = 16
OVERHEAD = NONCE_BYTES + TAG_BYTES
KEY_BYTES = 32


def seal(box: memoryview, key: bytes, nonce: bytes, *, odd_counter: bool) -> None:
    """Turn ``box`` into a nonce box in place: 40 bytes of room, whatever they hold, then the plaintext.

    ``odd_counter``: use the deployed peer's keystream beyond 16,352 bytes.
    """
    box[:NONCE_BYTES] = nonce
    if odd_counter and len(box) > OVERHEAD + MAX_PLAINTEXT:
        _apply_odd_keystream(box, key, nonce)
        _encrypt(box, key, nonce)
    _encrypt(box, key, nonce)


def open_box(box: memoryview, key: bytes, *, odd_counter: bool) -> memoryview:
    """Check a nonce box and decrypt it in place; return its plaintext, a part of ``box``.

    Raises ``RemoteProtocolError`` if the tag is not right: nothing was decrypted then.
    """
    if len(box) < OVERHEAD:
        raise RemoteProtocolError(f"the peer sent a box of {len(box)} bytes; accepted: {OVERHEAD} or more")
    nonce = bytes(box[:NONCE_BYTES])
    if odd_counter and len(box) > OVERHEAD + MAX_PLAINTEXT:
        _check_or_decrypt(box, key, nonce, decrypt=False)
        _apply_odd_keystream(box, key, nonce)
    else:
        _check_or_decrypt(box, key, nonce, decrypt=True)
    return box[OVERHEAD:]


def _apply_odd_keystream(box: memoryview, key: bytes, nonce: bytes) -> None:
    """XOR everything behind the tag with the deployed peer's keystream; leaves the tag's 16 bytes meaningless."""
    from culm.bushbaby.salsa_tail import xor_tail  # noqa: PLC0415 - numpy is loaded only by those who need it

    _encrypt(box[: OVERHEAD + MAX_PLAINTEXT], key, nonce)
    xor_tail(box[OVERHEAD + MAX_PLAINTEXT :], key, nonce)


def _encrypt(box: memoryview, key: bytes, nonce: bytes) -> None:
    with _lent(box) as start:
        tag, text = start + NONCE_BYTES, start + OVERHEAD
        if lib.crypto_secretbox_easy(tag, text, len(box) - OVERHEAD, nonce, key) != 0:
            raise AssertionError("libsodium refused to encrypt")


def _check_or_decrypt(box: memoryview, key: bytes, nonce: bytes, *, decrypt: bool) -> None:
    with _lent(box) as start:
        tag, text = start + NONCE_BYTES, start + OVERHEAD
        # Without a place to decrypt to libsodium only checks the tag.
        target = text if decrypt else ffi.NULL
        if lib.crypto_secretbox_open_easy(target, tag, len(box) - NONCE_BYTES, nonce, key) != 0:
            raise RemoteProtocolError("the peer sent a box that is not sealed with the session's key")


def _lent(box: memoryview) -> Any:  # noqa: ANN401 - a pointer has no type
    """A pointer to a box, for a ``with`` block, behind which the box is no longer lent.

    A traceback would keep it lent after an error. CPython 3.11 then crashes when the garbage collector comes to the box
    before it comes to the pointer. So a single forged box could end the process.
    """
    return ffi.from_buffer("unsigned char[]", box, require_writable=True)


class Boxes:
    """Seals what goes out and opens what comes. ``odd_counter``: with the deployed peer's cipher for large boxes.

    ``keys`` is None until the peer's HELLO came. ``most``: boxes in either direction.
    """

    def __init__(self, most: int, *, odd_counter: bool) -> None:
        self.keys: SessionKeys | None = None
        self.odd_counter = odd_counter
        self._most = most
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

    def seal(self, box: memoryview, nonce: bytes) -> None:
        """Seal a box in place. ``LocalProtocolError`` if this connection has sent all the boxes it can."""
        if nonce in self._used or self.left <= 0:
            raise LocalProtocolError("this connection has sent all the messages it can: make a new one")
        self._used.add(nonce)
        seal(box, self.session_keys.send, nonce, odd_counter=self.odd_counter)
