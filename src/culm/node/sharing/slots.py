"""Connection slots: a node takes ``max_sessions`` connections at a time, and decides who gets one when all are taken.

The simple way is to refuse every newcomer. Then one host that opens enough connections shuts everybody else out for as
long as it likes, because a slot costs it nothing to keep. Closing the oldest connection instead is no better: the host
opens new ones until every honest peer is gone.

So slots are counted by address. A newcomer whose address has few slots gets one from the address that has the most: its
youngest connection ends. With 256 slots taken by one address, a second address can take one, and another one, until it
has about a fifth. Connections that have been there for long stay, because the youngest one goes.

Before any of that, a connection goes that is *idle*: whose peer has said nothing for long, or not even a first word
soon. Such connections are welcome while there is room, because a peer that only waits for news has nothing to say. When
there is none, the one that is idle longest gives up its slot, of the address that has the most connections; but not to
an address that has as many. So an attacker with many addresses cannot fill a node with connections that cost nothing.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

# An address gives a slot up only while it has at least four times as many as the newcomer's address has afterwards.
# With a factor near 1, two addresses with the same number of connections would go on ending each other's.
_TIMES = 4
MOST_GOING = 16
"""Connections that were told to end and have not yet. Each exceeds ``max_sessions`` by one meanwhile, so there are few.
"""

Call = TypeVar("Call")


class Slots(Generic[Call]):
    """The connections of each address, in the order in which they came. A connection without an address is of None.

    ``idle`` says for how many seconds a connection has been idle, 0 for one that is not.
    """

    def __init__(self, idle: Callable[[Call], float] = lambda _: 0.0) -> None:
        self._idle = idle
        self._calls: dict[str | None, dict[Call, None]] = {}
        self._going: dict[Call, str | None] = {}  # Told to end, and not over yet, with their addresses.

    @property
    def taken(self) -> int:
        """How many connections have a slot; those that were told to end have none any more."""
        return sum(map(len, self._calls.values()))

    def open(self, address: str | None) -> int:
        """How many connections of an address are open, those that were told to end included."""
        return len(self._calls.get(address, ())) + list(self._going.values()).count(address)

    def take(self, address: str | None, call: Call) -> None:
        """A connection from an address takes a slot."""
        self._calls.setdefault(address, {})[call] = None

    def leave(self, address: str | None, call: Call) -> None:
        """A connection is over, whether it was told to end or not."""
        self._going.pop(call, None)
        self._remove(address, call)

    def displaced_by(self, address: str | None) -> Call | None:
        """The connection that the caller has to end so that a newcomer from ``address`` gets a slot.

        None if the newcomer is to be refused instead.
        """
        if len(self._going) >= MOST_GOING or not self._calls:
            return None
        crowded, call = self._idle_longest(address) or self._youngest(address)
        if call is not None:
            self._remove(crowded, call)
            self._going[call] = crowded
        return call

    def _idle_longest(self, address: str | None) -> tuple[str | None, Call] | None:
        mine = len(self._calls.get(address, ()))
        found = [
            (len(calls), seconds, other, call)
            for other, calls in self._calls.items()
            if other == address or len(calls) > mine
            for call in calls
            if (seconds := self._idle(call))
        ]
        return max(found, key=lambda item: item[:2])[2:] if found else None

    def _youngest(self, address: str | None) -> tuple[str | None, Call | None]:
        crowded = max(self._calls, key=lambda other: len(self._calls[other]))
        calls = self._calls[crowded]
        if len(calls) < _TIMES * (len(self._calls.get(address, ())) + 1):
            return crowded, None
        return crowded, next(reversed(calls))

    def _remove(self, address: str | None, call: Call) -> None:
        calls = self._calls.get(address, {})
        calls.pop(call, None)
        if not calls:
            self._calls.pop(address, None)
