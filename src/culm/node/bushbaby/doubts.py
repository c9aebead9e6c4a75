"""Doubts: what two Culm nodes that hold a log differently do to find its lowest fork.

Bushbaby names only how far a node holds a log. Two nodes with different branches of one length would both be content.
So a HAVE among Culm nodes also has the *tip*, the beginning of the newest entry's digest, and the lowest *fork* that
the sender knows. Three cases follow:

- *The peer knows a lower fork.* It is asked for the entry there. It does not send that entry, as nothing at or after a
  fork is sent; it answers with the proof.
- *We know a lower fork.* The proof is sent at once.
- *The tips differ.* The peer is asked for its newest entry, which contradicts ours. From then on both know a fork, and
  announce the log again, up to an entry before it. If the tips there differ, too, this goes on. An entry's links reach
  back further with each step, so there are few.

A doubt lasts until the peer announces the same once more, which ends its answer: a peer that only claims to know a fork
is asked once.

Specification: docs/specs/bushbaby.md, "Forks".
"""

from collections.abc import Callable, Iterable
from itertools import islice

from culm.bamboo import MAX_U64, ForkProof
from culm.bamboo.yamf import YAMF_PREFIX
from culm.bushbaby import HaveItem
from culm.errors import Place
from culm.store import ReadableStore, State
from culm.types import Log, Run


class Doubts:
    """What one peer says of its logs, and which forks it knows. Bounded as the ledger bounds the logs announced."""

    def __init__(self) -> None:
        self._said: dict[Log, HaveItem] = {}
        self._open: set[Log] = set()
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

    def spans(self, store: ReadableStore, log: Log) -> list[Run]:
        """What to ask for besides what is missing: an entry that we hold differently, or the cause of a fork."""
        if log not in self._open:
            return []
        item = self._said[log]
        ours = _lowest(store, log)
        if item.fork and (ours is None or item.fork < ours.position):
            return [(item.fork, item.fork)]
        stored = store.get(Place(*log, item.newest))
        if item.tip and stored is not None and stored.state is State.VERIFIED:
            digest = stored.entry.hash[len(YAMF_PREFIX) :]
            if not digest.startswith(item.tip):
                return [(item.newest, item.newest)]
        return []

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
