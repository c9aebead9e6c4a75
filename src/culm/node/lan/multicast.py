"""mDNS on the networks of this machine, by python-zeroconf: announce a service, ask for others, hear their TXT records.

A browser of python-zeroconf keeps an entry for each name that it hears of, and asks for the details of each. With a
stranger who invents names that is work and memory without end. Here nothing is kept for a name. Nodes answer a question
for the service with their TXT records at once (RFC 6763, section 12.1), and the TXT record has all that is needed. So
what is heard is read, handed on, and forgotten.

python-zeroconf keeps the answers of others, up to 10,000 records, because a browser needs them. It looks through the
records of a name when one more of that name comes: a stranger who sends addresses of one name makes each datagram cost
40 ms. So answers do not reach python-zeroconf. The gate in front of it reads their TXT records and forgets them. It
hands on questions, and the echo of this node's own answers, by which python-zeroconf knows that an answer was sent a
moment ago and need not be repeated.

The gate also drops datagrams that are large, that do not name the service, or that are too many for their sender or for
all senders together, before they are parsed.

Specification: docs/specs/neighbours.md, "DNS-SD".
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from culm.errors import ConfigError, NetworkError
from culm.node.network.urls import PeerUrl
from culm.node.sessions.tasks import reason_of
from culm.node.sharing.penalties import CallGate
from culm.wire.announcement import MAX_BYTES, Address

if TYPE_CHECKING:
    from zeroconf import DNSRecord, ServiceInfo  # type: ignore[attr-defined]

SERVICE = "_culm._tcp.local."
MAX_DATAGRAM = 4096
"""Bytes. Answers of several nodes in one datagram stay far below; the largest that mDNS allows would cost more."""
A_MINUTE_EACH, A_MINUTE = 300, 3000
"""Datagrams a minute about the service, from one sender and from all: many times what 256 nodes send."""
_SENDERS = 256  # Senders that are counted one by one. A stranger can invent any number of them.
_LABEL = b"\x05_culm"
_TXT_KEY = b"culm="
_PTR, _TXT, _IN = 12, 16, 1  # RFC 1035, sections 3.2.2 and 3.2.4
_ANSWER = 0x80  # In the third byte of a datagram: RFC 1035, section 4.1.1.
_LEAST_TTL = 120  # Seconds that others may keep our records; RFC 6762, section 10.


class Rates:
    """How many datagrams are let through: of each sender, and of all. ``clock``: in seconds.

    All sockets of a node share them, because a stranger can write to each of its addresses.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._each: CallGate[str] = CallGate(A_MINUTE_EACH, 1, _SENDERS)
        self._all: CallGate[None] = CallGate(A_MINUTE, 1)

    def admit(self, sender: str) -> bool:
        """Count a datagram; whether it is let through."""
        now = self._clock()
        return self._each.call(sender, now, 0) is None and self._all.call(None, now, 0) is None


