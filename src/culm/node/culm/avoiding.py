"""Interests without the range features that this node avoids, told anew as logs grow.

Most features are left out once and for all, which makes a range wider. An open range is different: without being open
it has to end somewhere, ``AHEAD`` entries after those that are held. When less than half of that is left, the interests
are told again with later ends. So a peer that takes them literally never has to wait, and still can only offer a
bounded part of the future.

An interest in many logs, of one author or of all, gets one end for all of them, after the longest log. An interest of
its own for each log would be more exact, but a peer takes 10,000 interests, and a node can hold a million logs.

Specification: docs/specs/ranges.md, "Restricted feature sets".
"""

from collections.abc import Collection, Iterable

from culm.node.culm.offers import newest_held
from culm.ranges import Feature
from culm.ranges.features import set_as_it_is, without
from culm.session import Interests
from culm.session.interests import Key
from culm.store import ReadableStore
from culm.types import Log

AHEAD = 10_000  # Entries. Each renewal has both sides compare again, so a smaller number would cost a fast log much.


class Avoiding:
    """What a session tells of its interests without ``features``, and how far the open ones of them reach now."""

    def __init__(self, features: Collection[Feature], ahead: int = AHEAD) -> None:
        self._features, self._ahead = features, ahead
        self._ends: dict[Key, int] = {}  # By what an interest is about: the end that stands for having none.

    def told(self, store: ReadableStore, interests: Interests) -> Interests:
        """The interests as they are to be told; the same if nothing is avoided."""
        self._ends.clear()
        if not self._features:
            return interests
        found = Interests()
        for key, ranges in interests.items():
            reached = 0
            if Feature.OPEN in self._features:
                starts = [item.start for item in ranges if item.is_open]
                if starts:
                    reached = max(_reached(store, key), min(starts) - 1)
                    self._ends[key] = reached + self._ahead
            found[key] = set_as_it_is(without(item, self._features, reached, self._ahead) for item in ranges)
        return found

    def is_outgrown(self, store: ReadableStore, logs: Iterable[Log]) -> bool:
        """Whether one of these logs has come so near to an end that the interests are to be told anew."""
        if not self._ends:
            return False
        ends = ((log, self._ends.get(log) or self._ends.get(log[:1]) or self._ends.get(())) for log in logs)
        return any(end is not None and newest_held(store, log) > end - self._ahead // 2 for log, end in ends)


def _reached(store: ReadableStore, key: Key) -> int:
    """The newest entry of the log, or of the longest log, that an interest is about."""
    return newest_held(store, key) if len(key) == 2 else store.longest(*key)
