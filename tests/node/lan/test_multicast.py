"""mDNS: the gate in front of it, what is read of a record, and the loopback's network.

Specification: docs/specs/neighbours.md, "DNS-SD".
"""

from __future__ import annotations

import asyncio
import socket
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest
from zeroconf import Error, Zeroconf
from zeroconf.asyncio import AsyncZeroconf

from culm.errors import ConfigError, NetworkError
from culm.node.lan.multicast import (
    A_MINUTE,
    A_MINUTE_EACH,
    MAX_DATAGRAM,
    SERVICE,
    Gate,
    Multicast,
    Rates,
    addresses_of,
    announced_in,
    check_installed,
    networks,
    own_hosts,
)
from culm.node.network.urls import PeerUrl
from culm.wire.announcement import MAX_BYTES
from tests.node.links import run_really
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

# A question for PTR records of the service (RFC 1035, section 4.1): id, flags, counts; name, type, class.
NAME = b"\x05_culm\x04_tcp\x05local\x00"
QUESTION = bytes.fromhex("0000 0000 0001 0000 0000 0000") + NAME + b"\x00\x0c\x00\x01"


def answer(*records: tuple[bytes, int, bytes]) -> bytes:
    """An answer of these records: name, type, data. A name can point at the first one, by C0 0C."""
    head = bytes.fromhex("0000 8400 0000") + len(records).to_bytes(2, "big") + bytes(4)
    return head + b"".join(
        name + kind.to_bytes(2, "big") + b"\x00\x01\x00\x00\x11\x94" + len(data).to_bytes(2, "big") + data
        for name, kind, data in records
    )


class Behind:
    """A receiver that counts."""

    def __init__(self) -> None:
        self.senders: list[str] = []
        self.others: list[object] = []

    def datagram_received(self, _: bytes, addr: tuple[str, int]) -> None:
        """Count the sender."""
        self.senders.append(addr[0])

    def error_received(self, error: object) -> None:
        """Note the error."""
        self.others.append(error)

    connection_lost = error_received


def gate_before(behind: Behind, clock: Callable[[], float] = lambda: 0.0) -> Gate:
    """A gate that hands on no answers."""
    return Gate(behind, Rates(clock), lambda _: False)


def test_what_the_gate_drops() -> None:
    """Datagrams of other services, and large ones, are not parsed; names mean the same in capital letters."""
    behind = Behind()
    gate = gate_before(behind)
    for data in (QUESTION.replace(b"_culm", b"_http"), b"", QUESTION + bytes(MAX_DATAGRAM)):
        gate.datagram_received(data, ("10.0.0.1", 5353))
    assert behind.senders == []
    for data in (QUESTION, QUESTION.replace(b"_culm", b"_CULM")):
        gate.datagram_received(data, ("10.0.0.1", 5353))
    assert behind.senders == ["10.0.0.1"] * 2


def test_a_flood_of_one_sender() -> None:
    """A sender that floods the network is let through a bounded number of times; another one is heard meanwhile."""
    now, behind = 0.0, Behind()
    gate = gate_before(behind, lambda: now)
    for _ in range(10_000):
        gate.datagram_received(QUESTION, ("10.0.0.1", 5353))
    gate.datagram_received(QUESTION, ("10.0.0.2", 5353))
    assert len(behind.senders) == A_MINUTE_EACH + 1
    assert behind.senders[-1] == "10.0.0.2"
    now = 60.0
    gate.datagram_received(QUESTION, ("10.0.0.1", 5353))
    assert behind.senders[-1] == "10.0.0.1"


def test_a_flood_of_many_senders() -> None:
    """Senders can be invented, so all together are let through a bounded number of times, too."""
    behind = Behind()
    gate = gate_before(behind)
    for at in range(10_000):
        gate.datagram_received(QUESTION, (f"10.0.{at // 250}.{at % 250}", 5353))
    assert len(behind.senders) == A_MINUTE


