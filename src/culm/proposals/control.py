"""The control channel's messages as bytes (docs/specs/proposals.md, "Control channel").

::

    grant    = 00 amount
    adjust   = [0 e e k d u n x] id [limit] [end] [upper] [least] [greatest]
    cancel   = code id [entry [entry] | seq]
    proposal = [1 e e f o p s m] id author log_id start [lower] least greatest [hash] [limit] [end upper] [offset]
"""

from collections.abc import Callable
from typing import TypeVar

from culm.bamboo import Entry, encode_varu64
from culm.bamboo.entry import MAX_ENTRY_BYTES
from culm.bamboo.varu64 import decode_any_varu64 as pull_number
from culm.bamboo.yamf import decode_yamf
from culm.errors import EncodingError, Truncated
from culm.proposals.messages import Adjust, Cancel, Code, ControlMessage, Eagerness, Grant, Proposal, Wish
from culm.types import Buffer

MAX_CONTROL_MESSAGE = 10 + 2 * MAX_ENTRY_BYTES
_T = TypeVar("_T")
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
        amount, at = pull_number(data, at + 1)
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
            return _joined(0, amount)
        case Adjust():
            return _push_adjust(message)
        case Cancel(proposal, code, entries, seq):
            last = seq if code is Code.END_OF_LOG else None
            return _joined(code, proposal, last, *(entry.encoded for entry in entries))
        case Proposal():
            return _push_proposal(message)


class _Reader:
    """Reads the fields of one message after the other."""

    def __init__(self, data: Buffer, at: int) -> None:
        self._data = data
        self.at = at

    def take(self, pull: Callable[[Buffer, int], tuple[_T, int]]) -> _T:
        value, self.at = pull(self._data, self.at)
        return value


def _pull_seq(data: Buffer, at: int) -> tuple[int, int]:
    number, end = pull_number(data, at)
    if not number:
        raise EncodingError("sequence number 0, but the first entry of a log is 1", at)
    return number, end


def _pull_key(data: Buffer, at: int) -> tuple[bytes, int]:
    end = at + _KEY_BYTES
    if end > len(data):
        raise Truncated("a public key is cut off", at)
    return bytes(data[at:end]), end


def _pull_eagerness(reader: _Reader, bits: int) -> Eagerness:
    wish = Wish(bits)
    return Eagerness(wish, reader.take(pull_number) if wish is Wish.LIMITED else 0)


def _joined(first: int, *fields: int | bytes | None) -> bytes:
    """A message: its first byte, then the fields that it has."""
    parts = (encode_varu64(field) if isinstance(field, int) else field for field in fields if field is not None)
    return bytes((first,)) + b"".join(parts)


def _with_flags(first: int, *flags: bool) -> int:
    """A first byte with five flags in its lowest bits, the highest of them first."""
    return first | sum(bit for bit, flag in zip((16, 8, 4, 2, 1), flags, strict=True) if flag)


def _limit(eagerness: Eagerness | None) -> int | None:
    return eagerness.limit if eagerness is not None and eagerness.wish is Wish.LIMITED else None


def _pull_adjust(data: Buffer, at: int) -> tuple[Adjust, int]:
    first, reader = data[at], _Reader(data, at + 1)
    proposal = reader.take(pull_number)
    bits = first >> 5 & 3
    eagerness = _pull_eagerness(reader, bits) if bits else None
    end = reader.take(_pull_seq) if first & 8 else None
    upper = reader.take(_pull_seq) if first & 4 else None
    least = reader.take(pull_number) if first & 2 else None
    greatest = reader.take(pull_number) if first & 1 else None
    return Adjust(proposal, eagerness, bool(first & 16), end, upper, least, greatest), reader.at


def _push_adjust(message: Adjust) -> bytes:
    fields = (message.end, message.upper, message.least, message.greatest)
    first = 0 if message.eagerness is None else message.eagerness.wish << 5
    first = _with_flags(first, message.may_skip, *(field is not None for field in fields))
    if not first:
        raise ValueError("an adjustment that changes nothing")
    return _joined(first, message.id, _limit(message.eagerness), *fields)


def _pull_cancel(data: Buffer, at: int) -> tuple[Cancel, int]:
    code, reader = Code(data[at]), _Reader(data, at + 1)
    proposal = reader.take(pull_number)
    entries: tuple[Entry, ...] = ()
    seq = 0
    if code is Code.HASH_DIFFERS:
        entries = (reader.take(Entry.decode_prefix),)
    elif code is Code.FORKED:
        entries = (reader.take(Entry.decode_prefix), reader.take(Entry.decode_prefix))
    elif code is Code.END_OF_LOG:
        seq = reader.take(_pull_seq)
    return Cancel(proposal, code, entries, seq), reader.at


def _pull_proposal(data: Buffer, at: int) -> tuple[Proposal, int]:
    first, reader = data[at], _Reader(data, at + 1)
    has_offset = bool(first & 8)
    head = reader.take(pull_number), reader.take(_pull_key), reader.take(pull_number), reader.take(_pull_seq)
    lower = None if has_offset else reader.take(_pull_seq)
    least, greatest = reader.take(pull_number), reader.take(pull_number)
    value = reader.take(decode_yamf) if has_offset or lower != 1 else None
    eagerness = _pull_eagerness(reader, first >> 5 & 3)
    end, upper = (reader.take(_pull_seq), reader.take(_pull_seq)) if first & 16 else (None, None)
    offset = reader.take(pull_number) if has_offset else None
    flags = (bool(first & bit) for bit in (4, 2, 1))
    return Proposal(*head, lower, end, upper, value, offset, eagerness, least, greatest, *flags), reader.at


def _push_proposal(message: Proposal) -> bytes:
    has = (message.end is not None, message.offset is not None)
    wants = (message.payload_only, message.sparse, message.mandatory)
    first = _with_flags(0x80 | message.eagerness.wish << 5, *has, *wants)
    what = (message.id, message.author, message.log_id, message.start, message.lower)
    sizes = (message.least, message.greatest)
    return _joined(
        first, *what, *sizes, message.hash, _limit(message.eagerness), message.end, message.upper, message.offset
    )
