"""Checks of peers that speak Bushbaby, in one of its two dialects.

No message of Bushbaby is the answer to another one, and a peer may choose to share nothing and to want nothing. So a
check whose occasion is up to the peer is skipped when the peer is silent. The handshake and the boxes are made by
Culm's own code, because a peer that differs there cannot be talked to at all. What is in the boxes is written by hand.

Specification: docs/specs/bushbaby.md; the sections that checks name without a page are those of the document.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile

from nacl.bindings import crypto_scalarmult_base

from culm.bamboo import Entry, Identity, certificate_pool, decode_varu64, encode_varu64, path, yamf_hash
from culm.bamboo.base62 import encode_base62
from culm.bushbaby import Dialect, Limits
from culm.bushbaby.handshake import (
    HELLO_BYTES,
    Hello,
    SessionKeys,
    check_auth,
    clump_mac,
    derive_keys,
    make_auth,
    unpack_hello,
)
from culm.bushbaby.messages import (
    AUTH,
    BAMBOO,
    HAVE,
    HELLO,
    WANT,
    decode_bamboo,
    decode_have,
    decode_want,
)
from culm.bushbaby.secretbox import NONCE_BYTES, OVERHEAD, open_box, seal
from culm.conformance.check import (
    MOST_BYTES,
    SURVEYED,
    Differs,
    Line,
    Listing,
    NotDecided,
    Refused,
    Subject,
    Suite,
    Talk,
    check_entry,
    check_payload,
    rows,
)
from culm.errors import EncodingError, RemoteProtocolError, Truncated
from culm.types import Log
from culm.wire import cbor

_AUTH_BYTES = OVERHEAD + 64


class BushbabyTalk(Talk):
    """A conversation in Bushbaby. ``peer``: the keys of its HELLO; ``keys``: those of the boxes."""

    def __init__(self, line: Line, subject: Subject) -> None:
        super().__init__(line, subject)
        self.identity = subject.identity or Identity(subject.random_bytes(32))
        self.secret = subject.random_bytes(32)
        self.peer: Hello | None = None
        self._keys: SessionKeys | None = None
        self._nonces: set[bytes] = set()

    # -- what we send ----------------------------------------------------------------------------------------------

    def hello(self, clump: bytes | None = None) -> bytes:
        """Our HELLO, with the MAC of a clump (default: the right one)."""
        ephemeral = crypto_scalarmult_base(self.secret)
        mac = clump_mac(self.subject.clump if clump is None else clump, ephemeral, self.subject.dialect)
        return bytes.fromhex("01 60") + self.identity.public + ephemeral + mac

    @property
    def keys(self) -> SessionKeys:
        """The keys of the boxes."""
        if self._keys is None:
            if self.peer is None:
                raise Differs(self.silence(), "a HELLO")
            try:
                self._keys = derive_keys(self.identity, self.secret, self.peer)
            except RemoteProtocolError as error:
                raise Differs(str(error), "keys that can be used") from None
        return self._keys

    def box(self, kind: int, content: bytes, nonce: bytes | None = None) -> bytes:
        """A message with content in a nonce box; ``nonce``: instead of a random one."""
        box = bytearray(OVERHEAD) + content
        odd = self.subject.dialect is Dialect.DEPLOYED
        seal(memoryview(box), self.keys.send, nonce or self.subject.random_bytes(NONCE_BYTES), odd_counter=odd)
        return encode_varu64(kind) + encode_varu64(len(box)) + bytes(box)

    def auth(self) -> bytes:
        """Our AUTH."""
        return self.box(AUTH, make_auth(self.identity, self.subject.clump, self.keys))

    def string(self, content: bytes) -> bytes:
        """A CBOR string of the kind that the dialect has for entries."""
        out = bytearray()
        cbor.push_string(out, content, as_text=self.subject.dialect is Dialect.DEPLOYED)
        return bytes(out)

    def want(self, *numbers: int, log: Log | None = None) -> bytes:
        """A WANT of one request: the author of the log, and so many numbers behind it."""
        author = (log or self.subject.held)[0]
        return self.box(WANT, _list([_author(author), *map(_number, numbers)]))

    # -- what the peer sends ---------------------------------------------------------------------------------------

    async def message(self) -> tuple[int, bytes] | None:
        """The type and the value of the next message; None if none comes."""
        while True:
            try:
                kind, at = decode_varu64(self.unread)
                size, at = decode_varu64(self.unread, at)
                end = at + size
            except Truncated:
                kind = at = end = MOST_BYTES
            except EncodingError as error:
                raise Differs(f"a malformed header: {error}", "canonical types and lengths") from None
            if len(self.unread) >= end:
                value = bytes(self.unread[at:end])
                del self.unread[:end]
                self.line.be_patient()
                return kind, value
            if not await self.more():
                return None

    async def _greeting(self, kind: int, size: int, what: str) -> bytes:
        """Expect a message of the handshake. A peer that hangs up instead may be one that refuses us now."""
        found = await self.message()
        if found is None and self.is_closed:
            raise Refused
        if found is None or (found[0], len(found[1])) != (kind, size):
            raise Differs(self.silence() if found is None else f"a message {found[0]} of {len(found[1])} bytes", what)
        return found[1]

    async def expect_hello(self) -> None:
        """Expect a HELLO of our clump and dialect."""
        value = await self._greeting(HELLO, HELLO_BYTES, "a HELLO")
        try:
            self.peer, dialect = unpack_hello(value, self.subject.clump)
        except RemoteProtocolError as error:
            raise Differs(str(error), "a HELLO of our clump") from None
        if dialect is not self.subject.dialect:
            raise Differs(f"a HELLO of the {dialect.value} dialect", f"one of the {self.subject.dialect.value} dialect")

    async def expect_auth(self) -> None:
        """Expect an AUTH that proves who the peer is."""
        value = await self._greeting(AUTH, _AUTH_BYTES, "an AUTH")
        try:
            check_auth(self._open(value), self.subject.clump, self.keys)
        except RemoteProtocolError as error:
            raise Differs(str(error), "a signature over the clump and the key by which the peer receives") from None

    def _open(self, value: bytes) -> bytes:
        box = bytearray(value)
        nonce = value[:NONCE_BYTES]
        if nonce in self._nonces:
            raise Differs("a nonce for the second time", "a fresh nonce in each box")
        self._nonces.add(nonce)
        try:
            odd = self.subject.dialect is Dialect.DEPLOYED
            return bytes(open_box(memoryview(box), self.keys.receive, odd_counter=odd))
        except RemoteProtocolError as error:
            raise Differs(str(error), "a box under the key of the connection") from None

    async def meet(self) -> None:
        """Go through the handshake."""
        await self.send(self.auth())
        await self.expect_auth()

    async def told(self) -> tuple[int, memoryview] | None:
        """The next HAVE, WANT or BAMBOO, opened; None if none comes."""
        found = await self.message()
        if found is None:
            return None
        if found[0] not in (HAVE, WANT, BAMBOO):
            raise Differs(f"a message of type {found[0]}", "HAVE, WANT or BAMBOO")
        return found[0], memoryview(self._open(found[1]))

    async def entries(self, enough: int = 0) -> list[tuple[Entry, bytes]]:
        """The entries of our log that come, each signed, with its payload.

        Each counts once: nothing forbids to send an entry again, and Culm does so behind an empty payload. ``enough``:
        wait for so many; 0: until the peer is silent.
        """
        found: dict[Entry, bytes] = {}
        while (not enough or len(found) < enough) and (told := await self.told()) is not None:
            if told[0] != BAMBOO:
                continue
            with _decoding("a BAMBOO of entries with their payloads"):
                for entry, payload in decode_bamboo(told[1], Limits()):
                    check_entry(entry, f"entry {entry.seq}")
                    check_payload(entry, bytes(payload))
                    if entry.log == self.subject.log:
                        found.setdefault(entry, bytes(payload))
        return list(found.items())

    async def alive(self) -> None:
        """Expect that the connection stays open."""
        while await self.message() is not None:
            pass
        if self.is_closed:
            raise Differs("the peer ended the connection", "an open connection")


@contextmanager
def _decoding(expected: str) -> Iterator[None]:
    """Turn a malformed message into a difference."""
    try:
        yield
    except EncodingError as error:
        raise Differs(f"a malformed message: {error}", expected) from None


# -- CBOR by hand --------------------------------------------------------------------------------------------------


def _number(number: int) -> bytes:
    if number < 24:
        return bytes((number,))
    return bytes((0x18, number)) if number < 256 else b"\x1b" + number.to_bytes(8, "big")


def _author(key: bytes) -> bytes:
    return b"\x78\x2b" + encode_base62(key)


def _list(values: Sequence[bytes]) -> bytes:
    """An array of one array of values."""
    return bytes((0x81, 0x80 | len(values))) + b"".join(values)


async def _begin(talk: BushbabyTalk, opening: bytes | None) -> None:
    """Greet first, because the peer may wait for us, and expect its HELLO. An opening is all that is sent."""
    await talk.send(talk.hello() if opening is None else opening)
    if opening is None:
        await talk.expect_hello()


async def _survey(talk: BushbabyTalk) -> Sequence[tuple[Entry, bytes]]:
    """Ask for the first entries, and keep those from 1 on without a gap, up to one that is too large."""
    with suppress(Differs):
        await talk.meet()
        await talk.send(talk.want(talk.subject.held[1], 1, SURVEYED))
        found = {entry.seq: (entry, payload) for entry, payload in await talk.entries(SURVEYED)}
        return [found[seq] for seq in takewhile(found.__contains__, range(1, SURVEYED + 1))]
    return ()


_CHECKS: Listing[BushbabyTalk] = Listing()


# -- without a log -------------------------------------------------------------------------------------------------


@_CHECKS("HELLO", "Type 1 message")
async def _hello(talk: BushbabyTalk) -> None:
    """The peer sends its keys, with the MAC of our clump."""


@_CHECKS("AUTH", "Type 2 message")
async def _auth(talk: BushbabyTalk) -> None:
    """The peer proves who it is, in a box under the key of the connection."""
    await talk.meet()


@_CHECKS("byte by byte", "STLV", opening=lambda _: b"")
async def _byte_by_byte(talk: BushbabyTalk) -> None:
    """Messages come in any pieces: here one byte at a time."""
    await talk.send_slowly(talk.hello())
    await talk.expect_hello()
    await talk.send_slowly(talk.auth())
    await talk.expect_auth()
    await talk.alive()


@_CHECKS("HAVE", "Type 5")
async def _have(talk: BushbabyTalk) -> None:
    """HAVE is an array of author, log id and newest number."""
    await talk.meet()
    while (told := await talk.told()) is not None and told[0] != HAVE:
        pass
    if told is None:
        raise NotDecided("the peer announces nothing, as it may")
    with _decoding("an array of author, log id and number"):
        items = decode_have(told[1], Limits())
    log = next((item for item in items if (item.author, item.log_id) == talk.subject.log), None)
    if log is not None and log.newest < len(talk.subject.entries):
        raise Differs(f"a newest entry {log.newest}", f"at least {len(talk.subject.entries)}, which the peer has sent")


@_CHECKS("WANT", "Type 6")
async def _wants(talk: BushbabyTalk) -> None:
    """A HAVE of a new log is answered by a WANT of a part of it."""
    author = Identity(talk.subject.random_bytes(32)).public
    await talk.meet()
    await talk.send(talk.box(HAVE, _list([_author(author), b"\x00", b"\x05"])))
    while (told := await talk.told()) is not None:
        if told[0] != WANT:
            continue
        with _decoding("an array of requests, each with 1 to 4 values"):
            items = [item for item in decode_want(told[1], Limits()) if item.author == author]
        for item in items:
            if item.log_id or (item.high or item.pool or 0) > 5:
                raise Differs(f"a WANT of {item}", "a WANT of what was announced")
        if items:
            return
    if talk.is_closed:
        raise Differs(talk.silence(), "a WANT, or silence")
    raise NotDecided("the peer does not want a log of an author it does not know, as it may")


@_CHECKS("empty lists", "Type 5; Type 6; Type 8")
async def _empty(talk: BushbabyTalk) -> None:
    """HAVE, WANT and BAMBOO of nothing are valid."""
    await talk.meet()
    for kind in (HAVE, WANT, BAMBOO):
        await talk.send(talk.box(kind, b"\x80"))
    await talk.alive()


@_CHECKS("unknown log", "Replication")
async def _unknown_log(talk: BushbabyTalk) -> None:
    """A WANT of a log that the peer does not hold brings no entries of it."""
    author = Identity(talk.subject.random_bytes(32)).public
    await talk.meet()
    await talk.send(talk.want(0, 1, 5, log=(author, 0)))
    while (told := await talk.told()) is not None:
        if told[0] == BAMBOO:
            with _decoding("a BAMBOO of entries with their payloads"):
                if any(entry.author == author for entry, _ in decode_bamboo(told[1], Limits())):
                    raise Differs("entries of a log that does not exist", "none")
    await talk.alive()


@_CHECKS("unasked BAMBOO", "Peering Notes")
async def _unasked(talk: BushbabyTalk) -> None:
    """Entries that nobody asked for do not end the connection."""
    payload = b"culm wire check"
    author = Identity(talk.subject.random_bytes(32))
    entry = author.create_entry(
        log_id=0,
        seq=1,
        backlink=None,
        lipmaalink=None,
        size=len(payload),
        payload_hash=yamf_hash(payload),
        is_end=False,
    )
    await talk.meet()
    await talk.send(talk.box(BAMBOO, b"\x81" + talk.string(entry.encoded + payload)))
    await talk.alive()


# -- with a log ----------------------------------------------------------------------------------------------------


def _wanting(item: str, claim: str, numbers: Callable[[int], tuple[int, ...]], entries: int, *seqs: int) -> None:
    """Add a check: a WANT brings these entries in ascending order; ``numbers`` are behind the author, by log id.

    Without ``seqs`` it brings the first entries, and perhaps more.
    """

    @_CHECKS(item, "Type 6; Type 8", claim, entries=entries)
    async def run(talk: BushbabyTalk) -> None:
        await talk.meet()
        await talk.send(talk.want(*numbers(talk.subject.held[1])))
        found = [entry.seq for entry, _ in await talk.entries(0 if seqs else len(talk.subject.entries))]
        if found != sorted(found):
            raise Differs(f"entries {found}", "ascending order")
        wanted = list(seqs or range(1, len(talk.subject.entries) + 1))
        if found[: len(wanted)] != wanted or (seqs and len(found) > len(wanted)):
            raise Differs(f"entries {found}", f"entries {wanted}")


_wanting("WANT of an author", "[a] brings all logs of an author.", lambda _: (), 1)
_wanting("WANT of a log", "[a, l] brings the whole log.", lambda log_id: (log_id,), 1)
_wanting("WANT of a span", "[a, l, 2, 3] brings entries 2 and 3.", lambda log_id: (log_id, 2, 3), 3, 2, 3)


@_CHECKS("WANT of a pool", "Type 6", entries=5)
async def _pool(talk: BushbabyTalk) -> None:
    """[a, l, 5] brings the certificate pool from 1 to 5."""
    await talk.meet()
    await talk.send(talk.want(talk.subject.held[1], 5))
    found = [entry.seq for entry, _ in await talk.entries()]
    least = path(5, 1)[::-1]
    most = {*range(1, 6), *certificate_pool(5)} if talk.subject.dialect is Dialect.DEPLOYED else least
    if found != sorted(found) or not set(least) <= set(found) <= set(most):
        raise Differs(f"entries {found}", f"entries {least} in ascending order, and at most {sorted(most)}")


@_CHECKS("strings", "Dialects", entries=1)
async def _strings(talk: BushbabyTalk) -> None:
    """Entries are strings of the kind that the dialect has."""
    await talk.meet()
    await talk.send(talk.want(talk.subject.held[1], 1, 1))
    while (told := await talk.told()) is not None:
        if told[0] == BAMBOO and (size := cbor.pull_array(told[1], 0, most=MOST_BYTES))[0]:
            if talk.string(b"")[0] >> 5 != told[1][size[1]] >> 5:
                raise Differs(f"CBOR of major type {told[1][size[1]] >> 5}", f"major type {talk.string(b'')[0] >> 5}")
            return
    raise Differs(talk.silence(), "entry 1")


# -- violations ----------------------------------------------------------------------------------------------------


def _violation(
    item: str,
    source: str,
    *makes: Callable[[BushbabyTalk], bytes],
    opening: Callable[[BushbabyTalk], bytes] | None = None,
    proved: bool = True,
) -> None:
    """Add a check: the peer has to end the connection that opens so, or after these bytes.

    ``proved``: they come behind both AUTHs, and not right behind the HELLOs.
    """

    @_CHECKS(item, source, f"The connection ends: {item}.", opening=opening, breaks=True)
    async def run(talk: BushbabyTalk) -> None:
        if opening is None and proved:
            await talk.meet()
        for make in makes:
            await talk.send(make(talk))
        await talk.closes()


# An item, where it is written, the type of the message, and what is in its box. KEY stands for an author, and ZEROS for
# 42 digits.
_CONTENTS = """
unknown type | Key Concepts | 7 | 80
HAVE that is cut off | Type 5 | 5 | 82 80
bytes behind a HAVE | Type 5 | 5 | 80 00
HAVE of two values | Type 5 | 5 | 81 82 KEY 00
negative number | Type 5 | 5 | 81 83 KEY 00 20
identity of 42 characters | Type 5; Base62 | 5 | 81 83 78 2a ZEROS 00 05
WANT of five values | Type 6 | 6 | 81 85 KEY 00 01 02 03
WANT of entry 0 | Type 6 | 6 | 81 83 KEY 00 00
WANT from 3 to 2 | Type 6 | 6 | 81 84 KEY 00 03 02
entry that is cut off | Type 8 | 8 | 81 63 00 00 00
"""


def _box(kind: int, content: str) -> Callable[[BushbabyTalk], bytes]:
    data = bytes.fromhex(content.replace("KEY", "78 2b 30 ZEROS").replace("ZEROS", 42 * "30"))
    return lambda talk: talk.box(kind, data)


def _flipped(message: bytes) -> bytes:
    return message[:-1] + bytes((message[-1] ^ 1,))


_violation("second HELLO", "Handshake", BushbabyTalk.hello)
_violation("second AUTH", "Handshake", BushbabyTalk.auth)
_violation("repeated nonce", "Nonce boxes", *2 * (lambda talk: talk.box(HAVE, b"\x80", bytes(NONCE_BYTES)),))
_violation("wrong tag", "Nonce boxes", lambda talk: _flipped(talk.box(HAVE, b"\x80")))
_violation("message of 2^40 bytes", "Key Concepts", lambda _: bytes.fromhex("08 fd 010000000000"))
_violation("type in a longer form", "STLV", lambda _: bytes.fromhex("f8 05 29"))
for _item, _source, _kind, _content in rows(_CONTENTS):
    _violation(_item, _source, _box(int(_kind), _content))
# Before AUTH a peer can blame only our address, and then refuse it. So these come last, behind those for which a peer
# blames the identity of this connection.
_violation("HAVE before AUTH", "Handshake", _box(HAVE, "80"), proved=False)
_violation("AUTH with another signature", "Type 2 message", _box(AUTH, 64 * "00"), proved=False)
_violation("other first message", "Handshake", opening=lambda _: b"\x07\x01\x00")
_violation("HELLO of 95 bytes", "Type 1 message", opening=lambda talk: b"\x01\x5f" + talk.hello()[2:-1])
_violation("HELLO of another clump", "Type 1 message", opening=lambda talk: talk.hello(b"another clump"))


SUITE = Suite(BushbabyTalk, _begin, _survey, tuple(_CHECKS.checks))
