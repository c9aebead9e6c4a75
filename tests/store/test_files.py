"""The formats of export files, without a store: records written and read as streams."""

from __future__ import annotations

import io
import random
import tracemalloc
from hashlib import blake2b
from typing import BinaryIO, cast
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from culm.bamboo import Entry, ForkProof, Identity, encode_varu64, yamf_hash
from culm.errors import EncodingError, MalformedEntry, Place, Truncated
from culm.store import files
from culm.store.files import (
    MAGIC,
    BundleWriter,
    EntryRecord,
    FileCut,
    PayloadRecord,
    ProofRecord,
    Record,
    read_records,
    read_records_from,
)
from culm.testing import build_log
from tests.bamboo.oracle import vectors

LOG = build_log(5)
LARGE = random.Random(2).randbytes(200_000)
PROOF = cast("ForkProof", ForkProof.of(LOG.entries[4], LOG.make(5, b"otherwise")))


class Dripping(io.RawIOBase):
    """A stream that cannot be searched and gives a few bytes at a time, as a pipe may."""

    def __init__(self, data: bytes, step: int) -> None:
        self._left = data
        self._step = step

    def readable(self) -> bool:
        """It can be read, and nothing else."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to ``step`` bytes."""
        size = self._step if size < 0 else min(size, self._step)
        data, self._left = self._left[:size], self._left[size:]
        return data


def bundle(*, payloads: bool = True) -> bytes:
    """A small bundle with every kind of frame."""
    stream = io.BytesIO()
    writer = BundleWriter(stream)
    writer.proof(PROOF)
    for entry in LOG.entries[:3]:
        writer.entry(entry)
        if payloads:
            writer.payload(entry.place, entry.size, [LOG.payloads[entry.hash]])
    writer.entry(LOG.entries[4])
    writer.close()
    return stream.getvalue()


def plain() -> bytes:
    """A small plain file."""
    return b"".join(entry.encoded + LOG.payloads[entry.hash] for entry in LOG.entries)


def frame(kind: int, value: bytes, length: int | None = None) -> bytes:
    """A frame of a bundle."""
    return encode_varu64(kind) + encode_varu64(len(value) if length is None else length) + value


def sealed(*frames: bytes) -> bytes:
    """A bundle of these frames, with its end."""
    data = MAGIC + b"".join(frames)
    return data + frame(0, blake2b(data, digest_size=32).digest())


def summary(record: Record) -> tuple[object, ...]:
    """A record in a form to compare; its payload is read."""
    if isinstance(record, ProofRecord):
        return "proof", record.offset, record.proof
    if isinstance(record, PayloadRecord):
        return "payload", record.offset, record.place, b"".join(record.payload)
    payload = None if record.payload is None else b"".join(record.payload)
    return "entry", record.offset, record.entry, payload


def records(data: bytes | BinaryIO) -> list[tuple[object, ...]]:
    """All records of a file."""
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    return [summary(record) for record in read_records(stream)]


def place_of(entry: Entry) -> bytes:
    """What a payload's frame begins with."""
    return entry.author + encode_varu64(entry.log_id) + encode_varu64(entry.seq)


_FRAMES = [
    *(frame(1, entry.encoded) for entry in LOG.entries),
    *(frame(1, entry.encoded) + frame(2, place_of(entry) + LOG.payloads[entry.hash]) for entry in LOG.entries),
    *(frame(2, place_of(entry) + LOG.payloads[entry.hash]) for entry in LOG.entries),
    frame(2, place_of(LOG.entries[0]) + b"other"),  # payload of another size than its entry's
    frame(2, place_of(LOG.entries[1])[:-1]),
    frame(1, LOG.entries[0].encoded + b"x"),
    frame(1, b""),
    frame(2, bytes(32) + b"\xf8\x01\x01"),  # a number that is not as short as it can be
    frame(2, place_of(LOG.entries[2]), 2**63),
    frame(4, b"unknown"),
    frame(3, PROOF.encode()),
    bytes.fromhex("01f805") + b"later",
    frame(1, LOG.entries[0].encoded) + frame(2, place_of(LOG.entries[0]) + LOG.entries[1].encoded),
    # The payload of another place, which begins like the frame of the entry before.
    frame(1, LOG.entries[0].encoded) + frame(2, frame(1, LOG.entries[0].encoded)[1:37] + b"other"),
]
# How much is read at once, and taken apart at once: as it is, and so little that all of these frames need several.
_SIZES = st.sampled_from([(64 * 1024, 512 * 1024), (64, 400), (300, 700), (700, 700)])


# -- plain -----------------------------------------------------------------------------------------------------


