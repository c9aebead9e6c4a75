r"""Export files: the two formats, written and read as streams.

*Plain*: entries one after the other, each directly followed by its payload. The deployed Bushbaby peer keeps its logs
in this form. It has two weaknesses: an entry needs its payload, and a file that was cut between two entries looks
whole.

*Bundle*: Culm's own format of frames, which mends both. It also carries entries alone, payloads alone and fork proofs,
and its end frame has a checksum::

    bundle  = "CULMBUNDLE1\\n" frame* end
    frame   = VarU64 type, VarU64 length, value
    entry   = type 1; the entry's bytes
    payload = type 2; author (32 bytes), VarU64 log id, VarU64 sequence number, the whole payload
    proof   = type 3; the bytes of a fork proof (two entries)
    end     = type 0; BLAKE2b-256 of all bytes before this frame

Payloads may be larger than memory, so a reader yields records while it reads, and a payload is read piece by piece.
Use a record's payload before you ask for the next record: bytes that you did not read are skipped then.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import BinaryIO, NamedTuple, TypeVar

from culm.bamboo import MAX_ENTRY_BYTES, Entry, ForkProof, decode_varu64, encode_varu64
from culm.bamboo.entry import AUTHOR_BYTES
from culm.bamboo.many import entries_apart, entries_followed
from culm.bamboo.varu64 import MAX_VARU64_BYTES
from culm.errors import EncodingError, InvalidEntry, MalformedEntry, Place, Truncated

_T = TypeVar("_T")

MAGIC = b"CULMBUNDLE1\n"
_END, _ENTRY, _PAYLOAD, _PROOF = range(4)
_CHECKSUM_BYTES = 32
_PIECE = 64 * 1024  # bytes in memory at once
_WINDOW = 512 * 1024  # bytes of a plain file that are taken apart at once: some thousand small entries
_MAX_FRAME_HEAD = 2 * MAX_VARU64_BYTES
_MAX_PLACE_BYTES = AUTHOR_BYTES + 2 * MAX_VARU64_BYTES


class FileCut(Truncated):
    """The file ends inside an entry, a payload or a frame, so it was cut short. ``offset`` is where it ends."""


class _Source:
    """A stream from which bytes can be read ahead, with the offset reached and a running checksum."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._buffer = b""
        self._at = 0  # what is before it in the buffer was taken
        self._ahead = _PIECE
        self.checksum = blake2b(digest_size=_CHECKSUM_BYTES)
        self.offset = 0

    def _fill(self, size: int) -> None:
        """Have so many bytes in the buffer, fewer only at the end of the stream."""
        if len(self._buffer) - self._at >= size:
            return
        self._buffer, self._at = self._buffer[self._at :], 0
        while len(self._buffer) < size:
            more = self._stream.read(max(_PIECE, size - len(self._buffer)))
            if not more:
                break
            self._buffer += more

    def peek(self, size: int) -> bytes:
        """The next ``size`` bytes, which stay in the stream; fewer only at its end."""
        self._fill(size)
        return self._buffer[self._at : self._at + size]

    def window(self) -> tuple[bytes, int]:
        """The next bytes, which stay in the stream, and where they begin; none only at its end.

        More of them each time, because a reader of a single record should not wait for half a megabyte.
        """
        self._fill(self._ahead)
        self._ahead = min(_WINDOW, 2 * self._ahead)
        return self._buffer, self._at

    def skip(self, size: int) -> None:
        """Pass bytes that ``window`` gave; the checksum leaves them out."""
        self._at += size
        self.offset += size

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end of the stream."""
        data = self.peek(size)
        self._at += len(data)
        self.checksum.update(data)
        self.offset += len(data)
        return data


class PayloadAtHand:
    """As ``PayloadBytes``, for a payload that was read with its entry. It stays readable; ``whole`` has all of it."""

    __slots__ = ("whole",)

    def __init__(self, whole: bytes) -> None:
        self.whole = whole

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.whole)

    def __iter__(self) -> Iterator[bytes]:
        return iter((self.whole,) if self.whole else ())

    def skip(self) -> None:
        """Nothing is left in the stream."""


class PayloadBytes:
    """The bytes of one payload in a stream. Iterate once for its pieces. ``size`` is what the file announces."""

    def __init__(self, source: _Source, size: int) -> None:
        self._source = source
        self._left = size
        self.size = size

    def __iter__(self) -> Iterator[bytes]:
        while self._left:
            piece = self._source.take(min(self._left, _PIECE))
            if not piece:
                raise FileCut(
                    f"the file is cut short: {self._left} bytes of a payload are missing", self._source.offset
                )
            self._left -= len(piece)
            yield piece

    def skip(self) -> None:
        """Read and drop the bytes that were not read yet."""
        for _ in self:
            pass


class EntryRecord(NamedTuple):
    """An entry at byte ``offset`` of the file, with its payload if the payload follows."""

    offset: int
    entry: Entry
    payload: PayloadBytes | PayloadAtHand | None


class PayloadRecord(NamedTuple):
    """A payload for the entry at ``place``."""

    offset: int
    place: Place
    payload: PayloadBytes | PayloadAtHand


class ProofRecord(NamedTuple):
    """A fork proof, whose signatures are not checked yet."""

    offset: int
    proof: ForkProof


Record = EntryRecord | PayloadRecord | ProofRecord


def read_records(stream: BinaryIO) -> Iterator[Record]:
    """The records of an export file of either format.

    Raises ``EncodingError`` (``FileCut``, ``MalformedEntry``, ...) with the offset of the first bytes that cannot be
    read. An empty file cannot be read either.
    """
    source = _Source(stream)
    start = source.peek(len(MAGIC))
    if not start:
        raise EncodingError("the file is empty", 0)
    if start == MAGIC:
        source.take(len(MAGIC))
        yield from _read_bundle(source)
    elif MAGIC.startswith(start):
        raise FileCut("the file is cut short: a bundle's first line is not complete", len(start))
    else:
        yield from _read_plain(source)


def read_records_from(stream: BinaryIO, offset: int, end: int | None = None, checksum: bytes = b"") -> Iterator[Record]:
    """The records of a file from 0 or from one that ``read_records`` found at ``offset``; offsets count from there.

    ``end``: where another record of a bundle begins, at which reading ends; a plain file is read to its end.
    ``checksum``: of all bytes before the end of a bundle; without it the end of every bundle raises, because the
    checksum there covers the whole file. Otherwise raises ``EncodingError`` as ``read_records`` does.
    """
    stream.seek(0)
    is_bundle = stream.read(len(MAGIC)) == MAGIC
    stream.seek(offset)
    source = _Source(stream)
    left = None if end is None else end - offset
    if is_bundle and not offset:
        source.take(len(MAGIC))
    yield from _read_bundle(source, left, checksum) if is_bundle else _read_plain(source)


def _read_plain(source: _Source) -> Iterator[EntryRecord]:
    while True:
        yield from _whole_ones(source)
        offset = source.offset
        head = source.peek(MAX_ENTRY_BYTES)
        if not head:
            return
        try:
            entry, end = Entry.decode_prefix(head)
        except Truncated as error:
            raise FileCut(f"the file is cut short: {error}", offset + len(head)) from None
        except MalformedEntry as error:
            raise MalformedEntry(f"not an entry: {error}", offset + error.offset) from None
        source.take(end)
        payload = PayloadBytes(source, entry.size)
        yield EntryRecord(offset, entry, payload)
        payload.skip()


def _whole_ones(source: _Source) -> Iterator[EntryRecord]:
    """The next records that fit into memory with their payloads; none in front of a large payload, or a fault."""
    while True:
        buffer, start = source.window()
        data = buffer[start:]
        found = entries_followed(data)
        if not found:
            return
        begin, end = source.offset, 0
        for at, entry in found:
            behind = at + len(entry.encoded)
            end = behind + entry.size
            yield EntryRecord(begin + at, entry, PayloadAtHand(data[behind:end]))
        source.skip(end)


def _read_bundle(source: _Source, end: int | None = None, known: bytes = b"") -> Iterator[Record]:
    while source.offset != end:
        yield from _small_frames(source, end)
        offset = source.offset
        if offset == end:
            return
        before = source.checksum.copy()
        kind, length = _frame_head(source)
        if kind == _END:
            checksum = known or before.digest()
            found = source.take(_CHECKSUM_BYTES) if length == _CHECKSUM_BYTES else b""
            if length == _CHECKSUM_BYTES and len(found) < length:
                raise FileCut("the file is cut short: the bundle's checksum is not complete", source.offset)
            if found != checksum:
                raise EncodingError("the bundle's checksum is wrong: the file was changed after it was written", offset)
            if source.peek(1):
                raise EncodingError("bytes follow the end of the bundle", source.offset)
            return
        if kind == _ENTRY:
            yield EntryRecord(offset, _decoded(source, length, MAX_ENTRY_BYTES, Entry.decode), None)
        elif kind == _PROOF:
            yield ProofRecord(offset, _decoded(source, length, 2 * MAX_ENTRY_BYTES, ForkProof.decode))
        else:
            place, size = _take_place(source, length)
            payload = PayloadBytes(source, size)
            yield PayloadRecord(offset, place, payload)
            payload.skip()


def _small_frames(source: _Source, end: int | None) -> Iterator[EntryRecord | PayloadRecord]:
    """The next entries and their payloads, as far as they are in memory as a whole and nothing is wrong with them.

    What they end at is looked at by itself: a large payload, one that does not follow its entry, a proof, a fault.
    """
    while True:
        data, start = source.window()
        begin = source.offset - start  # of the buffer, in the file
        frames = _frames_in(data, start, len(data) if end is None else min(len(data), end - begin))
        entries = _decodable([data[frame.low : frame.high] for frame in frames if frame.kind == _ENTRY])
        records: list[EntryRecord | PayloadRecord] = []
        at = start
        entry: Entry | None = None
        for kind, low, high in frames:
            if kind == _PAYLOAD and entry is not None:
                records.append(PayloadRecord(begin + at, entry.place, PayloadAtHand(data[low:high])))
            elif (entry := next(entries, None)) is None:
                break
            else:
                records.append(EntryRecord(begin + at, entry, None))
            at = high
        if not records:
            return
        source.take(at - start)
        yield from records


class _Frame(NamedTuple):
    """A frame in memory: its kind, and where its bytes are: those of the entry, or of the payload behind its place."""

    kind: int
    low: int
    high: int


def _frames_in(data: bytes, at: int, end: int) -> list[_Frame]:
    """The frames between two offsets, up to the first that is neither an entry nor the payload of the entry before."""
    frames: list[_Frame] = []
    place = b""  # what the payload of the last entry begins with
    while at + 1 < end and (kind := data[at]) in (_ENTRY, _PAYLOAD):
        try:
            length, low = decode_varu64(data, at + 1)
            at = high = low + length
            if high > end:
                break
            if kind == _ENTRY:
                _, behind = decode_varu64(data, low + 1 + AUTHOR_BYTES)
                _, behind = decode_varu64(data, behind)
                place = data[low + 1 : behind]
            elif not place or not data.startswith(place, low, high):
                break
            else:
                low += len(place)
        except EncodingError:
            break
        frames.append(_Frame(kind, low, high))
    return frames


def _decodable(encoded: list[bytes]) -> Iterator[Entry]:
    """The entries up to the first that is none."""
    try:
        entries = entries_apart(encoded)
    except InvalidEntry:
        with suppress(InvalidEntry):
            yield from map(Entry.decode, encoded)
    else:
        yield from entries


def _frame_head(source: _Source) -> tuple[int, int]:
    head = source.peek(_MAX_FRAME_HEAD)
    try:
        kind, at = decode_varu64(head)
        length, at = decode_varu64(head, at)
    except Truncated:
        raise FileCut("the file is cut short: the bundle's end is missing", source.offset + len(head)) from None
    except EncodingError as error:
        raise EncodingError(f"bundle: {error}", source.offset + error.offset) from None
    if kind > _PROOF:
        raise EncodingError(f"a frame of the unknown type {kind}: types go from 0 to {_PROOF}", source.offset)
    source.take(at)
    return kind, length


def _decoded(source: _Source, size: int, limit: int, decode: Callable[[bytes], _T]) -> _T:
    start = source.offset
    if size > limit:
        raise EncodingError(f"a frame of {size} bytes; frames of its type have at most {limit}", start)
    data = b"".join(PayloadBytes(source, size))
    try:
        return decode(data)
    except MalformedEntry as error:
        raise MalformedEntry(str(error), start + error.offset, error.place) from None


def _take_place(source: _Source, size: int) -> tuple[Place, int]:
    """Whose payload a frame of ``size`` bytes holds, and how many of its bytes are the payload."""
    expected = min(_MAX_PLACE_BYTES, size)
    head = source.peek(expected)
    try:
        log_id, at = decode_varu64(head, AUTHOR_BYTES)
        seq, at = decode_varu64(head, at)
    except EncodingError as error:
        if isinstance(error, Truncated) and len(head) < expected:
            raise FileCut(
                f"the file is cut short inside a payload's place: {error}", source.offset + len(head)
            ) from None
        raise EncodingError(
            f"the place of a payload cannot be read: {error}", source.offset + min(error.offset, len(head))
        ) from None
    source.take(at)
    return Place(head[:AUTHOR_BYTES], log_id, seq), size - at


class BundleWriter:
    """Writes a bundle. Call ``close`` at the end: without the end frame that it writes, readers call the file cut."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._checksum = blake2b(digest_size=_CHECKSUM_BYTES)
        self._write(MAGIC)

    def _write(self, data: bytes) -> None:
        self._checksum.update(data)
        self._stream.write(data)

    def _frame(self, kind: int, value: bytes) -> None:
        self._write(encode_varu64(kind) + encode_varu64(len(value)) + value)

    def entry(self, entry: Entry) -> None:
        """Write an entry."""
        self.encoded_entry(entry.encoded)

    def encoded_entry(self, encoded: bytes) -> None:
        """Write an entry given as its bytes, which are not checked."""
        self._frame(_ENTRY, encoded)

    def proof(self, proof: ForkProof) -> None:
        """Write a fork proof."""
        self._frame(_PROOF, proof.encode())

    def payload(self, place: Place, size: int, pieces: Iterable[bytes]) -> None:
        """Write a payload of ``size`` bytes; ``ValueError`` if the pieces add up to something else."""
        head = place.author + encode_varu64(place.log_id) + encode_varu64(place.seq)
        self._write(encode_varu64(_PAYLOAD) + encode_varu64(len(head) + size) + head)
        written = 0
        for piece in pieces:
            written += len(piece)
            self._write(piece)
        if written != size:
            raise ValueError(f"a payload of {size} bytes was announced, but {written} bytes were written")

    def close(self) -> None:
        """Write the end frame."""
        self._frame(_END, self._checksum.digest())
