"""Finding out which logs differ: negentropy over their heads, then the names behind those (culm.session).

The side that called leads. Both take part with the logs that they want, that the peer wants, and that are for others.
Comparing works on a snapshot of the store, on a thread of its own, and costs what differs.

Specification: docs/specs/culm.md, "What is compared".
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

from culm.errors import RemoteProtocolError
from culm.negentropy import Negentropy
from culm.node.culm.offers import offer_of
from culm.node.sharing.threads import Worker
from culm.node.surroundings import clock
from culm.session import Asked, Ended, Named, Offer, Reconcile
from culm.store import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.node.config import NodeConfig
    from culm.node.storage.worker import AnyWorker
    from culm.session import Connection
    from culm.types import Log

    Step = Reconcile | Asked | Named | Ended

_LEAST_SECONDS = 1.0  # from the beginning of one discovery to that of the next
_MOST_DIFFERENT = 1_000_000  # heads
_HEADS_A_TURN = 64  # whose logs are looked up


class Discovery:
    """The discoveries of one session. ``ended`` is the number of the last one that is over.

    ``begun`` is set with the first one; ``change`` is then the store's change that it compares, so that what is newer
    can be offered. ``wake`` is called when there is something to send, ``over`` when a discovery is over.
    """

    def __init__(
        self,
        connection: Connection,
        worker: AnyWorker,
        config: NodeConfig,
        wake: Callable[[], None],
        over: Callable[[], None],
    ) -> None:
        self.config = config
        self.ended = 0
        self.change = -1
        self.begun = asyncio.Event()
        self._connection = connection
        self._worker = worker
        self._share = worker.share
        self._wake = wake
        self._due = asyncio.Event()
        self._told = asyncio.Event()
        self._over = over
        self._steps: asyncio.Queue[Step] = asyncio.Queue()
        self._own = Worker(config.surroundings.thread())
        self._snapshot = ExitStack()

    def close(self) -> None:
        """The session is over."""
        self._own.finish(self._snapshot.close)

    def interests_told(self) -> None:
        """The peer said what it wants."""
        self._told.set()
        self._due.set()

    def again(self) -> None:
        """What we want has changed."""
        self._due.set()

    def take(self, step: Step) -> None:
        """Take what the peer said on the discovery stream: what may come is bounded by the states of the connection."""
        self._steps.put_nowait(step)

    async def run(self) -> None:
        """Compare, whenever there is a reason to, until cancelled."""
        await self._told.wait()
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
        """A session of negentropy over the heads as they are now."""
        store, policy, theirs = self._worker.store, self.config.policy, self._connection.their_interests
        change = await self._worker.run(store.change)
        plain = policy.wants_everything and theirs.is_everything and not policy.hides_logs

        def takes_part(log: Log) -> bool:
            return theirs.wants(log) and policy.wants(log) and policy.shares(log)

        records = store.record_set(View.HEADS, only=None if plain else takes_part)
        session = Negentropy(
            await self._share.run_on(self._own, self._snapshot.enter_context, records), self._frame_limit
        )
        if not self.begun.is_set():
            self.change = change
            self.begun.set()
        return session

    @property
    def _frame_limit(self) -> int:
        connection = self._connection
        return min(connection.limits.max_message, connection.their_limits.max_message) - 16

    def _offers(self, heads: Iterable[bytes]) -> list[Offer]:
        """The logs behind heads of ours, for whom they are for."""
        store, theirs, policy = self._worker.store, self._connection.their_interests, self.config.policy
        logs = [log for log in store.logs_of(heads) if theirs.wants(log) and policy.shares(log)]
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
                raise RemoteProtocolError(f"more than {_MOST_DIFFERENT} logs differ")
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
                case Named():
                    pass
            self._wake()
