"""Which peers confirm a log of our own whose newest entry we may have lost, by each protocol.

Specification: docs/specs/bamboo.md, "Holding and publishing".
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import NetworkError, UnconfirmedLog
from culm.node.bushbaby.session import BushbabySession
from culm.node.culm.session import CulmSession
from culm.node.interests.policy import Policy
from culm.node.intervals.session import IntervalSession
from culm.node.proposals.session import ProposalSession
from culm.node.sessions.session import Context, Purpose, Session
from culm.node.sessions.witness import Witness
from culm.node.storage.source import StoreSource
from culm.testing import LogBuilder
from tests.node.links import CONFIG, Party, run, stream_pair

if TYPE_CHECKING:
    from culm.node.sharing.rates import Streams
    from culm.types import Log

KINDS: dict[str, Any] = {kind.scheme: kind for kind in (BushbabySession, CulmSession, IntervalSession, ProposalSession)}
LENGTH = 5
EVERY_SCHEME = pytest.mark.parametrize("scheme", list(KINDS))
# With fewer entries than we, as many, one more and many more. Those of even numbers have no payload.
_QUICK = {(1, 1), (4, 5), (5, 4), (5, 9)}
HELD = [
    pytest.param(ours, theirs, marks=[] if (ours, theirs) in _QUICK else [pytest.mark.slow])
    for ours in (1, 4, 5)
    for theirs in (1, 4, 5, 6, 9)
]
PATIENT = replace(CONFIG, limits=replace(CONFIG.limits, handshake_seconds=30, idle_seconds=30))


def log_of(party: Party, length: int) -> LogBuilder:
    """A party's log 1. Entries without a payload among them, the newest too if it is even."""
    builder = LogBuilder(party.identity, 1)
    for seq in range(1, length + 1):
        builder.append(b"%d" % seq * (seq % 2))
    return builder


def name_of(party: Party) -> Log:
    """The author and the id of that log."""
    return party.identity.public, 1


def session(scheme: str, party: Party, streams: Streams, **purpose: Any) -> Session[Any]:
    """A session of a party that wants its own logs."""
    config = replace(PATIENT, policy=Policy(own=frozenset({party.identity.public})))
    source = StoreSource(party.view, config.policy)
    party.sources.append(source)
    made: list[Session[Any]] = []
    context = Context(party.identity, config, party.worker, source, stored=lambda: made[0].store_changed())  # noqa: PLW0108 - it is made below
    made.append(KINDS[scheme](context, streams, Purpose(**purpose)))
    return made[0]


async def a_sync(scheme: str, caller: Party, listener: Party) -> Session[Any]:
    """One party calls the other, once."""
    near, far = await stream_pair()
    logs = tuple({name_of(caller), name_of(listener)})
    calling = session(scheme, caller, near, called=True, key=listener.identity.public, logs=logs, is_live=False)
    tasks = [asyncio.create_task(one.run()) for one in (calling, session(scheme, listener, far))]
    await calling.done.wait()
    await asyncio.sleep(3)  # A listener goes on, and has its own pauses.
    tasks[0].cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert result is None or isinstance(result, NetworkError | asyncio.CancelledError)
    return calling


def exchange(scheme: str, caller: Party, listener: Party) -> Session[Any]:
    """The same, outside of a loop."""
    return run(lambda: a_sync(scheme, caller, listener))


@EVERY_SCHEME
@pytest.mark.parametrize("calls", [True, False], ids=["calling", "called"])
@pytest.mark.parametrize(("ours", "theirs"), HELD)
def test_what_the_peer_holds(parties: list[Party], scheme: str, ours: int, theirs: int, *, calls: bool) -> None:
    """A peer confirms a log just if it holds what we hold as newest, or more, which has come then."""
    alice, bob, _ = parties
    log = log_of(alice, max(ours, theirs))
    alice.store.add(log.items()[:ours])
    bob.store.add(log.items()[:theirs])
    alice.store.unconfirm(alice.identity.public)
    exchange(scheme, *((alice, bob) if calls else (bob, alice)))

    assert (theirs >= ours) == alice.store.is_confirmed(name_of(alice))
    assert max(ours, theirs) == next(alice.store.logs()).newest
    assert not alice.store.is_confirmed((alice.identity.public, 2))


