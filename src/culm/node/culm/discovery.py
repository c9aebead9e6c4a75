"""Discovery: two nodes that may hold a million logs each find out which of them differ.

*The simple way* is that each side lists all its logs with their newest entries. With a million logs that is some 40 MB,
at each connection, even if nothing has changed since yesterday.

*The way chosen* has two steps. First both sides compare *heads*. A head is a hash over what is held of one log, so two
nodes that hold the same of a log have the same head. Negentropy (``culm.negentropy``) compares the two sets of heads,
at a cost that depends on the number of differences. What differs is known as bare hashes then. In the second step each
side names the logs behind the heads that only it has, and offers what it holds of them.

For example, Alice holds logs A (10 entries) and B; Bob holds A (7 entries) and B. The heads of B are equal and cancel
out. Alice's head of A is unknown to Bob and the other way round, so both name A. Bob sees that he lacks 8 to 10.

The side that opened the connection leads, because both would otherwise start at once. Only logs take part that both
sides want and that may be shared. The work runs on a snapshot of the store and on a thread of its own, so that a long
comparison neither sees half of a change nor holds up writers.

Specification: docs/specs/culm.md, "What is compared".
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import ExitStack

from culm.errors import RemoteProtocolError
from culm.negentropy import Negentropy, sparing
from culm.node.config import NodeConfig
from culm.node.culm.offers import offer_of
from culm.node.interests.policy import Shown
from culm.node.sharing.threads import Worker
from culm.node.storage.worker import AnyWorker
from culm.node.surroundings import clock
from culm.session import Asked, Connection, Ended, Named, Offer, Reconcile
from culm.session.limits import AROUND_NEGENTROPY
from culm.store import ReadableStore, View
from culm.types import Log

Step = Reconcile | Asked | Named | Ended

_LEAST_SECONDS = 1.0  # From one discovery's start to the next one's, so that a peer cannot keep us comparing all day.
_MOST_DIFFERENT = 1_000_000  # Heads that only the peer has; each takes 32 bytes of memory and more in Python.
_HEADS_A_TURN = 64  # Heads whose logs are looked up in one call of the store's thread, so that others get in between.


class Discovery:
    """The discoveries of one session. ``ended`` is the number of the last one that is over; 0 if there was none.

    ``begun`` is set when the first one has taken its snapshot. ``change`` is then the number of the store's last change
    in it, so that everything newer can be offered as news. ``wake`` is called when there is something to send, ``over``
    when a discovery is over. ``begins`` gets the store before a snapshot is taken, on the store's thread.
    """

    def __init__(
        self,
        connection: Connection,
        worker: AnyWorker,
        config: NodeConfig,
        wake: Callable[[], None],
        over: Callable[[], None],
        begins: Callable[[ReadableStore], None],
    ) -> None:
        self.config = config
        self.ended = 0
        self.change = -1
        self.begun = asyncio.Event()
        self.named: set[Log] = set()  # Our own logs that were named to the peer, because it does not hold the same.
        self._connection = connection
        self._worker = worker
        self._share = worker.share
        self._wake = wake
        self._due = asyncio.Event()
        self._peer_interests_known = asyncio.Event()
        self._over = over
        self._begins = begins
        self._steps: asyncio.Queue[Step] = asyncio.Queue()
        self._own = Worker(config.surroundings.thread())
        self._snapshot = ExitStack()

    def close(self) -> None:
        """Close the snapshot, behind whatever its thread is doing; does not wait for that."""
        self._own.finish(self._snapshot.close)

    def interests_told(self) -> None:
        """The peer said what it wants, for the first time or anew: compare, since other logs take part now."""
        self._peer_interests_known.set()
        self._due.set()

    def again(self) -> None:
        """What we want has changed: compare once more."""
        self._due.set()

    def take(self, step: Step) -> None:
        """Take what the peer said on the discovery stream. The connection's states bound the queue."""
        self._steps.put_nowait(step)

    async def run(self) -> None:
        """Compare whenever there is a reason to, until cancelled."""
        await self._peer_interests_known.wait()
        while True:
            started = clock()
            if self._connection.calls:
                await self._due.wait()
                self._due.clear()
                await self._lead()
            else:
                await self._answer()
            await self._share.run_on(self._own, self._snapshot.close)
            self._over()
            await asyncio.sleep(max(0.0, _LEAST_SECONDS - (clock() - started)))

    # -- both sides --------------------------------------------------------------------------------------------

    async def _open(self) -> Negentropy:
        """A negentropy session over a snapshot of the heads as they are now."""
        store, policy, theirs = self._worker.store, self.config.policy, self._connection.their_interests
        change = await self._worker.run(self._change)
        # Usually every log takes part but those that are named. Then no log has to be looked at.
        is_usual = policy.wants_everything and theirs.is_everything

        def takes_part(log: Log) -> bool:
            return theirs.wants(log) and policy.carries(log) and policy.shares(log)

        shown = policy.shown if is_usual else Shown(only=takes_part, hidden=frozenset())
        records = store.record_set(View.HEADS, **shown)
        limits = self._connection.limits, self._connection.their_limits
        most = min(limit.max_message for limit in limits) - AROUND_NEGENTROPY
        heads = await self._share.run_on(self._own, self._snapshot.enter_context, records)
        session = Negentropy(heads, most, split=sparing)
        if not self.begun.is_set():
            self.change = change
            self.begun.set()
        return session

    def _change(self) -> int:
        """The number of the store's last change, just before the snapshot; runs on the store's thread."""
        self._begins(self._worker.store)
        return self._worker.store.change()

    def _offers(self, heads: Iterable[bytes]) -> list[Offer]:
        """Offers of the logs behind heads of ours. Heads are left out whose log the peer does not want or may not see.

        Runs on the store's thread. The store may have changed since the snapshot; offers say how it is now.
        """
        store, theirs, policy = self._worker.store, self._connection.their_interests, self.config.policy
        logs = [log for log in store.logs_of(heads) if theirs.wants(log) and policy.shares(log)]
        self.named.update(log for log in logs if log[0] in policy.own)
        return [offer_of(store, log) for log in logs]

    async def _named(self, heads: list[bytes]) -> list[Offer]:
        found: list[Offer] = []
        for at in range(0, len(heads), _HEADS_A_TURN):
            found += await self._worker.run(self._offers, heads[at : at + _HEADS_A_TURN])
        return found

    # -- the side that called ----------------------------------------------------------------------------------

    async def _lead(self) -> None:
        connection = self._connection
        session = await self._open()
        message: bytes | None = await self._share.run_on(self._own, session.initiate)
        while message is not None:
            connection.reconcile(message)
            self._wake()
            step = await self._steps.get()
            assert isinstance(step, Reconcile)  # noqa: S101 - the states allow nothing else
            message = await self._share.run_steps(self._own, session.reconcile_by_steps(step.message))
            if len(session.need) > _MOST_DIFFERENT:
                raise RemoteProtocolError(f"the peer claims more than {_MOST_DIFFERENT} logs that we lack")
        await self._name(session.have)
        most = connection.most_asked
        for at in range(0, len(session.need), most):
            connection.ask(session.need[at : at + most])
            self._wake()
            await self._steps.get()
        connection.end_round()
        self._wake()
        await self._steps.get()
        self.ended = connection.rounds

    async def _name(self, heads: list[bytes]) -> None:
        most = self._connection.most_asked
        for at in range(0, len(heads), most):
            offers = await self._named(heads[at : at + most])
            if offers:
                self._connection.name(offers)
                self._wake()

    # -- the side that was called ------------------------------------------------------------------------------

    async def _answer(self) -> None:
        session: Negentropy | None = None
        while True:
            match await self._steps.get():
                case Reconcile(message, first):
                    if first or session is None:
                        session = await self._open()
                    answer = await self._share.run_steps(self._own, session.reconcile_by_steps(message))
                    self._connection.reconcile(answer or b"")
                case Asked(heads):
                    self._connection.name(await self._named(heads))
                case Ended(number):
                    self._connection.end_round()
                    self._wake()
                    self.ended = number
                    return
            self._wake()
