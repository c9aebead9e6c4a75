"""The requests of the peer, and whose turn it is to be answered (docs/specs/intervals.md, "Fairness and bounds").

A peer may keep a thousand requests open, most of them for news that come once a day. To ask every request whether it
has something to send would cost a look into the store each time, and to answer one request until nothing is left would
let a large log hold up all others.

So requests take turns, like people at a counter who may hand over one parcel and then queue again. Three kinds stand in
the queue: new requests, requests that sent a part in their last turn, and requests whose log has changed since. All
others are paused, stand nowhere, and cost nothing. A request that could send if the peer had granted more bytes goes
back into the queue, because a grant wakes nobody.
"""

from collections import OrderedDict
from collections.abc import Iterable

from culm.intervals.responder import TheirRequest
from culm.ranges.runs import Runs
from culm.types import Log


class Turns:
    """The queue; its length says how many wait for a turn.

    ``requests`` are the open ones, by id. ``ids`` are all ids that the peer ever used, because it may cancel or adjust
    a request that ended in the meantime, but not one that never was.
    """

    def __init__(self) -> None:
        self.requests: dict[int, TheirRequest] = {}
        self.ids = Runs()
        self._queue: OrderedDict[int, None] = OrderedDict()
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
        self._queue.pop(request_id, None)
        of_log = self._by_log[theirs.request.log]
        of_log.discard(request_id)
        if not of_log:
            del self._by_log[theirs.request.log]

    def queue(self, request_id: int) -> None:
        """Give a request another turn, behind the others."""
        self._queue.setdefault(request_id)

    def next(self) -> TheirRequest:
        """Take the first of the queue."""
        request_id, _ = self._queue.popitem(last=False)
        return self.requests[request_id]

    def wake(self, logs: Iterable[Log]) -> None:
        """These logs have changed: all requests for them get a turn."""
        for log in logs:
            for request_id in self._by_log.get(log, ()):
                self.requests[request_id].look_again()
                self.queue(request_id)
