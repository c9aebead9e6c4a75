"""Entries that are sent in runs: the same bytes as one by one.

Specification: docs/specs/proposals.md, "Cursors", "Payloads", "Links".
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from culm.bamboo.lipmaa import lipmaa
from culm.proposals import EVERYTHING, Eagerness
from culm.proposals.data import Notify, Raw, Skip, Switch, Why, push_data
from culm.proposals.messages import Wish
from culm.proposals.outgoing import Outgoing
from tests.proposals.examples import IDENTITY
from tests.proposals.victim import Victim, meta, offer, pay
from tests.quick import rounds
from tests.sending import mixed_log, with_and_without

LOG = mixed_log(IDENTITY)
LAST = len(LOG.entries)
EACH = tuple(range(1, LAST + 1))
NOTIFY = Eagerness(Wish.NOTIFY)
NOTICE = push_data(Notify(4))[:1]


def sent(fields: dict[str, Any], lacks: list[int], limit: int, peers: bytes, wish: Eagerness) -> tuple[Any, ...]:
    """All that a holder of the log sends which lacks some payloads, and where it is then.

    In the middle some data of the peer come, which has switched to the proposal.
    """
    victim = Victim(*EACH, log=LOG)
    for seq in lacks:
        victim.store.drop_payload(LOG.entries[seq - 1])
    ours = NOTIFY if peers.startswith(NOTICE) else EVERYTHING
    victim.control(offer(**{"end": LAST, "eagerness": wish, **fields})).confirms(ours)
    found = bytearray()
    for turn in range(10_000):
        more = victim.connection.respond(limit)
        found += victim.connection.data_to_send()
        if turn == 2:
            victim.data(push_data(Switch(0)) + peers)
        elif not more:
            break
    living = victim.connection.exchanges.values()
    return bytes(found), victim.connection.control_to_send(), [(one.outgoing._at) for one in living]


CASES: dict[str, tuple[dict[str, Any], list[int], bytes, Eagerness]] = {
    "the whole log": ({}, [], b"", EVERYTHING),
    "for ever": ({"end": None}, [], b"", EVERYTHING),
    "a part with its pools": ({"start": 30, "lower": 1, "end": 50, "upper": 80}, [], b"", EVERYTHING),
    "behind what is held": ({"start": 14, "lower": 14, "hash": LOG.entries[lipmaa(14) - 1].hash}, [], b"", EVERYTHING),
    "payloads that are lacking": ({}, [3, 4, 20], b"", EVERYTHING),
    "payloads alone": ({"payload_only": True}, [], b"", EVERYTHING),
    "a sparse range": ({"sparse": True}, [], b"", EVERYTHING),
    "payloads of some sizes": ({"least": 20, "greatest": 70}, [], b"", EVERYTHING),
    "small payloads only": ({}, [], b"", Eagerness(Wish.LIMITED, 50)),
    "the peer tells of items": ({}, [], push_data(Notify(30)), EVERYTHING),
    "the peer sends items": ({}, [], push_data(meta(1, log=LOG)) + pay(1, LOG), EVERYTHING),
    "the peer leaves items out": (
        {},
        [],
        push_data(meta(1, log=LOG)) + push_data(Skip(Why.NOT_AVAILABLE)) + push_data(meta(2, log=LOG)),
        EVERYTHING,
    ),
    "the peer is in a payload": (
        {},
        [],
        push_data(meta(1, log=LOG)) + pay(1, LOG) + push_data(meta(2, log=LOG)) + push_data(Raw(5)) + b"xxxxx",
        EVERYTHING,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("limit", [300, 5_000, 10**6])
def test_runs_are_the_entries_one_by_one(monkeypatch: pytest.MonkeyPatch, case: str, limit: int) -> None:
    """Whatever is asked for and held, and whatever the peer sends itself: the same bytes, and the same cursor."""
    fields, lacks, peers, wish = CASES[case]
    one, other = with_and_without(
        monkeypatch, (Outgoing, "run"), (b"", 0), lambda: sent(fields, lacks, limit, peers, wish)
    )
    assert one == other


@pytest.mark.parametrize(
    ("limit", "peers"),
    [(10**6, b""), (1_000, CASES["the peer leaves items out"][2])],
    ids=["the peer only takes", "the peer leaves items out"],
)
def test_entries_go_in_runs(monkeypatch: pytest.MonkeyPatch, limit: int, peers: bytes) -> None:
    """A dense range of small payloads is sent by some runs, not by a step for each item.

    What the peer has sent of items that are behind us changes nothing.
    """
    taken: list[int] = []
    run = Outgoing.run

    def counting(self: Outgoing, *arguments: Any) -> tuple[bytes, int]:
        data, count = run(self, *arguments)
        taken.append(count)
        return data, count

    monkeypatch.setattr(Outgoing, "run", counting)
    sent({}, [], limit, peers, EVERYTHING)
    assert sum(taken) >= 75


@pytest.mark.slow
def test_runs_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for ranges, lacking payloads, limits and data of the peer at random."""
    for seed in rounds(60):
        rng = random.Random(seed)
        start = rng.choice((1, 1, rng.randrange(1, LAST)))
        fields = {"start": start, "end": rng.choice((None, rng.randrange(start, LAST + 1)))}
        lacks = rng.sample(EACH, rng.choice((0, 0, 1, 10)))
        peers = rng.choice((b"", push_data(Notify(rng.randrange(1, 9)))))
        limit = rng.choice((200, 1_000, 20_000))
        asked = fields, lacks, limit, peers, EVERYTHING
        one, other = with_and_without(monkeypatch, (Outgoing, "run"), (b"", 0), partial(sent, *asked))
        assert one == other
