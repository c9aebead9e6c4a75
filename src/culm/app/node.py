"""``Node``: a store, an identity, peers, and news, for a program that uses asyncio."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar
from weakref import WeakSet

from culm.app import names, opening, syncing
from culm.app.interests import followed, make_range, unfollowed
from culm.app.subscription import Subscription
from culm.bamboo import MAX_U64, Entry, ForkProof, Identity
from culm.errors import ConfigError, NotHeld, StoreError
from culm.node.config import NodeConfig
from culm.node.interests.choices import ChoicesWatch
from culm.node.network.urls import LISTENER_SCHEMES, SCHEMES
from culm.node.schemes import scheme_of
from culm.node.service import NodeService
from culm.node.storage.worker import StoreWorker
from culm.store import Position, SQLiteStore
from culm.wire.places import author_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from culm.app.names import AuthorName, LogName, Payload
    from culm.app.opening import Quarters
    from culm.node.interests.policy import Policy
    from culm.node.network.urls import PeerUrl
    from culm.node.sessions.stats import SessionStats
    from culm.node.sync import SyncSummary
    from culm.ranges import RangeSet
    from culm.store import LogSummary, NewsPage, ReadableStore, StoredEntry, ToolStore, VerifyReport
    from culm.store.values import Bytes
    from culm.types import Log

_PAGE = 256  # entries read at once
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer that contact is kept with. ``problem`` says what prevents it, if anything did the last time."""

    url: str
    connected: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class _Opened:
    """What an open node is made of. ``reader`` has a store of its own, so that reading waits for no writer."""

    quarters: Quarters
    engine: NodeService
    reader: StoreWorker
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
        self._contacts: dict[PeerUrl, asyncio.Task[None]] = {}
        self._subscriptions: WeakSet[Subscription] = WeakSet()  # one that nobody reads any more is gone

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
        None is ``$CULM_HOME``, or ``~/.culm``. With ``create`` it is made, with an identity, if it is not there.
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
        policy = await asyncio.to_thread(quarters.policy)
        store = await asyncio.to_thread(SQLiteStore, quarters.store)
        try:
            reader = StoreWorker(await asyncio.to_thread(SQLiteStore, quarters.store, read_only=True))
        except BaseException:
            store.close()
            raise
        config = replace(self._config, clump=quarters.clump or b"", policy=policy)
        engine = NodeService(quarters.identity, config, store)
        engine.watchers.add(self._tell_subscriptions)
        beside = None
        if quarters.policies is not None:
            watch = ChoicesWatch(quarters.policies, config.clump, quarters.adapt)
            watch.start()
            beside = partial(watch.run, engine.change_policy)
        running = asyncio.create_task(engine.run([], [], stop=self._stop, beside=beside))
        running.add_done_callback(self._end_subscriptions)
        self._opened = _Opened(quarters, engine, reader, running)
        return self

    async def close(self) -> None:
        """End all sessions and subscriptions, and close the store. Everything acknowledged is on the disk."""
        if self._opened is None or self._stop.is_set():
            return
        self._stop.set()
        self._end_subscriptions()
        reader, store = self._opened.reader, self._opened.engine.worker.store
        try:
            await self._opened.running
        finally:
            await reader.run(reader.store.close)  # behind all that is still to be read
            reader.close()
            store.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        """Whether the node has stopped, or was not opened yet."""
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
        """Ask the store, on the thread for reading."""
        reader = self._open.reader
        return await reader.run(function, reader.store, *args, **named)

    # -- who this is -----------------------------------------------------------------------------------------------

    @property
    def identity(self) -> Identity:
        """The identity that the node publishes and calls others with."""
        return self._open.quarters.identity

    @property
    def author(self) -> bytes:
        """The identity's public key (32 bytes): the author of what is appended."""
        return self.identity.public

    @property
    def name(self) -> str:
        """The author as text, 43 characters: to be told to others, who follow it."""
        return author_text(self.author)

    # -- writing -----------------------------------------------------------------------------------------------------

    async def append(self, log_id: int, payload: Payload | Iterable[Bytes], *, end: bool = False) -> Entry:
        """Publish the next entry of the node's own log, and tell the peers. When it returns, the disk has it.

        ``payload``: bytes; text, which becomes UTF-8; or an iterable of bytes of any length, which is read piece by
        piece in a thread. ``end`` ends the log for ever.

        ``AfterEndOfLog`` if the log has ended, ``ForkDetected`` if it is forked, ``StoreError`` if entries of it are
        held whose predecessors are missing (fetch them first: appending could fork the log).
        """
        return await self._engine.append(self.identity, log_id, names.pieces_of(payload), is_end=end)

    async def forget(self, entry: Entry) -> int:
        """Delete a payload to save space, keeping its entry; the bytes freed. It is not fetched again by itself.

        ``NotHeld`` if the entry is not held.
        """
        worker = self._engine.worker
        return await worker.run(worker.store.forget, entry.place)

    # -- reading -----------------------------------------------------------------------------------------------------

    async def logs(self) -> list[LogSummary]:
        """What is held of each log, by author and log id."""
        return await self._read(lambda store: list(store.logs()))

    async def entry(self, log: LogName, seq: int) -> Entry | None:
        """A verified entry by its number, or None."""
        author, log_id = names.log_of(log, self.author)
        page = await self._read(lambda store: list(islice(store.entries((author, log_id), seq, seq), 1)))
        return page[0].entry if page else None

    async def entries(self, log: LogName, *, first: int = 1, last: int | None = None) -> AsyncIterator[Entry]:
        """The verified entries of a log from ``first`` to ``last`` (None: to the newest), ascending."""
        which = names.log_of(log, self.author)
        found = await self._read(lambda store: store.entries(which, first, MAX_U64 if last is None else last))
        while page := await self._read(lambda _: list(islice(found, _PAGE))):
            for stored in page:
                yield stored.entry

    async def payload(self, entry: Entry) -> bytes:
        """An entry's payload, as a whole: for large ones there is ``payload_pieces``.

        ``NotHeld`` if the entry is not held, or not all of its payload (it may be on its way, forgotten, or not
        wanted).
        """
        return await self._read(lambda store: b"".join(store.payload(_complete(store, entry))))

    async def payload_pieces(self, entry: Entry, offset: int = 0) -> AsyncIterator[bytes]:
        """An entry's payload from byte ``offset`` on, in pieces of some ten thousand bytes. ``NotHeld`` as above."""
        pieces = await self._read(lambda store: store.payload(_complete(store, entry), offset))
        while piece := await self._read(lambda _: next(pieces, b"")):
            yield piece

    async def forks(self, log: LogName | None = None) -> list[ForkProof]:
        """The proofs that authors contradicted themselves, of one log or all; the lowest position of each log first.

        Entries before ``proof.position`` stay valid.
        """
        which = None if log is None else names.log_of(log, self.author)
        return await self._read(lambda store: list(store.fork_proofs(which)))

    async def verify(self, log: LogName | None = None) -> VerifyReport:
        """Check everything that is held, or one log, afresh from its bytes."""
        which = None if log is None else names.log_of(log, self.author)
        return await self._read(lambda store: store.verify(which))

    # -- news --------------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        what: AuthorName | LogName | None = None,
        *,
        since: str | None = None,
        with_payload: bool = False,
    ) -> Subscription:
        """Every entry that becomes verified, once each: ``async for entry in node.subscribe(...)``.

        ``what``: an author, a log, or None for everything. ``since``: None begins now, ``"0"`` with what is held, and
        the ``cursor`` of an earlier subscription where that one was. ``with_payload``: an entry comes when its payload
        is complete, not before; one whose payload is not wanted or was forgotten does not come.

        However slow the consumer is, it gets everything, and the node's memory stays as it is. What is invalid by the
        time it is read (a fork came to light) does not come. Iterating raises ``StoreError`` if the cursor is of
        another store.
        """
        author, log_id = names.what_of(what, self.author)
        worker = self._engine.worker
        start: Position | asyncio.Future[Position]
        # Behind the appends that were made before, ahead of those that come after this call.
        start = Position.parse(since) if since is not None else worker.submit(worker.store.latest)

        async def read(position: Position) -> NewsPage:
            return await self._read(
                lambda store: store.news(position, author=author, log_id=log_id, with_payload=with_payload, limit=_PAGE)
            )

        subscription = Subscription(read, start)
        self._subscriptions.add(subscription)
        return subscription

    def _end_subscriptions(self, _: object = None) -> None:
        for subscription in self._subscriptions:
            subscription.close()

    def _tell_subscriptions(self) -> None:
        for subscription in self._subscriptions:
            subscription.store_changed()

    # -- peers -------------------------------------------------------------------------------------------------------

    async def listen(self, url: str) -> str:
        """Listen for peers; the address to tell them, with the port, and with ``culm://`` the key.

        ``culm://``, ``bushbaby://``, ``intervals://``, ``proposals://`` or ``negentropy://HOST:PORT``; port 0 is any
        free one. ``ConfigError`` if that cannot be listened at.
        """
        place = names.url_of(url, LISTENER_SCHEMES, may_be_zero=True)
        self._check_clump(place)
        return str(await self._engine.listen(place))

    async def connect(self, url: str) -> None:
        """Keep contact with a peer until ``disconnect``: call it again whenever the connection ends.

        It does not wait until the peer is reached; ``peers`` says what is. Over ``intervals://`` and ``proposals://``
        the logs that are followed or held are asked for, as those protocols cannot list logs.
        """
        place = names.url_of(url, SCHEMES)
        self._check_clump(place)
        if place not in self._contacts:
            self._contacts[place] = self._engine.contact(place)

    async def disconnect(self, url: str) -> None:
        """Keep contact with a peer no longer; ``ConfigError`` if there was none to keep."""
        engine, place = self._engine, names.url_of(url, SCHEMES)
        task = self._contacts.pop(place, None)
        if task is None:
            raise ConfigError(f"the node does not connect to {url}")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        engine.roster.troubles.pop(place, None)

    def peers(self) -> list[Peer]:
        """The peers that contact is kept with."""
        roster, config = self._engine.roster, self._engine.config
        connected = {contact.name for contact in roster.contacts()}
        return [
            Peer(str(url), config.for_peer(url)[1].name in connected, roster.troubles.get(url))
            for url in self._contacts
        ]

    async def sync(
        self,
        url: str,
        logs: Iterable[LogName] = (),
        *,
        progress: Callable[[SessionStats], None] = lambda _: None,
    ) -> SyncSummary:
        """Exchange with a peer, once, everything that both sides want of each other; what was done.

        ``logs`` are those to ask an ``intervals://`` or ``proposals://`` peer for (none: those followed or held).
        ``progress`` is called several times a second, with the counts so far.

        ``NetworkError`` if the peer cannot be reached or goes away: what has come by then stays, payloads to the
        byte, and the next call goes on there. ``RemoteProtocolError`` if it breaks the rules.
        """
        engine, place = self._engine, names.url_of(url, SCHEMES)
        self._check_clump(place)
        asked = [names.log_of(log, self.author) for log in logs]
        return await syncing.exchange(self.identity, engine.config, engine.worker.store.path, place, asked, progress)

    def _check_clump(self, url: PeerUrl) -> None:
        if scheme_of(url).needs_clump and self._open.quarters.clump is None:
            raise ConfigError("bushbaby:// needs a clump: open the node with Node.open(..., clump=NAME)")

    # -- what to ask for ---------------------------------------------------------------------------------------------

    @property
    def following(self) -> Mapping[bytes | Log, RangeSet] | None:
        """What is followed: ranges of authors and logs. None: nothing in particular, so everything is asked for."""
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
        """Ask peers for an author's logs, or for one log; and from now on for nothing that is not followed.

        ``first`` to ``last`` (None: whatever comes) are entry numbers. ``sparse``: only the shortest path of entries
        between them. ``min_payload`` and ``max_payload``, in bytes and included, leave out the payloads of other
        sizes; their entries come. ``add``: besides what is followed of it already, not in its place. The node's own
        logs are asked for in any case.

        ``ConfigError`` if the numbers make no range.
        """
        key = names.author_of(author)
        what = key if log_id is None else names.log_of((key, log_id), self.author)
        item = make_range(first, last, sparse=sparse, min_payload=min_payload, max_payload=max_payload)
        await self._choose(lambda policy: followed(policy, what, item, add=add))

    async def unfollow(self, author: AuthorName, log_id: int | None = None) -> None:
        """Ask for that no longer; what is held stays. ``ConfigError`` if it was not followed."""
        key = names.author_of(author)
        what = key if log_id is None else names.log_of((key, log_id), self.author)
        await self._choose(lambda policy: unfollowed(policy, what))

    async def follow_everything(self) -> None:
        """Follow nothing in particular: ask for everything, as a new node does."""
        await self._choose(lambda policy: replace(policy, interests=None))

    @property
    def policy(self) -> Policy:
        """Whom the node talks to, what it takes and what it gives."""
        return self._engine.config.policy

    async def change_policy(self, change: Callable[[Policy], Policy]) -> None:
        """Make other choices: ``change`` gets those there are, and returns what is to be.

        As in ``lambda policy: replace(policy, block_peers=policy.block_peers | {key})``. A home keeps them.
        """
        await self._choose(change)

    async def _choose(self, change: Callable[[Policy], Policy]) -> None:
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


def _complete(store: ReadableStore, entry: Entry) -> StoredEntry:
    """The entry as it is held with its payload."""
    stored = store.get(entry.place)
    if stored is None or stored.entry != entry:
        raise NotHeld("the store does not have this entry")
    if not stored.payload_complete:
        raise NotHeld(f"the store has {stored.payload_held} of {entry.size} bytes of this payload")
    return stored
