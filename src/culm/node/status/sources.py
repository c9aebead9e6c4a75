"""Where the page gets what neither the store nor the roster has: the policy, the names, and what a doctor would find.

The page belongs to the node, and some of this belongs to the program around it: the names and the doctor's checks are
those of a home, and a node in a program may have none. So the page takes functions, and each has a default that knows
nothing.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from culm.errors import ConfigError, PayloadDamaged
from culm.node.interests.policy import Policy
from culm.node.names import Names, NamesFile
from culm.node.status.asked import Known, Plain
from culm.node.surroundings import written


async def _drop_nothing(_damage: PayloadDamaged) -> None:
    """Without a node, healing finds the damage by itself later."""


@dataclass(frozen=True)
class Sources:
    """``policy``: the node's choices now. ``names``: those that this home has given.

    ``examine`` looks through the home, in a thread: objects with ``level``, ``check``, ``what`` and ``todo``.
    ``is_sealed``: whether a payload that begins so is sealed, because ``culm.sealing`` is no part of a node. ``drop``
    is told of a payload that turns out to be damaged while it is read for a viewer.
    """

    policy: Callable[[], Policy] = Policy
    names: Callable[[], Names] = Names
    examine: Callable[[], Iterable[Plain]] = tuple
    is_sealed: Callable[[bytes], bool] = lambda _: False
    drop: Callable[[PayloadDamaged], Awaitable[None]] = _drop_nothing

    def known(self) -> Known:
        """What the node knows now."""
        return Known(self.policy(), self.names())


class NamesWatch:
    """The names in a file, read again when the file has changed. A damaged file changes nothing: doctor tells of it."""

    def __init__(self, file: NamesFile) -> None:
        self._file = file
        self._seen: object = ()
        self._names = Names()

    def __call__(self) -> Names:
        """The names now."""
        seen = written(self._file.path)
        if seen != self._seen:
            self._seen = seen
            with suppress(ConfigError):
                self._names = self._file.load()
        return self._names
