"""The survey: lists, totals, cells and marks, each against an obvious count over the entries."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import MAX_U64
from culm.errors import StoreError
from culm.store import LogSummary, PayloadState, State, survey
from culm.store.survey import Cell, Only, Order, cells_between
from culm.testing.builders import build_log
from tests.quick import rounds
from tests.store.below import database_of

if TYPE_CHECKING:
    from culm.store import SQLiteStore
    from culm.types import Log


def line_of(store: SQLiteStore, log: Log) -> LogSummary:
    """The line of a log that is held."""
    line = store.survey().line(log)
    assert line is not None
    return line


def expected_cell(store: SQLiteStore, log: Log, low: int, high: int) -> Cell:
    """What a cell is by definition, from the entries themselves."""
    found = list(store.entries(log, low, high, states=State))
    verified = [stored for stored in found if stored.state is State.VERIFIED]
    if any(stored.state is State.INVALID for stored in found):
        return Cell.INVALID
    if len(verified) == high - low + 1:
        return Cell.FULL if all(stored.payload_complete for stored in verified) else Cell.BARE
    if verified:
        return Cell.PART
    return Cell.WAITING if found else Cell.NONE


@pytest.mark.parametrize("seed", rounds(12))
def test_cells_are_what_the_entries_make_of_them(store: SQLiteStore, seed: int) -> None:
    """For random holdings, forks among them, every cell of every size is what its definition says."""
    choose = random.Random(seed)
    log = build_log(90, seed=3, log_id=seed)
    chance = choose.choice((0.3, 0.8, 0.97))
    held = [item for item in log.items() if choose.random() < chance]
    store.add([(entry, payload if choose.random() < 0.9 else None) for entry, payload in held])
    if seed % 3 == 0:
        at = choose.randrange(2, 90)
        store.add([(log.entries[at - 1], None), (log.make(at, b"another"), None)])
    key = (log.identity.public, log.log_id)
    line = line_of(store, key)
    for most in (1, 7, 30, 90, 1000):
        spans = cells_between(1, line.greatest, most)
        assert [expected_cell(store, key, *span) for span in spans] == store.survey().cells(line, spans)


def test_certified_entries_are_counted_in_few_runs(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page counts the certified entries of a log whose verified ones lie in few runs; ``logs`` always counts them."""
    log = build_log(30)
    held = [entry for entry in log.entries if entry.seq in (1, 4, 5, 6, 8, 12, 13, 17)]
    store.add([(entry, None) for entry in held])
    for most, expected in ((5, 6), (4, None)):  # 5 and 6 lack 7
        monkeypatch.setattr(survey, "MOST_RUNS", most)
        assert (8, expected) == (line_of(store, held[0].log).entries, line_of(store, held[0].log).certified)
    assert [6] == [found.certified for found in store.logs()]


def test_cells_share_numbers_out_evenly() -> None:
    """Spans follow each other without a gap, are as many as asked for at most, and differ by one in length."""
    for low, high, most in ((1, 1, 5), (1, 100, 7), (5, 11, 100), (1, MAX_U64, 48), (3, 2, 4)):
        spans = cells_between(low, high, most)
        assert len(spans) == max(0, min(most, high - low + 1))
        assert [first for first, _ in spans[1:]] == [last + 1 for _, last in spans[:-1]]
        if spans:
            assert (low, high) == (spans[0][0], spans[-1][1])
            lengths = [last - first for first, last in spans]
            assert max(lengths) - min(lengths) <= 1


def test_the_greatest_number_there_is(store: SQLiteStore) -> None:
    """A log with an entry numbered 2^64 - 1 has as many cells as any other, and what waits there is found."""
    log = build_log(3, seed=5)
    last = log.make(MAX_U64, b"far", backlink=log.entries[0].hash, lipmaalink=log.entries[1].hash)
    store.add([*log.items(), (last, None)])
    line = line_of(store, last.log)
    assert (3, MAX_U64) == (line.newest, line.greatest)
    spans = cells_between(1, line.greatest, 48)
    assert "p" + 46 * "n" + "w" == "".join(store.survey().cells(line, spans))
    (mark,) = store.survey().marks(last.log, MAX_U64, MAX_U64)
    assert (MAX_U64, State.WAITING, PayloadState.ABSENT, 1) == (mark.seq, mark.state, mark.payload_state, mark.variants)


@pytest.fixture
def many(store: SQLiteStore) -> SQLiteStore:
    """Thirty logs: whole ones, some with gaps, one forked, one with an entry that waits."""
    for number in range(28):
        items = build_log(2 + number % 9, seed=1 + number % 5, log_id=number).items()
        store.add([item for item in items if number % 4 or item[0].seq != 2])
    forked = build_log(6, seed=6, log_id=1)
    store.add([*forked.items(), (forked.make(4, b"another"), b"another")])
    store.add(build_log(9, seed=7, log_id=1).items()[6:7])
    return store


