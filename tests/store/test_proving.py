"""Proofs of entries out of a store: docs/specs/proof.md, "What a proof holds"."""

from __future__ import annotations

import pytest

from culm.bamboo import certificate_pool, path
from culm.bamboo.entryproof import check_proof, numbers_of
from culm.errors import ForkDetected, NotHeld, Place
from culm.store import SQLiteStore
from culm.store.proving import make_proof
from culm.testing import build_log
from tests.store.forty import LOG, NAME


def place(seq: int) -> Place:
    """An entry of the log of forty."""
    return Place(*NAME, seq)


def hold(store: SQLiteStore, *numbers: int) -> None:
    """Let the store have entries of the log of forty."""
    store.add([LOG.items()[seq - 1] for seq in sorted(set(numbers))])


@pytest.mark.parametrize("seq", [1, 2, 13, 14, 21, 39, 40])
def test_a_whole_log(store: SQLiteStore, seq: int) -> None:
    """The history that is shown reaches from entry 1 to the newest entry, or with ``short`` to the pool's highest."""
    hold(store, *range(1, 41))
    proof, stored = make_proof(store, place(seq))
    assert [entry.seq for entry in proof.entries] == numbers_of(seq, 40)
    assert (proof.seq, stored.entry, proof.fork) == (seq, LOG.entries[seq - 1], None)
    assert check_proof(proof.encode(), NAME[0]).proof == proof

    short, _ = make_proof(store, place(seq), short=True)
    assert [entry.seq for entry in short.entries] == sorted(certificate_pool(seq, 40))
    assert check_proof(short.encode()).proof == short


def test_a_part_of_a_log(store: SQLiteStore) -> None:
    """Without the path from the newest entry the history ends at the highest entry of the pool that is connected."""
    hold(store, *path(21, 1), 22, 23, 39)
    proof, _ = make_proof(store, place(21))
    assert proof.top.seq == 23
    assert check_proof(proof.encode()).proof == proof
    hold(store, *certificate_pool(21))
    assert make_proof(store, place(21))[0].top.seq == 40


def test_what_is_not_verified(store: SQLiteStore) -> None:
    """There is no proof of an entry that is not held, or that waits for its path, or of an unknown log."""
    hold(store, 1, 21)
    for missing in (place(2), place(21), Place(bytes(32), 0, 1)):
        with pytest.raises(NotHeld, match="no verified entry"):
            make_proof(store, missing)


def test_payloads(store: SQLiteStore) -> None:
    """A payload that was deleted cannot be put into a proof, and the proof without it is as before."""
    hold(store, *range(1, 41))
    before = make_proof(store, place(8))[0].encode()
    assert make_proof(store, place(8), with_payload=True)[0].has_payload
    store.forget(place(8))
    assert make_proof(store, place(8))[0].encode() == before
    with pytest.raises(NotHeld, match="0 of 20 bytes of the payload"):
        make_proof(store, place(8), with_payload=True)


def test_forks(store: SQLiteStore) -> None:
    """Below a fork a proof tells of it, and its history ends below; from its position on there is no proof."""
    hold(store, *range(1, 41))
    other = LOG.make(30, b"another thirty")
    store.add([(other, b"another thirty")])
    proof, _ = make_proof(store, place(21))
    assert (proof.top.seq, proof.fork and proof.fork.position) == (29, 30)
    assert check_proof(proof.encode()).proof == proof
    for seq in (30, 31):
        with pytest.raises(ForkDetected):
            make_proof(store, place(seq))


def test_the_end_of_a_log(store: SQLiteStore) -> None:
    """The top is the entry that ends the log, if that is the newest."""
    log = build_log(3, seed=5)
    log.append(b"", is_end=True)
    store.add(log.items())
    proof, _ = make_proof(store, log.entries[0].place)
    assert proof.top.is_end
    assert check_proof(proof.encode()).proof == proof
