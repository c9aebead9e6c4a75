"""Which scenes are played, and what came of them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from crash.playing import Tally
from crash.scenes import SCENES

_MOST_SCENES = 20  # without a kill, after which something is wrong


class Task(NamedTuple):
    """A scene to play, with at most so many kills."""

    name: str
    seed: int
    kills: int


class Plan:
    """Scenes until so many programs were killed, evenly of all kinds; or ``scenes`` of each kind."""

    def __init__(self, kinds: list[str], kills: int, scenes: int | None, seed: int) -> None:
        self.tallies = {kind: Tally() for kind in kinds}
        self._wanted = kills
        self._scenes = scenes
        self._seed = seed
        self._played: Counter[str] = Counter()
        self._expected: Counter[str] = Counter()  # kills of scenes under way

    @property
    def kills(self) -> int:
        """Kills so far."""
        return sum(tally.kills for tally in self.tallies.values())

    def next(self) -> Task | None:
        """A scene to play; None if those under way are to be enough."""
        if self._scenes is not None:
            name = min(self.tallies, key=lambda kind: self._played[kind])
            kills = SCENES[name].kills
            if self._played[name] >= self._scenes:
                return None
        else:
            name = min(self.tallies, key=lambda kind: (self.tallies[kind].kills + self._expected[kind], kind))
            kills = min(self._wanted - self.kills - self._expected.total(), SCENES[name].kills)
            if kills <= 0:
                return None
        self._expected[name] += kills
        self._played[name] += 1
        return Task(name, self._seed + self._played[name] - 1, kills)

    def take(self, task: Task, tally: Tally) -> None:
        """A scene was played. ``RuntimeError`` if scenes of that kind lead nowhere."""
        self._expected[task.name] -= task.kills
        of_kind = self.tallies[task.name]
        of_kind.merge(tally)
        if self._played[task.name] >= _MOST_SCENES and not of_kind.kills:
            raise RuntimeError(f"{task.name}: no program was killed in {self._played[task.name]} scenes")

    def report(self, cpu: float, seconds: float) -> list[str]:
        """What came of it: a table, and a line of sums."""
        total = Tally()
        for tally in self.tallies.values():
            total.merge(tally)
        heads = ("kills", "at work", "ended before", "power cuts", "CPU s/kill", "findings")
        lines = [f"{'kind':15}" + "".join(f"{head:>13}" for head in heads)]
        lines += [
            f"{kind:15}{of.kills:13}{of.at_work:13}{of.ended:13}{of.cuts:13}{of.cpu / max(1, of.kills):13.1f}"
            f"{len(of.findings):13}"
            for kind, of in [*self.tallies.items(), ("all", total)]
        ]
        share, each = (total.at_work / total.kills, cpu / total.kills) if total.kills else (0.0, 0.0)
        lines.append(
            f"{total.kills} kills, {share:.0%} of them at work; {cpu:.0f} CPU seconds, {each:.1f} a kill;"
            f" {seconds:.0f} s in all"
        )
        return lines + [f"kept: {place}" for place in total.kept]
