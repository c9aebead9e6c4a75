"""What can happen in a storm. An action chooses by itself whom it is about, and ends with what it brought over them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from culm.app.syncing import exchange
from culm.bamboo import MAX_U64, Entry, Identity
from culm.errors import CulmError, LocalProtocolError, Place
from culm.intervals import Forks
from culm.node.asking import How, Wanted
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.intervals.followed import FollowOptions
from culm.node.negentropy.comparison import compare
from culm.node.network.transport import connect
from culm.node.network.urls import PeerUrl
from culm.node.proposals.options import ProposalOptions
from culm.node.service import NodeService
from culm.ranges import RangeSet
from culm.store import SQLiteStore, Store, View
from culm.store.opening import open_database
from culm.testing.simulation.disk import Image
from culm.testing.simulation.host import Host
from culm.testing.simulation.network import FATES
from culm.types import Log
from storm.content import all_logs, author_identity, make_payload, some_range
from storm.ledger import log_name
from storm.member import PORTS, Member
from storm.pages import Page
from storm.telling import wishes

if TYPE_CHECKING:
    from storm.world import World

_SYNC_SECONDS = 25.0


class NotNow(Exception):
    """There is nobody whom it could happen to."""


def one_up(world: World, random: Random) -> Member:
    """A node that runs."""
    up = [member for member in world.members if member.is_up]
    if not up:
        raise NotNow
    return random.choice(up)


def two_up(world: World, random: Random) -> tuple[Member, Member]:
    """Two nodes that run."""
    up = [member for member in world.members if member.is_up]
    if len(up) < 2:
        raise NotNow
    one, other = random.sample(up, 2)
    return one, other


# -- authors and readers ---------------------------------------------------------------------------------------------


def _author(world: World, random: Random) -> tuple[Member, Identity, int]:
    """Somebody who publishes: the node, the identity, the log's id."""
    author = random.choice(world.plan.authors)
    member = world.members[random.choice(author.homes)]
    if not member.is_up:
        raise NotNow
    return member, author_identity(author.number), random.choice(author.logs)


def _short(place: Place) -> str:
    return f"{place.author.hex()[:6]}/{place.log_id}/{place.seq}"


async def append(world: World, random: Random, *, is_end: bool = False, elsewhere: bool = False) -> None:
    """An author publishes. ``is_end``: and ends the log. ``elsewhere``: by another program, into the node's store."""
    member, identity, log_id = _author(world, random)
    payload = world.ledger.publish(make_payload(world.plan, random))
    host = member.host

    def from_outside() -> Any:
        with SQLiteStore(member.store_path) as store:
            return store.append(identity, log_id, [payload], is_end=is_end)

    try:
        if elsewhere:
            entry = await member.on_host(lambda _: asyncio.to_thread(from_outside))
        else:
            entry = await member.on_host(lambda node: node.append(identity, log_id, [payload], is_end=is_end))
    except CulmError as error:
        world.happened(f"append: {type(error).__name__}", f"{member} cannot append: {error}")
        return
    if member.host is host:
        place = f"{identity.public.hex()[:6]}/{log_id}/{entry.seq}"
        world.happened("append", f"{member} appended {place}, {entry.size} bytes")
        member.everything_is_safe()


async def forget(world: World, random: Random) -> None:
    """Somebody frees space."""
    member = one_up(world, random)
    place, digests = _one_payload(world, random, member.watch.complete())
    member.watch.may_forget(digests)
    if await _told(world, member, "forget", lambda store: store.forget(place)):
        world.happened("payload forgotten", f"{member} forgot the payload of {_short(place)}")
        member.everything_is_safe()


async def want_again(world: World, random: Random) -> None:
    """Somebody wants a payload again that was forgotten."""
    member = one_up(world, random)
    place, digests = _one_payload(world, random, member.watch.forgotten())
    member.watch.may_want_again(digests)
    if await _told(world, member, "want again", lambda store: store.want_again(place)):
        world.happened("payload wanted again", f"{member} wants the payload of {_short(place)} again")
        member.everything_is_safe()


