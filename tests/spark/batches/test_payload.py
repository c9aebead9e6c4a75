"""Payload states and the frames that travel to their entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo import yamf_hash
from culm.errors import EncodingError
from culm.spark.batches.payload import STATES, PayloadFrame, judged, rank, without_bytes
from culm.testing import build_log

NUMBERS = st.integers(0, 2**64 - 1)
FRAMES = st.builds(
    PayloadFrame, st.binary(min_size=32, max_size=32), NUMBERS, NUMBERS, st.binary().map(yamf_hash), NUMBERS
)


@given(frame=FRAMES, other=FRAMES, cut=st.integers(0, 20))
def test_frames(frame: PayloadFrame, other: PayloadFrame, cut: int) -> None:
    """Frames are read as they were written; different ones differ; no entry is taken for one; the rest is refused."""
    data = frame.encode()
    assert frame == PayloadFrame.decode(data)
    assert (frame == other) == (data == other.encode())
    for broken in (data[:-cut] if cut else data + b"x", b"\x00" + data[1:], b""):
        with pytest.raises(EncodingError):
            PayloadFrame.decode(broken)


def test_no_entry_is_a_frame() -> None:
    """The first byte tells entries and frames apart."""
    log = build_log(2)
    end = log.append(b"end", is_end=True)
    for entry in (*log.entries, end):
        with pytest.raises(EncodingError, match="not a payload frame"):
            PayloadFrame.decode(entry.encoded)


def test_states_are_ordered() -> None:
    """The greatest of several copies' states counts: bytes held before a part, and proof of a lie before all."""
    absent, forgotten, mismatch, partial, held, lie = map(
        rank, ("absent", "forgotten", "mismatch", "partial", "held", "size_mismatch")
    )
    assert absent < forgotten < mismatch < partial < held < lie
    assert sorted(STATES, key=rank) == list(STATES)
    with pytest.raises(ValueError, match="not in tuple"):
        rank("complete")


def test_judgements() -> None:
    """A payload is judged by its hash, then by its size; an empty one needs no bytes."""
    log = build_log(1)
    entry = log.entries[0]
    payload_hash = yamf_hash(log.payloads[entry.hash])
    assert "held" == judged(entry, payload_hash, entry.size)
    assert "size_mismatch" == judged(entry, payload_hash, entry.size + 1)
    assert "mismatch" == judged(entry, yamf_hash(b"another"), entry.size)
    assert ("absent", "held") == (without_bytes(entry), without_bytes(log.append(b"")))
