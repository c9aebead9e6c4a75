"""Trying an attack on a node: what it gets and costs, and how an honest peer fares meanwhile."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

from tests.hostile.attack import Field
from tests.hostile.attacker import Attacker
from tests.hostile.wires import Cut

if TYPE_CHECKING:
    from tests.hostile.attack import Attack
    from tests.hostile.honest import Honest, Synced
    from tests.hostile.node import Cost, Node

_PATIENCE = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Tried:
    """What one strike of a bounded amount did. ``reason``: what the node says of it."""

    got: str
    reason: str | None
    cost: Cost


@dataclass(frozen=True, slots=True)
class Endured:
    """What an honest peer got while the attacker struck all the time. ``ratio``: of its usual rate.

    ``share``: CPU seconds a second that the node spent on the attack, ``own`` those that the attacker did.
    """

    ratio: float
    usual: Synced
    meanwhile: Synced
    share: float
    own: float
    memory: float
    got: dict[str, int]


def try_once(attack: Attack, node: Node, address: str) -> Tried:
    """One strike of a bounded amount."""

    async def strike() -> str:
        field = Field(node.target, address)
        loop = asyncio.get_running_loop()

        def watch() -> None:
            if attack.says is not None and node.wait_for_reason(attack.says, address, _PATIENCE) is not None:
                with suppress(RuntimeError):  # the strike is over before
                    loop.call_soon_threadsafe(field.over.set)

        Thread(target=watch, daemon=True).start()
        async with asyncio.timeout(_PATIENCE):
            try:
                return await attack.strike(field)
            except Cut:
                return "refused"

    with node.measured() as costs:
        got = asyncio.run(strike())
        reason = None if attack.says is None else node.wait_for_reason(attack.says, address)
    return Tried(got, reason, costs[0])


def endure(attack: Attack, node: Node, honest: Honest, network: int, seconds: float) -> Endured:
    """Have an honest peer sync as usual, and while the attacker strikes."""
    with node.measured() as alone:
        honest.begin(seconds / 2)
        before = honest.result()
    with Attacker(attack.id, node.target, network) as attacker, node.measured() as costs:
        honest.begin(seconds)
        meanwhile = honest.result()
        struck = attacker.stop()
    honest.begin(seconds / 2)
    after = honest.result()
    usual = before.joined(after)
    duration = max(meanwhile.seconds, 0.1)
    spent = costs[0].cpu - alone[0].cpu / max(1, before.syncs) * meanwhile.syncs
    return Endured(
        meanwhile.rate / usual.rate if usual.rate else 0.0,
        usual,
        meanwhile,
        max(0.0, spent / duration),
        struck.cpu / duration,
        costs[0].memory,
        {re.sub(r"\d+", "N", got): count for got, count in struck.got.items()},
    )
