"""An event loop with a simulated clock: nothing really waits, and a run comes out the same every time.

Tests that wait for real time are slow, and fail when the machine is busy. On this loop a program that sleeps for an
hour continues at once: when nothing is left to do, the clock jumps to the next timer. Callbacks run in the order in
which they are due, and those due at the same moment in the order in which they were made. Nothing else decides the
order, so a run depends on its inputs alone. There are no threads either: a call that a program gives to a thread runs
on the loop, some simulated time later (``host``).

Many hosts share one loop. A callback belongs to the host on which it was made (``HOST``, in its context). A host can be
*frozen*, like a machine that sleeps: its callbacks wait until it is woken, and then find that the clock has jumped.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import sslproto
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from ssl import SSLContext
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
_START = 1000.0  # Seconds on the clock at first. Real clocks do not start at 0 either, which finds wrong defaults of 0.
_MOST_ENDINGS = 5  # Times that a task is cancelled at the end; one that goes on after that is left.
_MOST_AT_ONCE = 200_000  # Callbacks without the clock moving; a program that makes more is in an endless loop.


class Spinning(Exception):
    """Callbacks go on making callbacks while the clock stands still: an endless loop."""


class Stalled(Exception):
    """Every task waits, and there is no timer that could wake one: a deadlock."""


class Placed(Protocol):
    """What the loop needs to know of a host."""

    is_frozen: bool
    is_gone: bool


HOST: ContextVar[Placed | None] = ContextVar("HOST", default=None)
"""The host to which the running callback belongs; None: to the test around the hosts."""


class _Callback(asyncio.TimerHandle):
    """A callback, with the host to which it belongs."""

    __slots__ = ("host",)

    def __init__(
        self, when: float, callback: Callable[..., object], args: Any, loop: SimulatedLoop, context: Context | None
    ) -> None:
        # What the constructors of asyncio's handles do, without their questions to the loop: a test makes very many.
        self._when, self._callback, self._args, self._loop = when, callback, args, loop
        self._context = context = copy_context() if context is None else context
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None
        self.host = context.get(HOST)

    def run(self) -> None:
        """Call it; an error goes to the loop's exception handler."""
        self._run()


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop. ``complaints`` has the contexts of errors that nobody handled; asyncio would have logged them.

    ``network`` makes connections and servers, ``thread`` makes a thread for a call. Set both before the program uses
    them. What happens to a loop as a whole, such as ``stop`` and ``close``, is asyncio's.
    """

    network: Any
    thread: Callable[[], Executor]

    def __init__(self) -> None:
        super().__init__()
        self.set_debug(False)  # Debugging reads real clocks.
        self.complaints: list[dict[str, Any]] = []
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._now = _START
        self._ready: deque[_Callback] = deque()
        self._scheduled: list[tuple[float, int, _Callback]] = []
        self._count = 0
        self._cancelled = 0  # Timers that were cancelled and are still in the heap.
        self._frozen: deque[_Callback] = deque()
        self._since_jump = 0

    def __del__(self) -> None:
        """Nothing: asyncio warns of a loop that nobody closed, because of its sockets, and this loop has none."""

    # -- time and callbacks ------------------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds of simulated time."""
        return self._now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        """Call something behind everything that is due already."""
        handle = _Callback(self._now, callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call something ``delay`` simulated seconds from now."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call something when the clock shows ``when``."""
        handle = _Callback(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._scheduled, (when, self._count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:  # noqa: ARG002 - handles call this
        self._cancelled += 1
        if self._cancelled > 100 and self._cancelled > len(self._scheduled) // 2:
            self._scheduled = [timer for timer in self._scheduled if not timer[2].cancelled()]
            heapq.heapify(self._scheduled)
            self._cancelled = 0

    def thaw(self) -> None:
        """Make all callbacks due that waited for a frozen host; those of hosts that still sleep wait again."""
        waiting, self._frozen = self._frozen, deque()
        self._ready.extend(waiting)

    def _run_once(self) -> None:  # noqa: C901 - a loop's own loop
        """Run what is due now. If nothing is, let the clock jump to the next timer first."""
        timers = self._scheduled
        if not self._ready:
            while timers and timers[0][2].cancelled():
                heapq.heappop(timers)
            if not timers:
                raise Stalled("every task waits for another one, and there is no timer that could wake any")
            if timers[0][0] > self._now:
                self._now, self._since_jump = timers[0][0], 0
        while timers and timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(timers)[2])
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if handle.cancelled():
                continue
            if handle.host is not None and handle.host.is_frozen:
                self._frozen.append(handle)
                continue
            self._since_jump += 1
            handle.run()
            if self._stopping:
                return
        if self._since_jump > _MOST_AT_ONCE:
            raise Spinning(f"{self._since_jump} callbacks have run without the clock moving")

    # -- running -----------------------------------------------------------------------------------------------

    def wind_up(self) -> None:
        """Cancel all tasks until they end, or until it is no use; what they complain of is dropped."""
        self._since_jump, self._stopping = 0, False
        with suppress(Stalled, Spinning):
            for _ in range(_MOST_ENDINGS):
                if not self._tasks:
                    break
                for task in list(self._tasks):
                    task.cancel()
                self.run_until_complete(asyncio.wait(list(self._tasks), timeout=30.0))
        self.complaints.clear()

    # -- futures and tasks -------------------------------------------------------------------------------------

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """A task."""
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an error that nobody handled, unless its host is gone: a killed program handles nothing."""
        host = HOST.get()
        if host is None or not host.is_gone:
            self.complaints.append(context)

    # -- the world ---------------------------------------------------------------------------------------------

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run a function on a simulated thread: that of ``executor``, or a new one."""
        return asyncio.wrap_future((executor or self.thread()).submit(func, *args), loop=self)

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **options: Any
    ) -> tuple[Any, Any]:
        """Connect through the simulated network."""
        return await self.network.connect(protocol_factory, str(host), int(port), **options)  # type: ignore[no-any-return]

    async def start_tls(  # type: ignore[override]
        self,
        transport: Any,
        protocol: Any,
        sslcontext: SSLContext,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        call_connection_made: bool = False,
    ) -> Any:
        """Go on with TLS on a connection of the simulated network; ``call_connection_made``: ``protocol`` is new."""
        shaken = self.create_future()
        secured = sslproto.SSLProtocol(
            self,
            protocol,
            sslcontext,
            shaken,
            server_side,
            server_hostname,
            call_connection_made=call_connection_made,
            ssl_handshake_timeout=ssl_handshake_timeout,  # type: ignore[arg-type]
        )
        transport.set_protocol(secured)
        secured.connection_made(transport)
        try:
            await shaken
        except BaseException:
            transport.close()
            raise
        return secured._get_app_transport()  # type: ignore[attr-defined]  # noqa: SLF001 - as asyncio's own loops do

    async def create_server(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """Listen in the simulated network."""
        return self.network.listen(protocol_factory, str(host), int(port), **options)
