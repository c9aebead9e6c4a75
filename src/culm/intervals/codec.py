"""Messages as bytes (docs/specs/intervals.md, "Framing").

``pull_message`` reads one message at an offset: ``Truncated`` if it is not all there, ``EncodingError`` with the offset
and the rule if it can be none. The data of an eager message is left where it is. Two fields cannot be told from the
bytes alone, so that the reader is told by its ``Context``. Numbers and hashes are accepted in forms longer than needed,
as the document does not ask for the shortest; they are written in the shortest.
"""

from collections.abc import Callable
from typing import Protocol

from culm.bamboo import encode_varu64, lipmaa
from culm.bamboo.entry import AUTHOR_BYTES, SIGNATURE_BYTES, TAG_END_OF_LOG
from culm.bamboo.varu64 import decode_any_varu64 as pull_u64
from culm.bamboo.yamf import YAMF_BYTES, YAMF_PREFIX
from culm.errors import EncodingError, Truncated
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
from culm.intervals.messages import (
    Activate,
    Adjust,
    Cancel,
    Eager,
    End,
    Lazy,
    Message,
    ProofEntry,
    Reason,
    RequestCredit,
    ResponseCredit,
)

EAGER, LAZY, END, REQUEST_CREDIT, RESPONSE_CREDIT, CANCEL, ACTIVATE, ADJUST = range(0x80, 0x100, 0x10)
_SUBTRACT, _WITH_SEQ, _WITH_OFFSET = 0x08, 0x08, 0x04
MAX_MESSAGE = 1024  # Bytes to look at for one message: more than the longest has, which is a full fork proof.


class Context(Protocol):
    """What the reader has to know of the active request."""

    def starts(self) -> bool:
        """Whether the next eager or lazy message carries the resolved start."""

    def has_hash(self, items: int, following: bytes) -> bool:
        """Whether a lazy message over so many more items carries a hash; ``following``: the two bytes behind it."""


# -- small things ---------------------------------------------------------------------------------------------------