@EVERY_SCHEME
def test_a_peer_without_the_log(parties: list[Party], scheme: str) -> None:
    """A peer that has the log only from us confirms nothing in the session in which it gets it."""
    alice, bob, _ = parties
    alice.store.add(log_of(alice, LENGTH).items())
    alice.store.unconfirm(alice.identity.public)
    exchange(scheme, alice, bob)

    assert LENGTH == len(bob.holds()[name_of(alice)])
    assert not alice.store.is_confirmed(name_of(alice))


@EVERY_SCHEME
def test_nothing_is_left_but_the_key(parties: list[Party], scheme: str) -> None:
    """If only the key is left, the log comes back from a peer and is confirmed; without such a peer it is not."""
    alice, bob, carol = parties
    alice.store.unconfirm(alice.identity.public)
    exchange(scheme, alice, carol)
    with pytest.raises(UnconfirmedLog):
        alice.store.append(alice.identity, 1, [b"x"])

    bob.store.add(log_of(alice, LENGTH).items())
    exchange(scheme, alice, bob)
    assert LENGTH + 1 == alice.store.append(alice.identity, 1, [b"x"]).seq


@EVERY_SCHEME
def test_a_peer_with_another_branch(parties: list[Party], scheme: str) -> None:
    """A peer that holds another entry at our newest number confirms nothing; the fork is found."""
    alice, bob, _ = parties
    log, branch = log_of(alice, LENGTH), log_of(alice, LENGTH - 1)
    branch.append(b"another")
    alice.store.add(log.items())
    bob.store.add(branch.items())
    alice.store.unconfirm(alice.identity.public)
    exchange(scheme, alice, bob)

    assert not alice.store.is_confirmed(name_of(alice))
    assert LENGTH == next(alice.store.logs()).forked_at


@EVERY_SCHEME
def test_nothing_is_asked_again_without_a_mark(parties: list[Party], scheme: str) -> None:
    """Where nobody is marked, no entry travels twice."""
    alice, bob, _ = parties
    for party in (alice, bob):
        party.store.add(log_of(alice, LENGTH).items())

    assert 0 == exchange(scheme, alice, bob).stats.entries_received


def witness_of(party: Party) -> Witness:
    """What a session of a party would remember of a peer."""
    source = StoreSource(party.view, Policy())
    party.sources.append(source)
    return Witness(party.worker, source, frozenset({party.identity.public}))


def settles(witness: Witness) -> None:
    """Nothing more is on its way."""
    run(witness.settle)


def test_a_peer_that_claims_more_than_it_sends(parties: list[Party]) -> None:
    """While a peer has sent less than it claims to hold, it confirms nothing, however often the session settles."""
    alice = parties[0]
    log = log_of(alice, 9)
    alice.store.add(log.items()[:5])
    alice.store.unconfirm(alice.identity.public)
    witness = witness_of(alice)
    assert 0 == witness.claimed(name_of(alice), 9)
    for upto, expected in ((7, False), (9, True)):
        alice.store.add(log.items()[:upto])
        for entry in log.entries[:upto]:
            witness.take(entry)
        settles(witness)
        assert expected == alice.store.is_confirmed(name_of(alice))


def test_only_the_first_claim_counts(parties: list[Party]) -> None:
    """A peer that first claims less is not asked later: it may have our newest entry from us."""
    alice = parties[0]
    alice.store.add(log_of(alice, LENGTH).items())
    alice.store.unconfirm(alice.identity.public)
    assert LENGTH == witness_of(alice).claimed(name_of(alice), LENGTH)
    late = witness_of(alice)
    assert [0, 0] == [late.claimed(name_of(alice), newest) for newest in (LENGTH - 1, LENGTH)]
    assert {} == late.asked


@pytest.mark.slow
def test_a_peer_that_claims_many_logs(parties: list[Party]) -> None:
    """A peer that claims to hold thousands of our logs makes nobody remember them all, and confirms nothing."""
    alice = parties[0]
    log = log_of(alice, LENGTH)
    alice.store.add(log.items())
    alice.store.unconfirm(alice.identity.public)
    witness = witness_of(alice)
    witness.take(log.entries[-1])
    for log_id in range(2, 5000):
        witness.claimed((alice.identity.public, log_id), 1)
    settles(witness)
    assert not alice.store.is_confirmed(name_of(alice))
    assert not witness.concerns(name_of(alice))
