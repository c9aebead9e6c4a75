"""The places there are for connections that come in, and who gets one where all are taken.

Somebody from an address that has few gets the place of another one, which has many: of its youngest connection. So a
crowd behind some addresses cannot keep everybody else out, and who has been there for long stays.
"""

from __future__ import annotations

from typing import Generic, TypeVar

_TIMES = 4  # as many connections has an address that gives one up, at least, as the newcomer's has then
MOST_GOING = 16

Call = TypeVar("Call")


class Places(Generic[Call]):
    """The connections of each address, in the order in which they came."""

    def __init__(self) -> None:
        self._calls: dict[str | None, dict[Call, None]] = {}
        self._going: set[Call] = set()  # were told to go, and have not left

    @property
    def going(self) -> int:
        """How many were told to go, and have not left yet: a few at most."""
        return len(self._going)

    def take(self, address: str | None, call: Call) -> None:
        """A connection from an address has a place."""
        self._calls.setdefault(address, {})[call] = None

    def leave(self, address: str | None, call: Call) -> None:
        """It has ended."""
        self._going.discard(call)
        self._remove(address, call)

    def displaced_by(self, address: str | None) -> Call | None:
        """Whom a newcomer from an address displaces: the connection is to be ended. None if nobody has to go for it."""
        if len(self._going) >= MOST_GOING or not self._calls:
            return None
        crowded = max(self._calls, key=lambda other: len(self._calls[other]))
        calls = self._calls[crowded]
        if len(calls) < _TIMES * (len(self._calls.get(address, ())) + 1):
            return None
        call = next(reversed(calls))
        self._remove(crowded, call)
        self._going.add(call)
        return call

    def _remove(self, address: str | None, call: Call) -> None:
        calls = self._calls.get(address, {})
        calls.pop(call, None)
        if not calls:
            self._calls.pop(address, None)
