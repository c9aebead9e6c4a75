"""Two nodes that exchange a log over one of the four protocols, in the simulated network; and what they then hold.

``exchange`` lets both ask for what they want and lack, once. Nothing of it knows what a protocol asks for.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from culm.bamboo import ForkProof
from culm.bamboo.lipmaa import certificate_pool
from culm.errors import NetworkError
from culm.node.bushbaby.session import BushbabySession
from culm.node.culm.session import CulmSession
from culm.node.interests.policy import Policy
from culm.node.intervals.session import IntervalSession
from culm.node.proposals.session import ProposalSession
from culm.node.sessions.session import Context, Purpose
from culm.node.storage.source import StoreSource
from tests.node.holdings import IN_MEMORY
from tests.node.links import CONFIG, SURROUNDINGS, Party, run, stream_pair
from tests.patience import PATIENCE
from tests.store.below import database_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from culm.bamboo import Entry
    from culm.ranges import RangeSet
    from culm.types import Buffer, Log

SESSIONS: dict[str, Any] = {
    "culm": CulmSession,
    "bushbaby": BushbabySession,
    "intervals": IntervalSession,
    "proposals": ProposalSession,
}
PROTOCOLS = tuple(SESSIONS)
UNHURRIED = replace(SURROUNDINGS, spent=lambda: 0.0)  # Nobody else wants a turn, and asking for the CPU time is slow.


@contextmanager
def parties(count: int) -> Iterator[list[Party]]:
    """Some parties whose stores cost no disk."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        made = [Party(Path(folder), number, UNHURRIED) for number in range(1, count + 1)]
        for party in made:
            database_of(party.store).connection.execute("PRAGMA synchronous = OFF")
        try:
            yield made
        finally:
            for party in made:
                party.close()


class Wants(NamedTuple):
    """A party and what it wants of the log."""

    party: Party
    interest: RangeSet


def exchange(protocol: str, log: Log, caller: Wants, listener: Wants) -> None:
    """Both sides get what they want and the other one has.

    Each calls once: by intervals and proposals a listener asks for what the caller has brought up, and no more, and by
    ``culm://`` what comes to light last may be told in the next session.
    """

    async def main() -> None:
        await _once(protocol, log, caller, listener)
        await _once(protocol, log, listener, caller)

    run(main)


async def _once(protocol: str, log: Log, caller: Wants, listener: Wants) -> None:
    async with linked(protocol, log, caller, listener, live=False) as calling:
        await asyncio.wait_for(calling.done.wait(), PATIENCE)


@asynccontextmanager
async def linked(protocol: str, log: Log, caller: Wants, listener: Wants, *, live: bool) -> AsyncIterator[Any]:
    """A running session between both; the caller's side of it. What their stores take is told to the sessions."""
    near, far = await stream_pair()
    kind = SESSIONS[protocol]
    sessions = []
    for wants, streams in ((caller, near), (listener, far)):
        calls = wants is caller
        policy = Policy(interests={log: wants.interest})
        source = StoreSource(wants.party.store, policy)
        wants.party.sources.append(source)
        context = Context(
            wants.party.identity,
            replace(CONFIG, policy=policy, surroundings=UNHURRIED),
            wants.party.worker,
            source,
            stored=partial(_tell, wants.party),
        )
        purpose = Purpose(
            called=calls,
            key=listener.party.identity.public if calls and protocol == "culm" else None,
            is_live=live or not calls,
            logs=(log,) if calls and protocol in ("intervals", "proposals") else (),
        )
        sessions.append(kind(context, streams, purpose))
        wants.party.sessions = [sessions[-1]]
    tasks = [asyncio.create_task(session.run()) for session in sessions]
    try:
        yield sessions[0]
    finally:
        tasks[0].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [error for error in results if isinstance(error, Exception) and not isinstance(error, NetworkError)]
        assert failures == [], failures


def _tell(party: Party) -> None:
    for session in party.sessions:
        session.store_changed()


async def append(party: Party, items: list[tuple[Entry, Buffer | None]]) -> None:
    """More is written to a party's store while its session runs."""
    await party.worker.run(party.store.add, items)
    _tell(party)


# -- what is held ----------------------------------------------------------------------------------------------------


def verified(party: Party, log: Log) -> dict[int, Entry]:
    """The verified entries of a log, by number."""
    return {stored.entry.seq: stored.entry for stored in party.view.entries(log)}


def certified(numbers: set[int], newest: int) -> set[int]:
    """Those of the numbers held whose whole certificate pool is held, in a log that reaches ``newest``."""
    return {seq for seq in numbers if numbers.issuperset(certificate_pool(seq, newest))}


def fork(party: Party, log: Log) -> int | None:
    """The lowest fork that a party knows of."""
    return min((proof.position for proof in party.view.fork_proofs(log)), default=None)


def shows_fork(some: dict[int, Entry], others: dict[int, Entry]) -> bool:
    """Whether entries of two parties contradict each other."""
    return any(
        ForkProof.of(one, other) is not None
        for one in some.values()
        for other in others.values()
        if one.seq == other.seq or other.seq in dict(one.links) or one.seq in dict(other.links)
    )
