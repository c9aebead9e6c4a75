"""Beside a node: announce it, ask for neighbours, and keep contact with those that are found.

*Who calls.* Two nodes find each other at about the same time, and one connection is enough for both. So the node with
the smaller key calls at once. The other one calls only if no session with the neighbour has come about after a few
seconds, as when a firewall lets calls through in one direction only.

*Until when.* A contact is kept for as long as the neighbour's announcement holds and the policy admits it, and after
that until its session ends. It is a contact like that with a configured peer: ``culm://``, in which both sides prove
their keys, with the same waits between attempts and the same penalties.

Specification: docs/specs/neighbours.md, "Finding", "Calling".
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address

from culm.errors import CulmError
from culm.node.lan.multicast import Multicast, addresses_of, networks, own_hosts
from culm.node.lan.neighbours import Neighbours
from culm.node.network.reaching import connect_any
from culm.node.network.transport import Streams
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.node.surroundings import clock
from culm.wire.announcement import HOUR_SECONDS, MAX_ADDRESSES, Address, Announcement, is_callable, seal

MAX_CONTACTS = 32
"""Neighbours that a node calls: in a clump that is larger, entries reach the others through these."""
_TICK_SECONDS = 1.0  # Between two looks at who is to be called.
_PATIENCE_SECONDS = 5.0  # That the node with the greater key gives the other one to call, and until a move is followed.
_ASK_SECONDS = (0.0, 1.0, 3.0, 10.0)  # After the start; a datagram can be lost.
_ASK_AGAIN_SECONDS = 60.0
_LOOK_SECONDS = 60.0  # Between two looks whether this machine has other addresses, or the sockets can be opened now.
_logger = logging.getLogger("culm.node")


@dataclass(slots=True)
class _Contact:
    urls: tuple[PeerUrl, ...]
    task: asyncio.Task[None]
    since: float


class Finding:
    """Finds neighbours for a node. ``at``: the addresses of this machine on whose networks; none: all of them.

    ``wall`` gives seconds since 1970. ``transport`` makes what announces and asks; tests have one of their own.
    """

    def __init__(
        self,
        node: NodeService,
        at: Sequence[str] = (),
        *,
        wall: Callable[[], float] = time.time,
        transport: Callable[[Callable[[bytes], object]], Multicast] = Multicast,
    ) -> None:
        self._node, self._at, self._wall, self._transport = node, at, wall, transport
        loopback = any(ip_address(host).is_loopback for host in at)
        self.neighbours = Neighbours(node.config.clump, node.roster.me, loopback=loopback)
        self._found_at: dict[bytes, float] = {}
        self._contacts: dict[bytes, _Contact] = {}
        self._heard = asyncio.Event()

    async def run(self) -> None:
        """Go on until cancelled. Without a network, look again each minute whether there is one."""
        try:
            while True:
                try:
                    await self._on_networks()
                except CulmError as error:
                    _logger.warning("cannot find neighbours", extra={"reason": str(error)})
                    await asyncio.sleep(_LOOK_SECONDS)
        finally:
            for key in list(self._contacts):
                self._end(key)

    async def _on_networks(self) -> None:
        """Announce and find, until this machine's addresses have changed."""
        at, multicast = networks(self._at), self._transport(self._take)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(multicast.close)
            await multicast.open(at)
            began, asked, looked, said = clock(), 0, clock(), -1
            while True:
                now, hour = clock(), int(self._wall() // HOUR_SECONDS)
                if hour != said:
                    said = hour
                    if addresses := self._addresses():
                        await multicast.announce(self._sealed(addresses), addresses)
                if now - began >= self._ask_at(asked):
                    multicast.ask()
                    asked += 1
                if now - looked >= _LOOK_SECONDS:
                    looked = now
                    if networks(self._at) != at:
                        return
                self._tend()
                self._heard.clear()
                try:
                    async with asyncio.timeout(_TICK_SECONDS):
                        await self._heard.wait()
                except TimeoutError:
                    pass

    @staticmethod
    def _ask_at(asked: int) -> float:
        """The seconds after the start at which to ask, if that has been done ``asked`` times."""
        most = len(_ASK_SECONDS)
        return _ASK_SECONDS[asked] if asked < most else (asked - most + 1) * _ASK_AGAIN_SECONDS

    def _addresses(self) -> tuple[Address, ...]:
        """Where the node can be called; empty if it has no such listener."""
        hosts = list(self._at) or own_hosts()
        found = []
        for host, port in addresses_of(self._node.roster.listeners, hosts):
            try:
                address = ip_address(host)
            except ValueError:  # A name, which an announcement does not have.
                continue
            if is_callable(address):
                found.append((address, port))
        return tuple(found[:MAX_ADDRESSES])

    def _sealed(self, addresses: tuple[Address, ...]) -> bytes:
        return seal(Announcement(self._node.roster.me, addresses), self.neighbours.key, self._wall())

    def _take(self, data: bytes) -> None:
        if self.neighbours.take(data, self._wall()):
            self._heard.set()

    # -- calling -------------------------------------------------------------------------------------------------

    def _tend(self) -> None:
        """Begin contacts with new neighbours, and end those with neighbours that are gone."""
        self.neighbours.expire(self._wall())
        here = {neighbour.key: neighbour for neighbour in self.neighbours}
        self._found_at = {key: self._found_at.get(key, clock()) for key in here}
        connected = {session.proved for session in self._node.sessions}
        admits = self._node.config.policy.admits_peer
        for key, contact in list(self._contacts.items()):
            # A member could have us call as often as it announces a key elsewhere, so a contact lasts for a while.
            is_settled = clock() - contact.since >= _PATIENCE_SECONDS
            is_wanted = key in here and (urls_of(here[key]) == contact.urls or not is_settled)
            if not admits(key) or (not is_wanted and key not in connected) or contact.task.done():
                self._end(key)
        known = {url.key for url in self._node.roster.troubles}
        for key, neighbour in here.items():
            is_turn = self._node.roster.me < key or clock() - self._found_at[key] >= _PATIENCE_SECONDS
            if is_turn and admits(key) and key not in connected | known and len(self._contacts) < MAX_CONTACTS:
                self._begin(neighbour)

    def _begin(self, neighbour: Announcement) -> None:
        urls = urls_of(neighbour)
        _logger.info("found a neighbour", extra={"peer": str(urls[0])})
        task = self._node.contact(urls[0], dial=partial(_dial, urls))
        self._contacts[neighbour.key] = _Contact(urls, task, clock())

    def _end(self, key: bytes) -> None:
        contact = self._contacts.pop(key)
        contact.task.cancel()
        self._node.roster.troubles.pop(contact.urls[0], None)
        self._node.roster.names.pop(contact.urls[0], None)


def urls_of(neighbour: Announcement) -> tuple[PeerUrl, ...]:
    """The addresses of a neighbour as those of a peer, which has to prove the key."""
    return tuple(PeerUrl("culm", str(host), port, neighbour.key) for host, port in neighbour.addresses)


async def _dial(urls: Sequence[PeerUrl], _: PeerUrl) -> Streams:
    return (await connect_any(urls))[1]
