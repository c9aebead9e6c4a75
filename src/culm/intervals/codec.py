"""Messages as bytes (docs/specs/intervals.md, "Framing").

``pull_message`` reads one message at an offset: ``Truncated`` if it is not all there, ``EncodingError`` with the offset
and the rule if it can be none. The data of an eager message is left where it is. Two fields cannot be told from the
bytes alone, so that the reader is told by its ``Context``. Numbers and hashes are accepted in forms longer than needed,
as the document does not ask for the shortest; they are written in the shortest.
"""

from typing import Protocol

from culm.bamboo import encode_varu64, lipmaa
from culm.bamboo.entry import AUTHOR_BYTES, SIGNATURE_BYTES, TAG_END_OF_LOG
from culm.bamboo.varu64 import decode_any_varu64 as pull_u64
from culm.bamboo.yamf import YAMF_BYTES, YAMF_PREFIX
from culm.errors import EncodingError, Truncated
from culm.intervals import messages
from culm.intervals.interval import (
    At,
    Bound,
    Forks,
    FromGreatest,
    FromLeast,
    Interval,
    MetadataOnly,
    Offset,
    Regular,
    Request,
    Single,
    SingleOffset,
)
from culm.intervals.messages import Message, ProofEntry

Bytes = bytes | bytearray

_END, _ADJUST = 0xA0, 0xF0  # the first bytes of messages that have flags in them
_WITH_SEQ, _WITH_OFFSET = 0x08, 0x04
MAX_MESSAGE = 1024  # Bytes to look at for one message: more than the longest has, which is a full fork proof.


class Context(Protocol):
    """What the reader has to know of the active request."""

    def starts(self) -> bool:
        """Whether the next eager or lazy message carries the resolved start."""

    def has_hash(self, items: int, following: bytes) -> bool:
        """Whether a lazy message over so many more items carries a hash; ``following``: the two bytes behind it."""


# -- fields ---------------------------------------------------------------------------------------------------------


def pull_hash(data: Bytes, at: int) -> tuple[bytes, int]:
    """A YAMF-hash: its 66 bytes."""
    end = at + YAMF_BYTES
    if data[at : at + 2] != YAMF_PREFIX:
        kind, behind = pull_u64(data, at)
        if kind != YAMF_PREFIX[0]:
            raise EncodingError(f"hash function {kind} is not known", at)
        length, behind = pull_u64(data, behind)
        if length != YAMF_PREFIX[1]:
            raise EncodingError(f"a hash of {length} bytes instead of 64", at)
        end = behind + length
        at = behind - len(YAMF_PREFIX)
    if len(data) < end:
        raise Truncated("a hash is cut off", at)
    return YAMF_PREFIX + bytes(data[at + 2 : end]), end


class _Reader:
    """Reads the fields of a message one after the other. ``at`` is the offset of the next one."""

    __slots__ = ("_data", "at")

    def __init__(self, data: Bytes, at: int) -> None:
        self._data = data
        self.at = at

    def peek(self, size: int) -> bytes:
        """The next bytes, or as many as there are; they are read again."""
        return bytes(self._data[self.at : self.at + size])

    def take(self, size: int) -> bytes:
        found = self.peek(size)
        if len(found) < size:
            raise Truncated(f"{size} bytes are cut off", self.at)
        self.at += size
        return found

    def byte(self) -> int:
        return self.take(1)[0]

    def u64(self) -> int:
        number, self.at = pull_u64(self._data, self.at)
        return number

    def u64_if(self, flag: int) -> int | None:
        return self.u64() if flag else None

    def seq(self) -> int:
        begin, seq = self.at, self.u64()
        if seq == 0:
            raise EncodingError("sequence number 0, but the first entry of a log is 1", begin)
        return seq

    def hash(self) -> bytes:
        value, self.at = pull_hash(self._data, self.at)
        return value

    def hash_if(self, flag: int) -> bytes | None:
        return self.hash() if flag else None


# -- requests -------------------------------------------------------------------------------------------------------


def _pull_request(reader: _Reader) -> Request:
    begin = reader.at
    first = reader.byte()
    forks = first >> 5
    if forks == 3:
        raise EncodingError("fork handling 11 does not exist", begin)
    kind = reader.byte()
    _check_interval(kind, begin + 1, immediate=bool(first & 0x04))
    request_id, author, log_id = reader.u64(), reader.take(AUTHOR_BYTES), reader.u64()
    handling = Forks.LOCAL if forks else Forks.DEFAULT
    anchor = (reader.seq(), reader.hash()) if forks == 2 else None
    numbers = reader.u64_if(first & 0x10), reader.u64_if(first & 0x08), reader.u64_if(first & 0x04)
    interval = _pull_interval(reader, kind)
    verified, lazy = bool(first & 0x02), bool(first & 0x01)
    return Request(request_id, author, log_id, interval, handling, anchor, *numbers, verified, lazy)


