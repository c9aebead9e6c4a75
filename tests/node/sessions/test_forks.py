"""Forks in every protocol: two nodes that exchange a log end with the same lowest fork, whatever each of them held.

Specification: docs/specs/bamboo.md, "Keeping forks"; docs/specs/bushbaby.md, "Forks".
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import Entry, yamf_hash
from culm.bushbaby import handshake
from culm.node.interests.policy import Policy
from culm.node.network.urls import SCHEMES
from culm.node.schemes import TABLE
from culm.node.sessions.arrivals import Arrivals
from culm.node.sessions.session import Context, Purpose
from culm.node.storage.source import StoreSource
from culm.store import logview
from culm.testing import LogBuilder, build_log
from tests.bamboo import oracle
from tests.node.links import CONFIG, Party, run, stream_pair
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from culm.types import Buffer, Log


Items = list[tuple[Entry, bytes]]
Item = tuple[Entry, "Buffer | None"]


def session_of(scheme: str, party: Party, streams: Any, purpose: Purpose, policy: Policy) -> Any:
    """A session of a party."""
    source = StoreSource(party.view, policy)
    party.sources.append(source)
    make = TABLE[scheme].session
    assert make is not None
    return make(Context(party.identity, replace(CONFIG, policy=policy), party.worker, source), streams, purpose)


async def exchanges(scheme: str, one: Party, other: Party, log: Log, unshared: Party | None = None) -> None:
    """Each calls the other once and asks for a log, as two nodes do that follow it; one may keep it for itself."""
    policies = {
        party: Policy(unshared=frozenset([log] if party is unshared else []), own=frozenset({party.identity.public}))
        for party in (one, other)
    }
    for caller, listener in ((one, other), (other, one)):
        near, far = await stream_pair()
        purpose = Purpose(True, listener.identity.public, is_live=False, logs=(log,), mirrors=False)
        asking = session_of(scheme, caller, near, purpose, policies[caller])
        answering = session_of(scheme, listener, far, Purpose(), policies[listener])
        running = [asyncio.create_task(each.run()) for each in (asking, answering)]
        try:
            await asyncio.wait_for(asking.done.wait(), PATIENCE)
        finally:
            running[0].cancel()
            await asyncio.gather(*running, return_exceptions=True)


def lowest(party: Party) -> int | None:
    """The lowest fork that a party knows."""
    return next((log.forked_at for log in party.view.logs()), None)


@contextmanager
def parties_with(*held: Iterable[Item]) -> Iterator[list[Party]]:
    """Parties that hold some entries."""
    with tempfile.TemporaryDirectory() as folder:
        made = [Party(Path(folder), number) for number, _ in enumerate(held, 1)]
        try:
            for party, items in zip(made, held, strict=True):
                party.store.add(items)
            yield made
        finally:
            for party in made:
                party.close()


@st.composite
def crowded(draw: st.DrawFn) -> Items:
    """A log with many entries of few numbers, which contradict others at various places."""
    log = build_log(13)
    links = st.sampled_from([None, yamf_hash(b"one"), yamf_hash(b"another")])
    entries = list(log.entries)
    for at in range(draw(st.integers(3, 10))):
        seq, is_end = draw(st.sampled_from([4, 9, 13])), draw(st.integers(0, 4)) == 0
        entries.append(log.make(seq, bytes([at]), backlink=draw(links), lipmaalink=draw(links), is_end=is_end))
    return [(entry, log.payloads[entry.hash]) for entry in entries]


@st.composite
def holdings(draw: st.DrawFn) -> list[list[Item]]:
    """What two parties hold of a log with contradictions: much of one branch, or some of everything.

    Payloads are held, because a peer that waits for one below a fork does not ask what is behind it.
    """
    items = draw(st.one_of(oracle.broken_logs(16, 6), crowded()))
    numbers = st.sets(st.integers(0, len(items) - 1))
    parts = set(range(draw(st.integers(0, len(items))))) | draw(numbers), draw(numbers)
    return [[items[at] for at in sorted(part)] for part in parts]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=int(os.environ.get("CULM_MODELS", "1")) * 15, deadline=None)
@given(held=holdings())
def test_both_know_the_lowest_fork(scheme: str, held: Any) -> None:
    """Whatever parts of a log two nodes hold, with little room for entries of one number: both know the same fork."""
    log = build_log(1).entries[0].log
    with parties_with(*held) as (one, other), pytest.MonkeyPatch.context() as patch:
        patch.setattr(logview, "MAX_VARIANTS", 2)
        run(lambda: exchanges(scheme, one, other, log))
        assert lowest(one) == lowest(other)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_proof_that_leads_to_a_lower_fork(scheme: str) -> None:
    """The proof that one node shows contradicts what the other holds further below: both know that before they end."""
    both_learn_of_a_lower_fork(scheme)


def test_a_proof_that_is_stored_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where the side that sees the proof takes a moment to store it."""
    store_some = Arrivals._store_some

    async def late(arrivals: Arrivals) -> None:
        if arrivals._worker.store.path.name == "1.db":
            await asyncio.sleep(0.1)
        await store_some(arrivals)

    monkeypatch.setattr(Arrivals, "_store_some", late)
    both_learn_of_a_lower_fork("intervals")


