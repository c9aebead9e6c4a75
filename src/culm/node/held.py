"""What peers hold of this node's own logs, as they say and as they show: acknowledgements.

*The problem.* An author wants to know that an entry is safe: that somebody else has it. "The bytes were sent" is no
answer, because a peer may crash before it has stored them, or may have no room.

*The way chosen.* A peer of ``culm://`` tells an author what it holds of the author's logs once it has stored what it
fetched (``culm.node.culm.receipts``). With the other protocols only what a peer says anyway is noted: how far it is.
All this is what peers say. A peer that proves its identity may lie about what it holds; it only cannot speak for
another. ``shown`` is stronger: the peer has sent that entry to us.

This is not kept on the disk. A node that starts anew hears it anew.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock

from culm.types import Log
from culm.wire.places import author_text

_MOST = 16_384  # Holdings that are remembered: some megabytes. The ones that were heard of longest ago are forgotten.
_MOST_OF_PEER = 4096  # So that no peer can push out those of all others by naming logs.


@dataclass(frozen=True, slots=True)
class Holding:
    """What a peer holds of one of the node's own logs.

    ``peer`` is the key of the identity that it has proved; None with a protocol that proves none. ``address`` is where
    it was. ``newest``: the number of the newest entry that it says it holds, 0 if it has said nothing. ``complete``: it
    says that it holds every entry from 1 to this number, each with its whole payload; 0 with protocols other than
    ``culm://``, which cannot say that. ``shown``: the newest entry that it has sent to this node, and so really held.
    ``at``: when it said or showed something of the log last, in seconds since 1970.
    """

    peer: bytes | None
    address: str
    newest: int
    complete: int
    shown: int
    at: float

    def __str__(self) -> str:
        who = self.address if self.peer is None else author_text(self.peer)
        if not self.complete:
            return f"{who} has {self.newest}"
        rest = f", and has {self.newest}" if self.newest > self.complete else ""
        return f"{who} holds everything up to {self.complete}{rest}"


class HeldByPeers:
    """The holdings of all peers. Sessions note them on any thread; ``watchers`` are called there, too."""

    def __init__(self) -> None:
        self.watchers: set[Callable[[], None]] = set()
        self._lock = Lock()
        self._of: OrderedDict[tuple[bytes | str, Log], Holding] = OrderedDict()
        self._counts: dict[bytes | str, int] = {}

    def said(self, peer: bytes | None, address: str, log: Log, newest: int, complete: int | None = None) -> None:
        """The peer says how far it is; ``complete`` is None if it has not said that."""

        def told(before: Holding) -> Holding:
            kept = min(before.complete, newest) if complete is None else complete
            return replace(before, newest=newest, complete=kept)

        self._note(peer, address, log, told)

    def shown(self, peer: bytes | None, address: str, log: Log, seq: int) -> None:
        """The peer has sent an entry."""
        self._note(peer, address, log, lambda before: replace(before, shown=max(seq, before.shown)))

    def _note(self, peer: bytes | None, address: str, log: Log, change: Callable[[Holding], Holding]) -> None:
        who = address if peer is None else peer
        with self._lock:
            before = self._of.get((who, log))
            if before is None:
                if self._counts.get(who, 0) >= _MOST_OF_PEER:
                    return
                self._counts[who] = self._counts.get(who, 0) + 1
                before = Holding(peer, address, 0, 0, 0, 0.0)
            self._of[who, log] = replace(change(before), address=address, at=time.time())
            self._of.move_to_end((who, log))
            if len(self._of) > _MOST:
                (oldest, _), _ = self._of.popitem(last=False)
                self._counts[oldest] -= 1
                if not self._counts[oldest]:
                    del self._counts[oldest]
        for watcher in self.watchers:
            watcher()

    def of(self, log: Log) -> list[Holding]:
        """The holdings of one log, the latest last."""
        with self._lock:
            return [holding for (_, of_log), holding in self._of.items() if of_log == log]
