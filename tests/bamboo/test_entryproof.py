"""Proofs of entries: docs/specs/proof.md, "What a proof holds", "Format", "Checking", "Size", "Examples"."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo import ForkProof, Identity, certificate_pool, has_lipmaalink, lipmaa
from culm.bamboo.entryproof import MAX_PROOF_BYTES, EntryProof, check_proof, numbers_of
from culm.errors import InvalidProof
from culm.testing import LogBuilder, build_log
from tests.quick import rounds

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "proof" / "examples.json").read_text())
PARTS = {part["part"]: bytes.fromhex(part["hex"]) for part in VECTORS["parts"]}
EXAMPLE = b"".join(PARTS.values())
AUTHOR = Identity(bytes(range(32))).public
LOG = build_log(60)


def made(seq: int, top: int, *, fork: ForkProof | None = None, has_payload: bool = False) -> EntryProof:
    """The proof of an entry of ``LOG``."""
    return EntryProof(tuple(LOG.entries[number - 1] for number in numbers_of(seq, top)), seq, fork, has_payload)


def changed(parts: dict[str, bytes]) -> bytes:
    """The example with other parts; an empty one is left out."""
    assert parts.keys() <= PARTS.keys()
    return b"".join(parts.get(name, value) for name, value in PARTS.items())


def with_flags(flags: int) -> bytes:
    """The example with other flags."""
    return changed({"flags: the payload follows": bytes([flags])})


def test_the_example() -> None:
    """The bytes of the example are read, are right, and come out the same."""
    proof, payload = check_proof(EXAMPLE, AUTHOR)
    assert [entry.seq for entry in proof.entries] == [1, 4, 5]
    assert (proof.entry.seq, proof.top.seq, proof.fork, payload) == (4, 5, None, b"bamboo 4")
    assert (proof.entry.author, proof.entry.log_id, proof.entry.size) == (AUTHOR, 0, 8)
    assert proof.entry.backlink == b"\x00\x40" + PARTS["entry 4: backlink, because entry 3 is not in the proof"]
    assert proof.top.backlink == proof.entry.hash
    assert proof.encode() + (payload or b"") == EXAMPLE


@pytest.mark.parametrize(("places", "numbers"), VECTORS["numbers"].items())
def test_the_numbers(places: str, numbers: list[int]) -> None:
    """The numbers of a proof follow from those of the entry and the top."""
    assert numbers_of(*map(int, places.split(","))) == numbers


@given(st.integers(1, 2**40), st.integers(0, 2**41))
def test_the_pool_is_on_every_path(seq: int, more: int) -> None:
    """The path from any top passes the whole certificate pool of the entry, as far as the top."""
    assert set(certificate_pool(seq, seq + more)) <= set(numbers_of(seq, seq + more))


@given(st.integers(1, 60), st.integers(1, 60), st.binary(max_size=20), st.booleans())
def test_any_entry_and_top(one: int, other: int, tail: bytes, has_payload: bool) -> None:
    """A proof is read as it was written, whatever follows it, and it holds."""
    seq, top = sorted((one, other))
    proof = made(seq, top, has_payload=has_payload)
    found, end = EntryProof.decode_prefix(proof.encode() + tail)
    found.check()
    assert (found, end) == (proof, len(proof.encode()))


def test_sizes() -> None:
    """The table of sizes on the page; of a million entries at most 12 kB up to the pool, and 16 kB to the newest."""
    for newest, pool, whole in ((1_000, 3.8, 4.7), (100_000, 6.1, 7.2), (1_000_000, 8.3, 11.1), (10**9, 12.6, 15.5)):
        seq = newest // 2
        for top, expected in ((certificate_pool(seq, newest)[0], pool), (newest, whole)):
            assert round(size_of(numbers_of(seq, top)) / 1000, 1) == pytest.approx(expected, abs=0.11)
    assert size_of(numbers_of(500_000, 797_161)) <= 12_000
    assert size_of(numbers_of(500_000, 1_000_000)) <= 16_000


def size_of(numbers: list[int]) -> int:
    """The bytes of a proof with entries of these numbers, by the table of the page; payloads below 248 bytes."""
    head = 10 + 1 + 1 + 32 + 1 + 5 + 5
    links = [(lipmaa(seq), has_lipmaalink(seq)) for seq in numbers] + [(seq - 1, seq > 1) for seq in numbers]
    return head + len(numbers) * (1 + 64 + 64) + 64 * sum(exists and target not in numbers for target, exists in links)


@pytest.mark.slow
def test_the_longest_proof() -> None:
    """No proof without its payload is longer than the limit."""
    rng = Random(1)
    pairs = [sorted((rng.randrange(1, 2**64), rng.randrange(1, 2**64))) for _ in range(2000)]
    longest = max(len(numbers_of(seq, top)) for seq, top in pairs)
    assert 200 < longest < 250
    assert 250 * (9 + 3 * 64 + 64) + 2 * 322 + 100 < MAX_PROOF_BYTES


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "begins with other bytes"),
        (b"culm-proof", "cannot read, or truncated"),
        (b"culm-proof\x02" + EXAMPLE[11:], "a version that this version of Culm cannot read"),
        (with_flags(8), "unknown flags: 8"),
        (EXAMPLE[:43], "breaks its format"),
        (EXAMPLE[:200], "it ends after 200 bytes, in entry 4"),
        (changed({"number": b"\x00"}), "an entry that no log can have"),
        (changed({"number": b"\xff" * 9, "top less the number": b"\x01"}), "an entry that no log can have"),
        (changed({"number": b"\xf8\x04"}), "not in its shortest form"),
        (changed({"log id": b"\x01"}), "entry 1 has a wrong signature"),
        (changed({"author": bytes(32)}), "entry 1 has a wrong signature"),
        (changed({"payload of entry 4": b"bamboo 5"}), "the hash differs"),
        (changed({"payload of entry 4": b"bamboo 44"}), "the hash differs"),
        (changed({"payload of entry 4": b""}), "the hash differs"),
        (with_flags(0), "8 bytes follow the proof, which has no payload"),
        (with_flags(5), "entry 5 has a wrong signature"),
        (with_flags(6), "breaks its format"),
    ],
)
def test_what_is_refused(data: bytes, reason: str) -> None:
    """A proof with anything wrong is refused, and the reason is said."""
    with pytest.raises(InvalidProof, match=reason):
        check_proof(data)


def test_another_author() -> None:
    """A proof of another author than expected is refused, because anybody can make a key and a log."""
    with pytest.raises(InvalidProof, match="another author"):
        check_proof(EXAMPLE, bytes(32))


def test_a_thousand_mutations() -> None:
    """Whatever single byte is changed, left out or put in: the proof is refused."""
    rng = Random(7)
    proof = made(39, 60, has_payload=True)
    whole = proof.encode() + LOG.payloads[proof.entry.hash]
    for _ in rounds(1000, 100):
        at = rng.randrange(len(whole))
        kind = rng.randrange(3)
        middle = b"" if kind == 0 else bytes([whole[at] ^ rng.randrange(1, 256)]) + whole[at : at + 1] * (kind == 1)
        with pytest.raises(InvalidProof):
            check_proof(whole[:at] + middle + whole[at + 1 :])


def test_another_branch() -> None:
    """Entries of two branches make no proof: the first one that links to another branch has a wrong signature then."""
    branch = LogBuilder(LOG.identity)
    branch.entries = LOG.entries[:4]
    for seq in range(5, 14):
        branch.append(b"another %d" % seq)
    mixed = [(LOG if seq <= 5 else branch).entries[seq - 1] for seq in numbers_of(5, 13)]
    with pytest.raises(InvalidProof, match="entry 6 has a wrong signature"):
        check_proof(EntryProof(tuple(mixed), 5).encode())


def test_the_end_of_the_log() -> None:
    """The top can be the end of its log, and no entry below it."""
    log = LogBuilder(Identity(bytes(32)))
    for number in range(3):
        log.append(b"%d" % number, is_end=number == 2)
    proof = EntryProof(tuple(log.entries), 2)
    assert check_proof(proof.encode()).proof.top.is_end
    assert proof.encode()[11] == 1


def forked(at: int) -> ForkProof:
    """A contradiction of the author of ``LOG`` at a number."""
    other = LOG.make(at, b"other")
    proof = ForkProof.of(LOG.entries[at - 1], other)
    assert proof is not None
    return proof


def test_a_fork_above_the_top() -> None:
    """A proof can tell of a fork above its top, and is read with it."""
    proof = made(5, 13, fork=forked(14))
    assert check_proof(proof.encode()).proof.fork == forked(14)
    assert proof.encode()[11] == 2


@pytest.mark.parametrize("at", [3, 5, 13])
def test_a_fork_below_the_top(at: int) -> None:
    """A proof whose history reaches a fork proves nothing: nobody can say which branch is the right one."""
    with pytest.raises(InvalidProof, match=f"forked the log at entry {at}"):
        check_proof(made(5, 13, fork=forked(at)).encode())


def test_a_fork_that_is_none() -> None:
    """A fork of another log, or with a wrong signature, is refused."""
    other = build_log(20, seed=2)
    elsewhere = ForkProof.of(other.entries[13], other.make(14, b"other"))
    with pytest.raises(InvalidProof, match="of another log"):
        check_proof(made(5, 13, fork=elsewhere).encode())
    encoded = bytearray(made(5, 13, fork=forked(14)).encode())
    encoded[-1] ^= 1
    with pytest.raises(InvalidProof, match="wrong signature"):
        check_proof(bytes(encoded))


def test_entries_beside_the_path() -> None:
    """A proof is not written with other entries than those its numbers name."""
    with pytest.raises(ValueError, match="exactly the entries on its path"):
        EntryProof(tuple(LOG.entries[:5]), 5).encode()
