"""Each check of peers that speak by proposals fails against a peer that is wrong just there.

The answers are written by hand. That the checks pass against a peer that is right shows ``tests/cli/wire/test_check``.
Specification: docs/specs/proposals.md.
"""

from __future__ import annotations

import pytest

from culm.bamboo import encode_varu64
from culm.conformance import Outcome, Refused
from tests.conformance.scripted import CLOSES, LOG, Script, breaking, hexed, made, polite


def control(message: str) -> bytes:
    """A message on the control channel."""
    return b"\x20\x00" + bytes([len(hexed(message))]) + hexed(message)


def data(*messages: str | bytes) -> bytes:
    """Messages on the data channel."""
    content = b"".join(hexed(each) if isinstance(each, str) else each for each in messages)
    return b"\x21\x01" + len(content).to_bytes(2, "big") + content


SETUP = hexed("00 00 00")
HI = SETUP + control("00 04") + hexed("01 01 1000")
"""A setup, credit for four proposals, and for 4,096 bytes of data."""
NOTHING = b""
YES, SWITCH = control("70 00"), "00 00"
E1, E2, E3, E4, E5 = LOG.entries


def m(seq: int, *backlink: bytes) -> bytes:
    """The metadata of an entry as it travels."""
    entry = LOG.entries[seq - 1]
    return b"".join((b"\x80", *backlink, encode_varu64(entry.size), entry.payload_hash, entry.signature))


def p(seq: int, size: int = 20) -> bytes:
    """The beginning of the payload of an entry."""
    return b"\x08" + bytes([size]) + LOG.payloads[LOG.entries[seq - 1].hash][:size]


FORGED = m(1)[:-1] + bytes([m(1)[-1] ^ 1])
THEIRS = "e0 01" + LOG.entries[0].author.hex() + "00 03 01 00 ff" + 8 * "ff"
CANCELLED = (HI, YES, NOTHING, control("83 00"), data("20 00"))
"""A peer through all four messages of a cancellation."""
WRONG: dict[str, tuple[bytes | None, ...]] = {
    "setup": (NOTHING, NOTHING),
    "ignored bits": (NOTHING, SETUP + hexed("e0")),
    "grants credit": (SETUP,),
    "grants data credit": (SETUP + control("00 04"),),
    "ping": (HI,),
    "unknown log": (HI, NOTHING, NOTHING, control("10 00")),
    "cancellation": (HI, NOTHING, YES, NOTHING, control("83 00")),
    "crossing cancellations": (HI, NOTHING, NOTHING, NOTHING, NOTHING, control("82 02"), data("20 00")),
    "freed ids": (HI, NOTHING, *CANCELLED[1:], CLOSES),
    "byte by byte": (HI,),
    "no proposal without credit": (HI, NOTHING, NOTHING, control(THEIRS)),
    "held log": (HI, NOTHING, NOTHING, YES + data(SWITCH, FORGED, p(1))),
    "sparse range": (HI, NOTHING, NOTHING, YES + data(SWITCH, m(1), p(1), m(4), p(4))),
    "lower pool": (HI, NOTHING, NOTHING, YES + data(SWITCH, m(4, E3.hash), m(5), p(5))),
    "upper pool": (HI, NOTHING, NOTHING, YES + data(SWITCH, m(1), m(2), p(2), m(3), p(3))),
    "payloads only": (HI, NOTHING, NOTHING, YES + data(SWITCH, m(1), p(1))),
    "notices only": (HI, NOTHING, NOTHING, YES + data(SWITCH, "02", p(1))),
    "limit": (HI, NOTHING, NOTHING, YES + data(SWITCH, m(1), p(1))),
    "largest payload": (HI, NOTHING, NOTHING, YES + data(SWITCH, m(1), p(1))),
    "smallest payload": (HI, NOTHING, NOTHING, YES + data(SWITCH, m(1), "05")),
    "offset": (HI, NOTHING, NOTHING, YES + data(SWITCH, p(1, 10))),
    "expected hash": (HI, NOTHING, NOTHING, YES + data(SWITCH, m(2, E1.hash), p(2))),
    "code 85": (HI, NOTHING, control("80 00")),
    "no data without credit": (HI, NOTHING, NOTHING, YES + data(SWITCH, m(1))),
    "overlap": (HI, NOTHING, NOTHING, control(THEIRS), NOTHING, control("70 02")),
}


