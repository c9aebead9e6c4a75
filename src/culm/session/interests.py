"""What a side wants: a Bamboo range set for a log, for all logs of an author, or for everything else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from culm.ranges import RangeSet
from culm.types import Log

if TYPE_CHECKING:
    from collections.abc import Iterator

Key = tuple[()] | tuple[bytes] | Log
"""What an interest is about: everything, an author, a log. The most exact one that there is counts."""

NOTHING = RangeSet()


@dataclass(slots=True)
class Interests:
    """Interests by what they are about. An empty set of ranges is an interest, too: in nothing."""

    ranges: dict[Key, RangeSet] = field(default_factory=dict)

    def of(self, log: Log) -> RangeSet:
        """What is wanted of a log."""
        for key in (log, log[:1], ()):
            found = self.ranges.get(key)
            if found is not None:
                return found
        return NOTHING

    def wants(self, log: Log) -> bool:
        """Whether anything of a log is wanted."""
        return bool(self.of(log))

    @property
    def is_everything(self) -> bool:
        """Whether something is wanted of every log there is."""
        return bool(self.ranges.get((), NOTHING)) and all(self.ranges.values())

    def __iter__(self) -> Iterator[tuple[Key, RangeSet]]:
        return iter(self.ranges.items())

    def __len__(self) -> int:
        return len(self.ranges)
