"""Entries that are sent in runs: the same bytes as one by one.

Specification: docs/specs/intervals.md, "Eager messages", "Items on the wire", "Expected hashes".
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from culm.bamboo import Identity
from culm.bamboo.lipmaa import lipmaa
from culm.intervals import At, FromGreatest, FromLeast, Interval, Limits, MetadataOnly, Regular
from culm.intervals.responder import TheirRequest
from tests.intervals.pair import Pair, Side
from tests.quick import rounds
from tests.sending import mixed_log, with_and_without

LOG = mixed_log(Identity(bytes(32)))
LAST = len(LOG.entries)
EACH = range(1, LAST + 1)
KEY = LOG.identity.public, LOG.log_id


def of(seq: int) -> bytes:
    """The hash of an entry."""
    return LOG.entries[seq - 1].hash


def sent(
    interval: Interval, lacks: set[int], limit: int, window: int, theirs: list[int], **options: Any
) -> tuple[bytes, list[tuple[str, int]]]:
    """All that a holder of the log sends which lacks some payloads, and the items that its peer gets of it.

    Before, the peer has sent some entries itself.
    """
    pair = Pair(Side(limits=Limits(window=window)), Side())
    pair.b.put_log(LOG, set(EACH) - set(theirs), set(EACH) - lacks - set(theirs))
    pair.a.put_log(LOG, theirs, theirs)
    for seq in theirs:
        pair.b.connection.request(*KEY, MetadataOnly(seq, ascending=False, dist=0))
    pair.settle()
    pair.a.items.clear()
    pair.a.connection.request(*KEY, interval, **options)
    found, quiet = bytearray(), 0
    while quiet < 2:
        pair.step(pair.a, pair.b)
        pair.b.connection.respond(limit)
        pair.b.connection.take_events()
        data = pair.b.connection.data_to_send()
        quiet = 0 if data else quiet + 1
        found += data
        pair.a.take(data)
    return bytes(found), pair.a.items


CASES: dict[str, tuple[Interval, dict[str, Any]]] = {
    "the whole log": (Regular(At(1), At(LAST)), {}),
    "for ever": (Regular(At(1), FromGreatest(0)), {}),
    "from the least": (Regular(FromLeast(3), At(50)), {}),
    "downwards": (Regular(At(50), At(20)), {}),
    "a part with its pools": (Regular(At(30), At(50)), {}),
    "hashes that are named": (
        Regular(At(14, 0, outer=of(lipmaa(14))), At(50, 0, outer=of(50))),
        {},
    ),
    "a hash that is wrong": (Regular(At(14, 0), At(50, 0, outer=of(49))), {}),
    "payloads of some sizes": (Regular(At(1), At(50)), {"least_size": 0, "greatest_size": 1000}),
    "unverified": (Regular(At(1), At(LAST)), {"verified": False}),
    "announced only": (Regular(At(3), At(50)), {"lazy": True}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("limit", "window"), [(300, 1 << 20), (5_000, 4_000), (1 << 20, 1 << 20)])
@pytest.mark.parametrize(("lacks", "theirs"), [(set(), []), ({20, 21}, []), (set(), [8, 9])])
def test_runs_are_the_entries_one_by_one(
    monkeypatch: pytest.MonkeyPatch, case: str, limit: int, window: int, lacks: set[int], theirs: list[int]
) -> None:
    """Whatever is asked for and held, and whatever the peer sent before: the same bytes, and the same items."""
    interval, options = CASES[case]
    one, other = with_and_without(
        monkeypatch, (TheirRequest, "_run"), b"", lambda: sent(interval, lacks, limit, window, theirs, **options)
    )
    assert one == other


def test_entries_go_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of small payloads is sent by some runs, not by a step for each item."""
    taken: list[bytes] = []
    run = TheirRequest._run

    def counting(self: TheirRequest, *arguments: Any) -> bytes:
        taken.append(run(self, *arguments))
        return taken[-1]

    monkeypatch.setattr(TheirRequest, "_run", counting)
    data, items = sent(Regular(At(1), At(60)), set(), 1 << 20, 1 << 20, [])
    assert items[0] == ("m", 1)
    assert sum(map(len, taken)) > 0.9 * len(data)
    assert len(taken) < 10


@pytest.mark.slow
def test_runs_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for intervals, lacking payloads and limits at random."""
    for seed in rounds(60):
        rng = random.Random(seed)
        start, end = rng.randrange(1, LAST + 1), rng.randrange(1, LAST + 1)
        interval = Regular(At(start, rng.choice((0, 1, 255))), At(end, rng.choice((0, 255))))
        lacks = set(rng.sample(EACH, rng.choice((0, 0, 1, 10))))
        limit, window = rng.choice((200, 1_000, 20_000)), rng.choice((700, 100_000))
        one, other = with_and_without(
            monkeypatch, (TheirRequest, "_run"), b"", partial(sent, interval, lacks, limit, window, [])
        )
        assert one == other
