"""What two endpoints have told each other of a log on one connection (docs/specs/intervals.md, "Confirmations").

Two nodes that follow the same log ask each other for the same entries. Without a memory, an entry from one of them
would come back from the other. So both remember, for each log, what was sent and announced in either direction. An item
that came from the peer is *confirmed* to it: a few bytes say that we have it, too. A confirmation by the peer can be
checked with the same memory, because the peer may only confirm what it got, or heard of, from us.

The memory is made of runs of sequence numbers, so a log that was exchanged from end to end takes as much as one entry.
Numbers alone would do if a log had one branch only. An entry that arrived may not be stored yet, though, and the store
may meanwhile have got another one of its number. So of the newest entries from the peer the hashes are remembered, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from culm.bamboo import Entry
from culm.intervals.stream import Stream
from culm.ranges.runs import Runs
from culm.types import Log, Run

_NEWEST = 64  # Entries whose hashes are remembered for each log: more than wait to be stored, less than 20 kB.


class Items:
    """A set of items: metadata and payloads. It can stand for what is held of a log (``culm.intervals.planner``)."""

    def __init__(self) -> None:
        self.entries = Runs()
        self.payloads = Runs()

    def __bool__(self) -> bool:
        return bool(self.entries or self.payloads)

    def add(self, seq: int, *, is_payload: bool) -> None:
        """Add an item."""
        (self.payloads if is_payload else self.entries).add(seq, seq)

    def has(self, seq: int, *, is_payload: bool) -> bool:
        """Whether an item is in the set."""
        return seq in (self.payloads if is_payload else self.entries)

    def entries_around(self, seq: int) -> Run | None:
        """The run of entries around a number."""
        return self.entries.around(seq)

    def payloads_around(self, seq: int) -> Run | None:
        """The run of payloads around a number."""
        return self.payloads.around(seq)

    def payload_extent(self) -> Run | None:
        """The least and the greatest payload."""
        return self.payloads.extent

    def add_span(self, stream: Stream, index: int, count: int) -> None:
        """Add ``count`` items of a stream from ``index`` on; costs the pool, not the range."""
        first, end = max(index, stream.range_indexes.start), min(index + count, stream.range_indexes.stop)
        for at in (*range(index, min(index + count, first)), *range(max(index, end), index + count)):
            self.add(stream.item(at).seq, is_payload=False)
        if first < end:
            begin, last = stream.item(first), stream.item(end - 1)
            step = 1 if stream.ascending else -1
            _add_between(self.entries, begin.seq + step * begin.is_payload, last.seq, step)
            _add_between(self.payloads, begin.seq, last.seq - step * (not last.is_payload), step)


def _add_between(runs: Runs, first: int, last: int, step: int) -> None:
    if (last - first) * step >= 0:
        runs.add(min(first, last), max(first, last))


class Histories:
    """What was exchanged of each log. ``most`` logs are remembered, beside twice those that ``in_use`` gives.

    The oldest are forgotten many at a time: to ask for each new log which ones are in use would cost as much as there
    are, so that a peer who asks for ten thousand logs would make ten thousand times ten thousand steps.
    """

    def __init__(self, most: int, in_use: Callable[[], set[Log]]) -> None:
        self._most = self._full = most
        self._in_use = in_use
        self._by_log: dict[Log, Exchanged] = {}

    def of(self, log: Log) -> Exchanged:
        """What was exchanged of a log. Those that were asked for longest ago may be forgotten for it.

        To forget is safe: what is forgotten is sent once more, where it would have been confirmed.
        """
        exchanged = self._by_log.pop(log, None) or Exchanged()
        self._by_log[log] = exchanged
        if len(self._by_log) > self._full:
            self._forget({*self._in_use(), log})
        return exchanged

    def _forget(self, in_use: set[Log]) -> None:
        """Forget the oldest logs that are not in use, so that half of ``most`` are left."""
        idle = [log for log in self._by_log if log not in in_use]
        for log in idle[: max(0, len(idle) - self._most // 2)]:
            del self._by_log[log]
        self._full = len(self._by_log) + max(self._most // 2, len(in_use))


class Exchanged:
    """The items that went to the peer, and those that it sent: data and announcements.

    Each set is made when something looks at it: of most logs that a peer names nothing is exchanged.
    """

    def __init__(self) -> None:
        self.heard_hash: tuple[int, bytes] | None = None
        self._hashes: dict[int, bytes] = {}

    @cached_property
    def sent(self) -> Items:
        """The data that we sent."""
        return Items()

    @cached_property
    def announced(self) -> Items:
        """What we announced."""
        return Items()

    @cached_property
    def received(self) -> Items:
        """The data that the peer sent."""
        return Items()

    @cached_property
    def heard_of(self) -> Items:
        """What the peer announced."""
        return Items()

    def receive(self, entry: Entry) -> None:
        """Note an entry that the peer sent."""
        self.received.add(entry.seq, is_payload=False)
        self._hashes.pop(entry.seq, None)
        self._hashes[entry.seq] = entry.hash
        if len(self._hashes) > _NEWEST:
            del self._hashes[next(iter(self._hashes))]

    def receive_whole(self, entries: Sequence[Entry]) -> None:
        """Note neighbouring entries, in ascending order, that the peer sent with their payloads."""
        first, last = entries[0].seq, entries[-1].seq
        for entry in entries[-_NEWEST:]:
            self.receive(entry)
        self.received.entries.add(first, last)
        self.received.payloads.add(first, last)

    def is_from_peer(self, seq: int, value: bytes) -> bool:
        """Whether the entry that the peer sent may have this hash; only of the newest ones that is known."""
        return self._hashes.get(seq, value) == value
