"""What an attack is: who strikes how, what the node is to make of it, and what it may cost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tests.hostile.wires import Cut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from tests.hostile.node import Kind, Target

QUICK_OPTIONS = ("--limit", "handshake_seconds=3", "--limit", "idle_seconds=3", "--limit", "keepalive_seconds=1")


@dataclass(slots=True)
class Field:
    """Where an attacker strikes, and from which address. ``over``: it is to come to an end, if it does not by itself.

    ``is_long``: strike for as long as it is not over; else a bounded amount, for a test.
    """

    target: Target
    address: str
    is_long: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def rounds(self, few: int) -> range:
        """How often to do something: a few times, or until it is over (``goes_on``)."""
        return range(10**9 if self.is_long else few)

    async def press(self, work: Coroutine[None, None, None]) -> None:
        """Do something that the node may hold up, until it is done, the node ends the connection, or it is over."""
        tasks = [asyncio.create_task(work), asyncio.create_task(self.over.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                with suppress(Cut):
                    tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def others(self, count: int) -> list[str]:
        """Further addresses of the attacker."""
        before, _, last = self.address.rpartition(".")
        return [f"{before}.{int(last) + number}" for number in range(1, count + 1)]


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack. The first line of the docstring of ``strike`` says what the attacker does.

    ``strike`` returns what the attacker got. ``gets``: a pattern of that. ``says``: a pattern of the reason that stands
    in the node's log; None if the node has nothing against it. ``memory``: the MB that the node may need more
    meanwhile. ``cpu``: the CPU seconds that one strike of a bounded amount may cost it. ``connections``: how many it
    may have open more. ``kind``: which node is attacked. ``ratio``: of its usual rate that an honest peer has at least.
    ``is_quick``: it is among those of ``make test``. ``at_once``: how many strike together in the
    long run.
    """

    protocol: str
    name: str
    strike: Callable[[Field], Awaitable[str]]
    says: str | None
    gets: str = "cut off"
    memory: float = 40.0
    cpu: float = 2.0
    connections: int = 8
    kind: Kind = "all"
    is_quick: bool = True
    at_once: int = 4
    ratio: float = 0.5

    @property
    def id(self) -> str:
        """A name for the command line."""
        return f"{self.protocol}-{self.name.replace(' ', '-')}"

    @property
    def claim(self) -> str:
        """What the attacker does."""
        strike = self.strike.func if isinstance(self.strike, partial) else self.strike
        return (strike.__doc__ or "").partition("\n")[0]
