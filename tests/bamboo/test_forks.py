"""Fork proofs: the four cases of docs/specs/bamboo.md, "Forks"."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import Entry, ForkCase, ForkProof, contradiction, yamf_hash
from culm.errors import BadSignature, MalformedEntry, TruncatedEntry
from culm.testing import build_log, tampered
from tests.bamboo import oracle

LOG = build_log(40)
AT = {entry.seq: entry for entry in LOG.entries}
ELSEWHERE = yamf_hash(b"an entry of another branch")
PAIRS = {
    "same number": (AT[4], LOG.make(4, b"otherwise"), 4, ForkCase.SAME_NUMBER),
    "same number, other end": (AT[4], LOG.make(4, LOG.payloads[AT[4].hash], is_end=True), 4, ForkCase.SAME_NUMBER),
    "same number, other backlink": (AT[4], LOG.make(4, b"x", backlink=ELSEWHERE), 3, ForkCase.COMMON_TARGET),
    "same number, other links": (
        AT[4],
        LOG.make(4, b"x", backlink=ELSEWHERE, lipmaalink=ELSEWHERE),
        1,
        ForkCase.COMMON_TARGET,
    ),
    "lipmaalinks": (AT[8], LOG.make(13, b"x", lipmaalink=ELSEWHERE), 4, ForkCase.COMMON_TARGET),
    "backlink and lipmaalink": (AT[5], LOG.make(8, b"x", lipmaalink=ELSEWHERE), 4, ForkCase.COMMON_TARGET),
    "backlink to the other": (AT[7], LOG.make(8, b"x", backlink=ELSEWHERE), 7, ForkCase.LINK_TO_OTHER),
    "lipmaalink to the other": (AT[4], LOG.make(8, b"x", lipmaalink=ELSEWHERE), 4, ForkCase.LINK_TO_OTHER),
    "after the end": (LOG.make(8, b"x", is_end=True), AT[40], 8, ForkCase.AFTER_END),
    "after the end with a link to it": (LOG.make(8, b"x", is_end=True), AT[9], 8, ForkCase.AFTER_END),
    "after the end and a common target": (
        LOG.make(12, b"x", is_end=True, lipmaalink=ELSEWHERE),
        LOG.make(13, b"x", backlink=ELSEWHERE),
        12,
        ForkCase.AFTER_END,
    ),
    "below the end": (
        LOG.make(8, b"x", is_end=True, lipmaalink=ELSEWHERE),
        AT[13],
        4,
        ForkCase.COMMON_TARGET,
    ),
}
pairs = pytest.mark.parametrize(("one", "other", "position", "case"), PAIRS.values(), ids=PAIRS)


@pairs
def test_cases(one: Entry, other: Entry, position: int, case: ForkCase) -> None:
    """Each way in which two entries contradict each other is found with its lowest position, in either order."""
    assert (position, case) == contradiction(one, other)
    assert (position, case) == contradiction(other, one)
    assert position == min(oracle.positions(one, other))


@pairs
def test_proofs(one: Entry, other: Entry, position: int, case: ForkCase) -> None:
    """A proof is the same for either order of its entries, survives its encoding, checks, and explains itself."""
    proof = ForkProof.of(one, other)
    assert proof is not None
    proof.check()

    assert proof == ForkProof.of(other, one) == ForkProof.decode(proof.encode())
    assert (position, case) == (proof.position, proof.case)
    assert {one, other} == {proof.first, proof.second}
    assert LOG.entries[0].log == (proof.author, proof.log_id)
    assert f"{case.value} (entries {one.seq} and {other.seq})" == proof.explain()


def test_no_contradiction() -> None:
    """No two entries of an honest log contradict each other, nor does an entry contradict itself."""
    found = [ForkProof.of(one, other) for one in LOG.entries for other in LOG.entries]

    assert [None] * 1600 == found


def test_an_end_contradicts_nothing_before_it() -> None:
    """The entries before an end-of-log entry are in order."""
    end = LOG.make(8, b"x", is_end=True)

    assert [None] * 7 == [contradiction(end, entry) for entry in LOG.entries[:7]]


def test_entries_of_different_logs() -> None:
    """Entries of different logs or authors cannot contradict each other."""
    others = [build_log(1, log_id=1).entries[0], build_log(1, seed=2).entries[0]]

    assert [None, None] == [contradiction(AT[1], other) for other in others]


@given(items=oracle.broken_logs(max_length=20))
@settings(deadline=None, max_examples=60)
def test_any_pair(items: list[tuple[Entry, bytes]]) -> None:
    """For any two authentic entries the position is the lowest of those the definition names, or there is none."""
    entries = sorted({entry for entry, _ in items}, key=lambda entry: (entry.seq, entry.encoded))
    chosen = list(combinations(entries, 2))
    expected = [min(oracle.positions(one, other), default=None) for one, other in chosen]
    found = [contradiction(one, other) for one, other in chosen]

    assert expected == [None if it is None else it[0] for it in found]


def test_decoding_refuses_what_is_no_proof() -> None:
    """Two entries that agree, or stand in the wrong order, or are followed by something, are no proof."""
    proof = ForkProof.of(AT[4], LOG.make(4, b"otherwise"))
    assert proof is not None
    wrong = [
        AT[3].encoded + AT[4].encoded,
        AT[4].encoded + AT[4].encoded,
        proof.second.encoded + proof.first.encoded,
        proof.encode() + b"\x00",
        proof.first.encoded + tampered(proof.second, 0) + b"\x00",
    ]
    for data in wrong:
        with pytest.raises(MalformedEntry, match="not a fork proof"):
            ForkProof.decode(data)


def test_every_truncation_of_a_proof() -> None:
    """However a proof is cut, the error says so."""
    proof = ForkProof.of(AT[1], LOG.make(1, b"otherwise"))
    assert proof is not None
    data = proof.encode()
    for length in range(len(data)):
        with pytest.raises(TruncatedEntry):
            ForkProof.decode(data[:length])


@given(at=st.integers(0), bit=st.integers(0, 7))
@settings(deadline=None)
def test_tampered_proofs(at: int, bit: int) -> None:
    """A proof with one bit changed cannot be read, or one of its entries is not authentic: nobody can be framed."""
    proof = ForkProof.of(AT[4], LOG.make(4, b"otherwise"))
    assert proof is not None
    data = bytearray(proof.encode())
    data[at % len(data)] ^= 1 << bit
    try:
        found = ForkProof.decode(data)
    except MalformedEntry:
        return

    with pytest.raises(BadSignature):
        found.check()


@pytest.mark.parametrize("which", [0, 1])
def test_one_forged_entry(which: int) -> None:
    """A proof of which one entry is forged is refused, whichever it is."""
    pair = [AT[4], LOG.make(4, b"otherwise")]
    pair[which] = Entry.decode(tampered(pair[which]))
    proof = ForkProof.of(*pair)
    assert proof is not None

    with pytest.raises(BadSignature):
        proof.check()
