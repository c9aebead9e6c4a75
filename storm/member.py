"""A node of the world, through its restarts: its machine, its disk, its store, its choices."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from culm.bamboo import Identity
from culm.errors import StoreError
from culm.node.config import NodeConfig
from culm.node.interests.policy import Policy
from culm.node.interests.quotas import AUTHOR_BYTES
from culm.node.network.urls import PeerUrl
from culm.node.roster import Roster
from culm.node.service import NodeService
from culm.node.sessions.session import Session
from culm.node.settings.reading import defaults, limits_of, read_limits
from culm.node.sharing.kept import KeptPeers
from culm.node.storage.source import sizes_in
from culm.node.surroundings import Surroundings
from culm.store import SQLiteStore, ToolStore
from culm.testing.simulation.disk import Disk, Image, lay_out
from culm.testing.simulation.host import Host
from culm.types import Log
from storm.pages import AnyAddress
from storm.watch import StoreWatch

if TYPE_CHECKING:
    from storm.plan import NodePlan
    from storm.world import World

PORTS = {"culm": 7001, "bushbaby": 7002, "intervals": 7003, "proposals": 7004, "negentropy": 7005, "ws": 7006}
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_STARTED = 1_700_000_000.0  # Seconds since 1970 when a world begins.
_PEERS = "peers.json"


@dataclass(slots=True)
class WatchedRoster(Roster):
    """A roster that also passes on how each session ends, with the error itself: ``told`` gets session, name, error."""

    told: Callable[[Session[Any], str, BaseException | None], None] = lambda _session, _name, _error: None

    def ended(self, session: Session[Any], error: BaseException | None) -> None:
        """A session has ended."""
        name = next((item.name for item in self.contacts() if item.stats is session.stats), "")
        Roster.ended(self, session, error)  # super() does not know a class with slots
        self.told(session, f"{session.scheme} with {name}", error)


class Member:
    """One node. ``host`` is the machine that it runs on now, ``nodes`` what runs there, by clump; none while down."""

    def __init__(self, world: World, plan: NodePlan, policy: Policy) -> None:
        self.world = world
        self.plan = plan
        self.name = "abcde"[plan.number]
        self.address = f"10.0.0.{plan.number + 1}"
        self.identity = Identity(bytes([plan.number + 1]) * 32)
        self.policy = policy
        self.peers: dict[bytes, list[PeerUrl]] = {clump: [] for clump in plan.clumps}
        self.weighed_at_first: dict[bytes, dict[bytes, int]] = {}  # What others took in each clump, as quotas count.
        self.takes_by_hand = False  # A person has taken something besides: quotas are for nodes that run.
        self.held_at_calm: dict[Log, list[int]] = {}  # payloads, when nothing was in the way any more
        self.random = world.plan.random(f"node {self.name}")
        self.lives = 0
        self.watch = StoreWatch(world.ledger, lambda text: world.fail(f"{self.name}: {text}"))
        self.folder = self._new_folder()
        self.host: Host | None = None
        self.nodes: dict[bytes, NodeService] = {}
        self._works: dict[asyncio.Task[Any], None] = {}  # of this life
        self._choosing = asyncio.Lock()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return self.name

    def _new_folder(self) -> Path:
        self.lives += 1
        folder = self.world.folder / f"{self.name}{self.lives}"
        folder.mkdir()
        return folder

    @property
    def store_path(self) -> Path:
        """The store's file."""
        return self.folder / "store.db"

    @property
    def disk(self) -> Disk:
        """The disk of a node that is up."""
        assert self.host is not None and self.host.disk is not None  # noqa: PT018 - a member's host has one
        return self.host.disk

    @property
    def is_up(self) -> bool:
        """Whether the node runs."""
        return bool(self.nodes)

    def url(self, scheme: str, clump: bytes) -> PeerUrl:
        """Where it listens in one of its clumps."""
        return PeerUrl(scheme, self.address, port(scheme, clump), self.identity.public if scheme == "culm" else None)

    def weighed(self) -> dict[bytes, dict[bytes, int]]:
        """What each other author's logs take in each clump, as quotas count it."""
        sizes = {clump: sizes_in(self.store_path, clump) for clump in self.plan.clumps}
        own = self.policy.own
        return {
            clump: {author: size + AUTHOR_BYTES for author, size in of.items() if author not in own}
            for clump, of in sizes.items()
        }

    def config(self, clump: bytes) -> NodeConfig:
        """What the node of a clump is told."""
        plan, host = self.plan, self.host
        assert host is not None
        given = read_limits(f"{name}={value}" for name, value in plan.limits.items())
        limits, protocol_limits = limits_of(defaults().with_values(given, "plan"))
        return NodeConfig(
            clump,
            dialect=plan.dialect,
            wait_for_hello=plan.wait_for_hello,
            stateless=plan.stateless,
            relay=plan.relay,
            quotas=plan.quotas,
            limits=limits,
            protocol_limits=protocol_limits,
            policy=self.policy,
            interval=plan.interval,
            proposals=plan.proposals,
            download=plan.download,
            upload=plan.upload,
            web=AnyAddress(exchange=True),
            surroundings=Surroundings(
                collect=lambda: None,  # that depends on what ran before
                secret_bytes=self.random.randbytes,
                chance=self.random.random,
                thread=host.thread,
                threads=host.thread,
                spent=lambda: 0.0,
                look_seconds=_LOOK_SECONDS,
                written=lambda _: None,
            ),
        )

    def everything_is_safe(self) -> None:
        """What was done last is on the disk for sure, and so is what was done before."""
        self.disk.everything_is_safe()
        self.watch.everything_is_safe()

    async def change_policy(self, policy: Policy) -> None:
        """Make other choices, which outlive the node."""
        self.policy = policy
        async with self._choosing:  # one after the other, as whoever reads a file with choices does
            if self.is_up:
                host = self.host
                try:
                    for clump in self.plan.clumps:
                        if self.host is host and self.is_up:
                            await self.on_host(lambda node: node.change_policy(policy), clump)
                except StoreError:
                    if self.host is host and not self._stop.is_set():
                        raise  # else the node has ended over it

    # -- up ----------------------------------------------------------------------------------------------------

    def start_again(self) -> None:
        """Start the node unless it runs."""
        if self.host is None:
            self.start()

    def mend(self) -> None:
        """Nothing is wrong with its machine any more."""
        self.start_again()
        assert self.host is not None
        if self.host.is_frozen:
            self.host.thaw()
        _mend(self.host)

    def start(self) -> None:
        """Start the machine, and on it the node, as soon as its store opens."""
        world = self.world
        disk = Disk(self.folder, self.random, lambda kind: world.counts.update([f"disk: {kind}"]))
        look = partial(self._watching, self.watch.look)
        self.host = Host(world.loop, self.name, self.address, disk, self.random, look)
        world.network.add(self.host)
        self._stop = asyncio.Event()
        self._running = self.host.start(self._run(self.host, self._stop))

    async def _run(self, host: Host, stop: asyncio.Event) -> None:
        world = self.world
        stores: list[ToolStore] = []
        try:
            while len(stores) < len(self.plan.clumps):
                stores.append(await self._open(host))
            if host.is_gone:
                return
            self._watching(partial(self.watch.open, self.store_path))
            for clump, store in zip(self.plan.clumps, stores, strict=True):
                self.nodes[clump] = self._service(clump, store)
            world.note(f"{self.name} is up")
            async with asyncio.TaskGroup() as group:
                for clump, node in self.nodes.items():
                    group.create_task(node.run(self._listeners(clump), self.peers[clump], stop=stop))
        except Exception as error:  # noqa: BLE001 - no node is to end by itself
            if not host.is_gone:
                world.fail(f"{self.name} ended: {error!r}", error)
        finally:
            for store in stores:
                await asyncio.to_thread(store.close)

    async def _open(self, host: Host) -> ToolStore:
        while True:
            try:
                return await asyncio.to_thread(SQLiteStore, self.store_path, max_waiting_entries=self.plan.waiting_room)
            except StoreError as error:
                self.world.note(f"{self.name} cannot start: {error}")
                if host.disk is None or host.disk.room is None:
                    self.world.fail(f"{self.name} cannot open its store: {error}")
                await asyncio.sleep(_RETRY_SECONDS)

    def _service(self, clump: bytes, store: ToolStore) -> NodeService:
        kept = KeptPeers(self.folder / _PEERS, self._wall) if self.plan.keeps_peers else None
        node = NodeService(self.identity, self.config(clump), store, kept)
        node.roster = WatchedRoster(node.roster.me, node.roster.store_path, told=self._session_ended)
        return node

    def _wall(self) -> float:
        return _STARTED + self.world.loop.time()

    def _listeners(self, clump: bytes) -> list[PeerUrl]:
        schemes = [*self.plan.listens, *(["ws"] if self.world.plan.serves_pages else [])]
        return [PeerUrl(scheme, self.address, port(scheme, clump)) for scheme in schemes]

    def _watching(self, look: Callable[[], None]) -> None:
        try:
            look()
        except Exception as error:  # noqa: BLE001 - it must not look as if the node had failed
            self.world.fail(f"{self.name}: looking into the store: {error!r}", error)

    def _session_ended(self, session: Session[Any], name: str, error: BaseException | None) -> None:
        self.world.counts[f"entries that came by {session.scheme}"] += session.stats.entries_received
        self.world.session_ended(self, name, error)

    # -- down --------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """End the node in order."""
        host, running = self.host, self._running
        assert host is not None and running is not None  # noqa: PT018 - it is up
        self._stop.set()
        await asyncio.wait([running])
        if not host.is_gone:
            self._leave(host, silently=False)

    def crash(self, image: Image, *, silently: bool) -> None:
        """The machine, or only the program, is gone at once; ``image`` is how its disk is found."""
        host, running, old = self.host, self._running, self.folder
        assert host is not None and running is not None  # noqa: PT018 - it is up
        self._leave(host, silently=silently)
        # What runs there is not real any more. It is made to end, in a folder that nobody looks into.
        host.thaw()
        for work in (running, *self._works):
            work.cancel()
        running.add_done_callback(lambda _: shutil.rmtree(old, ignore_errors=True))
        self.folder = self._new_folder()
        lay_out(self.folder, image)
        if (old / _PEERS).exists() and self.lives % 2:  # The file is replaced as a whole, so there is it, or none.
            shutil.copy(old / _PEERS, self.folder / _PEERS)
            self.world.counts["restart with what was known of peers"] += 1

    def _leave(self, host: Host, *, silently: bool) -> None:
        host.is_gone = True
        _mend(host)
        self.world.network.remove(host, silently=silently)
        self.watch.close()
        self.host = self._running = None
        self.nodes = {}

    async def on_host(self, work: Callable[[NodeService], Any], clump: bytes | None = None) -> Any:
        """Do something with the node of a clump as a part of its program; ``work`` gives what to wait for."""
        host = self.host
        assert host is not None
        node = self.nodes[clump or self.plan.clumps[0]]

        async def do() -> Any:
            return await work(node)

        task = host.start(do())
        self._works[task] = None
        task.add_done_callback(self._works.pop)
        return await task


def port(scheme: str, clump: bytes) -> int:
    """Where nodes of a clump listen."""
    return PORTS[scheme] + 10 * (clump != b"storm")


def _mend(host: Host) -> None:
    """Nothing is wrong with a machine and its disk any more."""
    host.sloth = 1.0
    if host.disk is not None:
        host.disk.room, host.disk.flaws = None, 0.0
        host.disk.live_on()
