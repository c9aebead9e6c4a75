"""The configuration of a node: its clump, its limits, its timing, and what differs for single peers.

It is a frozen record, made once from the configuration file and the command line. Everything below a node gets it whole
and picks what it needs. A change of the operator's choices makes a new record (``NodeService.change_policy``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from culm.bamboo.verification import Verify
from culm.bushbaby import Dialect, Limits
from culm.bushbaby.clump import check_clump
from culm.node.asking import How, how_of
from culm.node.interests.policy import Policy
from culm.node.interests.quotas import QuotaLimits
from culm.node.network.urls import PeerUrl
from culm.node.network.webaccess import WebAccess
from culm.node.proposals.options import ProposalOptions
from culm.node.surroundings import Surroundings
from culm.ranges import Feature


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """Bounds and times of a session beyond those of its protocol. Times are seconds.

    The bounds protect a node from its peers. The defaults leave an ordinary peer far below each of them, and keep what
    all peers together can take within what a small server has (docs/security.md has the figures).
    """

    max_logs: int = 1_000_000
    """Logs that a peer may announce in one connection, because each is remembered as long as the connection lasts."""
    max_wants: int = 100_000
    """Requests of a ``bushbaby://`` peer that wait to be served, because each takes memory until it is."""
    handshake_seconds: float = 10.0
    """Until the peer has to have proved who it is: a stranger that says nothing must not keep a connection for long."""
    idle_seconds: float = 30.0
    """A connection ends after so long without a valid message from the peer, or without the peer reading what we write.

    It is several times ``keepalive_seconds``, so that a connection survives a late sign of life.
    """
    keepalive_seconds: float = 4.0
    """A sign of life is sent after so long without anything else, so that the peer can tell us from a dead host."""
    settle_seconds: float = 3.0
    """After so much silence a one-time sync counts as done, with a peer that does not say when it is content. Shorter
    would take a slow disk for the end; longer makes everybody wait at the end of each sync."""
    max_sessions: int = 256
    """Connections at once, because each takes a socket and memory."""
    max_rate: int = 0
    """Bytes a second taken from one peer; 0: unlimited."""
    max_send_rate: int = 0
    """Bytes a second sent to one peer; 0: unlimited."""
    max_address_sessions: int = 128
    """Connections from one address at once: half of ``max_sessions``, so that a single host leaves room for others."""
    max_address_calls: int = 600
    """Calls from one address a minute, because each handshake costs computing; several nodes may share an address."""
    max_unfinished: int = 128 * 1024 * 1024
    """Bytes of messages that have begun to come and are not complete, in all connections together."""
    penalty_seconds: float = 10.0
    """For how long a peer that broke the rules is refused at first; 0: it is not (``culm.node.sharing.penalties``)."""
    max_penalty_seconds: float = 3600.0
    """And at most."""
    first_retry_seconds: float = 1.0
    """Between the first failure to reach a peer and the next attempt (``culm.node.network.backoff``)."""
    max_retry_seconds: float = 60.0
    """Between two attempts at most: so late is it noticed that a peer is back."""


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """What differs for one peer that the node keeps contact with.

    ``name`` is what the peer is called in the log. ``download``, ``upload``: bytes a second, 0: unlimited. ``limits``:
    values that replace those of ``NodeLimits`` for this peer. ``options`` say how to ask it: values by the names of
    ``culm.node.asking.OPTIONS``. ``token_file``: has the token that is shown to it at ``ws://`` and ``wss://``.
    """

    url: PeerUrl
    name: str
    download: int = 0
    upload: int = 0
    limits: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    token_file: Path | None = None


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Everything that a node is told.

    ``interval``: seconds between two contacts with a configured peer, and between two questions to a peer for what it
    lacked. ``scrub_days``: in which all payloads are read once, to find damage; 0: never. ``verify``: how this process
    checks signatures. ``relay``: see ``culm.node.interests.relay``. ``quotas``: how much the logs of others may take in
    the clump. ``dialect``: the only one to speak by ``bushbaby://``; None: each peer's own. ``wait_for_hello``,
    ``wait_for_auth``: whether a ``bushbaby://`` listener lets the caller speak, or prove itself, first; None: only
    where there is a list of allowed peers. ``withhold_have``, ``ignore_want``: announce nothing to ``bushbaby://``
    peers, send them only what is promoted. ``stateless``: answer ``intervals://`` requests with what is held now, and
    keep none open for news. ``refuse_ranges``, ``avoid_ranges``: features of ranges that ``culm://`` peers must not use
    in their interests, and that ours do without. ``download``, ``upload``: bytes a second of all peers together, 0:
    unlimited. ``peers``: what differs for single peers. ``web``: which web pages may read. ``surroundings``: the real
    world, except in simulations.
    """

    clump: bytes
    dialect: Dialect | None = None
    policy: Policy = field(default_factory=Policy)
    protocol_limits: Limits = field(default_factory=Limits)
    limits: NodeLimits = field(default_factory=NodeLimits)
    wait_for_hello: bool | None = None
    wait_for_auth: bool | None = None
    withhold_have: bool = False
    ignore_want: bool = False
    refuse_ranges: frozenset[Feature] = frozenset()
    avoid_ranges: frozenset[Feature] = frozenset()
    interval: float = 30.0
    scrub_days: float = 0.0
    verify: Verify = Verify.BATCHES
    relay: bool = False
    quotas: QuotaLimits = field(default_factory=QuotaLimits)
    stateless: bool = False
    proposals: ProposalOptions = field(default_factory=ProposalOptions)
    download: int = 0
    upload: int = 0
    peers: tuple[PeerSettings, ...] = ()
    web: WebAccess = field(default_factory=WebAccess)
    surroundings: Surroundings = field(default_factory=Surroundings, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_clump(self.clump)

    def how_for(self, url: PeerUrl, given: Mapping[str, Any] | None = None) -> How | None:
        """How to ask a peer: by options ``given`` for now, else by its own, else by those for all peers.

        None if its protocol has no options. ``ConfigError`` for options that contradict each other.
        """
        return how_of(url, {**self.for_peer(url)[1].options, **(given or {})}, self.proposals)

    def for_peer(self, url: PeerUrl) -> tuple[NodeConfig, PeerSettings]:
        """The configuration with one peer's limits in it, and the peer's settings (the defaults if it has none)."""
        limits = self.limits
        for peer in self.peers:
            if peer.url == url:
                return replace(self, limits=replace(limits, **peer.limits)), peer
        return self, PeerSettings(url, str(url), limits.max_rate, limits.max_send_rate)