def _check_interval(kind: int, at: int, *, immediate: bool) -> None:
    """Refuse second bytes that stand for no interval, or for none that can be asked for immediately."""
    shape = kind >> 6
    if shape == 0:
        if kind & 0x30 == 0x30:
            raise EncodingError("a start of form 11x does not exist", at)
        if kind & 0x06 == 0x06:
            raise EncodingError("an end of form 11x does not exist", at)
    elif shape == 1:
        raise EncodingError("an interval of form 01 does not exist", at)
    elif shape == 2 and kind & 0x30 == 0x10:
        raise EncodingError("a single-number interval of form 01 does not exist", at)
    relative = (shape == 0 and kind & 0x20) or (shape == 2 and kind & 0x20) or shape == 3
    if immediate and relative:
        raise EncodingError("an immediate payload request needs a start that is a sequence number of a payload", at)


def _pull_interval(reader: _Reader, kind: int) -> Interval:
    shape = kind >> 6
    if shape == 0:
        return Regular(_pull_bound(reader, kind >> 3, outer_first=True), _pull_bound(reader, kind, outer_first=False))
    if shape == 2 and kind & 0x20:
        return SingleOffset(_pull_offset(reader, kind & 0x10))
    seq, dist = reader.seq(), reader.byte()
    if shape == 2:
        dist_high, low_outer = reader.byte(), reader.hash_if(kind & 0x08)
        return Single(seq, dist, dist_high, low_outer, reader.hash_if(kind & 0x04), reader.hash_if(kind & 0x02))
    return MetadataOnly(seq, bool(kind & 0x20), dist, reader.hash_if(kind & 0x10), reader.hash_if(kind & 0x08))


def _pull_offset(reader: _Reader, from_greatest: int) -> Offset:
    offset = reader.u64()
    return FromGreatest(offset) if from_greatest else FromLeast(offset)


def _pull_bound(reader: _Reader, form: int, *, outer_first: bool) -> Bound:
    if form & 4:
        return _pull_offset(reader, form & 1)
    seq, dist = reader.seq(), reader.byte()
    hashes = reader.hash_if(form & 2), reader.hash_if(form & 1)
    outer, own = hashes if outer_first else hashes[::-1]
    return At(seq, dist, outer, own)


def _push_request(request: Request) -> bytes:
    forks = 0 if request.forks is Forks.DEFAULT else 1 if request.anchor is None else 2
    numbers = (request.least_size, request.greatest_size, request.payload_offset)
    first = forks << 5 | request.verified << 1 | request.lazy
    for number, mask in zip(numbers, (0x10, 0x08, 0x04), strict=True):
        first |= mask if number is not None else 0
    kind, interval = _push_interval(request.interval)
    anchor = b"" if request.anchor is None else encode_varu64(request.anchor[0]) + request.anchor[1]
    head = bytes((first, kind)) + encode_varu64(request.id) + request.author + encode_varu64(request.log_id)
    return head + anchor + _numbers(*numbers) + interval


def _push_interval(interval: Interval) -> tuple[int, bytes]:
    match interval:
        case Regular(start, end):
            start_form, first = _push_bound(start, outer_first=True)
            end_form, last = _push_bound(end, outer_first=False)
            return start_form << 3 | end_form, first + last
        case SingleOffset(bound):
            form, encoded = _push_offset(bound)
            return 0xA0 | (form & 1) << 4, encoded
        case Single(seq, dist_low, dist_high, low_outer, own, high_outer):
            kind = 0x80 | _flags((low_outer, 0x08), (own, 0x04), (high_outer, 0x02))
            head = encode_varu64(seq) + bytes((dist_low, dist_high))
            return kind, head + (low_outer or b"") + (own or b"") + (high_outer or b"")
        case MetadataOnly(seq, ascending, dist, outer, own):
            kind = 0xC0 | ascending << 5 | _flags((outer, 0x10), (own, 0x08))
            return kind, encode_varu64(seq) + bytes((dist,)) + (outer or b"") + (own or b"")


def _flags(*given: tuple[bytes | None, int]) -> int:
    return sum(mask for value, mask in given if value is not None)


def _push_offset(bound: Offset) -> tuple[int, bytes]:
    return (4 if isinstance(bound, FromLeast) else 5), encode_varu64(bound.offset)


def _push_bound(bound: Bound, *, outer_first: bool) -> tuple[int, bytes]:
    if not isinstance(bound, At):
        return _push_offset(bound)
    hashes = (bound.outer, bound.own) if outer_first else (bound.own, bound.outer)
    form = _flags((hashes[0], 2), (hashes[1], 1))
    return form, encode_varu64(bound.seq) + bytes((bound.dist,)) + (hashes[0] or b"") + (hashes[1] or b"")


# -- proofs ---------------------------------------------------------------------------------------------------------


