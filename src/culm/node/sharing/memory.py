"""A memory budget for messages that peers have begun and not finished.

A message can be large, and a peer decides how large. With many connections at once, a limit for each of them is no
bound at all. So all connections draw on one budget. One address gets at most half of it; otherwise a single host could
use it up and nobody else could say anything long.

Bytes count when they have arrived, not when they are announced, because announcing costs an attacker nothing. A
connection that the budget has no room for is not read from until another one lets go of some.
"""

from __future__ import annotations

import asyncio
from collections import Counter

FREE = 256 * 1024
"""Bytes of each message that do not count, so that connections with short messages never wait.

It is what a session reads from the socket at once: with less, every connection that carries much would keep the books.
"""


class MemoryBudget:
    """Bytes that the unfinished messages of all connections may take together: ``limit``."""

    def __init__(self, limit: int) -> None:
        self.held = 0  # Bytes in use, without the ``FREE`` ones of each connection.
        self._limit = limit
        self._by_owner: Counter[str | None] = Counter()
        self._freed = asyncio.Event()  # Set when some connection lets go of bytes; the next wait is for a new one.

    def share(self, owner: str | None) -> MemoryShare:
        """The part of one connection; ``owner`` is the address at its other end, None if that is not known."""
        return MemoryShare(self, owner)

    def fits(self, owner: str | None, held: int, amount: int) -> bool:
        """Whether a connection that holds some bytes may hold ``amount``.

        A connection that is alone may hold any amount: otherwise a message larger than the limit would wait for ever.
        """
        others, of_owner = self.held - held, self._by_owner[owner] - held
        return (not others or others + amount <= self._limit) and (
            not of_owner or of_owner + amount <= self._limit // 2
        )

    def change(self, owner: str | None, held: int, amount: int) -> None:
        """A connection holds ``amount`` bytes now, instead of ``held``. Connections that wait look again."""
        self.held += amount - held
        self._by_owner[owner] += amount - held
        if not self._by_owner[owner]:
            del self._by_owner[owner]
        if amount < held:
            self._freed.set()
            self._freed = asyncio.Event()

    async def wait(self) -> None:
        """Wait until some connection lets go of bytes."""
        await self._freed.wait()


class MemoryShare:
    """What one connection holds of a budget."""

    def __init__(self, budget: MemoryBudget, owner: str | None) -> None:
        self._budget = budget
        self._owner = owner
        self._held = 0

    async def hold(self, size: int) -> None:
        """The unfinished message has ``size`` bytes now: return once the budget allows them. 0: it is finished."""
        amount = max(0, size - FREE)
        while amount > self._held and not self._budget.fits(self._owner, self._held, amount):
            await self._budget.wait()
        if amount != self._held:
            self._budget.change(self._owner, self._held, amount)
            self._held = amount

    def leave(self) -> None:
        """The connection is over: give everything back."""
        self._budget.change(self._owner, self._held, 0)
        self._held = 0
