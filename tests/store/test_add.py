"""Taking in entries: whatever the order, the store ends with the verdicts that are defined.

Specification: docs/specs/bamboo.md, "Verification", "Keeping forks".
"""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import MAX_U64, Entry, ForkProof, Identity, certificate_pool, lipmaa, path, yamf_hash
from culm.errors import BadSignature, HoldingAreaFull, PayloadMismatch, PayloadSizeMismatch, StoreFull
from culm.store import SQLiteStore, State, ingest, logview
from culm.store import sqlite as store_module
from culm.testing import LogBuilder, build_log, tampered
from tests.bamboo import oracle
from tests.store.below import database_of
from tests.store.model import Model, look

if TYPE_CHECKING:
    from culm.types import Log

LOG = build_log(40)
NAME = LOG.entries[0].log
Item = tuple[Entry, bytes | None]


def numbers(entries: list[Entry]) -> list[int]:
    """Their sequence numbers."""
    return [entry.seq for entry in entries]


def in_state(store: SQLiteStore, state: State, log: Log = NAME) -> list[int]:
    """The numbers of a log's entries in one state."""
    return [stored.entry.seq for stored in store.entries(log, states=[state])]


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


def test_groups_around_the_one_that_was_too_much_are_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list goes on behind a transaction in which some had no room."""
    monkeypatch.setattr(store_module, "_BATCH_ENTRIES", 4)
    with SQLiteStore(place, max_waiting_entries=2) as store:
        report = store.add([*LOG.items()[:4], *LOG.items()[24:28], *LOG.items()[4:8]])

        assert 2 == len(report.refused)
        assert list(range(1, 9)) == in_state(store, State.VERIFIED)
        assert [25, 26] == in_state(store, State.WAITING)


# -- forks -----------------------------------------------------------------------------------------------------


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


# -- reading ---------------------------------------------------------------------------------------------------


def test_ranges(store: SQLiteStore) -> None:
    """Entries are given between two numbers, both included, whatever the numbers are."""
    store.add(LOG.items()[:10])
    spans = [(1, 10), (3, 5), (5, 5), (0, 2), (9, MAX_U64), (7, 6), (11, 20), (MAX_U64, MAX_U64)]
    found = [numbers([stored.entry for stored in store.entries(NAME, low, high)]) for low, high in spans]

    assert [[at for at in range(1, 11) if low <= at <= high] for low, high in spans] == found


def test_pages(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that take several pages have every entry once, several of one number included."""
    monkeypatch.setattr("culm.store.entries._PAGE", 3)
    extra = [LOG.make(20, f"{at}".encode()) for at in range(7)]
    other = build_log(7, seed=2)
    store.add([*LOG.items(), *((entry, None) for entry in extra), *other.items()])
    found = [stored.entry for stored in store.entries(NAME, states=State)]

    assert sorted([*LOG.entries, *extra], key=lambda entry: entry.seq) == found
    assert list(range(1, 8)) == in_state(store, State.VERIFIED, other.entries[0].log)
    assert (54, []) == (store.verify().entries, store.verify().problems)


def test_nothing_held(store: SQLiteStore) -> None:
    """Of a log that nobody brought there is nothing, and everything is missing."""
    assert None is store.get(LOG.entries[0].place)
    assert [] == list(store.entries(NAME)) == list(store.logs()) == list(store.offers()) == list(store.fork_proofs())
    assert [(1, 40)] == store.missing(NAME, 40)
    assert [] == store.missing(NAME, 0)


def test_missing_in_parts(store: SQLiteStore) -> None:
    """Of many gaps the first ones are given, as many as were asked for."""
    store.add([LOG.items()[seq - 1] for seq in range(1, 41) if seq % 3])

    assert [(3, 3), (6, 6)] == store.missing(NAME, 40, 2)
    assert [(at, at) for at in range(3, 40, 3)] == store.missing(NAME, 40)
    assert [(39, 39), (41, 44)] == store.missing(NAME, 44)[-2:]


