"""The certificate pools of what is fetched come whole, over every protocol, and show an author's fork.

Specification: docs/specs/ranges.md, "Certificates"; docs/specs/intervals.md, "What a node asks for".
"""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import MAX_U64, path, spine
from culm.intervals import At, Connection, MetadataOnly, Regular
from culm.node.interests.policy import Policy
from culm.node.storage.source import StoreSource
from culm.ranges import Range, RangeSet, read_range
from culm.spark import run as verify_all
from culm.testing.builders import LogBuilder, build_log
from tests.node.exchanging import PROTOCOLS, Wants, append, exchange, fork, linked, parties, verified
from tests.node.holdings import a_store
from tests.node.links import run
from tests.node.peers import key
from tests.node.quiet import IntervalEnd, talk

if TYPE_CHECKING:
    from pathlib import Path

    from culm.types import Log
    from tests.node.links import Party

EVERYTHING = RangeSet([read_range("1..")])
FORK = 5


def wants(party: Party, text: str) -> Wants:
    """What a party follows, as people write it."""
    return Wants(party, RangeSet([read_range(part) for part in text.split("; ")]))


def branches() -> tuple[LogBuilder, LogBuilder]:
    """Two histories of one log, of 14 entries each, that part at entry 5."""
    one = build_log(14)
    two = LogBuilder(one.identity)
    two.entries, two.payloads = one.entries[: FORK - 1], dict(one.payloads)
    for seq in range(FORK, 15):
        two.append(b"another %d" % seq)
    return one, two


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5..10", [1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
        ("23", [1, 4, 13, 17, 21, 22, 23, 24, 25, 26, 39, 40]),
        pytest.param("5; 9", [1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], marks=pytest.mark.slow),
        pytest.param("4..13 sparse", [1, 4, 13], marks=pytest.mark.slow),
        ("5..10 metadata", [1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
        pytest.param("5..10 tail 12", [1, 4, 5, 6, 7, 8, 9, 10, 11], marks=pytest.mark.slow),
        pytest.param("5..10 tail 10", [1, 4, 5, 6, 7, 8, 9, 10], marks=pytest.mark.slow),
    ],
)
def test_the_whole_pool_comes(protocol: str, text: str, expected: list[int]) -> None:
    """The path to entry 1 and the path from the next spine number come with a range, and nothing else.

    Of entries that only verify others no payload comes, where the protocol can say so. A limit of the tail is kept.
    """
    log = build_log(60)
    with parties(2) as (reader, author):
        author.store.add(log.items())
        follows = wants(reader, text)
        exchange(protocol, key(log), follows, Wants(author, EVERYTHING))
        assert expected == sorted(verified(reader, key(log)))
        if protocol != "bushbaby":
            payloads = set(reader.holds()[key(log)])
            assert all(any(item.payloads and item.covers(seq) for item in follows.interest) for seq in payloads)
        before = reader.store.change()
        exchange(protocol, key(log), follows, Wants(author, EVERYTHING))
        assert before == reader.store.change()


