"""Attacks on a node that follows parts of logs: it needs certificate pools, and the attacker lets it chase them.

The upper half of a pool lies behind the entries that are followed (docs/specs/bamboo.md, "Certificate pools"). So a
peer can hold the followed entries, claim a log that reaches far behind them, and never send the entries in which the
pools end. The node asks for these a few times and no more, and the rest of the log comes all the same.

What the node asks is measured in bytes: requests have very different forms in the four protocols.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, Identity
from culm.bushbaby import HaveItem, WantItem, WantReceived
from culm.bushbaby.messages import HAVE, encode_have_item
from culm.intervals import Connection as IntervalConnection
from culm.ranges import Range, RangeSet
from culm.session import Offer, Transferred
from culm.session.connection import CONTROL_STREAM
from culm.session.messages import InterestsTold, Offered, encode
from culm.testing.builders import LogBuilder
from culm.wire.bymux import PING, packet
from culm.wire.cbor import ARRAY, push_head
from tests.hostile.attack import Attack, Field
from tests.hostile.node import PARTS_SEED
from tests.hostile.serving import Intervals, Proposals
from tests.hostile.wires import ALIVE, Cut, Gossip, Member
from tests.memory import MemoryStore

if TYPE_CHECKING:
    from culm.bamboo import Entry
    from culm.types import Log

_LOGS = 4
_HELD = range(1, 11)  # The node follows 5 to 10, so it also needs 11, 12 and 13.
_GROWS_FROM, _GROWS_TO = 20, 140
_WITHHELD = (11, 12)
_SIGNS_OF_LIFE = {ALIVE, packet(PING, None)}
_RESPONSE_BYTES = 256 * 1024
_FEW = r"^asked in \d{1,5} bytes"
"""Fewer than 100,000: a path from entry 2^64 has 84 members, and a log is asked for a few times."""


def _logs(count: int, entries: int) -> list[LogBuilder]:
    """Logs of the author that the node follows in parts; nobody has seen them before."""
    author = Identity(PARTS_SEED.to_bytes(32, "big"))
    logs = [LogBuilder(author, int.from_bytes(os.urandom(7), "big")) for _ in range(count)]
    for log in logs:
        for number in range(entries):
            log.append(b"%d" % number)
    return logs


def _put(store: MemoryStore, log: LogBuilder, entries: list[Entry]) -> None:
    for entry in entries:
        store.put(entry, log.payloads[entry.hash])


def _without_tails(count: int) -> tuple[list[Log], MemoryStore]:
    """Logs without the upper half of the pools of what is followed."""
    store, logs = MemoryStore(), _logs(count, _HELD[-1])
    for log in logs:
        _put(store, log, log.entries)
    return [log.entries[0].log for log in logs], store


def _asked(received: int, logs: int) -> str:
    return f"asked in {received // logs} bytes a log"


class _Quiet:
    """Whether the node has nothing left to ask: it then sends nothing but signs of life."""

    def __init__(self) -> None:
        self._signs = 0

    def after(self, data: bytes) -> bool:
        """Whether these bytes are the second sign of life in a row."""
        self._signs = self._signs + 1 if data in _SIGNS_OF_LIFE else 0
        return self._signs == 2


class _Transfer:
    """A member of a ``culm://`` session that offers what it likes, and serves what it has. ``asked``: bytes."""

    def __init__(self, member: Member, store: MemoryStore) -> None:
        self.member = member
        self.connection = IntervalConnection(store)
        self.asked = 0

    @classmethod
    async def join(cls, field: Field, store: MemoryStore) -> _Transfer:
        peer = cls(await Member.join(field.target, field.address), store)
        await peer.member.push(CONTROL_STREAM, encode(InterestsTold(reset=True, items=[])))
        await peer.answer()
        return peer

    async def offer(self, logs: list[Log], high: int) -> None:
        """Claim to hold logs up to an entry."""
        offers = [Offer(*log, RangeSet([Range(1, high)])) for log in logs]
        await self.member.push(CONTROL_STREAM, encode(Offered(offers)))

    async def turn(self) -> bytes:
        """Read something, and answer."""
        data = await self.member.wire.read()
        for event in self.member.take(data):
            if isinstance(event, Transferred):
                self.asked += len(event.data)
                list(self.connection.receive_data(event.data, 0.0))
                self.member.session.consumed(len(event.data))
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
            more = more and bool(data)
            self.member.session.transfer(data)
        await self.member.flush()


