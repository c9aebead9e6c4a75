"""Scenes about one's own logs: publishing, forgetting, and a program with the library that does all of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crash.material import copy_home, new_home
from crash.promises import MOVES, Promises
from crash.scenes.base import Scene, expect
from culm.bamboo import yamf_hash
from culm.store import SQLiteStore
from culm.store.schema import PayloadState
from culm.wire.places import place_text

if TYPE_CHECKING:
    from pathlib import Path

    from crash.invariants import Contents
    from crash.victims import Call, Fate
    from culm.bamboo import Entry

_SIZES = {"small": (0, 200), "middle": (70_000, 400_000), "large": (1_000_000, 4_000_000)}


class Append(Scene):
    """``culm append``: every place that was printed is an entry with its payload, and at most one more is there."""

    name = "append"
    kills = 8

    def prepare(self) -> None:
        """An identity."""
        new_home(self.home, self.identity)
        self._printed: dict[int, list[bytes]] = {1: [], 2: []}  # of each log the hashes of its payloads
        self._attempt = (1, b"")
        self._files = 0

    def call(self) -> Call:
        """Another entry, of any size."""
        kind = self.rng.choice(list(_SIZES))
        payload = self.rng.randbytes(self.rng.randint(*_SIZES[kind]))
        self._attempt = self.rng.choice((1, 2)), yamf_hash(payload)
        self._files += 1
        file = self.folder / f"payload-{self._files}"
        file.write_bytes(payload)
        if self.rng.random() < 0.3:
            return self.culm(f"append {kind}", "append", self._attempt[0], "-", stdin=file)
        return self.culm(f"append {kind}", "append", self._attempt[0], file)

    def ended(self, call: Call, fate: Fate) -> None:
        """A line that was printed is a promise."""
        expect(call, fate, 0)
        if fate.lines:
            self._printed[self._attempt[0]].append(self._attempt[1])

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """The logs are what was printed."""
        found = []
        log_id, attempt = self._attempt
        with SQLiteStore(next(iter(contents))) as store:
            for of_log, printed in self._printed.items():
                log = (self.identity.public, of_log)
                held = [stored.entry.payload_hash for stored in store.entries(log) if stored.payload_complete]
                if held != printed and of_log == log_id and held == [*printed, attempt]:
                    printed.append(attempt)  # done, and killed before it could say so
                if held != printed:
                    found.append(f"log {of_log}: {len(printed)} entries were printed, {len(held)} are there")
        return found


class Forget(Scene):
    """``culm forget``: what it said is forgotten is, and nothing else."""

    name = "forget"
    kills = 8
    moves = frozenset({(PayloadState.COMPLETE, PayloadState.FORGOTTEN)})

    def prepare(self) -> None:
        """All logs."""
        copy_home(self.material.source, self.home.path)
        films, letters = self.material.films.entries, self.material.letters.entries
        self._rest: list[Entry] = [*films, *self.rng.sample(letters, len(films))]
        self.rng.shuffle(self._rest)
        self._forgotten: list[Entry] = []
        self._attempt: Entry | None = None

    def call(self) -> Call | None:
        """One payload more."""
        if self._attempt is None:
            if not self._rest:
                return None
            self._attempt = self._rest.pop()
        kind = "large" if self._attempt.log_id == self.material.films.log_id else "small"
        return self.culm(f"forget {kind}", "forget", place_text(self._attempt.place))

    def ended(self, call: Call, fate: Fate) -> None:
        """A line that was printed is a promise."""
        expect(call, fate, 0)
        if fate.lines and self._attempt is not None:
            self._forgotten.append(self._attempt)
            self._attempt = None

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """What was to be forgotten is, and everything else is there."""
        found = []
        (held,) = contents.values()
        states = {(log, seq): item.payload_state for (log, seq, _), item in held.entries.items()}
        forgotten = {key for key, state in states.items() if state is PayloadState.FORGOTTEN}
        told = {(entry.log, entry.seq) for entry in self._forgotten}
        tried = {(self._attempt.log, self._attempt.seq)} if self._attempt else set()
        if lacking := told - forgotten:
            found.append(f"{len(lacking)} payloads are not forgotten although that was said")
        if strange := forgotten - told - tried:
            found.append(f"{len(strange)} payloads are forgotten that nobody named")
        return found


class Program(Scene):
    """A program with the library: each thing that it said is done is done."""

    name = "program"
    kills = 8
    moves = MOVES

    def prepare(self) -> None:
        """An identity."""
        new_home(self.home, self.identity)
        self._promises = Promises()
        self._runs = 0

    def call(self) -> Call:
        """The program goes on where it was."""
        self._runs += 1
        return self.module(
            "program",
            "crash.writer",
            self.home.path,
            self.rng.getrandbits(32),
            "--bundle",
            self.material.bundle,
            ready="writing",
            endless=2000,
        )

    def ended(self, call: Call, fate: Fate) -> None:
        """Each line is a promise."""
        expect(call, fate)
        self._promises.take(fate.lines)

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """They are kept."""
        (held,) = contents.values()
        return self._promises.broken(held)
