"""Taking in entries: whatever the order, the store ends with the verdicts that are defined.

Specification: docs/specs/bamboo.md, "Verification", "Keeping forks".
"""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import MAX_U64, Entry, Identity, certificate_pool, lipmaa, path, yamf_hash
from culm.errors import BadSignature, HoldingAreaFull, PayloadMismatch, PayloadSizeMismatch
from culm.store import SQLiteStore, State
from culm.store import sqlite as store_module
from culm.testing import build_log, tampered
from tests.bamboo import oracle
from tests.store.below import database_of
from tests.store.forty import LOG, NAME, in_state
from tests.store.model import Model, look

if TYPE_CHECKING:
    from culm.types import Log

Item = tuple[Entry, bytes | None]


# -- any order -------------------------------------------------------------------------------------------------


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[Item]]:
    """Parts of several broken logs, cut into groups: in any order, some twice, some without their payload."""
    items: list[Item] = []
    for seed, log_id in draw(st.sampled_from([[(1, 0)], [(1, 0)], [(1, 0), (1, MAX_U64), (2, 0)]])):
        log = draw(oracle.broken_logs(30, 5, seed, log_id, lies=True))
        items += draw(oracle.subsets(log))
    again = draw(st.lists(st.sampled_from(items), max_size=4)) if items else []
    bare = draw(st.sets(st.integers(0, 40), max_size=20))
    events = [(entry, None if at in bare else payload) for at, (entry, payload) in enumerate(items + again)]
    events = draw(st.permutations(events)) if draw(st.booleans()) else events
    groups = []
    rest = iter(events)
    while group := list(islice(rest, draw(st.integers(1, 20)))):
        groups.append(group)
    return groups


@pytest.mark.slow
@given(groups=arrivals(), reopened=st.sets(st.integers(0, 20)))
@settings(deadline=None, max_examples=100)
def test_any_order(groups: list[list[Item]], reopened: set[int]) -> None:
    """Whatever comes in whatever order and groups, reopened or not: the store shows what the definition says.

    Its reports add up to what it holds, its proofs hold, and checking everything afresh finds nothing wrong.
    """
    models: dict[Log, Model] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteStore(Path(folder) / "store")
        for count, group in enumerate(groups):
            before = {entry for model in models.values() for entry in model.payloads}
            for entry, payload in group:
                models.setdefault(entry.log, Model()).add(entry, payload)
            report = store.add(group, authenticated=True)
            new = {entry for entry, _ in group} - before
            waiting = [entry for entry in new if models[entry.log].states()[entry] is State.WAITING]

            assert (len(new), len(group) - len(new)) == (report.added, report.known)
            assert len(waiting) == report.waiting
            if count in reopened:
                store.close()
                store = SQLiteStore(Path(folder) / "store")
        with store:
            for log, model in models.items():
                assert model.view() == look(store, log)
                check_proofs(store, log, model)
            verified = store.verify()
            states = [state for model in models.values() for state in model.states().values()]

            assert [] == verified.problems
            assert (len(states), states.count(State.VERIFIED), states.count(State.WAITING)) == (
                verified.entries,
                verified.verified,
                verified.unverified,
            )
            assert sum(oracle.fork_position(model.payloads) is not None for model in models.values()) == verified.forks


def check_proofs(store: SQLiteStore, log: Log, model: Model) -> None:
    """The proofs held are of entries held, in order of position, and the first has the lowest position there is."""
    proofs = list(store.fork_proofs(log))
    positions = [proof.position for proof in proofs]

    assert oracle.fork_position(model.payloads) == (positions[0] if positions else None)
    assert sorted(positions) == positions
    assert {entry for proof in proofs for entry in (proof.first, proof.second)} <= set(model.payloads)
    for proof in proofs:
        assert min(oracle.positions(proof.first, proof.second)) == proof.position


