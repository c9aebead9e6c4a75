"""An attacker who answers as it should, from a store of its own making: what it serves is what is wrong."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from culm.bamboo import Entry, Identity
from culm.errors import RemoteProtocolError
from culm.intervals import At, Ended, Regular, Single
from culm.intervals import Connection as IntervalConnection
from culm.proposals import EVERYTHING, Adjust, Endpoint, Offered, Setup
from culm.proposals import Connection as ProposalConnection
from culm.proposals.messages import Proposal
from culm.proposals.states import Said
from culm.testing.builders import LogBuilder
from culm.transfer import PayloadReceived
from tests.hostile.wires import Cut, Wire
from tests.memory import MemoryStore

if TYPE_CHECKING:
    from culm.types import Log
    from tests.hostile.attack import Field

_RESPONSE_BYTES = 256 * 1024
MOST_LOOKS = 2000
_DATA = 1  # stream


def new_log() -> LogBuilder:
    """A log of an author nobody knows."""
    return LogBuilder(Identity(os.urandom(32)))


def served(log: LogBuilder, **payloads: bytes) -> MemoryStore:
    """A store with a log; ``p3`` is what is served as the payload of entry 3."""
    store = MemoryStore()
    for entry in log.entries:
        store.put(entry, payloads.get(f"p{entry.seq}", log.payloads[entry.hash]))
    return store


class Intervals:
    """An attacker at ``intervals://``. What it asks for, it is asked for."""

    def __init__(self, wire: Wire, store: MemoryStore) -> None:
        self.wire, self.store = wire, store
        self.connection = IntervalConnection(store)

    @classmethod
    async def join(cls, field: Field, store: MemoryStore | None = None) -> Intervals:
        """Connect, and wait for credit."""
        peer = cls(await Wire.dial(field.target, "intervals", field.address), store or MemoryStore())
        while not peer.connection.ours.credit:
            await peer.turn()
        return peer

    async def turn(self) -> bytes:
        """Read something, and answer; what was read."""
        data = await self.wire.read()
        for _ in self.connection.receive_data(data, 0.0):
            pass
        self.connection.refill()
        await self.answer()
        return data

    async def answer(self) -> None:
        """Send all that there is to say."""
        more = True
        while more:
            more = self.connection.respond(_RESPONSE_BYTES)
            self.connection.take_events()
            data = self.connection.data_to_send()
            if data:
                await self.wire.send(data)
            elif more:
                return  # for want of credit

    async def ask(self, log: Log) -> None:
        """Ask for all of a log."""
        self.connection.request(*log, Regular(At(1), At(2**64 - 1)))
        await self.answer()

    async def is_shown_a_fork(self, log: Log) -> bool:
        """Ask for all of a log, and read until the answer has ended; whether it ended with the proof of a fork."""
        number = self.connection.request(*log, Regular(At(1), At(2**64 - 1)))
        await self.answer()
        while True:
            for event in self.connection.receive_data(await self.wire.read(), 0.0):
                if isinstance(event, Ended) and event.id == number:
                    return bool(event.proof)
            self.connection.refill()
            await self.answer()

    async def is_shown_a_payload(self, entry: Entry) -> bool:
        """Ask for an entry, and read until the answer has ended; whether its payload came as its author meant it."""
        number = self.connection.request(*entry.log, Single(entry.seq, 0, 0))
        await self.answer()
        while True:
            for event in self.connection.receive_data(await self.wire.read(), 0.0):
                if isinstance(event, PayloadReceived) and event.complete:
                    return event.checked
                if isinstance(event, Ended) and event.id == number:
                    return False
            self.connection.refill()
            await self.answer()

    async def serve(self, most: int | None = None) -> None:
        """Answer until the node ends the connection, or until ``most`` bytes were sent."""
        try:
            while most is None or self.wire.sent < most:
                await self.turn()
        except Cut:
            pass
        except RemoteProtocolError:  # it may take what the node says for a breach
            self.wire.close()


async def sees_the_fork(field: Field, log: Log) -> bool:
    """Whether another peer is shown a fork of a log, as soon as the node knows of it; False when it never did."""
    peer = await Intervals.join(replace(field, address=field.others(1)[0]))
    found = False
    for _ in range(MOST_LOOKS):
        found = await peer.is_shown_a_fork(log)
        if found:
            break
    peer.wire.close()
    return found