def both_learn_of_a_lower_fork(scheme: str) -> None:
    """Two sync of which one shows a proof, and the other one finds a contradiction to it that lies lower."""
    log = build_log(9)
    _, two, three, four, *_, nine = log.entries
    other_four = log.make(4, b"4", lipmaalink=yamf_hash(b"another"), is_end=True)
    other_nine = log.make(9, b"9", is_end=True)
    held = [
        [(entry, log.payloads[entry.hash]) for entry in some]
        for some in ((two, three, four, nine, other_nine), (three, other_four))
    ]
    with parties_with(*held) as (one, other):
        run(lambda: exchanges(scheme, one, other, two.log))
        assert lowest(one) == lowest(other) == 1


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("first", [0, 1])
def test_an_end_with_entries_behind_it(scheme: str, first: int) -> None:
    """One node holds an entry behind the end that the other holds: both learn of it, whoever finds out last."""
    log = build_log(5)
    one, five, end = log.entries[0], log.entries[4], log.make(4, b"the end", is_end=True)
    held: list[list[Item]] = [[(one, log.payloads[one.hash]), (five, log.payloads[five.hash])], [(end, b"the end")]]
    with parties_with(held[first], held[1 - first]) as (caller, listener):
        run(lambda: exchanges(scheme, caller, listener, one.log))
        assert (lowest(caller), lowest(listener)) == (4, 4)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_author_cannot_hide_the_lower_fork(scheme: str) -> None:
    """One node holds as many entries 13 as are kept of a number, the other one more, which contradicts entry 4."""
    log = build_log(13)
    full = [log.make(13, f"variant {at}".encode()) for at in range(logview.MAX_VARIANTS - 1)]
    lower = log.make(13, b"on another branch", lipmaalink=yamf_hash(b"another entry 4"))
    with parties_with(log.items([*log.entries, *full]), log.items([*log.entries, lower])) as (one, other):
        assert (13, 4) == (lowest(one), lowest(other))
        run(lambda: exchanges(scheme, one, other, log.entries[0].log))
        assert (4, 4) == (lowest(one), lowest(other))


def branches(length: int, at: int) -> list[list[Item]]:
    """Two whole branches of a log that part at some entry, so that neither holder lacks anything."""
    one, other = build_log(length), build_log(at - 1)
    for seq in range(at, length + 1):
        other.append(b"the other %d" % seq)
    return [one.items(), other.items()]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("at", [5, *(pytest.param(at, marks=pytest.mark.slow) for at in (1, 40))])
def test_two_whole_branches_show_where_they_part(scheme: str, at: int) -> None:
    """Neither of two nodes lacks an entry of the log, and still both find out where its branches part."""
    held = branches(40, at)
    with parties_with(*held) as (one, other):
        for _ in range(3 if scheme == "intervals" else 1):  # A session of intervals compares at one number only.
            run(lambda: exchanges(scheme, one, other, held[0][0][0].log))
        assert (at, at) == (lowest(one), lowest(other))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_fork_below_the_known_one_shows_though_ours_is_not_shared(scheme: str) -> None:
    """We know a fork at 2 and do not share the log; the peer holds another branch from entry 1 on, and no fork."""
    (ours, _), (_, theirs) = branches(3, 2), branches(3, 1)
    third = build_log(3)
    forked = [*ours, (third.make(2, b"another entry 2"), b"another entry 2")]
    with parties_with(forked, theirs) as (one, other):
        assert (2, None) == (lowest(one), lowest(other))
        run(lambda: exchanges(scheme, one, other, ours[0][0].log, unshared=one))
        assert 1 == lowest(one)


def test_a_peer_of_the_version_before_is_spoken_to_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Culm node that cannot read fork proofs is sent none, and everything else arrives."""

    def older(start: bytes, ephemeral: bytes) -> bytes:
        return start[:16] + blake2b(start[:16], digest_size=8, key=ephemeral, person=b"culm-bushbaby-1").digest()

    monkeypatch.setattr(handshake, "marked_nonce", older)
    log = build_log(9)
    forked = [*log.items(), (log.make(8, b"another"), b"another")]
    with parties_with(forked, log.items(log.entries[:3])) as (one, other):
        run(lambda: exchanges("bushbaby", one, other, log.entries[0].log))
        assert (8, None) == (lowest(one), lowest(other))
        assert [*range(1, 8)] == next(iter(other.holds().values()))


@pytest.mark.parametrize("scheme", ["bushbaby", "culm", "intervals", "proposals"])
def test_a_fork_of_ones_own_log_is_told_once(
    parties: list[Party], scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A node hears that its own log is forked: it warns of that once, and a peer that is not the author does not."""
    author, reader, _ = parties
    log = LogBuilder(author.identity, 1)
    for text in (b"one", b"two", b"three", b"four"):
        log.append(text)
    author.store.add(log.items())
    reader.store.add([*log.items(log.entries[:2]), (log.make(3, b"otherwise"), b"otherwise")])
    run(lambda: exchanges(scheme, author, reader, (author.identity.public, 1)))
    assert (lowest(author), lowest(reader)) == (3, 3)
    told = [(record.message, getattr(record, "seq", 0)) for record in caplog.records if "own logs" in record.message]
    assert [seq for _, seq in told] == [3]
