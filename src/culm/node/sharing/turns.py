"""Whose turn it is: work that peers cause is shared out between their addresses, so that no peer can starve others.

A node has one interpreter. What sessions compute, and what they have the store do, takes turns: a short piece of work
each. If several wait, the turn goes to the address that has used the least time, counted from when it began to want
any. So a flood, of whatever and over however many connections of one address, costs the others half of what the node
can do at most; who does little does not even wait for its half: one turn is always left to others, if there are any.
Who is alone waits for nobody, but lets the loop go round every few milliseconds, so that it shows if another one comes.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from culm.node.surroundings import AT_ONCE, clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from concurrent.futures import Future

    from culm.node.sharing.threads import Worker

_REMEMBERED = 4096  # addresses
_LEAST_SECONDS = 2e-5  # that a turn counts for, however short
_LONG_TURN = 0.004  # seconds
_LATELY = 0.25  # seconds, in which somebody else wanted a turn: then there are others
_LEAST_PORTION, _MOST_PORTION = 1024, 64 * 1024  # bytes
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Turns:
    """Gives out turns, ``at_once`` at a time. An owner is whoever shares a turn: an address, or None for ourselves.

    Of those who wait one begins each time the loop goes round: what is done on it holds up everybody else.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._waiting: dict[str | None, deque[asyncio.Future[None]]] = {}
        self._used: OrderedDict[str | None, float] = OrderedDict()  # seconds, from a common beginning
        self._held: Counter[str | None] = Counter()  # turns of each owner that are not over
        self._lately: OrderedDict[str, float] = OrderedDict()  # when each address began its last turn, the latest last
        self._floor = 0.0  # what the last one to begin had used: who comes anew begins there
        self._in_a_row = 0.0  # seconds since the loop went round
        self._is_due = False

    async def take(self, owner: str | None) -> None:
        """Wait for a turn. It has to be given back, whatever happens."""
        if not self._waiting and self._in_a_row < _LONG_TURN and self._may_begin(owner):
            self._begin(owner)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        self._schedule()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(owner, turn)
            else:
                self.give_back(owner, 0.0)
            raise

    def give_back(self, owner: str | None, seconds: float) -> None:
        """A turn is over, which took so long."""
        self._used[owner] = self._used.get(owner, self._floor) + max(seconds, _LEAST_SECONDS)
        self._in_a_row += seconds
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        if self._waiting:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_due and self._free:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._grant)

    def _grant(self) -> None:
        """Let the one begin who has used the least."""
        self._is_due = False
        self._in_a_row = 0.0
        while able := [owner for owner in self._waiting if self._may_begin(owner)]:
            following = min(able, key=self._standing)
            turn = self._waiting[following][0]
            self._leave(following, turn)
            if not turn.cancelled():
                self._begin(following)
                turn.set_result(None)
                if self._waiting:
                    self._schedule()
                return  # those who may not begin yet may when a turn is given back

    def _may_begin(self, owner: str | None) -> bool:
        """Whether there is a turn for an address: the last one is not for who has one, if there are others."""
        if self._free == 1 and self._held[owner]:
            return not self.has_others(owner)
        return self._free > 0

    def has_others(self, owner: str | None) -> bool:
        """Whether another address than this one had a turn lately; ourselves, who are none, have no others."""
        if owner is None or len(self._lately) < 2:
            return False
        latest = list(islice(reversed(self._lately.items()), 2))
        other, at = latest[0] if latest[0][0] != owner else latest[1]
        return clock() - at < _LATELY and other != owner

    def _standing(self, owner: str | None) -> float:
        return max(self._floor, self._used.get(owner, 0.0))

    def _begin(self, owner: str | None) -> None:
        self._free -= 1
        self._held[owner] += 1
        if owner is not None:
            self._lately[owner] = clock()
            self._lately.move_to_end(owner)
            if len(self._lately) > 2:
                self._lately.popitem(last=False)
        self._floor = self._used[owner] = self._standing(owner)
        self._used.move_to_end(owner)
        if len(self._used) > _REMEMBERED:
            self._used.popitem(last=False)

    def _leave(self, owner: str | None, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(owner)
        if turns is None or turn not in turns:
            return
        turns.remove(turn)
        if not turns:
            del self._waiting[owner]


class Portion:
    """How many bytes of a peer are dealt with in one turn: fewer where they cost much, as far as that showed."""

    def __init__(self) -> None:
        self.size = _LEAST_PORTION * 8

    def took(self, seconds: float, size: int) -> None:
        """So many bytes cost so many seconds."""
        if seconds > _LONG_TURN:
            self.size = max(_LEAST_PORTION, size // 2)
        elif seconds < _LONG_TURN / 4 and size >= self.size:
            self.size = min(_MOST_PORTION, self.size * 2)


class Share:
    """An owner's part in some turns, and the threads for it."""

    def __init__(
        self, turns: Turns, threads: Worker, owner: str | None = None, spent: Callable[[], float] = time.thread_time
    ) -> None:
        self.spent = spent
        self._turns = turns
        self._threads = threads
        self._owner = owner

    @property
    def has_others(self) -> bool:
        """Whether another address wants turns, too: then what holds up others is to be short."""
        return self._turns.has_others(self._owner)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A turn for what is done here and now: the block must not wait for anything."""
        await self._turns.take(self._owner)
        began = self.spent()
        try:
            yield
        finally:
            self._turns.give_back(self._owner, self.spent() - began)

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function on a thread, when it is its turn; the turn lasts until it ends, even if nobody waits."""
        return await self.run_on(self._threads, function, *args, **kwargs)

    async def run_steps(self, threads: Worker, steps: Generator[object, None, _T]) -> _T:
        """Run a generator to its end on certain threads, each step in a turn of its own; what it returns."""

        def step() -> tuple[bool, _T | None]:
            try:
                next(steps)
            except StopIteration as end:
                return True, end.value
            return False, None

        while True:
            is_over, value = await self.run_on(threads, step)
            if is_over:
                return cast("_T", value)

    async def run_on(self, threads: Worker, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The same on certain threads."""
        turns, owner, loop = self._turns, self._owner, asyncio.get_running_loop()
        used = 0.0

        def timed() -> _T:
            nonlocal used
            began = self.spent()
            try:
                return function(*args, **kwargs)
            finally:
                used = self.spent() - began

        def over(_: Future[_T]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for a turn any more
                loop.call_soon_threadsafe(turns.give_back, owner, used)

        await turns.take(owner)
        try:
            work = threads.start(timed)
        except BaseException:
            turns.give_back(owner, 0.0)
            raise
        work.add_done_callback(over)
        return await asyncio.wrap_future(work)