def test_a_flood_at_several_sockets() -> None:
    """A sender that writes to each address of this machine is let through as often as one that writes to one."""
    rates, behind = Rates(lambda: 0.0), Behind()
    gates = [Gate(behind, rates, lambda _: False) for _ in range(3)]
    for at in range(10_000):
        gates[at % 3].datagram_received(QUESTION, ("10.0.0.1", 5353))
    assert len(behind.senders) == A_MINUTE_EACH


def test_answers() -> None:
    """An answer is read at the gate, and the receiver gets it only if it needs it."""
    behind, read = Behind(), list[bytes]()
    ours, others = answer((NAME, 12, b"\x01a\xc0\x0c")), answer((NAME, 12, b"\x01b\xc0\x0c"))

    def answered(data: bytes) -> bool:
        read.append(data)
        return data == ours

    gate = Gate(behind, Rates(lambda: 0.0), answered)
    for data in (ours, others, QUESTION):
        gate.datagram_received(data, ("10.0.0.1", 5353))
    assert read == [ours, others]
    assert len(behind.senders) == 2


def test_the_gate_hands_on_the_end() -> None:
    """The receiver learns of errors and of the end."""
    behind, error = Behind(), OSError()
    gate = gate_before(behind)
    gate.error_received(error)
    gate.connection_lost(None)
    assert behind.others == [error, None]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (f"x.{SERVICE}", b"\x06culm=a", b"a"),
        (f"x.{SERVICE.upper()}", b"\x06culm=a", b"a"),
        (f"x.{SERVICE}", b"\x00\x03v=2\x07culm=\x00\xff", b"\x00\xff"),
        (f"x.{SERVICE}", b"\x05culm=", b""),
        (f"x.{SERVICE}", b"\xffculm=a", b"a"),
        (f"x.{SERVICE}", b"", None),
        (f"x.{SERVICE}", b"\x04culm", None),
        (f"x.{SERVICE}", bytes([5 + MAX_BYTES + 1]) + b"culm=" + bytes(MAX_BYTES + 1), None),
        ("x._http._tcp.local.", b"\x06culm=a", None),
        (SERVICE, b"\x06culm=a", None),
    ],
    ids=range(10),
)
def test_records(name: str, text: bytes, expected: bytes | None) -> None:
    """An announcement is found in a TXT record of the service, wherever in it, and nowhere else."""
    assert announced_in(name, text) == expected


def test_addresses() -> None:
    """Listeners that prove a key are announced, at each of the machine's addresses if they listen at all of them."""
    listeners = [PeerUrl("culm", "0.0.0.0", 1), PeerUrl("culm", "10.0.0.5", 2), PeerUrl("intervals", "10.0.0.5", 3)]
    expected = [("10.0.0.5", 1), ("fd00::5", 1), ("10.0.0.5", 2)]
    assert addresses_of(listeners, ["10.0.0.5", "fd00::5"]) == expected


def test_networks() -> None:
    """Multicast DNS is spoken at the given IPv4 addresses, or at all of the machine's but the loopback's."""
    assert networks(["127.0.0.1", "::1"]) == ["127.0.0.1"]
    assert [host for host in [*networks([]), *own_hosts()] if host.startswith(("127.", "fe80")) or host == "::1"] == []


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without python-zeroconf the message says what to install."""
    monkeypatch.setitem(sys.modules, "zeroconf", None)
    with pytest.raises(ConfigError, match=r"pip install 'culm\[lan\]'"):
        check_installed()


def test_no_network() -> None:
    """Without a network, or at an address that is another machine's, one error says so."""

    async def main(at: list[str]) -> None:
        speaking = Multicast(print)
        try:
            await speaking.open(at)
        finally:
            await speaking.close()

    with pytest.raises(NetworkError, match="no network"):
        run_really(lambda: main([]))
    with pytest.raises(NetworkError, match=r"at 192\.0\.2\.77"):
        run_really(lambda: main(["192.0.2.77"]))


