"""Entries that stand in a file, each with its payload behind it: the native core and Python find the same."""

from __future__ import annotations

import random
import sys

import pytest

from culm import native
from culm.bamboo import MAX_U64, YAMF_BYTES, Entry, encode_varu64, lipmaa, yamf_hash
from culm.bamboo.entry import MAX_ENTRY_BYTES
from culm.bamboo.lipmaa import SPINE
from culm.bamboo.many import entries_apart, entries_followed
from culm.errors import EncodingError
from culm.testing import build_log

BORDERS = sorted({number + by for width in range(9) for number in (248, 1 << 8 * width) for by in (-1, 0, 1)})
NUMBERS = [number for number in (*BORDERS, *SPINE[1:42], *(n + 1 for n in SPINE[1:42])) if 0 < number <= MAX_U64]


def made(log_id: int, seq: int, size: int, *, tag: int = 0, author: int = 0) -> bytes:
    """An entry of these numbers, written by hand; its hashes and its signature mean nothing."""
    lipmaalink = yamf_hash(b"lipmaa") if seq > 1 and lipmaa(seq) < seq - 1 else b""
    backlink = yamf_hash(b"back") if seq > 1 else b""
    head = bytes([tag]) + bytes(range(author, author + 32)) + encode_varu64(log_id) + encode_varu64(seq)
    return head + lipmaalink + backlink + encode_varu64(size) + yamf_hash(b"payload") + bytes(range(64))


def fields(entry: Entry) -> tuple[object, ...]:
    """All that an entry holds."""
    links = entry.lipmaalink, entry.backlink, entry.payload_hash
    return entry.is_end, *entry.log, entry.seq, *links, entry.size, entry.signature, entry.encoded, entry.hash


def one_by_one(data: bytes) -> list[tuple[int, tuple[object, ...]]]:
    """The entries that ``Entry.decode_prefix`` finds, with where they begin."""
    found = []
    at = 0
    while at < len(data):
        try:
            entry, end = Entry.decode_prefix(data, at)
        except ValueError:
            break
        if end + entry.size > len(data):
            break
        found.append((at, fields(entry)))
        at = end + entry.size
    return found


@pytest.fixture(params=["core", "python"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of taking entries apart."""
    if request.param == "python":
        monkeypatch.setattr(native, "core", None)
    elif native.core is None:
        pytest.skip("the native core is not built (make native)")


def found(data: bytes) -> list[tuple[int, tuple[object, ...]]]:
    """What is tested."""
    return [(at, fields(entry)) for at, entry in entries_followed(data)]


@pytest.mark.usefixtures("_way")
def test_a_log_with_payloads() -> None:
    """All entries of a file are found, with each payload's place behind its entry."""
    log = build_log(50, payload_size=100)
    data = b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries)

    assert [fields(entry) for entry in log.entries] == [entry for _, entry in found(data)]
    assert one_by_one(data) == found(data)
    assert [] == entries_followed(b"")


@pytest.mark.usefixtures("_way")
def test_numbers_of_every_size() -> None:
    """Log ids and sequence numbers at each border of a VarU64 and of the pattern of links are read as Python reads."""
    for number in NUMBERS:
        data = made(number, number, 0) + made(0, number, 0, tag=1)
        assert 2 == len(found(data)), number
        assert one_by_one(data) == found(data), number


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("seq", [1, 2, 5, 8, 1 << 40, MAX_U64])
def test_cut_anywhere(seq: int) -> None:
    """Of bytes that end inside an entry or its payload, the entries in front of it are found."""
    whole = made(300, 4, 3) + b"abc"
    data = whole + made(1 << 63, seq, 2) + b"de"

    assert 2 == len(found(data))
    for end in range(len(whole), len(data)):
        assert one_by_one(data[:end]) == found(data[:end])
        assert 1 == len(found(data[:end]))


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(made(0, 1, 0, tag=2), id="tag"),
        pytest.param(bytes(33) + b"\xf8\x05" + made(0, 1, 0)[34:], id="one byte too many"),
        pytest.param(bytes(33) + b"\xf9\x00\xff" + made(0, 1, 0)[34:], id="leading zero"),
        pytest.param(bytes(33) + b"\xff\x00" + bytes(7) + made(0, 1, 0)[34:], id="leading zero of eight"),
        pytest.param(bytes(33) + b"\x00\x00" + made(0, 1, 0)[35:], id="number 0"),
        pytest.param(made(0, 1, 0)[:36] + b"\x01" + made(0, 1, 0)[37:], id="another hash function"),
        pytest.param(made(0, 1, 0)[:37] + b"\x20" + made(0, 1, 0)[38:], id="another digest length"),
        pytest.param(made(0, 1, MAX_U64), id="a payload longer than any file"),
    ],
)
def test_malformed(bad: bytes) -> None:
    """Nothing is found from an entry on that breaks the format, whatever follows it."""
    good = made(7, 2, 1) + b"x"

    assert one_by_one(good) == found(good + bad + good)


