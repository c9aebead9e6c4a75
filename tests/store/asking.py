"""Every question that a store answers, put to it and to a dictionary (``tests.store.dictionary``)."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64
from culm.errors import Place
from culm.store import PayloadState, State, View
from culm.store.survey import Cell, Mark, Only, Order, cells_between
from tests.bamboo import oracle
from tests.store.dictionary import record_id, run_around, runs_of
from tests.store.model import offer_of

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

    from culm.bamboo import ForkProof
    from culm.negentropy import Storage
    from culm.ranges import RangeSet
    from culm.store import SQLiteStore
    from tests.store.dictionary import DictionaryStore, LogModel

LAST = 60  # numbers are asked for up to here, and at the end of all numbers
Record = tuple[int, bytes]


def number(rng: random.Random) -> int:
    """A sequence number, or 2^64 - 1."""
    return rng.choice((rng.randint(1, LAST), rng.randint(1, LAST), MAX_U64))


def span(rng: random.Random) -> tuple[int, int]:
    """Two numbers, mostly ascending."""
    low, high = sorted((number(rng), number(rng)))
    return (low, high) if rng.random() < 0.95 else (high, low)


# -- one log -------------------------------------------------------------------------------------------------------


def check_log(store: SQLiteStore, model: LogModel, rng: random.Random) -> None:
    """All that the store says of one log."""
    _check_entries(store, model, rng)
    _check_payloads(store, model, rng)
    _check_gaps(store, model, rng)
    _check_lookup(store, model, rng)
    _check_proofs(store, model)
    _check_survey(store, model, rng)


def _check_entries(store: SQLiteStore, model: LogModel, rng: random.Random) -> None:
    states = model.states()
    held = list(store.entries(model.log, states=State))
    assert [stored.entry for stored in held] == model.entries()
    assert {stored.entry: stored.state for stored in held} == states
    for stored in held:
        payload = model.payloads[stored.entry]
        assert (stored.payload_state, stored.payload_held) == (payload.state, len(payload.data)), stored.entry.seq
        assert stored.payload_complete == (payload.state is PayloadState.COMPLETE)
    low, high = span(rng)
    some = rng.sample(list(State), rng.randint(1, 3))
    found = [stored.entry for stored in store.entries(model.log, low, high, states=some)]
    assert found == [entry for entry in model.entries() if low <= entry.seq <= high and states[entry] in some]
    seq = number(rng)
    first = store.get(Place(*model.log, seq))
    assert (first.entry if first else None) == model.first_at(seq)


def _check_payloads(store: SQLiteStore, model: LogModel, rng: random.Random) -> None:
    held = list(store.entries(model.log, states=State))
    for stored in rng.sample(held, min(len(held), 4)):
        data, offset = model.payloads[stored.entry].data, rng.randint(0, 90)
        assert b"".join(store.payload(stored)) == data
        assert b"".join(store.payload(stored, offset)) == data[offset:]
        size = rng.randint(1, 90)
        piece = store.payload_slice(stored.id, offset, size)
        assert data[offset : offset + size].startswith(piece)
        assert bool(piece) == (offset < len(data))
        assert store.payload_begun(stored).size == len(data)
    (low, high), limit = span(rng), rng.randint(1, 20)
    expected = [entry for entry in model.complete() if low <= entry.seq <= high][:limit]
    found = store.sendables(model.log, low, high, limit)
    assert [(item.seq, item.encoded, item.size) for item in found] == [
        (entry.seq, entry.encoded, entry.size) for entry in expected
    ]
    for item, entry in zip(found, expected, strict=True):
        assert item.start + b"".join(store.payload_rest(item)) == model.payloads[entry].data


def _check_gaps(store: SQLiteStore, model: LogModel, rng: random.Random) -> None:
    (low, high), limit = span(rng), rng.randint(1, 6)
    assert store.missing(model.log, high, limit, low=low) == model.missing(low, high, limit)
    assert store.missing(model.log, MAX_U64) == model.missing(1, MAX_U64, 1000)
    verified, complete = ({entry.seq for entry in some} for some in (model.verified(), model.complete()))
    forgotten = runs_of(
        entry.seq for entry in model.verified() if model.payloads[entry].state is PayloadState.FORGOTTEN
    )
    assert store.forgotten(model.log, limit) == forgotten[:limit]
    assert store.certified(model.log) == runs_of(model.certified())
    _check_ranges(store.held(*model.log), verified, complete)
    offer = store.offer(model.log)
    assert (offer_of(offer) if offer else None) == model.offer()


def _check_ranges(held: RangeSet, verified: set[int], complete: set[int]) -> None:
    assert {seq for item in held for seq in item.numbers(MAX_U64)} == verified
    assert {seq for seq in range(1, LAST) if held.contains_metadata(seq)} == verified
    assert {seq for seq in range(1, LAST) if held.contains_payload(seq, 1)} == complete


def _check_lookup(store: SQLiteStore, model: LogModel, rng: random.Random) -> None:
    lookup = store.lookup(model.log)
    verified, complete = ({entry.seq: entry for entry in some} for some in (model.verified(), model.complete()))
    assert lookup.is_forked == (model.forked_at is not None)
    assert lookup.payload_extent() == ((min(complete), max(complete)) if complete else None)
    fork = model.forked_at or MAX_U64
    settled = (entry for entry in model.in_state(State.INVALID) if model.payloads[entry].state is PayloadState.COMPLETE)
    assert lookup.disputed() == runs_of({entry.seq for entry in settled if entry.seq >= fork})
    end = lookup.end()
    assert end == (model.verified()[-1] if model.is_ended else None)
    for seq in {number(rng) for _ in range(3)}:
        assert lookup.entries_around(seq) == run_around(verified, seq)
        assert lookup.payloads_around(seq) == run_around(complete, seq)
        variants = model.at(seq)
        copies = [kept.entry for kept in lookup.variants(seq)]
        assert copies == sorted(variants, key=lambda entry: verified.get(entry.seq) != entry)
    ascending, seq, limit = rng.random() < 0.5, number(rng), rng.randint(1, 12)
    wanted = sorted((at for at in verified if (at >= seq if ascending else at <= seq)), reverse=not ascending)[:limit]
    page = lookup.page(seq, ascending=ascending, limit=limit)
    assert [kept.entry for kept in page] == [verified[at] for at in wanted]
    for kept in page:
        payload = model.payloads[kept.entry]
        assert (kept.payload_held, kept.complete) == (len(payload.data), payload.state is PayloadState.COMPLETE)
        assert kept.small is None or (kept.complete and kept.small == payload.data)
        assert not kept.complete or kept.entry.size or kept.small == b""
    least, greatest = (rng.choice((None, rng.randint(0, 60))) for _ in range(2))
    low, high = span(rng)
    misfits = [
        at
        for at, entry in complete.items()
        if low <= at <= high
        and ((least is not None and entry.size < least) or (greatest is not None and entry.size > greatest))
    ]
    found = lookup.misfit(low, high, least, greatest, ascending=ascending)
    assert found == (min if ascending else max)(misfits, default=None)


def _check_proofs(store: SQLiteStore, model: LogModel) -> None:
    """The proofs are of entries held, in order of position; the first has the lowest position there is."""
    proofs = list(store.fork_proofs(model.log))
    check_proofs(proofs, model)
    assert next(iter(proof.position for proof in proofs), None) == model.forked_at
    count, some = store.survey().proofs(model.log, 2)
    assert (count, some) == (len(proofs), proofs[:2])


def check_proofs(proofs: Sequence[ForkProof], model: LogModel) -> None:
    """Every proof proves what it says, with two entries held, and none is there twice."""
    assert [proof.position for proof in proofs] == sorted(proof.position for proof in proofs)
    assert len({proof.encode() for proof in proofs}) == len(proofs)
    for proof in proofs:
        assert {proof.first, proof.second} <= set(model.payloads)
        assert min(oracle.positions(proof.first, proof.second)) == proof.position


# -- one log, for people to look at --------------------------------------------------------------------------------


def _check_survey(store: SQLiteStore, model: LogModel, rng: random.Random) -> None:
    line = store.survey().line(model.log)
    assert (line is None) == (not model.payloads)
    if line is None:
        return
    waiting, invalid = model.in_state(State.WAITING), model.in_state(State.INVALID)
    seen = {entry.seq for entry in model.verified()} | {entry.seq for entry in waiting}
    assert {
        "log": line.log,
        "newest": line.newest,
        "greatest": line.greatest,
        "ended": line.ended,
        "forked": line.forked_at,
        "invalid": line.invalid_from,
        "counts": (line.entries, line.payloads, line.certified, line.waiting, line.invalid),
        "missing": line.missing,
    } == {
        "log": model.log,
        "newest": model.newest,
        "greatest": model.greatest,
        "ended": model.is_ended,
        "forked": model.forked_at,
        "invalid": model.invalid_from,
        "counts": tuple(map(len, (model.verified(), model.complete(), model.certified(), waiting, invalid))),
        "missing": sum(at not in seen for at in range(1, model.newest)),
    }
    # Behind the position of a fork nothing is asked for, and so nobody minds what is missing there.
    limit = MAX_U64 if model.invalid_from is None else model.invalid_from - 1
    assert min(line.complete_to, limit) == min(model.complete_to, limit)
    spans = cells_between(1, line.greatest, rng.choice((1, 5, 20, 60)))
    assert store.survey().cells(line, spans) == [_cell(model, *span) for span in spans]
    low, high = span(rng)
    assert store.survey().marks(model.log, low, high) == _marks(model, low, high)
    some = [number(rng) for _ in range(3)]
    for at in some:
        assert store.survey().marks(model.log, at, at) == list(_marks(model, at, at))


def _cell(model: LogModel, low: int, high: int) -> Cell:
    states = model.states()
    here = [entry for entry in model.entries() if low <= entry.seq <= high]
    verified = [entry for entry in here if states[entry] is State.VERIFIED]
    if any(states[entry] is State.INVALID for entry in here):
        return Cell.INVALID
    if len(verified) == high - low + 1:
        complete = all(model.payloads[entry].state is PayloadState.COMPLETE for entry in verified)
        return Cell.FULL if complete else Cell.BARE
    if verified:
        return Cell.PART
    return Cell.WAITING if here else Cell.NONE


def _marks(model: LogModel, low: int, high: int) -> list[Mark]:
    states, found = model.states(), []
    for seq in sorted({entry.seq for entry in model.payloads if low <= entry.seq <= high}):
        shown = min(model.at(seq), key=lambda entry: states[entry] is not State.VERIFIED)
        found.append(Mark(seq, states[shown], model.payloads[shown].state, len(model.at(seq))))
    return found


# -- all logs ------------------------------------------------------------------------------------------------------


def check_all(store: SQLiteStore, models: DictionaryStore, rng: random.Random) -> None:
    """All that the store says of all logs at once."""
    _check_summaries(store, models)
    _check_lists(store, models, rng)
    for view in View:
        with store.record_set(view) as records:
            check_records(records, records_of(models, view), rng)
    view = rng.choice(list(View))
    some_logs = {model.log for model in models if rng.random() < 0.5}
    with store.record_set(view, only=lambda log: log in some_logs) as records:
        check_records(records, records_of(models, view, some_logs), rng)
    for log in list(models.logs)[:1]:
        with store.record_set(view, log=log) as records:
            check_records(records, records_of(models, view, {log}), rng)
    heads = {model.head(): model.log for model in models}
    heads.pop(None, None)
    some = rng.sample(sorted(head for head in heads if head), rng.randint(0, len(heads)))
    assert store.logs_of([*some, bytes(32)]) == [heads[head] for head in some]
    verified = [entry for model in models for entry in model.verified()]
    wanted = set(rng.sample(verified, rng.randint(0, min(5, len(verified)))))
    found = [stored.entry for stored in store.entries_of({record_id(entry) for entry in wanted})]
    assert set(found) == wanted
    assert len(found) == len(wanted)


def _check_summaries(store: SQLiteStore, models: DictionaryStore) -> None:
    expected = [
        (
            *model.log,
            model.newest,
            *(len(some) for some in (model.verified(), model.complete(), model.certified())),
            *(len(model.in_state(state)) for state in (State.WAITING, State.INVALID)),
            *(model.forked_at, model.invalid_from, model.is_ended),
        )
        for model in models
    ]
    assert expected == [
        (
            *(log.author, log.log_id, log.newest, log.entries, log.payloads, log.certified),
            *(log.waiting, log.invalid, log.forked_at, log.invalid_from, log.ended),
        )
        for log in store.logs()
    ]
    offers = {offer.log: offer_of(offer) for offer in store.offers()}
    assert offers == {model.log: model.offer() for model in models if model.offer()}
    holdings = store.holdings()
    assert [log for log, _ in holdings] == [model.log for model in models if model.verified()]
    for log, held in holdings:
        model = models.of(log)
        _check_ranges(held, {entry.seq for entry in model.verified()}, {entry.seq for entry in model.complete()})
    assert [proof.first.log for proof in store.fork_proofs()] == [
        model.log for model in models for _ in store.fork_proofs(model.log)
    ]


def _check_lists(store: SQLiteStore, models: DictionaryStore, rng: random.Random) -> None:
    survey, all_models = store.survey(), list(models)
    totals = survey.totals()
    gaps = [model for model in all_models if model.newest and model.complete_to < model.newest]
    forked = [model for model in all_models if model.forked_at is not None]
    waiting = [model for model in all_models if model.in_state(State.WAITING)]
    assert (totals.logs, totals.entries, totals.payloads) == (
        len(all_models),
        sum(len(model.verified()) for model in all_models),
        sum(len(model.complete()) for model in all_models),
    )
    assert (totals.waiting, totals.invalid) == (
        sum(len(model.in_state(State.WAITING)) for model in all_models),
        sum(len(model.in_state(State.INVALID)) for model in all_models),
    )
    assert (totals.gaps, totals.forked) == (len(gaps), len(forked))
    assert totals.proofs == len(list(store.fork_proofs()))
    lists = {Only.ALL: all_models, Only.GAPS: gaps, Only.FORKED: forked, Only.WAITING: waiting}
    only, order, offset, limit = rng.choice(list(Only)), rng.choice(list(Order)), rng.randint(0, 2), rng.randint(1, 4)
    chosen = lists[only]
    authors = log_id = None
    if chosen and rng.random() < 0.5:
        authors = (rng.choice(chosen).log[0],) * 2
        chosen = [model for model in chosen if model.log[0] == authors[0]]
    if chosen and rng.random() < 0.3:
        log_id = rng.choice(chosen).log[1]
        chosen = [model for model in chosen if model.log[1] == log_id]
    count, page = survey.logs(order=order, only=only, authors=authors, log_id=log_id, offset=offset, limit=limit)
    assert count == len(chosen)
    if order is Order.NAME:
        assert [line.log for line in page] == [model.log for model in chosen][offset : offset + limit]
    _, lines = survey.logs(order=order, only=only, authors=authors, log_id=log_id)
    assert page == lines[offset : offset + limit]
    assert sorted(line.log for line in lines) == [model.log for model in chosen]
    keys = {Order.RECENT: "changed", Order.ENTRIES: "entries", Order.MISSING: "missing"}
    if order in (Order.RECENT, Order.ENTRIES):
        values = [getattr(line, keys[order]) for line in lines]
        assert values == sorted(values, reverse=True)


# -- sets of records -----------------------------------------------------------------------------------------------


def records_of(models: DictionaryStore, view: View, logs: Iterable[tuple[bytes, int]] | None = None) -> list[Record]:
    """The records of a view, in order."""
    chosen = [model for model in models if logs is None or model.log in logs]
    if view is View.HEADS:
        return sorted((0, head) for model in chosen if (head := model.head()) is not None)
    entries = [entry for model in chosen for entry in (model.verified() if view is View.ENTRIES else model.complete())]
    return sorted((entry.seq - 1, record_id(entry)) for entry in entries)


def check_records(found: Storage, expected: list[Record], rng: random.Random) -> None:
    """A set has these records, and sums of any part of it are right."""
    assert len(found) == len(expected)
    assert [(found.timestamp(at), found.id(at)) for at in range(len(found))] == expected
    cuts = sorted(rng.randint(0, len(expected)) for _ in range(4))
    low, high = cuts[0], cuts[-1]
    assert found.ids(low, high) == b"".join(identity for _, identity in expected[low:high])
    sums = [_fingerprint(expected[first:last]) for first, last in pairwise(cuts)]
    assert [found.fingerprint(first, last) for first, last in pairwise(cuts)] == sums
    assert found.fingerprint(low, high) == _fingerprint(expected[low:high])
    timestamp, prefix = rng.randint(0, LAST), rng.randbytes(rng.randint(0, 2))
    below = sum(record < (timestamp, prefix) for record in expected)
    assert found.position(timestamp, prefix, 0) == below


def _fingerprint(records: list[Record]) -> bytes:
    total = sum(int.from_bytes(identity, "little") for _, identity in records) % 2**256
    high, low = divmod(len(records), 128)
    count = bytes([128 + high, low]) if high else bytes([low])
    return sha256(total.to_bytes(32, "little") + count).digest()[:16]
