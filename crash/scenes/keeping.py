"""Scenes about what else a home has: backups, exports, choices, identities, the home itself."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from crash.invariants import not_an_earlier_state, read
from crash.material import copy_home, new_home
from crash.peers import CLUMP
from crash.promises import MOVES
from crash.scenes.base import Scene, expect, last_json, run_here
from crash.scenes.taking import differences
from culm.bamboo.keyfile import load_identity, read_private
from culm.node.home import Home
from culm.store.files import read_records
from culm.wire.places import author_text, log_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from crash.invariants import Contents
    from crash.victims import Call, Fate

_KINDS = ("kept.tar", "kept.tar.gz", "kept")


class Backup(Scene):
    """``culm backup``, now and then of a home that is written to: what is in the backup's place is a whole one."""

    name = "backup"
    moves = MOVES

    def prepare(self) -> None:
        """All logs, choices, and a place for backups."""
        copy_home(self.material.source, self.home.path)
        run_here("--home", self.home.path, "follow", author_text(self.identity.public), "--clump", CLUMP)
        self._place = self.folder / "backups"
        self._place.mkdir()
        self._promised = False
        self._target = self._place / _KINDS[0]
        self._runs = 0

    def call(self) -> Call:
        """A backup of one kind or another."""
        self._target = self._place / self.rng.choice(_KINDS)
        self._promised = False
        self._runs += 1
        return self.culm(f"backup {self._target.name}", "backup", self._target)

    def beside(self) -> Sequence[Call]:
        """A program that writes meanwhile."""
        if self.rng.random() < 0.7:
            return ()
        return (self.module("writer", "crash.writer", self.home.path, self._runs, "--times", 20, ready="writing"),)

    def ended(self, call: Call, fate: Fate) -> None:
        """A line that was printed is a promise."""
        expect(call, fate, 0)
        self._promised = bool(fate.lines)

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """A backup that is there can be restored, and is the home at an earlier moment; it makes room for the next."""
        if not self._target.exists():
            return ["there is no backup although one was made"] if self._promised else []
        again = Home.find(self.folder / "restored")
        run_here("--home", again.path, "restore", self._target)
        (held,) = contents.values()
        found = not_an_earlier_state(read(again.store_path), held)
        found += [
            f"{path} is not in the backup"
            for path in ("policy.json", "identities/default")
            if (again.path / path).read_bytes() != (self.home.path / path).read_bytes()
        ]
        shutil.rmtree(again.path)
        shutil.rmtree(self._target) if self._target.is_dir() else self._target.unlink()
        if self._promised and (left := list(self._place.iterdir())):
            found.append(f"left behind by those that were killed: {left}")
        return found

    def finish(self) -> list[str]:
        """What those left behind that were killed is gone."""
        return [f"left behind: {path}" for path in self._place.iterdir()]


class Restore(Scene):
    """``culm restore``: the home is not there, or whole."""

    name = "restore"

    def prepare(self) -> None:
        """A backup."""
        self._backup = self.folder / self.rng.choice(_KINDS)
        run_here("--home", self.material.source, "backup", self._backup)
        self._promised = False

    def call(self) -> Call | None:
        """Restore it."""
        if self.home.path.exists():
            return None
        return self.culm(f"restore {self._backup.name}", "restore", self._backup)

    def ended(self, call: Call, fate: Fate) -> None:
        """A line that was printed is a promise."""
        expect(call, fate, 0)
        self._promised = bool(fate.lines)

    def check(self, contents: dict[Path, Contents]) -> list[str]:  # noqa: ARG002
        """What is there is all there is to restore."""
        if not self.home.path.exists():
            return ["there is no home although it was restored"] if self._promised else []
        if not self.home.store_path.exists():
            return ["a home without a store"]
        found = differences(read(self.home.store_path), read(self.material.source / "store.db"))
        key = (self.home.path / "identities" / "default").read_bytes()
        if key != (self.material.source / "identities" / "default").read_bytes():
            found.append("the identity is another")
        return found

    def finish(self) -> list[str]:
        """What those left behind that were killed is gone."""
        expected = {self.home.path, self._backup}
        return [f"left behind: {path}" for path in set(self.folder.iterdir()) - expected]


