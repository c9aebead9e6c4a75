"""Two endpoints joined by memory, for the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.bamboo import PayloadHasher, yamf_hash
from culm.proposals import (
    EVERYTHING,
    Adjust,
    Connection,
    Eagerness,
    Endpoint,
    Event,
    Limits,
    Offered,
    Setup,
    can_rebuild,
)
from culm.proposals.messages import NOTHING
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived
from tests.memory import MemoryStore

if TYPE_CHECKING:
    import random

    from culm.bamboo import Entry


class Side:
    """An endpoint with its store. What it receives it stores; what is proposed to it, it confirms."""

    def __init__(
        self,
        *,
        proactive: bool,
        setup: Setup | None = None,
        limits: Limits | None = None,
        store: MemoryStore | None = None,
    ) -> None:
        self.store = store if store is not None else MemoryStore()
        self.session = Connection(self.store, proactive=proactive, setup=setup, limits=limits)
        self.events: list[Event] = []
        self.confirms = True
        self.wish: Eagerness = EVERYTHING
        self.may_skip = True
        self.received = 0
        self._parts: dict[bytes, bytearray] = {}

    @property
    def connection(self) -> Endpoint:
        """The connection itself."""
        return self.session.endpoint

    def take(self, data: bytes) -> None:
        """Receive bytes, and do what they ask for."""
        self.received += len(data)
        for event in self.session.receive_data(data, 0.0):
            self.notice(event)
        while self.session.has_more:
            for event in self.session.receive_data(b"", 0.0):
                self.notice(event)
        self.session.refill()
        for event in self.connection.take_events():
            self.notice(event)

    def notice(self, event: Event) -> None:
        """Keep an event, and store what it brings."""
        self.events.append(event)
        match event:
            case EntryReceived(_, entry):
                self.put(entry)
            case PayloadReceived():
                self._add(event)
            case PayloadFailed(_, entry):
                self._parts.pop(entry.hash, None)
                if not self.store.is_complete(entry):
                    self.drop(entry)
            case Offered(proposal):
                if self.confirms and self.connection.is_offered(proposal.id):
                    self.confirm(proposal.id)
            case _:
                pass

    def _add(self, event: PayloadReceived) -> None:
        entry = event.entry
        held = self._parts.get(entry.hash)
        if held is None:
            held = self._parts[entry.hash] = bytearray(self.store.bytes.get(entry.hash, b""))
        if len(held) < event.offset:
            return
        if not self.store.is_complete(entry):
            del held[event.offset :]
            held += event.data
            self._keep(entry, held, complete=event.complete)
        if event.complete:
            self._parts.pop(entry.hash, None)

    def _keep(self, entry: Entry, held: bytearray, *, complete: bool) -> None:
        if (not complete and len(held) < entry.size) or yamf_hash(held) == entry.payload_hash:
            self.put(entry, bytes(held))
        else:
            self.drop(entry)

    def confirm(self, proposal_id: int) -> None:
        """Confirm a proposal: with what is wanted, if it can be put together."""
        proposal = self.connection.exchanges[proposal_id].proposal
        if proposal.sparse and proposal.end is None:
            self.connection.cancel(proposal_id)
            return
        wish = self.wish if can_rebuild(proposal, self.store) else NOTHING
        self.connection.confirm(Adjust(proposal_id, wish, may_skip=self.may_skip))

    def put(self, entry: Entry, payload: bytes | None = None) -> None:
        """Store an entry or its payload, and say so."""
        self.store.put(entry, payload)
        self.connection.wake([entry.log])

    def drop(self, entry: Entry) -> None:
        """Forget a payload, and say so."""
        self.store.drop_payload(entry)
        self.connection.wake([entry.log])

    def begun(self, entry: Entry) -> PayloadHasher:
        """The hash of what is held of a payload."""
        hasher = PayloadHasher()
        hasher.update(self.store.bytes.get(entry.hash, b""))
        return hasher

    def output(self, limit: int = 10**6) -> bytes:
        """Bytes for the peer."""
        self.session.respond(limit)
        for event in self.connection.take_events():
            self.notice(event)
        return self.session.data_to_send()


class Pair:
    """Two sides and the bytes between them."""

    def __init__(self, a: Side, b: Side, rng: random.Random | None = None) -> None:
        self.a, self.b = a, b
        self.ways = {a: bytearray(), b: bytearray()}  # bytes under way to each
        self._rng = rng

    def step(self) -> bool:
        """Move some bytes; whether there were any."""
        moved = False
        for side, other in ((self.a, self.b), (self.b, self.a)):
            self.ways[other] += side.output()
            way = self.ways[other]
            if way:
                moved = True
                size = len(way) if self._rng is None else self._rng.choice((1, 7, 100, 5000, len(way)))
                data = bytes(way[:size])
                del way[:size]
                other.take(data)
        return moved

    def run(self) -> None:
        """Until both are silent."""
        while self.step():
            pass
