"""Scenes about taking in what there is: files, other stores, stores of earlier versions."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from crash.invariants import read
from crash.material import new_home
from crash.scenes.base import Scene, expect, last_json
from culm.node.home import Home
from culm.store import schema
from culm.store.exchange import Importer
from culm.store.payloads.folder import Folder

if TYPE_CHECKING:
    from pathlib import Path

    from crash.invariants import Contents
    from crash.victims import Call, Fate
    from culm.store import SQLiteStore


def differences(found: Contents, expected: Contents) -> list[str]:
    """What two stores hold that are to hold the same."""
    odd = set(found.entries.items()) ^ set(expected.entries.items())
    return [f"{len(odd)} entries are not as in the source, or not there"] if odd else []


class Import(Scene):
    """``culm import``: what is there is of the file, the next import goes on, and at the end all of it is there."""

    name = "import"

    def prepare(self) -> None:
        """A home with nothing in it."""
        new_home(self.home, self.identity)
        self._done = False

    def call(self) -> Call | None:
        """The same file again."""
        return None if self._done else self.culm("import", "--json", "import", self.material.bundle)

    def ended(self, call: Call, fate: Fate) -> None:
        """One that has ended has taken everything."""
        expect(call, fate, 0, 1)  # there is a fork in it, that may have been known
        self._done = bool(fate.lines)

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """Nothing else is there, and everything if it said so."""
        (held,) = contents.values()
        source = read(self.material.source / "store.db")
        found = differences(held, source) if self._done else []
        if strangers := set(held.entries) - set(source.entries):
            found.append(f"{len(strangers)} entries are not of the file")
        return found

    def recover(self, store: SQLiteStore) -> list[str]:
        """Import once more."""
        with self.material.bundle.open("rb") as stream:
            report = Importer(store).run(stream)
        found = [f"refused {place}: {error}" for place, error in report.refused]
        return found + differences(read(store.path), read(self.material.source / "store.db"))


class Reconcile(Scene):
    """``culm reconcile --apply``: two stores exchange what each lacks; both are good at any moment."""

    name = "reconcile"

    def prepare(self) -> None:
        """Two homes that lack half each."""
        self._other = Home.find(self.folder / "other")
        new_home(self.home, self.identity)
        new_home(self._other, self.identity)
        readings = self.material.readings.items()
        self._all = {0: readings, 1: self.material.letters.items(), 2: self.material.films.items()}
        with self.home.store() as store:
            store.add(self._all[0][: len(readings) // 3])
            store.add(self._all[2][:4])
        with self._other.store() as store:
            store.add(self._all[0])
            store.add([*self._all[1], *self._all[2][4:]])
            store.add([(entry, None) for entry, _ in self._all[2][:4]])
        self._done = False

    def call(self) -> Call | None:
        """Reconcile them."""
        if self._done:
            return None
        places = [str(self.home.path), str(self._other.path)]
        self.rng.shuffle(places)
        return self.module("reconcile", "culm.cli", "reconcile", *places, "--apply", "--json")

    def ended(self, call: Call, fate: Fate) -> None:
        """One that has ended has moved everything."""
        expect(call, fate, 0)
        self._done = last_json(fate) is not None

    def stores(self) -> list[Path]:
        """Both."""
        return [self.home.store_path, self._other.store_path]

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """If it said that it is done, both hold all there is."""
        if not self._done:
            return []
        expected = sum(map(len, self._all.values()))
        whole = [
            sum(held.payload_state.name == "COMPLETE" and held.state.name == "VERIFIED" for held in of.entries.values())
            for of in contents.values()
        ]
        return [] if whole == [expected] * 2 else [f"of {expected} entries the stores hold {whole}"]


class Migrate(Scene):
    """Opening a store of an earlier version: it is of that version or of this one, and nothing is lost."""

    name = "migrate"

    def prepare(self) -> None:
        """A home with such a store."""
        new_home(self.home, self.identity)
        self._version = self.rng.randrange(1, schema.VERSION)
        old = self.material.old_store(self._version)
        self.home.store_path.unlink()
        shutil.copyfile(old, self.home.store_path)
        if Folder(old).path.exists():
            shutil.copytree(Folder(old).path, Folder(self.home.store_path).path)
        self._done = False

    def call(self) -> Call | None:
        """Whatever opens it."""
        if self._done:
            return None
        arguments = self.rng.choice((["logs", "--json"], ["append", "3", "--text", "x"], ["doctor", "--json"]))
        return self.culm(f"migrate {self._version}", *arguments)

    def ended(self, call: Call, fate: Fate) -> None:
        """One that has ended has migrated it."""
        expect(call, fate, 0)
        self._done = bool(fate.lines)

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """It is of one of two versions, and (migrated in a copy if need be) holds what it held."""
        with closing(sqlite3.connect(f"{self.home.store_path.as_uri()}?mode=ro", uri=True)) as connection:
            ((version,),) = connection.execute("PRAGMA user_version")
        found = [] if version in (self._version, schema.VERSION) else [f"a store of version {version}"]
        if self._done and version != schema.VERSION:
            found.append("not migrated although it was opened")
        (held,) = contents.values()
        source = read(self.material.source / "store.db")
        if lost := set(source.entries.items()) - set(held.entries.items()):
            found.append(f"{len(lost)} entries are not as they were, or not there")
        return found