def test_lists_agree_with_the_summaries(many: SQLiteStore) -> None:
    """Pages in every order have every log once, with the figures that ``logs`` gives, and the totals add up."""
    summaries = {(summary.author, summary.log_id): summary for summary in many.logs()}
    for order in Order:
        pages = [many.survey().logs(order=order, offset=offset, limit=7) for offset in range(0, 35, 7)]
        lines = [line for _, page in pages for line in page]
        assert {30} == {count for count, _ in pages}
        assert sorted(summaries) == sorted(line.log for line in lines)
        for line in lines:
            summary = summaries[line.log]
            assert (summary.newest, summary.entries, summary.payloads, summary.waiting, summary.invalid) == (
                line.newest,
                line.entries,
                line.payloads,
                line.waiting,
                line.invalid,
            )
            assert (summary.forked_at, summary.ended) == (line.forked_at, line.ended)
            held = {stored.entry.seq for stored in many.entries(line.log, 1, line.newest, states=State)}
            assert line.newest - len(held) == line.missing
    totals = many.survey().totals()
    assert sum(summary.entries for summary in summaries.values()) == totals.entries
    assert sum(summary.waiting for summary in summaries.values()) == totals.waiting > 1
    assert (30, 1) == (totals.logs, totals.forked)


def test_orders(many: SQLiteStore) -> None:
    """Lists come in the order that was asked for."""

    def listed(order: Order) -> list[LogSummary]:
        return many.survey().logs(order=order, limit=100)[1]

    assert sorted(listed(Order.NAME), key=lambda line: line.log) == listed(Order.NAME)
    changed = [line.changed for line in listed(Order.RECENT)]
    assert sorted(changed, reverse=True) == changed
    entries = [line.entries for line in listed(Order.ENTRIES)]
    assert sorted(entries, reverse=True) == entries
    missing = [line.newest - line.entries for line in listed(Order.MISSING)]
    assert sorted(missing, reverse=True) == missing
    assert missing[0] > 0


def test_filters_and_searches(many: SQLiteStore) -> None:
    """Only forked logs, those with gaps, those that wait, those of some authors or of an id."""
    survey = many.survey()
    everything = survey.logs(limit=100)[1]
    (forked,) = survey.logs(only=Only.FORKED)[1]
    assert build_log(1, seed=6).identity.public == forked.author
    waiting = [line.log for line in survey.logs(only=Only.WAITING)[1]]
    assert [line.log for line in everything if line.waiting] == waiting
    assert 1 < len(waiting) < 30
    with_gaps = [line for line in everything if line.newest and many.missing(line.log, line.newest, low=1)]
    assert with_gaps == survey.logs(only=Only.GAPS, limit=99)[1]
    assert with_gaps
    author = everything[0].author
    assert [line for line in everything if line.author == author] == survey.logs(authors=(author, author), limit=99)[1]
    assert [line for line in everything if line.log_id == 1] == survey.logs(log_id=1)[1]


def test_only_what_changed_is_named(store: SQLiteStore) -> None:
    """After a change number come the logs that changed since, the last one first, as many as asked for."""
    for log_id in range(5):
        store.add(build_log(1, log_id=log_id).items())
    last, logs = store.changed_logs(0, 3)
    assert (store.change(), [4, 3, 2]) == (last, [log_id for _, log_id in logs])
    assert (last, []) == store.changed_logs(last, 3)


def test_proofs_of_the_lowest_position_come_first(store: SQLiteStore) -> None:
    """A log's proofs are counted, and as many as asked for are given."""
    log = build_log(20, seed=2)
    store.add(log.items())
    store.add([(log.make(17, b"late"), None)])
    store.add([(log.make(5, b"early"), None)])
    count, proofs = store.survey().proofs(log.entries[0].log, 1)
    assert count == len(list(store.fork_proofs(log.entries[0].log)))
    assert [5] == [proof.position for proof in proofs]


def test_reading_ends_when_its_time_is_up(store: SQLiteStore) -> None:
    """A question that takes too long is broken off, and the next one is answered."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    survey = store.survey()
    with pytest.raises(StoreError, match="interrupted"), survey.bounded(0.01):
        database_of(store).read(endless)
    with survey.bounded(10):
        assert 0 == survey.totals().logs
    with survey.bounded(0):
        pass  # The bound goes with its block: what is asked behind it may take its time.
    counting = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000) SELECT count(*) FROM n"
    assert [(100_000,)] == database_of(store).read(counting)