@pytest.mark.slow
@given(order=st.permutations(range(40)))
@settings(deadline=None, max_examples=15)
def test_one_by_one(order: list[int]) -> None:
    """An honest log that comes entry by entry, in any order, is verified in the end and nothing waits."""
    with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "store") as store:
        for at in order:
            store.add([LOG.items()[at]])

        assert list(range(1, 41)) == in_state(store, State.VERIFIED)
        assert [(40, None)] == [(offer.newest, offer.held_back) for offer in store.offers()]
        assert [] == store.missing(NAME, 40)


# -- reports ---------------------------------------------------------------------------------------------------


def test_report(store: SQLiteStore) -> None:
    """The report tells the new from the known, counts payloads, and is silent about what went well."""
    first = store.add(LOG.items()[:3])
    second = store.add([*LOG.items()[:5], (LOG.entries[5], None)])

    assert (3, 0, 0, 3, [], []) == (
        first.added,
        first.known,
        first.waiting,
        first.payloads,
        first.refused,
        first.forks,
    )
    assert (3, 3, 0, 2) == (second.added, second.known, second.waiting, second.payloads)


def test_waiting_is_counted_of_the_new_ones(store: SQLiteStore) -> None:
    """New entries that wait are counted even if as many others find their path at the same time."""
    store.add([LOG.items()[at] for at in (1, 2)])
    report = store.add([LOG.items()[at] for at in (0, 6, 9)])

    assert (3, 2) == (report.added, report.waiting)


def test_forged_entries(store: SQLiteStore) -> None:
    """An entry whose signature is wrong is refused with its place; the others of the group are taken."""
    forged = Entry.decode(tampered(LOG.entries[1]))
    report = store.add([(forged, None), LOG.items()[0]])

    assert [(LOG.entries[1].place, BadSignature)] == [(place, type(error)) for place, error in report.refused]
    assert [1] == in_state(store, State.VERIFIED)


@pytest.mark.parametrize("payload", [b"", b"something else", b"x" * 70_000])
def test_payload_of_something_else(store: SQLiteStore, payload: bytes) -> None:
    """A payload that is not the entry's is refused and named; the entry is taken without it."""
    report = store.add([(LOG.entries[0], payload)])

    assert [PayloadMismatch] == [type(error) for _, error in report.refused]
    assert (1, 0) == (report.added, report.payloads)
    assert [(1, 1)] == store.missing(NAME, 1)
    assert [1] == in_state(store, State.VERIFIED)


@pytest.mark.parametrize("size", [8, 10, 0, 2**63])
@pytest.mark.parametrize("at_once", [True, False])
def test_lie_about_a_size(store: SQLiteStore, size: int, *, at_once: bool) -> None:
    """A payload of the right hash and another size makes the log invalid from its entry on, whenever it comes."""
    builder = build_log(4)
    lie = builder.make(5, b"a payload", size=size)
    builder.entries.append(lie)
    builder.append(b"after the lie")
    if at_once:
        report = store.add(builder.items())
    else:
        store.add([*builder.items()[:4], (lie, None), builder.items()[5]])
        report = store.add([(lie, b"a payload")])

    assert [PayloadSizeMismatch] == [type(error) for _, error in report.refused]
    assert [1, 2, 3, 4] == in_state(store, State.VERIFIED)
    assert [5, 6] == in_state(store, State.INVALID)
    assert [] == store.missing(NAME, 50)
    assert [] == store.verify().problems


def test_a_lie_about_what_was_forgotten(store: SQLiteStore) -> None:
    """A lie that shows after its payload was given up counts like any other."""
    builder = build_log(2)
    lie = builder.make(3, b"a payload", size=8)
    builder.entries.append(lie)
    store.add([(entry, None) for entry in builder.entries])
    store.forget(lie.place)
    report = store.add([(lie, b"a payload")])

    assert [PayloadSizeMismatch] == [type(error) for _, error in report.refused]
    assert [1, 2] == in_state(store, State.VERIFIED)
    assert [3] == in_state(store, State.INVALID)
    assert [] == store.verify().problems


