"""How a store is read while it is written: walks, sets to reconcile, news, a check of everything, a copy."""

from __future__ import annotations

import io
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

from culm.store import BEGINNING, PayloadState, Position, SQLiteStore, State, View
from culm.store.exchange import Importer, export_bundle
from tests.store.asking import check_records, records_of
from tests.store.dictionary import DictionaryStore
from tests.store.machine import StoreMachine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.bamboo import Entry
    from culm.types import Log
    from tests.store.asking import Record


class Walk:
    """Somebody who walks through an answer while others write."""

    def __init__(self, found: Iterator[Any], log: Log, here: set[Entry]) -> None:
        self.found, self.log = found, log
        self.always, self.ever = set(here), set(here)
        self.passed: list[Entry] = []

    def note(self, here: set[Entry]) -> None:
        """What the answer is at another moment."""
        self.always &= here
        self.ever |= here

    def step(self, steps: int) -> bool:
        """Go on; whether there is more. Nothing comes twice, and what was there all the time comes."""
        found = [stored.entry for stored in islice(self.found, steps)]
        self.passed += found
        assert len(set(self.passed)) == len(self.passed)
        assert set(self.passed) <= self.ever
        assert [entry.seq for entry in self.passed] == sorted(entry.seq for entry in self.passed)
        if len(found) < steps:
            assert self.always <= set(self.passed)
        return len(found) == steps


class Reading(StoreMachine):
    """A machine that reads."""

    def __init__(self) -> None:
        super().__init__()
        self.walks: list[Walk] = []
        self.sets: list[tuple[ExitStack, Any, list[Record]]] = []
        self.has_moved = False

    def noted(self) -> None:
        """The store is another one than before."""
        for walk in self.walks:
            walk.note(set(self.model.of(walk.log).verified()))

    def teardown(self) -> None:
        """Let go of what is open."""
        for stack, _, _ in self.sets:
            stack.close()
        super().teardown()

    def walk(self, log: int) -> None:
        """Somebody begins to walk through a log, or goes on, whatever has come meanwhile."""
        if len(self.walks) < 2:
            name = self.known[log % len(self.known)][0][0].log
            self.walks.append(Walk(self.reader.entries(name), name, set(self.model.of(name).verified())))
        elif not self.walks[0].step(self.rng.randint(1, 20)):
            del self.walks[0]

    def reconcile(self, log: int) -> None:  # noqa: ARG002 - all
        """Somebody opens a set to reconcile, or finds one as it was when it was opened."""
        if len(self.sets) < 2:
            view, stack = self.rng.choice(list(View)), ExitStack()
            records = stack.enter_context(self.any_store().record_set(view))
            self.sets.append((stack, records, records_of(self.model, view)))
            return
        stack, records, expected = self.sets.pop(0)
        with stack:
            check_records(records, expected, self.rng)

    def news(self, log: int) -> None:
        """News from any position on, of one author or one log, are those of all that stand behind the position."""
        with_payload, limit = self.rng.random() < 0.5, self.rng.randint(1, 9)
        found = self.all_news(with_payload=with_payload)
        self.check_news()
        since = self.rng.choice([BEGINNING, *(position for _, position in found)])
        assert Position.parse(str(since)) == since
        author, log_id = self.known[log % len(self.known)][0][0].log
        only = self.rng.choice(({}, {"author": author}, {"author": author, "log_id": log_id}))
        some = self.all_news(since, limit=limit, with_payload=with_payload, **only)
        assert some == [
            (entry, position)
            for entry, position in found
            if position > since and all(getattr(entry, name) == value for name, value in only.items())
        ]

    def verify(self, log: int) -> None:  # noqa: ARG002 - all
        """Everything is checked afresh."""
        self.check_afresh()

    def move(self, log: int) -> None:  # noqa: ARG002 - all
        """A bundle of everything makes another store that holds the same entries and whole payloads."""
        if self.has_moved:
            return
        self.has_moved = True
        stream = io.BytesIO()
        export_bundle(self.any_store(), [model.log for model in self.model], stream)
        stream.seek(0)
        model = DictionaryStore(self.model.max_variants, 1000)
        payloads = [(entry, of_log.payloads[entry]) for of_log in self.model for entry in of_log.entries()]
        model.add([(entry, held.data if held.state is PayloadState.COMPLETE else None) for entry, held in payloads])
        with SQLiteStore(self.folder / "moved") as moved:
            report = Importer(moved).run(stream)
            assert [] == [error for _, error in report.refused]
            for of_log in model:
                states = of_log.states()
                assert {
                    stored.entry: (stored.state, stored.payload_state)
                    for stored in moved.entries(of_log.log, states=State)
                } == {entry: (states[entry], of_log.payloads[entry].state) for entry in of_log.payloads}
