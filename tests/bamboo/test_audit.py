"""The auditor of one log against the definition of its verdicts.

Specification: docs/specs/bamboo.md, "Verification", "End of log".
"""

from __future__ import annotations

import random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import Entry, LogAuditor, audit, has_lipmaalink, lipmaa, path, yamf_hash
from tests.bamboo import oracle
from tests.quick import rounds

HASHES = [yamf_hash(str(seq).encode()) for seq in range(20_001)]


def feed(auditor: LogAuditor, seq: int, **otherwise: object) -> bool:
    """Feed entry ``seq`` of a dense log whose hashes are made up, with some fields otherwise."""
    fields = {
        "entry_hash": HASHES[seq],
        "backlink": HASHES[seq - 1] if seq > 1 else None,
        "lipmaalink": HASHES[lipmaa(seq)] if has_lipmaalink(seq) else None,
        "is_end": False,
        **otherwise,
    }
    return auditor.add_fields(seq, **fields)  # type: ignore[arg-type]


def ascending(entries: list[Entry]) -> list[Entry]:
    """In the order an auditor takes; entries of one number in the order given."""
    return sorted(dict.fromkeys(entries), key=lambda entry: entry.seq)


@given(data=st.data())
@settings(deadline=None, max_examples=100)
@pytest.mark.parametrize("prune_from", [0, 1, 256])
def test_verdicts(prune_from: int, data: st.DataObject) -> None:
    """For any part of any log, with forks, ends and gaps, the verdicts and the fork's position are the definition's.

    The same is true however early the auditor forgets, and in whatever order it gets entries of one number.
    """
    items = data.draw(oracle.broken_logs())
    held = [entry for entry, _ in data.draw(oracle.subsets(items))]
    entries = ascending(data.draw(st.permutations(held)))
    with mock.patch("culm.bamboo.audit._PRUNE_FROM", prune_from):
        auditor = LogAuditor()
        has_path = [auditor.add(entry) for entry in entries]
    limit = auditor.invalid_from
    found = {
        entry: oracle.INVALID
        if limit is not None and entry.seq >= limit
        else oracle.VERIFIED
        if connected
        else oracle.WAITING
        for entry, connected in zip(entries, has_path, strict=True)
    }

    assert oracle.fork_position(entries) == limit
    assert oracle.verdicts(entries) == found


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_audit(data: st.DataObject) -> None:
    """``audit`` gives the definition's verdicts for entries in any order, repeated ones counted once."""
    items = data.draw(oracle.broken_logs(max_length=20))
    entries = data.draw(st.permutations([entry for entry, _ in data.draw(oracle.subsets(items))]))
    verdicts, fork = audit([*entries, *entries[:3]])

    assert oracle.fork_position(entries) == (None if fork is None else fork.position)
    assert [(entry, state == oracle.VERIFIED) for entry, state in oracle.verdicts(entries).items()] == sorted(
        verdicts, key=lambda verdict: entries.index(verdict[0])
    )


@given(data=st.data())
@settings(deadline=None, max_examples=100)
def test_findings_can_be_proven(data: st.DataObject) -> None:
    """The two numbers that a finding names are of entries that contradict each other at the finding's position."""
    items = data.draw(oracle.broken_logs(max_extra=4))
    entries = ascending([entry for entry, _ in data.draw(oracle.subsets(items))])
    auditor = LogAuditor()
    for entry in entries:
        auditor.add(entry)
    fork = auditor.fork
    if fork is None:
        return
    proofs = [
        oracle.positions(one, other)
        for one in entries
        for other in entries
        if (one.seq, other.seq) == (fork.first, fork.second)
    ]

    assert fork.position in [at for found in proofs for at in found]


def test_memory() -> None:
    """Of a dense log of 20,000 entries only a few hundred numbers are ever remembered."""
    auditor = LogAuditor()
    remembered = 0
    for seq in range(1, 20_001):
        assert feed(auditor, seq)
        remembered = max(remembered, len(auditor._passed))

    assert auditor.fork is None
    assert remembered <= 300


@pytest.mark.parametrize("seed", rounds(12))
def test_what_is_remembered_is_enough(seed: int) -> None:
    """One wrong link late in a long dense log is found, however far back it leads."""
    rng = random.Random(seed)
    wrong = rng.choice([9841, 9840, 3280, 9477, *rng.sample(range(2000, 9841), 4)])
    auditor = LogAuditor()
    link = "lipmaalink" if has_lipmaalink(wrong) else "backlink"
    target = lipmaa(wrong) if has_lipmaalink(wrong) else wrong - 1
    for seq in range(1, wrong):
        feed(auditor, seq)
    feed(auditor, wrong, **{link: HASHES[0]})

    assert target == auditor.invalid_from


@given(seq=oracle.sequence_numbers())
@settings(deadline=None, max_examples=40)
def test_a_path_is_enough(seq: int) -> None:
    """The entries on a path down to 1 are verified with nothing between them held, up to 2^64 - 1."""
    auditor = LogAuditor()
    found = [
        auditor.add_fields(
            at,
            yamf_hash(str(at).encode()),
            yamf_hash(str(at - 1).encode()) if at > 1 else None,
            yamf_hash(str(lipmaa(at)).encode()) if has_lipmaalink(at) else None,
            is_end=False,
        )
        for at in reversed(path(seq, 1))
    ]

    assert [True] * len(found) == found
    assert auditor.fork is None


def test_descending_entries_are_refused() -> None:
    """Entries that do not ascend are a mistake of the caller."""
    auditor = LogAuditor()
    feed(auditor, 1)
    feed(auditor, 2)
    with pytest.raises(ValueError, match="1 follows 2"):
        feed(auditor, 1)
