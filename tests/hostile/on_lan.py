"""Attacks on a node that finds neighbours (``--lan``), by datagrams of mDNS.

A stranger on the network, who can write any sender, sends what it likes to the node's own address on port 5353. A
member of the clump can make announcements that hold. What an attacker can gain is calls: each address that is announced
here is a listener of the attacker, which counts them.

The strikes of a bounded amount are fewer datagrams than the node lets through in a minute, and wait now and then until
the node answers a question. So each datagram is parsed, and counts. Without end they come as fast as they can.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

from culm.node.lan.finding import MAX_CONTACTS
from culm.wire.announcement import HOUR_SECONDS, Announcement, clump_key, seal
from tests.hostile.attack import Attack, Field
from tests.hostile.wires import Cut

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_PORT = 5353
_NAME = b"\x05_culm\x04_tcp\x05local\x00"
_FIRST = b"\xc0\x0c"  # The name of the first record or question, from everywhere behind it.
_PTR, _TXT, _AAAA, _ANY = 12, 16, 28, 255
_FEW = 250  # Datagrams of a strike; of all strikes fewer than 3,000, which are let through in one go.
_MOST = 4000  # Bytes of a datagram that is not dropped for its size.
_SENDERS = 4
_AT_ONCE = 10  # So many datagrams fit into the buffer of the node's socket.
_PACE = 0.002  # Seconds; without a pause none would get through to the socket of a node that has others to listen to.
_PATIENCE = 0.5  # Seconds until a question is asked again.


class _Listener(asyncio.Protocol):
    """Takes calls and says nothing."""

    def __init__(self, ether: _Ether, number: int) -> None:
        self._ether, self._number = ether, number

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the call."""
        self._ether.calls[self._number] += 1
        self._ether.held.add(transport)
        self._ether.most_held = max(self._ether.most_held, len(self._ether.held))
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        """Count that it is over."""
        self._ether.held.discard(self._transport)


class _Ether:
    """The attacker's sockets, and its listeners. ``calls`` counts those that came, by the listener."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._sockets = [_udp(address) for address in (field.address, *field.others(_SENDERS - 1))]
        self._servers: list[asyncio.Server] = []
        self.calls: list[int] = []
        self.held: set[asyncio.BaseTransport] = set()
        self.most_held = 0
        self.sent = 0
        self._ear = _udp(field.address)
        self._asked = 0

    async def listen(self) -> tuple[str, int]:
        """A place where the attacker can be called."""
        number = len(self._servers)
        self.calls.append(0)
        server = await asyncio.get_running_loop().create_server(lambda: _Listener(self, number), self._field.address, 0)
        self._servers.append(server)
        return server.sockets[0].getsockname()[:2]  # type: ignore[no-any-return]

    async def send(self, make: Callable[[int], bytes]) -> None:
        """Send datagrams, each of another sender than the one before."""
        for number in self._field.rounds(_FEW):
            if self._field.over.is_set():
                return
            self._throw(make(number), self._sockets[number % _SENDERS])
            self.sent += 1
            if number % _AT_ONCE == _AT_ONCE - 1:
                await (asyncio.sleep(_PACE) if self._field.is_long else self.answered())

    def _throw(self, data: bytes, thrower: socket.socket) -> None:
        try:
            thrower.sendto(data, (self._field.target.lan, _PORT))
        except OSError as error:
            raise Cut(str(error)) from None

    async def answered(self) -> None:
        """Wait until the node answers a question, so that it is through with all that was sent before."""
        while not self._field.over.is_set():
            self._asked += 1
            name = self._asked.to_bytes(2, "big")
            self._throw(name + bytes.fromhex("0000 0001 0000 0000 0000") + _NAME + b"\x00\x0c\x00\x01", self._ear)
            try:
                async with asyncio.timeout(_PATIENCE):
                    while (await asyncio.get_running_loop().sock_recv(self._ear, 65536))[:2] != name:
                        pass
            except TimeoutError:
                continue
            return

    async def called(self) -> None:
        """Wait until the node calls a member that is announced now, so that it has made all calls of before."""
        if not self._field.is_long:
            key, here = _key(), await self.listen()
            while not self.calls[-1] and not self._field.over.is_set():
                self._throw(
                    _announced(_by_member(self._field.target.clump, key, *here), b"%016x" % self._asked),
                    self._sockets[0],
                )
                await self.answered()

    async def close(self) -> None:
        """Close all."""
        for each in (*self._sockets, self._ear):
            each.close()
        for server in self._servers:
            server.close()
        for transport in list(self.held):
            transport.close()


def _udp(address: str) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setblocking(False)
    found.bind((address, 0))
    return found


@asynccontextmanager
async def _ether(field: Field) -> AsyncIterator[_Ether]:
    """The attacker's sockets, when the node is there."""
    ether = _Ether(field)
    try:
        if not field.is_long:  # Else it is flooded by now.
            await ether.answered()
        yield ether
    finally:
        await ether.close()


