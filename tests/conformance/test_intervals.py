"""Each check of interval peers fails against a peer that is wrong just there, so no check can always pass.

The answers are written by hand. That the checks pass against a peer that is right shows ``tests/cli/wire/test_check``.
Specification: docs/specs/intervals.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.bamboo import encode_varu64
from culm.conformance import Outcome, Refused
from tests.conformance.scripted import CLOSES, ENDED, LOG, Script, breaking, hexed, items_of, made, polite

if TYPE_CHECKING:
    from culm.testing import LogBuilder

HI = hexed("b0 f90400")
"""The grant of 1,024 requests with which a peer begins."""
NOTHING = b""
E1, E2, E3, E4, E5 = LOG.entries


def m(seq: int, *links: int, log: LogBuilder = LOG) -> bytes:
    """The metadata of an entry as it travels, with these links."""
    entry = log.entries[seq - 1]
    shown = b"".join(LOG.entries[link - 1].hash for link in links)
    return bytes([entry.is_end]) + shown + encode_varu64(entry.size) + entry.payload_hash + entry.signature


def p(seq: int) -> bytes:
    """The payload of an entry."""
    return LOG.payloads[LOG.entries[seq - 1].hash]


def eager(*items: bytes, start: str = "") -> bytes:
    """An eager answer."""
    data = b"".join(items)
    return b"\x80" + hexed(start) + encode_varu64(len(data)) + data


FORGED = m(1)[:-1] + bytes([m(1)[-1] ^ 1])
WRONG: dict[str, tuple[bytes | None, ...]] = {
    "grants credit": (hexed("c0 05"),),
    "unknown log": (HI, NOTHING, hexed("80 01 00")),
    "unknown log, newest": (HI, hexed("90 01 01 00") + E1.hash),
    "cancellation": (HI, NOTHING, hexed("ac")),
    "cancellation without credit": (HI, NOTHING, NOTHING, NOTHING),
    "freed ids": (HI, NOTHING, hexed("a8"), NOTHING, CLOSES),
    "late cancellation": (HI, NOTHING, hexed("a8"), CLOSES),
    "byte by byte": (HI,),
    "ignored bits": (HI, CLOSES),
    "grants of zero": (HI, CLOSES),
    "no request without credit": (HI, NOTHING, hexed("02 00 00" + 32 * "07" + "00 01 00 05 00")),
    "single entry": (HI, NOTHING, eager(FORGED, p(1))),
    "ascending": (HI, NOTHING, eager(m(3, 2), p(3), m(2, 1), p(2), m(1), p(1))),
    "descending": (HI, NOTHING, eager(m(1), p(1), m(2), p(2), m(3), p(3))),
    "lower pool": (HI, NOTHING, eager(m(1), m(4, 1, 3), m(5), p(5))),
    "part of a pool": (HI, NOTHING, eager(m(5, 4), p(5), m(4, 1, 3), m(1))),
    "upper pool": (HI, NOTHING, eager(m(2, 1), m(3)) + hexed("ac")),
    "metadata down": (HI, NOTHING, eager(m(5, 4), p(5), m(4, 1, 3), m(1))),
    "no data without credit": (HI, NOTHING, eager(m(1), p(1))),
    "lazy": (HI, hexed("90 06 00") + E2.hash),
    "resolved start, lazy": (HI, hexed("90 02 06 00") + E3.hash),
    "newest": (HI, NOTHING, eager(m(4, 1, 3), p(4), start="04")),
    "newest, lazy": (HI, hexed("90 03 05 00") + E4.hash),
    "largest payload": (HI, NOTHING, eager(m(1), p(1))),
    "smallest payload": (HI, NOTHING, eager(m(1), p(1))),
    "immediate payload": (HI, NOTHING, eager(p(1)[:10])),
    "offset beyond, eager": (HI, NOTHING, hexed("80 00")),
    "offset beyond, lazy": (HI, hexed("90 01 00")),
    "expected hash": (HI, NOTHING, eager(m(2, 1), p(2))),
    "other hash": (HI, NOTHING, eager(m(2), p(2))),
    "adjustment": (HI, NOTHING, hexed("90 0a 00") + E5.hash, eager(m(2, 1), p(2))),
}


def test_each_check_has_a_peer_that_is_wrong() -> None:
    """The table has every check that keeps to the protocol; one needs a log of its own."""
    assert {*polite("intervals")} == {*WRONG, "end of the log"}
    assert len(polite("intervals")) + len(breaking("intervals")) >= 50


@pytest.mark.parametrize("item", WRONG)
def test_a_wrong_peer_fails(item: str) -> None:
    """A peer whose answer is wrong fails, with what was due and what came."""
    result = made("intervals", item, Script(*WRONG[item]))

    assert Outcome.FAILED is result.outcome, result
    assert result.reason
    assert result.expected != result.reason


@pytest.mark.parametrize("item", breaking("intervals"))
def test_a_peer_that_puts_up_with_a_violation_fails(item: str) -> None:
    """A peer that neither answers nor hangs up after a violation fails."""
    result = made("intervals", item, Script(hexed("b0 02")))

    assert Outcome.FAILED is result.outcome
    assert "the connection stays open" == result.reason
    assert Outcome.PASSED is made("intervals", item, Script(hexed("b0 02"), CLOSES)).outcome


@pytest.mark.parametrize(
    ("item", "answers", "reason"),
    [
        ("single entry", (HI, NOTHING, eager(m(1), p(1)) + hexed("ac")), "an end of the response with reason 11"),
        ("single entry", (HI, NOTHING, eager(m(1), b"x" * 20)), "another hash"),
        ("single entry", (HI, NOTHING, hexed("81")), "no message begins with 81"),
        ("lazy", (HI, hexed("90 07 00") + E3.hash), "7 items"),
        ("lazy", (HI, eager(m(1))), "more than granted"),
        ("cancellation", (HI, hexed("e0 05")), "request 5, which is not open"),
        ("cancellation", (HI, hexed("d0 00")), "that the peer never made"),
        ("newest", (HI, NOTHING, CLOSES), "ended the connection"),
        ("other hash", (HI, NOTHING, hexed("a4 00 01") + m(1)[1:-1] + b"\0"), "signature"),
    ],
)
def test_what_is_wrong_is_said(item: str, answers: tuple[bytes | None, ...], reason: str) -> None:
    """The report names what came."""
    result = made("intervals", item, Script(*answers))

    assert Outcome.FAILED is result.outcome
    assert reason in result.reason


def test_the_end_of_a_log() -> None:
    """A peer that stays silent behind the end of a log fails; one that ends with reason 11 passes."""
    last = m(1, log=ENDED) + b"the only one"
    silent = Script(HI, NOTHING, eager(last))
    right = Script(
        HI, NOTHING, eager(last) + hexed("ac"), NOTHING, hexed("e001 9002 00") + ENDED.entries[0].hash + b"\xac"
    )

    assert Outcome.FAILED is made("intervals", "end of the log", silent, entries=items_of(ENDED)).outcome
    assert Outcome.PASSED is made("intervals", "end of the log", right, entries=items_of(ENDED)).outcome
    assert Outcome.SKIPPED is made("intervals", "end of the log", Script(HI)).outcome


def test_what_cannot_be_decided_is_skipped_with_a_reason() -> None:
    """Without a log, without room for requests, or where the peer may choose, a check says why it is left out."""
    without = made("intervals", "single entry", Script(HI), entries=(), log=None)
    many = made("intervals", "request without credit", Script(hexed("b0 fa010000")))
    stateless = made("intervals", "adjustment", Script(HI, NOTHING, hexed("90 0a 00") + E5.hash + b"\xae"))

    assert [Outcome.SKIPPED] * 3 == [result.outcome for result in (without, many, stateless)]
    assert "--log" in without.reason
    assert "65536" in many.reason
    assert "at once" in stateless.reason


def test_a_peer_that_refuses_us() -> None:
    """A connection that is closed before a byte came decides nothing."""
    with pytest.raises(Refused):
        made("intervals", "cancellation", Script(CLOSES))
