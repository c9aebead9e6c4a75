"""What peers are told of interests, and what is still to be asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from culm.errors import ConfigError
from culm.node.culm import interests as told
from culm.node.culm.interests import interest_for_peer
from culm.node.interests.choices import ChoicesWatch
from culm.node.interests.missing import EVERYTHING, lacking, missing
from culm.node.interests.policy import Policy, PolicyFile
from culm.ranges import Range, RangeSet, read_range
from culm.store import SQLiteStore
from culm.testing.builders import LogBuilder, build_log
from tests.node.peers import key

if TYPE_CHECKING:
    from pathlib import Path

    from tests.node.links import Party

AUTHOR = b"a" * 32
LOG = (AUTHOR, 1)


class Forgot:
    """A store that only knows what was forgotten."""

    def __init__(self, numbers: set[int]) -> None:
        self._numbers = numbers

    def forgotten(self, log: tuple[bytes, int], limit: int) -> list[tuple[int, int]]:
        """The runs."""
        assert log == LOG
        runs: list[tuple[int, int]] = []
        for seq in sorted(self._numbers):
            if runs and runs[-1][1] == seq - 1:
                runs[-1] = (runs[-1][0], seq)
            else:
                runs.append((seq, seq))
        return runs[:limit]


RUNS = st.lists(st.tuples(st.integers(1, 120), st.integers(0, 40)), max_size=8)
TEXTS = st.sampled_from(
    [
        "1..",
        "20..90",
        "5.. sparse",
        "1..100 sparse",
        "7",
        "10.. metadata",
        "3..50 payloads",
        "1.. max 5",
        "2.. without 9,30",
    ]
)


@settings(deadline=None)
@given(runs=RUNS, texts=st.lists(TEXTS, min_size=1, max_size=3), long=st.sampled_from([2, 16, 1000]))
def test_told_is_the_interest_without_what_was_forgotten(
    runs: list[tuple[int, int]], texts: list[str], long: int
) -> None:
    """All metadata and exactly the payloads that were not forgotten are told, as ranges that any peer takes."""
    forgotten = {seq for low, more in runs for seq in range(low, low + more + 1)}
    interest = RangeSet([read_range(text) for text in texts])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(told, "LONG_RUN", long)
        found = interest_for_peer(cast("Any", Forgot(forgotten)), Policy(interests={LOG: interest}), LOG)
    newest = 130
    for seq in range(1, newest + 1):
        assert found.contains_metadata(seq, newest) == interest.contains_metadata(seq, newest), seq
        expected = interest.contains_payload(seq, 4, newest) and seq not in forgotten
        assert found.contains_payload(seq, 4, newest) == expected, seq
    assert RangeSet.decode(found.encode()) == found


def test_told_stays_small() -> None:
    """However much was forgotten, each range is one that a receiver takes; what is left out is asked for in vain."""
    forgotten = set(range(2, 20_000, 2)) | set(range(30_000, 90_000))
    found = interest_for_peer(cast("Any", Forgot(forgotten)), Policy(), LOG)
    assert len(found) <= 2 * told.MAX_CUTS + 1
    assert RangeSet.decode(found.encode()) == found
    assert len(found.encode()) < 3000
    assert not found.contains_payload(40_000, 1)
    assert not found.contains_payload(2, 1)
    assert found.contains_payload(19_998, 1)
    assert all(found.contains_metadata(seq) for seq in (1, 2, 19_998, 40_000, 10**9))


def test_a_forgotten_payload_is_told_as_forbidden(parties: list[Party]) -> None:
    """What ``forget`` deletes is a forbidden number of what is told, until it is wanted again."""
    alice, *_ = parties
    log = build_log(9)
    alice.store.add(log.items())
    alice.store.forget(log.entries[3].place)
    (item,) = interest_for_peer(alice.store, Policy(), key(log))
    assert item == Range(1, forbidden=(4,))
    alice.store.want_again(log.entries[3].place)
    assert interest_for_peer(alice.store, Policy(), key(log)) == EVERYTHING


def test_own_logs_are_always_of_interest() -> None:
    """Whatever is followed, our own logs are asked for; those of blocked authors never."""
    policy = Policy(interests={}, own=frozenset({AUTHOR}))
    assert policy.interest((AUTHOR, 3)) == EVERYTHING
    assert not policy.wants((b"b" * 32, 3))
    assert not replace(policy, block_authors=frozenset({AUTHOR})).wants((AUTHOR, 3))


# -- what is still to be asked for ----------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([0, 3, 10, 30]), min_size=1, max_size=30),
    held=st.lists(st.sampled_from(["no", "entry", "all"]), min_size=30, max_size=30),
    text=st.sampled_from(
        ["1..", "1.. max 10", "4.. min 5", "1..20 without 3,4,9", "2..25 metadata", "1..12 payloads max 5"]
    ),
    limit=st.integers(1, 6),
)
def test_lacking_against_its_definition(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], held: list[str], text: str, limit: int
) -> None:
    """A number is lacking if its entry is not held, or its payload is not and is wanted; in spans, the lowest first."""
    log = LogBuilder(build_log(1).identity)
    for seq, size in enumerate(sizes, 1):
        log.append(bytes([seq]) * size)
    with SQLiteStore(tmp_path_factory.mktemp("lacking") / "store.db") as store:
        # All metadata is added, so that every entry is verified; then what is not held is beyond the end.
        known = [entry for entry in log.entries if all(state != "no" for state in held[: entry.seq])]
        store.add([(entry, log.payloads[entry.hash] if held[entry.seq - 1] == "all" else None) for entry in known])
        item = read_range(text)
        last = min(item.last, 40)

        def wanted(seq: int) -> bool:
            if seq > len(known):
                return True
            size = known[seq - 1].size
            return bool(size) and held[seq - 1] != "all" and item.contains_payload(seq, size)

        expected = [seq for seq in range(item.start, last + 1) if wanted(seq)]
        spans = lacking(store, key(log), item, 1, limit)
        found = [seq for low, high in spans for seq in range(low, min(high, 40) + 1)]
        assert found == expected[: len(found)]
        assert len(spans) <= limit
        assert len(spans) == limit or found == expected
        asked = missing(store, RangeSet([item]), key(log), len(sizes), 1000)
        numbers = {seq for low, high in asked for seq in range(low, high + 1)}
        assert {seq for seq in expected if seq <= len(sizes)} <= numbers
        assert not {seq for seq in numbers if seq <= len(known) and not wanted(seq)}


@pytest.mark.slow
def test_many_unwanted_payloads_hide_nothing(parties: list[Party]) -> None:
    """Behind any number of payloads that are too large, what is wanted is still found."""
    alice, *_ = parties
    log = LogBuilder(build_log(1).identity)
    for seq in range(1, 1201):
        log.append(bytes(20 if seq % 2 else 3))
    alice.store.add([(entry, log.payloads[entry.hash] if entry.size == 3 else None) for entry in log.entries])
    assert lacking(alice.store, key(log), read_range("1.. max 10"), 1, 64) == [(1201, 2**64 - 1)]


# -- taking up changes ----------------------------------------------------------------------------------------------


def test_choices_are_taken_up_when_the_file_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A change of the file is told once; a damaged file changes nothing and is one line in the log."""
    file = PolicyFile(tmp_path / "policy.json")
    watch = ChoicesWatch(file, b"x", lambda policy: replace(policy, hoard=True))
    assert watch.start() == Policy(hoard=True)
    assert watch.changed() is None
    policy = Policy(interests={LOG: RangeSet([read_range("5.. max 1MB"), read_range("1..2")])})
    file.save(b"x", policy)
    assert watch.changed() == replace(policy, hoard=True)
    assert watch.changed() is None
    file.save(b"other", Policy())  # another clump's
    assert watch.changed() is None
    file.path.write_text("{")
    assert watch.changed() is None
    assert watch.changed() is None
    assert len(caplog.records) == 1
    file.path.unlink()
    assert watch.changed() == Policy(hoard=True)