def _answer(records: list[bytes], counted: int | None = None) -> bytes:
    """A datagram of records; ``counted``: how many it says that it has."""
    return bytes.fromhex("0000 8400 0000") + (counted or len(records)).to_bytes(2, "big") + bytes(4) + b"".join(records)


def _record(name: bytes, kind: int, data: bytes, ttl: int = 4500) -> bytes:
    rest = kind.to_bytes(2, "big") + b"\x00\x01" + ttl.to_bytes(4, "big") + len(data).to_bytes(2, "big") + data
    return name + rest


def _label(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def _announced(sealed: bytes, instance: bytes) -> bytes:
    name = _label(instance) + _FIRST
    return _answer([_record(_NAME, _PTR, name), _record(name, _TXT, _label(b"culm=" + sealed))])


def _by_member(clump: bytes, key: bytes, host: str, port: int, hours: int = 0) -> bytes:
    """An announcement that holds in a clump, or did so ``hours`` ago."""
    announcement = Announcement(key, ((ip_address(host), port),))
    return seal(announcement, clump_key(clump), time.time() - hours * HOUR_SECONDS)


def _key() -> bytes:
    """A key that is greater than the node's, so that it is the node who calls."""
    return b"\xff" + os.urandom(31)


async def forges(field: Field) -> str:
    """Announces nodes at an address of its own, with MACs of another clump, and with random ones."""
    async with _ether(field) as ether:
        here = await ether.listen()

        def make(number: int) -> bytes:
            sealed = _by_member(b"another", _key(), *here)
            if number % 2:
                sealed = sealed[:-32] + os.urandom(32)
            return _announced(sealed, b"%016x" % number)

        await ether.send(make)
        await ether.called()
        return f"{ether.calls[0]} calls"


async def replays(field: Field) -> str:
    """Repeats an announcement that a member made three hours ago, and one of this hour."""
    async with _ether(field) as ether:
        key = _key()
        clump = field.target.clump
        old, new = _by_member(clump, key, *await ether.listen(), 3), _by_member(clump, key, *await ether.listen())
        await ether.send(lambda number: _announced(new if number % 2 else old, b"%016x" % number))
        await ether.called()
        return f"{ether.calls[0]} calls for the old one, {ether.calls[1]} for the new one"


async def invents_keys(field: Field) -> str:
    """Is a member and announces a node of another key each time, at a listener that takes calls and says nothing."""
    async with _ether(field) as ether:
        here = await ether.listen()

        def other(number: int) -> bytes:
            return _announced(_by_member(field.target.clump, _key(), *here), b"%016x" % number)

        await ether.send(other)
        while (
            not field.is_long and ether.most_held < MAX_CONTACTS
        ):  # on a busy machine the first calls are over by then
            await ether.send(other)
        return f"{ether.most_held} calls at once"


async def moves(field: Field) -> str:
    """Is a member and announces one key at two addresses in turns."""
    async with _ether(field) as ether:
        key = _key()
        places = [await ether.listen(), await ether.listen()]
        await ether.send(
            lambda number: _announced(_by_member(field.target.clump, key, *places[number % 2]), b"%016x" % number)
        )
        await ether.called()
        return f"{sum(ether.calls[:2])} calls"


async def sends(make: Callable[[int], bytes], field: Field) -> str:
    """Sends datagrams that name the service."""
    async with _ether(field) as ether:
        await ether.send(make)
        return f"{ether.sent} datagrams"


def _full(first: bytes, make: Callable[[int], bytes]) -> bytes:
    """A datagram of as many records as it may have."""
    records, size = [first], len(first) + 12
    while size + len(record := make(len(records))) <= _MOST:
        records.append(record)
        size += len(record)
    return _answer(records)


def _names(number: int) -> bytes:
    """Names of services that nothing else is known of."""
    first = _record(_NAME, _PTR, _label(b"%012x" % number) + _FIRST)
    return _full(first, lambda at: _record(_FIRST, _PTR, _label(b"%08x%04x" % (number, at)) + _FIRST))


def _addresses(number: int) -> bytes:
    """Addresses of one name."""
    first = _record(_NAME, _PTR, b"\x01a" + _FIRST)
    return _full(first, lambda at: _record(_FIRST, _AAAA, (number << 16 | at).to_bytes(16, "big")))


def _texts(number: int) -> bytes:
    """As many announcements as go into a datagram, none of which holds."""
    first = _record(_NAME, _PTR, b"\x01a" + _FIRST)
    forged = _label(b"culm=\x01" + os.urandom(72))
    return _full(first, lambda at: _record(_label(b"%08x%04x" % (number, at)) + _FIRST, _TXT, forged))


def _huge(number: int) -> bytes:
    """A TXT record of four kilobytes, or of sixty, or one that says sixty and has none."""
    name = _label(b"%016x" % number) + _NAME
    strings = _label(b"culm=" + bytes(250)) * (15 if number % 3 else 230)
    record = _record(name, _TXT, strings)
    return _answer([record[: len(name) + 10] if number % 3 == 1 else record])


def _chains(number: int) -> bytes:
    """Names each of which points at the one before, and at the end at itself."""
    records, size, before = [_record(_NAME, _TXT, b"")], len(_NAME) + 22, 12
    while size < _MOST - 20:
        name = b"\x01a" + (0xC000 | before).to_bytes(2, "big")
        record = _record(name, _TXT, number.to_bytes(4, "big"))
        before = size if len(records) < 120 else before
        records.append(record)
        size += len(record)
    records.append((0xC000 | size).to_bytes(2, "big"))
    return _answer(records, 0xFFFF)


def _questions(number: int) -> bytes:
    """A datagram of 650 questions, each of which the node could answer."""
    kind = (_PTR, _ANY)[number % 2].to_bytes(2, "big")
    asked = _NAME + kind + b"\x00\x01" + (_FIRST + kind + b"\x00\x01") * 650
    return (number & 0xFFFF).to_bytes(2, "big") + bytes.fromhex("0000 028b 0000 0000 0000") + asked


_FLOODS = {
    "names that never resolve": _names,
    "addresses of one name": _addresses,
    "forged texts": _texts,
    "huge texts": _huge,
    "names that point around": _chains,
    "questions": _questions,
}

ATTACKS = [
    Attack("lan", "forged announcements", forges, None, gets="^0 calls", kind="lan"),
    Attack("lan", "replayed announcements", replays, None, gets="^0 calls for the old one, [1-4] for", kind="lan"),
    Attack(
        "lan",
        "invented keys",
        invents_keys,
        None,
        gets=f"^{MAX_CONTACTS} ",
        connections=2 * MAX_CONTACTS,
        kind="lan crowded",
    ),
    Attack("lan", "moving key", moves, None, gets="^[1-5] calls", kind="lan"),
    *(Attack("lan", name, partial(sends, make), None, gets="datagrams", kind="lan") for name, make in _FLOODS.items()),
]