def test_offers_since_a_change(store: SQLiteStore) -> None:
    """Only logs that changed after a change number are offered again."""
    builders = [build_log(3, log_id=at) for at in range(3)]
    store.add([item for builder in builders for item in builder.items()])
    before = store.change()
    builders[1].append(b"more")
    store.add(builders[1].items())

    assert [] == list(store.offers(store.change()))
    assert [(1, 4)] == [(offer.log_id, offer.newest) for offer in store.offers(before)]
    assert {0: 3, 1: 4, 2: 3} == {offer.log_id: offer.newest for offer in store.offers()}


def test_the_offer_of_one_log(store: SQLiteStore) -> None:
    """One log's offer is the one among all; of a log with nothing verified there is none."""
    builders = [build_log(3, log_id=at) for at in range(2)]
    store.add([item for builder in builders for item in builder.items()])
    store.add(build_log(3, log_id=2).items()[1:])
    found = {(offer.author, offer.log_id): offer for offer in store.offers()}

    assert 2 == len(found)
    assert list(found.values()) == [store.offer(log) for log in found]
    assert [None, None] == [store.offer((NAME[0], log_id)) for log_id in (2, 3)]


def test_writing_while_reading(store: SQLiteStore) -> None:
    """Who walks through an answer may write on the way: no answer keeps the store from being changed."""
    builders = [build_log(3, log_id=at) for at in range(3)]
    store.add([item for builder in builders for item in builder.items()])
    store.add([(builders[0].make(2, b"x"), None)])
    answers = [store.offers(), store.logs(), store.fork_proofs(), store.entries(builders[1].entries[0].log)]
    for count, answer in enumerate(answers):
        next(answer)
        store.append(builders[0].identity, 10 + count, [b"written on the way"])
        list(answer)

    assert [10, 11, 12, 13] == [summary.log_id for summary in store.logs()][3:]


def test_a_long_log_in_little_memory_of_the_view(store: SQLiteStore) -> None:
    """A log that comes in several transactions is verified as one."""
    builder = LogBuilder(Identity(bytes(32)))
    for at in range(2 * store_module._BATCH_ENTRIES + 10):
        builder.append(b"%d" % at)
    report = store.add(builder.items(), authenticated=True)

    assert (2010, 0) == (report.added, report.waiting)
    assert [2010] == [offer.newest for offer in store.offers()]


def test_transactions_end_when_they_hold_many_bytes(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few the entries, a transaction is closed when their payloads come to a certain size."""
    monkeypatch.setattr(store_module, "_BATCH_BYTES", 50)
    store.add(LOG.items())

    assert 14 == store.change()  # 40 payloads of 20 bytes, three to a transaction
    assert list(range(1, 41)) == in_state(store, State.VERIFIED)


def test_limits_are_what_the_documentation_says() -> None:
    """The holding area takes 100,000 entries or 256 MiB by default."""
    assert (100_000, 256 * 1024 * 1024) == (ingest.MAX_WAITING_ENTRIES, ingest.MAX_WAITING_BYTES)


def test_runs_around_a_number(store: SQLiteStore) -> None:
    """A number is in the run of entries, or of complete payloads, whose ends include it, and in none between runs.

    A log is complete up to the last entry of the run that begins with entry 1 and lacks no payload.
    """
    log = build_log(14)
    held, with_payload = [1, 4, 5, 6, 13, 14], {4, 5, 13}
    store.add(
        (log.entries[seq - 1], log.payloads[log.entries[seq - 1].hash] if seq in with_payload else None) for seq in held
    )
    lookup = store.lookup(log.entries[0].log)
    entries, payloads = (
        {1: (1, 1), 4: (4, 6), 5: (4, 6), 6: (4, 6), 13: (13, 14), 14: (13, 14)},
        {4: (4, 5), 5: (4, 5), 13: (13, 13)},
    )
    for seq in range(1, 17):
        assert (entries.get(seq), payloads.get(seq)) == (lookup.entries_around(seq), lookup.payloads_around(seq)), seq

    assert [0] == [summary.complete_to for summary in store.logs()]
    store.add(log.items(log.entries[:4]))
    assert [5] == [summary.complete_to for summary in store.logs()]
