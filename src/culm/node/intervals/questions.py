"""Questions: what has to be known of a peer's log beside its entries, and is asked for in the rounds of the follower.

They are lazy requests, which bring no data, and have names:

- ``newest``: which is the peer's newest payload? If the peer stops answering before that number, it has a gap. A
  request stops at the first entry that the peer lacks, so what it may hold behind that is asked for on its own: from
  each number at which its entries can go on (``culm.node.interests.missing.resumptions``).
- ``head``: is the peer's entry at our newest number the same as ours? The question names our entry's hash, so that a
  fork shows even when neither side has anything new.
- ``shared``: the same at *the peer's* newest number, or at the first number that we hold on the path down from there,
  if the peer holds no entry of our newest number.
- ``fork``: which is the lowest fork that the peer knows? Asked of a log that we know to be forked, because all else
  about it is asked for with local forks, which are shown only where they lie.
- ``doubt``: send the entry of a number at which the peer seems to hold another one. (This one is eager.) The same
  brings our own newest entry once more, where the peer has to show that it holds it (``culm.node.sessions.witness``).

Specification: docs/specs/intervals.md, "What a node asks for".
"""

from collections.abc import Callable
from typing import Protocol

from culm import intervals
from culm.bamboo import ForkProof, path
from culm.intervals import FromGreatest, Interval, MetadataOnly, Regular
from culm.node.intervals.followed import Followed
from culm.node.storage.source import StoreSource
from culm.types import Log


class _Request(Protocol):
    def __call__(
        self, followed: Followed, span: None, interval: Interval, *, lazy: bool, forks: intervals.Forks | None
    ) -> int: ...


class Questions:
    """The questions of one session. ``request`` sends a request and gives its id, ``drop`` cancels one if it is open.

    ``claimed``: see ``culm.node.sessions.witness``.
    """

    def __init__(
        self,
        connection: intervals.Connection,
        source: StoreSource,
        claimed: Callable[[Log, int], int],
        request: _Request,
        drop: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._source = source
        self._claimed = claimed
        self._request = request
        self._drop = drop

    # -- asking ------------------------------------------------------------------------------------------------

    def ask(self, followed: Followed) -> None:
        """Ask, at the beginning of a round, what is not known yet."""
        if not followed.were_asked:
            self._ask(followed, "newest", Regular(FromGreatest(1), FromGreatest(0)))
            # The newest entry, not the newest payload: the tails of pools end at one number, so that two nodes which
            # follow different parts of the log meet there.
            if (extent := self._source.lookup(followed.log).entry_extent()) is not None:
                self._compare(followed, "head", extent[1])
            if self._source.lookup(followed.log).is_forked:  # All else is asked for with local forks.
                interval = MetadataOnly(1, ascending=True, dist=0, own=self._source.hash_of(followed.log, 1))
                self._ask(followed, "fork", interval, forks=intervals.Forks.DEFAULT)
        if followed.newest is not None and not followed.is_compared and followed.compared is None:
            self._ask_below_their_newest(followed, followed.newest)
        # The peer's offer can give reason to compare an entry, and to ask for one that may contradict ours.
        if followed.compared is not None:
            self._compare(followed, "shared", followed.compared)
            followed.compared = None
        if followed.doubted is not None:
            self._ask(followed, "doubt", MetadataOnly(followed.doubted, ascending=True, dist=0), lazy=False)
            followed.doubted = None

    def _ask_below_their_newest(self, followed: Followed, newest: int) -> None:
        """Ask whether an entry is ours that both hold, if the peer holds none of our newest number.

        A side with a certified entry holds the path from it down to entry 1. So two such sides hold one entry
        in common at least. Without this question a fork would stay hidden from a peer that does not want the log,
        because it asks nothing itself. ``newest``: 0 if the peer has no payload; it may hold entries all the same.
        """
        lookup = self._source.lookup(followed.log)
        extent = lookup.entry_extent()
        is_told = extent is not None and followed.offered is not None and extent[1] <= newest
        if is_told or "head" not in followed.were_asked or "shared" in followed.were_asked:
            return
        held = (seq for seq in path(newest or 1, 1) if lookup.entries_around(seq) is not None)
        if (seq := next(held, None)) is not None:
            self._compare(followed, "shared", seq)

    def _compare(self, followed: Followed, name: str, seq: int) -> None:
        """Ask whether the peer's entry of a number is ours."""
        if (own := self._source.hash_of(followed.log, seq)) is not None:
            # Ascending: of a log that is forked above, the answer is about this number all the same.
            self._ask(followed, name, MetadataOnly(seq, ascending=True, dist=0, own=own))

    def _ask(
        self,
        followed: Followed,
        name: str,
        interval: Interval,
        *,
        lazy: bool = True,
        forks: intervals.Forks | None = None,
    ) -> None:
        followed.questions[self._request(followed, None, interval, lazy=lazy, forks=forks)] = name
        followed.were_asked |= {name}

    # -- what the peer says ------------------------------------------------------------------------------------

    def hear(self, followed: Followed, request_id: int, items: int) -> None:
        """The peer has so many items for a question."""
        name, ours = followed.questions[request_id], self._connection.ours.requests.get(request_id)
        followed.is_compared |= name == "head" and items > 0
        start = followed.started.get(name, 0)
        if name == "newest" and start:
            # The start is one below the newest payload, unless that is entry 1.
            pool = 0 if ours is None or ours.stream is None else len(ours.stream.before)
            if start == 1 and items == pool + 2:
                followed.unsure = request_id
            self._is_newest(followed, 1 if request_id == followed.unsure else start + 1)
        self.over(followed, request_id)

    def has_more(self, followed: Followed) -> None:
        """The answer that seemed to be about a single entry goes on: the newest payload is that of entry 2."""
        self.forget_unsure(followed)
        self._is_newest(followed, 2)

    def ended(self, followed: Followed, event: intervals.Ended) -> None:
        """The response to a question has ended."""
        if followed.questions.get(event.id) == "newest" and (proof := _proof_of(event)) is not None:
            followed.newest = proof.position - 1  # It lies on a branch. What counts is below the fork.
        self.over(followed, event.id)

    def over(self, followed: Followed, request_id: int) -> None:
        """A question has its answer, or none will come."""
        if request_id != followed.unsure:
            self._drop(request_id)
        name = followed.questions.pop(request_id, "")
        if name == "newest" and followed.newest is None:
            followed.newest = 0
            self._claimed(followed.log, 0)

    def forget_unsure(self, followed: Followed) -> None:
        """Cancel the question for the newest payload, if it was kept open."""
        request_id, followed.unsure = followed.unsure, -1
        self._drop(request_id)

    def _is_newest(self, followed: Followed, seq: int) -> None:
        followed.newest = seq
        followed.doubted = self._claimed(followed.log, seq) or followed.doubted


def _proof_of(event: intervals.Ended) -> ForkProof | None:
    """The fork that a response ended with; None if it ended otherwise, or with one side of a fork."""
    return ForkProof.of(*event.proof) if len(event.proof) == 2 else None
