"""The store's thread: everything a node does with its store happens there, one call after the other.

SQLite and signature checks would otherwise hold up the event loop. libsodium and SQLite run without the interpreter's
lock for most of their time, so that the loop meanwhile decrypts what comes in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

from culm.node.sharing.threads import Worker
from culm.node.sharing.turns import Share, Turns
from culm.node.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.store import Store, ToolStore

GROUP_ENTRIES = 1000  # that one call of the store's thread takes at most
_SHORT_GROUP_ENTRIES = 64  # where others wait for the store, too
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Computing:
    """Turns for computing, and the threads for it."""

    def __init__(self, surroundings: Surroundings | None = None) -> None:
        self._surroundings = surroundings or Surroundings()
        self._turns = Turns()
        self._threads = Worker(self._surroundings.threads())

    def share(self, owner: str | None = None) -> Share:
        """The part of an owner: an address, or None for ourselves."""
        return Share(self._turns, self._threads, owner, self._surroundings.spent)

    def close(self) -> None:
        """Finish what is under way."""
        self._threads.close()


class StoreWorker(Worker):
    """Runs functions on the store's own thread.

    ``share`` is for computing beside it, which sessions do by turns.
    """

    def __init__(self, store: ToolStore, surroundings: Surroundings | None = None) -> None:
        self._surroundings = surroundings or Surroundings()
        super().__init__(self._surroundings.thread())
        self.store = store
        self._computing, self._storing = Computing(self._surroundings), Turns(1)
        self.share = self._computing.share()

    def shared(self, owner: str | None) -> SharedWorker:
        """The same thread for what is done on an owner's account: by turns with what others have done there."""
        return SharedWorker(
            self.store, Share(self._storing, self, owner, self._surroundings.spent), self._computing.share(owner)
        )

    def beside(self) -> Worker:
        """Another thread, for what is done with a connection of its own; to be closed."""
        return Worker(self._surroundings.thread())

    def close(self) -> None:
        """Finish what is under way."""
        super().close()
        self._computing.close()


class SharedWorker:
    """A ``StoreWorker`` on an owner's account."""

    def __init__(self, store: Store, storing: Share, share: Share) -> None:
        self.store = store
        self.share = share
        self._storing = storing

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function on the store's thread when it is its turn; see ``Worker.run``."""
        return await self._storing.run(function, *args, **kwargs)


AnyWorker = StoreWorker | SharedWorker


def group_entries(worker: AnyWorker) -> int:
    """How many entries the store is to take in one call: many cost less each, and hold up others for longer."""
    return _SHORT_GROUP_ENTRIES if worker.share.has_others else GROUP_ENTRIES
