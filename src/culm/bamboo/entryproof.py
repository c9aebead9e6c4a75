"""A proof of one entry, for readers without a store and a network (docs/specs/proof.md, "Format", "Size", "Checking").

Somebody shows an entry and says that it is part of an author's log. Its signature alone says less: an author can sign
many entries of one number and show each of them to somebody else. What binds an entry to one history is its certificate
pool: the path of links from it down to entry 1, and the path down to it from a later entry, the *top*. A reader who
has the top from elsewhere, or a later entry, has this entry's history and no other one.

The numbers on these paths follow from two numbers, the entry's and the top's. And a link whose target is in the proof
is the hash of that target. So a proof has only what cannot be computed: sizes, payload hashes, links that leave the
path, signatures. That is about 200 bytes for each entry on the path, whose length grows with the logarithm of the log.

Nothing in a proof needs to be believed: a changed byte anywhere makes a signature wrong, or breaks the format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

from culm.bamboo.entry import AUTHOR_BYTES, SIGNATURE_BYTES, Entry
from culm.bamboo.forks import ForkProof
from culm.bamboo.lipmaa import has_lipmaalink, lipmaa, path
from culm.bamboo.varu64 import MAX_U64, decode_varu64, encode_varu64
from culm.bamboo.verification import are_authentic, check_payload
from culm.bamboo.yamf import YAMF_BYTES, YAMF_PREFIX
from culm.errors import BadSignature, EncodingError, InvalidEntry, InvalidProof

MAGIC = b"culm-proof\x01"
"""The first bytes of a proof; the last one of them is the version."""
MAX_PROOF_BYTES = 128 * 1024
"""A proof without its payload is shorter: it has at most 250 entries, and the two of a fork."""
_ENDS, _HAS_FORK, _HAS_PAYLOAD = 1, 2, 4  # the bits of the flags
_DIGEST_BYTES = YAMF_BYTES - len(YAMF_PREFIX)


def numbers_of(seq: int, top: int) -> list[int]:
    """The sequence numbers of a proof, ascending: the path from ``top`` down to ``seq``, and from there to entry 1."""
    return [*reversed(path(seq, 1)), *reversed(path(top, seq)[:-1])]


class EntryProof(NamedTuple):
    """The entries that show where entry ``seq`` belongs, ascending: ``numbers_of`` names them. The last is the top.

    ``fork`` is the lowest known contradiction of the author in this log; it lies above the top. ``has_payload``: the
    payload follows the proof in its file.
    """

    entries: tuple[Entry, ...]
    seq: int
    fork: ForkProof | None = None
    has_payload: bool = False

    @property
    def entry(self) -> Entry:
        """The entry that is proved."""
        return next(entry for entry in self.entries if entry.seq == self.seq)

    @property
    def top(self) -> Entry:
        """The highest entry of the history that is shown."""
        return self.entries[-1]

    def encode(self) -> bytes:
        """The proof as bytes, without the payload. ``ValueError`` if the entries are others than its numbers say."""
        numbers = numbers_of(self.seq, self.top.seq)
        if [entry.seq for entry in self.entries] != numbers:
            raise ValueError("a proof has exactly the entries on its path")
        flags = _ENDS * self.top.is_end | _HAS_FORK * (self.fork is not None) | _HAS_PAYLOAD * self.has_payload
        parts = [MAGIC, bytes([flags]), self.top.author, encode_varu64(self.top.log_id)]
        parts += [encode_varu64(self.seq), encode_varu64(self.top.seq - self.seq)]
        for entry in self.entries:
            parts += [encode_varu64(entry.size), entry.payload_hash[len(YAMF_PREFIX) :]]
            links = {target: expected[len(YAMF_PREFIX) :] for target, expected in entry.links}
            parts += [links[target] for target in _outside(entry.seq, numbers)]
            parts.append(entry.signature)
        parts.append(self.fork.encode() if self.fork else b"")
        return b"".join(parts)

    @classmethod
    def decode_prefix(cls, data: bytes) -> tuple[Self, int]:
        """Read a proof from the beginning of ``data``; also where it ends. ``InvalidProof`` if that is none.

        Signatures are not looked at: call ``check``.
        """
        if data[: len(MAGIC) - 1] != MAGIC[:-1]:
            raise InvalidProof(
                "this is not a proof of culm prove: it begins with other bytes."
                " Exports and bundles, also those of fork proofs, are checked by culm import"
            )
        if data[: len(MAGIC)] != MAGIC:
            raise InvalidProof("the proof is of a version that this version of Culm cannot read, or truncated")
        reader = _Reader(data, len(MAGIC))
        try:
            return cls._pull(reader), reader.at
        except (EncodingError, InvalidEntry) as error:
            raise InvalidProof(f"the proof breaks its format: {error}") from None

    @classmethod
    def _pull(cls, reader: _Reader) -> Self:
        flags = reader.take(1)[0]
        if flags > _ENDS | _HAS_FORK | _HAS_PAYLOAD:
            raise InvalidProof(f"the proof has unknown flags: {flags}")
        log = reader.take(AUTHOR_BYTES), reader.number()
        seq = reader.number()
        top = seq + reader.number()
        if not 1 <= seq <= top <= MAX_U64:
            raise InvalidProof("the proof names an entry that no log can have")
        entries = tuple(_pull_entries(reader, log, numbers_of(seq, top), ends=bool(flags & _ENDS)))
        return cls(entries, seq, reader.fork() if flags & _HAS_FORK else None, bool(flags & _HAS_PAYLOAD))

    def check(self, author: bytes | None = None) -> None:
        """Raise ``InvalidProof`` unless every entry is authentic, and in the log of ``author`` (32 bytes; None: any).

        Also if the author has forked the log at the top or below: which branch is the right one, nobody can say.
        """
        if author is not None and author != self.top.author:
            raise InvalidProof("the proof is of another author than the one asked for")
        for entry, authentic in zip(self.entries, are_authentic(self.entries, threads=1), strict=True):
            if not authentic:
                raise InvalidProof(
                    f"entry {entry.seq} has a wrong signature: the proof was changed, or its author did not sign this"
                )
        if self.fork is not None:
            self._check_fork(self.fork)

    def _check_fork(self, fork: ForkProof) -> None:
        if fork.log != self.top.log:
            raise InvalidProof("the fork in the proof is of another log")
        try:
            fork.check()
        except BadSignature:
            raise InvalidProof(f"the fork at {fork.position} has a wrong signature") from None
        if fork.position <= self.top.seq:
            raise InvalidProof(
                f"the author forked the log at entry {fork.position}, so its history up to entry {self.top.seq} is"
                " disputed"
            )


class Checked(NamedTuple):
    """A proof that holds, and the payload if that is in it."""

    proof: EntryProof
    payload: bytes | None


def check_proof(data: bytes, author: bytes | None = None) -> Checked:
    """Check a proof that is in memory as a whole, with its payload if it has one; ``InvalidProof`` if it is wrong.

    ``author``: the public key (32 bytes) of who must have signed; with None, look at the author of the result yourself,
    because anybody can make a key and a log. Takes some ten milliseconds.
    """
    proof, end = EntryProof.decode_prefix(data)
    proof.check(author)
    rest = data[end:]
    if not proof.has_payload:
        if rest:
            raise InvalidProof(f"{len(rest)} bytes follow the proof, which has no payload")
        return Checked(proof, None)
    try:
        check_payload(proof.entry, rest)
    except InvalidEntry as error:
        raise InvalidProof(str(error)) from None
    return Checked(proof, rest)


def _outside(seq: int, numbers: Sequence[int]) -> list[int]:
    """The targets of an entry's links that are not among ``numbers``, in the order of an entry's bytes."""
    targets = [lipmaa(seq)] if has_lipmaalink(seq) else []
    return [target for target in [*targets, seq - 1] if target and target not in numbers]


def _pull_entries(reader: _Reader, log: tuple[bytes, int], numbers: list[int], *, ends: bool) -> Iterator[Entry]:
    hashes: dict[int, bytes] = {}  # by number, which ascend, so that the target of a link has been read before
    for seq in numbers:
        reader.seq = seq
        size, payload_hash = reader.number(), reader.digest()
        given = {target: reader.digest() for target in _outside(seq, numbers)}
        lipmaalink, backlink = (
            given.get(target) or hashes[target] if exists else None
            for target, exists in ((lipmaa(seq), has_lipmaalink(seq)), (seq - 1, seq > 1))
        )
        is_end = ends and seq == numbers[-1]
        signature = reader.take(SIGNATURE_BYTES)
        entry = Entry.assemble(log, seq, is_end, lipmaalink, backlink, size, payload_hash, signature)
        hashes[seq] = entry.hash
        yield entry


class _Reader:
    """Takes the fields of a proof out of its bytes, one behind the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at
        self.seq: int | None = None  # of the entry that is being read

    def take(self, size: int) -> bytes:
        """The next bytes; ``EncodingError`` if there are too few."""
        part = self._data[self.at : self.at + size]
        if len(part) < size:
            where = f", in entry {self.seq}" if self.seq else ""
            raise EncodingError(f"it ends after {len(self._data)} bytes{where}", self.at)
        self.at += size
        return part

    def number(self) -> int:
        """The next VarU64."""
        value, self.at = decode_varu64(self._data, self.at)
        return value

    def digest(self) -> bytes:
        """The next hash, whose kind is not written."""
        return YAMF_PREFIX + self.take(_DIGEST_BYTES)

    def fork(self) -> ForkProof:
        """The next fork proof."""
        begin = self.at
        for _ in range(2):
            _, self.at = Entry.decode_prefix(self._data, self.at)
        return ForkProof.decode(self._data[begin : self.at])
