"""The control channel's messages as bytes (docs/specs/proposals.md, "Control channel").

::

    grant    = 00 amount
    adjust   = [0 e e k d u n x] id [limit] [end] [upper] [least] [greatest]
    cancel   = code id [entry [entry] | seq]
    proposal = [1 e e f o p s m] id author log_id start [lower] least greatest [hash] [limit] [end upper] [offset]
"""

from collections.abc import Iterable

from culm.bamboo import Entry, encode_varu64
from culm.bamboo.entry import MAX_ENTRY_BYTES
from culm.bamboo.varu64 import decode_any_varu64
from culm.bamboo.yamf import decode_yamf
from culm.errors import EncodingError, Truncated
from culm.proposals.messages import (
    Adjust,
    Cancel,
    Code,
    ControlMessage,
    Eagerness,
    Grant,
    Proposal,
    Wish,
)
from culm.types import Buffer

MAX_CONTROL_MESSAGE = 10 + 2 * MAX_ENTRY_BYTES
_KEY_BYTES = 32
_REQUEST = 0xA0  # the first byte of a proposal is this or above


def pull_control(data: Buffer, at: int = 0) -> tuple[ControlMessage, int]:
    """The message at an offset, and the offset behind it.

    ``Truncated`` if it is not all there, ``EncodingError`` if it cannot be one.
    """
    if at >= len(data):
        raise Truncated("a message is missing", at)
    first = data[at]
    if first == 0:
        amount, at = decode_any_varu64(data, at + 1)
        return Grant(amount), at
    if first < Code.DO_NOT_RETRY:
        return _pull_adjust(data, at)
    if first <= Code.FORKED:
        return _pull_cancel(data, at)
    if first < _REQUEST:
        raise EncodingError(f"no message begins with {first:02x}", at)
    return _pull_proposal(data, at)


def push_control(message: ControlMessage) -> bytes:
    """The bytes of a message."""
    match message:
        case Grant(amount):
            return b"\x00" + encode_varu64(amount)
        case Adjust():
            return _push_adjust(message)
        case Cancel():
            return _push_cancel(message)
        case Proposal():
            return _push_proposal(message)


class _Reader:
    """Reads the fields of one message after the other."""

    def __init__(self, data: Buffer, at: int) -> None:
        self._data = data
        self.at = at

    def number(self) -> int:
        number, self.at = decode_any_varu64(self._data, self.at)
        return number

    def seq(self) -> int:
        at = self.at
        number = self.number()
        if not number:
            raise EncodingError("sequence number 0, but the first entry of a log is 1", at)
        return number

    def hash(self) -> bytes:
        value, self.at = decode_yamf(self._data, self.at)
        return value

    def key(self) -> bytes:
        end = self.at + _KEY_BYTES
        if end > len(self._data):
            raise Truncated("a public key is cut off", self.at)
        key, self.at = bytes(self._data[self.at : end]), end
        return key

    def entry(self) -> Entry:
        entry, self.at = Entry.decode_prefix(self._data, self.at)
        return entry

    def eagerness(self, bits: int) -> Eagerness:
        wish = Wish(bits)
        return Eagerness(wish, self.number() if wish is Wish.LIMITED else 0)


def _joined(parts: Iterable[bytes | None]) -> bytes:
    return b"".join(part for part in parts if part is not None)


def _number(number: int | None) -> bytes | None:
    return None if number is None else encode_varu64(number)


def _limit(eagerness: Eagerness | None) -> bytes | None:
    return encode_varu64(eagerness.limit) if eagerness is not None and eagerness.wish is Wish.LIMITED else None


def _pull_adjust(data: Buffer, at: int) -> tuple[Adjust, int]:
    first, reader = data[at], _Reader(data, at + 1)
    proposal = reader.number()
    bits = first >> 5 & 3
    eagerness = reader.eagerness(bits) if bits else None
    end = reader.seq() if first & 8 else None
    upper = reader.seq() if first & 4 else None
    least = reader.number() if first & 2 else None
    greatest = reader.number() if first & 1 else None
    return Adjust(proposal, eagerness, bool(first & 16), end, upper, least, greatest), reader.at


def _push_adjust(message: Adjust) -> bytes:
    first = message.may_skip << 4
    if message.eagerness is not None:
        first |= message.eagerness.wish << 5
    fields = (message.end, message.upper, message.least, message.greatest)
    for bit, field in zip((8, 4, 2, 1), fields, strict=True):
        first |= bit if field is not None else 0
    if not first:
        raise ValueError("an adjustment that changes nothing")
    return _joined(
        (bytes((first,)), encode_varu64(message.id), _limit(message.eagerness), *(_number(field) for field in fields))
    )


def _pull_cancel(data: Buffer, at: int) -> tuple[Cancel, int]:
    code, reader = Code(data[at]), _Reader(data, at + 1)
    proposal = reader.number()
    entries: tuple[Entry, ...] = ()
    seq = 0
    if code is Code.HASH_DIFFERS:
        entries = (reader.entry(),)
    elif code is Code.FORKED:
        entries = (reader.entry(), reader.entry())
    elif code is Code.END_OF_LOG:
        seq = reader.seq()
    return Cancel(proposal, code, entries, seq), reader.at


def _push_cancel(message: Cancel) -> bytes:
    extra = encode_varu64(message.seq) if message.code is Code.END_OF_LOG else b""
    extra += b"".join(entry.encoded for entry in message.entries)
    return bytes((message.code,)) + encode_varu64(message.id) + extra


def _pull_proposal(data: Buffer, at: int) -> tuple[Proposal, int]:
    first, reader = data[at], _Reader(data, at + 1)
    has_offset = bool(first & 8)
    proposal = reader.number()
    author, log_id, start = reader.key(), reader.number(), reader.seq()
    lower = None if has_offset else reader.seq()
    least, greatest = reader.number(), reader.number()
    value = reader.hash() if has_offset or lower != 1 else None
    eagerness = reader.eagerness(first >> 5 & 3)
    end, upper = (reader.seq(), reader.seq()) if first & 16 else (None, None)
    offset = reader.number() if has_offset else None
    return (
        Proposal(
            proposal,
            author,
            log_id,
            start,
            lower,
            end,
            upper,
            value,
            offset,
            eagerness,
            least,
            greatest,
            payload_only=bool(first & 4),
            sparse=bool(first & 2),
            mandatory=bool(first & 1),
        ),
        reader.at,
    )


def _push_proposal(message: Proposal) -> bytes:
    first = 0x80 | message.eagerness.wish << 5
    flags = (message.end is not None, message.offset is not None)
    for bit, flag in zip(
        (16, 8, 4, 2, 1), (*flags, message.payload_only, message.sparse, message.mandatory), strict=True
    ):
        first |= bit if flag else 0
    return _joined(
        (
            bytes((first,)),
            encode_varu64(message.id),
            message.author,
            encode_varu64(message.log_id),
            encode_varu64(message.start),
            _number(message.lower),
            encode_varu64(message.least),
            encode_varu64(message.greatest),
            message.hash,
            _limit(message.eagerness),
            _number(message.end),
            _number(message.upper),
            _number(message.offset),
        )
    )
