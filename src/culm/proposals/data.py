"""The data channel's messages as bytes (docs/specs/proposals.md, "Data channel"). All delimit themselves.

::

    00 id                          switch to a proposal
    02 | 03 n                      notify of one item, of n
    04 | 05 | 06                   skip a payload: too small, too large, not available
    07 n                           skip bytes of the payload
    08 n bytes(n)                  bytes of the payload
    09 ulen clen bytes(clen)       the same, compressed
    10                             apology
    20 id                          marker: a proposal is cancelled
    80 | 81 [backlink] size payload_hash signature      metadata; 81: of the end of a log
"""

from culm.bamboo import encode_varu64
from culm.bamboo.entry import SIGNATURE_BYTES
from culm.bamboo.varu64 import decode_any_varu64, decode_varu64
from culm.bamboo.yamf import YAMF_BYTES, YAMF_PREFIX, decode_yamf
from culm.errors import EncodingError, Truncated
from culm.proposals.messages import (
    Apology,
    Compressed,
    DataMessage,
    Marker,
    Metadata,
    Notify,
    Raw,
    Skip,
    SkipBytes,
    Switch,
    Why,
)
from culm.types import Buffer

MAX_DATA_HEAD = 1 + YAMF_BYTES + 9 + YAMF_BYTES + SIGNATURE_BYTES  # of a message, without bytes of payloads
_SWITCH, _NOTIFY, _NOTIFY_MANY, _SKIP_BYTES, _RAW, _COMPRESSED, _APOLOGY, _MARKER = 0, 2, 3, 7, 8, 9, 0x10, 0x20
_METADATA = 0x80


def pull_data(data: Buffer, at: int = 0) -> tuple[DataMessage, int]:  # noqa: C901, PLR0911 - one for each
    """The message at an offset, and the offset behind it: of one with bytes of a payload, behind its head.

    ``Truncated`` if it is not all there, ``EncodingError`` if it cannot be one.
    """
    if at >= len(data):
        raise Truncated("a message is missing", at)
    first = data[at]
    at += 1
    if first in (_METADATA, _METADATA + 1):
        return _pull_metadata(data, at, is_end=first != _METADATA)
    if first == _RAW:
        count, at = decode_any_varu64(data, at)
        return Raw(count), at
    if first == _SWITCH:
        proposal, at = decode_any_varu64(data, at)
        return Switch(proposal), at
    if first == _NOTIFY:
        return Notify(1), at
    if first == _NOTIFY_MANY:
        count, at = decode_any_varu64(data, at)
        return Notify(count), at
    if first in (Why.TOO_SMALL, Why.TOO_LARGE, Why.NOT_AVAILABLE):
        return Skip(Why(first)), at
    if first == _SKIP_BYTES:
        count, at = decode_any_varu64(data, at)
        return SkipBytes(count), at
    if first == _COMPRESSED:
        count, at = decode_any_varu64(data, at)
        size, at = decode_any_varu64(data, at)
        return Compressed(count, size), at
    if first == _APOLOGY:
        return Apology(), at
    if first == _MARKER:
        proposal, at = decode_any_varu64(data, at)
        return Marker(proposal), at
    raise EncodingError(f"no message begins with {first:02x}", at - 1)


def _pull_metadata(data: Buffer, at: int, *, is_end: bool) -> tuple[Metadata, int]:
    backlink = None
    head = bytes(data[at : at + 2])
    if head == YAMF_PREFIX:
        backlink, at = decode_yamf(data, at)
    elif len(head) < len(YAMF_PREFIX) and YAMF_PREFIX.startswith(head):
        raise Truncated("an entry is cut off", at)
    size, at = decode_varu64(data, at)
    payload_hash, at = decode_yamf(data, at)
    end = at + SIGNATURE_BYTES
    if end > len(data):
        raise Truncated("a signature is cut off", at)
    return Metadata(is_end, backlink, size, payload_hash, bytes(data[at:end])), end


def push_data(message: DataMessage) -> bytes:  # noqa: PLR0911 - one for each message
    """The bytes of a message; of one with bytes of a payload, its head."""
    match message:
        case Metadata(is_end, backlink, size, payload_hash, signature):
            first = b"\x81" if is_end else b"\x80"
            return b"".join((first, backlink or b"", encode_varu64(size), payload_hash, signature))
        case Raw(count):
            return b"\x08" + encode_varu64(count)
        case Switch(proposal):
            return b"\x00" + encode_varu64(proposal)
        case Notify(count):
            return b"\x02" if count == 1 else b"\x03" + encode_varu64(count)
        case Skip(why):
            return bytes((why,))
        case SkipBytes(count):
            return b"\x07" + encode_varu64(count)
        case Compressed(count, size):
            return b"\x09" + encode_varu64(count) + encode_varu64(size)
        case Apology():
            return b"\x10"
        case Marker(proposal):
            return b"\x20" + encode_varu64(proposal)
