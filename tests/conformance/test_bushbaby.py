"""Each check of Bushbaby peers fails against a peer that is wrong just there, so no check can always pass.

What is in the boxes is written by hand. That the checks pass against a peer that is right shows
``tests/cli/wire/test_check``. Specification: docs/specs/bushbaby.md.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import pytest
from nacl.bindings import crypto_scalarmult_base

from culm.bamboo import Identity, yamf_hash
from culm.bamboo.base62 import encode_base62
from culm.bushbaby import Dialect
from culm.bushbaby.handshake import Hello, derive_keys, make_auth, pack_hello
from culm.bushbaby.secretbox import seal
from culm.conformance import Outcome, Refused
from tests.conformance.scripted import CLOSES, LOG, Script, breaking, made, polite

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = bytes([9]) * 32
PEER = Identity(bytes([8]) * 32)
HAVE, WANT, BAMBOO = 5, 6, 8


class Peer:
    """A line to a peer that goes through the handshake, and then says what it is given, in boxes.

    ``hello`` and ``signature`` change what it says of itself. ``closes``: at last it ends the connection.
    ``one_nonce``: all of its boxes have the same.
    """

    def __init__(
        self,
        *boxes: tuple[int, bytes],
        hello: Callable[[bytes], bytes] = lambda hello: hello,
        signature: Callable[[bytes], bytes] = lambda signature: signature,
        closes: bool = False,
        one_nonce: bool = False,
        dialect: Dialect = Dialect.DEPLOYED,
    ) -> None:
        self._boxes, self._closes, self._one_nonce, self._dialect = boxes, closes, one_nonce, dialect
        self._hello, self._signature = hello, signature
        self._sent = bytearray()
        self._said = bytearray()
        self._nonces = 0
        self._stage = 0

    async def send(self, data: bytes) -> None:
        """Take bytes: HELLO is answered with HELLO, AUTH with AUTH and all that there is to say."""
        self._sent += data
        if self._stage == 0 and len(self._sent) >= 98:
            self._stage = 1
            self._said += self.hello()
        if self._stage == 1 and len(self._sent) >= 98 + 106:
            self._stage = 2
            theirs = Hello(bytes(self._sent[2:34]), bytes(self._sent[34:66]))
            keys = derive_keys(PEER, SECRET, theirs)
            self._box(2, self._signature(make_auth(PEER, b"Quagga", keys)), keys.send)
            for kind, content in self._boxes:
                self._box(kind, content, keys.send)

    def hello(self) -> bytes:
        """The HELLO of the peer."""
        ours = Hello(PEER.public, crypto_scalarmult_base(SECRET))
        return b"\x01\x60" + self._hello(pack_hello(ours, b"Quagga", self._dialect))

    def _box(self, kind: int, content: bytes, key: bytes) -> None:
        box = bytearray(40) + content
        self._nonces += not self._one_nonce
        seal(memoryview(box), key, bytes([self._nonces]) * 24, odd_counter=True)
        length = bytes([len(box)]) if len(box) < 248 else b"\xf9" + len(box).to_bytes(2, "big")
        self._said += bytes([kind]) + length + box

    async def read(self) -> bytes | None:
        """What the peer said and nobody has read."""
        said, self._said = bytes(self._said), bytearray()
        if said or self._stage < 2:
            return said or None
        return b"" if self._closes else None

    def be_patient(self) -> None:
        """A script has no clock."""


def listed(*items: bytes) -> bytes:
    """A CBOR array."""
    return bytes([0x80 + len(items)]) + b"".join(items)


def author(identity: Identity) -> bytes:
    """An author in CBOR."""
    return b"\x78\x2b" + encode_base62(identity.public)


def entries(*seqs: int, major: int = 3) -> tuple[int, bytes]:
    """A BAMBOO of entries of the log, each an item of its own."""
    items = [LOG.entries[seq - 1].encoded + LOG.payloads[LOG.entries[seq - 1].hash] for seq in seqs]
    return BAMBOO, listed(*(string(item, major) for item in items))


def string(content: bytes, major: int = 3) -> bytes:
    """A CBOR string: 3 is a text string, 2 a byte string."""
    size = len(content)
    return (bytes([major << 5 | 24, size]) if size < 256 else bytes([major << 5 | 25, size >> 8, size & 255])) + content


STRANGER = Identity(bytes([7]) * 32)  # The author that a check makes up: the random bytes of the tests are all 7.
FOREIGN = STRANGER.create_entry(
    log_id=0, seq=1, backlink=None, lipmaalink=None, size=0, payload_hash=yamf_hash(b""), is_end=False
)
WRONG: dict[str, Peer] = {
    "HELLO": Peer(hello=lambda hello: hello[:-1] + b"\0"),
    "AUTH": Peer(signature=lambda signature: signature[:-1] + b"\0"),
    "byte by byte": Peer(closes=True),
    "HAVE": Peer((HAVE, listed(listed(author(LOG.identity), b"\0")))),
    "WANT": Peer((WANT, listed(listed(author(STRANGER), b"\0", b"\1", b"\6")))),
    "empty lists": Peer(closes=True),
    "unknown log": Peer((BAMBOO, listed(string(FOREIGN.encoded)))),
    "unasked BAMBOO": Peer(closes=True),
    "WANT of an author": Peer(entries(2, 1, 3, 4, 5)),
    "WANT of a log": Peer(entries(1, 2), entries(4, 5)),
    "WANT of a span": Peer(entries(2, 3, 4)),
    "WANT of a pool": Peer(entries(1, 5)),
    "strings": Peer(entries(1, major=2)),
}


def result_of(item: str, peer: Peer, **subject: object) -> tuple[Outcome, str]:
    """How a check ends, and why."""
    result = made("bushbaby", item, deepcopy(peer), **subject)
    return result.outcome, result.reason


def test_each_check_has_a_peer_that_is_wrong() -> None:
    """The table has every check that keeps to the protocol."""
    assert {*polite("bushbaby")} == {*WRONG}
    assert len(polite("bushbaby")) + len(breaking("bushbaby")) >= 30


@pytest.mark.parametrize("item", WRONG)
def test_a_wrong_peer_fails(item: str) -> None:
    """A peer that says something wrong fails."""
    outcome, reason = result_of(item, WRONG[item])

    assert Outcome.FAILED is outcome
    assert reason


@pytest.mark.parametrize("item", breaking("bushbaby"))
def test_a_peer_that_puts_up_with_a_violation_fails(item: str) -> None:
    """A peer that does not hang up after a violation fails."""
    assert (Outcome.FAILED, "the connection stays open") == result_of(item, Peer())


@pytest.mark.parametrize(
    ("item", "peer", "reason"),
    [
        ("HELLO", Peer(hello=lambda hello: hello[:64] + bytes(32)), "another clump"),
        ("HAVE", Peer((HAVE, listed(listed(author(LOG.identity), b"\0", b"\4")))), "a newest entry 4"),
        ("HAVE", Peer((HAVE, b"\x80"), (HAVE, b"\x80"), one_nonce=True), "second time"),
        ("HAVE", Peer((7, b"\x80")), "type 7"),
        ("WANT of a log", Peer((BAMBOO, listed(b"\x63abc"))), "a malformed message"),
        ("WANT of a span", Peer(entries(2)), "entries [2]"),
        ("WANT of a pool", Peer(entries(1, 5, 4)), "entries [1, 5, 4]"),
        ("strings", Peer(), "silence"),
    ],
)
def test_what_is_wrong_is_said(item: str, peer: Peer, reason: str) -> None:
    """The report names what came."""
    outcome, said = result_of(item, peer)

    assert Outcome.FAILED is outcome
    assert reason in said


def test_a_pool_in_the_other_dialect() -> None:
    """The deployed peer may send the rest of the log up to n, and members of the pool above; by the document none."""
    for numbers in (1, 4, 5), (1, 2, 3, 4, 5):
        dialect = Dialect.DOCUMENT
        by_document = result_of("WANT of a pool", Peer(entries(*numbers, major=2), dialect=dialect), dialect=dialect)

        assert Outcome.PASSED is result_of("WANT of a pool", Peer(entries(*numbers)))[0]
        assert (len(numbers) == 3) == (by_document[0] is Outcome.PASSED)


@pytest.mark.parametrize("answers", [(CLOSES,), (b"-", Peer().hello(), CLOSES)], ids=["at once", "behind its HELLO"])
def test_a_peer_that_refuses_us(answers: tuple[bytes | None, ...]) -> None:
    """A peer that hangs up before both HELLO and AUTH have come decides nothing."""
    with pytest.raises(Refused):
        made("bushbaby", "WANT", Script(*answers))


@pytest.mark.parametrize("item", ["HAVE", "WANT"])
def test_a_silent_peer_is_not_judged(item: str) -> None:
    """A peer may announce nothing and want nothing."""
    outcome, reason = result_of(item, Peer())

    assert Outcome.SKIPPED is outcome
    assert "may" in reason
