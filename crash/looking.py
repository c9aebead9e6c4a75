"""Looking at what a killed program left: in copies, so that the next program finds it as it is."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crash import powercut
from crash.invariants import Contents, Held, not_an_earlier_state, problems, read
from crash.scenes.base import Broken, run_here, run_program
from culm.store import SQLiteStore
from culm.store.payloads.folder import Folder
from culm.store.schema import PayloadState, State

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from crash.scenes import Scene

CUTS = 2  # power cuts that are tried after each kill
VERIFIED, RECOVERED = 0.3, 0.2  # of the stores after a cut: what is verified in full, what is gone on with
_STATES = {State.VERIFIED: {State.VERIFIED, State.INVALID}, State.INVALID: {State.INVALID}}
_PAYLOADS = {
    PayloadState.PARTIAL: {PayloadState.PARTIAL, PayloadState.COMPLETE},
    PayloadState.COMPLETE: {PayloadState.COMPLETE},
    PayloadState.FORGOTTEN: {PayloadState.FORGOTTEN},
}


@dataclass(frozen=True)
class Look:
    """What was found: a line for each problem; how many power cuts took something away."""

    problems: list[str]
    cuts: int


class Looker:
    """Looks at one scene, again and again. ``folder`` is for its copies."""

    def __init__(self, scene: Scene, folder: Path, rng: random.Random) -> None:
        self._scene = scene
        self._folder = folder
        self._rng = rng
        self._before: dict[Path, Contents] = {}

    def look(self, *, as_program: bool) -> Look:
        """Look at all of it. ``as_program``: have ``culm doctor`` run as a program."""
        found: list[str] = []
        cuts = 0
        shutil.rmtree(self._folder, ignore_errors=True)
        contents: dict[Path, Contents] = {}
        for store in self._scene.stores():
            copy = self._folder / store.parent.name / "store.db"
            _copy_home(store, copy)
            found += _doctor(copy.parent, run_program if as_program else run_here)
            with SQLiteStore(copy) as opened:
                found += [f"culm verify: {place}: {reason}" for place, reason in opened.verify().problems]
            found += problems(copy)
            now = contents[copy] = read(copy)
            if store in self._before:
                found += _lost(self._before[store], now, self._scene.moves)
            self._before[store] = now
        found += self._scene.check(contents)
        for store in self._scene.stores():
            now = self._before[store]
            for number in range(CUTS):
                copy = self._folder / f"{store.parent.name}-cut-{number}" / "store.db"
                powercut.copy_store(store, copy)
                what = powercut.cut(copy, self._rng)
                if what is not None:
                    cuts += 1
                    found += [f"{what}: {problem}" for problem in self._after_cut(copy, now)]
        return Look(found, cuts)

    def _after_cut(self, store: Path, later: Contents) -> list[str]:
        """What is wrong with a copy whose WAL file was cut."""
        SQLiteStore(store).close()
        earlier = read(store)
        dropped = earlier.files - later.files  # by a transaction that was synced before: in truth it cannot be cut
        begun = powercut.spoil_begun_files(store, self._rng)
        found = not_an_earlier_state(earlier, later) + problems(store, may_lack=dropped, begun_may=begun > 0)
        with SQLiteStore(store) as opened:
            if not dropped and self._rng.random() < VERIFIED:
                found += [f"culm verify: {place}: {reason}" for place, reason in opened.verify().problems]
            if self._rng.random() < RECOVERED:
                found += self._scene.recover(opened)
        return found


def _copy_home(store: Path, copy: Path) -> None:
    """Copy a home as it lies there."""
    skipped = {store.name, store.name + "-wal", store.name + "-shm", Folder(store).path.name}
    shutil.copytree(store.parent, copy.parent, ignore=lambda _, names: skipped & set(names))
    powercut.copy_store(store, copy)


def _doctor(home: Path, run: Callable[..., str]) -> list[str]:
    try:
        said = json.loads(run("--home", home, "doctor", "--json"))
    except Broken as error:
        return [f"culm doctor: {error}"]
    return [] if said["healthy"] else [f"culm doctor: {said['findings']}"]


def _lost(before: Contents, now: Contents, moves: frozenset[tuple[PayloadState, PayloadState]]) -> list[str]:
    """What was there before and is not any more, or less of it."""
    found = []
    if gone := set(before.entries) - set(now.entries):
        found.append(f"{len(gone)} entries that were there are gone")
    worse = [
        f"{was} became {now.entries[key]}"
        for key, was in before.entries.items()
        if key in now.entries and not _no_less(was, now.entries[key], moves)
    ]
    if worse:
        found.append(f"{len(worse)} entries have become less, as {worse[0]}")
    if now.change < before.change:
        found.append(f"after change {before.change} the store is at change {now.change}")
    if now.news[: len(before.news)] != before.news and before.change:
        found.append("news from before are others now")
    return found


def _no_less(was: Held, now: Held, moves: frozenset[tuple[PayloadState, PayloadState]]) -> bool:
    if now.state not in _STATES.get(was.state, set(State)):
        return False
    if (was.payload_state, now.payload_state) in moves:
        return True
    if now.payload_state not in _PAYLOADS.get(was.payload_state, set(PayloadState)):
        return False
    return now.payload_held >= was.payload_held
