"""The list of neighbours: whose announcements have a MAC of our clump and hour, and where they can be called.

The list keeps the sealed bytes and looks at them again when time has passed: a neighbour is one for as long as its
announcement holds. A node that stays announces itself anew each hour. The goodbyes of mDNS are not used, because
anybody can say goodbye in a neighbour's name.

Strangers take no place in the list. A member could invent keys to fill it, so it is bounded, and those that came first
stay. Time is an argument, in seconds since 1970.

Specification: docs/specs/neighbours.md, "Finding".
"""

from collections.abc import Iterator

from culm.errors import EncodingError
from culm.wire.announcement import HOUR_SECONDS, Address, Announcement, clump_key, unseal

MAX_NEIGHBOURS = 256
"""More nodes of one clump than this on one network are not called anyway, so that each is remembered costs nothing
but memory: about a kilobyte."""


class Neighbours:
    """The neighbours of a node in ``clump``; ``own`` is its key, which is never one of them (None: there is none).

    Addresses of the loopback are left out unless ``loopback``: they mean another machine where they were announced.
    """

    def __init__(self, clump: bytes, own: bytes | None = None, *, loopback: bool = False) -> None:
        self.key = clump_key(clump)
        self._own, self._loopback = own, loopback
        self._sealed: dict[bytes, bytes] = {}
        self._found: dict[bytes, tuple[Address, ...]] = {}
        self._hour = -1  # In which ``expire`` looked: within an hour nothing ceases to hold.

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Announcement]:
        """The neighbours, in the order in which they were found."""
        return (Announcement(key, addresses) for key, addresses in self._found.items())

    def take(self, data: bytes, now: float) -> bool:
        """Take an announcement that was heard; whether it brings a neighbour, or other addresses of one."""
        try:
            heard = unseal(data, self.key, now)
        except EncodingError:
            return False
        addresses = tuple(address for address in heard.addresses if self._loopback or not address[0].is_loopback)
        is_full = len(self._found) >= MAX_NEIGHBOURS and heard.key not in self._found
        if heard.key == self._own or not addresses or is_full:
            return False
        self._sealed[heard.key] = data
        is_new = self._found.get(heard.key) != addresses
        self._found[heard.key] = addresses
        return is_new

    def expire(self, now: float) -> None:
        """Forget the neighbours whose announcement holds no longer. It costs something once an hour only."""
        if self._hour == (hour := int(now // HOUR_SECONDS)):
            return
        self._hour = hour
        for key, data in list(self._sealed.items()):
            try:
                unseal(data, self.key, now)
            except EncodingError:
                del self._sealed[key], self._found[key]
