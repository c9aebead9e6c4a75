"""What a scene is: a home, the programs that are run in it and killed, and what they promised."""

from __future__ import annotations

import io
import json
import subprocess
from abc import ABC, abstractmethod
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, ClassVar

from crash.victims import Call, Fate, command, environment
from culm.bamboo import Identity
from culm.cli import main
from culm.node.home import Home
from culm.store.schema import PayloadState

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from crash.invariants import Contents
    from crash.material import Material
    from crash.peers import Peers
    from culm.store import SQLiteStore

Move = tuple[PayloadState, PayloadState]


class Broken(Exception):
    """A program did what it must not, or not what it must."""


class Scene(ABC):
    """One course of events. ``folder`` is all its own; ``rng`` gives each of a kind another course.

    ``kills``: after so many the programs are let to their end, and the scene is over. ``moves``: what may become of a
    payload that was held or forgotten before.
    """

    name: ClassVar[str]
    kills: ClassVar[int] = 6
    moves: ClassVar[frozenset[Move]] = frozenset()

    def __init__(self, folder: Path, material: Material, peers: Peers, rng: random.Random) -> None:
        self.folder = folder
        self.material = material
        self.peers = peers
        self.rng = rng
        self.home = Home.find(folder / "home")
        self.identity = Identity(rng.randbytes(32))
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Make what is there before the first program runs."""

    @abstractmethod
    def call(self) -> Call | None:
        """The next program to run; None when nothing is left to do."""

    def beside(self) -> Sequence[Call]:
        """Programs that run in the same home meanwhile."""
        return ()

    def kills_beside(self) -> bool:
        """Whether they are killed together with the other one; else they run to their end."""
        return False

    @abstractmethod
    def ended(self, call: Call, fate: Fate) -> None:
        """A program has ended, by itself or killed: what did it promise? ``Broken`` if it ended as it must not."""

    def beside_ended(self, call: Call, fate: Fate) -> None:  # noqa: B027 - most have nothing beside
        """The same for those that ran meanwhile."""

    def stores(self) -> list[Path]:
        """The stores that a program may have been writing: to be looked at after a kill, those that are there."""
        return [path for path in (self.home.store_path,) if path.exists()]

    def homes(self) -> list[Path]:
        """The homes to show to the doctor."""
        return [store.parent for store in self.stores()]

    @abstractmethod
    def check(self, contents: dict[Path, Contents]) -> list[str]:
        """What is not as promised, a line each. ``contents``: of all stores, as they are now."""

    def recover(self, store: SQLiteStore) -> list[str]:  # noqa: ARG002 - for those that can
        """Go on in a store that is a copy of the scene's, cut back: what is wrong at the end."""
        return []

    def finish(self) -> list[str]:
        """The last program has run to its end: what is wrong with what came of it all."""
        return []

    # -- what scenes need --------------------------------------------------------------------------------------

    def culm(self, step: str, *arguments: object, home: Home | None = None, **more: Any) -> Call:  # noqa: ANN401
        """A call of the command line, in the scene's home if no other is named."""
        return Call(step, ("--home", str((home or self.home).path), *map(str, arguments)), **more)

    @staticmethod
    def module(step: str, name: str, *arguments: object, **more: Any) -> Call:  # noqa: ANN401
        """A call of another module."""
        return Call(step, tuple(map(str, arguments)), module=name, **more)


def expect(call: Call, fate: Fate, *codes: int) -> None:
    """``Broken`` if a program that was not killed ended with another exit code than these."""
    if fate.code is not None and fate.code not in codes:
        raise Broken(f"{' '.join(call.arguments)}: exit code {fate.code}: {fate.errors.strip() or fate.lines}")


def last_json(fate: Fate) -> dict[str, Any] | None:
    """The last line that a program printed, as JSON; None if it printed none."""
    if not fate.lines:
        return None
    found: dict[str, Any] = json.loads(fate.lines[-1])
    return found


def run_here(*arguments: object) -> str:
    """Run the command line in this process; what it printed. ``Broken`` if it fails."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(map(str, arguments)))
    if code:
        said = err.getvalue().strip() or out.getvalue().strip()
        raise Broken(f"{' '.join(map(str, arguments))}: exit code {code}: {said}")
    return out.getvalue()


def run_program(*arguments: object) -> str:
    """The same as a program of its own."""
    done = subprocess.run(
        command("culm.cli", map(str, arguments)), capture_output=True, text=True, env=environment(), check=False
    )
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise Broken(f"{' '.join(map(str, arguments))}: exit code {done.returncode}: {said}")
    return done.stdout
