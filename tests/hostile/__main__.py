"""``make hostile``: every attack, once for its cost, then without end beside an honest peer; what came of it.

An attack fails if the attacker gets anything else than it should, if the node needs more memory, CPU or connections
than it may, or if an honest peer had less of its usual rate in the same minute than it should, which is half for almost
all attacks: the median of some tries.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from culm.node.network.urls import SCHEMES
from tests.hostile.attack import QUICK_OPTIONS
from tests.hostile.honest import Honest
from tests.hostile.node import Node, is_confirmed
from tests.hostile.on_quotas import overfilled
from tests.hostile.table import ATTACKS
from tests.hostile.trial import endure, try_once

if TYPE_CHECKING:
    from tests.hostile.attack import Attack
    from tests.hostile.node import Kind
    from tests.hostile.trial import Endured, Tried

MORE_MEMORY = 2.0  # several of them, all the time, may need so many times what one strike may
_HEAD = ("attack", "the attacker got", "MB", "of", "CPU s", "of", "MB all the time", "honest rate")


@dataclass(slots=True)
class Line:
    """What came of an attack. ``wrong``: in which ways it got more than it should."""

    attack: Attack
    tried: Tried
    endured: list[Endured] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """What an honest peer had of its usual rate meanwhile."""
        return median(one.ratio for one in self.endured)

    def cells(self) -> list[str]:
        """As a row of the table."""
        cost, attack = self.tried.cost, self.attack
        held = max((one.memory for one in self.endured), default=0.0)
        return [
            f"{attack.protocol}: {attack.name}",
            self.tried.got + (f" ({self.tried.reason})" if self.tried.reason else ""),
            f"{cost.memory:.1f}",
            f"{attack.memory:g}",
            f"{cost.cpu:.2f}",
            f"{attack.cpu:g}",
            f"{held:.1f}",
            f"{self.ratio:.2f}" if self.endured else "-",
        ]


def _judged(line: Line) -> Line:
    attack, tried = line.attack, line.tried
    checks = {
        f"got {tried.got!r}": re.search(attack.gets, tried.got) is not None,
        "the node says nothing of it": attack.says is None or tried.reason is not None,
        "memory": tried.cost.memory <= attack.memory,
        "CPU": tried.cost.cpu <= attack.cpu,
        "connections": tried.cost.connections <= attack.connections,
        "memory all the time": all(one.memory <= attack.memory * MORE_MEMORY for one in line.endured),
        "honest rate": not line.endured or line.ratio >= attack.ratio,
    }
    line.wrong = [name for name, is_right in checks.items() if not is_right]
    return line


def run(attacks: list[Attack], seconds: float, tries: int) -> list[Line]:
    """Try the attacks; without an honest peer if there are no seconds for it."""
    lines = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        homes = {kind: Path(folder, kind) for kind in sorted({one.kind for one in attacks})}
        nodes = {kind: Node(home, kind, QUICK_OPTIONS) for kind, home in homes.items()}
        peers: dict[tuple[str, Kind], Honest] = {}
        for number, attack in enumerate(attacks):
            node = nodes[attack.kind]
            scheme = attack.protocol if attack.protocol in SCHEMES else "culm"
            if seconds and (scheme, attack.kind) not in peers:
                peer = stack.enter_context(Honest(scheme, node.target))
                peer.begin(0)  # to be warm
                peer.result()
                peers[scheme, attack.kind] = peer
            line = Line(attack, try_once(attack, node, f"127.9.{number + 1}.1"))
            for again in range(tries if seconds else 0):
                line.endured.append(
                    endure(attack, node, peers[scheme, attack.kind], 10 + (number * tries + again) % 240, seconds)
                )
                if line.ratio >= attack.ratio:
                    break
            lines.append(_judged(line))
            _say(" | ".join(line.cells()) + (f"  WRONG: {', '.join(line.wrong)}" if line.wrong else ""))
        codes = [node.stop() for node in nodes.values()]
        failures = [line for node in nodes.values() for line in node.failures]
        if any(map(is_confirmed, homes.values())):
            failures.append("a peer that only claimed to hold it confirmed the node's own log")
        failures += [line for kind, home in homes.items() if kind.startswith("quotas") for line in overfilled(home)]
    if any(codes) or failures:
        _say("\n".join([f"the nodes ended with codes {codes}", *failures]))
        sys.exit(1)
    return lines


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Try attacks; code 1 if one got more than it should."""
    parser = argparse.ArgumentParser(prog="make hostile", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of attacks; all if none is given")
    parser.add_argument("--seconds", type=float, default=4.0, help="that an honest peer syncs meanwhile; 0: none does")
    parser.add_argument("--tries", type=int, default=3, help="with an honest peer, until its rate is good enough")
    parser.add_argument("--list", action="store_true", help="say what attacks there are")
    options = parser.parse_args()
    attacks = [one for one in ATTACKS if not options.names or any(name in one.id for name in options.names)]
    if options.list:
        for attack in attacks:
            _say(f"{attack.id}: {attack.claim}")
        return
    _say(" | ".join(_HEAD))
    lines = run(attacks, options.seconds, options.tries)
    wrong = [line for line in lines if line.wrong]
    ratios = [line.ratio for line in lines if line.endured]
    least = f"; an honest peer had {min(ratios):.2f} of its usual rate at least" if ratios else ""
    _say(f"{len(lines)} attacks, {len(wrong)} got more than they should{least}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
