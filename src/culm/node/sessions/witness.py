"""Witnesses: how a session finds out that a peer holds the newest entry of a log of our own.

*The problem.* After a loss we may hold our own log only up to entry 5, and sign nothing in it before some peer turns
out to have no more either (``culm.store.confirming``). Peers say readily what they have: "I hold up to 5", "our logs
are equal", "I confirm what you propose behind the entry with this hash". But a claim costs nothing, and the hash in it
is often one that we named ourselves.

*The way chosen.* Only an entry counts that the peer itself has sent, and the store compares it with its own. If the
peer has newer entries, they come in any case. If it claims to end where we end, nothing would come, so the session asks
for our newest entry once more. It does so only for the first claim of a session, because later the peer may have the
entry from us. An honest peer without the log therefore confirms nothing.

Nothing counts either while more is on its way: the session calls ``settle`` when all that it asked for is stored, and a
peer that claims to hold more than it has sent confirms nothing.

Specification: docs/specs/bamboo.md, "Holding and publishing".
"""

from collections.abc import Callable

from culm.bamboo import Entry
from culm.node.storage.source import StoreSource
from culm.node.storage.worker import AnyWorker
from culm.types import Log

_MOST_CLAIMS = 4096  # Logs of our own that a peer may claim to hold. With more it is no witness: memory stays bounded.


class Witness:
    """What one peer has shown of the logs of ``own`` authors that are not confirmed, in one session.

    ``said`` and ``showed`` hear what it claims to hold and what it has sent of all their logs.
    """

    def __init__(
        self,
        worker: AnyWorker,
        source: StoreSource,
        own: frozenset[bytes],
        said: Callable[[Log, int], None] = lambda *_: None,
        showed: Callable[[Entry], None] = lambda _: None,
    ) -> None:
        self._own = own
        self._said = said
        self._showed = showed
        self._worker = worker
        self._source = source
        self._authors = own & source.ask(lambda store: store.unconfirmed_authors()) if own else own
        self._claims: dict[Log, int] = {}  # The greatest number that the peer claims to hold.
        self._shown: dict[Log, Entry] = {}  # The newest entry that the peer has sent.
        self.asked: dict[Log, int] = {}
        """The numbers of our newest entries that the peer is to send again, and has not sent yet."""

    def concerns(self, log: Log) -> bool:
        """Whether a log is of an author for whom the peer may be a witness."""
        return log[0] in self._authors

    def claimed(self, log: Log, newest: int) -> int:
        """The peer claims to hold a log up to ``newest``. Our newest entry's number if it is to be asked for, or 0."""
        if newest and log[0] in self._own:
            self._said(log, newest)
        if not self.concerns(log):
            return 0
        is_first = log not in self._claims
        self._claims[log] = max(newest, self._claims.get(log, 0))
        if len(self._claims) > _MOST_CLAIMS:
            self._authors = frozenset()
            self._shown.clear()
        if is_first and not self._source.ask(lambda store: store.is_confirmed(log)):
            ours = self._source.newest(log)
            if ours is not None and ours.seq == newest:
                self.asked[log] = newest
                return newest
        return 0

    def unconfirmed(self) -> list[Log]:
        """The logs with entries that wait for a witness."""
        logs = [
            log for author in self._authors for log in self._source.ask(lambda store, of: store.logs_by(of), author)
        ]
        return [log for log in logs if not self._source.ask(lambda store, log: store.is_confirmed(log), log)]

    def take(self, entry: Entry) -> None:
        """The peer has sent an entry, whose signature was checked."""
        if entry.author in self._own:
            self._showed(entry)
        if entry.author in self._authors:
            before = self._shown.get(entry.log)
            if before is None or before.seq <= entry.seq:
                self._shown[entry.log] = entry
            if entry.seq >= self.asked.get(entry.log, 0):
                self.asked.pop(entry.log, None)

    async def settle(self) -> None:
        """Nothing more is on its way: confirm the logs that the peer has sent as far as it claims to hold them."""
        for log, entry in list(self._shown.items()):
            if entry.seq >= self._claims.get(log, 0):
                del self._shown[log]
                await self._worker.run(self._worker.store.confirm_by, entry)