def _one_payload(world: World, random: Random, entries: list[Entry]) -> tuple[Place, list[bytes]]:
    """One of some entries: its place, and the hashes of all that were published there."""
    if not entries:
        raise NotNow
    place = random.choice(entries).place
    return place, [digest for digest, entry in world.ledger.entries.items() if entry.place == place]


async def _told(world: World, member: Member, what: str, say: Callable[[Store], object]) -> bool:
    """Have a node's store do something; whether it did, and its machine is still the one that was told."""
    host = member.host
    try:
        await member.on_host(lambda node: node.worker.run(say, node.worker.store))
    except CulmError as error:
        world.note(f"{member} cannot {what}: {error}")
        return False
    return member.host is host


# -- choices ---------------------------------------------------------------------------------------------------------


async def choose(world: World, random: Random, what: str, change: Callable[[Policy, Log], Policy | None]) -> None:
    """Somebody makes another choice; ``change`` gets the present policy and any log, and None means that it cannot."""
    member = one_up(world, random)
    log = random.choice(all_logs(world.plan))
    policy = change(member.policy, log)
    if policy is None:
        raise NotNow
    world.happened(what, f"{member}: {what}: {wishes(policy)}")
    await member.change_policy(policy)


async def follow(world: World, random: Random) -> None:
    """Somebody follows a log, or an author; who followed nothing in particular follows only that from then on."""
    ranges = EVERYTHING if random.random() < 0.5 else RangeSet([some_range(random)])

    def change(policy: Policy, log: Log) -> Policy:
        what: bytes | Log = log if random.random() < 0.7 else log[0]
        return replace(policy, interests={**(policy.interests or {}), what: ranges})

    await choose(world, random, "follow", change)


async def unfollow(world: World, random: Random) -> None:
    """Somebody follows something no longer, or nothing in particular."""

    def change(policy: Policy, _: Log) -> Policy | None:
        if not policy.interests:
            return None
        interests = dict(policy.interests)
        del interests[random.choice(list(interests))]
        return replace(policy, interests=interests or None)

    await choose(world, random, "unfollow", change)


def _block(policy: Policy, log: Log) -> Policy:
    return replace(policy, block_authors=policy.block_authors | {log[0]})


def _unblock(policy: Policy, log: Log) -> Policy | None:
    return replace(policy, block_authors=policy.block_authors - {log[0]}) if log[0] in policy.block_authors else None


def _unshare(policy: Policy, log: Log) -> Policy:
    return replace(policy, unshared=policy.unshared | {log})


def _share(policy: Policy, log: Log) -> Policy | None:
    return replace(policy, unshared=policy.unshared - {log}) if log in policy.unshared else None


async def share_in_a_clump(world: World, random: Random) -> None:
    """Somebody has a log served in one more clump, or in every one; their own in one alone, if it was in every one."""
    member = one_up(world, random)
    if not member.watch.logs:
        raise NotNow
    log = random.choice(list(member.watch.logs))
    clump = random.choice((None, *member.plan.clumps))
    member.takes_by_hand = True
    if clump is None:
        member.watch.everywhere.add(log)
    world.ledger.clumps[log].update(member.plan.clumps if clump is None else [clump])
    if await _told(world, member, "share", lambda store: store.share(log, clump)):
        where = "every clump" if clump is None else clump.decode()
        world.happened("share in a clump", f"{member} has {log_name(log)} served in {where}")
        member.everything_is_safe()


# -- the network -----------------------------------------------------------------------------------------------------


async def disturb(world: World, random: Random) -> None:
    """Something befalls a connection."""
    world.network.disturb(random.choice(FATES))


async def cut_off(world: World, random: Random) -> None:
    """Two nodes do not reach each other for a while."""
    one, other = two_up(world, random)
    world.happened("hosts cut off", f"{one} and {other} are cut off from each other")
    world.network.cut_off(one.address, other.address)
    await world.sleep(random.uniform(1.0, 12.0))
    world.note(f"{one} and {other} reach each other again")
    world.network.join(one.address, other.address)