def test_plain() -> None:
    """A plain file is read as entries, each with the payload behind it, at its offset."""
    found = records(plain())

    assert [("entry", entry, LOG.payloads[entry.hash]) for entry in LOG.entries] == [
        (kind, entry, payload) for kind, _, entry, payload in found
    ]
    assert [plain().index(entry.encoded) for entry in LOG.entries] == [offset for _, offset, *_ in found]


def test_deployed_plain() -> None:
    """The deployed peer's entries with payloads, one behind the other, are a plain file."""
    cases = vectors("log20")["entries"]
    data = b"".join(bytes.fromhex(case["entry_and_payload"]) for case in cases)

    assert [(case["entry"], case["payload"]) for case in cases] == [
        (cast("Entry", entry).encoded.hex(), cast("bytes", payload).hex()) for _, _, entry, payload in records(data)
    ]


def test_every_truncation_of_a_plain_file() -> None:
    """A plain file that is cut within an entry or payload is found to be, at the byte where it ends.

    One that is cut between two entries looks whole.
    """
    data = plain()
    ends = [data.index(entry.encoded) for entry in LOG.entries]
    for length in range(1, len(data)):
        if length in ends:
            assert ends.index(length) == len(records(data[:length]))
        else:
            with pytest.raises(FileCut, match="cut short") as caught:
                records(data[:length])

            assert length == caught.value.offset


def test_a_plain_file_with_rubbish() -> None:
    """What is no entry is refused at its offset in the file, and not because the file is cut."""
    data = plain() + b"\x02rubbish"
    with pytest.raises(MalformedEntry, match="not an entry: tag 2") as caught:
        records(data)

    assert (len(data) - 8, False) == (caught.value.offset, isinstance(caught.value, Truncated))


@given(at=st.integers(0), change=st.integers(1, 255))
@settings(deadline=None, max_examples=200)
def test_a_plain_file_corrupted(at: int, change: int) -> None:
    """With any byte changed a plain file still gives records or an ``EncodingError``, nothing else."""
    data = bytearray(plain())
    data[at % len(data)] ^= change
    try:
        found = records(bytes(data))
    except EncodingError as error:
        assert 0 <= error.offset <= len(data)  # noqa: PT017 - no error is as good
    else:
        assert len(found) <= 6


# -- bundles ---------------------------------------------------------------------------------------------------


def test_bundle() -> None:
    """A bundle is read as it was written."""
    found = [(kind, *rest) for kind, _, *rest in records(bundle())]
    expected: list[tuple[object, ...]] = [("proof", PROOF)]
    for entry in LOG.entries[:3]:
        expected += [("entry", entry, None), ("payload", entry.place, LOG.payloads[entry.hash])]

    assert [*expected, ("entry", LOG.entries[4], None)] == found


def test_bundle_layout() -> None:
    """A bundle is its first line, its frames, and an end frame with the checksum of all before it."""
    entry = LOG.entries[0]
    place = entry.author + encode_varu64(entry.log_id) + encode_varu64(entry.seq)
    stream = io.BytesIO()
    writer = BundleWriter(stream)
    writer.entry(entry)
    writer.payload(entry.place, 5, [b"12", b"", b"345"])
    writer.proof(PROOF)
    writer.close()

    assert sealed(frame(1, entry.encoded), frame(2, place + b"12345"), frame(3, PROOF.encode())) == stream.getvalue()


def test_an_empty_bundle() -> None:
    """A bundle may have nothing in it."""
    assert [] == records(sealed())


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_streams_that_drip(step: int) -> None:
    """A file can come from a pipe, in pieces of any size."""
    for data in (bundle(), plain()):
        assert records(data) == records(cast("BinaryIO", Dripping(data, step)))


def test_every_truncation_of_a_bundle() -> None:
    """However a bundle is cut it is found to be, at the byte where it ends."""
    data = bundle()
    for length in range(1, len(data)):
        with pytest.raises(FileCut, match="cut short") as caught:
            records(data[:length])

        assert length == caught.value.offset


@pytest.mark.slow
def test_every_byte_of_a_bundle_corrupted() -> None:
    """With any one byte changed a bundle is refused: its checksum shows what nothing else does."""
    data = bundle()
    for at in range(len(data)):
        for change in (1, 0x80, 0xFF):
            changed = bytearray(data)
            changed[at] ^= change
            with pytest.raises(EncodingError) as caught:
                records(bytes(changed))

            assert 0 <= caught.value.offset <= len(data)