async def claims_large_heads(field: Field) -> str:
    """Offers logs of 2^64 entries, and has only the entries that the node follows."""
    logs, store = _without_tails(_LOGS)
    peer = await _Transfer.join(field, store)
    quiet = _Quiet()
    with suppress(Cut):
        for _ in field.rounds(1):  # Each offer is a reason to look again.
            await peer.offer(logs, MAX_U64)
            while not quiet.after(await peer.turn()):
                pass
            if field.over.is_set():
                break
    peer.member.wire.close()
    return _asked(peer.asked, len(logs))


async def lacks_tails(field: Field) -> str:
    """Serves many logs, each without the upper half of the pools."""
    logs, store = _without_tails(_LOGS)
    peer = await Intervals.join(field, store)
    quiet, before = _Quiet(), peer.wire.received
    with suppress(Cut):
        for log in logs:
            await peer.ask(log)
        while not quiet.after(await peer.turn()):
            pass
    peer.wire.close()
    return _asked(peer.wire.received - before, len(logs))


async def proposes_without_tails(field: Field) -> str:
    """Proposes many logs, each without the upper half of the pools, and once more when the node holds them."""
    logs, store = _without_tails(_LOGS)
    asked = 0
    for _ in range(2):
        peer, quiet = await Proposals.join(field, store), _Quiet()
        with suppress(Cut):
            for log in logs:
                await peer.propose(log)
            while not quiet.after(await peer.turn()):
                pass
        peer.wire.close()
        asked += peer.wire.received
    return _asked(asked, len(logs))


async def grows(field: Field) -> str:
    """Has a log grow by one entry at a time, and never sends two members of a pool that lie far below."""
    (log,) = _logs(1, _GROWS_TO)
    store, name = MemoryStore(), log.entries[0].log
    _put(store, log, [entry for entry in log.entries[: _GROWS_FROM - 1] if entry.seq not in _WITHHELD])
    peer = await _Transfer.join(field, store)
    quiet = _Quiet()
    with suppress(Cut):
        for entry in log.entries[_GROWS_FROM - 1 :]:
            _put(store, log, [entry])
            peer.connection.wake([name])
            await peer.offer([name], entry.seq)
            await peer.turn()
        while not quiet.after(await peer.turn()):
            pass
    peer.member.wire.close()
    return _asked(peer.asked, _GROWS_TO - _GROWS_FROM + 1).replace("a log", "an entry")


async def announces_large_heads(field: Field) -> str:
    """Announces logs of 2^64 entries again and again, and has only the entries that the node follows."""
    logs, store = _without_tails(_LOGS)
    gossip = await Gossip.join(field.target, field.address)
    before = gossip.wire.received
    with suppress(Cut):
        for _ in field.rounds(5):
            await gossip.box(HAVE, _array([encode_have_item(HaveItem(*log, MAX_U64)) for log in logs]))
            while items := await _wanted(gossip):
                await _send(gossip, store, items)
                await gossip.box(HAVE, _array([encode_have_item(HaveItem(*log, MAX_U64)) for log in logs]))
            if field.over.is_set():
                break
    gossip.wire.close()
    return _asked(gossip.wire.received - before, len(logs))


def _array(items: list[bytes]) -> bytes:
    out = bytearray()
    push_head(out, ARRAY, len(items))
    return bytes(out) + b"".join(items)


async def _wanted(gossip: Gossip) -> list[WantItem]:
    """What the next WANT asks for."""
    while True:
        events = gossip.connection.receive_data(await gossip.wire.read(), 0.0)
        wants = [event for event in events if isinstance(event, WantReceived)]
        if wants:
            return [item for event in wants for item in event.items]


async def _send(gossip: Gossip, store: MemoryStore, items: list[WantItem]) -> None:
    found = [
        (entry, store.bytes[entry.hash])
        for item in items
        for seq in _HELD
        if (item.low or 1) <= seq <= (item.high or MAX_U64)
        for entry in store.entries.get(((item.author, item.log_id or 0), seq), [])
    ]
    writer = gossip.connection.start_bamboo([len(entry.encoded) + len(payload) for entry, payload in found])
    for entry, payload in found:
        writer.write(entry.encoded + payload)
    writer.send()
    await gossip.flush()


ATTACKS = [
    Attack(
        "culm", "pools that never come", claims_large_heads, None, gets=_FEW, cpu=10.0, kind="parts", is_quick=False
    ),
    Attack("bushbaby", "pools that never come", announces_large_heads, None, gets=_FEW, kind="parts"),
    Attack("intervals", "pools that never come", lacks_tails, None, gets=_FEW, kind="parts"),
    Attack("culm", "pools that grow", grows, None, gets=_FEW, kind="parts"),
    Attack("proposals", "pools that never come", proposes_without_tails, None, gets=_FEW, kind="parts"),
]
