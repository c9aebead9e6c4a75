"""Which peers the node talks with, and how fast: one object decides it for all listeners and contacts.

A peer that breaks the rules is refused for a growing time (``culm.node.sharing.penalties``). The question is whom to
blame. An identity that the peer has proved is exact: nobody else suffers. Without a proof only the address is known,
and many people can share one address, for example behind a home router. Three rules keep such people from paying for
one neighbour:

- An address is refused for at most a tenth of the longest time.
- A peer that proves an identity which has had a good session before gets through meanwhile.
- One other caller gets through in each quarter of the penalty.

An IPv6 caller is known by its network of 64 bits, because a single host may pick any address in it.

The same object counts calls, hands out connection slots (``culm.node.sharing.slots``), and gives each connection its
share of the bandwidth (``culm.node.sharing.rates``). What it knows of peers is kept (``culm.node.sharing.kept``).
"""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from ipaddress import IPv6Address, ip_address

from culm.errors import FeatureRefused, ProtocolError
from culm.node.config import NodeConfig, PeerSettings
from culm.node.sessions.stats import SessionStats
from culm.node.sharing.kept import KeptPeers, Note
from culm.node.sharing.penalties import MAX_RECORDS, CallGate, Penalties
from culm.node.sharing.rates import Bucket, Streams, paced
from culm.node.sharing.slots import Slots
from culm.node.surroundings import clock
from culm.wire.places import author_text

_ADDRESS_SHARE = 10  # The longest penalty of an address is this many times shorter, because people share addresses.
_IPV6_NETWORK = 64  # Bits: the smallest network that a provider hands out, so that its owner has all its addresses.
_TELL_SECONDS = 60.0  # Between two lines in the log about one address that calls too often, so it cannot fill the disk.
_MUTE_SECONDS = 2.0  # For a caller's first word: two round trips by satellite, TLS and the proof of a key included.
Tell = Callable[[str], None]
"""Hears the reason of a refusal."""
_logger = logging.getLogger("culm.node")


@dataclass(slots=True, eq=False)
class _Call:
    """An incoming connection: its name in the log, the task to cancel when it must end, and what it has said.

    ``quiet`` says for how many seconds its peer has said nothing.
    """

    place: str
    task: asyncio.Task[None]
    quiet: Callable[[], float]
    has_spoken: Callable[[], bool] = lambda: False


def address_of(writer: asyncio.StreamWriter) -> str | None:
    """The address at the other end as ``network_of`` gives it; None if there is none, as at a socket pair."""
    name = writer.get_extra_info("peername")
    if not isinstance(name, tuple) or not name:
        return None
    return network_of(str(name[0]))


def network_of(host: str) -> str:
    """The name under which an address is counted and blamed.

    An IPv6 address stands for its network. An IPv4 address written as IPv6 is that IPv4 address: otherwise a host
    could be counted twice. A name that is no address stands for itself.
    """
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
    """The caller's address and port, for the log."""
    name = writer.get_extra_info("peername")
    if not isinstance(name, tuple) or len(name) < 2:
        return "a caller"
    return f"[{name[0]}]:{name[1]}" if ":" in str(name[0]) else f"{name[0]}:{name[1]}"


