"""The doubts of a session: what a Culm peer says of its logs, and what is asked and shown because of that.

``culm.node.interests.doubts`` says when a peer is asked for an entry that it may hold differently. If we know a lower
fork than the peer, the proof is sent at once.

A doubt lasts until the peer announces the same once more, which ends its answer: a peer that only claims to know a fork
is asked once.

Specification: docs/specs/bushbaby.md, "Forks".
"""

from collections.abc import Callable, Iterable
from itertools import islice

from culm.bamboo import MAX_U64, ForkProof
from culm.bushbaby import HaveItem
from culm.node.interests.doubts import doubted, newest_common
from culm.ranges import Range, RangeSet
from culm.store import ReadableStore
from culm.types import Log, Run


class Doubts:
    """What one peer says of its logs, and which forks it knows. Bounded as the ledger bounds the logs announced."""

    def __init__(self) -> None:
        self._said: dict[Log, HaveItem] = {}
        self._open: set[Log] = set()
        self._compared: dict[Log, int] = {}  # The number of an entry that both hold, of logs that we may not show.
        self._known: dict[Log, int] = {}  # The lowest fork that the peer knows.

    def hear(self, item: HaveItem) -> None:
        """The peer has announced a log."""
        log = item.author, item.log_id
        if self._said.get(log) == item:
            self._open.discard(log)
        elif item.tip or item.fork:
            self._said[log] = item
            self._open.add(log)
            if item.fork:
                self.knows(log, item.fork)

    def knows(self, log: Log, position: int) -> None:
        """The peer knows a fork."""
        self._known[log] = min(position, self._known.get(log, MAX_U64))

    def spans(self, store: ReadableStore, log: Log, *, is_shown: bool) -> list[Run]:
        """What to ask for besides what is missing: an entry that we hold differently, or the cause of a fork.

        ``is_shown``: the peer hears of what we hold of the log, and so compares, too.
        """
        if log not in self._open:
            return []
        item = self._said[log]
        seq = doubted(store, log, item.newest, item.tip, item.fork)
        if seq is None and item.newest and not is_shown:
            common = newest_common(store, log, RangeSet([Range(1, item.newest)]))
            if common > self._compared.get(log, 0):
                seq = self._compared[log] = common
        return [] if seq is None else [(seq, seq)]

    def unknown(self, store: ReadableStore, logs: Iterable[Log], shares: Callable[[Log], bool]) -> list[ForkProof]:
        """The proofs of lower forks in these logs than the peer knows. It knows them from now on."""
        found = []
        for log in logs:
            proof = _lowest(store, log) if shares(log) else None
            if proof is not None and proof.position < self._known.get(log, MAX_U64):
                self.knows(log, proof.position)
                found.append(proof)
        return found


def _lowest(store: ReadableStore, log: Log) -> ForkProof | None:
    return next(iter(islice(store.fork_proofs(log), 1)), None)
