"""Playing a scene: its programs are run and killed, one after the other, and what they leave is looked at."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crash.looking import Looker
from crash.scenes import SCENES, Broken
from crash.victims import Aims, Call, Fate, Hung, Victim
from culm.errors import CulmError

if TYPE_CHECKING:
    from pathlib import Path

    from crash.material import Material
    from crash.peers import Peers
    from crash.scenes import Scene

DOCTOR_AS_PROGRAM = 20  # every so many kills ``culm doctor`` is run as a program, else in this process


@dataclass
class Tally:
    """What came of some scenes of one kind.

    ``kills`` hit running programs, ``at_work`` those that were working; ``ended`` counts runs that nothing hit;
    ``cuts``: power cuts that took something away. ``cpu``: seconds, without those of the peer. ``findings`` are lines,
    ``kept`` folders with what they are about.
    """

    kills: int = 0
    at_work: int = 0
    ended: int = 0
    cuts: int = 0
    cpu: float = 0.0
    findings: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)

    def merge(self, other: Tally) -> None:
        """Count another tally's, too."""
        self.kills += other.kills
        self.at_work += other.at_work
        self.ended += other.ended
        self.cuts += other.cuts
        self.cpu += other.cpu
        self.findings += other.findings
        self.kept += other.kept
        self.steps += other.steps


class Stage:
    """Where scenes are played. ``folder`` is for them, ``kept`` for those that end with a finding."""

    def __init__(self, folder: Path, kept: Path, material: Material, peers: Peers, seed: int) -> None:
        self._folder = folder
        self._kept = kept
        self._material = material
        self._peers = peers
        self._aims = Aims(random.Random(seed))
        self._looks = 0

    def play(self, name: str, seed: int, kills: int | None = None) -> Tally:
        """Play one scene; at most so many kills."""
        tally = Tally()
        folder = self._folder / "scene"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        rng = random.Random(f"{name}/{seed}")
        kind = SCENES[name]
        most = kind.kills if kills is None else min(kills, kind.kills)
        try:
            scene = kind(folder, self._material, self._peers, rng)
            self._play(scene, Looker(scene, self._folder / "looks", rng), most, tally)
        except (Broken, CulmError, Hung, AssertionError) as error:
            tally.findings.append(f"{type(error).__name__}: {error}")
        if tally.findings:
            self._keep(name, seed, tally)
        return tally

    def _play(self, scene: Scene, looker: Looker, kills: int, tally: Tally) -> None:
        while not tally.findings:
            last = tally.kills >= kills
            call = scene.call()
            if call is None or (last and call.endless is not None):
                break
            fate = self._run(scene, call, to_its_end=last)
            if fate.killed:
                tally.kills += 1
                tally.at_work += fate.at_work
            else:
                tally.ended += 1
                self._aims.learn(call.step, fate)
            tally.steps[f"{call.step}: {'killed' if fate.killed else 'ended'}"] += 1
            self._looks += 1
            look = looker.look(as_program=self._looks % DOCTOR_AS_PROGRAM == 0)
            tally.cuts += look.cuts
            tally.findings += look.problems
            if last:
                break
        if not tally.findings and tally.kills >= kills:
            tally.findings += scene.finish()

    def _run(self, scene: Scene, call: Call, *, to_its_end: bool) -> Fate:
        beside = [(other, Victim(other, [scene.folder])) for other in scene.beside()]
        try:
            for _, other in beside:
                other.begun()
            fate = Victim(call, [scene.folder]).run(None if to_its_end else self._aims.choose(call))
            too = scene.kills_beside()
            for of, other in beside:
                scene.beside_ended(of, other.end(kill=True) if too else other.run(None))
        finally:
            for _, other in beside:
                other.close()
        scene.ended(call, fate)
        return fate

    def _keep(self, name: str, seed: int, tally: Tally) -> None:
        place = self._kept / f"{name.replace(' ', '-')}-{seed}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for part in ("scene", "looks"):
            if (self._folder / part).exists():
                shutil.move(self._folder / part, place / part)
        tally.kept.append(f"{place}; again: python -m crash --kinds '{name}' --seed {seed} --scenes 1")