class Export(Scene):
    """``culm export``: the file in place is the one before, or whole."""

    name = "export"

    def prepare(self) -> None:
        """All logs."""
        copy_home(self.material.source, self.home.path)
        self._place = self.folder / "exports"
        self._place.mkdir()
        self._file = self._place / "logs"
        self._promised = False

    def call(self) -> Call:
        """One format or the other, over the file that may be there."""
        self._promised = False
        bundle = ["--bundle"] if self.rng.random() < 0.5 else []
        return self.culm(f"export {bundle}", "--json", "export", "-o", self._file, *bundle)

    def ended(self, call: Call, fate: Fate) -> None:
        """An exit code is a promise."""
        expect(call, fate, 0)
        self._promised = self._promised or last_json(fate) is not None

    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """All records can be read, to the checksum at the end."""
        if not self._file.exists():
            return ["there is no file although it was written"] if self._promised else []
        with self._file.open("rb") as stream:
            records = sum(1 for _ in read_records(stream))
        least = sum(held.state.name == "VERIFIED" for of in contents.values() for held in of.entries.values())
        return [] if records >= least else [f"{records} records of {least} entries"]

    def finish(self) -> list[str]:
        """What those left behind that were killed is gone."""
        return [f"left behind: {path}" for path in self._place.iterdir() if path != self._file]


class Follow(Scene):
    """``culm follow``, ``unfollow``, ``block``: every choice that was acknowledged goes, and none is half made."""

    name = "follow"
    kills = 10

    def prepare(self) -> None:
        """An identity."""
        new_home(self.home, self.identity)
        self._authors = [self.rng.randbytes(32) for _ in range(40)]
        self._followed: set[tuple[bytes, int]] = set()
        self._attempt: set[tuple[bytes, int]] = set()

    def call(self) -> Call:
        """One log more, or one less."""
        if self._followed and self.rng.random() < 0.3:
            log, verb = self.rng.choice(sorted(self._followed)), "unfollow"
            self._attempt = self._followed - {log}
        else:
            log, verb = (self.rng.choice(self._authors), self.rng.randrange(9)), "follow"
            self._attempt = self._followed | {log}
        return self.culm("follow", verb, log_text(log), "--clump", CLUMP)

    def ended(self, call: Call, fate: Fate) -> None:
        """A line that was printed is a promise."""
        expect(call, fate, 0)
        if fate.lines:
            self._followed = self._attempt

    def check(self, contents: dict[Path, Contents]) -> list[str]:  # noqa: ARG002
        """What is followed is what was said, or what was about to be."""
        found = set(self.home.policy_file.load(CLUMP.encode()).interests or ())
        if found not in (self._followed, self._attempt):
            return [f"{len(found)} logs are followed, not {len(self._followed)} or {len(self._attempt)}"]
        self._followed = {log for log in found if isinstance(log, tuple)}
        return []

    def finish(self) -> list[str]:
        """What those left behind that were killed is gone."""
        return [f"left behind: {path}" for path in self.home.path.iterdir() if path.name.startswith(".")]


class Begin(Scene):
    """``culm init`` and ``culm identity new``: called again they succeed, and who was told a key has it."""

    name = "init"
    kills = 10

    def prepare(self) -> None:
        """Nothing at all."""
        self._keys: dict[str, str] = {}
        self._name = "default"

    def call(self) -> Call:
        """The home, then identities."""
        if "default" not in self._keys:
            return self.culm("init", "init")
        self._name = f"name-{len(self._keys)}"
        if self.home.identity_path(self._name).exists():  # made, and killed before it could say so
            self._keys[self._name] = author_text(self.home.identity_public(self._name))
            self._name = f"name-{len(self._keys)}"
        return self.culm("identity", "identity", "new", self._name)

    def ended(self, call: Call, fate: Fate) -> None:
        """A key that was printed is a promise."""
        expect(call, fate, 0)
        for line in fate.lines:
            if not line.startswith(("made", "found")):
                self._keys[self._name] = line.split()[-1]

    def stores(self) -> list[Path]:
        """None before the home was made."""
        return super().stores() if self._keys else []

    def check(self, contents: dict[Path, Contents]) -> list[str]:  # noqa: ARG002
        """Every identity is whole, and those that were printed are there."""
        found = []
        for name in self.home.identity_names():
            key = author_text(load_identity(read_private(self.home.identity_path(name))).public)
            if self._keys.get(name, key) != key:
                found.append(f"{name} is another identity than was printed")
        lacking = set(self._keys) - set(self.home.identity_names())
        return [*found, *(f"{name} is gone" for name in lacking)]

    def finish(self) -> list[str]:
        """What those left behind that were killed is gone."""
        folder = self.home.path / "identities"
        return [f"left behind: {path}" for path in folder.iterdir() if path.name.startswith(".")]