class Peering:
    """The decisions of one node. ``clock`` gives seconds. ``config`` may be exchanged for one with another policy."""

    def __init__(self, config: NodeConfig, clock: Callable[[], float] = clock, kept: KeptPeers | None = None) -> None:
        limits = config.limits
        self.config = config
        self._clock = clock
        self._kept = kept or KeptPeers()
        self._kept.readers.append(self._take_note)
        self._identities: Penalties[bytes] = Penalties(limits.penalty_seconds, limits.max_penalty_seconds)
        self._addresses: Penalties[str] = Penalties(
            limits.penalty_seconds, max(limits.penalty_seconds, limits.max_penalty_seconds / _ADDRESS_SHARE)
        )
        self._gate: CallGate[str] = CallGate(limits.max_address_calls, limits.max_address_sessions)
        self._calls: dict[asyncio.Task[None], _Call] = {}
        self._slots: Slots[_Call] = Slots(self._idle_seconds)
        self._good: OrderedDict[bytes, None] = OrderedDict()  # Identities that had good sessions; the latest ones last.
        self._silent_until: OrderedDict[str, float] = OrderedDict()  # Addresses whose refusal is in the log already.
        self._reading = [Bucket(config.download)] if config.download else []
        self._writing = [Bucket(config.upload)] if config.upload else []

    # -- who is let in -----------------------------------------------------------------------------------------

    def take_call(
        self, writer: asyncio.StreamWriter, called: int = 0, *, proves: bool, tell: Tell = lambda _: None
    ) -> bool:
        """Whether an incoming connection is taken; it keeps its slot for as long as the current task runs.

        ``called`` counts the connections that we have opened, because ``max_sessions`` includes those. ``proves``: the
        protocol proves identities, so a refused address may still show one that was good before (``refuses_peer``). A
        connection that is not taken is closed here. One that is taken may displace another, whose task is cancelled.
        ``tell`` is called with the reason of a refusal whenever the log gets a line about one.
        """
        address, place, task = address_of(writer), place_of(writer), asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio starts a task for each incoming connection
        reason = ""
        call = _Call(place, task, partial(self._since, self._clock()))
        if self.config.policy.allow_peers and not proves:
            reason = "this node has a list of allowed peers, and callers of this protocol cannot prove who they are"
        elif self.refuses_call(address, proves=proves, tell=tell) is None:
            others = called + self._slots.taken
            if self._has_slot(address, others):
                self._slots.take(address, call)
                self._calls[task] = call
                task.add_done_callback(lambda _: self._leave(address, call))
                return True
            reason = f"{others} connections are open already (max_sessions is {self.config.limits.max_sessions})"
        if reason:
            _logger.warning("refused a connection", extra={"peer": place, "reason": reason})
            tell(reason)
        writer.close()
        return False

    def _since(self, then: float) -> float:
        return self._clock() - then

    def _leave(self, address: str | None, call: _Call) -> None:
        self._slots.leave(address, call)
        del self._calls[call.task]

    def began(self, quiet: Callable[[], float], has_spoken: Callable[[], bool]) -> None:
        """The session of the current task has begun.

        ``quiet`` says for how many seconds its peer has said nothing, ``has_spoken`` whether it has said anything yet.
        """
        task = asyncio.current_task()
        if task in self._calls:  # It is no contact of ours, nor a connection from elsewhere.
            call = self._calls[task]
            call.quiet, call.has_spoken = quiet, has_spoken

    def _idle_seconds(self, call: _Call) -> float:
        seconds = call.quiet()
        return seconds if seconds > (self.config.limits.idle_seconds if call.has_spoken() else _MUTE_SECONDS) else 0.0

    def _has_slot(self, address: str | None, others: int) -> bool:
        if others < self.config.limits.max_sessions:
            return True
        displaced = self._slots.displaced_by(address)
        if displaced is None:
            return False
        if self._idle_seconds(displaced):
            reason = "all places are taken, and this peer has said nothing for longer than others"
        else:
            reason = "all places are taken, many of them by its address; a caller from another address gets this one"
        _logger.warning("ended a connection", extra={"peer": displaced.place, "reason": reason})
        displaced.task.cancel()
        return True

    def refuses_call(self, address: str | None, *, proves: bool, tell: Tell = lambda _: None) -> str | None:
        """Why an incoming connection is refused for its address alone; None if it is not."""
        if address is None:
            return None
        now = self._clock()
        reason = self._gate.call(address, now, self._slots.open(address))
        if reason is not None:
            if self._log_refusal(address, reason, now):
                tell(reason)
            return reason
        left = self._addresses.refused_for(address, now)
        if left and not proves and not self._addresses.lets_through(address, now):
            return f"refused for another {left:.0f} s"
        return None

    def refuses_peer(self, identity: bytes, address: str | None) -> float:
        """The seconds for which a peer that has proved this identity is still refused; 0 if it is not."""
        now = self._clock()
        if left := self._identities.refused_for(identity, now):
            return left
        if address is None or identity in self._good or identity in self.config.policy.allow_peers:
            return 0.0
        left = self._addresses.refused_for(address, now)
        if left and not self._addresses.lets_through(address, now):
            return left
        return 0.0

    def refused_for(self, address: str, identity: bytes | None = None) -> float:
        """The seconds that are left of a peer's penalty: for so long we do not call it either.

        ``identity``: the one that the peer has to prove, where its address names one. If that was good before, it does
        not pay for others at its address.
        """
        now = self._clock()
        left = 0.0 if identity is None else self._identities.refused_for(identity, now)
        if identity is not None and (identity in self._good or identity in self.config.policy.allow_peers):
            return left
        return max(left, self._addresses.refused_for(address, now))

    def refused_until(self, address: str, identity: bytes | None = None) -> str | None:
        """When the penalty of a peer ends, as text in UTC; None if there is none."""
        left = self.refused_for(address, identity)
        return (
            f"{datetime.fromtimestamp(math.ceil(self._kept.wall() + left), UTC):%Y-%m-%dT%H:%M:%SZ}" if left else None
        )

    # -- how sessions ended ---------------------------------------------------------------------------------------

    def ended(
        self, name: str, address: str | None, identity: bytes | None, stats: SessionStats, error: BaseException | None
    ) -> None:
        """A session ended: blame the peer, forgive it an old offence, or neither.

        ``identity``: the one that the peer has proved, or None. ``error``: why the session ended early, or None. A
        connection that merely broke is no offence and no merit.
        """
        # Greedy peers pass payloads on before anybody could check them, so a wrong one says nothing about the sender.
        lied = bool(stats.offences) and not self.config.proposals.greedy
        broke_rules = isinstance(error, ProtocolError) and not isinstance(error, FeatureRefused)
        if lied or broke_rules:
            self._blame(name, address, identity, str(error) if isinstance(error, ProtocolError) else stats.refused[0])
        elif error is None:
            self.went_well(address, identity, stats)

    def went_well(self, address: str | None, identity: bytes | None, stats: SessionStats) -> None:
        """A session ended in order: forgive the peer an old offence, if something was exchanged."""
        now = self._clock()
        if not stats.entries_received + stats.entries_sent:
            return
        if identity is not None:
            self._identities.forgive(identity, now)
            self._is_good(identity)
            self._note_identity(identity, now)
        elif address is not None:
            self._addresses.forgive(address, now)
            self._note_address(address, now)

    def _blame(self, name: str, address: str | None, identity: bytes | None, reason: str) -> None:
        now = self._clock()
        if identity is not None:
            who = f"identity {author_text(identity)}"
            seconds = self._identities.blame(identity, now)
            self._good.pop(identity, None)
            self._note_identity(identity, now)
        elif address is not None:
            who = f"address {address}"
            seconds = self._addresses.blame(address, now)
            self._note_address(address, now)
        else:
            return
        if seconds:
            _logger.warning(
                "refusing %s for %.0f s",
                who,
                seconds,
                extra={"peer": name, "reason": reason, "seconds": round(seconds)},
            )

    def _is_good(self, identity: bytes) -> None:
        self._good[identity] = None
        self._good.move_to_end(identity)
        if len(self._good) > MAX_RECORDS:
            self._good.popitem(last=False)

    # -- what is kept --------------------------------------------------------------------------------------------

    def _note_identity(self, identity: bytes, now: float) -> None:
        note = self._noted(*self._identities.standing(identity, now))
        self._kept.note("identities", identity.hex(), replace(note, good=identity in self._good))

    def _note_address(self, address: str, now: float) -> None:
        self._kept.note("addresses", address, self._noted(*self._addresses.standing(address, now)))

    def _noted(self, strikes: int, left: float, penalty: float) -> Note:
        return Note(strikes=strikes, until=self._kept.wall() + left if strikes else 0.0, penalty=penalty)

    def _take_note(self, kind: str, name: str, note: Note) -> None:
        standing = (note.strikes, note.until - self._kept.wall(), note.penalty, self._clock())
        if kind == "addresses":
            self._addresses.restore(name, *standing)
        elif kind == "identities":
            identity = bytes.fromhex(name)
            self._identities.restore(identity, *standing)
            if note.good:
                self._is_good(identity)
            else:
                self._good.pop(identity, None)

    def _log_refusal(self, address: str, reason: str, now: float) -> bool:
        """Write a line, unless there was one about this address within the last ``_TELL_SECONDS``; whether it did."""
        if self._silent_until.get(address, now) > now:
            return False
        _logger.warning("refused a connection", extra={"peer": address, "reason": reason})
        self._silent_until[address] = now + _TELL_SECONDS
        self._silent_until.move_to_end(address)
        if len(self._silent_until) > MAX_RECORDS:
            self._silent_until.popitem(last=False)
        return True

    # -- pace --------------------------------------------------------------------------------------------------

    def paced(self, streams: Streams, peer: PeerSettings | None = None) -> Streams:
        """The streams of a connection, slowed to the peer's own caps and to those of all peers together.

        ``peer``: the settings of a configured peer; None: ``max_rate`` and ``max_send_rate`` are its caps.
        """
        limits = self.config.limits
        download, upload = (limits.max_rate, limits.max_send_rate) if peer is None else (peer.download, peer.upload)
        reading = [*self._reading, *([Bucket(download)] if download else [])]
        writing = [*self._writing, *([Bucket(upload)] if upload else [])]
        return paced(streams, reading, writing, self._clock)
