"""Whom the node talks with, and how much: who is refused for what they did, and the pace of each connection.

Somebody who breaks the rules is refused for a growing while: by identity where that was proved, else by address (of
IPv6 the network of 64 bits). An address is refused for a tenth of the time at most; meanwhile those get through who
prove an identity that was good before, and now and then somebody else. Where all places are taken, somebody whose
address has few of them gets one of an address that has many.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from culm.errors import ProtocolError
from culm.node.sharing.penalties import MAX_RECORDS, CallGate, Penalties
from culm.node.sharing.places import Places
from culm.node.sharing.rates import Bucket, Streams, paced
from culm.node.surroundings import clock
from culm.wire.places import author_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.node.config import NodeConfig, PeerSettings
    from culm.node.sessions.stats import SessionStats

_ADDRESS_SHARE = 10  # an address is refused for this part of the longest time
_IPV6_NETWORK = 64  # bits
_Call = tuple[str, "asyncio.Task[None]"]  # what it is called, and what is done with it
_logger = logging.getLogger("culm.node")


def address_of(writer: asyncio.StreamWriter) -> str | None:
    """The address at the other end, by which it is known; None if there is none."""
    name = writer.get_extra_info("peername")
    if not isinstance(name, tuple) or not name:
        return None
    return network_of(str(name[0]))


def network_of(host: str) -> str:
    """An address as it is blamed: an IPv6 one stands for its network, one that maps an IPv4 address for that."""
    with suppress(ValueError):
        address = ip_address(host.partition("%")[0])
        if isinstance(address, IPv6Address):
            if address.ipv4_mapped is not None:
                return str(address.ipv4_mapped)
            shift = 128 - _IPV6_NETWORK
            return f"{IPv6Address(int(address) >> shift << shift)}/{_IPV6_NETWORK}"
        return str(address)
    return host


def place_of(writer: asyncio.StreamWriter) -> str:
    """What to call a caller in the log."""
    name = writer.get_extra_info("peername")
    if not isinstance(name, tuple) or len(name) < 2:
        return "a caller"
    return f"[{name[0]}]:{name[1]}" if ":" in str(name[0]) else f"{name[0]}:{name[1]}"


class Peering:
    """Decides for one node. ``clock`` gives seconds. ``config`` may be exchanged for one with another policy."""

    def __init__(self, config: NodeConfig, clock: Callable[[], float] = clock) -> None:
        limits = config.limits
        self.config = config
        self._clock = clock
        self._identities: Penalties[bytes] = Penalties(limits.penalty_seconds, limits.max_penalty_seconds)
        self._addresses: Penalties[str] = Penalties(
            limits.penalty_seconds, max(limits.penalty_seconds, limits.max_penalty_seconds / _ADDRESS_SHARE)
        )
        self._gate: CallGate[str] = CallGate(limits.max_address_calls, limits.max_address_sessions)
        self._places: Places[_Call] = Places()
        self._good: OrderedDict[bytes, None] = OrderedDict()  # identities that had good sessions
        self._told: OrderedDict[str, float] = OrderedDict()  # until when a refusal of an address was told
        self._reading = [Bucket(config.download)] if config.download else []
        self._writing = [Bucket(config.upload)] if config.upload else []

    # -- who is let in -----------------------------------------------------------------------------------------

    def take_call(self, writer: asyncio.StreamWriter, others: int, *, proves: bool) -> bool:
        """Whether a connection that came in beside so many others is taken, for as long as the current task runs.

        ``proves``: the protocol proves identities, so that a good one may show itself (``refuses_peer``). One that is
        not taken is closed. One that is may take the place of another one, whose task is cancelled.
        """
        address, place, task = address_of(writer), place_of(writer), asyncio.current_task()
        assert task is not None  # noqa: S101 - connections come in to tasks of their own
        if self.refuses_call(address, proves=proves) is not None:
            writer.close()
            return False
        if not self._has_place(address, others):
            reason = f"{others} sessions are open"
            _logger.warning("refused a connection", extra={"peer": place, "reason": reason})
            self.left(address)
            writer.close()
            return False
        self._places.take(address, (place, task))
        task.add_done_callback(lambda _: self._over(address, (place, task)))
        return True

    def _over(self, address: str | None, call: _Call) -> None:
        self._places.leave(address, call)
        self.left(address)

    def _has_place(self, address: str | None, others: int) -> bool:
        if others - self._places.going < self.config.limits.max_sessions:
            return True
        displaced = self._places.displaced_by(address)
        if displaced is None:
            return False
        place, task = displaced
        reason = f"{others} sessions are open, most of them from its address"
        _logger.warning("ended a connection", extra={"peer": place, "reason": reason})
        task.cancel()
        return True

    def refuses_call(self, address: str | None, *, proves: bool) -> str | None:
        """Why a connection that comes in is refused for its address alone, or None."""
        if address is None:
            return None
        now = self._clock()
        reason = self._gate.call(address, now)
        if reason is not None:
            self._tell_once(address, reason, now, 60.0)
            return reason
        left = self._addresses.refused_for(address, now)
        if left and not proves and not self._addresses.lets_through(address, now):
            self._gate.left(address)
            return f"refused for another {left:.0f} s"
        return None

    def left(self, address: str | None) -> None:
        """A connection that came in, and was not refused, has ended."""
        if address is not None:
            self._gate.left(address)

    def refuses_peer(self, identity: bytes, address: str | None) -> str | None:
        """Why a peer of this identity is refused, or None."""
        now = self._clock()
        if left := self._identities.refused_for(identity, now):
            return f"it broke the rules: refused for another {left:.0f} s"
        if address is None or identity in self._good or identity in self.config.policy.allow_peers:
            return None
        left = self._addresses.refused_for(address, now)
        if left and not self._addresses.lets_through(address, now):
            return f"its address is refused for another {left:.0f} s"
        return None

    def refused_for(self, address: str) -> float:
        """The seconds before an address is to be called again."""
        return self._addresses.refused_for(address, self._clock())

    # -- what came of it ---------------------------------------------------------------------------------------

    def ended(
        self, name: str, address: str | None, identity: bytes | None, stats: SessionStats, error: BaseException | None
    ) -> None:
        """A session ended: for it to be held against the peer, or to its credit. ``identity``: if it was proved."""
        # Greedy peers pass on what nobody could check: a wrong payload is not theirs.
        lied = bool(stats.offences) and not self.config.proposals.greedy
        if isinstance(error, ProtocolError):
            self._blame(name, address, identity, str(error))
        elif lied:
            self._blame(name, address, identity, stats.refused[0])
        elif stats.entries_received + stats.entries_sent and error is None:
            now = self._clock()
            if identity is not None:
                self._identities.forgive(identity, now)
                self._good[identity] = None
                self._good.move_to_end(identity)
                if len(self._good) > MAX_RECORDS:
                    self._good.popitem(last=False)
            elif address is not None:
                self._addresses.forgive(address, now)

    def _blame(self, name: str, address: str | None, identity: bytes | None, reason: str) -> None:
        now = self._clock()
        if identity is not None:
            who = f"identity {author_text(identity)}"
            seconds = self._identities.blame(identity, now)
            self._good.pop(identity, None)
        elif address is not None:
            who = f"address {address}"
            seconds = self._addresses.blame(address, now)
        else:
            return
        if seconds:
            _logger.warning(
                "refusing %s for %.0f s",
                who,
                seconds,
                extra={"peer": name, "reason": reason, "seconds": round(seconds)},
            )

    def _tell_once(self, address: str, reason: str, now: float, seconds: float) -> None:
        """A line for the log, at most one in a while for each address."""
        if self._told.get(address, now) <= now:
            _logger.warning("refused a connection", extra={"peer": address, "reason": reason})
            self._told[address] = now + seconds
            self._told.move_to_end(address)
            if len(self._told) > MAX_RECORDS:
                self._told.popitem(last=False)

    # -- pace --------------------------------------------------------------------------------------------------

    def paced(self, streams: Streams, peer: PeerSettings | None = None) -> Streams:
        """The streams of a connection at the pace that goes for it: a peer's own, and that of all together."""
        limits = self.config.limits
        download, upload = (limits.max_rate, limits.max_send_rate) if peer is None else (peer.download, peer.upload)
        reading = [*self._reading, *([Bucket(download)] if download else [])]
        writing = [*self._writing, *([Bucket(upload)] if upload else [])]
        return paced(streams, reading, writing, self._clock)
