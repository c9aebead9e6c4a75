"""An attacker in a process of its own: it strikes again and again, several times at once, until its input ends.

``python -m tests.hostile.attacker ATTACK TARGET NETWORK``: its addresses are 127.NETWORK.x.y. It uses one at a
time, and another one as soon as it gets nowhere. At the end it prints what it got, and the CPU seconds it needed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Self

from culm.errors import CulmError
from tests.hostile.attack import Field
from tests.hostile.node import Target
from tests.hostile.table import ATTACKS
from tests.hostile.wires import Cut

_SOON = 0.3  # seconds: who is sent away so soon tries another address
_NICE = 10  # it, and the node, have what the honest peer leaves: as if that had a machine of its own


@dataclass(frozen=True, slots=True)
class Struck:
    """What came of it: what was got, how often; why strikes failed; CPU seconds."""

    got: dict[str, int]
    cpu: float


class Attacker:
    """The process. Use it as a context."""

    def __init__(self, attack: str, target: Target, network: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.attacker", attack, target.to_json(), str(network)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has begun

    def stop(self) -> Struck:
        """Have it come to an end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        return Struck(**json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


async def _strike(name: str, target: Target, network: int) -> Counter[str]:
    attack = next(one for one in ATTACKS if one.id == name)
    over = asyncio.Event()
    got: Counter[str] = Counter()
    address = 0

    async def lane() -> None:
        nonlocal address
        while not over.is_set():
            mine, began = address, time.monotonic()
            field = Field(target, f"127.{network}.{mine // 200 % 250}.{mine % 200 + 1}", is_long=True, over=over)
            try:
                got[await attack.strike(field)] += 1
            except (Cut, CulmError):
                got["refused"] += 1
            if time.monotonic() - began < _SOON and mine == address:
                address += 8

    loop = asyncio.get_running_loop()
    lanes = [asyncio.create_task(lane()) for _ in range(attack.at_once)]
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    over.set()
    _, late = await asyncio.wait(lanes, timeout=2)
    for task in late:
        task.cancel()
    await asyncio.gather(*lanes)
    return got


def main() -> None:
    """Strike until there is no more input."""
    os.nice(_NICE)
    name, target, network = sys.argv[1], Target.from_json(sys.argv[2]), int(sys.argv[3])
    try:
        got = asyncio.run(_strike(name, target, network))
    except asyncio.CancelledError:
        got = Counter()
    sys.stdout.write(json.dumps(asdict(Struck(dict(got), time.process_time()))) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
