"""Entries that are sent without what their reader knows: the native core puts together what Python does."""

from __future__ import annotations

import pytest

from culm import native
from culm.bamboo import MAX_U64, Entry, Identity, encode_varu64, lipmaa, yamf_hash
from culm.bamboo.linked import Framing, entries_linked, links_before
from culm.bamboo.lipmaa import SPINE
from culm.testing import build_log

ME = Identity(bytes(range(32)))
SIGNATURE = bytes(range(64))
with_core = pytest.mark.skipif(native.core is None, reason="the native core is not built (make native)")


def sent(payload: bytes, *, tag: int = 0) -> bytes:
    """What is sent of an entry, written by hand, and its payload; the signature means nothing."""
    return bytes([tag]) + encode_varu64(len(payload)) + yamf_hash(payload) + SIGNATURE + payload


def known(seq: int) -> dict[int, bytes]:
    """A hash for each entry that later ones link to."""
    return {before: yamf_hash(str(before).encode()) for before in links_before(seq)}


def expected(log_id: int, seq: int, hashes: dict[int, bytes], payload: bytes) -> Entry:
    """The entry, put together field by field."""
    target = lipmaa(seq)
    jump = hashes[target] if target < seq - 1 else None
    back = hashes[seq - 1] if seq > 1 else None
    return Entry.assemble((ME.public, log_id), seq, False, jump, back, len(payload), yamf_hash(payload), SIGNATURE)


def fields(entry: Entry) -> tuple[object, ...]:
    """All that an entry holds."""
    links = entry.lipmaalink, entry.backlink, entry.payload_hash
    return entry.is_end, *entry.log, entry.seq, *links, entry.size, entry.signature, entry.encoded, entry.hash


def linked(data: bytes, log_id: int, first: int, hashes: dict[int, bytes], most: int = 100) -> tuple[list[Entry], int]:
    """The entries found, and where the rest begins."""
    found, end = entries_linked(memoryview(data), Framing(0), (ME.public, log_id), first, hashes, most)
    return [entry for entry, _ in found], end


@with_core
@pytest.mark.parametrize("first", [1, 2, 5, 40, 41, 247, 248, 65_530, SPINE[30] - 3, 1 << 40, MAX_U64 - 5])
@pytest.mark.parametrize("log_id", [0, 248, MAX_U64])
def test_numbers_of_every_size(first: int, log_id: int) -> None:
    """Entries of any numbers get the author, numbers and links that Python gives them, and the right hash."""
    payloads = [bytes([number]) * size for number, size in enumerate((0, 1, 247, 248, 70_000, 3))]
    hashes = known(first)
    found, end = linked(b"".join(map(sent, payloads)), log_id, first, hashes)

    assert sum(map(len, map(sent, payloads))) == end
    assert len(payloads) == len(found)
    for entry, payload in zip(found, payloads, strict=True):
        assert fields(expected(log_id, entry.seq, hashes, payload)) == fields(entry)
        assert fields(Entry.decode(entry.encoded)) == fields(entry)
        hashes[entry.seq] = entry.hash
    assert list(range(first, first + 6)) == [entry.seq for entry in found]


@with_core
def test_a_log() -> None:
    """A signed log comes out as it went in, with its payloads, from whatever number on."""
    log = build_log(100, payload_size=30)
    for first in (1, 2, 50, 100):
        hashes = {before: log.entries[before - 1].hash for before in links_before(first)}
        data = b"".join(
            b"\x00" + encode_varu64(entry.size) + entry.encoded[-130:] + log.payloads[entry.hash]
            for entry in log.entries[first - 1 :]
        )
        found, end = entries_linked(memoryview(data), Framing(0), (log.identity.public, 0), first, hashes, 1000)
        assert [(entry, log.payloads[entry.hash]) for entry in log.entries[first - 1 :]] == found
        assert len(data) == end


GOOD = sent(b"good")


@with_core
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(sent(b"x", tag=1), id="the end of the log"),
        pytest.param(sent(b"x", tag=2), id="tag"),
        pytest.param(b"\x00\xf8\x01" + sent(b"x")[2:], id="a size in a longer form"),
        pytest.param(b"\x00\xff" + b"\xff" * 8 + sent(b"")[2:], id="a payload longer than any memory"),
        pytest.param(b"\x00\x01\x01\x40" + sent(b"x")[4:], id="another hash function"),
        pytest.param(sent(b"x")[:-1] + b"y", id="another payload"),
        pytest.param(sent(b"x")[:-1], id="a payload cut off"),
        pytest.param(sent(b"x")[:60], id="a hash cut off"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_the_rest_is_left(bad: bytes) -> None:
    """Entries end in front of what is not plain; where that begins is told."""
    found, end = linked(GOOD * 3 + bad, 0, 7, known(7))

    assert [7, 8, 9] == [entry.seq for entry in found]
    assert 3 * len(GOOD) == end


@with_core
def test_links_to_what_is_not_known() -> None:
    """An entry is left whose link leads to an entry of unknown hash: entry 8 links to 4."""
    hashes = {4: yamf_hash(b"4"), 6: yamf_hash(b"6")}

    assert [7, 8, 9] == [entry.seq for entry in linked(GOOD * 3, 0, 7, hashes)[0]]
    del hashes[4]
    assert [7] == [entry.seq for entry in linked(GOOD * 3, 0, 7, hashes)[0]]
    assert ([], 0) == linked(GOOD * 3, 0, 7, {})


@with_core
@pytest.mark.parametrize("most", [0, 1, 2])
def test_no_more_than_asked_for(most: int) -> None:
    """At most so many entries are taken, and none behind the greatest number there is."""
    found, end = linked(GOOD * 3, 0, 1, {}, most)
    assert (most, most * len(GOOD)) == (len(found), end)
    assert 1 == len(linked(GOOD * 3, 0, MAX_U64, known(MAX_U64))[0])


def test_without_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the core nothing is plain, so that the caller goes through all of it."""
    monkeypatch.setattr(native, "core", None)
    assert ([], 0) == linked(GOOD, 0, 1, {})