@pytest.mark.parametrize("protocol", ["culm", "intervals", "proposals"])
def test_a_limit_of_the_head_is_kept(protocol: str) -> None:
    """What an interest says is held below its range is not asked for, where the range holds together without it.

    ``head 4``: entry 4 is held. It is, so 5 to 7 are verified, and nothing below them comes. Where it is not held,
    they wait; only a proposal cannot leave it out, because it has to name the hash of 4.
    """
    log = build_log(60)
    with parties(2) as (reader, author):
        author.store.add(log.items())
        follows = wants(reader, "6..7 head 4")
        exchange(protocol, key(log), follows, Wants(author, EVERYTHING))
        found = sorted(verified(reader, key(log)))
        if protocol == "proposals":
            assert [1, 4, 5, 6, 7, 8, 12, 13] == found
            return
        assert [] == found
        reader.store.add([(log.entries[seq - 1], None) for seq in (1, 4)])
        assert [1, 4, 5, 6, 7, 8, 12, 13] == sorted(verified(reader, key(log)))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_fork_cannot_hide_between_parts_of_a_log(protocol: str, tmp_path: Path) -> None:
    """Two readers of single entries of two branches hold no mixture: the fork comes to light when they exchange.

    Without the upper halves of the pools, one would hold 1, 4, 8 and 9 and the other 1, 4, 5 and 6. No link among
    these contradicts another entry, so the readers would put both histories together and call them verified.
    """
    one, two = branches()
    with parties(4) as (x, y, author, other):
        author.store.add(one.items())
        other.store.add(two.items())
        exchange(protocol, key(one), wants(x, "9"), Wants(author, EVERYTHING))
        exchange(protocol, key(one), wants(y, "6"), Wants(other, EVERYTHING))
        assert [1, 4, 8, 9, 10, 11, 12, 13] == sorted(verified(x, key(one)))
        assert [1, 4, 5, 6, 7, 8, 12, 13] == sorted(verified(y, key(one)))
        before = verify_all([str(x.store.path), str(y.store.path)], tmp_path / "before")
        assert before.forks
        exchange(protocol, key(one), Wants(x, EVERYTHING), Wants(y, EVERYTHING))
        assert fork(x, key(one)) in range(FORK, 9)
        assert fork(y, key(one)) in range(FORK, 9)
        after = verify_all([str(x.store.path), str(y.store.path)], tmp_path / "after")
        assert after.forks


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_fork_shows_though_nothing_is_missing(protocol: str) -> None:
    """Readers who have all that they follow compare the ends of their pools, where both hold an entry."""
    one, two = branches()
    with parties(4) as (x, y, author, other):
        author.store.add(one.items())
        other.store.add(two.items())
        exchange(protocol, key(one), wants(x, "9"), Wants(author, EVERYTHING))
        exchange(protocol, key(one), wants(y, "6"), Wants(other, EVERYTHING))
        exchange(protocol, key(one), wants(x, "9"), wants(y, "6"))
        assert fork(x, key(one)) is not None
        assert fork(y, key(one)) is not None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pool_grows_with_the_log(protocol: str) -> None:
    """A log that is too short for the pool of what is held: the rest comes as it is written, in the same session."""
    log = build_log(13)
    with parties(2) as (reader, author):
        author.store.add(log.items(log.entries[:10]))

        async def main() -> None:
            follows = wants(reader, "5..10")
            async with linked(protocol, key(log), follows, Wants(author, EVERYTHING), live=True):
                for newest in range(10, 14):
                    if newest > 10:
                        await append(author, log.items(log.entries[newest - 1 : newest]))
                    while max(verified(reader, key(log)), default=0) < newest:
                        await asyncio.sleep(0.05)

        run(main)
        assert [1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13] == sorted(verified(reader, key(log)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pool_with_a_gap(protocol: str) -> None:
    """Of a peer that lacks a part of the pool the rest comes; what it lacks comes from another peer, live or later."""
    log = build_log(60)
    with parties(3) as (reader, partial, author):
        numbers = [*range(1, 11), 12, 13]
        partial.store.add(log.items([log.entries[seq - 1] for seq in numbers]))
        author.store.add(log.items())
        follows = wants(reader, "5..10")
        exchange(protocol, key(log), follows, Wants(partial, EVERYTHING))
        found = sorted(verified(reader, key(log)))
        assert [1, 4, 5, 6, 7, 8, 9, 10] == found[:8]
        if protocol in ("culm", "intervals"):  # Others send in order, and nothing behind what they lack.
            assert [12, 13] == found[8:]
        exchange(protocol, key(log), follows, Wants(author, EVERYTHING))
        assert [1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13] == sorted(verified(reader, key(log)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_no_peer_has_is_not_asked_for_without_end(protocol: str) -> None:
    """A session about a log that ends inside a pool comes to its end, and asks no more the longer it is open."""
    log = build_log(10)
    with parties(2) as (reader, author):
        author.store.add(log.items())
        follows = wants(reader, "5..10")
        exchange(protocol, key(log), follows, Wants(author, EVERYTHING))

        async def main() -> int:
            async with linked(protocol, key(log), follows, Wants(author, EVERYTHING), live=True) as session:
                await asyncio.sleep(3)
                early: int = session.stats.bytes_sent
                await asyncio.sleep(30)
                return int(session.stats.bytes_sent) - early

        assert run(main) < 2000  # A sign of life every second.


class Boasting(StoreSource):
    """What a peer says of a log: that it holds payloads up to 2^64 - 1, and no entry that it is asked for."""

    def held(self, log: Log) -> Any:
        """What the peer's answers are made of."""
        held = super().held(log)
        with_all = (1, MAX_U64)
        return SimpleNamespace(
            is_forked=False,
            end=lambda: None,
            entries_around=held.entries_around,
            payloads_around=lambda _: with_all,
            payload_extent=lambda: with_all,
        )


@pytest.mark.slow
def test_a_peer_that_boasts_is_asked_once_for_each_entry() -> None:
    """A peer that claims a log of 2^64 - 1 entries, and lacks each one asked for, costs two requests for each of them.

    The range ends at the number with the longest tail: 119 entries.
    """
    log = build_log(1)
    farthest = 6078832729528464401
    with a_store() as near, a_store() as far:
        asks = IntervalEnd(near, RangeSet([Range(farthest, farthest)]))
        boasts = IntervalEnd(far, EVERYTHING)
        boasts.source.close()
        boasts.source = Boasting(far, Policy())
        boasts.connection = Connection(boasts.source)
        asks.follower.add([key(log)])
        talk(asks, boasts)
        assert asks.is_done
        tail = [seq for seq in path(spine(farthest), farthest) if farthest < seq <= MAX_U64]
        asked = Counter(
            request.interval.seq
            for request in boasts.requested
            if isinstance(request.interval, MetadataOnly) and request.interval.ascending
        )
        assert asked.keys() <= set(tail)
        assert max(asked.values()) == 2
        asks.close()
        boasts.close()


def test_a_partial_holder_answers_with_whole_pools() -> None:
    """The document's default distance of 255 gets an answer from one who follows a range, in both directions.

    It used to hold nothing above the range: (10, 5) begins at 13 and brought nothing, and (5, 10) never came to its
    end, which is 13 as well.
    """
    log = build_log(60)
    for start, end in ((10, 5), (5, 10)):
        with a_store() as near, a_store() as middle, a_store() as far:
            far.add(log.items())
            interest = RangeSet([read_range("5..10")])
            asks, serves = IntervalEnd(middle, interest), IntervalEnd(far, EVERYTHING)
            asks.follower.add([key(log)])
            talk(asks, serves)
            asks.close()
            serves.close()
            reader, holder = IntervalEnd(near, EVERYTHING), IntervalEnd(middle, interest)
            holder.hear(reader.say())
            reader.hear(holder.say())
            request_id = reader.connection.request(*key(log), Regular(At(start), At(end)))
            talk(reader, holder)
            assert request_id not in reader.connection.ours.requests
            assert [1, 4, *range(5, 14)] == sorted(seq for _, seq in reader.arriving.entries)
            reader.close()
            holder.close()
