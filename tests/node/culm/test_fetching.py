"""What is asked for of what a peer offers.

Specification: docs/specs/culm.md, "What is fetched".
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from culm.errors import Place, RemoteProtocolError
from culm.node.culm import fetching as module
from culm.node.culm.claims import Claims
from culm.node.culm.fetching import Fetching
from culm.node.culm.offers import lacks, offer_of
from culm.node.interests.missing import missing
from culm.node.interests.policy import Policy
from culm.node.storage.source import StoreSource
from culm.node.storage.worker import Computing
from culm.ranges import Range, RangeSet, UnreadRanges, read_range
from culm.session import Offer
from culm.store import SQLiteStore
from culm.testing.builders import build_log
from tests.node.links import CONFIG, SURROUNDINGS, run
from tests.node.peers import key, until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from culm.types import Log


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


@pytest.mark.parametrize(
    ("interest", "theirs", "ours"),
    [
        ("1..", "entries", "entries"),  # what it has no payload of it cannot give
        ("1..", "all", "forgotten"),
        ("1..3", "all", "forgotten"),
        ("1..9 max 5", "all", "entries"),  # they are all larger
        ("1..9 metadata", "all", "entries"),
        ("1..9", "all", "forked at 1"),
    ],
)
def test_offers_of_no_use(tmp_path: Path, interest: str, theirs: str, ours: str) -> None:
    """A peer that has nothing that we want and lack has nothing for us, though it holds more of a log than we do."""
    log = build_log(3)
    policy = Policy(interests={key(log): RangeSet([read_range(interest)])})
    with SQLiteStore(tmp_path / "theirs.db") as far, SQLiteStore(tmp_path / "ours.db") as near:
        far.add(log.items() if theirs == "all" else [(entry, None) for entry in log.entries])
        far.add([(log.append(b""), b"")])
        offer = offer_of(far, key(log))
        assert lacks(near, policy, offer)
        near.add([(entry, None) for entry in log.entries])
        if ours == "forgotten":
            for entry in log.entries:
                near.forget(entry.place)
        if ours == "forked at 1":
            near.add([(log.make(1, b"another"), None)])
        assert not lacks(near, policy, offer)


def test_certificates_need_no_payload(tmp_path: Path) -> None:
    """Entries that are held only because they verify others are not asked for again for the sake of their payload."""
    log = build_log(20)
    interest = RangeSet([read_range("10..12")])
    with SQLiteStore(tmp_path / "ours.db") as store:
        assert [(1, 1), (4, 4), (8, 13)] == missing(store, interest, key(log), 20, 10)
        store.add([(entry, None) for entry in log.entries[:9]])
        store.add(log.items(log.entries[9:11]))
        assert [(12, 13)] == missing(store, interest, key(log), 20, 10)


NO_RECEIPTS = cast(
    "Any",
    SimpleNamespace(is_pending=False, settled=lambda *_: None, hear=lambda *_: None, send=lambda: None),
)


class Transfer:
    """Takes note of what is asked for."""

    config = CONFIG

    def __init__(self) -> None:
        self.asked: list[RangeSet] = []
        self.arrivals = self
        self.witness = SimpleNamespace(concerns=lambda _: False)
        self.idle = True
        self.news_at = 0.0

    async def ask_for(self, wishes: Iterable[tuple[Log, RangeSet, RangeSet, int | None, int | None]]) -> None:
        """Note it."""
        self.asked += [ranges for _, ranges, *_ in wishes]


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
            computing = Computing(SURROUNDINGS)
            share = computing.share()
            fetching = Fetching(
                source, share, Claims(), cast("Any", transfer), NO_RECEIPTS, lambda: None, lambda _: None
            )
            in_thread = share.run

            async def slowly(function: Any, *arguments: Any) -> Any:
                found = await in_thread(function, *arguments)
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


@pytest.mark.parametrize("offered_again", [False, True])
def test_an_offer_behind_a_fork_that_comes_to_light(tmp_path: Path, offered_again: bool) -> None:
    """A fork makes us ask for the log once more, in case there is a lower one; then for what was offered, or is now."""
    log = build_log(8)
    with SQLiteStore(tmp_path / "theirs.db") as theirs, SQLiteStore(tmp_path / "ours.db") as ours:
        theirs.add(log.items(log.entries[:4]))
        first = offer_of(theirs, key(log))
        theirs.add(log.items(log.entries[4:5]))
        second = offer_of(theirs, key(log))
        source, transfer = StoreSource(ours, Policy()), Transfer()

        async def main() -> None:
            computing = Computing(SURROUNDINGS)
            fetching = Fetching(
                source, computing.share(), Claims(), cast("Any", transfer), NO_RECEIPTS, lambda: None, lambda _: None
            )
            fetching.offered([first])
            task = asyncio.create_task(fetching.run())
            await until(lambda: len(transfer.asked) == 1)
            added = log.items([log.entries[0], *log.entries[5:], log.make(6, b"another")])
            source.ask(lambda _: ours.add(added))  # while no question is answered
            fetching.finished([key(log)])
            await until(lambda: len(transfer.asked) == 2)
            if offered_again:
                fetching.offered([second])
            fetching.finished([key(log)])
            await until(lambda: len(transfer.asked) == 3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            computing.close()

        run(main)
        source.close()
    assert transfer.asked == [first.held, RangeSet(), second.held if offered_again else first.held]


def test_offers_that_wait_have_a_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond some bytes of offers no more are to be taken; as they are looked at, there is room again."""
    most = 64 * 1024
    monkeypatch.setattr(module, "MOST_WAITING", most)
    with SQLiteStore(tmp_path / "ours.db") as ours:
        source = StoreSource(ours, Policy())

        async def main() -> None:
            computing = Computing(SURROUNDINGS)
            room = asyncio.Event()
            fetching = Fetching(
                source,
                computing.share(),
                Claims(),
                cast("Any", Transfer()),
                NO_RECEIPTS,
                lambda: None if fetching.is_full else room.set(),
                lambda _: None,
            )
            fetching.offered(Offer(bytes(32), log_id, RangeSet()) for log_id in range(most // 256))
            fetching.offered(Offer(bytes(32), log_id, RangeSet()) for log_id in range(most // 256))  # again
            assert not fetching.is_full
            wide = UnreadRanges(RangeSet(Range(2 * at + 1, 2 * at + 1) for at in range(1000)).encode())
            fetching.offered(Offer(bytes(32), 10**6 + log_id, wide) for log_id in range(20))
            assert fetching.is_full
            fetching.offered(Offer(bytes(32), 10**6 + log_id, RangeSet()) for log_id in range(20))  # instead
            assert not fetching.is_full
            fetching.offered(Offer(bytes(32), log_id, RangeSet()) for log_id in range(most // 64))
            assert fetching.is_full
            task = asyncio.create_task(fetching.run())
            await room.wait()
            await until(lambda: fetching.is_idle)
            assert fetching.weight == 0
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            computing.close()

        run(main)
        source.close()


def test_an_offer_of_no_ranges(tmp_path: Path) -> None:
    """Ranges are read when they are needed; that they are none is the peer's fault then as well."""
    with SQLiteStore(tmp_path / "ours.db") as ours:
        source = StoreSource(ours, Policy())

        async def main() -> None:
            computing = Computing(SURROUNDINGS)
            fetching = Fetching(
                source, computing.share(), Claims(), cast("Any", Transfer()), NO_RECEIPTS, lambda: None, lambda _: None
            )
            fetching.offered([Offer(bytes(32), 1, UnreadRanges(b"\x01\x7e"))])
            with pytest.raises(RemoteProtocolError, match="ranges that cannot be used"):
                await fetching.run()
            computing.close()

        run(main)
        source.close()
