"""The proofs of forks and what is valid of forked logs, against a store and the definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Entry, ForkProof
from culm.bamboo.forks import contradiction
from culm.spark.batches import pack
from culm.spark.verification import forks, gather
from culm.store import SQLiteStore
from tests.spark import local
from tests.spark.random_logs import RandomLogs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def found_forks(entries: Iterable[Entry]) -> dict[tuple[bytes, int], forks.Fork]:
    """The forks that the steps find, by log."""
    found = local.verified(local.found_rows(entry.encoded for entry in entries), keep=True)
    table = local.rows_of(forks.forks(*found.forked()))
    return {(row.author, row.log_id): row for row in table}


@pytest.fixture(params=[1, 12])
def _block_bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pack, gather):
        monkeypatch.setattr(module, "BLOCK_BITS", request.param)


@pytest.mark.slow
@pytest.mark.usefixtures("_block_bits")
@pytest.mark.parametrize("seed", range(3))
def test_random_logs(tmp_path: Path, seed: int) -> None:
    """Of every forked log the lowest position, a proof of it and the valid start are those of a store.

    The proof is the lowest there is, whatever the order of the entries.
    """
    logs = RandomLogs(seed=seed, count=30)
    found = found_forks(entry for entry, _ in logs.items)
    assert found == found_forks(entry for entry, _ in logs.items)  # in another order
    with SQLiteStore(tmp_path / "store") as store:
        store.add([(entry, None) for entry, _ in logs.items])
        for of_log in logs.by_log():
            entries = list(of_log)
            log = entries[0].log
            proofs = list(store.fork_proofs(log))
            assert bool(proofs) == (log in found)
            if not proofs:
                continue
            row = found[log]
            assert min(proof.position for proof in proofs) == row.position
            proof = ForkProof.decode(row.proof)
            proof.check()
            pair = (proof.first.seq, proof.second.seq)
            assert (proof.position, proof.case.value, *pair) == (
                row.position,
                row.case,
                row.first_seq,
                row.second_seq,
            )
            if proof.case.name != "AFTER_END":
                assert (proof.first.encoded, proof.second.encoded) == lowest_pair(entries, row.position)
            verified = {stored.entry.seq for stored in store.entries(log)}
            valid_to = 0
            while valid_to + 1 in verified:
                valid_to += 1
            assert valid_to == row.valid_to


def lowest_pair(entries: list[Entry], position: int) -> tuple[bytes, bytes]:
    """Of all pairs that contradict each other at a position, the lowest, by trying them all."""
    ordered = sorted(set(entries), key=lambda entry: (entry.seq, entry.encoded))
    for at, one in enumerate(ordered):
        for other in ordered[at + 1 :]:
            found = contradiction(one, other)
            if found is not None and found[0] == position and not (one.seq == position and one.is_end):
                return one.encoded, other.encoded
    raise AssertionError("no pair")


def test_no_fork() -> None:
    """Logs that are not forked have no row."""
    logs = RandomLogs(seed=3, count=1)
    (log,) = logs.by_log()
    first = min(log, key=lambda entry: entry.seq)
    assert {} == found_forks([first])
