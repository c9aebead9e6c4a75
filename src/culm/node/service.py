"""The node: listeners, contacts with configured peers, the sessions of both, and the news that goes between them.

Each connection is a task that ends with it: one for each call that comes in (``_accept``), one for each peer that the
node keeps contact with (``_keep_contact``). The sessions share one store (``culm.node.storage.worker``), one budget of
memory, one set of claims and one ``Peering``.

News spread like this: a session stores what its peer has sent and calls ``stored``, and the node wakes all sessions.
Each of them asks the store what has changed and offers that to its peer. Entries that another process appends are
noticed by ``culm.node.storage.wal`` and go the same way.
"""

import asyncio
import logging
import ssl
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from culm.bamboo import Entry, Identity
from culm.bamboo.verification import Verify, check_one_by_one
from culm.errors import (
    ConfigError,
    CulmError,
    FeatureRefused,
    LocalProtocolError,
    NetworkError,
    PayloadDamaged,
    Place,
    ProtocolError,
)
from culm.node.asking import How, Wanted, logs_to_ask_for, narrowed
from culm.node.bushbaby.remembered import Dialects, Remembered
from culm.node.config import NodeConfig
from culm.node.culm.claims import Claims
from culm.node.held import HeldByPeers
from culm.node.interests.policy import Policy
from culm.node.interests.quotas import Quotas
from culm.node.interests.relay import Relay
from culm.node.negentropy.comparison import Listening
from culm.node.network.backoff import Backoff
from culm.node.network.descriptors import room_for
from culm.node.network.tls import listening_context
from culm.node.network.transport import Streams, connect, listen_at, secured
from culm.node.network.urls import PeerUrl
from culm.node.network.webaccess import WebFiles
from culm.node.network.websocket import check_installed, upgraded
from culm.node.roster import Roster
from culm.node.schemes import TABLE, scheme_of
from culm.node.sessions.session import Context, Purpose, Session
from culm.node.sessions.stats import PeerRefused, SessionStats
from culm.node.sessions.tasks import forget_frames
from culm.node.sharing.garbage import Garbage
from culm.node.sharing.kept import KeptPeers
from culm.node.sharing.memory import MemoryBudget
from culm.node.sharing.peering import Peering, address_of, network_of, place_of
from culm.node.sharing.wrong import WrongPayloads
from culm.node.storage.appending import Appends
from culm.node.storage.healing import Healing
from culm.node.storage.source import StoreSource, sizes_in
from culm.node.storage.wal import folding, watch_changes
from culm.node.storage.worker import StoreWorker
from culm.node.surroundings import clock
from culm.store import Draft, ToolStore
from culm.types import Buffer, Log
from culm.wire.places import log_text

_logger = logging.getLogger("culm.node")
Narrow = Callable[[Policy], Policy]
"""The policy of one session, made of the node's: a contact may be kept for some logs only."""
Dial = Callable[[PeerUrl], Awaitable[Streams]]
"""Makes a connection to a peer; raises ``NetworkError`` if that fails."""
_RELAY_SECONDS = 0.5  # After a peer has told its interests, for other peers' to come before all sessions are told.
_LIFTED_SECONDS = 5.0  # Between two looks whether another process, such as a good ``culm sync``, has lifted a penalty.
_TIGHT_SECONDS = 10.0  # After a quota was used up, until the store is summed up again: meanwhile the tally counts.
_WEIGHED_SECONDS = 3600.0  # Between two such sums if no quota is used up.


def _event_of(error: CulmError) -> tuple[int, str]:
    """The level and the event of the line in the log about a session that has failed."""
    if isinstance(error, PayloadDamaged):
        return logging.INFO, "ended the session"  # Healing writes the line about the payload, once.
    if isinstance(error, PeerRefused | FeatureRefused):
        return logging.WARNING, "refused the peer"
    if isinstance(error, NetworkError | ProtocolError):
        return logging.WARNING, "dropped the peer"
    return logging.ERROR, "ended the session"


