"""What a side wants: a Bamboo range set for a log, for all logs of an author, or for everything else."""

from collections.abc import Iterable

from culm.errors import RemoteProtocolError
from culm.ranges import RangeSet
from culm.session.limits import INTEREST_BYTES
from culm.types import Log

Key = tuple[()] | tuple[bytes] | Log
"""What an interest is about: everything, an author, a log. The most exact one that there is counts."""

NOTHING = RangeSet()


class Interests(dict[Key, RangeSet]):
    """Interests by what they are about. An empty set of ranges is an interest, too: in nothing."""

    def of(self, log: Log) -> RangeSet:
        """What is wanted of a log."""
        for key in (log, log[:1], ()):
            found = self.get(key)
            if found is not None:
                return found
        return NOTHING

    def wants(self, log: Log) -> bool:
        """Whether anything of a log is wanted."""
        return bool(self.of(log))

    @property
    def is_everything(self) -> bool:
        """Whether something is wanted of every log there is."""
        return bool(self.get((), NOTHING)) and all(self.values())


class TheirInterests:
    """What the peer wants, in ``interests``. ``most`` interests are kept of it, of ``INTEREST_BYTES`` together.

    A peer may tell its interests in many messages, each within the limit of a message; so the sum is bounded, too.
    """

    def __init__(self, most: int) -> None:
        self.interests = Interests()
        self._most = most
        self._bytes = 0

    def take(self, told: Iterable[tuple[Key, RangeSet]], *, reset: bool) -> None:
        """The peer wants more, or (``reset``) something else.

        ``RemoteProtocolError`` if that is more than is kept.
        """
        if reset:
            self.interests, self._bytes = Interests(), 0
        ranges = self.interests
        for key, wanted in told:
            before = ranges.get(key)
            self._bytes += len(wanted.encode()) - (len(before.encode()) if before is not None else 0)
            ranges[key] = wanted
        if len(ranges) > self._most:
            raise RemoteProtocolError(f"the peer told more than {self._most} interests")
        if self._bytes > INTEREST_BYTES:
            raise RemoteProtocolError(f"the peer told interests of more than {INTEREST_BYTES} bytes")
