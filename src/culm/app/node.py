"""``Node``: a store, an identity, peers, and news, for a program that uses asyncio.

One connection to the store belongs to the thread that writes, which appends and stores what peers send. Others only
read, for the program's questions (``culm.app.reading``). So a program that reads a large payload does not hold up the
sessions, and a busy session does not hold up the program.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar
from weakref import WeakSet

from culm.app import names, opening, syncing
from culm.app.names import AuthorName, EntryName, LogName, Payload, RangesOf, followed, make_range, unfollowed
from culm.app.opening import Quarters
from culm.app.peerevents import PeerEvents
from culm.app.reading import Reads
from culm.app.subscription import Subscription
from culm.app.syncing import Fetched
from culm.bamboo import MAX_U64, Entry, ForkProof, Identity
from culm.errors import ConfigError, NotHeld, PayloadDamaged, Place, StoreError
from culm.node.asking import How, Wanted, check_how
from culm.node.config import NodeConfig
from culm.node.held import Holding
from culm.node.interests.choices import ChoicesWatch
from culm.node.interests.policy import Policy
from culm.node.network.urls import LISTENER_SCHEMES, PeerUrl
from culm.node.peerevents import PeerEvent
from culm.node.schemes import scheme_of
from culm.node.service import NodeService
from culm.node.sessions.stats import SessionStats
from culm.node.surroundings import present
from culm.node.sync import SyncSummary
from culm.ranges import RangeSet
from culm.sealing import Keyring, Sealer, is_sealed, opened, readers_of
from culm.sealing.age import skipped
from culm.sealing.mark import FIRST_LINE
from culm.store import (
    Draft,
    LogSummary,
    NewsPage,
    Position,
    ReadableStore,
    SQLiteStore,
    StoredEntry,
    ToolStore,
    VerifyReport,
    grouped,
)
from culm.store.proving import make_proof
from culm.types import Buffer, Log
from culm.wire.places import author_text

_PAGE = 256  # Entries read at once, so that the way to the thread and back is paid only once for many.
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer that the node stays connected to. ``problem`` is why the last attempt failed, None if it did not."""

    url: str
    connected: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class _Kept:
    """A contact: the task that keeps it, and what is asked for there, and how."""

    task: asyncio.Task[None]
    asked: tuple[Wanted, How | None]


@dataclass(frozen=True, slots=True)
class _Opened:
    """The parts of an open node."""

    quarters: Quarters
    engine: NodeService
    reads: Reads
    running: asyncio.Task[None]