class NodeService:
    """Serves a store to peers, and keeps up with them, until it is stopped.

    The store object is used by the node's own thread alone. Other processes may use the same file. ``kept`` has what
    earlier processes knew of peers; None: the node begins with nothing, and what it learns ends with it.
    """

    def __init__(self, identity: Identity, config: NodeConfig, store: ToolStore, kept: KeptPeers | None = None) -> None:
        self._source = StoreSource(store, config.policy, config.clump)
        self.config = config = replace(config, policy=self._source.policy)
        if config.verify is Verify.ONE_BY_ONE:
            check_one_by_one()
        self.sessions: dict[Session[Any], Narrow] = {}  # In the order in which they began.
        self.roster = Roster(identity.public, store.path)
        self.held = HeldByPeers()
        self.watchers: set[Callable[[], None]] = set()  # Called when the store has changed.
        self._identity = identity
        self.worker = StoreWorker(store, config.surroundings)
        self._appends = Appends(self.worker, store, self._tell_sessions)
        store.receive_in(config.clump, self._own)
        self._servers: list[asyncio.Server] = []
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._tls: ssl.SSLContext | None = None  # Of culm:// listeners.
        self._web: WebFiles | None = None
        self._claims = Claims()
        self._wrong = WrongPayloads()
        self._kept = kept or KeptPeers()
        self._peering = Peering(config, kept=self._kept)
        self._unproved: dict[asyncio.StreamWriter, None] = {}  # Incoming connections whose protocol proves no identity.
        self._bushbaby = Remembered(Dialects(self._kept))
        self._budget = MemoryBudget(config.limits.max_unfinished)
        self.healing = Healing(self.worker, self._lost, config.scrub_days)
        self._garbage = Garbage(config.surroundings.collect)
        self._tight = asyncio.Event()  # Something was refused because of a quota.
        self._quotas = Quotas(config.quotas, self._own, self._tight.set) if config.quotas else None
        self._take_quotas()
        self._relay = Relay(self.config.policy, self._relayed) if config.relay else None
        self._relaying: asyncio.Task[None] | None = None  # Tells all sessions what peers want by now.

    def _take_quotas(self) -> None:
        policy = self._source.take_policy(replace(self.config.policy, quotas=self._quotas))
        self.config = self._peering.config = replace(self.config, policy=policy)

    @property
    def _own(self) -> frozenset[bytes]:
        """The authors whose logs this node writes."""
        return self.config.policy.own | {self._identity.public}

    async def run(
        self,
        listen: Sequence[PeerUrl],
        peers: Sequence[PeerUrl],
        *,
        stop: asyncio.Event,
        listening: Callable[[PeerUrl], None] = lambda _: None,
        beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """Listen, contact the peers, and go on until ``stop`` is set.

        ``listening`` is called with the address of each listener, its port and key included. ``beside`` is run beside
        the node and cancelled with it. ``ConfigError`` if the node cannot listen at an address.
        """
        try:
            self._kept.exchange()
            self._start(self._kept.run())
            await self._tell_of_clumps()
            if self._quotas is not None:
                took, _ = await self._weigh(self._quotas)
                self._start(self._keep_to(self._quotas, took))
            if listen:
                self._keep_to_descriptors()
            for url in listen:
                listening(await self.listen(url))
            self._start(watch_changes(self.worker, self._changed))
            self._start(self.healing.watch())
            self._start(self._search())
            if beside is not None:
                self._start(beside())
            for url in peers:
                self._start(self._keep_contact(url))
            async with folding(self.worker):
                await stop.wait()
        finally:
            await self._stop()

    def _keep_to_descriptors(self) -> None:
        limits = self.config.limits
        room = room_for(limits.max_sessions)
        if room < limits.max_sessions:
            limits = replace(limits, max_sessions=room)
            self.config = self._peering.config = replace(self.config, limits=limits)
            reason = "the process may not open more files: allow more (ulimit -n)"
            _logger.warning("takes %d connections at most", room, extra={"reason": reason})

    async def append(
        self,
        identity: Identity,
        log_id: int,
        payload: Iterable[Buffer],
        *,
        is_end: bool = False,
        continue_here: bool = False,
    ) -> Entry:
        """Publish an entry whose payload comes in pieces, and offer it to the peers at once. See ``Store.append``."""
        append = self.worker.store.append
        entry = await self.worker.run(append, identity, log_id, payload, is_end=is_end, continue_here=continue_here)
        self._tell_sessions()
        return entry

    async def append_draft(self, draft: Draft) -> list[Entry]:
        """Publish entries whose payloads are at hand, together with what others append meanwhile. See ``Appends``."""
        return await self._appends.append(draft)

    async def change_policy(self, policy: Policy) -> None:
        """Go on with other choices, also in the open sessions.

        If there is a list of allowed peers now, incoming connections whose protocol proves no identity are closed.
        """
        policy = self._source.take_policy(replace(policy, quotas=self._quotas))
        self.config = self._peering.config = replace(self.config, policy=policy)
        self.worker.store.receive_in(self.config.clump, self._own)
        if policy.allow_peers:
            for writer in self._unproved:
                writer.close()
        if self._relay is not None:
            self._relay.change_policy(policy)
        policy = self._source.policy = self._wanted
        for session, narrow in list(self.sessions.items()):
            await session.change_policy(narrow(policy))

    @property
    def policy(self) -> Policy:
        """The choices by which the node asks and shares now, with what peers want if it is a relay."""
        return self._source.policy

    @property
    def _wanted(self) -> Policy:
        """The operator's choices, with what peers want if the node is a relay."""
        return self.config.policy if self._relay is None else self._relay.policy_for()

    def _relayed(self) -> None:
        """A peer wants something else: tell all sessions, once for all changes of the next moment."""

        async def tell() -> None:
            await asyncio.sleep(_RELAY_SECONDS)
            self._relaying = None
            await self._ask_anew()

        if self._relaying is None:
            self._relaying = self._start(tell())

    async def listen(self, url: PeerUrl) -> PeerUrl:
        """Listen at one more address; returns it with its port and key. ``ConfigError`` if that is not possible."""
        if self.config.policy.allow_peers and not scheme_of(url).proves_identity:
            raise ConfigError(
                f"cannot listen at {url} while there is a list of allowed peers, because callers there do not prove"
                " who they are; remove the listener, or the list"
            )
        if url.is_secure:
            self._tls = self._tls or listening_context(self._identity)
            url = replace(url, key=self._identity.public)
        if scheme_of(url).in_websocket:
            check_installed()
            self.config.web.check(url)
            self._web = self._web or WebFiles(self.config.web)
            self._tls_of(url)
        server, place = await listen_at(url, partial(self._accept, url))
        self._servers.append(server)
        self.roster.listeners.append(place)
        return place

    def contact(
        self, url: PeerUrl, wanted: Wanted | None = None, how: How | None = None, dial: Dial | None = None
    ) -> asyncio.Task[None]:
        """Keep contact with one more peer, until the task is cancelled or the node stops.

        ``wanted``: what to ask this peer for, instead of what the node follows; the node then asks it for nothing on
        behalf of others. ``how``: see ``culm.node.asking``; None: as the configuration says. ``dial`` makes the
        connections; None: as for any peer.
        """
        return self._start(self._keep_contact(url, wanted, how, dial))

    async def _tell_of_clumps(self) -> None:
        if count := await self.worker.run(self.worker.store.unmarked_since_upgrade, self._own):
            reason = (
                "an earlier version of Culm received them and did not note in which clump; culm logs lists them, and"
                " culm share AUTHOR/LOG --clump NAME narrows one to a clump"
            )
            _logger.warning("logs are served in every clump", extra={"count": count, "reason": reason})
        if not self.config.clump and (count := await self.worker.run(self.worker.store.withheld, b"")):
            reason = (
                "they are shared in clumps only, and this node names none; name one with --clump or in culm.toml,"
                " or run culm share AUTHOR/LOG --everywhere for each log; culm logs lists their clumps"
            )
            _logger.warning("logs are not served", extra={"count": count, "reason": reason})

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._keep(task)
        return task

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Remember a task until it is over, so that ``_stop`` can cancel it and asyncio does not drop it."""
        self._tasks[task] = None
        task.add_done_callback(lambda _: self._tasks.pop(task, None))

    async def _accept(self, url: PeerUrl, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a caller at one of our addresses, until the connection ends. asyncio runs this as a task of its own."""
        scheme, task = scheme_of(url), asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio starts a task for each incoming connection
        called = sum(session.is_called for session in self.sessions)
        tell = partial(self.roster.tell, "refused", url.scheme, place_of(writer))
        if not self._peering.take_call(writer, called, proves=scheme.proves_identity, tell=tell):
            return
        self._keep(task)
        if not scheme.proves_identity:
            self._unproved[writer] = None
            task.add_done_callback(lambda _: self._unproved.pop(writer))
        # The error is in the log already; or the node stops. Passed on, asyncio would report the task as failed.
        with suppress(CulmError, asyncio.CancelledError):
            await self._serve(url, (reader, writer))

    async def serve(self, url: PeerUrl, streams: Streams) -> None:
        """Serve one peer by the protocol of an address, over a connection from elsewhere, until it ends."""
        with suppress(CulmError):  # It is in the log.
            await self._serve(url, streams)

    async def _serve(self, url: PeerUrl, streams: Streams) -> None:
        writer, scheme = streams[1], scheme_of(url)
        streams, purpose = await self._greet(url, streams)
        paced = self._peering.paced(streams)
        if scheme.session is None:
            await self._compare(url, paced)
        else:
            session = scheme.session(self._context_of(writer, self.config), paced, purpose)
            await self._run(session, writer, blames=scheme.blames_address)

    def _tls_of(self, url: PeerUrl) -> ssl.SSLContext | None:
        if url.scheme == "wss" and self._web is not None:
            return self._web.tls()
        return self._tls if url.is_secure else None

    async def _greet(self, url: PeerUrl, streams: Streams) -> tuple[Streams, Purpose]:
        """Do the handshakes in front of the protocol with a caller: TLS, WebSocket; the streams inside, and what for.

        Raises ``NetworkError`` if one fails or takes too long. That is no offence: a wrong origin is the fault of a
        page and not of the user at this address.
        """
        writer, seconds = streams[1], self.config.limits.handshake_seconds
        try:
            if (tls := self._tls_of(url)) is not None:
                await secured(writer, tls, seconds)
            if scheme_of(url).in_websocket and self._web is not None:
                streams, exchanges = await upgraded(streams, self._web.access, seconds)
                return streams, Purpose(answers_only=not exchanges)
        except NetworkError as error:
            _logger.warning("refused a connection", extra={"peer": place_of(writer), "reason": str(error)})
            self.roster.tell("failed", url.scheme, place_of(writer), str(error))
            raise
        except asyncio.CancelledError:
            writer.close()
            raise
        return streams, Purpose()

    async def _compare(self, url: PeerUrl, streams: Streams) -> None:
        """Serve a ``negentropy://`` caller until the connection ends."""
        place, address = place_of(streams[1]), address_of(streams[1])
        worker, budget = self.worker.shared(address), self._budget.share(address)
        moving = TABLE["intervals"].session
        # A program that runs us over stdin and stdout could read the store anyway.
        moves = url.via == "stdio" or any(scheme_of(place) is TABLE["intervals"] for place in self.roster.listeners)
        is_connected = goes_on = False

        def connected() -> None:
            nonlocal is_connected
            is_connected = True
            self.roster.tell("connected", url.scheme, place, "")

        reason = "this node closed the connection"
        try:
            goes_on = await Listening(worker, self.config, streams, budget, moves=moves).run(connected)
            reason = "" if is_connected else "the peer hung up at once"
        except CulmError as error:
            reason = str(error)
            _logger.warning("dropped a negentropy caller", extra={"peer": place, "reason": str(error)})
            self._peering.ended(place, address, None, SessionStats(), error)
        finally:
            if not goes_on:
                self.roster.tell("lost" if is_connected else "failed", url.scheme, place, reason)
        if goes_on and moving is not None:
            await self._run(moving(self._context_of(streams[1], self.config), streams, Purpose()), streams[1])

    def _context_of(
        self, writer: asyncio.StreamWriter, config: NodeConfig, narrow: Narrow | None = None, *, called: bool = False
    ) -> Context:
        """What a session on this connection shares with the node. ``called``: we opened the connection."""
        address = address_of(writer)
        return Context(
            self._identity,
            replace(config, policy=narrow(self._wanted) if narrow else self._wanted),
            self.worker.shared(address),
            self._source,
            stored=self._tell_sessions,
            grew=self._tell_of_growth,
            refuses=lambda identity: self._peering.refuses_peer(identity, address),
            claims=self._claims,
            wrong=self._wrong,
            address=(None if called else address) or place_of(writer),  # The port of a caller changes with each call.
            budget=self._budget.share(address),
            bushbaby=self._bushbaby,
            relay=None if narrow else self._relay,
            held=self.held,
            happened=self.roster.happened,
        )

    async def _run(
        self,
        session: Session[Any],
        writer: asyncio.StreamWriter,
        name: str = "",
        narrow: Narrow | None = None,
        url: PeerUrl | None = None,
        *,
        blames: bool = True,
    ) -> None:
        """Run a session to its end. ``blames``: its address answers for it, where no identity is proved."""
        place, address = place_of(writer), address_of(writer) if blames else None
        name = name or place
        self.sessions[session] = narrow or (lambda policy: policy)
        self.roster.began(session, name, place, url)
        driver = session.driver
        self._peering.began(driver.silence, lambda: driver.was_heard)
        session.name = name
        failure: CulmError | None = None
        try:
            await session.run()
        except CulmError as error:
            failure = error
            _logger.log(*_event_of(error), extra={"peer": name, "reason": str(error)})
            raise
        else:
            if session.over_because:
                _logger.info("ended the session", extra={"peer": name, "reason": session.over_because})
            else:
                _logger.info("the peer ended the session", extra={"peer": name})
        finally:
            if failure is not None:
                forget_frames(failure)
            self.sessions.pop(session, None)
            if self._relay is not None:
                self._relay.leave(session)
            self.roster.ended(session, sys.exception())
            self._peering.ended(name, address, session.proved, session.stats, failure)
            if isinstance(failure, PayloadDamaged):
                await self.healing.drop(failure)
            said = session.stats.bytes_received - session.stats.payload_bytes
            self._garbage.ended(said, failed=failure is not None)

    async def _keep_contact(
        self, url: PeerUrl, wanted: Wanted | None = None, how: How | None = None, dial: Dial | None = None
    ) -> None:
        config, peer = self.config.for_peer(url)
        how = how or config.how_for(url)
        narrow = partial(narrowed, wanted=wanted) if wanted else None
        limits = config.limits
        backoff = Backoff(
            min(limits.first_retry_seconds, config.interval), limits.max_retry_seconds, config.surroundings.chance
        )
        self.roster.troubles[url] = None
        self.roster.names[url] = peer.name
        address = network_of(url.host)
        while True:
            await self._penalty_over(url, address)
            session: Session[Any] | None = None
            try:
                streams = await (dial(url) if dial else connect(url, peer.token_file))
                address = address_of(streams[1]) or address
                if self._peering.refused_for(address, url.key):  # Of a name the address is known only now.
                    streams[1].close()
                    continue
                self.roster.troubles[url] = None
                session = await self._calling(url, self._peering.paced(streams, peer), narrow, how)
                # Behind a WebSocket's address, or the proxy's, there are often others.
                blames = not scheme_of(url).in_websocket
                await self._run(session, streams[1], peer.name, narrow, url, blames=blames)
                wait = 0.0 if session.over_because else backoff.jittered(config.interval)
            except CulmError as error:
                self.roster.troubles[url] = str(error)
                if session is None:
                    # The first failure is news. Those that follow would fill the log of a node whose peer is away.
                    level = logging.INFO if backoff.failures else logging.WARNING
                    _logger.log(level, "not reached", extra={"peer": peer.name, "reason": str(error)})
                    if not backoff.failures:
                        self.roster.tell("failed", url.scheme, "", str(error), url)
                elif session.stats.entries_received + session.stats.entries_sent:
                    backoff.succeeded()
                wait = backoff.failed()
            else:
                backoff.succeeded()
            self.roster.waits(url, wait)
            await asyncio.sleep(wait)
            self.roster.retries.pop(url, None)

    async def _penalty_over(self, url: PeerUrl, address: str) -> None:
        """Wait until the penalty of a peer is over, which may have begun before this node was started, or is lifted."""
        if (until := self._peering.refused_until(address, url.key)) is None:
            return
        trouble = self.roster.troubles[url]
        if trouble is None:
            trouble = "its penalty for having broken the rules still runs"
            _logger.warning("not called", extra={"peer": str(url), "reason": f"{trouble}, until {until}"})
        self.roster.troubles[url] = f"{trouble}; it is not called before {until}"
        while True:
            left = self._peering.refused_for(address, url.key)
            if not left:
                return
            await asyncio.sleep(min(left, _LIFTED_SECONDS))

    async def _calling(self, url: PeerUrl, streams: Streams, narrow: Narrow | None, how: How | None) -> Session[Any]:
        """The session for a connection that we have opened."""
        config, _ = self.config.for_peer(url)
        scheme = scheme_of(url)
        assert scheme.session is not None  # noqa: S101 - ``PeerUrl.parse`` accepts no other address for a peer
        logs: list[Log] = []
        if scheme.asks_by_log:
            policy = narrow(self._wanted) if narrow else self._wanted
            logs = await self.worker.run(logs_to_ask_for, self.worker.store, policy)
        purpose = Purpose(called=True, key=url.key, logs=tuple(logs), options=how)
        return scheme.session(self._context_of(streams[1], config, narrow, called=True), streams, purpose)

    async def _search(self) -> None:
        try:
            await self.healing.search()
        except CulmError as error:
            _logger.warning("stopped looking for damaged payloads", extra={"reason": str(error)})

    async def _weigh(self, quotas: Quotas) -> tuple[float, bool]:
        """Sum up what the store has of each author, which reads every entry.

        How many seconds that took, and whether something may fit now that did not before.
        """
        began = clock()
        sizes = await asyncio.to_thread(sizes_in, self.worker.store.path, self.config.clump)
        before, was_tight = quotas.without_room, quotas.is_tight
        quotas.begin(sizes)
        self._tight.clear()
        return clock() - began, was_tight or quotas.without_room != before

    async def _keep_to(self, quotas: Quotas, took: float) -> None:
        """When a quota is used up, take requests back; sum up again after a while, and ask again for what fits then.

        Summing up takes a hundredth of the time at most, however large the store is.
        """
        while True:
            if not quotas.without_room:
                with suppress(TimeoutError):  # Perhaps somebody has deleted something.
                    async with asyncio.timeout(max(_WEIGHED_SECONDS, 100 * took)):
                        await self._tight.wait()
            if self._tight.is_set():
                self._tight.clear()
                log = {} if quotas.refused is None else {"log": log_text(quotas.refused)}
                _logger.warning("a quota is used up", extra={**log, "reason": quotas.explained()})
                await self._ask_anew()
            quotas.mark()  # Long before the sum, so that what is on its way to the store by now is in it.
            await asyncio.sleep(max(_TIGHT_SECONDS, 100 * took))
            took, may_fit = await self._weigh(quotas)
            if may_fit:
                await self._ask_anew()

    async def _ask_anew(self) -> None:
        policy = self._source.policy = self._wanted
        for session, narrow in list(self.sessions.items()):
            with suppress(LocalProtocolError):  # A session that is ending, or whose peer takes fewer interests.
                await session.change_policy(narrow(policy))

    async def _lost(self, place: Place) -> None:
        for session in list(self.sessions):
            with suppress(LocalProtocolError):  # A session that is just ending cannot ask any more.
                await session.lost((place.author, place.log_id), place.seq)

    def _changed(self) -> None:
        # Only here, some times a second: our own appends and what sessions store damage nothing, and to look for damage
        # after each of them costs as much as a third of an append.
        self.healing.store_changed()
        self._tell_sessions()

    def _tell_sessions(self) -> None:
        for session in self.sessions:
            session.store_changed()
        for watcher in self.watchers:
            watcher()

    def _tell_of_growth(self, log: Log) -> None:
        for session in self.sessions:
            session.log_grew(log)

    async def _stop(self) -> None:
        self._relay = None  # Sessions that end now start no task to tell the others of it.
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._kept.exchange()
        self.worker.close()
        self._source.close()
