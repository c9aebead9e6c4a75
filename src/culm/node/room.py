"""Room in memory for what peers have begun to say: so many bytes in all, and half of that for one address at most.

A message counts once it has come, not once it is announced. Whoever finds no room is not read from until there is some.
"""

from __future__ import annotations

import asyncio
from collections import Counter

FREE = 256 * 1024
"""Bytes of a message that do not count: who says little never waits."""


class Room:
    """``limit``: bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._by_owner: Counter[str | None] = Counter()
        self._waiting: set[asyncio.Event] = set()

    def place(self, owner: str | None) -> RoomPlace:
        """A place for the message of one connection; ``owner`` is the address at its other end."""
        return RoomPlace(self, owner)

    @property
    def held(self) -> int:
        """Bytes that are taken."""
        return self._held

    def _has_room(self, owner: str | None, held: int, amount: int) -> bool:
        """Whether somebody who holds some may hold so much; who is the only one may hold any amount."""
        others, of_owner = self._held - held, self._by_owner[owner] - held
        return (not others or others + amount <= self._limit) and (
            not of_owner or of_owner + amount <= self._limit // 2
        )

    def _set(self, owner: str | None, held: int, amount: int) -> None:
        self._held += amount - held
        self._by_owner[owner] += amount - held
        if not self._by_owner[owner]:
            del self._by_owner[owner]
        if amount < held:
            for event in self._waiting:
                event.set()

    async def _wait(self) -> None:
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            await event.wait()
        finally:
            self._waiting.discard(event)


class RoomPlace:
    """What one connection holds."""

    def __init__(self, room: Room, owner: str | None) -> None:
        self._room = room
        self._owner = owner
        self._held = 0

    async def hold(self, size: int) -> None:
        """A message has come to so many bytes: go on once there is room for them. 0: it is dealt with."""
        amount = max(0, size - FREE)
        room = self._room
        while amount > self._held and not room._has_room(self._owner, self._held, amount):  # noqa: SLF001 - its part
            await room._wait()  # noqa: SLF001
        if amount != self._held:
            room._set(self._owner, self._held, amount)  # noqa: SLF001
            self._held = amount

    def leave(self) -> None:
        """The connection is over."""
        if self._held:
            self._room._set(self._owner, self._held, 0)  # noqa: SLF001
            self._held = 0
