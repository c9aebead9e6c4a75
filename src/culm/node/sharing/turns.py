"""Turns: computing time is shared out between the addresses of peers, so that no peer can starve the others.

*The problem.* A node has one interpreter and one store. Checking a million signatures for one peer must not keep
another peer's three messages waiting.

*The simple ways.* First come, first served: the peer that queues the most work gets the most time. One turn for each
*session* in rotation: a flood over a hundred connections gets a hundred turns for each one of an honest peer. One turn
for each *address* in rotation: better, but a turn that checks a batch of signatures costs many times as much as a
turn that reads a short message, so time is still shared out badly.

*The way chosen.* Work is cut into short turns, and each address has an account of the seconds it has used. Of all
addresses that wait, the one with the least seconds on its account goes next. Think of one tap at a campsite, and a list
of how long each tent has used it so far: the tent with the least time is next. A tent that wants a glass of water never
waits behind the tent that fills a pool, however many hoses that tent brings. Addresses, and not connections or
identities, have the accounts, because an attacker can make as many of these as it likes.

For example, A floods and B sends a message now and then. A's account is at 7.3 s. B comes back after a pause: its
account is not 0 but starts at the *floor*, the account of the address that began last, so that B cannot save up a pause
of an hour and then hold the node for an hour. B is at or below A then, so B's turns come first until both have used the
same; from there on each gets half.

Three details:

- A turn on a thread needs the interpreter, and so does a turn on the event loop beside it. The system shares out the
  interpreter by chance, and the loop keeps it longer. So an address that has used 10 ms more than another one which has
  a turn waits for the end of that turn, at most 20 ms.
- The last free turn is left to another address, if any wanted one lately. A turn cannot be interrupted. Otherwise A
  could hold all turns at the moment when B comes, and B would wait for the longest of them each time.
- An address that has no competitor gets its turn at once. But every few milliseconds it lets the event loop go round,
  because otherwise nobody would notice that a competitor has come.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import ParamSpec, TypeVar, cast

from culm.node.sharing.threads import Worker
from culm.node.surroundings import AT_ONCE, clock, spent

_REMEMBERED = 4096  # Accounts of addresses. The oldest is forgotten first; it starts at the floor when it comes back.
_LEAST_SECONDS = 2e-5  # A turn counts for at least this, because switching costs time that no clock of a thread sees.
_LONG_TURN = 0.004  # Seconds: a turn should not take longer, because others wait for its end; the loop, too.
_MOST_AHEAD = 0.01  # Seconds that an address may have used more than another one that has a turn, before it waits.
_LEFT_ALONE = 0.02  # Seconds for which it waits at most, because some turns are long and use no interpreter.
_LATELY = 0.25  # Seconds since another address had a turn, for which a turn is kept free for it.
# Bytes parsed in one turn: below 1 KiB the turns cost more than the parsing, above 64 KiB they get long for certain.
_LEAST_PORTION, _MOST_PORTION = 1024, 64 * 1024
# The same while no other address wants turns: then they run on a thread of their own and hold up nobody, so they may be
# as long as makes signatures cheap. Eight hundred entries, checked in one batch, cost half as much each as thirty do.
_LONG_TURN_ALONE, _MOST_PORTION_ALONE = 0.05, 256 * 1024
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Turns:
    """Gives out turns, ``at_once`` at a time, to owners. An owner is an address, or None for the node itself.

    Of the turns that wait, one begins each time the event loop goes round. Work done on the loop holds up the whole
    node, so a crowd that is ready at once must not run one after the other without a pause.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._waiting: dict[str | None, deque[asyncio.Future[None]]] = {}
        self._used: OrderedDict[str | None, float] = OrderedDict()  # Accounts, in seconds; comparable, not absolute.
        self._held: Counter[str | None] = Counter()  # Turns of each owner that have begun and are not over.
        self._began: dict[str | None, float] = {}  # When the last of these began.
        self._lately: OrderedDict[str, float] = OrderedDict()  # When the latest two addresses began their last turns.
        self._floor = 0.0  # The account of the owner that began last: one that is new, or has paused, starts there.
        self._in_a_row = 0.0  # Seconds of turns since the loop went round.
        self._is_due = False  # Whether ``_grant`` is going to be called.
        self._is_late = False  # Whether ``_grant_late`` is.

    async def take(self, owner: str | None) -> None:
        """Wait for a turn. The caller has to give it back, whatever happens."""
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
            else:  # It was granted just before: somebody else has to get it.
                self.give_back(owner, 0.0)
            raise

    def give_back(self, owner: str | None, seconds: float) -> None:
        """End a turn, which took ``seconds`` of computing."""
        self._used[owner] = self._used.get(owner, self._floor) + max(seconds, _LEAST_SECONDS)
        self._in_a_row += seconds
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner], self._began[owner]
        if self._waiting:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_due and self._free:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._grant)

    def _grant(self) -> None:
        """Let the waiting owner begin that has used the least, and come back for the next one."""
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
                return  # Owners that may not begin now are looked at again when a turn is given back.
        # Or when the turn that they leave alone has gone on for so long that they need not wait for its end.
        if self._free and self._waiting and not self._is_late:
            self._is_late = True
            asyncio.get_running_loop().call_later(_LEFT_ALONE, self._grant_late)

    def _grant_late(self) -> None:
        self._is_late = False
        if not self._is_due:
            self._grant()

    def _may_begin(self, owner: str | None) -> bool:
        """Whether an owner may begin a turn now. The last free one is not for an owner that holds one already."""
        if owner is not None and self._is_ahead(owner):
            return False
        if self._free == 1 and self._held[owner]:
            return not self.has_others(owner)
        return self._free > 0

    def _is_ahead(self, owner: str) -> bool:
        """Whether an owner has used so much more than another address with a turn that it waits for that turn's end."""
        least = self._standing(owner) - _MOST_AHEAD
        return any(
            self._used.get(other, self._floor) < least and began > clock() - _LEFT_ALONE
            for other, began in self._began.items()
            if other not in {None, owner}
        )

    def has_others(self, owner: str | None) -> bool:
        """Whether an address other than ``owner`` had a turn lately. False for the node itself (None)."""
        since = clock() - _LATELY
        return owner is not None and any(other != owner and at > since for other, at in self._lately.items())

    def _standing(self, owner: str | None) -> float:
        return max(self._floor, self._used.get(owner, 0.0))

    def _begin(self, owner: str | None) -> None:
        self._free -= 1
        self._held[owner] += 1
        self._began[owner] = clock()
        if owner is not None:
            self._lately[owner] = self._began[owner]
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
    """How many bytes of a peer to parse in one turn, learned from what its bytes have cost so far.

    A kilobyte may hold several signatures to check, or be a part of a large payload that costs next to nothing. Which
    one it is shows only afterwards. So the size is halved after a long turn and doubled after a very short one.

    Signatures are cheap in large batches, and turns are long with them. So ``is_alone``, which says that no other
    address wants turns, has a size of its own: a competitor that comes finds the short turns as they were before.
    """

    def __init__(self) -> None:
        self._among_others, self._alone = _LEAST_PORTION * 8, _LEAST_PORTION * 8

    def size(self, *, is_alone: bool) -> int:
        """The bytes for the next turn."""
        return self._alone if is_alone else self._among_others

    def took(self, seconds: float, size: int, *, is_alone: bool) -> None:
        """Learn from a turn: ``size`` bytes cost ``seconds`` of computing."""
        if is_alone:
            self._alone = _adapted(self._alone, seconds / _LONG_TURN_ALONE, size, _MOST_PORTION_ALONE)
        else:
            self._among_others = _adapted(self._among_others, seconds / _LONG_TURN, size, _MOST_PORTION)