@pytest.mark.usefixtures("_way")
def test_any_bytes() -> None:
    """Entries with bytes changed, left out or repeated are taken apart as ``Entry.decode_prefix`` does."""
    rng = random.Random(24)
    for _ in range(300):
        numbers = [(rng.choice((0, 300, MAX_U64)), rng.choice(NUMBERS), rng.choice((0, 1, 250))) for _ in range(3)]
        data = bytearray(b"".join(made(log_id, seq, size) + bytes(size) for log_id, seq, size in numbers))
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.choice((b"", b"\x00", b"\xff", b"\x01\x00", rng.randbytes(2)))
        assert one_by_one(bytes(data)) == found(bytes(data))


def test_the_longest_entry() -> None:
    """An entry of the greatest numbers has as many bytes as an entry can have."""
    assert MAX_ENTRY_BYTES == len(made(MAX_U64, MAX_U64, MAX_U64)) == 1 + 32 + 3 * 9 + 3 * YAMF_BYTES + 64


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("count", [0, 1, 8, 9, 80])
def test_entries_apart(count: int) -> None:
    """Entries at hand are decoded as one by one, also of several authors; a bad one is refused in the same words."""
    encoded = [made(7, seq, 100, author=seq // 3 % 2) for seq in range(1, count + 1)]
    assert [fields(entry) for entry in entries_apart(encoded)] == [fields(Entry.decode(one)) for one in encoded]
    good = made(7, 5, 100)
    for bad in (b"", b"\x02" + good[1:], good + b"\x00", good[:-1]):
        with pytest.raises(EncodingError) as expected:
            Entry.decode(bad)
        with pytest.raises(EncodingError) as refused:
            entries_apart([*encoded, bad, *encoded])
        assert str(refused.value) == str(expected.value)


def test_any_buffer_will_do() -> None:
    """The core reads ``bytes`` where they are, and every other buffer, also one with gaps, as the bytes in it."""
    core = native.core
    if core is None:
        pytest.skip("the native core is not built (make native)")
    log = build_log(3)
    data = b"".join(entry.encoded for entry in log.entries)
    ends = [len(log.entries[0].encoded), len(data)]
    begins = b"".join(at.to_bytes(8, sys.byteorder) for at in (0, ends[0]))
    places = begins, b"".join(at.to_bytes(8, sys.byteorder) for at in ends)
    gaps = memoryview(b"".join(bytes((byte, 0)) for byte in data))[::2]

    for other in memoryview(data), memoryview(bytearray(data)), gaps:
        assert core.entries_at(data, *places) == core.entries_at(other, *places)
        assert core.digests(data, *places) == core.digests(other, *places)
    with pytest.raises(TypeError):
        core.digests("text", *places)  # type: ignore[arg-type]
