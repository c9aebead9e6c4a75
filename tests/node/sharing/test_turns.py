"""Turns: who waits for whom, how much each gets, and that none is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from culm.node.sharing.memory import FREE, MemoryBudget
from culm.node.sharing.threads import Worker
from culm.node.sharing.turns import Portion, Turns
from culm.node.storage.worker import Computing, StoreWorker
from culm.store import SQLiteStore
from tests.node.links import SURROUNDINGS, PartyThread, run, run_really
from tests.node.peers import until

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


def test_who_is_alone_does_not_wait() -> None:
    """Without others a turn is had at once, as often as it is wanted."""

    async def main() -> None:
        turns = Turns(1)
        for _ in range(3):
            task = asyncio.create_task(turns.take("alice"))
            await asyncio.sleep(0)
            assert task.done()
            turns.give_back("alice", 0.001)

    run(main)


def test_the_loop_goes_round_between_long_turns() -> None:
    """However many are ready at once: what else there is to do is done after the first long turn, not after all."""
    order: list[str] = []

    async def work(turns: Turns) -> None:
        await turns.take("crowd")
        order.append("crowd")
        turns.give_back("crowd", 1.0)

    async def main() -> None:
        turns = Turns()
        crowd = [asyncio.create_task(work(turns)) for _ in range(50)]
        asyncio.get_running_loop().call_soon(order.append, "other")
        await asyncio.gather(*crowd)

    run(main)
    assert order.index("other") <= 1
    assert order.count("crowd") == 50


def test_the_last_turn_is_left_to_others() -> None:
    """Of two turns at a time one address has both if it is alone; where others come now and then, they never wait."""

    async def taken(turns: Turns, owner: str | None) -> bool:
        task = asyncio.create_task(turns.take(owner))
        for _ in range(5):  # the loop goes round before it begins
            await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return False
        return True

    async def main() -> None:
        turns = Turns(2)
        assert [await taken(turns, "crowd") for _ in range(3)] == [True, True, False]
        turns.give_back("crowd", 0.001)
        assert not turns.has_others("crowd")
        assert await taken(turns, "bob")
        assert turns.has_others("crowd")
        turns.give_back("bob", 0.001)
        assert not await taken(turns, "crowd")  # it has one
        assert await taken(turns, None)  # ourselves
        turns.give_back(None, 0.001)
        waiting = asyncio.create_task(turns.take("crowd"))
        assert await taken(turns, "bob")
        turns.give_back("bob", 0.001)
        assert not waiting.done()
        turns.give_back("crowd", 0.001)
        await waiting

    run(main)


def test_who_has_used_more_leaves_others_alone_for_a_moment() -> None:
    """Beside another one's turn an address may use 10 ms. Then it waits for that turn's end, for 20 ms at most.

    Others do not wait, nor does the node itself.
    """

    async def used(turns: Turns, owner: str | None, seconds: float) -> None:
        await turns.take(owner)
        turns.give_back(owner, seconds)

    async def main() -> None:
        loop, turns = asyncio.get_running_loop(), Turns(2)
        for patience, lasts in ((0.0, True), (0.02, False)):
            await turns.take("bob")
            await used(turns, "flood", 0.006)
            await used(turns, "flood", 0.006)
            began = loop.time()
            waiting = asyncio.create_task(used(turns, "flood", 0.0))
            await used(turns, "carol", 0.0)
            await used(turns, None, 0.0)
            assert not waiting.done()
            if lasts:
                turns.give_back("bob", 0.0)
            await waiting
            assert loop.time() - began == pytest.approx(patience, abs=0.001)
            if not lasts:
                turns.give_back("bob", 0.0)

    run(main)


def test_shares_are_even_whatever_the_number() -> None:
    """Of a hundred who are one owner and two who are another, each owner has half of the time."""
    used = {"crowd": 0.0, "pair": 0.0}

    async def work(turns: Turns, owner: str, seconds: float) -> None:
        while sum(used.values()) < 60:
            await turns.take(owner)
            await asyncio.sleep(0)  # so that all others come to wait
            used[owner] += seconds
            turns.give_back(owner, seconds)

    async def main() -> None:
        turns = Turns(1)
        crowd = [work(turns, "crowd", 0.03) for _ in range(100)]
        await asyncio.gather(work(turns, "pair", 0.01), work(turns, "pair", 0.01), *crowd)

    run(main)
    assert used["pair"] == pytest.approx(used["crowd"], rel=0.15)


def test_who_comes_late_owes_nothing_and_has_saved_nothing() -> None:
    """One who comes after another has worked for long has its half from then on, and no more."""
    order: list[str] = []

    async def work(turns: Turns, owner: str, times: int) -> None:
        for _ in range(times):
            await turns.take(owner)
            await asyncio.sleep(0)
            order.append(owner)
            turns.give_back(owner, 1.0)

    async def main() -> None:
        turns = Turns(1)
        await work(turns, "old", 50)
        await asyncio.gather(work(turns, "old", 20), work(turns, "new", 20))

    run(main)
    together = order[50:70]
    assert 8 <= together.count("new") <= 12


def test_a_turn_that_comes_when_nobody_waits_any_more() -> None:
    """Who is cancelled at the moment when the turn before its own ends leaves no turn behind, and ends as cancelled."""

    async def main() -> None:
        turns = Turns(1)
        await turns.take("alice")
        waiting = asyncio.create_task(turns.take("bob"))
        await asyncio.sleep(0)
        waiting.cancel()
        turns.give_back("alice", 1.0)
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        await turns.take("carol")

    run(main)


def test_a_turn_that_nobody_waits_for_any_more() -> None:
    """Who is cancelled while it waits, or when its turn has come, leaves no turn behind."""

    async def main() -> None:
        turns = Turns(1)
        await turns.take("alice")
        waiting = [asyncio.create_task(turns.take(name)) for name in ("bob", "carol", "dave")]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        turns.give_back("alice", 1.0)  # carol's turn has come, and she is cancelled before she knows
        waiting[1].cancel()
        await waiting[2]
        turns.give_back("dave", 1.0)
        await asyncio.wait_for(turns.take("erin"), 5)

    run(main)


def test_a_turn_lasts_as_long_as_its_thread() -> None:
    """What runs on a thread keeps its turn until it ends, though whoever wanted it is gone."""
    entered, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        go_on.wait(10)

    async def main() -> None:
        computing = Computing()
        first = [asyncio.create_task(computing.share("alice").run(hold)) for _ in range(2)]  # as many as there are
        await asyncio.to_thread(entered.wait, 10)
        for task in first:
            task.cancel()
        await asyncio.gather(*first, return_exceptions=True)
        other = asyncio.create_task(computing.share("bob").run(lambda: 7))
        await asyncio.sleep(0)
        assert not other.done()
        go_on.set()
        assert await other == 7
        computing.close()

    run_really(main)  # real threads are held up in the middle of a call


def test_the_store_takes_turns(tmp_path: Path) -> None:
    """Of many who have the store do something, one who is alone at its address waits for one of them at most."""
    order: list[str] = []

    async def main() -> None:
        with SQLiteStore(tmp_path / "s.db") as store:
            worker = StoreWorker(store)
            gate = threading.Event()
            crowd = worker.shared("crowd")
            tasks: list[asyncio.Task[Any]] = [asyncio.create_task(crowd.run(gate.wait, 10))]
            tasks += [asyncio.create_task(crowd.run(_spend, order, "crowd")) for _ in range(50)]
            await asyncio.sleep(0)
            tasks.append(asyncio.create_task(worker.shared("one").run(order.append, "one")))
            await asyncio.sleep(0)
            gate.set()
            await asyncio.gather(*tasks)
            worker.close()

    run_really(main)  # real threads are held up in the middle of a call
    assert "one" in order[:2]


def _spend(order: list[str], name: str) -> None:
    order.append(name)
    began = time.thread_time()
    while time.thread_time() - began < 0.001:
        pass


def test_failures_come_through() -> None:
    """What a function raises is raised, and its turn is over."""

    async def main() -> None:
        computing = Computing(SURROUNDINGS)
        share = computing.share()
        for _ in range(5):
            with pytest.raises(ZeroDivisionError):
                await share.run(lambda: 1 // 0)
            with pytest.raises(ValueError, match="here"):
                async with share.turn():
                    raise ValueError("here")
        computing.close()

    run(main)


def test_steps() -> None:
    """A generator is run step by step, and gives what it returns; others come in between."""
    seen: list[object] = []

    async def main() -> None:
        computing = Computing(SURROUNDINGS)

        def steps() -> Generator[None, None, str]:
            for number in range(5):
                seen.append(number)
                yield
            return "end"

        share = computing.share("alice")
        assert await share.run_steps(Worker(PartyThread()), steps()) == "end"
        computing.close()

    run(main)
    assert seen == [0, 1, 2, 3, 4]


def test_portions_follow_what_bytes_cost() -> None:
    """Bytes that cost much are taken in smaller portions, cheap ones in larger, both within bounds."""
    portion = Portion()

    def took(seconds: float, size: int | None = None) -> int:
        portion.took(seconds, size or portion.size(is_alone=False), is_alone=False)
        return portion.size(is_alone=False)

    assert [took(0.1) for _ in range(20)][-1] == 1024
    assert [took(0.0001) for _ in range(20)][-1] == 64 * 1024
    assert took(0.0001, 10) == 64 * 1024, "so few bytes say nothing"
    assert took(0.1) == 32 * 1024


def test_portions_are_large_only_as_long_as_no_other_address_wants_turns() -> None:
    """A peer alone has turns of 50 ms; what it learned there makes no turns longer that others wait for."""
    portion = Portion()
    for _ in range(20):
        portion.took(0.01, portion.size(is_alone=True), is_alone=True)
    assert portion.size(is_alone=True) == 256 * 1024
    assert portion.size(is_alone=False) == 8 * 1024
    portion.took(0.06, 256 * 1024, is_alone=True)
    assert portion.size(is_alone=True) == 128 * 1024


# -- memory budget -------------------------------------------------------------------------------------------


def test_room_is_bounded_and_half_for_each_address() -> None:
    """All connections together hold no more than the limit, one address no more than half; leaving gives it back."""
    mib = 1024 * 1024

    async def main() -> None:
        budget = MemoryBudget(100 * mib)
        one, two, other = budget.share("a"), budget.share("a"), budget.share("b")
        await one.hold(40 * mib + FREE)
        waiting = asyncio.create_task(two.hold(20 * mib + FREE))  # 60 of one address
        await other.hold(50 * mib + FREE)
        await asyncio.sleep(0)
        assert not waiting.done()
        assert budget.held == 90 * mib
        await one.hold(30 * mib + FREE)
        await asyncio.sleep(0)
        assert waiting.done()
        assert budget.held == 100 * mib
        more = asyncio.create_task(one.hold(31 * mib + FREE))
        await asyncio.sleep(0)
        assert not more.done()
        two.leave()
        await more
        one.leave()
        other.leave()
        assert budget.held == 0

    run(main)


def test_little_needs_no_room_and_the_only_one_has_all() -> None:
    """Short messages never wait; a message larger than the whole budget comes, if it is the only one."""

    async def main() -> None:
        budget = MemoryBudget(1000)
        large, small = budget.share("a"), budget.share("a")
        await asyncio.wait_for(large.hold(10 * FREE), 5)
        await asyncio.wait_for(small.hold(FREE), 5)
        waiting = asyncio.create_task(small.hold(2 * FREE))
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        await until(waiting.done)
        await large.hold(0)
        await asyncio.wait_for(small.hold(2 * FREE), 5)

    run(main)