def _adapted(portion: int, length: float, size: int, most: int) -> int:
    """The size of a portion after a turn over ``size`` bytes that was ``length`` times as long as turns should be."""
    if length > 1:
        return max(_LEAST_PORTION, size // 2)
    return min(most, portion * 2) if length < 1 / 4 and size >= portion else portion


class Share:
    """What one owner uses to run its work in turns. ``spent`` gives the seconds that the calling thread has computed.

    Computing time is what counts. If the clock on the wall did, an owner would pay for having been interrupted by
    others.
    """

    def __init__(
        self, turns: Turns, threads: Worker, owner: str | None = None, spent: Callable[[], float] = spent
    ) -> None:
        self.spent = spent
        self._turns = turns
        self._threads = threads
        self._owner = owner

    @property
    def has_others(self) -> bool:
        """Whether another address had a turn lately; then whatever holds up others should be short."""
        return self._turns.has_others(self._owner)

    def turn(self) -> "_Turn":
        """A turn for a block of code on the event loop. The block must not ``await``: the turn would last as long."""
        return _Turn(self._turns, self._owner, self.spent)

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function on a thread, in a turn that lasts until the function ends, also if the caller is cancelled.

        A thread cannot be stopped from outside, so that its time has to be paid for in any case.
        """
        return await self.run_on(self._threads, function, *args, **kwargs)

    async def run_steps(self, threads: Worker, steps: Generator[object, None, _T]) -> _T:
        """Run a generator to its end on ``threads``, each step in a turn of its own; returns what it returns."""

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
        """As ``run``, on ``threads``."""
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
            with suppress(RuntimeError):  # The loop is closed, so nobody waits for a turn any more.
                loop.call_soon_threadsafe(turns.give_back, owner, used)

        await turns.take(owner)
        try:
            work = threads.start(timed)
        except BaseException:
            turns.give_back(owner, 0.0)
            raise
        work.add_done_callback(over)
        return await asyncio.wrap_future(work)


class _Turn:
    """See ``Share.turn``. A class, because a generator for each of some thousand turns a second costs more."""

    __slots__ = ("_began", "_owner", "_spent", "_turns")

    def __init__(self, turns: Turns, owner: str | None, spent: Callable[[], float]) -> None:
        self._turns, self._owner, self._spent = turns, owner, spent

    async def __aenter__(self) -> None:
        await self._turns.take(self._owner)
        self._began = self._spent()

    async def __aexit__(self, *_: object) -> None:
        self._turns.give_back(self._owner, self._spent() - self._began)