@given(data=st.binary(max_size=400), start=st.sampled_from([b"", MAGIC, MAGIC + frame(1, LOG.entries[0].encoded)]))
@settings(deadline=None, max_examples=200)
def test_any_bytes(data: bytes, start: bytes) -> None:
    """No bytes at all make the reader raise anything but ``EncodingError``."""
    try:
        found = records(start + data)
    except EncodingError as error:
        assert 0 <= error.offset <= len(start + data)  # noqa: PT017 - no error is as good
    else:
        assert found is not None


REFUSED = {
    "unknown type": (MAGIC + frame(4, b"x"), "unknown type 4", 12),
    "far unknown type": (MAGIC + frame(2**40, b"x"), "unknown type", 12),
    "unknown type of any length": (MAGIC + frame(2**64 - 1, b"x", 2**64 - 1), "unknown type", 12),
    "long type": (MAGIC + b"\xf8\x01\x00", "shortest form", 12),
    "long length": (MAGIC + b"\x01\xf8\x01", "shortest form", 13),
    "large entry": (MAGIC + frame(1, bytes(323)), "a frame of 323 bytes; frames of its type have at most 322", 16),
    "huge entry": (MAGIC + frame(1, b"", 2**63), "at most 322", 22),
    "large proof": (MAGIC + frame(3, bytes(645)), "at most 644", 16),
    "short entry": (sealed(frame(1, LOG.entries[0].encoded[:-1])), "truncated", 14 + 102),
    "more than an entry": (sealed(frame(1, LOG.entries[0].encoded + b"x")), "1 bytes follow", 14 + 166),
    "no proof": (sealed(frame(3, LOG.entries[0].encoded * 2)), "not a fork proof", 16),
    "no place": (sealed(frame(2, b"")), "the place of a payload", 14),
    "short author": (sealed(frame(2, bytes(31))), "the place of a payload", 14 + 31),
    "short place": (sealed(frame(2, bytes(33))), "the place of a payload", 14 + 33),
    "long place": (
        sealed(frame(2, bytes(32) + b"\x00\xf8\x00")),
        "the place of a payload .*shortest",
        14 + 33,
    ),
    "bytes behind the end": (sealed() + b"x", "bytes follow", 12 + 34),
    "short checksum": (MAGIC + frame(0, bytes(31)), "checksum", 12),
    "no checksum": (MAGIC + frame(0, b""), "checksum", 12),
    "wrong checksum": (MAGIC + frame(0, bytes(32)), "checksum", 12),
    "empty file": (b"", "the file is empty", 0),
    "text": (b"hello", "not an entry", 0),
    "another first line": (b"CULMBUNDLE2\n", "not an entry", 0),
}


@pytest.mark.parametrize(("data", "reason", "offset"), REFUSED.values(), ids=REFUSED)
def test_refused(data: bytes, reason: str, offset: int) -> None:
    """Files that break their format are refused with the reason and the offset, and not because they are cut."""
    with pytest.raises(EncodingError, match=reason) as caught:
        records(data)

    assert (offset, False) == (caught.value.offset, isinstance(caught.value, Truncated))


def test_records_before_an_error_are_given() -> None:
    """What stands before the bytes that cannot be read is given first."""
    reader = read_records(io.BytesIO(bundle()[:-1]))
    whole = records(bundle())

    assert whole == [summary(next(reader)) for _ in whole]
    with pytest.raises(FileCut):
        next(reader)


def test_payloads_that_are_not_read_are_skipped() -> None:
    """Who does not care for the payloads, or for the rest of one, gets the records behind them all the same."""
    for data in (bundle(), plain()):
        offsets = [record.offset for record in read_records(io.BytesIO(data))]
        halves = []
        for record in read_records(io.BytesIO(data)):
            halves.append(record.offset)
            if not isinstance(record, ProofRecord) and record.payload is not None:
                next(iter(record.payload), None)

        assert [found[1] for found in records(data)] == offsets == halves


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(range(len(_FRAMES))), max_size=12),
    st.none() | st.tuples(st.integers(0, 2000), st.integers(1, 255)),
    st.none() | st.integers(0, 2000),
    _SIZES,
)
@example([_FRAMES.index(frame(3, PROOF.encode())), *range(10)], None, None, (700, 700))
@example([len(_FRAMES) - 2], None, None, (64 * 1024, 512 * 1024))
@example([len(_FRAMES) - 1], None, None, (64 * 1024, 512 * 1024))
def test_small_frames_at_once(
    chosen: list[int], flip: tuple[int, int] | None, cut: int | None, sizes: tuple[int, int]
) -> None:
    """Frames that are read many at a time give the records, offsets and errors that they give one by one."""
    data = bytearray(sealed(*(_FRAMES[number] for number in chosen)))
    if flip is not None:
        data[flip[0] % len(data)] ^= flip[1]
    damaged = bytes(data[:cut])
    with patch.object(files, "_small_frames", lambda *_: iter(())):
        one_by_one = _all(damaged)
    with patch.multiple(files, _PIECE=sizes[0], _WINDOW=sizes[1]):
        assert _all(damaged) == one_by_one