class Node:
    """A node inside a program: ``async with Node.open(...) as node``.

    All its methods belong to one event loop. The work with the store is done in threads; no method holds up the loop.
    Errors are those of ``culm.errors``: ``StoreError`` and its kinds can come from every method that uses the store,
    ``ConfigError`` says that the call is wrong (a closed node is one reason).
    """

    def __init__(self, find: Callable[[], Quarters], config: NodeConfig | None) -> None:
        """Use ``Node.open``."""
        self._find = find
        self._config = config or NodeConfig(b"")
        self._opened: _Opened | None = None
        self._stop = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._endings = 0  # Calls of ``end_subscriptions``, so that ``changes`` notices such a call.
        self._contacts: dict[PeerUrl, _Kept] = {}
        # Weak, because a program that stops reading just drops its subscription, without closing it.
        self._subscriptions: WeakSet[Subscription] = WeakSet()
        self._waiters: WeakSet[asyncio.Event] = WeakSet()  # Set when a peer has said what it holds, and at the end.
        self._peer_events: WeakSet[PeerEvents] = WeakSet()
        self._listeners: WeakSet[asyncio.Event] = WeakSet()  # Set when the store has changed, and at the end.

    # -- open and closed -----------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        home: Path | str | None = None,
        *,
        store: Path | str | None = None,
        identity: Identity | str | None = None,
        clump: str | bytes | None = None,
        passphrase: str | None = None,
        create: bool = True,
        config: NodeConfig | None = None,
    ) -> Self:
        """A node in a home folder, or over a single store file. It is opened by ``async with``, or by ``start``.

        ``home``: the folder that the command ``culm`` uses, too; what is followed, allowed and blocked is kept there.
        None is ``$CULM_HOME``, or ``~/.culm``. ``create`` makes it, with an identity, if it is not there.
        ``identity`` is the name of one of its identities (None: ``default``, or the only one), or an ``Identity`` of
        your own. ``passphrase`` opens it, or seals one that is made.

        ``store``: a file instead of a home, made if it is not there; ``identity`` must be an ``Identity``. What is
        followed is then forgotten with the node.

        ``clump``: the group of nodes to talk to; both sides must name the same one. ``bushbaby://`` needs one. None is
        the clump of the home's ``culm.toml``, if that has one. ``config`` sets limits and rates; its clump and policy
        are not used.

        Opening raises ``ConfigError`` for a wrong call or a damaged home, ``StoreError`` for a store that cannot be
        used.
        """
        if store is not None:
            if home is not None:
                raise ConfigError("give a home or a store, not both")
            return cls(partial(opening.in_store, store, identity, clump), config)
        return cls(partial(opening.in_home, home, identity, clump, passphrase, create=create), config)

    async def start(self) -> Self:
        """Open the store and begin to work. ``close`` is due then; ``async with`` does both."""
        if self._opened is not None:
            raise ConfigError("a node can be opened once only: make another one with Node.open")
        quarters = await asyncio.to_thread(self._find)
        watch, policy = None, quarters.adapt(Policy())
        if quarters.policies is not None:
            watch = ChoicesWatch(quarters.policies, quarters.clump or b"", quarters.adapt)
            policy = await asyncio.to_thread(watch.start)
        store = await asyncio.to_thread(SQLiteStore, quarters.store)
        try:
            reads = await asyncio.to_thread(Reads.open, quarters.store)
        except BaseException:
            store.close()
            raise
        config = replace(
            self._config,
            clump=quarters.clump or b"",
            policy=policy,
            surroundings=present(self._config.surroundings),
        )
        engine = NodeService(quarters.identity, config, store, quarters.kept())
        engine.watchers.add(self._tell_subscriptions)
        engine.roster.watchers.add(self._tell_of_peer)
        loop = asyncio.get_running_loop()

        def heard() -> None:
            loop.call_soon_threadsafe(self._wake, self._waiters)

        engine.held.watchers.add(heard)
        beside = None if watch is None else partial(watch.run, engine.change_policy)
        running = asyncio.create_task(engine.run([], [], stop=self._stop, beside=beside))
        running.add_done_callback(self._has_stopped)
        self._opened = _Opened(quarters, engine, reads, running)
        return self

    async def close(self) -> None:
        """End all sessions and subscriptions, and close the store. Everything acknowledged is on the disk.

        A call while another one is closing the node waits for that.
        """
        if self._opened is None:
            return
        if not self._stop.is_set():
            self._stop.set()
            self._has_stopped()  # At once: a subscription that went on meanwhile would find the node closed.
            self._closing = asyncio.create_task(self._close(self._opened))
        assert self._closing is not None  # noqa: S101 - made when ``_stop`` was set
        # A caller that is cancelled, as a web framework does, must not leave the store half closed.
        await asyncio.shield(self._closing)

    async def _close(self, parts: _Opened) -> None:
        try:
            await parts.running
        finally:
            await parts.reads.close()
            parts.engine.worker.store.close()

    def _has_stopped(self, _: object = None) -> None:
        self.end_subscriptions()
        self._wake(self._waiters)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        """Whether the node has stopped, by ``close`` or an error, or was not opened yet."""
        return self._opened is None or self._stop.is_set() or self._opened.running.done()

    @property
    def _open(self) -> _Opened:
        if self._opened is None or self._stop.is_set():
            raise ConfigError("the node is closed, or was not opened: use async with Node.open(...) as node")
        if (running := self._opened.running).done():
            reason = None if running.cancelled() else running.exception()
            raise StoreError(f"the node stopped because of an error: {reason}")
        return self._opened

    @property
    def _engine(self) -> NodeService:
        return self._open.engine

    async def _read(self, function: Callable[Concatenate[ToolStore, _P], _T], *args: _P.args, **named: _P.kwargs) -> _T:
        """Call a function with a store on a thread, so that the event loop never waits."""
        try:
            return await self._open.reads.run(function, *args, **named)
        except PayloadDamaged as damage:
            await self._engine.healing.drop(damage)
            raise

    # -- who this is -----------------------------------------------------------------------------------------------

    @property
    def identity(self) -> Identity:
        """The identity that signs the node's entries and that peers see."""
        return self._open.quarters.identity

    @property
    def author(self) -> bytes:
        """The identity's public key (32 bytes): the author of what is appended."""
        return self.identity.public

    @property
    def name(self) -> str:
        """The author as text of 43 characters, to give to people who want to follow it."""
        return author_text(self.author)

    def __repr__(self) -> str:
        if self._opened is None:
            return "<Node, not opened yet>"
        quarters = self._opened.quarters
        return f"<Node {author_text(quarters.identity.public)} in {quarters.store}{', closed' * self.is_closed}>"

    @property
    def store_path(self) -> Path:
        """The file of the node's store, which a ``Store`` opened with ``read_only=True`` reads beside the node."""
        return self._open.quarters.store

    # -- writing -----------------------------------------------------------------------------------------------------

    async def append(
        self,
        log_id: int,
        payload: Payload | Iterable[Buffer],
        *,
        readers: Iterable[str | bytes] | None = None,
        end: bool = False,
        continue_here: bool = False,
    ) -> Entry:
        """Publish the next entry of the node's own log, and announce it to peers. It is on disk when this returns.

        ``payload``: bytes; text, which becomes UTF-8; or an iterable of bytes of any length, which is read piece by
        piece in a thread. ``end`` ends the log for ever.

        ``readers`` seals the payload, so that only they and the node's own identity can read it: authors, age keys
        (``age1...``), and groups (``AUTHOR/LOG``). The entry's size and hash are those of the sealed bytes. It needs
        ``culm[sealed]``. ``ConfigError`` for a name that means no reader, or more than 200 readers; ``NotHeld`` if the
        newest list of a group has not arrived.

        ``AfterEndOfLog`` if the log has ended, ``ForkDetected`` if it is forked. ``StoreError`` if the store has later
        entries of this log but not all before them: fetch those first, because appending could fork the log.

        ``UnconfirmedLog`` if the home was restored or made anew, or the identity imported, and no peer has shown yet
        that the store has the log's newest entry. ``continue_here`` appends all the same, because you know that
        nothing newer exists anywhere.
        """
        sealer = None if readers is None else await self._sealer(readers)
        if isinstance(payload, str | bytes | bytearray | memoryview):
            whole = names.whole(payload)
            if sealer is not None:
                whole = await asyncio.to_thread(sealer.whole, whole)
            draft = Draft(self.identity, log_id, [whole], end, continue_here)
            return (await self._engine.append_draft(draft))[0]
        payload = names.pieces(payload)
        if sealer is not None:
            payload = sealer.pieces(payload)
        return await self._engine.append(self.identity, log_id, payload, is_end=end, continue_here=continue_here)

    async def _sealer(self, readers: Iterable[str | bytes]) -> Sealer:
        if isinstance(readers, str | bytes):  # Its letters would be taken for names.
            raise TypeError(f"readers are given as a list: write readers=[{readers!r}]")
        named = [self.author, *readers]
        return await self._read(lambda store: Sealer(readers_of(store, named)))

    async def append_many(
        self,
        log_id: int,
        payloads: Iterable[Payload],
        *,
        readers: Iterable[str | bytes] | None = None,
        continue_here: bool = False,
    ) -> list[Entry]:
        """Publish an entry for each payload, in order, and announce them. All are on disk when this returns.

        Entries are stored in groups of up to 1,000, or 4 MiB of payloads, each in one transaction. That is many times
        faster than to call ``append`` for each. If it raises, or the machine fails meanwhile, the log has the first
        groups and no entry of the others. Other appends to the log may come in between two groups.

        ``payloads`` may be any iterable of bytes or text; it is read on the event loop, a group at a time. ``readers``
        seals each of them, as ``append`` does, on another thread; the groups are as large as before they are sealed.
        The errors are those of ``append``.
        """
        sealer = None if readers is None else await self._sealer(readers)
        entries: list[Entry] = []
        for group in grouped(map(names.whole, names.several(payloads))):
            sealed = group if sealer is None else await asyncio.to_thread(sealer.each, group)
            entries += await self._engine.append_draft(Draft(self.identity, log_id, sealed, False, continue_here))
        return entries

    async def is_confirmed(self, log_id: int) -> bool:
        """Whether ``append`` takes the newest entry held of the node's own log for the newest that exists."""
        return await self._read(lambda store: store.is_confirmed((self.author, log_id)))

    async def forget(self, entry: Entry) -> int:
        """Delete a payload to save space, and keep its entry; returns the bytes freed.

        The node does not ask peers for it again. ``NotHeld`` if the store does not have the entry.
        """
        worker = self._engine.worker
        return await worker.run(worker.store.forget, names.checked(entry).place)

    # -- reading -----------------------------------------------------------------------------------------------------

    async def logs(self) -> list[LogSummary]:
        """A summary of each log in the store, ordered by author and log id."""
        return await self._read(lambda store: list(store.logs()))

    async def entry(self, log: LogName, seq: int) -> Entry | None:
        """A verified entry by its number; None if the store does not have it."""
        return await self._open.reads.small(ToolStore.verified_entry, *names.place_of(log, seq, self.author))

    async def entry_with_payload(
        self, log: LogName, seq: int, *, raw: bool = False, keys: Iterable[Identity | str] = ()
    ) -> tuple[Entry, bytes] | None:
        """A verified entry and its payload; None if the store does not have the entry.

        It gives what ``entry`` and ``payload`` would give, with the errors of ``payload``. A payload of up to 4 KiB
        comes by the same read as its entry.
        """
        found = await self._open.reads.small(ToolStore.verified_with_payload, *names.place_of(log, seq, self.author))
        if found is None:
            return None
        entry, small = found
        if small is None or (is_sealed(small) and not raw):
            return entry, await self.payload(entry, raw=raw, keys=keys)
        return entry, small

    async def entries(self, log: LogName, *, first: int = 1, last: int | None = None) -> AsyncIterator[Entry]:
        """The verified entries of a log from ``first`` to ``last`` (None: to the newest), ascending."""
        which = names.log_of(log, self.author)
        found = await self._read(lambda store: store.entries(which, first, MAX_U64 if last is None else last))
        while page := await self._read(lambda _: list(islice(found, _PAGE))):
            for stored in page:
                yield stored.entry

    async def payload(self, entry: Entry, *, raw: bool = False, keys: Iterable[Identity | str] = ()) -> bytes:
        """An entry's payload as a whole; use ``payload_pieces`` for large ones.

        A sealed payload is opened, with the node's identity and ``keys``: identities, and secret age keys as text.
        ``SealedPayload`` if they do not open it, or its author has damaged it; ``ConfigError`` without
        ``culm[sealed]``. ``raw`` gives the bytes that the author signed, sealed or not.

        ``NotHeld`` if the store does not have the entry or all of its payload: that may still be arriving, or have been
        forgotten, or be outside of what the node follows.
        """
        small = await self._open.reads.small(ToolStore.small_payload, names.checked(entry))
        if small is not None and (raw or not is_sealed(small)):
            return small
        opening = partial(opened, keyring=Keyring.of([self.identity, *keys])) if not raw else iter
        return await self._read(lambda store: b"".join(opening(store.payload(_complete(store, entry)))))

    async def payload_pieces(
        self, entry: Entry, offset: int = 0, *, raw: bool = False, keys: Iterable[Identity | str] = ()
    ) -> AsyncIterator[bytes]:
        """An entry's payload from byte ``offset`` on, in pieces of some ten thousand bytes or more.

        A sealed payload is opened as ``payload`` does it. ``offset`` then counts bytes of the content, all of it is
        read from its beginning, and ``SealedPayload`` can also come at the end, if its author has cut it off there. The
        errors are those of ``payload``.
        """
        entry = names.checked(entry)
        keyring = None if raw else Keyring.of([self.identity, *keys])
        pieces = await self._read(lambda store: _content(store, _complete(store, entry), offset, keyring))
        while piece := await self._read(lambda _: next(pieces, b"")):
            yield piece

    async def prove(self, log: LogName, seq: int, *, short: bool = False, with_payload: bool = False) -> bytes:
        """A file that shows an entry, and the history it belongs to, to somebody without a node: ``culm.check_proof``.

        The history goes from entry 1 to the newest entry, or with ``short`` to the end of the entry's certificate pool.
        About ten kilobytes for a log of a million entries, and the payload if ``with_payload`` asks for it.

        ``NotHeld`` if the entry is not verified, or the payload not complete. ``ForkDetected`` if the author has forked
        the log at the entry or before.
        """
        place = Place(*names.log_of(log, self.author), seq)

        def made(store: ToolStore) -> bytes:
            proof, stored = make_proof(store, place, short=short, with_payload=with_payload)
            return b"".join([proof.encode(), *(store.payload(stored) if with_payload else ())])

        return await self._read(made)

    async def forks(self, log: LogName | None = None) -> list[ForkProof]:
        """The fork proofs of one log or of all, the lowest position of each log first.

        Entries before that position stay valid.
        """
        which = None if log is None else names.log_of(log, self.author)
        return await self._read(lambda store: list(store.fork_proofs(which)))

    async def verify(self, log: LogName | None = None) -> VerifyReport:
        """Check the whole store, or one log, again from its bytes: signatures, links, paths and payloads."""
        which = None if log is None else names.log_of(log, self.author)
        report = await self._read(lambda store: store.verify(which))
        for damage in report.damaged:
            await self._engine.healing.drop(damage)
        return report

    # -- news --------------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        what: AuthorName | LogName | None = None,
        *,
        since: str | None = None,
        with_payload: bool = False,
    ) -> Subscription:
        """Every entry that becomes verified, once each: ``async for entry in node.subscribe(...)``.

        ``what``: an author, a log, or None for everything. ``since``: None begins now, ``"0"`` with the first entry of
        the store, and the ``cursor`` of an earlier subscription where it stopped. ``with_payload`` delivers an entry
        only when its payload is complete, so never if the payload is not wanted or was forgotten.

        A slow consumer gets everything too, and costs no memory. An entry that has become invalid before it is read,
        because a fork was found, is left out. Iterating raises ``StoreError`` if the cursor is of another store.
        """
        author, log_id = names.what_of(what, self.author)
        worker = self._engine.worker
        start: Position | asyncio.Future[Position]
        # On the writer's thread, so that the position is after the appends that the program made before this call, and
        # before those that it makes afterwards.
        start = Position.parse(since) if since is not None else worker.submit(worker.store.latest)

        async def read(position: Position) -> NewsPage:
            return await self._read(
                lambda store: store.news(position, author=author, log_id=log_id, with_payload=with_payload, limit=_PAGE)
            )

        subscription = Subscription(read, start)
        self._subscriptions.add(subscription)
        return subscription

    async def changes(self) -> AsyncIterator[None]:
        """Once at the beginning, and then whenever the store may have changed in any way, until the node closes.

        Changes that come while the program is busy count as one. ``subscribe`` tells which entries are new; this also
        tells of forks, deleted payloads, and entries that another program takes in.
        """
        changed, before = asyncio.Event(), self._endings
        changed.set()
        self._listeners.add(changed)
        while True:
            await changed.wait()
            changed.clear()
            if self.is_closed or self._endings > before:
                return
            yield

    def end_subscriptions(self) -> None:
        """End what loops of the program wait for, without an error: subscriptions, ``changes``, and peer events.

        ``close`` does this, too. Call it alone where something waits for these loops before it closes the node: a web
        server that stops lets open responses come to their end first. Subscriptions that are made later are not ended.
        """
        self._endings += 1
        for subscription in self._subscriptions:
            subscription.close()
        for events in self._peer_events:
            events.close()
        self._wake(self._listeners)

    def _wake(self, waiting: Iterable[asyncio.Event]) -> None:
        for event in waiting:
            event.set()

    def _tell_subscriptions(self) -> None:
        for subscription in self._subscriptions:
            subscription.store_changed()
        self._wake(self._listeners)

    # -- peers -------------------------------------------------------------------------------------------------------

    async def listen(self, url: str) -> str:
        """Listen for peers; returns the address to give them, with the real port, and for ``culm://`` with the key.

        ``url``: ``culm://``, ``bushbaby://``, ``intervals://``, ``proposals://`` or ``negentropy://HOST:PORT``; port 0
        is any free one. ``ws://`` and ``wss://HOST:PORT`` are for web pages, and ``config.web`` says for which.
        ``ConfigError`` if the address cannot be used.
        """
        place = PeerUrl.parse(url, schemes=LISTENER_SCHEMES, may_be_zero=True)
        self._check_clump(place)
        return str(await self._engine.listen(place))

    async def connect(self, url: str, logs: Iterable[LogName] | RangesOf = (), *, how: How | None = None) -> None:
        """Stay connected to a peer until ``disconnect``: connect again whenever the connection ends.

        This does not wait for the connection; ``peers`` shows its state. Over ``intervals://`` and ``proposals://`` the
        node asks for the logs that it follows or has, because those protocols cannot list a peer's logs.

        ``logs`` and ``how`` are those of ``sync``, and hold for each connection. ``logs`` are then all that the node
        asks this peer for. ``how`` with ``newest`` asks for the newest entries at the beginning of each connection, and
        for all that is new while it lasts. None is what ``config`` says of this peer.

        ``ConfigError`` for options of another protocol, and if the peer is connected to by other ones: ``disconnect``
        first.
        """
        place = PeerUrl.parse(url)
        self._check_clump(place)
        check_how(how, place)
        asked = names.wanted_of(logs, self.author), how
        if place not in self._contacts:
            self._contacts[place] = _Kept(self._engine.contact(place, *asked), asked)
        elif self._contacts[place].asked != asked:
            raise ConfigError(f"the node connects to {url} already, and asks otherwise there: disconnect from it first")

    async def disconnect(self, url: str) -> None:
        """Close the connection to a peer and do not connect again; ``ConfigError`` if it was not connected to."""
        engine, place = self._engine, PeerUrl.parse(url)
        kept = self._contacts.pop(place, None)
        if kept is None:
            raise ConfigError(f"the node does not connect to {url}")
        kept.task.cancel()
        await asyncio.gather(kept.task, return_exceptions=True)
        engine.roster.troubles.pop(place, None)

    def peers(self) -> list[Peer]:
        """The peers that the node stays connected to, and whether it has reached them."""
        roster, config = self._engine.roster, self._engine.config
        connected = {contact.name for contact in roster.contacts()}
        return [
            Peer(str(url), config.for_peer(url)[1].name in connected, roster.troubles.get(url))
            for url in self._contacts
        ]

    def peer_events(self) -> PeerEvents:
        """What happens with peers from now on: ``async for event in node.peer_events()``, each a ``PeerEvent``.

        It tells of contacts, of callers, of refused ones, and of the node's own one-time calls (``sync``, ``fetch``). A
        program that does not read for a thousand events loses the oldest ones.
        """
        self._open  # noqa: B018 - raises if the node is closed
        events = PeerEvents()
        self._peer_events.add(events)
        return events

    # -- acknowledgements --------------------------------------------------------------------------------------------

    def held_by(self, log: LogName) -> list[Holding]:
        """What peers say, and have shown, that they hold of a log of the node's own, the latest news last.

        It is what they told since the node was opened: contacts, callers, and peers of ``sync``. With ``culm://`` a
        peer tells when it has stored what it wants, so ``complete`` is an acknowledgement. With other protocols only
        ``newest`` is known, as of the beginning of the connection. A peer can lie about all but ``shown``.

        ``ConfigError`` for a log of another author: peers tell the author alone.
        """
        return self._engine.held.of(self._own_log(log))

    async def until_held(self, entry: Entry, *, peers: int = 1) -> list[Holding]:
        """Wait until so many peers say that they hold the log from entry 1 to this one, with all payloads.

        Returns what they hold. Peers that want only a part of the log never say so; use ``asyncio.timeout``.
        ``ConfigError`` as for ``held_by``, and if the node closes meanwhile.
        """
        log, changed = self._own_log(names.checked(entry).log), asyncio.Event()
        self._waiters.add(changed)
        while True:
            found = [held for held in self.held_by(log) if held.complete >= entry.seq]
            if len(found) >= peers:
                return found
            changed.clear()
            await changed.wait()

    def _own_log(self, log: LogName) -> Log:
        author, log_id = names.log_of(log, self.author)
        if author != self.author:
            raise ConfigError(
                "peers tell what they hold of the node's own logs only, and this is a log of another author"
            )
        return author, log_id

    def _tell_of_peer(self, event: PeerEvent) -> None:
        for events in self._peer_events:
            events.take(event)

    async def sync(
        self,
        url: str,
        logs: Iterable[LogName] | RangesOf = (),
        *,
        how: How | None = None,
        progress: Callable[[SessionStats], None] = lambda _: None,
    ) -> SyncSummary:
        """Exchange once with a peer everything that both sides want of each other; returns the counts.

        ``logs`` are those to ask for this time, instead of what the node follows: names, or the ranges of each. None
        means what the node follows, and by ``intervals://`` and ``proposals://``, which cannot list a peer's logs, what
        it has besides. A ``Range`` can have sizes, leave out payloads or entries, forbid numbers, and name the
        certificates that are held already (``culm.ranges``). ``how`` is how to ask: ``FollowOptions`` with
        ``intervals://`` (the newest ones only or first, unverified entries, forks, an anchor), ``ProposalOptions`` with
        ``proposals://``. ``progress`` is called several times a second, with the counts so far.

        ``NetworkError`` if the peer cannot be reached or closes the connection. Everything received by then is kept,
        incomplete payloads too, so that the next call continues there. ``RemoteProtocolError`` if the peer breaks the
        protocol.
        """
        engine, place = self._engine, PeerUrl.parse(url)
        self._check_clump(place)
        wanted = names.wanted_of(logs, self.author)
        path = engine.worker.store.path
        kept = self._open.quarters.kept()
        return await syncing.exchange(
            self.identity, engine.config, path, place, wanted, how, progress, kept, engine.held, engine.roster.tell
        )

    async def fetch(
        self,
        url: str,
        entries: Iterable[EntryName] | RangesOf,
        *,
        progress: Callable[[SessionStats], None] = lambda _: None,
    ) -> Fetched:
        """Get single entries from a ``culm://`` or ``intervals://`` peer, with the path that verifies them.

        ``entries`` are entries, texts such as ``AUTHOR/LOG/3`` or ``AUTHOR/LOG/3..7``, or the ranges of each log.
        Payloads that were deleted (``forget``) are fetched again. What the node follows is left out of it. The result
        says what the peer does not have. Errors are as for ``sync``.
        """
        engine, place = self._engine, PeerUrl.parse(url, schemes=syncing.FETCHING)
        wanted = names.entries_of(entries, self.author)
        store = await asyncio.to_thread(SQLiteStore, engine.worker.store.path)
        try:
            return await syncing.fetch(self.identity, engine.config, store, place, wanted, progress, engine.roster.tell)
        finally:
            store.close()

    async def fetch_bytes(self, url: str, entry: Entry, first: int = 0, last: int | None = None) -> bytes:
        """The same as ``fetch_pieces``, at once. For parts that fit into memory."""
        return b"".join([piece async for piece in self.fetch_pieces(url, entry, first, last)])

    async def fetch_pieces(
        self, url: str, entry: Entry, first: int = 0, last: int | None = None
    ) -> AsyncGenerator[bytes]:
        """Get the bytes ``first`` to ``last`` (included; None: the last one) of a payload from a peer, piece by piece.

        **Nobody has checked them**, because the hash in the entry is over the whole payload. They are not kept. The
        store must have the entry: ``fetch`` gets it, also without its payload. Peers are those of ``fetch``. The peer
        sends as fast as the program takes; about a megabyte waits in between. A program that breaks the loop off calls
        ``aclose``, or uses ``contextlib.aclosing``, to end the connection at once.

        ``NotHeld`` if the store does not have the entry, or the peer not these bytes; ``ConfigError`` if the payload is
        shorter; ``PayloadMismatch``, at the end, if all of it was fetched, and is another one. ``NetworkError`` can
        come at any piece.
        """
        engine, place = self._engine, PeerUrl.parse(url, schemes=syncing.FETCHING)
        last = names.checked(entry).size - 1 if last is None else last
        store = await asyncio.to_thread(SQLiteStore, engine.worker.store.path, read_only=True)
        tell = engine.roster.tell
        pieces = syncing.read_pieces(self.identity, engine.config, store, place, entry, first, last, tell)
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        finally:
            store.close()

    def _check_clump(self, url: PeerUrl) -> None:
        if scheme_of(url).needs_clump and self._open.quarters.clump is None:
            raise ConfigError("bushbaby:// needs a clump: open the node with Node.open(..., clump=NAME)")

    # -- what to ask for ---------------------------------------------------------------------------------------------

    @property
    def following(self) -> Mapping[bytes | Log, RangeSet] | None:
        """The ranges of authors and logs that the node follows. None: nothing in particular, which means everything."""
        return self._engine.config.policy.interests

    async def follow(
        self,
        author: AuthorName,
        log_id: int | None = None,
        *,
        first: int = 1,
        last: int | None = None,
        sparse: bool = False,
        min_payload: int = 0,
        max_payload: int | None = None,
        add: bool = False,
    ) -> None:
        """Ask peers for an author's logs, or for one log, and from now on only for what the node follows.

        The node always asks for its own logs. ``log_id``: None means all logs of the author. ``first`` is the first
        entry's number. ``last`` is the last one's (None: no end). ``sparse``: only the entries on the shortest path of
        links between them. ``min_payload`` leaves out smaller payloads, but not their entries. ``max_payload`` does the
        same with larger ones; both are in bytes. ``add`` keeps the ranges that are followed already; else they are
        replaced.

        ``ConfigError`` if the numbers are not a range.
        """
        what = self._what(author, log_id)
        item = make_range(first, last, sparse=sparse, min_payload=min_payload, max_payload=max_payload)
        await self.change_policy(lambda policy: followed(policy, what, item, add=add))

    async def unfollow(self, author: AuthorName, log_id: int | None = None) -> None:
        """Stop asking for an author or log; its entries stay.

        ``log_id``: None means what ``follow`` was told of the author. ``ConfigError`` if the node does not follow that.
        """
        what = self._what(author, log_id)
        await self.change_policy(lambda policy: unfollowed(policy, what))

    def _what(self, author: AuthorName, log_id: int | None) -> bytes | Log:
        key = names.author_of(author)
        return key if log_id is None else names.log_of((key, log_id), self.author)

    async def follow_everything(self) -> None:
        """Forget all that the node follows: ask peers for everything, as a new node does."""
        await self.change_policy(lambda policy: replace(policy, interests=None))

    @property
    def policy(self) -> Policy:
        """The peers and authors that are allowed and blocked, what is followed, and what is shared."""
        return self._engine.config.policy

    async def change_policy(self, change: Callable[[Policy], Policy]) -> None:
        """Change the policy: ``change`` gets the present one and returns the new one. A home keeps it.

        For example ``lambda policy: replace(policy, block_peers=policy.block_peers | {key})``.
        """
        engine, quarters = self._engine, self._open.quarters
        if quarters.policies is None:
            await engine.change_policy(change(engine.config.policy))
            return
        file, clump = quarters.policies, quarters.clump or b""

        def changed() -> Policy:
            policy = change(quarters.adapt(file.load(clump)))
            file.save(clump, policy)
            return policy

        await engine.change_policy(await asyncio.to_thread(changed))


def _content(store: ReadableStore, stored: StoredEntry, offset: int, keyring: Keyring | None) -> Iterator[bytes]:
    """The payload from ``offset`` on, opened with the keyring; None leaves it as it is."""
    if keyring is None or not is_sealed(store.payload_slice(stored.id, 0, len(FIRST_LINE))):
        return store.payload(stored, offset)
    return skipped(opened(store.payload(stored), keyring), offset)


def _complete(store: ReadableStore, entry: Entry) -> StoredEntry:
    """The stored form of an entry whose payload is complete; ``NotHeld`` otherwise."""
    stored = store.get(entry.place)
    if stored is None or stored.entry != entry:
        raise NotHeld("the store does not have this entry")
    if not stored.payload_complete:
        raise NotHeld(f"the store has {stored.payload_held} of {entry.size} bytes of this payload")
    return stored
