"""Entries of one peer that were refused: they are not asked for again at once, because they would come again at once.

A wrong entry stays wrong, so it is never asked for again on the connection. An entry that waits for its path may only
have come while the store had no room. It is asked for again later, or a connection of weeks would never get it.
"""

from culm.errors import CulmError, InvalidEntry, Place
from culm.ranges.runs import Runs
from culm.types import Log, Run

_MOST_WITHOUT_ROOM = 4096  # Entries that are remembered. A peer can send any number of them without doing wrong.


class Refusals:
    """The refused entries, as sets of numbers. Of wrong ones a session bears only a hundred."""

    def __init__(self) -> None:
        self._wrong: dict[Log, Runs] = {}
        self._without_room: dict[Log, Runs] = {}
        self._count = 0  # of those without room

    def note(self, place: Place, error: CulmError) -> None:
        """An entry was refused for this reason."""
        kept = self._wrong
        if not isinstance(error, InvalidEntry):
            if self._count >= _MOST_WITHOUT_ROOM:
                return
            self._count += 1
            kept = self._without_room
        kept.setdefault((place.author, place.log_id), Runs()).add(place.seq, place.seq)

    def leave_out(self, log: Log, spans: list[Run]) -> list[Run]:
        """The spans without what was refused."""
        for kept in (self._wrong, self._without_room):
            if (refused := kept.get(log)) is not None:
                spans = [part for span in spans for part in refused.outside(*span)]
        return spans

    def forgive(self) -> list[Log]:
        """Forget the entries that had no room; their logs."""
        logs, self._without_room, self._count = list(self._without_room), {}, 0
        return logs
