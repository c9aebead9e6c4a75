"""A store and a dictionary side by side: what is done to both, and how they are compared.

What is done stands in ``machine_writing``, ``machine_reading`` and, with payloads that come in pieces,
``machine_transfers``; ``test_machine`` says how often.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from culm.bamboo import MAX_U64, Entry
from culm.store import (
    BEGINNING,
    PayloadState,
    SQLiteStore,
    State,
    entries,
    logview,
    lookup,
)
from culm.store import sqlite as store_module
from culm.store.payloads import pieces, sink
from culm.store.records import index as record_index
from culm.store.records import views
from tests.bamboo import oracle
from tests.models import count
from tests.store.asking import check_all, check_log
from tests.store.dictionary import DictionaryStore, Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.store import ImportReport, Position
    from culm.types import Log
    from tests.store.dictionary import Item

NAMES = [(1, 0), (1, MAX_U64), (2, 0), (2, 2**63)]
BATCH_ENTRIES, BATCH_BYTES = 6, 400
IN_MEMORY = next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)  # a disk is slow, and no matter
_SMALL: list[tuple[Any, str, int]] = [
    (store_module, "_BATCH_ENTRIES", BATCH_ENTRIES),
    (store_module, "_BATCH_BYTES", BATCH_BYTES),
    (entries, "_PAGE", 3),
    (sink, "_COMMIT_BYTES", 16),
    (pieces, "PIECE_BYTES", 8),
    (pieces, "LARGE_BYTES", 48),
    (lookup, "SMALL_BYTES", 20),
    (record_index, "MAX_BLOCK", 8),
    (record_index, "MIN_BLOCK", 3),
    (record_index, "_PAGE", 7),
    (views, "_BLOCKS_KEPT", 2),
    (logview, "MAX_PROOFS", 6),
]
"""Bounds of the store that short logs would never meet."""


class Abort(Exception):
    """Something breaks off in the middle."""


class World:
    """Some logs with anything wrong in them, each with its payloads."""

    def __init__(self, logs: list[list[Item]]) -> None:
        self.logs = logs

    def __repr__(self) -> str:
        return f"logs of {', '.join(str([entry.seq for entry, _ in log]) for log in self.logs)}"


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Some logs, of different lengths."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    return World([list(draw(oracle.broken_logs(44, 6, seed, log_id, lies=True))) for seed, log_id in names])


class StoreMachine(RuleBasedStateMachine):
    """Two writing connections and a reading one on a file, and the dictionary that they must agree with."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=IN_MEMORY))
        self.path = self.folder / "store"
        self.patch = pytest.MonkeyPatch()
        self.rng = random.Random(0)
        self.model = DictionaryStore(3, 30)
        self.known: list[list[Item]] = []  # of each log, what there is to be added
        self.payloads: dict[Entry, bytes] = {}
        self.touched: set[Log] = set()  # logs that the store may say have changed
        self.look_at: set[Log] = set()  # others that are to be looked at
        self.change = 0
        self.was_verified: dict[Entry, tuple[int, int]] = {}  # between which changes
        self.was_complete: dict[Entry, tuple[int, int]] = {}
        self.seen: dict[Log, Any] = {}
        self.stores: list[SQLiteStore] = []

    @initialize(world=worlds(), seed=st.integers(0, 2**32), small=st.booleans(), waiting=st.sampled_from([5, 30, 200]))
    def begin(self, world: World, seed: int, waiting: int, *, small: bool) -> None:
        """A new store, and logs to fill it with."""
        count("examples")
        self.rng.seed(seed)
        variants = 3 if small else logview.MAX_VARIANTS
        if small:
            self.patch.setattr(logview, "MAX_VARIANTS", variants)
            for module, name, value in _SMALL:
                self.patch.setattr(module, name, value)
        self.is_small = small
        self.waiting = waiting
        self.model = DictionaryStore(variants, waiting)
        self.known = world.logs
        self.payloads = {entry: payload or b"" for items in world.logs for entry, payload in items}
        self.stores = [self.opened(), self.opened()]
        self.reader = SQLiteStore(self.path, read_only=True)

    def opened(self) -> SQLiteStore:
        """Another connection."""
        return SQLiteStore(self.path, max_waiting_entries=self.waiting)

    def teardown(self) -> None:
        """A last look at everything, afresh."""
        try:
            if self.stores:
                self._look_at_everything()
        finally:
            for store in [*self.stores, *([self.reader] if self.stores else [])]:
                store.close()
            self.patch.undo()
            shutil.rmtree(self.folder)

    def _look_at_everything(self) -> None:
        for store in (*self.stores, self.reader):
            for items in self.known:
                check_log(store, self.model.of(items[0][0].log), self.rng)
            check_all(store, self.model, self.rng)
        self.check_news()
        self.check_afresh()

    # -- doing -------------------------------------------------------------------------------------------------

    def store(self) -> SQLiteStore:
        """One of the writing connections."""
        return self.rng.choice(self.stores)

    def any_store(self) -> SQLiteStore:
        """One of all connections."""
        return self.rng.choice((*self.stores, self.reader))

    def batches(self, items: list[Item], *, whole: bool = True) -> list[list[Item]]:
        """The items as the store makes transactions of them; not ``whole``: without one that takes more."""
        most, most_bytes = (BATCH_ENTRIES, BATCH_BYTES) if self.is_small else (1000, 2**23)
        batches: list[list[Item]] = [[]]
        for item in items:
            batches[-1].append(item)
            if len(batches[-1]) == most or sum(len(payload or b"") for _, payload in batches[-1]) >= most_bytes:
                batches.append([])
        return batches if whole and batches[-1] else batches[:-1]

    def add(self, items: list[Item], forged: set[Entry], *, whole: bool = True) -> None:
        """Add items to both. Not ``whole``: what brings them fails at the end."""
        expected = Report()
        before = self.change
        for batch in self.batches(items, whole=whole):
            ordered = sorted(batch, key=lambda item: (item[0].author, item[0].log_id, item[0].seq))
            expected.take(self.model.add(ordered, forged))
        self.touched |= {entry.log for entry, _ in items if entry not in forged}
        kept = self.proofs_held()
        try:
            report = self.store().add(self._given(items, whole=whole), durable=self.rng.random() < 0.5)
        except Abort:
            assert not whole
        else:
            assert whole
            self._check_report(report, expected)
            self._check_new_proofs(report, kept)
        assert (self.store().change() > before) == (expected.transactions > 0)

    @staticmethod
    def _given(items: list[Item], *, whole: bool) -> Iterator[Item]:
        yield from items
        if not whole:
            raise Abort

    def _check_report(self, report: ImportReport, expected: Report) -> None:
        waiting = sum(self.model.of(entry.log).states()[entry] is State.WAITING for entry in expected.added)
        assert (report.added, report.known, report.waiting, report.payloads) == (
            len(expected.added),
            expected.known,
            waiting,
            expected.payloads,
        )
        assert Counter((place, type(error)) for place, error in report.refused) == Counter(expected.refused)

    def proofs_held(self) -> dict[Log, set[bytes]]:
        """The fork proofs of each log."""
        found: dict[Log, set[bytes]] = {}
        for proof in self.any_store().fork_proofs():
            found.setdefault(proof.first.log, set()).add(proof.encode())
        return found

    def _check_new_proofs(self, report: ImportReport, before: dict[Log, set[bytes]]) -> None:
        """Those that were reported prove something, and those that are held from now on were reported."""
        reported = {proof.encode() for proof in report.forks}
        for log, held in self.proofs_held().items():
            assert before.get(log, set()) <= held
            assert held - before.get(log, set()) <= reported
        for proof in report.forks:
            assert min(oracle.positions(proof.first, proof.second)) == proof.position
            assert {proof.first, proof.second} <= set(self.model.of(proof.first.log).payloads)

    # -- comparing ---------------------------------------------------------------------------------------------

    @invariant()
    def agrees(self) -> None:
        """The store says what the dictionary says, whichever connection is asked."""
        if not self.stores:
            return
        count("steps")
        self._note_news()
        for log in self.touched | self.look_at:
            check_log(self.any_store(), self.model.of(log), self.rng)
        if self.touched:
            check_all(self.any_store(), self.model, self.rng)
        self.touched.clear()
        self.look_at.clear()
        self.noted()

    def noted(self) -> None:
        """The store is another one than before; those who read it take note."""

    def _note_news(self) -> None:
        """What has changed, and that the store says so."""
        before, self.change = self.change, self.any_store().change()
        assert self.change >= before
        visible = {model.log: self._visible(model.log) for model in self.model}
        changed = {log for log, seen in visible.items() if self.seen.get(log) != seen}
        self.seen = visible
        assert not changed or self.change > before
        last, told = self.any_store().changed_logs(before)
        assert last == self.change
        assert changed <= set(told) <= changed | self.touched
        assert {offer.log for offer in self.any_store().offers(before)} == {
            log for log in told if self.model.of(log).offer()
        }
        assert {log for log, _ in self.any_store().holdings(before)} == {
            log for log in told if self.model.of(log).verified()
        }
        for model in self.model:
            for entry in model.verified():
                self.was_verified.setdefault(entry, (before, self.change))
            for entry in model.complete():
                self.was_complete.setdefault(entry, (before, self.change))

    def _visible(self, log: Log) -> Any:
        model = self.model.of(log)
        settled = {
            entry: payload.state
            for entry, payload in model.payloads.items()
            if payload.state is not PayloadState.PARTIAL and payload.state is not PayloadState.ABSENT
        }
        return model.states(), settled

    def check_news(self) -> None:
        """Each entry is news once, in the order in which they became verified, and once more when it is complete."""
        for with_payload, came in ((False, self.was_verified), (True, self.was_complete)):
            found = self.all_news(with_payload=with_payload)
            here = {entry for model in self.model for entry in (model.complete() if with_payload else model.verified())}
            assert len(found) == len({entry for entry, _ in found})
            assert {entry for entry, _ in found} == here
            places = [position for _, position in found]
            assert places == sorted(set(places))
            for entry, position in found:
                assert came[entry][0] < position.change <= came[entry][1]
            logs: dict[int, Log] = {}
            for entry, position in found:
                assert logs.setdefault(position.log, entry.log) == entry.log

    def all_news(
        self, since: Position = BEGINNING, *, limit: int = 5, with_payload: bool, **only: Any
    ) -> list[tuple[Entry, Position]]:
        """All news after a position, read page by page."""
        found: list[tuple[Entry, Position]] = []
        while True:
            page = self.any_store().news(since, limit=limit, with_payload=with_payload, **only)
            found += [(stored.entry, position) for stored, position in page.entries]
            since = page.end
            if len(page.entries) < limit:
                assert since == self.any_store().latest()
                return found

    def check_afresh(self) -> None:
        """Whatever is checked anew from the stored bytes is as the store has it."""
        report = self.any_store().verify()
        states = [state for model in self.model for state in model.states().values()]
        complete = sum(
            payload.state is PayloadState.COMPLETE for model in self.model for payload in model.payloads.values()
        )
        assert report.problems == []
        assert report.certified == sum(len(model.certified()) for model in self.model)
        assert (report.entries, report.verified, report.unverified, report.invalid, report.forks, report.payloads) == (
            len(states),
            *(states.count(state) for state in (State.VERIFIED, State.WAITING, State.INVALID)),
            sum(model.forked_at is not None for model in self.model),
            complete,
        )
