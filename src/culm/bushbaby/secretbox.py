"""Nonce boxes, sealed and opened in place (docs/specs/bushbaby.md, "Nonce boxes").

A nonce box is a nonce (24 bytes), a Poly1305 tag (16) and the ciphertext: NaCl's secretbox with its nonce in front. A
box can be as large as a payload, so it is never copied: the caller lays out one buffer, and plaintext and ciphertext
take each other's place in it. libsodium allows that.

Departure, in the ``deployed`` dialect only: beyond 16,352 bytes of plaintext the deployed peer's keystream is not the
standard one (see ``culm.bushbaby.salsa_tail``), while its tag is a standard tag over the ciphertext it sends. libsodium
makes and checks that tag, and encrypts the head. Two facts make this simple. XORing with a keystream is its own
inverse, so one function turns plaintext to ciphertext and back. And encrypting twice in place gives back the bytes one
had, the second time with the tag over exactly those bytes.
"""

from nacl._sodium import ffi, lib

from culm.bushbaby.limits import MAX_PLAINTEXT
from culm.errors import RemoteProtocolError

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
    start = ffi.from_buffer("unsigned char[]", box, require_writable=True)
    tag, text = start + NONCE_BYTES, start + OVERHEAD
    if lib.crypto_secretbox_easy(tag, text, len(box) - OVERHEAD, nonce, key) != 0:
        raise AssertionError("libsodium refused to encrypt")


def _check_or_decrypt(box: memoryview, key: bytes, nonce: bytes, *, decrypt: bool) -> None:
    start = ffi.from_buffer("unsigned char[]", box, require_writable=True)
    tag, text = start + NONCE_BYTES, start + OVERHEAD
    # Without a place to decrypt to libsodium only checks the tag.
    target = text if decrypt else ffi.NULL
    if lib.crypto_secretbox_open_easy(target, tag, len(box) - NONCE_BYTES, nonce, key) != 0:
        raise RemoteProtocolError("the peer sent a box that is not sealed with the session's key")
