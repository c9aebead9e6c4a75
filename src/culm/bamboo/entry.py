"""Entries: strict decoding, encoding, hashes and links (docs/specs/bamboo.md, "Entries").

Decoding is strict: of two encodings of the same fields one is refused. Otherwise an entry could have two hashes, and a
peer could turn one entry into a fork. The entry keeps its own bytes, so that its hash and its signature cover exactly
what the author signed. It is decoded once and never changed.
"""

from typing import Self

from culm.bamboo.base62 import encode_base62
from culm.bamboo.lipmaa import has_lipmaalink, lipmaa
from culm.bamboo.varu64 import MAX_U64, decode_varu64, encode_varu64
from culm.bamboo.yamf import YAMF_BYTES, YAMF_PREFIX, decode_yamf, yamf_hash
from culm.errors import EncodingError, MalformedEntry, Place, Truncated, TruncatedEntry

TAG_REGULAR = 0
TAG_END_OF_LOG = 1
AUTHOR_BYTES = 32  # an Ed25519 public key
SIGNATURE_BYTES = 64  # an Ed25519 signature
HASH_AND_SIGNATURE_BYTES = YAMF_BYTES + SIGNATURE_BYTES  # what an entry ends with: both have always the same length
# Tag, author, log id, sequence number, lipmaalink, backlink, size, payload hash, signature: 322 bytes.
MAX_ENTRY_BYTES = 1 + AUTHOR_BYTES + 9 + 9 + YAMF_BYTES + YAMF_BYTES + 9 + YAMF_BYTES + SIGNATURE_BYTES


_SHOWN_CHARS = 8  # of a key where people know which ones there are, as the commands show them


class Entry:
    """One entry of a log. Read only; equal to another if all their bytes are.

    ``lipmaalink`` is None where the format leaves it out: in entry 1, and where ``lipmaa(seq)`` is ``seq - 1``.
    ``size`` counts the payload's bytes. ``encoded`` holds all bytes of the entry, the signature at the end. What has
    its fixed place in them is taken from there when it is asked for: millions of entries pass, and few are asked.

    An entry has no time: the author could claim any, and no reader could check it. If an application needs one, it puts
    it into the payload, and treats it as the author's word.
    """

    __slots__ = ("_hash", "author", "backlink", "encoded", "lipmaalink", "log_id", "seq", "size")

    def __init__(
        self,
        encoded: bytes,
        author: bytes,
        log_id: int,
        seq: int,
        lipmaalink: bytes | None,
        backlink: bytes | None,
        size: int,
        known_hash: bytes | None = None,
    ) -> None:
        """``encoded`` is an entry with just these fields; nothing is checked. ``known_hash``: its hash, if known."""
        self.encoded, self.author, self.log_id, self.seq = encoded, author, log_id, seq
        self.lipmaalink, self.backlink, self.size = lipmaalink, backlink, size
        self._hash = known_hash  # else computed at the first use, because not every entry needs it

    @classmethod
    def assemble(
        cls,
        log: tuple[bytes, int],
        seq: int,
        is_end: bool,
        lipmaalink: bytes | None,
        backlink: bytes | None,
        size: int,
        payload_hash: bytes,
        signature: bytes,
    ) -> Self:
        """An entry of fields that were checked before; a link is None where the format leaves it out."""
        encoded = b"".join(
            (
                b"\x01" if is_end else b"\x00",
                log[0],
                encode_varu64(log[1]),
                encode_varu64(seq),
                lipmaalink or b"",
                backlink or b"",
                encode_varu64(size),
                payload_hash,
                signature,
            )
        )
        return cls(encoded, *log, seq, lipmaalink, backlink, size)

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read an entry that ``data`` holds and nothing else; ``MalformedEntry`` otherwise."""
        entry, end = cls.decode_prefix(data)
        if end != len(data):
            raise MalformedEntry(f"{len(data) - end} bytes follow the entry", end, entry.place)
        return entry

    @classmethod
    def decode_prefix(cls, data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[Self, int]:
        """Read an entry at ``offset``; return it and the offset behind it.

        ``TruncatedEntry`` if the bytes end too early, ``MalformedEntry`` for anything else. Offsets in both count
        from the start of ``data``.
        """
        head = bytes(data[offset : offset + MAX_ENTRY_BYTES])
        try:
            entry = cls._decode(head)
        except Truncated as error:
            raise TruncatedEntry(str(error), offset + error.offset) from None
        except EncodingError as error:
            raise MalformedEntry(str(error), offset + error.offset) from None
        return entry, offset + len(entry.encoded)

    @classmethod
    def _decode(cls, head: bytes) -> Self:
        # Runs once for every entry that is ever received, so speed counts: fields are sliced unchecked where a later
        # check of the total length covers them.
        tag = head[0] if head else TAG_REGULAR
        if tag > TAG_END_OF_LOG:
            raise EncodingError(f"tag {tag} is neither 0 (regular) nor 1 (end of log)", 0)
        if len(head) <= AUTHOR_BYTES:
            msg = f"truncated: tag and author end after {len(head)} of {1 + AUTHOR_BYTES} bytes"
            raise Truncated(msg, min(len(head), 1))
        log_id, at = decode_varu64(head, 1 + AUTHOR_BYTES)
        seq_at = at
        seq, at = decode_varu64(head, at)
        if seq == 0:
            raise EncodingError("the sequence number is 0; the first entry of a log has 1", seq_at)
        lipmaalink = backlink = None
        if seq > 1:
            if lipmaa(seq) < seq - 1:
                lipmaalink, at = _pull_hash(head, at, "lipmaalink")
            backlink, at = _pull_hash(head, at, "backlink")
        size, at = decode_varu64(head, at)
        _, at = _pull_hash(head, at, "payload hash")
        end = at + SIGNATURE_BYTES
        if len(head) < end:
            raise Truncated(f"truncated: the signature ends after {len(head) - at} of {SIGNATURE_BYTES} bytes", at)
        return cls(head[:end], head[1 : 1 + AUTHOR_BYTES], log_id, seq, lipmaalink, backlink, size)

    @property
    def is_end(self) -> bool:
        """Whether it ends its log: no entry comes after it."""
        return self.encoded[0] == TAG_END_OF_LOG

    @property
    def payload_hash(self) -> bytes:
        """The YAMF-hash (66 bytes) of the payload."""
        return self.encoded[-HASH_AND_SIGNATURE_BYTES:-SIGNATURE_BYTES]

    @property
    def signature(self) -> bytes:
        """The author's signature (64 bytes) of all bytes before it."""
        return self.encoded[-SIGNATURE_BYTES:]

    @property
    def place(self) -> Place:
        """Author, log id and sequence number."""
        return Place(self.author, self.log_id, self.seq)

    @property
    def name(self) -> str:
        """``AUTHOR/LOG/SEQ``, as commands and ``Node.fetch`` take it."""
        return f"{encode_base62(self.author).decode()}/{self.log_id}/{self.seq}"

    def __repr__(self) -> str:
        """The name, with the beginning of the key only, and the size: a traceback or a log shows many entries."""
        key = encode_base62(self.author).decode()[:_SHOWN_CHARS]
        return f"<Entry {key}.../{self.log_id}/{self.seq}, {self.size} bytes{', the end of its log' * self.is_end}>"

    @property
    def log(self) -> tuple[bytes, int]:
        """Author and log id: the log this entry belongs to."""
        return self.author, self.log_id

    @property
    def hash(self) -> bytes:
        """The YAMF-hash (66 bytes) of all bytes of the entry: what links point at."""
        if self._hash is None:
            self._hash = yamf_hash(self.encoded)
        return self._hash

    @property
    def links(self) -> tuple[tuple[int, bytes], ...]:
        """The sequence numbers this entry links to, each with the hash it expects there; backlink first."""
        if self.backlink is None:
            return ()
        if self.lipmaalink is None:
            return ((self.seq - 1, self.backlink),)
        return ((self.seq - 1, self.backlink), (lipmaa(self.seq), self.lipmaalink))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.encoded == other.encoded

    def __hash__(self) -> int:
        return hash(self.encoded)


