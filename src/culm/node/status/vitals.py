"""What a person looks at first: rates over the last hour, when the store changed last, and the space on the disk.

The rates are kept in memory, a sum for each minute, so an hour costs 60 rows of four numbers however busy the node is.
They begin with the node: a history on the disk would have to be written all the time to be right after a crash.
"""

import shutil
from collections import deque
from pathlib import Path

from culm.node.roster import Roster
from culm.node.sessions.stats import SessionStats
from culm.node.status.asked import Plain
from culm.node.status.overview import Flow
from culm.store import ReadableStore

MINUTES = 60
_MINUTE = 60.0  # seconds of one step


def flow_of(roster: Roster) -> Flow:
    """What went through all sessions since the node started, those that have ended included."""
    every: list[SessionStats] = [*roster.past.values(), *(contact.stats for contact in roster.contacts())]
    return Flow(
        sum(stats.bytes_received for stats in every),
        sum(stats.bytes_sent for stats in every),
        sum(stats.entries_received for stats in every),
        sum(stats.entries_sent for stats in every),
    )


class History:
    """What went through in each of the last 60 minutes, the one that is under way included."""

    def __init__(self) -> None:
        self._minutes: deque[Flow] = deque(maxlen=MINUTES - 1)
        self._begun: float | None = None
        self._before = self._counts = Flow()

    def update(self, counts: Flow, now: float) -> None:
        """Take all counts at ``now``, in seconds of a clock that never goes back."""
        if self._begun is None:
            self._begun, self._before, self._counts = now, counts, counts
        while now - self._begun >= _MINUTE:
            self._begun += _MINUTE
            self._minutes.append(_between(self._before, counts))
            self._before = counts
        self._counts = counts

    def plain(self) -> Plain:
        """The sums of each minute, the oldest first; the last minute is under way."""
        minutes = [*self._minutes, _between(self._before, self._counts)]
        return {"seconds": _MINUTE, **{name: [getattr(flow, name) for flow in minutes] for name in Flow._fields}}


def _between(before: Flow, after: Flow) -> Flow:
    return Flow(*(new - old for new, old in zip(after, before, strict=True)))


class LastChange:
    """When the store changed last, in seconds since 1970, by the time of its files.

    The time is taken when a change is noticed, because folding the WAL file writes to the files later, too.
    """

    def __init__(self) -> None:
        self._change = -1
        self.at: float | None = None

    def noticed(self, change: int, path: Path) -> None:
        """The store at ``path`` has change number ``change`` now."""
        if change != self._change:
            self._change = change
            self.at = max((file.stat().st_mtime for file in _files(path) if file.exists()), default=None)


def disk(store: ReadableStore) -> Plain:
    """Bytes that the store takes, in its database and in files of large payloads, and bytes that are free."""
    database = sum(file.stat().st_size for file in _files(store.path) if file.exists())
    usage = shutil.disk_usage(store.path.parent)
    return {"database": database, "payloads": store.survey().file_bytes(), "free": usage.free, "total": usage.total}


def _files(path: Path) -> tuple[Path, Path]:
    return path, path.with_name(path.name + "-wal")
