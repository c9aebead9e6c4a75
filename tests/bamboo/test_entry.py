"""Entries: decoding, encoding, strictness (docs/specs/bamboo.md, "Entries")."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import MAX_ENTRY_BYTES, MAX_U64, Entry, Identity, has_lipmaalink, is_authentic, yamf_hash
from culm.bamboo.base62 import encode_base62
from culm.bamboo.entry import encode_unsigned
from culm.errors import EncodingError, InvalidEntry, MalformedEntry, Place, Truncated, TruncatedEntry
from tests.bamboo import oracle
from tests.bamboo.oracle import sequence_numbers, vectors

AUTHOR = Identity(bytes(32))
LINK, OTHER_LINK = yamf_hash(b"predecessor"), yamf_hash(b"lipmaa")


def make(*, seq: int = 1, log_id: int = 0, size: int = 5, is_end: bool = False) -> Entry:
    """A signed entry with every link its number calls for."""
    return AUTHOR.create_entry(
        log_id=log_id,
        seq=seq,
        backlink=None if seq == 1 else LINK,
        lipmaalink=OTHER_LINK if has_lipmaalink(seq) else None,
        size=size,
        payload_hash=yamf_hash(b"12345"),
        is_end=is_end,
    )


# One of each shape: without links, with one, with both, with long numbers, the end of a log.
SHAPES = {
    "first": make(),
    "backlink": make(seq=2),
    "both links": make(seq=4),
    "farther": make(seq=40, log_id=250),
    "large": make(seq=MAX_U64, log_id=MAX_U64, size=MAX_U64),
    "end of log": make(seq=8, log_id=300, is_end=True),
}
shapes = pytest.mark.parametrize("entry", SHAPES.values(), ids=SHAPES)


def deployed() -> list[dict[str, Any]]:
    """The deployed peer's entries, of all its vector files."""
    logs = [{"log_id": "0", **vectors("log20")}, *vectors("log_ids")]
    return [{**entry, "log_id": int(log["log_id"])} for log in logs for entry in log["entries"]]


@pytest.mark.parametrize("vector", deployed(), ids=lambda vector: f"{vector['log_id']}-{vector['seq']}")
def test_deployed_entries(vector: dict[str, Any]) -> None:
    """An entry of the deployed peer decodes to its fields, is authentic, hashes and encodes to the same bytes."""
    data = bytes.fromhex(vector["entry"])
    payload = bytes.fromhex(vector["payload"])
    entry = Entry.decode(data)
    fields = (entry.log_id, entry.seq, entry.size, entry.payload_hash, entry.is_end)

    assert (vector["log_id"], vector["seq"], len(payload), yamf_hash(payload), False) == fields
    assert vector["has_lipmaalink"] == (entry.lipmaalink is not None)
    assert vector["entry_yamf_hash"] == entry.hash.hex()
    assert data == entry.encoded
    assert data == again(entry) + entry.signature
    assert is_authentic(entry)


def test_deployed_links() -> None:
    """In the deployed peer's log the links are the hashes of the entries that the specification says."""
    log = [Entry.decode(bytes.fromhex(vector["entry"])) for vector in vectors("log20")["entries"]]
    hashes = {entry.seq: entry.hash for entry in log}

    assert [hashes.get(entry.seq - 1) for entry in log] == [entry.backlink for entry in log]
    assert [hashes[oracle.lipmaa(entry.seq)] for entry in log if entry.lipmaalink] == [
        entry.lipmaalink for entry in log if entry.lipmaalink
    ]
    assert [4, 8, 12, 13, 17] == [entry.seq for entry in log if entry.lipmaalink]


def again(entry: Entry) -> bytes:
    """What its fields encode to, without the signature."""
    return encode_unsigned(
        is_end=entry.is_end,
        author=entry.author,
        log_id=entry.log_id,
        seq=entry.seq,
        lipmaalink=entry.lipmaalink,
        backlink=entry.backlink,
        size=entry.size,
        payload_hash=entry.payload_hash,
    )


def test_the_largest_entry() -> None:
    """The largest encoding takes the 322 bytes that the specification counts."""
    assert 322 == MAX_ENTRY_BYTES == len(SHAPES["large"].encoded)


def test_layout() -> None:
    """The fields stand one behind the other in the specification's order."""
    entry = make(seq=4, log_id=250, size=300, is_end=True)
    fields = [b"\x01", AUTHOR.public, b"\xf8\xfa", b"\x04", OTHER_LINK, LINK, b"\xf9\x01\x2c", yamf_hash(b"12345")]

    assert b"".join(fields) == entry.encoded[:-64]
    assert b"".join(fields) + entry.signature == entry.encoded
    assert AUTHOR.sign(b"".join(fields)) == entry.signature


def test_hash() -> None:
    """The hash of an entry is over all its bytes, the signature included."""
    entry = SHAPES["first"]

    assert b"\x00\x40" + blake2b(entry.encoded).digest() == entry.hash


def test_links() -> None:
    """``links`` lists the numbers linked to with the hashes expected there, the backlink first."""
    assert ((), ((1, LINK),), ((3, LINK), (1, OTHER_LINK))) == tuple(make(seq=seq).links for seq in (1, 2, 4))


