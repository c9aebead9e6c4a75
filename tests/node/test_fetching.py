"""What is asked for of what a peer offers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from culm.errors import Place
from culm.node.claims import Claims
from culm.node.fetching import Fetching
from culm.node.offers import lacks, offer_of
from culm.node.policy import Policy
from culm.node.source import StoreSource
from culm.node.worker import Computing
from culm.store import SQLiteStore
from culm.testing.builders import build_log
from tests.node.links import run
from tests.node.peers import key, until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from culm.ranges import RangeSet
    from culm.store import Log


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_payload_inside_a_short_log(tmp_path: Path, missing: int) -> None:
    """Whichever payload of a log is missing, its ends or what is between, a peer that has it has something for us."""
    log = build_log(3)
    with SQLiteStore(tmp_path / "theirs.db") as theirs, SQLiteStore(tmp_path / "ours.db") as ours:
        theirs.add(log.items())
        offer = offer_of(theirs, key(log))
        ours.add([(entry, None if entry.seq == missing else payload) for entry, payload in log.items()])
        assert lacks(ours, Policy(), offer)
        ours.add(log.items())
        assert ours.get(Place(*key(log), missing)).payload_complete  # type: ignore[union-attr]
        assert not lacks(ours, Policy(), offer)


class Transfer:
    """Takes note of what is asked for."""

    def __init__(self) -> None:
        self.asked: list[RangeSet] = []
        self.arrivals = self
        self.idle = True
        self.news_at = 0.0

    async def ask_for(self, wishes: Iterable[tuple[Log, RangeSet, int | None]]) -> None:
        """Note it."""
        self.asked += [ranges for _, ranges, _ in wishes]


def test_an_offer_while_another_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is offered while an earlier offer of the log is looked at is asked for next, and not forgotten."""
    log = build_log(8)
    with SQLiteStore(tmp_path / "theirs.db") as theirs, SQLiteStore(tmp_path / "ours.db") as ours:
        theirs.add(log.items(log.entries[:5]))
        first = offer_of(theirs, key(log))
        theirs.add(log.items(log.entries[5:]))
        second = offer_of(theirs, key(log))
        source, transfer = StoreSource(ours, Policy()), Transfer()

        async def main() -> None:
            computing = Computing()
            share = computing.share()
            fetching = Fetching(source, share, Claims(), cast("Any", transfer), lambda: None)
            in_thread = share.run

            async def slowly(function: Any) -> Any:
                found = await in_thread(function)
                if not transfer.asked and found[0]:
                    fetching.offered([second])
                return found

            monkeypatch.setattr(share, "run", slowly)
            fetching.offered([first])
            task = asyncio.create_task(fetching.run())
            await until(lambda: len(transfer.asked) == 1)
            fetching.finished([key(log)])
            await until(lambda: len(transfer.asked) == 2)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            computing.close()

        run(main)
        source.close()
    assert transfer.asked == [first.held, second.held]