@pytest.mark.parametrize("method", ["async_wait_for_start", "async_register_service"])
def test_errors_of_the_library(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """An error of python-zeroconf is one of the network, so that a node tries again later."""

    async def fails(*_: object, **__: object) -> None:
        raise Error("not running")

    async def main() -> None:
        speaking = Multicast(print)
        try:
            await speaking.open(["127.0.0.1"])
            await speaking.announce(b"", [(ip_address("127.0.0.1"), 7801)])
        finally:
            monkeypatch.undo()
            await speaking.close()

    monkeypatch.setattr(Zeroconf if method.endswith("start") else AsyncZeroconf, method, fails)
    with pytest.raises(NetworkError, match="not running"):
        run_really(main)


def test_on_the_loopback() -> None:
    """Two nodes hear each other by real multicast: what is announced, what replaces it, and answers to a question."""
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    addresses = [(ip_address("127.0.0.1"), 7801)]

    async def until(expected: bytes) -> None:
        while await heard.get() != expected:
            pass

    async def main() -> None:
        here, there, late = Multicast(lambda _: None), Multicast(heard.put_nowait), Multicast(heard.put_nowait)
        try:
            for each in (here, there, late):
                await each.open(["127.0.0.1"])
            await here.announce(b"first", addresses)
            await asyncio.wait_for(until(b"first"), PATIENCE)
            await here.announce(b"second", addresses)
            await asyncio.wait_for(until(b"second"), PATIENCE)
            late.ask()
            await asyncio.wait_for(until(b"second"), PATIENCE)
        finally:
            for each in (here, there, late):
                await each.close()

    try:
        run_really(main)
    except (TimeoutError, NetworkError) as error:
        if multicast_works():
            raise
        pytest.skip(f"this machine has no multicast on its loopback: {error}")


def test_what_is_kept_of_answers() -> None:
    """Of all that is heard only this node's own records are kept, however many names and addresses strangers invent.

    A library that keeps them looks through all addresses of a name for each one that comes: 40 ms for a datagram.
    """
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def main() -> None:
        speaking = Multicast(heard.put_nowait)
        try:
            await speaking.open(["127.0.0.1"])
            await speaking.announce(b"ours", [(ip_address("127.0.0.1"), 7801)])
            zeroconf = speaking._zeroconf.zeroconf
            gate = zeroconf.engine.readers[0].transport.get_protocol()
            async with asyncio.timeout(PATIENCE):
                while not (own := set(zeroconf.cache.names())):  # The echo of what was announced.
                    await heard.get()
            for number in range(A_MINUTE_EACH // 2):
                name = b"\x04%04x\xc0\x0c" % number
                addresses = [
                    (NAME if not at else b"\xc0\x0c", 28, (number << 8 | at).to_bytes(16, "big")) for at in range(100)
                ]
                gate.datagram_received(
                    answer(*addresses, (b"\xc0\x0c", 12, name), (name, 16, b"\x06culm=a")), ("10.0.0.1", 5353)
                )
            assert set(zeroconf.cache.names()) == own
            assert len(own) > 1
            assert sum(len(zeroconf.cache.entries_with_name(name)) for name in own) < 10
        finally:
            await speaking.close()

    if not multicast_works():
        pytest.skip("this machine has no multicast on its loopback")
    run_really(main)
    assert b"a" in [heard.get_nowait() for _ in range(heard.qsize())]


def multicast_works() -> bool:
    """Whether a datagram to a group comes back on the loopback."""
    group = socket.inet_aton("224.0.0.251") + socket.inet_aton("127.0.0.1")
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth,
        ):
            ear.bind(("", 0))
            ear.settimeout(1)
            ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
            mouth.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            mouth.sendto(b"x", ("224.0.0.251", ear.getsockname()[1]))
            return ear.recv(1) == b"x"
    except OSError:
        return False
