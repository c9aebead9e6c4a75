"""The requests of the peer, and whose turn it is to be answered (docs/specs/intervals.md, "Fairness and bounds").

Only requests that may have something to be sent wait for a turn: new ones, those that sent a part last time, and those
whose log has changed. The others cost nothing.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from culm.intervals.states import TheirEvent
from culm.ranges.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.intervals.responder import TheirRequest
    from culm.types import Log


class Turns:
    """``requests`` are those open, by id; ``ids`` all ids that were ever used. Its length: how many wait for a turn."""

    def __init__(self) -> None:
        self.requests: dict[int, TheirRequest] = {}
        self.ids = Runs()
        self._queue: deque[int] = deque()
        self._queued: set[int] = set()
        self._by_log: dict[Log, set[int]] = {}

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def logs(self) -> Iterable[Log]:
        """The logs that are asked for."""
        return self._by_log.keys()

    def open(self, theirs: TheirRequest) -> None:
        """Add a request; it gets a turn."""
        request = theirs.request
        self.ids.add(request.id, request.id)
        self.requests[request.id] = theirs
        self._by_log.setdefault(request.log, set()).add(request.id)
        self.queue(request.id)

    def close(self, request_id: int) -> None:
        """A request is over."""
        theirs = self.requests.pop(request_id)
        theirs.advance(TheirEvent.OVER)
        of_log = self._by_log[theirs.request.log]
        of_log.discard(request_id)
        if not of_log:
            del self._by_log[theirs.request.log]

    def queue(self, request_id: int) -> None:
        """Give a request another turn, behind the others."""
        if request_id not in self._queued:
            self._queued.add(request_id)
            self._queue.append(request_id)

    def next(self) -> TheirRequest | None:
        """The request whose turn it is; None if it is over meanwhile."""
        request_id = self._queue.popleft()
        self._queued.discard(request_id)
        return self.requests.get(request_id)

    def wake(self, logs: Iterable[Log]) -> None:
        """Logs have changed: those who wait for them get a turn."""
        for log in logs:
            for request_id in self._by_log.get(log, ()):
                self.requests[request_id].advance(TheirEvent.WOKEN)
                self.queue(request_id)
