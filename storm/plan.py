"""What a seed contains: nodes, who talks with whom, authors, interests, limits, and when what happens.

Everything is drawn from the seed. A part has its own random numbers, so that a change of one part leaves the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from random import Random
from typing import Any

from culm.bushbaby import Dialect
from culm.node.interests.quotas import AUTHOR_BYTES, QuotaLimits
from culm.node.proposals.options import ProposalOptions
from storm.actions import ACTIONS

CLUMPS = (b"storm", b"calm")
SCHEMES = ("culm", "bushbaby", "intervals", "proposals")
_WITH_QUOTAS = 1 / 6  # of the worlds
LOG_IDS = (0, 1, 7, 300, 2**40, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class AuthorPlan:
    """An author. ``homes``: the nodes that sign for it; with two of them a fork is a matter of time. ``logs``: ids."""

    number: int
    homes: tuple[int, ...]
    logs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A node. ``limits`` are some of ``NodeLimits`` and ``Limits``; ``follows`` is how it chooses what to ask for.

    With two ``clumps`` it is two nodes on one home. ``dialect``: the only one that it speaks; None: either.
    ``keeps_peers``: what it knows of peers outlives a restart, and each second crash, in a file. ``quotas``: how much
    it takes of others.
    """

    number: int
    listens: tuple[str, ...]
    limits: dict[str, float]
    interval: float
    proposals: ProposalOptions
    download: int
    upload: int
    follows: str
    waiting_room: int
    clumps: tuple[bytes, ...]
    dialect: Dialect | None
    wait_for_hello: bool | None
    stateless: bool
    relay: bool
    keeps_peers: bool
    quotas: QuotaLimits


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """One node keeps contact with another, in a clump of both; or as a *bridge*, by a protocol without clumps.

    ``their_clump``: where the other end of a bridge is; None: in the same clump.
    """

    caller: int
    callee: int
    scheme: str
    clump: bytes
    their_clump: bytes | None = None

    @property
    def callee_clump(self) -> bytes:
        """The clump of the node that is called."""
        return self.clump if self.their_clump is None else self.their_clump

    def clump_of(self, number: int) -> bytes:
        """The clump of one of the two nodes."""
        return self.clump if number == self.caller else self.callee_clump