def test_a_lie_stays_a_lie(store: SQLiteStore) -> None:
    """Once a lie was seen nothing brings the log back: not the same entries again, nor new ones, nor reopening."""
    builder = build_log(2)
    lie = builder.make(3, b"a payload", size=8)
    builder.entries.append(lie)
    builder.append(b"after the lie")
    store.add([*builder.items()[:2], (lie, b"a payload")])
    with SQLiteStore(store.path) as again:
        again.add([(lie, None), builder.items()[3], (lie, b"a payload")])

        assert [3, 4] == in_state(again, State.INVALID)
        assert [] == again.verify().problems


# -- waiting ---------------------------------------------------------------------------------------------------


def test_waiting_entries_are_not_shown(store: SQLiteStore) -> None:
    """Entries without a path are held and counted, and shown to those only who ask for them."""
    store.add(LOG.items()[4:8])
    summary = next(store.logs())

    assert [] == list(store.entries(NAME))
    assert [] == list(store.offers())
    assert [] == store.sendables(NAME, 1, 40, 100)
    assert (0, 0, 4) == (summary.newest, summary.entries, summary.waiting)
    assert [5, 6, 7, 8] == in_state(store, State.WAITING)
    assert [(1, 4), (9, 40)] == store.missing(NAME, 40)


def test_released_by_a_path(store: SQLiteStore) -> None:
    """When the missing entry comes, exactly those are released that have a path now."""
    store.add([LOG.items()[seq - 1] for seq in (3, 4, 7, 8, 12, 13)])

    assert [] == in_state(store, State.VERIFIED)
    store.add([LOG.items()[0]])
    assert [1, 4, 8, 12, 13] == in_state(store, State.VERIFIED)
    assert [3, 7] == in_state(store, State.WAITING)


def test_a_certificate_pool_is_enough(store: SQLiteStore) -> None:
    """The certificate pool of an entry verifies it, whatever else is missing."""
    pool = certificate_pool(23)
    store.add([(LOG.entries[seq - 1], None) for seq in pool])

    assert sorted(pool) == in_state(store, State.VERIFIED)


def test_at_the_end_of_all_numbers(store: SQLiteStore) -> None:
    """Entry 2^64 - 1 of log 2^64 - 1 is verified by its path and shown in every answer."""
    author = Identity(bytes(32))
    made: dict[int, Entry] = {}
    for seq in reversed(path(MAX_U64, 1)):
        hashes = {at: made[at].hash if at in made else yamf_hash(str(at).encode()) for at in (seq - 1, lipmaa(seq))}
        made[seq] = author.create_entry(
            log_id=MAX_U64,
            seq=seq,
            backlink=hashes[seq - 1] if seq > 1 else None,
            lipmaalink=hashes[lipmaa(seq)] if seq > 1 else None,
            size=0,
            payload_hash=yamf_hash(b""),
        )
    log = author.public, MAX_U64
    last = made.pop(MAX_U64)
    store.add([(entry, None) for entry in made.values()])
    store.add([(last, None)])

    assert [*sorted(made), MAX_U64] == in_state(store, State.VERIFIED, log)
    assert [MAX_U64] == [stored.entry.seq for stored in store.entries(log, MAX_U64)]
    assert [MAX_U64] == [found.seq for found in store.sendables(log, MAX_U64, MAX_U64, 5)]
    assert [MAX_U64] == [offer.newest for offer in store.offers()]
    assert [MAX_U64] == [summary.newest for summary in store.logs()]
    assert (MAX_U64 - 3, MAX_U64 - 2) not in store.missing(log, MAX_U64)
    assert last == store.get(last.place).entry  # type: ignore[union-attr]
    assert [] == store.verify().problems