class Proposals:
    """An attacker at ``proposals://``. What it proposes, it is asked for."""

    def __init__(self, wire: Wire, store: MemoryStore, setup: Setup | None) -> None:
        self.wire, self.store = wire, store
        self.session = ProposalConnection(store, proactive=True, setup=setup)

    @property
    def connection(self) -> Endpoint:
        """The connection of the session."""
        return self.session.endpoint

    @classmethod
    async def join(cls, field: Field, store: MemoryStore | None = None, setup: Setup | None = None) -> Proposals:
        """Connect, and wait for credit."""
        peer = cls(await Wire.dial(field.target, "proposals", field.address), store or MemoryStore(), setup)
        await peer.answer()
        while not peer.connection.credit:
            await peer.turn()
        return peer

    async def turn(self) -> bytes:
        """Read something, and answer; what was read."""
        data = await self.wire.read()
        for event in self.session.receive_data(data, 0.0):
            if isinstance(event, Offered) and self.connection.is_offered(event.proposal.id):
                self.connection.confirm(Adjust(event.proposal.id, EVERYTHING, may_skip=True))
        self.session.refill()
        await self.answer()
        return data

    async def answer(self) -> None:
        """Send all that there is to say."""
        more = True
        while more:
            more = self.session.respond(_RESPONSE_BYTES)
            self.connection.take_events()
            data = self.session.data_to_send()
            if data:
                await self.wire.send(data)
            elif more:
                return

    async def propose(self, log: Log) -> None:
        """Propose all of a log."""
        self.connection.propose(Proposal(0, *log, 1))
        await self.answer()

    async def push(self, data: bytes) -> None:
        """Write to the data channel, and wait for the credit that this needs; what the node says is not looked at."""
        mux = self.session._mux
        mux.write(_DATA, data)
        await self.wire.send(mux.data_to_send())
        while mux.queued(_DATA):
            mux.receive(await self.wire.read())
            await self.wire.send(mux.data_to_send())

    async def confirmed(self, log: Log) -> int:
        """Propose all of a log, and wait until the node wants it; the proposal's id."""
        await self.propose(log)
        while not any(exchange.has(Said.CONFIRMED) for exchange in self.connection.exchanges.values()):
            await self.turn()
        (number,) = self.connection.exchanges
        return number

    async def serve(self) -> None:
        """Answer until the node ends the connection."""
        try:
            while True:
                await self.turn()
        except Cut:
            pass
        except RemoteProtocolError:  # it may take what the node says for a breach
            self.wire.close()


def large_with_a_wrong_end(size: int) -> tuple[LogBuilder, MemoryStore]:
    """A log of one large payload, the last byte of which is served wrong."""
    log, payload = new_log(), os.urandom(size)
    log.append(payload)
    return log, served(log, p1=payload[:-1] + bytes((payload[-1] ^ 1,)))


def ended_log() -> tuple[LogBuilder, MemoryStore]:
    """A log that goes on behind its end."""
    log = new_log()
    for number in range(1, 6):
        log.append(b"entry %d" % number, is_end=number == 3)
    return log, served(log)


def forked_logs() -> tuple[list[LogBuilder], list[MemoryStore]]:
    """One log in two histories, which differ from entry 5 on."""
    identity = Identity(os.urandom(32))
    logs = [LogBuilder(identity), LogBuilder(identity)]
    for branch, log in enumerate(logs):
        for number in range(1, 9):
            log.append(b"entry %d of %d" % (number, branch if number >= 5 else 0))
    return logs, [served(log) for log in logs]


def forged_log(log: Log) -> LogBuilder:
    """A log of one entry that claims to be somebody else's."""
    forged = LogBuilder(Identity(os.urandom(32)), log[1])
    encoded = bytearray(forged.append(b"mine").encoded)
    encoded[1:33] = log[0]
    forged.entries[:] = [Entry.decode(bytes(encoded))]
    forged.payloads[forged.entries[0].hash] = b"mine"
    return forged


def entry_of(log: LogBuilder, size: int, payload_hash: bytes) -> Entry:
    """A first entry whose payload has a size and a hash."""
    return log.identity.create_entry(
        log_id=log.log_id, seq=1, backlink=None, lipmaalink=None, size=size, payload_hash=payload_hash
    )