def test_each_check_has_a_peer_that_is_wrong() -> None:
    """The table has every check that keeps to the protocol."""
    assert {*polite("proposals")} == {*WRONG}
    assert len(polite("proposals")) + len(breaking("proposals")) >= 45


@pytest.mark.parametrize("item", WRONG)
def test_a_wrong_peer_fails(item: str) -> None:
    """A peer whose answer is wrong fails, with what was due and what came."""
    result = made("proposals", item, Script(*WRONG[item]))

    assert Outcome.FAILED is result.outcome, result
    assert result.reason
    assert result.expected != result.reason


@pytest.mark.parametrize("item", breaking("proposals"))
def test_a_peer_that_puts_up_with_a_violation_fails(item: str) -> None:
    """A peer that neither answers nor hangs up after a violation fails."""
    result = made("proposals", item, Script(HI))

    assert Outcome.FAILED is result.outcome
    assert "the connection stays open" == result.reason
    assert Outcome.PASSED is made("proposals", item, Script(HI, NOTHING, CLOSES)).outcome


@pytest.mark.parametrize(
    ("item", "answers", "reason"),
    [
        ("unknown log", (HI, NOTHING, NOTHING, YES + data(SWITCH, m(1))), "metadata"),
        ("unknown log", (HI, NOTHING, NOTHING, YES + data("00 02", m(1))), "items of proposal 2"),
        ("held log", (HI, NOTHING, NOTHING, control("82 00")), "cancellation of proposal 0 with code 130"),
        ("held log", (HI, NOTHING, NOTHING, YES + data(SWITCH, m(1), b"\x08\x14" + 20 * b"x")), "another hash"),
        ("held log", (HI, NOTHING, NOTHING, YES + data("01")), "no message begins with 01"),
        ("sparse range", (HI, NOTHING, NOTHING, YES + data(SWITCH, m(1), p(1), m(4))), "m_4 without a backlink"),
        ("code 85", (HI, NOTHING, control("85 00" + E2.encoded.hex())), "another entry"),
        ("code 85", (HI, NOTHING, control("85 00" + E1.encoded[:-1].hex() + "00")), "signature"),
        ("no data without credit", (HI, NOTHING, NOTHING, YES + data(SWITCH, m(1))), "more than granted"),
        ("cancellation", (HI, NOTHING, YES, NOTHING, control("83 02")), "proposal 2"),
    ],
)
def test_what_is_wrong_is_said(item: str, answers: tuple[bytes | None, ...], reason: str) -> None:
    """The report names what came."""
    result = made("proposals", item, Script(*answers))

    assert Outcome.FAILED is result.outcome
    assert reason in result.reason


def test_what_cannot_be_decided_is_skipped_with_a_reason() -> None:
    """Where the peer proposes nothing, or grants more than a check uses up, the check says so."""
    quiet = made("proposals", "overlap", Script(HI))
    many = made("proposals", "proposal without credit", Script(SETUP + control("00 fa010000")))
    back = made("proposals", "proposal without credit", Script(HI, control("80 00 00 01")))

    assert [Outcome.SKIPPED] * 3 == [result.outcome for result in (quiet, many, back)]
    assert "does not propose" in quiet.reason
    assert "65536" in many.reason
    assert "gives their credit back" in back.reason


def test_a_peer_that_refuses_us() -> None:
    """A connection that is closed before a byte came decides nothing."""
    with pytest.raises(Refused):
        made("proposals", "ping", Script(NOTHING, CLOSES))