@dataclass(frozen=True, slots=True, order=True)
class EventPlan:
    """Something happens ``at`` seconds from the beginning."""

    at: float
    kind: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole seed. ``sizes``: the payloads' sizes to draw from, in bytes. ``seconds``: how long the storm lasts.

    ``serves_pages``: the nodes also listen for web pages, and some intervals are spoken there, inside a WebSocket.
    """

    seed: int
    nodes: tuple[NodePlan, ...]
    links: tuple[LinkPlan, ...]
    authors: tuple[AuthorPlan, ...]
    sizes: tuple[int, ...]
    seconds: float
    trouble: float
    slow: float
    events: tuple[EventPlan, ...]
    serves_pages: bool

    def random(self, part: str) -> Random:
        """The random numbers of a part."""
        return Random(f"{self.seed}/{part}")


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"{seed}/plan")
    count = random.choices((2, 3, 4, 5), (40, 38, 17, 5))[0]
    schemes = _schemes(random)
    # What came later has random numbers by itself, so that all else about a seed is as it was before.
    links, clumps = _clumps(Random(f"{seed}/clumps"), count, _links(random, count, schemes))
    links += _bridges(Random(f"{seed}/bridges"), clumps)
    dialects, waits = _dialects(Random(f"{seed}/dialects"), count, links)
    has_window = "proposals" in schemes and random.random() < 0.15
    sizes = _sizes(random, compressed=has_window)
    rates = random.random() < 0.1 and max(sizes) < 100_000
    wishes = Random(f"{seed}/mandatory")
    roles = Random(f"{seed}/roles")
    quotas = Random(f"{seed}/quotas")
    has_carriers = quotas.random() < _WITH_QUOTAS
    nodes = tuple(
        NodePlan(
            number,
            listens=_listens(random, number, links),
            limits=_limits(random, len(links), sizes),
            interval=random.uniform(0.5, 4.0),
            proposals=ProposalOptions(
                greedy=random.random() < 0.3,
                window=random.choice((4096, 65536)) if has_window else 0,
                small=not has_window and random.random() < 0.15,
                mandatory=wishes.random() < 0.25,
            ),
            download=random.randrange(60_000, 300_000) if rates else 0,
            upload=random.randrange(60_000, 300_000) if rates else 0,
            follows=random.choices(("everything", "logs", "ranges"), (50, 25, 25))[0],
            waiting_room=random.choice((4, 12)) if random.random() < 0.1 else 100_000,
            clumps=clumps[number],
            dialect=dialects[number],
            wait_for_hello=waits[number],
            stateless=roles.random() < 0.2,
            relay=roles.random() < 0.2,
            keeps_peers=roles.random() < 0.3,
            quotas=_quotas(quotas, sizes) if has_carriers else QuotaLimits(),
        )
        for number in range(count)
    )
    seconds = random.uniform(5.0, 20.0)
    kinds = _kinds(random)
    kinds += _clump_kinds(Random(f"{seed}/sharing"), clumps)
    pages = _page_kinds(Random(f"{seed}/pages"))
    kinds += pages
    events = sorted(EventPlan(random.uniform(0.0, seconds), kind) for kind in kinds)
    return Plan(
        seed,
        nodes,
        links,
        _authors(random, count),
        sizes,
        seconds,
        trouble=random.choice((0.0, 0.2, 0.5, 0.9)),
        slow=random.choice((0.0, 0.0, 0.3)),
        events=tuple(events),
        serves_pages=bool(pages) or Random(f"{seed}/calls by WebSocket").random() < 0.4,
    )


def _schemes(random: Random) -> tuple[str, ...]:
    """The protocols of a world: most often one, so that its nodes depend on it."""
    if random.random() < 0.6:
        return (random.choices(SCHEMES, (45, 20, 17, 18))[0],)
    return tuple(random.sample(SCHEMES, random.choice((2, 3, 4))))


def _links(random: Random, count: int, schemes: Sequence[str]) -> list[LinkPlan]:
    links = []
    for number in range(1, count):
        pair = [random.randrange(number), number]
        random.shuffle(pair)
        links.append(LinkPlan(pair[0], pair[1], random.choice(schemes), CLUMPS[0]))
    for _ in range(random.choice((0, 0, 1, 2))):
        caller, callee = random.sample(range(count), 2)
        link = LinkPlan(caller, callee, random.choice(schemes), CLUMPS[0])
        if link not in links:
            links.append(link)
    return links


def _clumps(
    random: Random, count: int, links: Sequence[LinkPlan]
) -> tuple[tuple[LinkPlan, ...], list[tuple[bytes, ...]]]:
    """In which clumps the nodes are, two of which need a common one to keep contact: the links with it, the clumps."""
    if random.random() < 0.7:
        return tuple(links), [CLUMPS[:1]] * count
    clumps: list[tuple[bytes, ...]] = [random.choice((CLUMPS[:1], CLUMPS[1:], CLUMPS)) for _ in range(count)]
    placed = []
    for link in links:
        if not set(clumps[link.caller]) & set(clumps[link.callee]):
            clumps[link.caller] = CLUMPS
        common = [clump for clump in clumps[link.caller] if clump in clumps[link.callee]]
        placed.append(replace(link, clump=random.choice(common)))
    return tuple(placed), clumps


def _bridges(random: Random, clumps: Sequence[Sequence[bytes]]) -> tuple[LinkPlan, ...]:
    """Two nodes of different clumps that talk by a protocol without clumps: each gives what its clump is given."""
    pairs = [
        (caller, callee, ours, theirs)
        for caller, callee in permutations(range(len(clumps)), 2)
        for ours in clumps[caller]
        for theirs in clumps[callee]
        if ours != theirs
    ]
    if not pairs or random.random() < 0.6:
        return ()
    caller, callee, ours, theirs = random.choice(pairs)
    return (LinkPlan(caller, callee, random.choice(("intervals", "proposals")), ours, theirs),)


def _dialects(random: Random, count: int, links: Sequence[LinkPlan]) -> tuple[list[Dialect | None], list[bool | None]]:
    """Which dialect of Bushbaby each node is forced to, if any, and whether it lets a caller speak first."""
    if random.random() < 0.5:
        return [None] * count, [None] * count
    dialects = [random.choice((None, *Dialect)) for _ in range(count)]
    for link in links:
        if link.scheme == "bushbaby" and not do_understand(dialects[link.caller], dialects[link.callee]):
            dialects[link.callee] = None
    return dialects, [random.choice((None, None, True)) for _ in range(count)]


def do_understand(one: Dialect | None, other: Dialect | None) -> bool:
    """Whether two nodes that are forced to these dialects have one in common."""
    return one is None or other is None or one is other


def _listens(random: Random, number: int, links: Sequence[LinkPlan]) -> tuple[str, ...]:
    needed = {link.scheme for link in links if link.callee == number}
    more = {scheme for scheme in (*SCHEMES, "negentropy") if random.random() < 0.25}
    return tuple(scheme for scheme in (*SCHEMES, "negentropy") if scheme in needed | more)


def _limits(random: Random, links: int, sizes: Sequence[int]) -> dict[str, float]:
    idle = random.uniform(4.0, 8.0) if max(sizes) < 100_000 else random.uniform(7.0, 10.0)
    limits: dict[str, Any] = {
        "handshake_seconds": random.uniform(2.0, 5.0),
        "idle_seconds": idle,
        "keepalive_seconds": idle / 4,
        "settle_seconds": random.uniform(0.5, 2.0),
        "penalty_seconds": random.uniform(0.2, 1.0),
        "max_penalty_seconds": random.uniform(2.0, 20.0),
        "first_retry_seconds": random.uniform(0.1, 0.6),
        "max_retry_seconds": random.uniform(1.0, 4.0),
    }
    if random.random() < 0.2:
        limits["max_sessions"] = links + random.randrange(1, 3)
    if random.random() < 0.1:
        limits["max_address_sessions"] = random.randrange(1, 4) + links
    if random.random() < 0.1:
        limits["max_address_calls"] = random.randrange(60, 200)
    if random.random() < 0.1:
        limits["max_boxes"] = random.randrange(340, 420)
    if random.random() < 0.1 and max(sizes) < 100_000:
        limits["max_rate"] = random.randrange(60_000, 200_000)
    return limits


def _sizes(random: Random, *, compressed: bool) -> tuple[int, ...]:
    sizes = [0, *(random.randrange(1, 80) for _ in range(5)), *(random.randrange(80, 3000) for _ in range(3))]
    if random.random() < 0.4:
        sizes.append(random.randrange(3000, 30_000))
    if random.random() < 0.2 and not compressed:
        sizes += [random.randrange(60_000, 70_000), random.randrange(70_000, 250_000)]
    if random.random() < 0.05 and not compressed:
        sizes.append(random.randrange(1024 * 1024 - 10, 1_500_000))
    return tuple(sizes)


def _quotas(random: Random, sizes: Sequence[int]) -> QuotaLimits:
    """Quotas of a few entries or of many, of the larger payloads or of the small ones; half of the nodes have none."""
    if random.random() < 0.5:
        return QuotaLimits()
    author, total = (AUTHOR_BYTES + random.randrange(1000, 30_000) + random.choice(sizes) for _ in range(2))
    return QuotaLimits(random.choice((0, total + author)), random.choice((0, author)))


def _authors(random: Random, count: int) -> tuple[AuthorPlan, ...]:
    authors = []
    for number in range(random.choice((1, 2, 2, 3, 4))):
        homes = [random.randrange(count)]
        if random.random() < 0.3:
            homes.append(random.choice([other for other in range(count) if other not in homes]))
        logs = tuple(sorted(random.sample(LOG_IDS, random.choice((1, 1, 2)))))
        authors.append(AuthorPlan(number, tuple(homes), logs))
    return tuple(authors)


def _kinds(random: Random) -> list[str]:
    """What happens: appends in any case, and of the rest some kinds, so that each also happens without the others."""
    weights = {kind: weight for kind, (weight, _) in ACTIONS.items() if weight}
    others = [kind for kind in weights if kind != "append"]
    for kind in random.sample(others, random.randrange(0, len(others) - 3)):
        del weights[kind]
    return random.choices(list(weights), list(weights.values()), k=random.randrange(4, 26))


def _clump_kinds(random: Random, clumps: Sequence[Sequence[bytes]]) -> list[str]:
    """What happens besides in a world of several clumps."""
    return ["share in a clump"] * random.randrange(4) if len(set(clumps)) > 1 or len(clumps[0]) > 1 else []


def _page_kinds(random: Random) -> list[str]:
    """What web pages do in a seventh of the worlds: their connections change how all others of a world come out."""
    return ["page"] * random.randrange(1, 5) if random.random() < 1 / 7 else []
