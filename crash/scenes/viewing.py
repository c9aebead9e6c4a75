"""The scene of a program with a view (``culm.views``)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from crash.material import new_home
from crash.promises import MOVES
from crash.scenes.base import Scene, expect
from crash.viewer import COUNTS, complete, miscounted, rows_of
from culm.store import SQLiteStore
from culm.views import ViewFile

if TYPE_CHECKING:
    from pathlib import Path

    from crash.invariants import Contents
    from crash.victims import Call, Fate


class Counting(Scene):
    """A program whose view counts entries: each counts once, whenever the program is killed."""

    name = "view"
    kills = 10
    moves = MOVES

    def prepare(self) -> None:
        """An identity."""
        new_home(self.home, self.identity)
        self._view = self.folder / "view.db"

    def call(self) -> Call:
        """The program goes on with its view."""
        return self.module(
            "view", "crash.viewer", self.home.path, self._view, self.rng.getrandbits(32), ready="counting", endless=400
        )

    def ended(self, call: Call, fate: Fate) -> None:
        """It only ends by being killed."""
        expect(call, fate)

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """Nothing counts twice or by half; brought up to date, the view counts all; made anew, it is the same.

        That is done with a copy, so that the program goes on with the view as the kill left it.
        """
        place = self.folder / "looked-at"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for file in self.folder.glob("view.db*"):
            shutil.copy(file, place)
        if not (place / "view.db").exists():
            return []
        with SQLiteStore(next(iter(contents))) as store, ViewFile(place / "view.db", COUNTS, store) as view:
            found = miscounted(*rows_of(view))
            view.update()
            names, totals = rows_of(view)
            found += miscounted(names, totals)
            wanted = complete(store)
            if names != wanted:
                found.append(f"the view counts {len(names)} entries, and the store holds {len(wanted)}")
            view.rebuild()
            if rows_of(view) != (names, totals):
                found.append("made anew, the view has other rows")
        return found
