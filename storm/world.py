"""A world: a simulated network with some nodes, from the beginning of a storm until all have what they want."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from culm.errors import CulmError, NetworkError, StoreError
from culm.node.sharing.slots import MOST_GOING
from culm.testing.simulation.host import Host
from culm.testing.simulation.loop import HOST, SimulatedLoop, Spinning, Stalled
from culm.testing.simulation.network import Network, Weather
from storm import actions, content
from storm.ledger import Ledger
from storm.member import Member
from storm.telling import describe
from storm.unmet import unmet

if TYPE_CHECKING:
    from storm.plan import EventPlan, Plan

_TICK_SECONDS = 0.5
_SETTLE_SECONDS = 120.0  # in which everybody has to have what they want, once nothing is in the way any more
_LONG_SETTLING = 30.0
_CALM_SECONDS = 1.0
_QUEUED_BYTES = 1024 * 1024  # written to a connection and not sent: what a session makes at once, and the limit on that


@dataclass(slots=True)
class Failed:
    """What went wrong, and when."""

    text: str
    at: float
    trace: str = ""


@dataclass(slots=True)
class Outcome:
    """What came of a seed. ``counts``: how often what happened. ``seconds``: of simulated time."""

    counts: Counter[str]
    failures: list[Failed]
    seconds: float


class World:
    """One seed, run in a folder. ``tell`` gets each line of the trace as it is written, if there is to be one."""

    def __init__(self, plan: Plan, folder: Path, tell: Callable[[str], None] | None = None) -> None:
        self.plan = plan
        self.folder = folder
        self.tell = tell
        self.counts: Counter[str] = Counter()
        self.failures: list[Failed] = []
        self.ledger = Ledger(is_bridged=any(link.their_clump is not None for link in plan.links))
        self.loop = SimulatedLoop()
        self.network = Network(self.loop, plan.random("network"), self.happened, self.counts)
        self.loop.network = self.network
        self._around = Host(self.loop, "world", "10.9.9.9", None, plan.random("world"))
        self.loop.thread = lambda: self._host().thread()
        self.members: list[Member] = []
        self._calm = asyncio.Event()  # nothing is in the way any more
        self._is_over = False
        self._acting: dict[asyncio.Task[None], str] = {}

    def _host(self) -> Host:
        host = HOST.get()
        return host if isinstance(host, Host) else self._around

    # -- telling -----------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """A line for the trace."""
        if self.tell is not None:
            self.tell(f"{self.loop.time() - 1000:9.4f} {self._without_folder(text)}")

    def _without_folder(self, text: str) -> str:
        """The folder has another name each time, a seed has to tell the same."""
        return text.replace(f"{self.folder}/", "")

    def happened(self, name: str, text: str) -> None:
        """Something happened, to be counted and told."""
        self.counts[name] += 1
        self.note(text)

    def fail(self, text: str, error: BaseException | None = None) -> None:
        """Something is wrong: the world ends."""
        if self._is_over:
            return
        trace = "" if error is None else "".join(traceback.format_exception(error))
        self.failures.append(Failed(self._without_folder(text), self.loop.time() - 1000, trace))
        self.note(f"FAILED: {text}")
        for line in describe(self):
            self.note(line)
        self.loop.stop()

    def session_ended(self, member: Member, name: str, error: BaseException | None) -> None:
        """A session of a node ended: with its peer, with the network, or because the disk is full."""
        if member.host is not HOST.get():
            return  # of a node that is gone
        self.note(f"{member}: {name} ended: {error or 'by the peer'}")
        if error is None or isinstance(error, NetworkError | asyncio.CancelledError):
            return
        host = member.host
        is_hurt = host is not None and host.disk is not None and host.disk.was_hurt
        if isinstance(error, StoreError) and is_hurt:
            return
        if isinstance(error, CulmError) and "10.8." in name:
            return  # a stranger
        self.fail(f"{member}: a session ({name}) ended with {error!r}", error)

    # -- the course of it --------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run it to its end."""
        started = self.loop.time()
        try:
            self.loop.run_until_complete(self._main())
        except (Spinning, Stalled) as error:
            self.fail(str(error))
        except asyncio.CancelledError:
            pass
        except RuntimeError:
            if not self.failures:  # Otherwise ``fail`` has stopped the loop.
                raise
        for member in self.members:
            member.watch.close()
        outcome = Outcome(self.counts, list(self.failures), self.loop.time() - started)
        self._is_over = True
        for member in self.members:
            if member.host is not None:
                member.mend()
        self.loop.wind_up()
        return outcome

    async def _main(self) -> None:
        self.members = content.people(self)
        for member in self.members:
            member.start()
        await self._storm()
        await self._settle()
        await self._end()
        if self.failures:  # If this task ended, its end would stop the loop once more, while that winds up.
            await self.loop.create_future()

    async def _storm(self) -> None:
        plan = self.plan
        self.network.weather = Weather(slow=plan.slow, trouble=plan.trouble, least_rate=8000)
        began = self.loop.time()
        events = list(enumerate(plan.events))
        while events or self.loop.time() < began + plan.seconds:
            following = began + (events[0][1].at if events else plan.seconds)
            await asyncio.sleep(max(0.0, min(following - self.loop.time(), _TICK_SECONDS)))
            while events and began + events[0][1].at <= self.loop.time():
                number, event = events.pop(0)
                self._act(event, plan.random(f"event {number}"))
            self.check()

    def _act(self, event: EventPlan, random: Random) -> None:
        task = self.loop.create_task(self._carry_out(event, random))
        self._acting[task] = event.kind
        task.add_done_callback(lambda _: self._acting.pop(task))

    async def _carry_out(self, event: EventPlan, random: Random) -> None:
        try:
            await actions.ACTIONS[event.kind][1](self, random)
        except actions.NotNow:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            self.fail(f"{event.kind}: {error!r}", error)

    async def _settle(self) -> None:
        """Nothing is in the way any more: before long everybody has what they want."""
        self.note("the storm is over")
        self.network.weather = Weather()
        self.network.join_all()
        self._calm.set()
        for member in self.members:
            member.mend()
        await asyncio.sleep(_CALM_SECONDS)
        for member in self.members:
            member.mend()
            member.held_at_calm = {log: seen.complete() for log, seen in member.watch.logs.items()}
        self.network.break_all()
        began = self.loop.time()
        while missing := unmet(self):
            if self.loop.time() > began + _SETTLE_SECONDS:
                for text in missing:
                    self.note(f"unmet: {text}")
                self.fail(f"not met after {_SETTLE_SECONDS:g} s: {missing[0]}")
                return
            await asyncio.sleep(_TICK_SECONDS)
            self.check()
        seconds = self.loop.time() - began
        self.counts["settled late" if seconds > _LONG_SETTLING else "settled"] += 1
        forked = [log for member in self.members for log, seen in member.watch.logs.items() if seen.limit is not None]
        self.counts["forks, by nodes that know them"] += len(forked)
        self.counts["forks"] += len(set(forked))
        self.note(f"settled after {seconds:.1f} s")

    async def _end(self) -> None:
        for task in list(self._acting):
            task.cancel()
        for member in self.members:
            with suppress(CulmError):
                await member.stop()
        for member in self.members:
            content.check_at_rest(self, member)
        self.check()

    async def sleep(self, seconds: float) -> None:
        """Wait for so long, or until the storm is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._calm.wait()

    def check(self) -> None:
        """What must be so at any time, beyond what is looked at after each write."""
        for complaint in self.loop.complaints:
            error = complaint.get("exception")
            self.fail(f"left to nobody: {complaint.get('message')}: {error!r}", error)
        self.loop.complaints.clear()
        for member in self.members:
            for node in member.nodes.values():
                called = len(node.roster.troubles)  # The node itself calls these, and they wait for nobody to go.
                if len(node.sessions) > node.config.limits.max_sessions + called + MOST_GOING:
                    self.fail(f"{member} has {len(node.sessions)} sessions, {called} of them its own at most")
        for connection in self.network.connections.values():
            for end in connection.ends:
                if end.most_queued > _QUEUED_BYTES:
                    self.fail(f"{end.most_queued} bytes were queued on connection {connection.number}")
