"""Entries of a batch as columns: the native core finds what Python finds, and what ``Entry.decode`` says."""

from __future__ import annotations

import random

import numpy as np
import pytest

from culm import native
from culm.bamboo import MAX_U64, Entry
from culm.errors import EncodingError
from culm.spark.batches.fields import Fields, digests, padded
from tests.bamboo.test_many import NUMBERS, made

RNG = random.Random(24)
GOOD = [made(RNG.choice((0, 247, 248, MAX_U64)), seq, RNG.choice(NUMBERS), tag=seq % 2) for seq in NUMBERS]


def damaged(record: bytes) -> bytes:
    """The record with some bytes changed, left out or put in."""
    data = bytearray(record)
    at = RNG.randrange(len(data))
    data[at : at + RNG.randrange(3)] = RNG.choice((b"", b"\x00", b"\xff", b"\xf8\x01", RNG.randbytes(2)))
    return bytes(data)


RECORDS = [*GOOD, *map(damaged, GOOD * 3), b"", b"\x00", GOOD[0] + b"\x00", GOOD[0] + bytes(400), bytes(33), bytes(98)]


@pytest.fixture(params=["core", "python"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of taking entries apart."""
    if request.param == "python":
        monkeypatch.setattr(native, "core", None)
    elif native.core is None:
        pytest.skip("the native core is not built (make native)")


def columns() -> Fields:
    """The records as columns."""
    end = np.cumsum([len(record) for record in RECORDS])
    return Fields.decode(padded(*RECORDS), np.append(0, end[:-1]), end)


@pytest.mark.usefixtures("_way")
def test_columns_are_what_entries_are() -> None:
    """Each record is good exactly if ``Entry.decode`` takes it, and its columns are the fields of that entry."""
    fields = columns()
    good = 0
    for row, record in enumerate(RECORDS):
        try:
            entry = Entry.decode(record)
        except EncodingError:
            assert not fields.good[row]
            continue
        good += 1
        assert fields.good[row]
        assert (entry.is_end, entry.log_id, entry.seq, entry.size) == (
            bool(fields.is_end[row]),
            int(fields.log_id[row]),
            int(fields.seq[row]),
            int(fields.size[row]),
        )
        for link, at in (
            (entry.lipmaalink, fields.lipmaalink[row]),
            (entry.backlink, fields.backlink[row]),
            (entry.payload_hash, fields.payload_hash[row]),
        ):
            assert link == (None if at < 0 else bytes(fields.data[at - 2 : at + 64]))
        assert [int(fields.target[row])] == [target for target, _ in entry.links if target < entry.seq - 1] or (
            entry.lipmaalink is None
        )
    assert len(GOOD) < good < len(RECORDS)


@pytest.mark.usefixtures("_way")
def test_digests() -> None:
    """Each record, entry or not, has the hash that ``Entry.hash`` has behind its prefix."""
    fields = columns()
    rows = digests(fields.data, fields.start, fields.end)

    assert [Entry.decode(record).hash[2:] for record in GOOD] == [bytes(row) for row in rows[: len(GOOD)]]


def test_columns_outside_of_the_bytes() -> None:
    """A place beyond the bytes is no entry, and has no hash; columns of different lengths are a mistake."""
    if native.core is None:
        pytest.skip("the native core is not built (make native)")
    places = [np.array(numbers, np.int64).tobytes() for numbers in ([0, 5, 2**62], [400, 3, 2**63 - 1])]

    assert bytes(3) == native.core.entries_at(b"abc", *places)[9]
    with pytest.raises(ValueError, match="outside"):
        native.core.digests(b"abc", *places)
    with pytest.raises(ValueError, match="8 bytes for each"):
        native.core.entries_at(b"abc", places[0], places[1][:-1])