def _pull_hash(head: bytes, at: int, name: str) -> tuple[bytes, int]:
    end = at + YAMF_BYTES
    # The valid case without a call, because every entry has one to three hashes; the slow way names the error.
    if head[at : at + 2] == YAMF_PREFIX and end <= len(head):
        return head[at:end], end
    try:
        return decode_yamf(head, at)
    except Truncated as error:
        raise Truncated(f"{name}: {error}", error.offset) from None
    except EncodingError as error:
        raise EncodingError(f"{name}: {error}", error.offset) from None


def encode_unsigned(
    *,
    is_end: bool,
    author: bytes,
    log_id: int,
    seq: int,
    lipmaalink: bytes | None,
    backlink: bytes | None,
    size: int,
    payload_hash: bytes,
) -> bytes:
    """The bytes of an entry before its signature: what is to be signed.

    ``ValueError`` for fields the format cannot hold, a link missing or one too many included.
    """
    if len(author) != AUTHOR_BYTES:
        raise ValueError(f"an author is {AUTHOR_BYTES} bytes, not {len(author)}")
    if not 1 <= seq <= MAX_U64:
        raise ValueError(f"{seq} is not a sequence number (1 to 2^64 - 1)")
    if (backlink is None) != (seq == 1):
        raise ValueError(f"entry {seq} {'needs a' if backlink is None else 'has no'} backlink")
    if (lipmaalink is None) == has_lipmaalink(seq):
        raise ValueError(f"entry {seq} {'needs a' if lipmaalink is None else 'has no'} lipmaalink")
    for link in (lipmaalink, backlink, payload_hash):
        if link is not None and decode_yamf(link)[1] != len(link):
            raise ValueError("a link or payload hash is longer than a YAMF-hash")
    return Entry.assemble((author, log_id), seq, is_end, lipmaalink, backlink, size, payload_hash, b"").encoded
