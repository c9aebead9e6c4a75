"""The source: the store as peers may see it, from which sessions answer requests and proposals.

Answering is reading, and it must not wait for the store's thread, which may be busy storing. So all sessions share one
reading connection of their own. SQLite gives a reader a consistent view while others write. The connection may be used
from any thread, by one at a time; ``lock`` sees to that.

There are two groups of methods:

- What *peers* ask for goes through the policy here, in one place: of a log that is not shared, nothing is held, as far
  as a peer can see. An answer "I may not tell you" would tell that the log is here.
- What the node asks *for itself*, to plan its own requests, sees everything.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import Concatenate, ParamSpec, TypeVar

from culm.bamboo import Entry, ForkProof
from culm.errors import Place
from culm.node.culm.offers import newest_held
from culm.node.interests.policy import Policy
from culm.node.interests.quotas import ENTRY_BYTES
from culm.store import ReadableStore, SQLiteStore, StoredEntry
from culm.store.lookup import Lookup
from culm.transfer import Kept
from culm.types import Buffer, Log, Run

_P = ParamSpec("_P")
_T = TypeVar("_T")
_NO_LOG: Log = b"", 0  # No store holds anything of it, because an author has 32 bytes.


class _Locked:
    """A log's ``Lookup``, with the reader's lock around each question.

    It remembers the last run and the extent, because one answer asks about neighbouring numbers again and again. It
    must not live longer than that answer, since the store changes.
    """

    def __init__(self, lookup: Lookup, lock: RLock) -> None:
        self._lookup = lookup
        self._lock = lock
        self._entries: Run | None = None
        self._payloads: Run | None = None
        self.is_forked = lookup.is_forked

    def entries_around(self, seq: int) -> Run | None:
        if self._entries is None or not self._entries[0] <= seq <= self._entries[1]:
            with self._lock:
                self._entries = self._lookup.entries_around(seq)
        return self._entries

    def payloads_around(self, seq: int) -> Run | None:
        if self._payloads is None or not self._payloads[0] <= seq <= self._payloads[1]:
            with self._lock:
                self._payloads = self._lookup.payloads_around(seq)
        return self._payloads

    @cached_property
    def _extent(self) -> Run | None:
        with self._lock:
            return self._lookup.payload_extent()

    def payload_extent(self) -> Run | None:
        return self._extent

    def entry_extent(self) -> Run | None:
        with self._lock:
            return self._lookup.entry_extent()

    @property
    def disputed(self) -> list[Run]:
        with self._lock:
            return self._lookup.disputed()

    def end(self) -> Entry | None:
        with self._lock:
            return self._lookup.end()


@dataclass(frozen=True, slots=True)
class _Origins:
    """Which logs belong to a clump. It is asked afresh each time, because other processes share and receive logs, too.

    One question costs about ten microseconds, and one is asked for each log that a peer may learn of.
    """

    source: "StoreSource"
    clump: bytes

    def include(self, log: Log) -> bool:
        clumps = self.source.ask(ReadableStore.clumps_of, log)
        return clumps is None or self.clump in clumps

    def leave_out(self) -> bool:
        return self.source.ask(ReadableStore.has_clump_beside, self.clump)


class StoreSource:
    """A ``culm.transfer.Source`` over a store's file, and what a node needs to know to plan its own requests.

    ``clump`` is the one whose logs peers may see; None: they may see those of all clumps.
    """

    def __init__(self, store: ReadableStore, policy: Policy, clump: bytes | None = None) -> None:
        self._store = SQLiteStore(store.path, read_only=True)
        # A thread may ask about a log's clumps while it asks something else, so it may take the lock twice.
        self._lock = RLock()
        self._origins = None if clump is None else _Origins(self, clump)
        self.policy = self.take_policy(policy)
        # How many sessions fetch the payloads of a run of entries just now.
        self._fetching: dict[Log, Counter[Run]] = {}
        self._counting = Lock()  # Bytes are parsed on one thread for some sessions, on another one for others.

    def close(self) -> None:
        """Close the reading connection, after the question that is being answered."""
        with self._lock:
            self._store.close()

    def take_policy(self, policy: Policy) -> Policy:
        """Go on with another policy, also while sessions run; the same with the origins of the logs in it.

        All parts of a node need the one that is returned, because the other one shares logs of all clumps.
        """
        self.policy = replace(policy, origins=self._origins)
        return self.policy

    # -- for peers ---------------------------------------------------------------------------------------------

    def held(self, log: Log) -> _Locked:
        """What a peer may know of a log that we hold: everything if it is shared, nothing otherwise."""
        return self.lookup(log if self.policy.shares(log) else _NO_LOG)

    def page(self, log: Log, seq: int, *, ascending: bool, limit: int) -> list[Kept]:
        """Up to ``limit`` verified entries from ``seq`` on, with handles of their payloads."""
        with self._lock:
            return self._store.lookup(log).page(seq, ascending=ascending, limit=limit)

    def payload(self, kept: Kept, offset: int, size: int) -> Buffer:
        """Up to ``size`` bytes of a payload, from byte ``offset`` on."""
        with self._lock:
            return self._store.payload_view(kept.handle, offset, size)

    def misfit(
        self, log: Log, low: int, high: int, least: int | None, greatest: int | None, *, ascending: bool
    ) -> int | None:
        """The first entry from ``low`` to ``high`` (or back) whose complete payload is too small or too large.

        None if all fit. ``least`` and ``greatest`` are bytes, both included; None: no bound.
        """
        with self._lock:
            return self._store.lookup(log).misfit(low, high, least, greatest, ascending=ascending)

    def proofs(self, log: Log) -> list[ForkProof]:
        """The fork proofs of a log; none if it is not shared."""
        if not self.policy.shares(log):
            return []
        with self._lock:
            return list(self._store.fork_proofs(log))

    def variants(self, log: Log, seq: int) -> list[Kept]:
        """All entries that are held of one number: more than one where the log is forked."""
        with self._lock:
            return self._store.lookup(log).variants(seq)

    def expects(self, log: Log, seq: int) -> bool:
        """Whether some session is fetching a payload just now, so that a peer need not be told that we lack it."""
        with self._counting:
            return any(first <= seq <= last for first, last in self._fetching.get(log, ()))

    # -- for ourselves -----------------------------------------------------------------------------------------

    def ask(self, question: Callable[Concatenate[ReadableStore, _P], _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Ask the reading connection something about everything that is held, shared or not.

        ``question`` is a function that takes a store. It may ask several things that belong together.
        """
        with self._lock:
            return question(self._store, *args, **kwargs)

    def lookup(self, log: Log) -> _Locked:
        """What is held of a log, shared or not."""
        with self._lock:
            return _Locked(self._store.lookup(log), self._lock)

    def get(self, log: Log, seq: int) -> StoredEntry | None:
        """The entry of a number, or None. Of a forked number, the one that came first."""
        return self.ask(lambda store: store.get(Place(*log, seq)))

    def hash_of(self, log: Log, seq: int) -> bytes | None:
        """The hash of the entry that ``get`` gives."""
        stored = self.get(log, seq)
        return None if stored is None else stored.entry.hash

    def newest(self, log: Log) -> Entry | None:
        """The newest verified entry, or None."""
        with self._lock:
            newest = newest_held(self._store, log)
            stored = self._store.get(Place(*log, newest)) if newest else None
        return None if stored is None else stored.entry

    def fetches(self, log: Log, first: int, last: int) -> None:
        """Note that a session fetches the payloads of a run of entries; ``fetched`` has to follow, whatever happens."""
        with self._counting:
            self._fetching.setdefault(log, Counter())[first, last] += 1

    def fetched(self, log: Log, first: int, last: int) -> None:
        """Note that a session has stored these payloads, or has given up."""
        with self._counting:
            runs = self._fetching[log]
            runs[first, last] -= 1
            if not runs[first, last]:
                del runs[first, last]
            if not runs:
                del self._fetching[log]


def sizes_in(path: Path, clump: bytes) -> dict[bytes, int]:
    """What the logs of each author in a clump take, as ``Quotas`` counts it. Costs a look at every entry.

    It has a connection of its own: the look may take seconds, and nobody should wait for it.
    """
    with SQLiteStore(path, read_only=True) as store:
        return store.sizes(clump, ENTRY_BYTES)
