"""Metadata on the wire: an entry without what the receiver can tell by itself.

::

    item = tag, [lipmaalink], [backlink], size, payload hash, signature

Author, log id and sequence number follow from the request. A link is left out if the receiver has its target's hash:
because all bytes of that item were sent before in the same response, or because the request named it. The lipmaalink is
left out, too, where it leads to the same number as the backlink; this is decided by the numbers, not by the values.

Specification: docs/specs/intervals.md, "Items on the wire".
"""

from collections.abc import Callable

from culm.bamboo import Entry, encode_varu64, lipmaa
from culm.bamboo.entry import SIGNATURE_BYTES, TAG_END_OF_LOG
from culm.bamboo.linked import Framing
from culm.bamboo.varu64 import decode_any_varu64 as pull_u64
from culm.bamboo.yamf import YAMF_BYTES
from culm.errors import EncodingError, Truncated
from culm.intervals.codec import pull_hash
from culm.intervals.messages import ProofEntry

PLAIN = Framing(lead=0)
"""An item with all links left out, of an entry that does not end its log, and the payload behind it."""
MAX_ITEM_BYTES = 1 + 2 * YAMF_BYTES + 9 + YAMF_BYTES + SIGNATURE_BYTES


def encode_item(entry: Entry, omits: Callable[[int], bool]) -> bytes:
    """The bytes of an entry's metadata. ``omits(seq)``: whether links to that number are left out."""
    seq = entry.seq
    skip = back = b""
    if entry.lipmaalink is not None and not omits(lipmaa(seq)):
        skip = entry.lipmaalink
    if entry.backlink is not None and not omits(seq - 1):
        back = entry.backlink
    tag = b"\x01" if entry.is_end else b"\x00"
    return b"".join((tag, skip, back, encode_varu64(entry.size), entry.payload_hash, entry.signature))


def decode_item(
    data: bytes | bytearray | memoryview,
    at: int,
    log: tuple[bytes, int],
    seq: int,
    known: Callable[[int], bytes | None],
) -> tuple[Entry, int, tuple[tuple[int, bytes], ...]]:
    """The entry of a metadata item at ``at``, the offset behind the item, and the links in it: numbers and values.

    ``known(seq)`` gives the hash for links that were left out, else None.

    ``Truncated`` if it is not all there, ``EncodingError`` if it cannot be one.
    """
    head = bytes(data[at : at + MAX_ITEM_BYTES])
    if not head:
        raise Truncated("an item is missing", at)
    if head[0] > TAG_END_OF_LOG:
        raise EncodingError(f"tag {head[0]} of entry {seq} is neither 0 (regular) nor 1 (end of log)", at)
    behind = 1
    lipmaalink = backlink = None
    explicit: list[tuple[int, bytes]] = []
    if seq > 1:
        target = lipmaa(seq)
        if target < seq - 1:
            lipmaalink = known(target)
            if lipmaalink is None:
                lipmaalink, behind = pull_hash(head, behind)
                explicit.append((target, lipmaalink))
        backlink = known(seq - 1)
        if backlink is None:
            backlink, behind = pull_hash(head, behind)
            explicit.append((seq - 1, backlink))
    size, behind = pull_u64(head, behind)
    payload_hash, behind = pull_hash(head, behind)
    end = behind + SIGNATURE_BYTES
    if len(head) < end:
        raise Truncated("an item is cut off", at)
    entry = Entry.assemble(
        log, seq, head[0] == TAG_END_OF_LOG, lipmaalink, backlink, size, payload_hash, head[behind:end]
    )
    return entry, at + end, tuple(explicit)


def entry_of_proof(log: tuple[bytes, int], item: ProofEntry) -> Entry:
    """The entry that a part of a fork proof stands for."""
    lipmaalink = item.lipmaalink if item.seq > 1 and lipmaa(item.seq) < item.seq - 1 else None
    return Entry.assemble(
        log, item.seq, item.is_end, lipmaalink, item.backlink, item.size, item.payload_hash, item.signature
    )