def test_equality() -> None:
    """Entries are equal if their bytes are: an entry read twice is one, a set tells two entries apart."""
    entry = SHAPES["first"]
    other = make(size=6)

    assert entry == Entry.decode(entry.encoded)
    assert entry != other
    assert entry != entry.encoded
    assert 2 == len({entry, other, Entry.decode(entry.encoded)})


def test_name() -> None:
    """The author in base62, the log and the number; a program shows it shorter, with the size."""
    author = bytes.fromhex("3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29")  # of the secret of zeros
    regular = make(seq=1, log_id=7)
    assert f"{encode_base62(regular.author).decode()}/7/1" == regular.name
    assert f"<Entry {regular.name[:8]}.../7/1, 5 bytes>" == repr(regular)
    assert repr(make(is_end=True)).endswith("/0/1, 5 bytes, the end of its log>")
    zeros = Identity(bytes(32)).create_entry(
        log_id=0, seq=1, backlink=None, lipmaalink=None, size=0, payload_hash=yamf_hash(b""), is_end=False
    )
    assert author == zeros.author
    assert "E5WIc9sd1Lg9Hte0rQUfCDCwNApTwmX0HaJbOA4P8x7/0/1" == zeros.name


def test_place() -> None:
    """An entry's place is its author, log id and number; its log is the first two."""
    entry = make(seq=4, log_id=250)

    assert Place(AUTHOR.public, 250, 4) == entry.place
    assert (AUTHOR.public, 250) == entry.log


@given(
    seq=sequence_numbers(),
    log_id=st.integers(0, MAX_U64),
    size=st.integers(0, MAX_U64),
    is_end=st.booleans(),
    hashed=st.binary(max_size=8),
    before=st.binary(max_size=3),
    after=st.binary(max_size=3),
)
@settings(deadline=None, max_examples=150)
def test_round_trip(
    *, seq: int, log_id: int, size: int, is_end: bool, hashed: bytes, before: bytes, after: bytes
) -> None:
    """Any fields come back from the encoding as they were, wherever it stands, and leave the rest alone."""
    fields: dict[str, Any] = {
        "is_end": is_end,
        "author": AUTHOR.public,
        "log_id": log_id,
        "seq": seq,
        "lipmaalink": yamf_hash(hashed + b"l") if has_lipmaalink(seq) else None,
        "backlink": yamf_hash(hashed + b"b") if seq > 1 else None,
        "size": size,
        "payload_hash": yamf_hash(hashed),
    }
    encoded = encode_unsigned(**fields) + bytes(range(64))
    data = before + encoded + after
    for buffer in (data, bytearray(data), memoryview(data)):
        entry, end = Entry.decode_prefix(buffer, len(before))

        assert fields == {name: getattr(entry, name) for name in fields}
        assert (bytes(range(64)), encoded) == (entry.signature, entry.encoded)
        assert len(before) + len(encoded) == end


@shapes
def test_every_truncation(entry: Entry) -> None:
    """However an entry is cut, the error says so and points at a byte that is there or the one behind the last."""
    for length in range(len(entry.encoded)):
        with pytest.raises(TruncatedEntry) as caught:
            Entry.decode(entry.encoded[:length])

        assert 0 <= caught.value.offset <= length


@pytest.mark.slow
@shapes
def test_every_byte_corrupted(entry: Entry) -> None:
    """With any one byte changed it is no entry, or one that its author did not sign; nothing else can come of it."""
    for at in range(len(entry.encoded)):
        for change in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            data = bytearray(entry.encoded)
            data[at] ^= change
            try:
                found = Entry.decode(data)
            except MalformedEntry as error:
                assert 0 <= error.offset <= len(data)  # noqa: PT017 - no error is as good
            else:
                assert bytes(data) == found.encoded
                assert not is_authentic(found)


@given(data=st.binary(max_size=MAX_ENTRY_BYTES + 10), tag=st.sampled_from([b"", b"\x00", b"\x01"]))
@settings(deadline=None, max_examples=200)
def test_any_bytes(data: bytes, tag: bytes) -> None:
    """No bytes at all make the decoder raise anything but ``MalformedEntry``, and what decodes has those bytes."""
    try:
        entry, end = Entry.decode_prefix(tag + data)
    except MalformedEntry as error:
        assert 0 <= error.offset <= len(tag + data)  # noqa: PT017 - no error is as good
    else:
        assert (tag + data)[:end] == entry.encoded


def test_offsets_count_from_the_start_of_the_buffer() -> None:
    """An error at an entry in the midst of a buffer names the offset in the whole buffer."""
    data = b"abc" + SHAPES["first"].encoded
    with pytest.raises(TruncatedEntry) as caught:
        Entry.decode_prefix(data[:-1], 3)

    assert len(data) - 64 == caught.value.offset

    with pytest.raises(MalformedEntry) as refused:
        Entry.decode_prefix(data, 2)

    assert (2, False) == (refused.value.offset, isinstance(refused.value, Truncated))


