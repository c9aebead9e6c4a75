"""HAVE, WANT, BAMBOO, FORKS: what is in their boxes (docs/specs/bushbaby.md, "HAVE", "WANT", "BAMBOO", "Forks").

Departure, ``deployed`` dialect: entries are written as CBOR text strings, although they are not text. Both kinds of
strings are read in both dialects.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from culm.bamboo import Entry, ForkProof
from culm.bamboo.base62 import BASE62_CHARS, decode_base62, encode_base62
from culm.bamboo.many import entries_followed
from culm.bushbaby.handshake import Dialect
from culm.bushbaby.options import Limits
from culm.bushbaby.secretbox import OVERHEAD
from culm.errors import EncodingError, LocalProtocolError
from culm.types import Buffer
from culm.wire import cbor
from culm.wire.stlv import encode_header

HELLO, AUTH, HAVE, WANT, BAMBOO, FORKS = 1, 2, 5, 6, 8, 200
TIP_BYTES = 8
MAX_FORKS = 64
"""Fork proofs in one message, so that what a message decodes to is bounded."""
_TOGETHER_BYTES = 64 * 1024  # Of a message whose entries are taken apart at once: less than a millisecond's work.
_LEAST_ITEM_BYTES = 128  # No entry is shorter, and thousands of items that are none would take long.

# The same few authors come again and again. Cached here and not in ``base62``, which also reads secrets.
_AUTHORS_CACHED = 4096
_author_text = lru_cache(_AUTHORS_CACHED)(encode_base62)
_author_key = lru_cache(_AUTHORS_CACHED)(decode_base62)


class HaveItem(NamedTuple):
    """A log that the sender holds and shares, up to sequence number ``newest``.

    ``tip`` is the first 8 bytes of that entry's digest, ``fork`` the lowest position of a fork that the sender knows.
    Empty and 0: the sender does not say.
    """

    author: bytes
    log_id: int
    newest: int
    tip: bytes = b""
    fork: int = 0


@dataclass(frozen=True, slots=True)
class WantItem:
    """A request: all logs of an author; one log; the certificate pool of entry ``pool``; or ``low`` to ``high``.

    What is not given is None.
    """

    author: bytes
    log_id: int | None = None
    pool: int | None = None
    low: int | None = None
    high: int | None = None


def encode_have_item(item: HaveItem) -> bytes:
    """One item of a HAVE; ``LocalProtocolError`` if it announces nothing."""
    if item.newest < 1:
        raise LocalProtocolError("a log without entries cannot be announced: its newest entry has number 1 or more")
    out = bytearray()
    is_long = bool(item.tip or item.fork)
    cbor.push_head(out, cbor.ARRAY, 5 if is_long else 3)
    cbor.push_string(out, _author_text(item.author), as_text=True)
    cbor.push_unsigned(out, item.log_id)
    cbor.push_unsigned(out, item.newest)
    if is_long:
        cbor.push_string(out, item.tip, as_text=False)
        cbor.push_unsigned(out, item.fork)
    return bytes(out)


def encode_want_item(item: WantItem) -> bytes:
    """One item of a WANT; ``LocalProtocolError`` if it is none of the four forms."""
    by_span = item.low is not None and item.high is not None
    if (
        (item.low is None) != (item.high is None)
        or (item.log_id is None and (by_span or item.pool is not None))
        or (by_span and item.pool is not None)
        or item.pool == 0
        or (item.low is not None and item.high is not None and not 1 <= item.low <= item.high)
    ):
        raise LocalProtocolError(f"a WANT cannot say this: {item}")
    numbers = [number for number in (item.log_id, item.pool, item.low, item.high) if number is not None]
    out = bytearray()
    cbor.push_head(out, cbor.ARRAY, 1 + len(numbers))
    cbor.push_string(out, _author_text(item.author), as_text=True)
    for number in numbers:
        cbor.push_unsigned(out, number)
    return bytes(out)


def encode_lists(items: Iterable[bytes], most_bytes: int, most_items: int) -> list[tuple[bytes, int]]:
    """Encoded items as arrays of at most so many bytes and items each, with the number of items.

    One empty array if there are none.
    """
    arrays: list[tuple[bytes, int]] = []
    chunk: list[bytes] = []
    size = 0
    for item in items:
        if chunk and (size + len(item) > most_bytes - 9 or len(chunk) >= most_items):
            arrays.append((_array(chunk), len(chunk)))
            chunk, size = [], 0
        chunk.append(item)
        size += len(item)
    if chunk or not arrays:
        arrays.append((_array(chunk), len(chunk)))
    return arrays


def _array(items: Sequence[bytes]) -> bytes:
    out = bytearray()
    cbor.push_head(out, cbor.ARRAY, len(items))
    out += b"".join(items)
    return bytes(out)


def decode_have(data: memoryview, limits: Limits) -> list[HaveItem]:
    """The items of a HAVE; ``EncodingError`` if it breaks the format or has too many."""
    count, at = cbor.pull_array(data, 0, most=limits.max_have_items)
    items: list[HaveItem] = []
    for _ in range(count):
        start = at
        length, at = cbor.pull_array(data, at, least=3, most=5)
        author, at = _pull_author(data, at)
        log_id, at = cbor.pull_unsigned(data, at)
        newest, at = _pull_seq(data, at)
        tip, fork = b"", 0
        if length > 3:
            if length == 4:
                raise EncodingError("a HAVE has 3 or 5 values for a log, not 4", start)
            tip, at = _pull_tip(data, at)
            fork, at = cbor.pull_unsigned(data, at)
        items.append(HaveItem(author, log_id, newest, tip, fork))
    cbor.expect_end(data, at)
    return items


def decode_want(data: memoryview, limits: Limits) -> list[WantItem]:
    """The items of a WANT; ``EncodingError`` if it breaks the format or has too many."""
    count, at = cbor.pull_array(data, 0, most=limits.max_want_items)
    items: list[WantItem] = []
    for _ in range(count):
        start = at
        length, at = cbor.pull_array(data, at, least=1, most=4)
        author, at = _pull_author(data, at)
        log_id = pool = low = high = None
        if length > 1:
            log_id, at = cbor.pull_unsigned(data, at)
        if length == 3:
            pool, at = _pull_seq(data, at)
        elif length == 4:
            low, at = _pull_seq(data, at)
            high, at = _pull_seq(data, at)
            if low > high:
                raise EncodingError(f"the peer wants entries {low} to {high}, which is no range", start)
        items.append(WantItem(author, log_id, pool, low, high))
    cbor.expect_end(data, at)
    return items


def _pull_author(data: memoryview, at: int) -> tuple[bytes, int]:
    text, _, end = cbor.pull_string(data, at)
    if len(text) != BASE62_CHARS:
        raise EncodingError(f"an identity of {len(text)} base62 characters, but it takes {BASE62_CHARS}", at)
    try:
        return _author_key(bytes(text)), end
    except EncodingError as error:
        raise EncodingError(str(error), at + error.offset) from None


def _pull_seq(data: memoryview, at: int) -> tuple[int, int]:
    number, end = cbor.pull_unsigned(data, at)
    if number == 0:
        raise EncodingError("sequence number 0, but the first entry of a log is 1", at)
    return number, end


def _pull_tip(data: memoryview, at: int) -> tuple[bytes, int]:
    text, _, end = cbor.pull_string(data, at)
    if len(text) not in (0, TIP_BYTES):
        raise EncodingError(f"a tip of {len(text)} bytes; accepted: none or {TIP_BYTES}", at)
    return bytes(text), end


def encode_fork(proof: ForkProof) -> bytes:
    """One item of a FORKS."""
    out = bytearray()
    cbor.push_string(out, proof.encode(), as_text=False)
    return bytes(out)


def decode_forks(data: memoryview) -> list[ForkProof]:
    """The proofs of a FORKS; ``EncodingError`` where the format is broken. Signatures are not checked."""
    count, at = cbor.pull_array(data, 0, most=MAX_FORKS)
    proofs = []
    for _ in range(count):
        item, _, end = cbor.pull_string(data, at)
        try:
            proofs.append(ForkProof.decode(bytes(item)))
        except EncodingError as error:
            raise EncodingError(f"a fork proof breaks the format: {error}", at) from None
        at = end
    cbor.expect_end(data, at)
    return proofs


def decode_bamboo(data: memoryview, limits: Limits) -> Iterator[tuple[Entry, memoryview]]:
    """The entries of a BAMBOO, each with its payload, as they are asked for.

    An item is an entry and its payload, or several such pairs. ``EncodingError`` where the format is broken.
    """
    together = _together(data, limits) if len(data) <= _TOGETHER_BYTES else None
    return iter(together) if together is not None else _one_by_one(data, limits)


def _together(data: memoryview, limits: Limits) -> list[tuple[Entry, memoryview]] | None:
    """All entries, taken apart in one call; None if anything about the message is unusual, or wrong."""
    items, begins = list[memoryview](), [0]
    try:
        count, at = cbor.pull_array(data, 0, most=limits.max_entries_per_message)
        for _ in range(count):
            item, _, at = cbor.pull_string(data, at)
            if len(item) < _LEAST_ITEM_BYTES:
                return None
            items.append(item)
            begins.append(begins[-1] + len(item))
        cbor.expect_end(data, at)
    except EncodingError:
        return None
    stretch = b"".join(items)
    view = memoryview(stretch)
    pairs, ends = [], {0}
    for begin, entry in entries_followed(stretch):
        payload = begin + len(entry.encoded)
        end = payload + entry.size
        ends.add(end)
        pairs.append((entry, view[payload:end]))
    # An item must not end inside an entry or payload.
    return pairs if ends.issuperset(begins) and len(pairs) <= limits.max_entries_per_message else None


def _one_by_one(data: memoryview, limits: Limits) -> Iterator[tuple[Entry, memoryview]]:
    count, at = cbor.pull_array(data, 0, most=limits.max_entries_per_message)
    left = limits.max_entries_per_message
    for _ in range(count):
        item, _, end = cbor.pull_string(data, at)
        start = end - len(item)
        offset = 0
        while offset < len(item) or offset == 0:
            try:
                entry, offset = Entry.decode_prefix(item, offset)
            except EncodingError as error:
                raise EncodingError(f"an entry breaks the format: {error}", start + error.offset) from None
            if entry.size > len(item) - offset:
                raise EncodingError("the payload of an entry is cut off", start + offset)
            left -= 1
            if left < 0:
                raise EncodingError(f"a message with more than {limits.max_entries_per_message} entries", start)
            yield entry, item[offset : offset + entry.size]
            offset += entry.size
        at = end
    cbor.expect_end(data, at)


def bamboo_size(item_sizes: Sequence[int]) -> int:
    """Bytes of a BAMBOO with items of these sizes."""
    return cbor.head_size(len(item_sizes)) + sum(cbor.head_size(size) + size for size in item_sizes)


class BambooWriter:
    """Puts a BAMBOO message together in one buffer, which is then sealed in place.

    In one buffer, because entries may bring megabytes of payload.
    """

    def __init__(
        self, item_sizes: Sequence[int], dialect: Dialect, seal_and_queue: Callable[[bytearray, int], None]
    ) -> None:
        size = bamboo_size(item_sizes)
        self._queue = seal_and_queue
        self._string = cbor.BYTES if dialect is Dialect.DOCUMENT else cbor.TEXT
        self._sizes = iter(item_sizes)
        self._left = 0
        self._message = bytearray(encode_header(BAMBOO, OVERHEAD + size))
        self._start = len(self._message)
        self._end = self._start + OVERHEAD + size
        self._sent = False
        self._message += bytes(OVERHEAD)
        cbor.push_head(self._message, cbor.ARRAY, len(item_sizes))

    def write(self, piece: Buffer) -> None:
        """The next bytes of the item that is under way, or of the next one."""
        if not piece:
            return
        if not self._left:
            self._left = next(self._sizes, 0)
            cbor.push_head(self._message, self._string, self._left)
        if len(piece) > self._left:
            raise LocalProtocolError("an item is larger than start_bamboo was told")
        self._message += piece
        self._left -= len(piece)

    def send(self) -> None:
        """All items are written: seal the message and queue it."""
        if self._sent:
            raise LocalProtocolError("this message was already sent")
        if self._left or len(self._message) != self._end:
            raise LocalProtocolError("an item is smaller than start_bamboo was told, or missing")
        self._sent = True
        self._queue(self._message, self._start)