def _pull_proof_entry(reader: _Reader) -> ProofEntry:
    begin, tag = reader.at, reader.byte()
    if tag > TAG_END_OF_LOG:
        raise EncodingError(f"tag {tag} is neither 0 (regular) nor 1 (end of log)", begin)
    seq = reader.seq()
    lipmaalink = backlink = None
    if seq > 1:
        lipmaalink = backlink = reader.hash()
        has_one_link = lipmaa(seq) == seq - 1
        if has_one_link and len(reader.peek(2)) < 2:
            raise Truncated("an entry is cut off", reader.at)
        if not has_one_link or reader.peek(2) == YAMF_PREFIX:  # Otherwise it is the short form.
            second, backlink = reader.at, reader.hash()
            if has_one_link and backlink != lipmaalink:
                raise EncodingError(f"the two links of entry {seq} lead to one entry and differ", second)
    size, payload_hash, signature = reader.u64(), reader.hash(), reader.take(SIGNATURE_BYTES)
    return ProofEntry(tag == TAG_END_OF_LOG, seq, lipmaalink, backlink, size, payload_hash, signature)


def _push_proof_entry(entry: ProofEntry) -> bytes:
    return b"".join(
        (
            bytes((entry.is_end,)),
            encode_varu64(entry.seq),
            entry.lipmaalink or b"",
            entry.backlink or b"",
            encode_varu64(entry.size),
            entry.payload_hash,
            entry.signature,
        )
    )


# -- messages -------------------------------------------------------------------------------------------------------


def pull_message(data: Bytes, at: int, context: Context) -> tuple[Message, int]:
    """The message at an offset, and the offset behind it (of an eager one: behind its head)."""
    if at >= len(data):
        raise Truncated("a message is missing", at)
    reader = _Reader(data, at)
    message = _pull_request(reader) if data[at] < 0x80 else _pull_other(reader, reader.byte(), context)
    return message, reader.at


def _pull_other(reader: _Reader, first: int, context: Context) -> Message:  # noqa: PLR0911 - one for each message
    match first & 0xF0, first & 0x0F:
        case 0x80, 0:
            start = reader.seq() if context.starts() else None
            return messages.Eager(reader.u64(), start)
        case 0x90, 0:
            start = reader.seq() if context.starts() else None
            items, trailing = reader.u64(), reader.u64()
            return messages.Lazy(items, trailing, reader.hash_if(context.has_hash(items, reader.peek(2))), start)
        case 0xA0, flags:
            reason = messages.Reason(flags >> 2)
            entries = {messages.Reason.FULL_PROOF: 2, messages.Reason.PARTIAL_PROOF: 1}.get(reason, 0)
            proof = tuple(_pull_proof_entry(reader) for _ in range(entries))
            return messages.End(reason, proof, bool(flags & 2), reader.u64_if(flags & 1))
        case 0xB0, 0:
            return messages.RequestCredit(reader.u64())
        case 0xC0, 0:
            return messages.ResponseCredit(reader.u64())
        case 0xD0, 0:
            return messages.Cancel(reader.u64())
        case 0xE0, 0:
            return messages.Activate(reader.u64())
        case 0xE0, 0x08:
            return messages.Activate(-reader.u64())
        case 0xF0, 0x00 | 0x08 | 0x0C as flags:
            return _pull_adjust(reader, flags)
    raise EncodingError(f"no message begins with {first:02x}", reader.at - 1)


def _pull_adjust(reader: _Reader, flags: int) -> messages.Adjust:
    old, new = reader.u64(), reader.u64()
    if old == new:
        raise EncodingError("an adjustment gives the new request the id of the old one", reader.at - 1)
    seq = reader.seq() if flags & _WITH_SEQ else None
    return messages.Adjust(old, new, seq, reader.u64_if(flags & _WITH_OFFSET))


def push_message(message: Message) -> bytes:  # noqa: PLR0911 - one for each message
    """The bytes of a message (of an eager one: its head)."""
    match message:
        case Request():
            return _push_request(message)
        case messages.Eager(count, start):
            return b"\x80" + _numbers(start, count)
        case messages.Lazy(items, trailing, value, start):
            return b"\x90" + _numbers(start, items, trailing) + (value or b"")
        case messages.End(reason, proof, grants, activates):
            first = _END | reason << 2 | grants << 1 | (activates is not None)
            return bytes((first,)) + b"".join(map(_push_proof_entry, proof)) + _numbers(activates)
        case messages.RequestCredit(amount):
            return b"\xb0" + _numbers(amount)
        case messages.ResponseCredit(amount):
            return b"\xc0" + _numbers(amount)
        case messages.Cancel(request_id):
            return b"\xd0" + _numbers(request_id)
        case messages.Activate(change):
            return (b"\xe0" if change >= 0 else b"\xe8") + _numbers(abs(change))
        case messages.Adjust(old, new, seq, offset):
            first = _ADJUST | (_WITH_SEQ if seq is not None else 0) | (_WITH_OFFSET if offset is not None else 0)
            return bytes((first,)) + _numbers(old, new, seq, offset)


def _numbers(*numbers: int | None) -> bytes:
    """Those of the numbers that are given."""
    return b"".join(encode_varu64(number) for number in numbers if number is not None)