def _some_url(caller: Member, callee: Member, clumps: Sequence[bytes], random: Random) -> tuple[bytes, PeerUrl]:
    """One of these clumps, and where the callee listens in it by a protocol that the caller understands."""
    schemes = [scheme for scheme in callee.plan.listens if scheme != "negentropy"]
    if caller.plan.dialect and callee.plan.dialect not in (None, caller.plan.dialect):
        schemes = [scheme for scheme in schemes if scheme != "bushbaby"]
    clumps = [clump for clump in callee.plan.clumps if clump in clumps]
    if not (schemes and clumps):
        raise NotNow
    clump = random.choice(clumps)
    return clump, callee.url(random.choice(schemes), clump)


async def call(world: World, random: Random) -> None:
    """A node makes contact with one more peer, for a while."""
    caller, callee = two_up(world, random)
    clump, url = _some_url(caller, callee, caller.plan.clumps, random)
    world.happened("another contact", f"{caller} contacts {url.scheme}://{callee}, too")

    async def contact(node: NodeService) -> asyncio.Task[None]:
        return node.contact(url)

    task = await caller.on_host(contact, clump)
    await world.sleep(random.uniform(1.0, 10.0))
    task.cancel()


async def stranger(world: World, random: Random) -> None:
    """Somebody calls who is no peer: says nothing, or nonsense, or the beginning of something."""
    member = one_up(world, random)
    if not member.plan.listens:
        raise NotNow
    scheme = random.choice(member.plan.listens)
    data = random.choice((b"", random.randbytes(1), random.randbytes(200), b"\0" * 60, b"\x16\x03\x01\x02\0\x01\0"))
    host = Host(world.loop, "stranger", f"10.8.0.{random.randrange(1, 4)}", None, random)
    world.network.add(host)
    world.happened("strangers", f"a stranger calls {scheme}://{member} with {len(data)} bytes")

    async def talk() -> None:
        try:
            async with asyncio.timeout(20):
                reader, writer = await asyncio.open_connection(member.address, PORTS[scheme])
                with closing(writer):
                    writer.write(data)
                    if random.random() < 0.3:
                        writer.write_eof()
                    elif random.random() < 0.3:
                        await asyncio.sleep(random.uniform(0.1, 6.0))
                        writer.close()
                    while await reader.read(1000):
                        pass
        except OSError:
            pass

    await host.start(talk())


async def page(world: World, random: Random) -> None:
    """A web page reads a log of a node for a while."""
    member = one_up(world, random)
    clump, log = random.choice(member.plan.clumps), random.choice(all_logs(world.plan))
    host = Host(world.loop, "page", f"10.7.0.{random.randrange(1, 4)}", None, random)
    world.network.add(host)
    world.happened("pages", f"a page reads {log_name(log)} from {member}")
    reading = host.start(Page(world, member.url("ws", clump), log).read())
    await world.sleep(random.uniform(1.0, 12.0))
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


# -- machines --------------------------------------------------------------------------------------------------------


async def sleep(world: World, random: Random) -> None:
    """A machine sleeps; when it wakes up, its clock has jumped."""
    host = one_up(world, random).host
    assert host is not None
    if host.is_frozen:
        raise NotNow
    world.happened("clock jumps", f"{host} falls asleep")
    host.freeze()
    await world.sleep(random.uniform(0.5, 15.0))
    world.note(f"{host} wakes up")
    host.thaw()


async def _crash(world: World, random: Random, member: Member, image: Image, what: str, *, silently: bool) -> None:
    world.happened(what, f"{member}: {what}{', and nobody is told' if silently else ''}")
    member.crash(image, silently=silently)
    await world.sleep(random.uniform(0.1, 5.0))
    member.start_again()


async def kill(world: World, random: Random) -> None:
    """A program is killed, between two writes, and started again."""
    member = one_up(world, random)
    await _crash(world, random, member, member.disk.image(), "restart: killed", silently=random.random() < 0.3)


