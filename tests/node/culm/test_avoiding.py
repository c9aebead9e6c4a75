"""Nodes that refuse features of ranges, and nodes that avoid them.

Specification: docs/specs/ranges.md, "Restricted feature sets".
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from culm.errors import NetworkError
from culm.node.culm.avoiding import Avoiding
from culm.node.culm.session import CulmSession
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.sync import sync
from culm.ranges import Feature, RangeSet, UnreadRanges, read_range
from culm.session import Interests
from culm.testing import build_log
from tests.node.links import CONFIG, run
from tests.node.peers import key, serving, until

if TYPE_CHECKING:
    from tests.node.links import Party

ALL = frozenset(Feature)


def hexes(interests: Interests) -> list[str]:
    """The ranges of interests, in order."""
    return [ranges.encode().hex() for ranges in interests.values()]


def test_windows(parties: list[Party]) -> None:
    """An open range ends 10 entries after the longest log that it is about, and nothing ends where nothing is open."""
    store = parties[0].store
    one, two = build_log(3), build_log(7, seed=2)
    store.add([*one.items(), *two.items()])
    interests = Interests(
        {
            (): EVERYTHING,
            (key(one)[0],): UnreadRanges(bytes.fromhex("01 0002")),
            key(two): EVERYTHING,
            (bytes(32), 1): UnreadRanges(bytes.fromhex("01 00f903e8")),
            (bytes(32),): RangeSet(),
            (bytes(32), 2): UnreadRanges(bytes.fromhex("01 a0010d")),
        }
    )
    told = Avoiding({Feature.OPEN}, 10).told(store, interests)
    assert ["01800111", "0180020d", "01800111", "0180f903e8f903f1", "00", "01a0010d"] == hexes(told)
    assert interests.keys() == told.keys()
    assert Avoiding(frozenset()).told(store, interests) is interests


def test_a_window_moves_on(parties: list[Party]) -> None:
    """The interests are told anew once a log has come within half of what was left; others change nothing."""
    store = parties[0].store
    log, other = build_log(20), build_log(20, seed=2)
    avoiding = Avoiding(ALL, 10)
    interests = Interests({(): RangeSet(), key(log): EVERYTHING})
    assert ["00", "0180010a"] == hexes(avoiding.told(store, interests))
    store.add([*log.items(log.entries[:5]), *other.items()])
    assert not avoiding.is_outgrown(store, [key(log), key(other)])
    store.add(log.items(log.entries[5:6]))
    assert not avoiding.is_outgrown(store, [key(other)])
    assert avoiding.is_outgrown(store, [key(other), key(log)])
    assert ["00", "01800110"] == hexes(avoiding.told(store, interests))
    assert not avoiding.is_outgrown(store, [key(log)])


def test_closed_dense_ranges_only(parties: list[Party], monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that avoids all features gets what it wants from one that refuses all, and follows the log as it grows.

    What it wants are paths, small payloads, and everything of its own author.
    """
    source, reader, _ = parties
    monkeypatch.setattr("culm.node.culm.session.Avoiding", partial(Avoiding, ahead=10))
    log, small = build_log(30), build_log(13, seed=2)
    source.store.add([*log.items(log.entries[:4]), *small.items()])
    path = RangeSet([read_range("1..13 sparse sizes 0..5000 without 4")])
    policy = Policy(interests={key(log): EVERYTHING, key(small): path})
    wants = replace(CONFIG, policy=policy, avoid_ranges=ALL)

    async def main() -> None:
        strict = replace(CONFIG, refuse_ranges=ALL, avoid_ranges=ALL)
        async with serving(source, strict) as (there, place), serving(reader, wants, place) as (here, _):
            await until(lambda: len(reader.holds()) == 2)
            (session,) = there.sessions
            assert isinstance(session, CulmSession)
            told = session.connection.their_interests
            assert "0180010d" == told[key(small)].encode().hex()
            assert "0180010a" == ends_told(session)
            await there.worker.run(source.store.add, log.items(log.entries[4:8]))
            await until(lambda: ends_told(session) == "01800112")  # 10 after entry 8
            await there.worker.run(source.store.add, log.items(log.entries[8:]))
            await until(lambda: reader.holds()[key(log)] == list(range(1, 31)))
            await until(lambda: ends_told(session) >= "01800123")  # at least half of 10 after entry 30
            assert ([session], 1) == (list(there.sessions), len(here.sessions))

    def ends_told(session: CulmSession) -> str:
        return session.connection.their_interests[key(log)].encode().hex()

    run(main)
    assert [1, 13] == reader.holds()[key(small)]


def test_a_peer_that_uses_what_is_refused(parties: list[Party], caplog: pytest.LogCaptureFixture) -> None:
    """It gets nothing and is told of in the log with the feature's name; it is not punished."""
    source, reader, _ = parties
    source.store.add(build_log(3).items())

    async def main() -> None:
        async with serving(source, replace(CONFIG, refuse_ranges=frozenset({Feature.OPEN}))) as (_, place):
            for _ in range(2):
                with pytest.raises(NetworkError, match="--avoid-ranges"):
                    await sync(reader.identity, CONFIG, reader.store, place)
            await sync(reader.identity, replace(CONFIG, avoid_ranges=frozenset({Feature.OPEN})), reader.store, place)

    run(main)
    assert [1, 2, 3] == next(iter(reader.holds().values()))
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 2
    assert all(line.startswith("refused the peer: ") and "the range feature open" in line for line in lines)