def pull_seq(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """A sequence number."""
    seq, end = pull_u64(data, at)
    if seq == 0:
        raise EncodingError("sequence number 0, but the first entry of a log is 1", at)
    return seq, end


def pull_hash(data: bytes | bytearray, at: int) -> tuple[bytes, int]:
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


def _pull_byte(data: bytes | bytearray, at: int) -> tuple[int, int]:
    if at >= len(data):
        raise Truncated("a byte is missing", at)
    return data[at], at + 1


def _pull_bytes(data: bytes | bytearray, at: int, size: int) -> tuple[bytes, int]:
    if len(data) < at + size:
        raise Truncated(f"{size} bytes are cut off", at)
    return bytes(data[at : at + size]), at + size


def _pull_hash_if(data: bytes | bytearray, at: int, flag: int) -> tuple[bytes | None, int]:
    return pull_hash(data, at) if flag else (None, at)


def _pull_u64_if(data: bytes | bytearray, at: int, flag: int) -> tuple[int | None, int]:
    return pull_u64(data, at) if flag else (None, at)


# -- requests -------------------------------------------------------------------------------------------------------


def _pull_request(data: bytes | bytearray, at: int) -> tuple[Request, int]:
    first, at = _pull_byte(data, at)
    forks = first >> 5
    if forks == 3:
        raise EncodingError("fork handling 11 does not exist", at - 1)
    kind_at = at
    kind, at = _pull_byte(data, at)
    _check_interval(kind, kind_at, immediate=bool(first & 0x04))
    request_id, at = pull_u64(data, at)
    author, at = _pull_bytes(data, at, AUTHOR_BYTES)
    log_id, at = pull_u64(data, at)
    anchor = None
    if forks == 2:
        seq, at = pull_seq(data, at)
        value, at = pull_hash(data, at)
        anchor = seq, value
    least_size, at = _pull_u64_if(data, at, first & 0x10)
    greatest_size, at = _pull_u64_if(data, at, first & 0x08)
    payload_offset, at = _pull_u64_if(data, at, first & 0x04)
    interval, at = _pull_interval(data, at, kind)
    return Request(
        request_id,
        author,
        log_id,
        interval,
        Forks.LOCAL if forks else Forks.DEFAULT,
        anchor,
        least_size,
        greatest_size,
        payload_offset,
        verified=bool(first & 0x02),
        lazy=bool(first & 0x01),
    ), at


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


def _pull_interval(data: bytes | bytearray, at: int, kind: int) -> tuple[Interval, int]:
    shape = kind >> 6
    if shape == 0:
        start, at = _pull_bound(data, at, kind >> 3 & 7, outer_first=True)
        end, at = _pull_bound(data, at, kind & 7, outer_first=False)
        return Regular(start, end), at
    if shape == 2 and kind & 0x20:
        offset, at = pull_u64(data, at)
        return SingleOffset(FromGreatest(offset) if kind & 0x10 else FromLeast(offset)), at
    seq, at = pull_seq(data, at)
    dist, at = _pull_byte(data, at)
    if shape == 2:
        dist_high, at = _pull_byte(data, at)
        low_outer, at = _pull_hash_if(data, at, kind & 0x08)
        own, at = _pull_hash_if(data, at, kind & 0x04)
        high_outer, at = _pull_hash_if(data, at, kind & 0x02)
        return Single(seq, dist, dist_high, low_outer, own, high_outer), at
    outer, at = _pull_hash_if(data, at, kind & 0x10)
    own, at = _pull_hash_if(data, at, kind & 0x08)
    return MetadataOnly(seq, bool(kind & 0x20), dist, outer, own), at


def _pull_bound(data: bytes | bytearray, at: int, form: int, *, outer_first: bool) -> tuple[Bound, int]:
    if form & 4:
        offset, at = pull_u64(data, at)
        return (FromGreatest(offset) if form & 1 else FromLeast(offset)), at
    seq, at = pull_seq(data, at)
    dist, at = _pull_byte(data, at)
    first, at = _pull_hash_if(data, at, form & 2)
    second, at = _pull_hash_if(data, at, form & 1)
    outer, own = (first, second) if outer_first else (second, first)
    return At(seq, dist, outer, own), at


def _push_request(request: Request) -> bytes:
    forks = 0 if request.forks is Forks.DEFAULT else 1 if request.anchor is None else 2
    numbers = (request.least_size, request.greatest_size, request.payload_offset)
    first = forks << 5 | request.verified << 1 | request.lazy
    for number, mask in zip(numbers, (0x10, 0x08, 0x04), strict=True):
        first |= mask if number is not None else 0
    kind, interval = _push_interval(request.interval)
    parts = [bytes((first, kind)), encode_varu64(request.id), request.author, encode_varu64(request.log_id)]
    if request.anchor is not None:
        parts += (encode_varu64(request.anchor[0]), request.anchor[1])
    parts += (encode_varu64(number) for number in numbers if number is not None)
    return b"".join((*parts, interval))


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


def _pull_proof_entry(data: bytes | bytearray, at: int) -> tuple[ProofEntry, int]:
    tag, at = _pull_byte(data, at)
    if tag > TAG_END_OF_LOG:
        raise EncodingError(f"tag {tag} is neither 0 (regular) nor 1 (end of log)", at - 1)
    seq, at = pull_seq(data, at)
    lipmaalink = backlink = None
    if seq > 1:
        lipmaalink, at = pull_hash(data, at)
        is_same = lipmaa(seq) == seq - 1
        if len(data) < at + 2:
            raise Truncated("an entry is cut off", at)
        if is_same and data[at : at + 2] != YAMF_PREFIX:
            backlink = lipmaalink  # the short form
        else:
            second_at = at
            backlink, at = pull_hash(data, at)
            if is_same and backlink != lipmaalink:
                raise EncodingError(f"the two links of entry {seq} lead to one entry and differ", second_at)
    size, at = pull_u64(data, at)
    payload_hash, at = pull_hash(data, at)
    signature, at = _pull_bytes(data, at, SIGNATURE_BYTES)
    return ProofEntry(tag == TAG_END_OF_LOG, seq, lipmaalink, backlink, size, payload_hash, signature), at


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


# -- the other messages ---------------------------------------------------------------------------------------------


def _pull_eager(data: bytes | bytearray, at: int, context: Context) -> tuple[Eager, int]:
    start = None
    at += 1
    if context.starts():
        start, at = pull_seq(data, at)
    count, at = pull_u64(data, at)
    return Eager(count, start), at


def _pull_lazy(data: bytes | bytearray, at: int, context: Context) -> tuple[Lazy, int]:
    start = value = None
    at += 1
    if context.starts():
        start, at = pull_seq(data, at)
    items, at = pull_u64(data, at)
    trailing, at = pull_u64(data, at)
    if context.has_hash(items, bytes(data[at : at + 2])):
        value, at = pull_hash(data, at)
    return Lazy(items, trailing, value, start), at


def _pull_end(data: bytes | bytearray, at: int) -> tuple[End, int]:
    flags, at = data[at], at + 1
    reason = Reason(flags >> 2 & 3)
    proof: list[ProofEntry] = []
    for _ in range({Reason.FULL_PROOF: 2, Reason.PARTIAL_PROOF: 1}.get(reason, 0)):
        entry, at = _pull_proof_entry(data, at)
        proof.append(entry)
    activates = None
    if flags & 1:
        activates, at = pull_u64(data, at)
    return End(reason, tuple(proof), bool(flags & 2), activates), at


def _pull_number(kind: Callable[[int], Message], data: bytes | bytearray, at: int) -> tuple[Message, int]:
    number, at = pull_u64(data, at + 1)
    return kind(number), at


def _pull_adjust(data: bytes | bytearray, at: int) -> tuple[Adjust, int]:
    first, at = data[at], at + 1
    old, at = pull_u64(data, at)
    new, at = pull_u64(data, at)
    if old == new:
        raise EncodingError("an adjustment gives the new request the id of the old one", at - 1)
    seq = offset = None
    if first & _WITH_SEQ:
        seq, at = pull_seq(data, at)
    if first & _WITH_OFFSET:
        offset, at = pull_u64(data, at)
    return Adjust(old, new, seq, offset), at


_PULLS: dict[int, Callable[[bytes | bytearray, int, Context], tuple[Message, int]]] = {
    **dict.fromkeys(range(EAGER), lambda data, at, _: _pull_request(data, at)),
    EAGER: _pull_eager,
    LAZY: _pull_lazy,
    **dict.fromkeys(range(END, END + 16), lambda data, at, _: _pull_end(data, at)),
    REQUEST_CREDIT: lambda data, at, _: _pull_number(RequestCredit, data, at),
    RESPONSE_CREDIT: lambda data, at, _: _pull_number(ResponseCredit, data, at),
    CANCEL: lambda data, at, _: _pull_number(Cancel, data, at),
    ACTIVATE: lambda data, at, _: _pull_number(Activate, data, at),
    ACTIVATE | _SUBTRACT: lambda data, at, _: _pull_number(lambda number: Activate(-number), data, at),
    **dict.fromkeys(
        (ADJUST, ADJUST | _WITH_SEQ, ADJUST | _WITH_SEQ | _WITH_OFFSET), lambda data, at, _: _pull_adjust(data, at)
    ),
}


def pull_message(data: bytes | bytearray, at: int, context: Context) -> tuple[Message, int]:
    """The message at an offset, and the offset behind it (of an eager one: behind its head)."""
    if at >= len(data):
        raise Truncated("a message is missing", at)
    pull = _PULLS.get(data[at])
    if pull is None:
        raise EncodingError(f"no message begins with {data[at]:02x}", at)
    return pull(data, at, context)


def push_message(message: Message) -> bytes:  # noqa: PLR0911 - one for each message
    """The bytes of a message (of an eager one: its head)."""
    match message:
        case Request():
            return _push_request(message)
        case Eager(count, start):
            return b"\x80" + (b"" if start is None else encode_varu64(start)) + encode_varu64(count)
        case Lazy(items, trailing, value, start):
            head = b"\x90" + (b"" if start is None else encode_varu64(start))
            return head + encode_varu64(items) + encode_varu64(trailing) + (value or b"")
        case End(reason, proof, grants, activates):
            first = END | reason << 2 | grants << 1 | (activates is not None)
            tail = b"" if activates is None else encode_varu64(activates)
            return bytes((first,)) + b"".join(map(_push_proof_entry, proof)) + tail
        case RequestCredit(amount):
            return b"\xb0" + encode_varu64(amount)
        case ResponseCredit(amount):
            return b"\xc0" + encode_varu64(amount)
        case Cancel(request_id):
            return b"\xd0" + encode_varu64(request_id)
        case Activate(change):
            return bytes((ACTIVATE if change >= 0 else ACTIVATE | _SUBTRACT,)) + encode_varu64(abs(change))
        case Adjust(old, new, seq, offset):
            first = ADJUST | (_WITH_SEQ if seq is not None else 0) | (_WITH_OFFSET if offset is not None else 0)
            numbers = (number for number in (old, new, seq, offset) if number is not None)
            return bytes((first,)) + b"".join(map(encode_varu64, numbers))