@pytest.mark.parametrize("tag", [2, 3, 127, 128, 255])
def test_other_tags(tag: int) -> None:
    """A tag that is neither 0 nor 1 is refused, however little of the entry is there."""
    for data in (SHAPES["first"].encoded[1:], b""):
        with pytest.raises(MalformedEntry, match=f"tag {tag}") as caught:
            Entry.decode(bytes([tag]) + data)

        assert (0, False) == (caught.value.offset, isinstance(caught.value, Truncated))


HEAD = b"\x00" + AUTHOR.public
TAIL = LINK + bytes(64)
STRICT = {
    "sequence number 0": (HEAD + b"\x00\x00" + b"\x05" + TAIL, 34),
    "long log id": (HEAD + b"\xf8\x00\x01\x05" + TAIL, 33),
    "long sequence number": (HEAD + b"\x00\xf8\x01\x05" + TAIL, 34),
    "long size": (HEAD + b"\x00\x01\xf8\x05" + TAIL, 35),
    "long large size": (HEAD + b"\x00\x01\xff\x00\xff\xff\xff\xff\xff\xff\xff" + TAIL, 35),
    "payload hash of another function": (HEAD + b"\x00\x01\x05\x01" + TAIL[1:], 36),
    "payload hash of another length": (HEAD + b"\x00\x01\x05\x00\x20" + TAIL[2:], 36),
    "backlink of another function": (HEAD + b"\x00\x02\x01" + LINK[1:] + b"\x05" + TAIL, 35),
    "lipmaalink of another function": (HEAD + b"\x00\x04\x01" + LINK[1:] + LINK + b"\x05" + TAIL, 35),
    "backlink in entry 1": (HEAD + b"\x00\x01" + LINK + b"\x05" + TAIL, 36),
}


@pytest.mark.parametrize(("data", "offset"), STRICT.values(), ids=STRICT)
def test_strictness(data: bytes, offset: int) -> None:
    """What breaks the format is refused where it breaks it, and not because it is cut."""
    with pytest.raises(MalformedEntry) as caught:
        Entry.decode(data)

    assert (offset, False) == (caught.value.offset, isinstance(caught.value, Truncated))


@shapes
def test_bytes_behind_an_entry(entry: Entry) -> None:
    """``decode`` takes one whole entry and not a byte more; the error names the entry."""
    with pytest.raises(MalformedEntry, match="1 bytes follow") as caught:
        Entry.decode(entry.encoded + b"\x00")

    assert (len(entry.encoded), entry.place) == (caught.value.offset, caught.value.place)


def test_errors_are_of_both_families() -> None:
    """Malformed bytes can be caught as an entry that cannot be trusted and as bytes that break their format."""
    assert issubclass(MalformedEntry, InvalidEntry)
    assert issubclass(MalformedEntry, EncodingError)
    assert issubclass(TruncatedEntry, Truncated)


FIELDS: dict[str, Any] = {
    "is_end": False,
    "author": AUTHOR.public,
    "log_id": 0,
    "seq": 4,
    "lipmaalink": OTHER_LINK,
    "backlink": LINK,
    "size": 5,
    "payload_hash": LINK,
}
UNENCODABLE: dict[str, dict[str, Any]] = {
    "short author": {"author": bytes(31)},
    "long author": {"author": bytes(33)},
    "log id below 0": {"log_id": -1},
    "log id beyond 64 bits": {"log_id": 2**64},
    "sequence number 0": {"seq": 0, "lipmaalink": None, "backlink": None},
    "sequence number beyond 64 bits": {"seq": 2**64},
    "size below 0": {"size": -1},
    "size beyond 64 bits": {"size": 2**64},
    "no lipmaalink": {"lipmaalink": None},
    "no backlink": {"backlink": None},
    "a backlink in entry 1": {"seq": 1, "lipmaalink": None},
    "a lipmaalink in entry 1": {"seq": 1, "backlink": None},
    "a lipmaalink that equals the backlink": {"seq": 3},
    "a digest for a link": {"backlink": LINK[2:]},
    "a link that is too short": {"backlink": LINK[:-1]},
    "a link that is too long": {"lipmaalink": LINK + b"\x00"},
    "a payload hash of another function": {"payload_hash": b"\x01" + LINK[1:]},
    "a payload hash that is too long": {"payload_hash": LINK + b"\x00"},
}


@pytest.mark.parametrize("wrong", UNENCODABLE.values(), ids=UNENCODABLE)
def test_fields_that_the_format_cannot_hold(wrong: dict[str, Any]) -> None:
    """``encode_unsigned`` refuses fields that no entry can have."""
    assert encode_unsigned(**FIELDS)
    with pytest.raises(ValueError, match=r"."):
        encode_unsigned(**{**FIELDS, **wrong})


@pytest.mark.parametrize("seq", [0, -1, 2**64])
def test_numbers_that_no_entry_has(seq: int) -> None:
    """The number is what is wrong then, before any link is looked at."""
    with pytest.raises(ValueError, match="is not a sequence number"):
        encode_unsigned(**{**FIELDS, "seq": seq})