INTERESTS = st.dictionaries(
    st.one_of(st.just(AUTHOR), st.tuples(st.sampled_from([AUTHOR, b"b" * 32]), st.integers(0, 2**64 - 1))),
    st.lists(TEXTS, max_size=4).map(lambda texts: RangeSet(map(read_range, texts))),
    max_size=4,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(interests=st.none() | INTERESTS)
def test_interests_are_kept(tmp_path: Path, interests: dict[bytes | tuple[bytes, int], RangeSet] | None) -> None:
    """What is followed is loaded as it was saved, nothing at all and nothing in particular told apart."""
    file = PolicyFile(tmp_path / "policy.json")
    file.save(b"x", Policy(interests=interests))
    assert file.load(b"x") == Policy(interests=interests)


@pytest.mark.parametrize(
    "interests",
    [3, [3], [["00", None, ["1.."]]], [[AUTHOR.hex(), None, ["x"]]], [[AUTHOR.hex(), "x", ["1.."]]], [[1, 2]]],
)
def test_damaged_interests_are_an_error(tmp_path: Path, interests: object) -> None:
    """Interests that cannot be read are an error, not everything."""
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({b"x".hex(): {"interests": interests}}))
    with pytest.raises(ConfigError, match="policy"):
        PolicyFile(path).load(b"x")
