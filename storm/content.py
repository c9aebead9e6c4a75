"""The people of a world: nodes with what they hold at first, and what they want; and a last look at their stores."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from culm.bamboo import Entry, Identity
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.interests.quotas import weight_of
from culm.ranges import Range, RangeSet
from culm.store import ReadableStore, SQLiteStore, State
from culm.testing.builders import LogBuilder
from culm.testing.simulation.disk import STORE
from culm.types import Buffer, Log
from storm.ledger import log_name
from storm.member import Member

Item = tuple[Entry, Buffer | None]

if TYPE_CHECKING:
    from storm.plan import AuthorPlan, NodePlan, Plan
    from storm.world import World

_LONGEST = 14  # entries of a log at first
_OVER_WEB = 0.5  # of the links by intervals, where nodes listen for WebSockets


def author_identity(number: int) -> Identity:
    """An author's identity."""
    return Identity(bytes([100 + number]) * 32)


def all_logs(plan: Plan) -> list[Log]:
    """Every log that there may be."""
    return [(author_identity(author.number).public, log_id) for author in plan.authors for log_id in author.logs]


def make_payload(plan: Plan, random: Random) -> bytes:
    """A payload: noise, or something that can be compressed."""
    size = random.choice(plan.sizes)
    if random.random() < 0.7:
        return random.randbytes(size)
    return (random.randbytes(7) * (size // 7 + 1))[:size]


# -- the beginning --------------------------------------------------------------------------------------------------


def people(world: World) -> list[Member]:
    """The nodes, each with a store that holds something, not yet started."""
    plan = world.plan
    random = plan.random("content")
    holdings: list[list[Item]] = [[] for _ in plan.nodes]
    for author in plan.authors:
        if len(author.homes) > 1:
            world.ledger.forkers.add(author_identity(author.number).public)
        for log_id in author.logs:
            _write_log(world, random, author, log_id, holdings)
    members = []
    for node in plan.nodes:
        member = Member(world, node, _policy(plan, node, random))
        members.append(member)
        (member.folder / STORE).write_bytes(_empty_store())
        with SQLiteStore(member.store_path) as store:
            items = holdings[node.number]
            random.shuffle(items)
            _keep(member, store, items, plan.random(f"clumps of {member}"))
        member.weighed_at_first = member.weighed()
    web = plan.random("calls by WebSocket")
    for link in plan.links:
        over_web = link.scheme == "intervals" and plan.serves_pages and web.random() < _OVER_WEB
        url = members[link.callee].url("ws" if over_web else link.scheme, link.callee_clump)
        members[link.caller].peers[link.clump].append(url)
        world.counts["links inside a WebSocket"] += over_web
    return members


@cache
def _empty_store() -> bytes:
    """The file of a store without content: making one takes longer than copying it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / STORE
        SQLiteStore(path).close()
        return path.read_bytes()


def _write_log(world: World, random: Random, author: AuthorPlan, log_id: int, holdings: list[list[Item]]) -> None:
    """A log with the entries of each of its author's stores; others hold parts of it."""
    builder = LogBuilder(author_identity(author.number), log_id)
    for _ in range(random.choice((0, random.randrange(1, 5), random.randrange(1, _LONGEST)))):
        builder.append(world.ledger.publish(make_payload(world.plan, random)))
    branches = [builder]
    if len(author.homes) > 1 and random.random() < 0.6:  # both stores have been written to since they parted
        other = LogBuilder(builder.identity, log_id)
        other.entries = builder.entries[: random.randint(0, len(builder.entries))]
        other.payloads = dict(builder.payloads)
        for _ in range(random.randrange(1, 5)):
            other.append(world.ledger.publish(make_payload(world.plan, random)))
        branches.append(other)
    for number, held in enumerate(holdings):
        if number in author.homes:
            held.extend(branches[author.homes.index(number) % len(branches)].items())
        elif random.random() < 0.4:
            held.extend(_part(random, random.choice(branches).items()))


def _part(random: Random, items: list[Item]) -> list[Item]:
    """What somebody has of a log: its beginning, or some of it, not always with payloads."""
    if random.random() < 0.5:
        return items[: random.randint(0, len(items))]
    share = random.random()
    return [(entry, payload if random.random() < 0.8 else None) for entry, payload in items if random.random() < share]


def _keep(member: Member, store: SQLiteStore, items: list[Item], random: Random) -> None:
    """Give a node what it holds at first: its own logs in all of its clumps or in one, others from any of them."""
    clumps, own, ledger = member.plan.clumps, member.policy.own, member.world.ledger
    came: dict[Log, Sequence[bytes]] = {}
    member.watch.everywhere |= own
    for log in all_logs(member.world.plan):
        came[log] = random.choice([clumps, *([clump] for clump in clumps)])
        if log[0] in own:
            ledger.clumps[log].update(came[log])
            if len(clumps) > 1 and len(came[log]) == 1:
                store.share(log, came[log][0])
    for entry, _ in items:
        ledger.clumps[entry.log].update(came[entry.log])
    for clump in clumps:
        store.receive_in(clump, own)
        store.add([item for item in items if clump in came[item[0].log]])


def _policy(plan: Plan, node: NodePlan, random: Random) -> Policy:
    own = frozenset(author_identity(author.number).public for author in plan.authors if node.number in author.homes)
    if node.follows == "everything":
        return Policy(own=own)
    interests: dict[bytes | Log, RangeSet] = {}
    for log in all_logs(plan):
        if random.random() < 0.85:
            interests[log] = EVERYTHING if node.follows == "logs" else RangeSet([some_range(random)])
    return Policy(own=own, interests=interests)


def some_range(random: Random) -> Range:
    """What somebody may want of a log."""
    if random.random() < 0.3:
        return Range(1)
    start = random.randint(1, 8)
    end = random.choice((None, None, start, start + random.randint(1, 3), start + random.randint(1, 10)))
    limit = random.choice((0, 0, 80, 3000))
    return Range(start, end, sparse=random.random() < 0.3, payloads=random.random() < 0.9, size_limit=limit)


# -- the end --------------------------------------------------------------------------------------------------------


def check_at_rest(world: World, member: Member) -> None:
    """The node has ended in order: its store agrees with itself, and tells of everything once."""
    with SQLiteStore(member.store_path, read_only=True) as store:
        report = store.verify()
        for place, problem in report.problems:
            what = "the store" if place is None else log_name((place.author, place.log_id))
            world.fail(f"{member}: {what}: {problem}")
        verified: dict[bytes, int] = {}
        for summary in store.logs():
            log = (summary.author, summary.log_id)
            for stored in store.entries(log):
                verified[stored.entry.hash] = 0
                if stored.state is not State.VERIFIED:
                    world.fail(f"{member}: {log_name(log)}/{stored.entry.seq} shows, and is not verified")
        _check_news(world, member, store, verified)
        proofs = Counter[bytes]()
        for proof in store.fork_proofs():
            proofs[proof.author] += weight_of(proof.first) + weight_of(proof.second)
    _check_quotas(world, member, proofs)


def _check_quotas(world: World, member: Member, proofs: Counter[bytes]) -> None:
    """A node has taken no more of others than its quotas allow, beyond what it had at first.

    What the proofs of forks take of each author is not known before they are there. And two nodes on one home weigh
    what they take themselves, and a log can be in the clumps of both.
    """
    limits = member.plan.quotas
    if not limits or member.takes_by_hand or len(member.plan.clumps) > 1:
        return
    for clump, weighed in member.weighed().items():
        first, of = member.weighed_at_first[clump], Counter(weighed) - proofs
        if limits.total and sum(of.values()) > max(limits.total, sum(first.values())):
            world.fail(f"{member}: others take {sum(of.values())} bytes of the clump's quota of {limits.total}")
        for author, size in of.items():
            if limits.author and size > max(limits.author, first.get(author, 0)):
                world.fail(f"{member}: an author takes {size} bytes of a quota of {limits.author}")
        world.counts["quotas that held"] += 1


def _check_news(world: World, member: Member, store: ReadableStore, verified: Mapping[bytes, int]) -> None:
    told = dict(verified)
    page = store.news(limit=10)
    while page.entries:
        for stored, _ in page.entries:
            if stored.entry.hash not in told:
                world.fail(f"{member}: news of an entry that is not verified")
                return
            told[stored.entry.hash] += 1
        page = store.news(page.end, limit=10)
    if wrong := [times for times in told.values() if times != 1]:
        world.fail(f"{member}: {len(wrong)} entries are not told of once")
