"""The network between simulated hosts: connections can be slow, stall, break at any byte, or break on one side.

What happens to a connection is drawn when it is made, from what the ``Weather`` allows at that time. A test can also
make something happen later (``Network.disturb``), cut hosts off from each other (``cut_off``), and take hosts away
(``remove``). Everything drawn comes from one ``random.Random``, so a seed gives the same troubles again.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl as tls
from asyncio import sslproto
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

from culm.testing.simulation.host import Host
from culm.testing.simulation.loop import HOST, SimulatedLoop
from culm.testing.simulation.pipe import Pipe, Traits
from culm.testing.simulation.transport import SimulatedTransport

_UNREACHED_SECONDS = 75.0  # After which a call without an answer fails, about as long as operating systems try.
_PROBED_SECONDS = 30.0  # After which the system tells an end that the other one is gone: sooner than nodes have it do.
_FIRST_PORT = 40_000  # Callers' ports are counted from here, beyond those at which hosts listen.

FATES = ("reset", "end", "half open", "half open, told when it speaks", "lost", "stall", "garbled")
"""What can happen to a connection at some byte, in this order:

- Both sides learn that the connection broke.
- Both sides see an orderly end.
- One side learns that it broke; the other one does when the system has asked for a sign of life in vain.
- One side learns that it broke; the other one does when it sends something.
- Neither side learns that it broke before the system has asked for a sign of life in vain.
- Nothing gets through for a while.
- One byte arrives as another one. Only with TLS, which notices; otherwise the connection is reset.
"""
_ERRORS = (errno.ECONNRESET, errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETDOWN)


@dataclass(slots=True)
class Weather:
    """What connections are like that are made from now on.

    ``latency``: the greatest latency in seconds; each connection draws its own. ``slow``: the probability of a low
    rate, of ``least_rate`` bytes a second or more. ``trouble``: the probability of one of ``fates``, within
    the first ``trouble_bytes`` bytes. ``always``: what every connection is like, instead of what would be drawn.
    """

    latency: float = 0.02
    slow: float = 0.0
    least_rate: int = 2000
    trouble: float = 0.0
    trouble_bytes: int = 100_000
    fates: tuple[str, ...] = FATES
    always: Traits | None = None


class Connection:
    """A connection with its two ends. ``ends`` are the transports of the caller and of the listener."""

    def __init__(self, network: Network, number: int, traits: Traits) -> None:
        self.loop = network.loop
        self.number = number
        self.network = network
        self.traits = traits
        self.pipes = (Pipe(network.loop, network.random, traits), Pipe(network.loop, network.random, traits))
        self.ends: tuple[SimulatedTransport, SimulatedTransport]
        self.hosts: tuple[Host, Host]
        self.is_broken = False

    # -- how it ends -------------------------------------------------------------------------------------------

    def closed(self, end: SimulatedTransport, *, politely: bool) -> None:
        """An end was closed. The other one sees an orderly end, or (not ``politely``) that the connection broke."""
        number = self.ends.index(end)
        if politely:
            self.pipes[number].end()
        elif not self.is_broken:
            self._tell_broken(1 - number)
        if all(other.is_lost for other in self.ends):
            self.network.connections.pop(self.number, None)

    def arrived_in_vain(self, end: SimulatedTransport) -> None:
        """Bytes came to an end that is closed: the sender learns that the connection broke."""
        self._tell_broken(1 - self.ends.index(end))

    def _tell_broken(self, number: int) -> None:
        number_of_error = self.network.random.choice(_ERRORS)
        error = OSError(number_of_error, os.strerror(number_of_error))  # Python picks the subclass for the number.
        self.loop.call_later(self.traits.latency, self.ends[number].break_off, error)

    def befall(self, fate: str, direction: int) -> None:
        """Let one of ``FATES`` happen now; ``direction`` is the pipe, 0 or 1, that it is about."""
        if self.is_broken or any(end.is_lost for end in self.ends):
            return
        if fate == "garbled" and not isinstance(self.ends[1].get_protocol(), sslproto.SSLProtocol):
            fate = "reset"
        self.network.happened(f"connection: {fate}", f"connection {self.number} {fate}")
        if fate == "stall":
            self.stall()
            self.loop.call_later(self.network.random.uniform(0.1, 4.0), self.resume)
            return
        if fate == "garbled":
            self.pipes[direction].is_garbling = True
            return
        self.is_broken = True
        for number, pipe in enumerate(self.pipes):
            pipe.is_dead = True
            if fate == "end":
                self.loop.call_soon(pipe.target.take, None, context=pipe.target.context)
                pipe.unheard = partial(self._tell_broken, number)
        if fate == "reset":
            self._tell_broken(0)
            self._tell_broken(1)
        elif fate.startswith("half open"):
            self._tell_broken(direction)
            if "told" in fate:
                self.pipes[1 - direction].unheard = partial(self._tell_broken, 1 - direction)
        self._probe()

    def befall_after(self, fate: str, size: int) -> None:
        """Let one of ``FATES`` happen as soon as one direction has carried ``size`` bytes more."""
        for direction, pipe in enumerate(self.pipes):
            pipe.cut_at = pipe.carried + size
            pipe.cut = partial(self.befall, fate, direction)

    def _probe(self) -> None:
        """Have the system find out in the end that the connection is dead."""
        for end in self.ends:
            error = OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            self.loop.call_later(_PROBED_SECONDS, end.break_off, error)

    def stall(self) -> None:
        """Let nothing through until ``resume``."""
        for pipe in self.pipes:
            pipe.is_stalled = True

    def resume(self) -> None:
        """End a stall, unless the hosts are cut off from each other; what was under way arrives."""
        if not self.network.are_apart(*self.hosts):
            for pipe in self.pipes:
                pipe.resume()

    def host_gone(self, host: Host, *, silently: bool) -> None:
        """One of the hosts is gone. The other side learns of it; ``silently``: when it sends to a host that is back."""
        number = self.hosts.index(host)
        self._probe()  # What the host said last may have been under way.
        if self.is_broken or any(end.is_lost for end in self.ends):
            self.ends[number].die()
            return
        self.is_broken = True
        self.ends[number].die()
        other = 1 - number
        if silently:
            self.pipes[other].unheard = partial(self._speaks_to_nobody, other)
        else:
            self._tell_broken(other)

    def _speaks_to_nobody(self, number: int) -> None:
        here, there = self.hosts[number], self.hosts[1 - number]
        if there.address in self.network.up and not self.network.are_apart(here, there):
            self._tell_broken(number)


@dataclass(slots=True)
class _Listener:
    host: Host
    factory: Callable[[], Any]
    context: Context


class SimulatedServer(asyncio.AbstractServer):
    """A listener. By the time it is closed, its address may belong to the next life of its host."""

    def __init__(self, network: Network, place: tuple[str, int], listener: _Listener) -> None:
        self._network = network
        self._listener = listener
        self._place = place
        self.sockets = [SimpleNamespace(getsockname=lambda: place)]  # as far as servers are asked for theirs

    def close(self) -> None:
        """Take no more connections."""
        if self.is_serving():
            del self._network.listeners[self._place]

    def is_serving(self) -> bool:
        """Whether connections are taken."""
        return self._network.listeners.get(self._place) is self._listener

    async def wait_closed(self) -> None:
        """Return at once, because closing takes no time here."""


@dataclass(slots=True)
class Network:
    """All hosts, listeners and connections.

    ``happened`` is called when something happens to a connection, with a name to count it by and a line for a trace.
    ``weather`` may be exchanged at any time. ``connected`` is called with each new connection. ``apart`` has the pairs
    of addresses that do not reach each other, ``delays`` the latency in seconds of pairs for which it was set.
    """

    loop: SimulatedLoop
    random: Random
    happened: Callable[[str, str], None]
    counts: Counter[str]
    weather: Weather = field(default_factory=Weather)
    connected: Callable[[Connection], None] = lambda _: None
    listeners: dict[tuple[str, int], _Listener] = field(default_factory=dict)
    connections: dict[int, Connection] = field(default_factory=dict)
    up: dict[str, Host] = field(default_factory=dict)
    apart: set[frozenset[str]] = field(default_factory=set)
    delays: dict[frozenset[str], float] = field(default_factory=dict)
    _made: int = 0
    _ports: Iterator[int] = field(default_factory=partial(count, 1))

    # -- hosts -------------------------------------------------------------------------------------------------

    def are_apart(self, one: Host, other: Host) -> bool:
        """Whether two hosts are cut off from each other."""
        return frozenset((one.address, other.address)) in self.apart

    def add(self, host: Host) -> None:
        """Add a host that has come up."""
        self.up[host.address] = host

    def remove(self, host: Host, *, silently: bool) -> None:
        """Remove a host. Its peers learn of it, as after a kill, or not (``silently``), as after a power cut."""
        self.up.pop(host.address, None)
        for place in [place for place, listener in self.listeners.items() if listener.host is host]:
            del self.listeners[place]
        for connection in list(self.connections.values()):
            if host in connection.hosts:
                connection.host_gone(host, silently=silently)

    def cut_off(self, one: str, other: str) -> None:
        """Let nothing through between two addresses until ``join``."""
        self.apart.add(frozenset((one, other)))
        for connection in self.between(one, other):
            connection.stall()

    def join(self, one: str, other: str) -> None:
        """Let two addresses reach each other again; what was under way arrives."""
        self.apart.discard(frozenset((one, other)))
        for connection in self.between(one, other):
            connection.resume()

    def delay(self, one: str, other: str, seconds: float) -> None:
        """Let bytes between two addresses take ``seconds`` from now on, on open connections, too."""
        self.delays[frozenset((one, other))] = seconds
        for connection in self.between(one, other):
            connection.traits.latency = seconds

    def join_all(self) -> None:
        """Let all hosts reach each other again, and end all stalls."""
        self.apart.clear()
        for connection in self.connections.values():
            connection.resume()

    def break_all(self) -> None:
        """Reset every connection."""
        for connection in list(self.connections.values()):
            connection.befall("reset", 0)

    def between(self, one: str, other: str) -> list[Connection]:
        """The open connections of two addresses."""
        pair = {one, other}
        return [item for item in self.connections.values() if {host.address for host in item.hosts} == pair]

    def disturb(self, fate: str) -> None:
        """Let one of ``FATES`` happen to one of the open connections."""
        open_ones = [item for item in self.connections.values() if not item.is_broken]
        if open_ones:
            self.random.choice(open_ones).befall(fate, self.random.randrange(2))

    # -- connecting --------------------------------------------------------------------------------------------

    def listen(self, factory: Callable[[], Any], address: str, port: int, **_: Any) -> SimulatedServer:
        """Listen at an address; port 0: any free one. ``OSError`` if somebody listens there already."""
        host: Any = HOST.get()
        if not port:
            # Never one that was in use before, because the host that had it may come back, as a node that starts again.
            port = next(number for number in self._ports if (address, number) not in self.listeners)
        place = address, port
        listener = _Listener(host, factory, copy_context())
        if not host.is_gone:  # The program of a host that is gone runs on to its end, with no effect on the others.
            if place in self.listeners:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            self.listeners[place] = listener
        return SimulatedServer(self, place, listener)  # type: ignore[abstract]

    async def connect(
        self,
        factory: Callable[[], Any],
        address: str,
        port: int,
        *,
        ssl: tls.SSLContext | None = None,
        server_hostname: str | None = None,
        **_: Any,
    ) -> tuple[Any, Any]:
        """Connect from the current host; ``OSError`` if it fails. With ``ssl``, real TLS runs over the connection."""
        me: Any = HOST.get()
        traits = self._traits()
        if (latency := self.delays.get(frozenset((me.address, address)))) is not None:
            traits.latency = latency
        await asyncio.sleep(2 * traits.latency)
        there = self.up.get(address)
        if me.is_gone or there is None or self.are_apart(me, there):
            self.counts["calls without an answer"] += 1
            await asyncio.sleep(_UNREACHED_SECONDS)
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        listener = self.listeners.get((address, port))
        if listener is None:
            self.counts["calls that were refused"] += 1
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        connection = self._connection(me, listener, port, traits)
        protocol = factory()
        caller, _listening = connection.ends
        if ssl is None:
            caller.begin(protocol)
            return caller, protocol
        start_tls = partial(self.loop.start_tls, caller, protocol, ssl)
        return await start_tls(server_hostname=server_hostname, call_connection_made=True), protocol

    def _connection(self, me: Host, listener: _Listener, port: int, traits: Traits) -> Connection:
        self._made += 1
        self.counts["connections"] += 1
        connection = Connection(self, self._made, traits)
        connection.hosts = me, listener.host
        here, there = (me.address, _FIRST_PORT + self._made % 20_000), (listener.host.address, port)
        pipe, back = connection.pipes
        caller = SimulatedTransport(connection, pipe, back, here, there)
        answering: SimulatedTransport = listener.context.copy().run(
            SimulatedTransport, connection, back, pipe, there, here
        )
        connection.ends = pipe.source, pipe.target = caller, answering
        back.source, back.target = answering, caller
        self.connections[self._made] = connection
        self._draw_fate(connection)
        self.connected(connection)
        self.loop.call_soon(lambda: answering.begin(listener.factory()), context=answering.context)
        return connection

    def _traits(self) -> Traits:
        random, weather = self.random, self.weather
        if weather.always is not None:
            return replace(weather.always)
        latency = random.uniform(0.0001, 1.0) ** 2 * weather.latency
        is_slow = random.random() < weather.slow
        rate = int(weather.least_rate * 2 ** random.uniform(0, 6)) if is_slow else 0
        window = 1 << random.randint(10, 17)
        piece = max(window >> 5, 1 << random.randint(8, 16))
        first_piece = 1 << random.randint(3, 6) if random.random() < 0.1 else piece
        return Traits(latency, latency * random.random(), rate, window, piece, first_piece)

    def _draw_fate(self, connection: Connection) -> None:
        random, weather = self.random, self.weather
        if random.random() >= weather.trouble:
            return
        fate, direction = random.choice(weather.fates), random.randrange(2)
        pipe = connection.pipes[direction]
        pipe.cut_at = int(weather.trouble_bytes ** random.random())
        pipe.cut = partial(connection.befall, fate, direction)
