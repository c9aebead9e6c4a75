"""The store's thread: whatever a node writes to its store, it writes there, one call after the other.

Why a thread? SQLite and signature checks take milliseconds, in which the event loop could serve nobody. libsodium and
SQLite release the interpreter's lock for most of that time, so the loop really goes on meanwhile.

Why only one? SQLite has one writer at a time in any case. With several threads, transactions would wait for each other
inside SQLite, where nobody can say who is next. With one, they wait in front of it, in turns shared between peers'
addresses (``culm.node.sharing.turns``).

Nothing waits long in such a queue only if each call is short. So callers cut their work: entries are stored in groups,
payloads in steps of bounded size. A group costs less for each entry the larger it is, because beginning and committing
a transaction costs the same whatever is in it. Groups are therefore large when nobody else waits, and small otherwise
(``group_entries``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from culm.node.sharing.threads import Worker
from culm.node.sharing.turns import Share, Turns
from culm.node.surroundings import Surroundings, present
from culm.store import Store, ToolStore

GROUP_ENTRIES = 1000
"""Entries in a call of the store's thread, at most. More would hardly cost less each, and hold up the rest."""
_SHORT_GROUP_ENTRIES = 64  # The same while other addresses want turns, too, so that each waits for a short group only.
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Computing:
    """The node's turns for computing, and the threads to compute on."""

    def __init__(self, surroundings: Surroundings | None = None) -> None:
        self._surroundings = surroundings or present()
        self._turns = Turns()
        self._threads = Worker(self._surroundings.threads())

    def share(self, owner: str | None = None) -> Share:
        """What an owner uses to compute in turns; ``owner`` is an address, or None for the node itself."""
        return Share(self._turns, self._threads, owner, self._surroundings.spent)

    def close(self) -> None:
        """See ``Worker.close``."""
        self._threads.close()


class StoreWorker(Worker):
    """The store and its thread, as the node itself uses them: without waiting for a turn.

    ``share`` is for computing beside the store, in turns with the sessions.
    """

    def __init__(self, store: ToolStore, surroundings: Surroundings | None = None) -> None:
        self.surroundings = surroundings or present()
        super().__init__(self.surroundings.thread())
        self.store = store
        self._computing, self._storing = Computing(self.surroundings), Turns(1)
        self.share = self._computing.share()

    def shared(self, owner: str | None) -> SharedWorker:
        """The store as the sessions of one address (``owner``) use it: in turns with other addresses."""
        return SharedWorker(
            self.store, Share(self._storing, self, owner, self.surroundings.spent), self._computing.share(owner)
        )

    def close(self) -> None:
        """Wait for what is under way, on the store's thread and on those for computing."""
        super().close()
        self._computing.close()


class SharedWorker:
    """A ``StoreWorker`` for one owner: calls wait for their turn, and count as the owner's time."""

    def __init__(self, store: Store, storing: Share, share: Share) -> None:
        self.store = store
        self.share = share
        self._storing = storing

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function on the store's thread, in a turn of the owner; see ``Worker.run``."""
        return await self._storing.run(function, *args, **kwargs)


AnyWorker = StoreWorker | SharedWorker


def group_entries(worker: AnyWorker) -> int:
    """How many entries to store in one call. Many cost less each; few hold up others for a shorter time."""
    return _SHORT_GROUP_ENTRIES if worker.share.has_others else GROUP_ENTRIES
