"""Forks among the entries that a store is given: which are found, where, and what is kept of them.

Specification: docs/specs/bamboo.md, "Verification", "Keeping forks".
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import Entry, ForkProof, yamf_hash
from culm.errors import BadSignature, StoreFull
from culm.store import SQLiteStore, State, logview
from culm.testing import build_log, tampered
from tests.bamboo import oracle
from tests.store.forty import LOG, NAME, in_state
from tests.store.model import look

Item = tuple[Entry, bytes | None]


ELSEWHERE = yamf_hash(b"an entry of another branch")
FORKS = {
    "same number": ([4], LOG.make(4, b"otherwise"), 4),
    "common target": ([8], LOG.make(13, b"x", lipmaalink=ELSEWHERE), 4),
    "link to the other": ([7], LOG.make(8, b"x", backlink=ELSEWHERE), 7),
    "after the end": ([9], LOG.make(8, b"x", is_end=True), 8),
    "far after the end": ([40], LOG.make(8, b"x", is_end=True), 8),
}
forks = pytest.mark.parametrize(("held", "other", "position"), FORKS.values(), ids=FORKS)


@forks
@pytest.mark.parametrize("first", [True, False])
def test_forks(store: SQLiteStore, held: list[int], other: Entry, position: int, *, first: bool) -> None:
    """Each of the four cases is found in either order, and the log is invalid from the fork's position on."""
    one = (LOG.entries[held[0] - 1], None)
    rest = LOG.items()[: position - 1]
    reports = [store.add(rest), store.add([one if first else (other, None)])]
    reports.append(store.add([(other, None) if first else one]))
    proof = ForkProof.of(one[0], other)

    assert [proof] == reports[2].forks == list(store.fork_proofs(NAME))
    assert [] == reports[0].forks + reports[1].forks
    assert position == next(store.logs()).forked_at == next(store.logs()).invalid_from
    assert list(range(1, position)) == in_state(store, State.VERIFIED)
    assert sorted([one[0].seq, other.seq]) == in_state(store, State.INVALID)


@forks
def test_proofs_from_elsewhere(store: SQLiteStore, held: list[int], other: Entry, position: int) -> None:
    """A proof invalidates the log from its position on, though nothing else of the log may be held."""
    proof = ForkProof.of(LOG.entries[held[0] - 1], other)
    assert proof is not None
    report = store.add_proof(proof)
    store.add(LOG.items()[:10])

    assert (2, [proof]) == (report.added, report.forks)
    assert list(range(1, min(position, 11))) == in_state(store, State.VERIFIED)
    assert 0 == store.add_proof(proof).added


def test_forged_proofs(store: SQLiteStore) -> None:
    """A proof with a forged entry is refused and leaves nothing behind."""
    proof = ForkProof.of(LOG.entries[3], Entry.decode(tampered(LOG.entries[3])))
    assert proof is not None
    with pytest.raises(BadSignature):
        store.add_proof(proof)

    assert [] == list(store.logs())


def test_a_lower_fork_found_later(store: SQLiteStore) -> None:
    """A second fork below the first moves the log's end down; all proofs are kept, the lowest first.

    There are two for each: the entries of that number, and the next one with its link.
    """
    store.add(LOG.items())
    store.add([(LOG.make(30, b"x"), None)])
    store.add([(LOG.make(20, b"x"), None)])

    assert [20, 20, 30, 30] == [proof.position for proof in store.fork_proofs(NAME)]
    assert list(range(1, 20)) == in_state(store, State.VERIFIED)
    assert (19, None, LOG.entries[18].hash[2:], 20) == look(store, NAME).offer


def test_a_fork_among_waiting_entries(store: SQLiteStore) -> None:
    """Waiting entries that turn out to be forked are never released; those below the fork are."""
    store.add([*LOG.items()[2:9], (LOG.make(7, b"x"), None)])
    store.add(LOG.items()[:2])

    assert [1, 2, 3, 4, 5, 6] == in_state(store, State.VERIFIED)
    assert [7, 7, 8, 9] == in_state(store, State.INVALID)