async def kill_within_a_write(world: World, random: Random) -> None:
    """A program is killed while it writes to its store."""
    member = one_up(world, random)
    died = asyncio.Event()

    def last_words(image: Image) -> None:
        what = "restart: killed within a write"
        world.happened(what, f"{member}: {what}")
        member.crash(image, silently=False)
        died.set()

    disk = member.disk
    disk.die_within_a_write(last_words)
    try:
        async with asyncio.timeout(random.uniform(1.0, 4.0)):
            await died.wait()
    except TimeoutError:
        disk.live_on()
        raise NotNow from None
    await world.sleep(random.uniform(0.1, 5.0))
    member.start_again()


async def power_cut(world: World, random: Random) -> None:
    """A machine loses its power, and what was not on its disk for sure."""
    member = one_up(world, random)
    image = member.disk.image_after_power_cut()
    member.watch.power_cut()
    await _crash(world, random, member, image, "restart: power cut", silently=True)


async def stop(world: World, random: Random) -> None:
    """A node is ended, and started again."""
    member = one_up(world, random)
    host = member.host
    world.happened("restart: stopped", f"{member} is stopped")
    await member.stop()
    if member.host is None and host is not None:
        await world.sleep(random.uniform(0.1, 5.0))
        member.start_again()


async def fill_the_disk(world: World, random: Random) -> None:
    """A disk is full, or nearly, until there is room again."""
    member = one_up(world, random)
    disk = member.disk
    disk.fill()
    world.happened("disk: filled", f"the disk of {member} is full beyond {disk.room} bytes, {disk.written} are used")
    await world.sleep(random.uniform(1.0, 8.0))
    disk.room = None
    world.note(f"the disk of {member} has room again")


async def bad_disk(world: World, random: Random) -> None:
    """Some writes fail."""
    member = one_up(world, random)
    disk = member.disk
    disk.flaws = random.uniform(0.05, 0.6)
    world.happened("disk: writes fail", f"writes of {member} fail, {disk.flaws:.0%} of them")
    await world.sleep(random.uniform(1.0, 5.0))
    disk.flaws = 0.0


async def slow_disk(world: World, random: Random) -> None:
    """A disk takes its time."""
    host = one_up(world, random).host
    assert host is not None
    world.happened("disk: slow", f"the disk of {host} is slow")
    host.sloth = random.choice((10.0, 100.0))
    await world.sleep(random.uniform(1.0, 5.0))
    host.sloth = 1.0


async def fold(world: World, random: Random) -> None:
    """The WAL file is folded back into the store's file."""
    member = one_up(world, random)

    def fold_now() -> None:
        with closing(open_database(member.store_path)) as database:
            database.fold()

    try:
        await member.on_host(lambda _: asyncio.to_thread(fold_now))
    except CulmError as error:
        world.note(f"{member} cannot fold: {error}")
        return
    world.happened("WAL file folded", f"{member} folded its WAL file")


# -- what people do once ---------------------------------------------------------------------------------------------


async def sync(world: World, random: Random) -> None:
    """Somebody exchanges with a peer once, beside the node that runs, and perhaps in a clump where that is not."""
    caller, callee = two_up(world, random)
    clump, url = _some_url(caller, callee, callee.plan.clumps, random)
    config = caller.config(clump)
    for log in all_logs(world.plan):  # What is served in every clump comes with the node into this one, too.
        if {log, log[0]} & caller.watch.everywhere and caller.watch.serves(log, clump):
            world.ledger.clumps[log].add(clump)
    caller.takes_by_hand = True
    wanted, how = _how(caller, url.scheme, random)
    path, what = caller.store_path, f"{caller}: sync with {url.scheme}://{callee}"

    async def exchange_all(_: Any) -> Any:
        async with asyncio.timeout(_SYNC_SECONDS):
            return await exchange(caller.identity, config, path, url, wanted, how, lambda _: None)

    try:
        summary = await caller.on_host(exchange_all)
    except LocalProtocolError:
        raise  # Nobody but we can have done that.
    except (CulmError, TimeoutError) as error:
        world.happened(f"sync: {type(error).__name__}", f"{what}: {error!r}")
        return
    if how is not None:
        world.happened(f"sync: {type(how).__name__}", f"{what}: {how}")
    world.happened("sync: done", f"{what}: {summary.entries_received} came, {summary.entries_sent} went")