class Gate(asyncio.DatagramProtocol):
    """Stands in front of the receiver of a socket and lets through what may cost something.

    ``answered`` is called with an answer, and says whether the receiver needs it.
    """

    def __init__(self, behind: Any, rates: Rates, answered: Callable[[bytes], bool]) -> None:  # noqa: ANN401 - zeroconf's
        self._behind, self._rates, self._answered = behind, rates, answered

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        """Hand a datagram on, or drop it."""
        if len(data) > MAX_DATAGRAM or _LABEL not in data.lower() or not self._rates.admit(addr[0]):
            return
        is_answer = data[2] & _ANSWER  # The label is longer than three bytes, so there is such a byte.
        if not is_answer or self._answered(data):
            self._behind.datagram_received(data, addr)

    def error_received(self, exc: Exception) -> None:
        """As the receiver does."""
        self._behind.error_received(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        """As the receiver does."""
        self._behind.connection_lost(exc)


def announced_in(name: str, text: bytes) -> bytes | None:
    """The announcement in a TXT record of the service; None if it has none, or is no record of the service."""
    if not name.lower().endswith(f".{SERVICE}"):
        return None
    at = 0
    while at < len(text):
        item = text[at + 1 : (at := at + 1 + text[at])]
        if item.startswith(_TXT_KEY) and len(item) <= len(_TXT_KEY) + MAX_BYTES:
            return item[len(_TXT_KEY) :]
    return None


def check_installed() -> None:
    """``ConfigError`` if python-zeroconf is missing."""
    try:
        import zeroconf  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ConfigError("finding neighbours needs python-zeroconf: pip install 'culm[lan]'") from None


def networks(at: Sequence[str]) -> list[str]:
    """The IPv4 addresses of this machine on whose networks mDNS is spoken: those of ``at``, or all but the loopback."""
    return [host for host in at if ":" not in host] if at else [host for host in own_hosts() if ":" not in host]


def own_hosts() -> list[str]:
    """The addresses of this machine's interfaces, IPv4 first; without loopbacks and IPv6 addresses with a zone."""
    import ifaddr  # noqa: PLC0415 - comes with zeroconf

    ips = [ip.ip for adapter in ifaddr.get_adapters() for ip in adapter.ips]
    fours = [ip for ip in ips if isinstance(ip, str) and not ip.startswith("127.")]
    sixes = [ip[0] for ip in ips if isinstance(ip, tuple) and not ip[2] and ip[0] != "::1"]
    return [*dict.fromkeys(fours), *dict.fromkeys(six for six in sixes if not six.lower().startswith("fe80"))]


class Multicast:
    """mDNS on some networks. ``heard`` is called with each announcement; it must be quick and must not raise."""

    def __init__(self, heard: Callable[[bytes], object]) -> None:
        self._heard = heard
        # The name is drawn anew each time, so that it tells nothing that the announcement does not.
        self._name = f"{secrets.token_hex(8)}.{SERVICE}"
        self._service: ServiceInfo | None = None
        self._own: frozenset[DNSRecord] = frozenset()  # All that is announced.
        self._zeroconf: Any = None

    async def open(self, at: Sequence[str]) -> None:
        """Open the sockets at these IPv4 addresses of this machine; ``NetworkError`` if that is not possible."""
        from zeroconf import Error  # noqa: PLC0415 - an extra
        from zeroconf.asyncio import AsyncZeroconf  # noqa: PLC0415

        logging.getLogger("zeroconf").setLevel(logging.CRITICAL)  # It has lines about malformed datagrams of strangers.
        if not at:
            raise NetworkError("this machine is on no network with IPv4")
        try:
            for host in at:  # python-zeroconf leaves a socket open when it fails at one of them.
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                    probe.bind((host, 0))
            self._zeroconf = AsyncZeroconf(interfaces=list(at))
            await self._zeroconf.zeroconf.async_wait_for_start()
        except OSError as error:
            raise NetworkError(f"cannot speak mDNS at {', '.join(at)}: {reason_of(error)}") from None
        except Error as error:
            raise NetworkError(f"cannot speak mDNS at {', '.join(at)}: {error}") from None
        rates = Rates(asyncio.get_running_loop().time)
        for reader in self._zeroconf.zeroconf.engine.readers:
            transport = reader.transport
            transport.set_protocol(Gate(transport.get_protocol(), rates, self._take))

    def _take(self, data: bytes) -> bool:
        """Hand on the announcements in an answer; whether all that it says is what this node says itself."""
        # zeroconf has it in its namespace for programs, but does not list it.
        from zeroconf import DNSIncoming  # type: ignore[attr-defined] # noqa: PLC0415 - an extra

        records = DNSIncoming(data).answers()
        for record in records:
            if (
                record.type == _TXT
                and record.ttl
                and (found := announced_in(record.name, getattr(record, "text", b"")))
            ):
                self._heard(found)
        return bool(records) and self._own.issuperset(records)

    def ask(self) -> None:
        """Ask for the nodes on these networks. Answers come within a second or two."""
        # zeroconf has both in its namespace for programs, but does not list them.
        from zeroconf import DNSOutgoing, DNSQuestion  # type: ignore[attr-defined] # noqa: PLC0415

        out = DNSOutgoing(0)
        out.add_question(DNSQuestion(SERVICE, _PTR, _IN))
        self._zeroconf.zeroconf.async_send(out)

    async def announce(self, data: bytes, addresses: Sequence[Address]) -> None:
        """Announce this, and answer questions with it, instead of what was announced before.

        ``NetworkError`` if python-zeroconf cannot.
        """
        from zeroconf import Error, ServiceInfo  # noqa: PLC0415 - an extra

        service = ServiceInfo(
            SERVICE,
            self._name,
            port=addresses[0][1],
            properties={_TXT_KEY[:-1]: data},
            server=self._name.replace(SERVICE, "local."),
            addresses=[host.packed for host, _ in addresses],
            host_ttl=_LEAST_TTL,
        )
        named = {service.dns_pointer(), service.dns_service(), service.dns_text()}
        self._own = frozenset(named | service.get_address_and_nsec_records())
        try:
            if self._service is None:
                # The name is random, so there is nobody to ask whether it is taken, and no stranger who says so.
                await self._zeroconf.async_register_service(service, cooperating_responders=True)
            else:
                await self._zeroconf.async_update_service(service)
        except (OSError, Error) as error:
            raise NetworkError(f"cannot announce this node: {error}") from None
        self._service = service

    async def close(self) -> None:
        """Say goodbye, and close the sockets."""
        if self._zeroconf is not None:
            with suppress(OSError):
                await self._zeroconf.async_close()
            self._zeroconf = self._service = None


def addresses_of(listeners: Iterable[PeerUrl], hosts: Sequence[str]) -> list[tuple[str, int]]:
    """Where ``culm://`` listeners are reached: at their host, or at all ``hosts`` if they listen at every address."""
    every = {"0.0.0.0", "::"}  # noqa: S104 - hosts of listeners
    found = [
        (host, url.port) for url in listeners if url.is_secure for host in (hosts if url.host in every else [url.host])
    ]
    return list(dict.fromkeys(found))