def test_both_branches_are_kept(store: SQLiteStore) -> None:
    """Entries of one number are all kept up to a limit, the first to come first; more are refused by name."""
    variants = [LOG.make(1, f"variant {at}".encode()) for at in range(logview.MAX_VARIANTS + 2)]
    report = store.add([(entry, LOG.payloads[entry.hash]) for entry in variants])

    assert logview.MAX_VARIANTS == report.added == len(look(store, NAME).states)
    assert [(variants[0].place, StoreFull)] * 2 == [(place, type(error)) for place, error in report.refused]
    assert variants[0] == store.get(variants[0].place).entry  # type: ignore[union-attr]
    assert logview.MAX_VARIANTS - 1 == len(list(store.fork_proofs(NAME)))
    assert {LOG.payloads[entry.hash] for entry in variants[: logview.MAX_VARIANTS]} == set(
        look(store, NAME).payloads.values()
    )


@pytest.mark.parametrize("as_proof", [False, True])
def test_a_lower_contradiction_always_has_room(store: SQLiteStore, as_proof: bool) -> None:
    """Whoever signs as many entries 13 as are kept cannot hide that another one contradicts entry 4."""
    log = build_log(13)
    store.add(log.items())
    full = [log.make(13, f"variant {at}".encode()) for at in range(logview.MAX_VARIANTS)]
    store.add([(entry, None) for entry in full])
    lower = log.make(13, b"on another branch", lipmaalink=yamf_hash(b"another entry 4"))
    proof = ForkProof.of(log.entries[12], lower)
    assert proof is not None
    assert (13, 4) == (next(store.logs()).forked_at, proof.position)
    report = store.add_proof(proof) if as_proof else store.add([(lower, None)])

    assert (1, []) == (report.added, report.refused)
    assert 4 == next(store.logs()).forked_at == next(store.fork_proofs(NAME)).position
    again = store.add([(log.make(13, b"more", lipmaalink=yamf_hash(b"another entry 4")), None)])
    assert [StoreFull] == [type(error) for _, error in again.refused]


@pytest.mark.slow
@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.sampled_from([4, 8, 9, 13]), st.integers(0, 2), st.integers(0, 2), st.booleans()),
        min_size=3,
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_what_is_refused_hides_no_fork(extras: list[tuple[int, int, int, bool]], random: Random) -> None:
    """With room for two entries of a number, the lowest fork is still that of everything that came, in any order."""
    log = build_log(13)
    entries = list(log.entries)
    for at, (seq, back, below, is_end) in enumerate(extras):
        links = [None if other == 0 else yamf_hash(bytes([other])) for other in (back, below)]
        entries.append(log.make(seq, bytes([at]), backlink=links[0], lipmaalink=links[1], is_end=is_end))
    random.shuffle(entries)
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        SQLiteStore(Path(folder) / "store.db") as store,
    ):
        patch.setattr(logview, "MAX_VARIANTS", 2)
        for entry in entries:
            store.add([(entry, None)])
        assert oracle.fork_position(entries) == next(store.logs()).forked_at


def test_the_lowest_proof_is_kept_whatever_the_limit(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """When as many proofs are kept as may be, one of a lower position than all of them still is."""
    monkeypatch.setattr(logview, "MAX_PROOFS", 3)
    store.add(LOG.items())
    for seq in (30, 31, 32, 33, 20):
        store.add([(LOG.make(seq, b"x"), None)])
    positions = [proof.position for proof in store.fork_proofs(NAME)]

    assert 20 == next(store.logs()).forked_at == positions[0]
    assert len(positions) <= 4


def test_other_logs_do_not_care(store: SQLiteStore) -> None:
    """A fork in one log leaves the author's other logs and the same log id of others as they are."""
    builders = [build_log(5), build_log(5, log_id=1), build_log(5, seed=2)]
    store.add([item for builder in builders for item in builder.items()])
    store.add([(builders[0].make(2, b"x"), None)])

    assert [1, 5, 5] == [len(in_state(store, State.VERIFIED, builder.entries[0].log)) for builder in builders]
