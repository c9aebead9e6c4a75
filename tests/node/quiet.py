"""Two nodes that speak a Point-2-Point protocol, without sockets, tasks or clocks: each step is made by hand.

``asks`` sends what its planner says; ``serves`` answers. What comes is stored before the next step.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from culm.bamboo import ForkProof
from culm.intervals import Connection, Doubted, Limits, Request, RequestEnded
from culm.node.interests.policy import Policy
from culm.node.intervals.followed import FollowOptions
from culm.node.intervals.follower import Follower
from culm.node.proposals.options import ProposalOptions
from culm.node.proposals.proposer import Proposer
from culm.node.storage.source import StoreSource
from culm.proposals import Connection as ProposalConnection
from culm.proposals import Limits as ProposalLimits
from culm.proposals import Setup
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from culm.bamboo import Entry
    from culm.ranges import RangeSet
    from culm.store import SQLiteStore
    from culm.types import Log

MOST_STEPS = 2000
"""No exchange about a short log takes so many."""


class Arriving:
    """Stores what comes, and counts it: ``entries`` by number, ``payloads`` by number and offset."""

    def __init__(self, store: SQLiteStore) -> None:
        self.store = store
        self.entries: Counter[tuple[Log, int]] = Counter()
        self.payloads: Counter[tuple[Log, int]] = Counter()  # whose last byte came
        self.bytes: Counter[tuple[Log, int]] = Counter()  # of payloads
        self.changed: set[Log] = set()
        self._begun: dict[bytes, bytearray] = {}

    def take(self, event: Any) -> None:
        """Store what an event brings, if it brings anything."""
        match event:
            case EntryReceived(_, entry):
                self.entries[entry.log, entry.seq] += 1
                self.store.add([(entry, None)], authenticated=True, durable=False)
                self.changed.add(entry.log)
            case PayloadReceived(_, entry, offset, data, complete):
                self.bytes[entry.log, entry.seq] += len(data)
                if complete and data:  # else it was all there before
                    self.payloads[entry.log, entry.seq] += 1
                self._write(entry, offset, bytes(data), complete=complete)
                self.changed.add(entry.log)
            case PayloadFailed():
                raise AssertionError("a payload that is right was taken for a wrong one")

    def _write(self, entry: Entry, offset: int, data: bytes, *, complete: bool) -> None:
        if offset and not data:  # what we said is here, so that nothing was to be sent of it
            return
        begun = self._begun.get(entry.hash)
        if offset == 0 or begun is not None:  # all of it comes, whatever part of it is held
            begun = self._begun.setdefault(entry.hash, bytearray())
            assert len(begun) == offset
            begun += data
            if complete:
                self.store.add([(entry, bytes(self._begun.pop(entry.hash)))], authenticated=True, durable=False)
            return
        sink = self.store.payload_sink(entry.place, entry.hash, durable=False)
        if sink.wanted:
            assert sink.offset == offset
            sink.write(data)
            if complete:
                sink.finish()
            sink.close()

    def proofs(self, found: Iterable[tuple[Entry, ...]]) -> None:
        """Take fork proofs, or the entries that contradict something we hold."""
        for entries in found:
            proof = ForkProof.of(*entries) if len(entries) == 2 else None
            if proof is not None:
                self.store.add_proof(proof)
            else:
                self.store.add([(entry, None) for entry in entries])
            self.changed.add(entries[0].log)

    def take_changed(self) -> set[Log]:
        """The logs of which something came."""
        changed, self.changed = self.changed, set()
        return changed


class IntervalEnd:
    """One side of an interval session."""

    def __init__(
        self,
        store: SQLiteStore,
        interest: RangeSet,
        options: FollowOptions | None = None,
        *,
        live: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.source = StoreSource(store, Policy())
        self.connection = Connection(self.source, limits=limits)
        self.follower = Follower(
            self.connection, self.source, lambda _: interest, options or FollowOptions(), live=live
        )
        self.arriving = Arriving(store)
        self.most_open = 0
        self.requested: list[Request] = []  # by the other side

    @property
    def is_done(self) -> bool:
        """Whether everything that was to come came."""
        return self.follower.is_done

    def say(self) -> bytes:
        """What is to be sent."""
        self.follower.look_again()
        changed = self.arriving.take_changed()
        self.connection.wake(changed)
        self.follower.changed(changed)
        self.follower.step()
        self.connection.respond(1 << 20)
        self._note(self.connection.take_events())
        self.most_open = max(self.most_open, len(self.connection.ours.requests))
        return self.connection.data_to_send()

    def hear(self, data: bytes) -> None:
        """Take what was sent, as a session does."""
        self._note(self.connection.receive_data(data, 0.0))
        self.connection.refill()

    def _note(self, events: Iterable[Any]) -> None:
        for event in events:
            match event:
                case Request():
                    self.requested.append(event)
                case RequestEnded(_, log, doubted) if doubted is not None:
                    self.follower.doubt(log, doubted)
                case Doubted(log, seq):
                    self.follower.doubt(log, seq, confirmed=True)
                case _:
                    pass
            self.follower.handle(event)
            self.arriving.take(event)
            self.arriving.proofs(self.follower.proofs)
            self.follower.proofs.clear()

    def close(self) -> None:
        """Let go of the store."""
        self.source.close()


class ProposalEnd:
    """One side of a proposal session."""

    def __init__(
        self,
        store: SQLiteStore,
        interest: RangeSet,
        options: ProposalOptions | None = None,
        *,
        calls: bool,
        limits: ProposalLimits | None = None,
    ) -> None:
        self.source = StoreSource(store, Policy())
        self.session = ProposalConnection(self.source, proactive=calls, setup=Setup(), limits=limits)
        self.proposer = Proposer(
            self.session.endpoint, self.source, lambda _: interest, lambda _: True, options or ProposalOptions()
        )
        self.arriving = Arriving(store)
        self.most_open = 0

    @property
    def is_done(self) -> bool:
        """Whether everything was proposed, and answered."""
        return self.proposer.is_done

    def say(self) -> bytes:
        """What is to be sent."""
        self.proposer.look_again()
        self.session.endpoint.wake(self.arriving.take_changed())
        self.proposer.step()
        self.session.respond(1 << 20)
        self._note(self.session.endpoint.take_events())
        self.proposer.step()  # Answering may have shown what to offer.
        ours = [exchange for exchange in self.session.endpoint.exchanges.values() if exchange.is_ours]
        self.most_open = max(self.most_open, len(ours))
        return self.session.data_to_send()

    def hear(self, data: bytes) -> None:
        """Take what was sent, as a session does."""
        self._note(self.session.receive_data(data, 0.0))
        self.session.refill()

    def _note(self, events: Iterable[Any]) -> None:
        for event in events:
            self.proposer.handle(event)
            self.arriving.take(event)
            self.arriving.proofs(self.proposer.proofs)
            self.proposer.proofs.clear()

    def close(self) -> None:
        """Let go of the store."""
        self.source.close()


def talk(one: Any, other: Any) -> None:
    """Let both say all they have to say."""
    for _ in range(MOST_STEPS):
        if not any(_carried(one, other)):
            return
    raise AssertionError("they never come to an end")


def _carried(one: Any, other: Any) -> Iterator[bool]:
    said = False
    for near, far in ((one, other), (other, one)):
        data = near.say()
        if data:
            far.hear(data)
            said = True
    yield said