@given(st.data(), _SIZES)
@settings(max_examples=60)
def test_reading_a_part(data: st.DataObject, sizes: tuple[int, int]) -> None:
    """From the offset of one record to that of another there are the records between them, whatever is read at once."""
    proof = frame(3, PROOF.encode())
    chosen = data.draw(st.lists(st.sampled_from([*_FRAMES[:10], proof]), max_size=12))
    file = data.draw(st.sampled_from([plain(), sealed(*chosen)]))
    found = records(file)
    offsets = [cast("int", record[1]) for record in found]
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(found))] * 2)))
    if first == len(found):
        return
    checksum = blake2b(file[:-34], digest_size=32).digest()
    if file == plain():  # which is read to its end
        last = len(found)
    end = offsets[last] if last < len(found) else None
    with patch.multiple(files, _PIECE=sizes[0], _WINDOW=sizes[1]):
        part = [summary(each) for each in read_records_from(io.BytesIO(file), offsets[first], end, checksum)]
    assert [(kind, at - offsets[first], *rest) for kind, at, *rest in found[first:last]] == part


def _all(data: bytes) -> list[object]:
    """All records of a file, and the error at the end."""
    found: list[object] = []
    try:
        found.extend(map(summary, read_records(io.BytesIO(data))))
    except EncodingError as error:
        found.append((type(error), str(error), error.offset))
    return found


def test_large_payloads_in_little_memory() -> None:
    """A payload is read in pieces, whatever its size, and what a file announces reserves nothing."""
    entry = LOG.make(1, LARGE * 50)
    stream = io.BytesIO()
    writer = BundleWriter(stream)
    writer.payload(entry.place, 50 * len(LARGE), [LARGE] * 50)
    writer.close()
    forged = MAGIC + encode_varu64(2) + encode_varu64(2**63) + bytes(34)
    stream.seek(0)
    tracemalloc.start()
    try:
        (record,) = [found for found in read_records(stream) if isinstance(found, PayloadRecord)]
        stream.seek(0)
        size = sum(len(piece) for found in read_records(stream) for piece in cast("PayloadRecord", found).payload)
        with pytest.raises(FileCut):
            records(forged)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 50 * len(LARGE) == size == record.payload.size
    assert peak < 1_000_000


def test_payloads_of_any_place() -> None:
    """A payload's frame carries the largest numbers there are, and payloads that are empty."""
    places = [Place(bytes(32), 0, 1), Place(bytes([255] * 32), 2**64 - 1, 2**64 - 1)]
    stream = io.BytesIO()
    writer = BundleWriter(stream)
    for place in places:
        for payload in (b"", b"x", LARGE):
            writer.payload(place, len(payload), [payload])
    writer.close()

    assert [(place, payload) for place in places for payload in (b"", b"x", LARGE)] == [
        (place, payload) for _, _, place, payload in records(stream.getvalue())
    ]


@pytest.mark.parametrize("pieces", [[b""], [b"1234"], [b"12", b"3456"]])
def test_payloads_of_another_size_than_announced(pieces: list[bytes]) -> None:
    """A writer that is given more or fewer bytes than announced refuses to go on: the file would be unreadable."""
    writer = BundleWriter(io.BytesIO())
    with pytest.raises(ValueError, match="a payload of 5 bytes was announced"):
        writer.payload(LOG.entries[0].place, 5, pieces)


def test_entries_without_payload() -> None:
    """Entries can stand alone."""
    found = [record for record in read_records(io.BytesIO(bundle(payloads=False)))]  # noqa: C416

    assert [None] * 4 == [record.payload for record in found if isinstance(record, EntryRecord)]


def test_the_longest_entries() -> None:
    """Two entries of 322 bytes, which are the longest, are read as a proof of 644 bytes."""
    author, hashes = Identity(bytes(32)), [yamf_hash(bytes([number])) for number in range(4)]
    one, other = (
        author.create_entry(
            log_id=2**64 - 1,
            seq=2**63 + 1,
            backlink=hashes[0],
            lipmaalink=hashes[1],
            size=2**64 - 1,
            payload_hash=payload,
            is_end=False,
        )
        for payload in hashes[2:]
    )
    proof = cast("ForkProof", ForkProof.of(one, other))
    assert (322, 644) == (len(one.encoded), len(proof.encode()))
    assert [("proof", 12, proof)] == records(sealed(frame(3, proof.encode())))
