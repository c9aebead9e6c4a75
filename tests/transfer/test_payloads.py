"""Payloads that come in pieces, checked against what their entries name."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo import PayloadHasher
from culm.testing import build_log
from culm.transfer import PayloadCheck

LOG = build_log(2, payload_size=40)
ENTRY = LOG.entries[0]
PAYLOAD = bytes(LOG.payloads[ENTRY.hash])
EMPTY = build_log(1, payload_size=0).entries[0]


@given(st.lists(st.integers(0, 40), max_size=4))
def test_a_payload_is_recognised_however_it_is_cut(cuts: list[int]) -> None:
    """The pieces of a payload make it right, and another last piece makes it wrong."""
    ends = [0, *sorted(cuts), len(PAYLOAD)]
    pieces = [PAYLOAD[low:high] for low, high in pairwise(ends)]
    for last, is_right in ((pieces[-1], True), (pieces[-1] + b"x", False)):
        check = PayloadCheck()
        for piece in pieces[:-1]:
            check.add(piece)
        assert check.finish(ENTRY, last) is is_right


def test_a_beginning_that_is_held() -> None:
    """Behind bytes that are held the check works with their hash, and cannot tell without it."""
    begun = PayloadHasher()
    begun.update(PAYLOAD[:30])
    assert PayloadCheck(30, begun).finish(ENTRY, PAYLOAD[30:]) is True
    assert PayloadCheck(30).finish(ENTRY, PAYLOAD[30:]) is None
    assert PayloadCheck(0).finish(ENTRY, PAYLOAD) is True


def test_bytes_that_were_passed() -> None:
    """Once bytes are missing, nothing can be told, whatever comes."""
    check = PayloadCheck()
    check.add(PAYLOAD[:10])
    check.lose()
    check.add(PAYLOAD[10:20])
    assert check.finish(ENTRY, PAYLOAD[20:]) is None


def test_a_payload_of_no_bytes() -> None:
    """An empty payload has a hash like any other."""
    assert PayloadCheck().finish(EMPTY, b"") is True
    assert PayloadCheck().finish(ENTRY, b"") is False