def _how(caller: Member, scheme: str, random: Random) -> tuple[Wanted, How | None]:
    """How to ask, where that can be said, and for what: an anchor is an entry of one log."""
    if scheme == "proposals":
        sizes = random.choice((0, 0, 40)), random.choice((MAX_U64, MAX_U64, 2000))
        above = random.choice((None, None, 100))
        notify_only = random.random() < 0.2
        return {}, ProposalOptions(*sizes, random.random() < 0.6, notify_only=notify_only, notify_above=above)
    if scheme != "intervals":
        return {}, None
    how = FollowOptions(
        verified=random.random() < 0.6,
        forks=random.choice(list(Forks)),
        newest=random.choice((None, None, 1, 5)),
        newest_first=random.random() < 0.3,
    )
    logs = [(log, seen) for log, seen in caller.watch.logs.items() if seen.verified]
    if not logs or random.random() < 0.3:
        return {}, how
    log, seen = random.choice(logs)
    seq = random.choice(list(seen.verified))
    anchor = seq, caller.world.ledger.entries[seen.verified[seq][0]].hash
    return {log: None}, replace(how, forks=Forks.LOCAL, anchor=anchor)


async def compare_stores(world: World, random: Random) -> None:
    """Somebody compares their store with a peer's."""
    caller, callee = two_up(world, random)
    if "negentropy" not in callee.plan.listens:
        raise NotNow
    view = random.choice(list(View))
    path, url = caller.store_path, callee.url("negentropy", random.choice(callee.plan.clumps))

    async def compare_now(_: Any) -> Any:
        reader, writer = await connect(url)
        with closing(writer), SQLiteStore(path, read_only=True) as store:
            return await compare(store, view, (reader, writer))

    try:
        found = await caller.on_host(compare_now)
    except CulmError as error:
        world.happened(f"compare: {type(error).__name__}", f"{caller} compares with {callee}: {error}")
        return
    if found is None:  # which is how a peer that knows no views answers
        world.happened("compare: ended", f"{caller} compares with {callee}: it went instead of naming the view")
        return
    differ = f"{len(found.have)} and {len(found.need)} differ"
    world.happened("compare: done", f"{caller} and {callee}: {view.value}: {differ}")


# Each action with its weight: how often it happens beside the others. Storms have moods: see ``storm.plan``.
ACTIONS: dict[str, tuple[int, Callable[[World, Random], Awaitable[None]]]] = {
    "append": (30, append),
    "append elsewhere": (6, partial(append, elsewhere=True)),
    "end a log": (1, partial(append, is_end=True)),
    "forget": (5, forget),
    "want again": (3, want_again),
    "follow": (5, follow),
    "unfollow": (2, unfollow),
    "block an author": (1, partial(choose, what="block", change=_block)),
    "unblock": (1, partial(choose, what="unblock", change=_unblock)),
    "unshare": (1, partial(choose, what="unshare", change=_unshare)),
    "share": (1, partial(choose, what="share", change=_share)),
    "disturb": (10, disturb),
    "cut off": (4, cut_off),
    "sleep": (4, sleep),
    "kill": (4, kill),
    "kill within a write": (4, kill_within_a_write),
    "power cut": (3, power_cut),
    "stop": (2, stop),
    "fill the disk": (4, fill_the_disk),
    "bad disk": (4, bad_disk),
    "slow disk": (3, slow_disk),
    "sync": (6, sync),
    "compare": (4, compare_stores),
    "call": (3, call),
    "stranger": (3, stranger),
    "fold": (3, fold),
    "page": (0, page),  # Where nodes serve pages.
    "share in a clump": (0, share_in_a_clump),  # Where there are several clumps.
}