@pytest.mark.parametrize("limits", [{"max_waiting_entries": 3}, {"max_waiting_bytes": 1000}])
def test_the_holding_area_is_bounded(place: Path, limits: dict[str, int]) -> None:
    """Entries that would wait and have no room are refused, and only these; their paths still can come."""
    with SQLiteStore(place, **limits) as store:  # type: ignore[arg-type]
        store.add(LOG.items()[5:8])
        before, other = look(store, NAME), build_log(1, seed=2)
        report = store.add([*LOG.items()[8:10], *other.items()])

        assert [LOG.entries[8].place, LOG.entries[9].place] == [place for place, _ in report.refused]
        assert all("the holding area is full" in str(error) for _, error in report.refused)
        assert all(isinstance(error, HoldingAreaFull) for _, error in report.refused)
        assert (1, 0) == (report.added, report.waiting)
        assert before == look(store, NAME)
        assert other.entries[0] == store.get(other.entries[0].place).entry  # type: ignore[union-attr]
        store.add(LOG.items()[:4])
        assert [1, 2, 3, 4, 8] == in_state(store, State.VERIFIED)
        store.add(LOG.items()[4:])
        assert list(range(1, 41)) == in_state(store, State.VERIFIED)


def test_a_whole_group_in_any_order_needs_no_room(place: Path) -> None:
    """A group whose entries verify each other fits even where nothing may wait."""
    with SQLiteStore(place, max_waiting_entries=0) as store:
        store.add(list(reversed(LOG.items())))

        assert list(range(1, 41)) == in_state(store, State.VERIFIED)


def test_a_flood_into_a_full_holding_area_costs_one_transaction_and_leaves_nothing(place: Path) -> None:
    """A stranger can sign entries of any number of logs. Each that is refused must not cost a transaction, or a row."""
    flood = [item for seed in range(40) for item in build_log(3, seed=100 + seed).items()[2:]]
    with SQLiteStore(place, max_waiting_entries=0) as store:
        store.receive_in(b"clump")
        connection = database_of(store).connection
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        report = store.add(flood)
        connection.set_trace_callback(None)

        assert 40 == len(report.refused)
        assert 1 == sum(statement.startswith("BEGIN IMMEDIATE") for statement in statements)
        assert [(0,)] == connection.execute("SELECT count(*) FROM logs").fetchall()
        assert {} == store.clumps()


def test_one_more_entry_is_few_statements(place: Path) -> None:
    """A log that goes on entry by entry, as it does live, costs 16 statements an entry, and no row of it is read."""
    with SQLiteStore(place) as store:
        for item in LOG.items()[:30]:
            store.add([item])
        connection = database_of(store).connection
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        store.add(LOG.items()[30:31])
        connection.set_trace_callback(None)

        assert len(statements) <= 16, statements
        reads = [statement for statement in statements if statement.startswith("SELECT")]
        assert ["SELECT 1 FROM record_changes LIMIT 1", "SELECT name FROM dropped_files"] == reads


def test_a_log_that_others_change_in_between(place: Path) -> None:
    """What is remembered of a log is forgotten when another connection, or another operation, has changed the log."""
    fork = build_log(19)
    fork.append(b"another 20")
    with SQLiteStore(place) as store, SQLiteStore(place) as other:
        for number, item in enumerate(LOG.items()[:19]):
            (store, other, store, store)[number % 4].add([item])
        assert list(range(1, 20)) == in_state(store, State.VERIFIED)
        store.forget(LOG.entries[9].place)
        report = store.add(LOG.items()[19:20])
        assert (1, 0) == (report.added, report.waiting)
        other.add(fork.items()[19:20])
        report = store.add(LOG.items()[20:22])
        assert [] == store.verify().problems
        assert [20] == [log.forked_at for log in store.logs()]


def test_groups_around_the_one_that_was_too_much_are_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list goes on behind a transaction in which some had no room."""
    monkeypatch.setattr(store_module, "_BATCH_ENTRIES", 4)
    with SQLiteStore(place, max_waiting_entries=2) as store:
        report = store.add([*LOG.items()[:4], *LOG.items()[24:28], *LOG.items()[4:8]])

        assert 2 == len(report.refused)
        assert list(range(1, 9)) == in_state(store, State.VERIFIED)
        assert [25, 26] == in_state(store, State.WAITING)
