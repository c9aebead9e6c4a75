"""What a seed contains: nodes, who talks with whom, authors, interests, limits, and when what happens.

Everything is drawn from the seed. A part has its own random numbers, so that a change of one part leaves the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from culm.node.proposals.options import ProposalOptions
from storm.actions import ACTIONS

SCHEMES = ("culm", "bushbaby", "intervals", "proposals")
LOG_IDS = (0, 1, 7, 300, 2**40, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class AuthorPlan:
    """An author. ``homes``: the nodes that sign for it; with two of them a fork is a matter of time. ``logs``: ids."""

    number: int
    homes: tuple[int, ...]
    logs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A node. ``limits`` are some of ``NodeLimits`` and ``Limits``; ``follows`` is how it chooses what to ask for."""

    number: int
    listens: tuple[str, ...]
    limits: dict[str, float]
    interval: float
    proposals: ProposalOptions
    download: int
    upload: int
    follows: str
    waiting_room: int


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """One node keeps contact with another."""

    caller: int
    callee: int
    scheme: str


@dataclass(frozen=True, slots=True, order=True)
class EventPlan:
    """Something happens ``at`` seconds from the beginning."""

    at: float
    kind: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole seed. ``sizes``: the payloads' sizes to draw from, in bytes. ``seconds``: how long the storm lasts."""

    seed: int
    nodes: tuple[NodePlan, ...]
    links: tuple[LinkPlan, ...]
    authors: tuple[AuthorPlan, ...]
    sizes: tuple[int, ...]
    seconds: float
    trouble: float
    slow: float
    events: tuple[EventPlan, ...]

    def random(self, part: str) -> Random:
        """The random numbers of a part."""
        return Random(f"{self.seed}/{part}")


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"{seed}/plan")
    count = random.choices((2, 3, 4, 5), (40, 38, 17, 5))[0]
    schemes = _schemes(random)
    links = _links(random, count, schemes)
    has_window = "proposals" in schemes and random.random() < 0.15
    sizes = _sizes(random, compressed=has_window)
    rates = random.random() < 0.1 and max(sizes) < 100_000
    # By themselves, so that all else about a seed is as it was before nodes had these wishes.
    wishes = Random(f"{seed}/mandatory")
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
        )
        for number in range(count)
    )
    seconds = random.uniform(5.0, 20.0)
    kinds = _kinds(random)
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
    )


def _schemes(random: Random) -> tuple[str, ...]:
    """The protocols of a world: most often one, so that its nodes depend on it."""
    if random.random() < 0.6:
        return (random.choices(SCHEMES, (45, 20, 17, 18))[0],)
    return tuple(random.sample(SCHEMES, random.choice((2, 3, 4))))


def _links(random: Random, count: int, schemes: Sequence[str]) -> tuple[LinkPlan, ...]:
    links = []
    for number in range(1, count):
        pair = [random.randrange(number), number]
        random.shuffle(pair)
        links.append(LinkPlan(pair[0], pair[1], random.choice(schemes)))
    for _ in range(random.choice((0, 0, 1, 2))):
        caller, callee = random.sample(range(count), 2)
        link = LinkPlan(caller, callee, random.choice(schemes))
        if link not in links:
            links.append(link)
    return tuple(links)


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
    weights = {kind: weight for kind, (weight, _) in ACTIONS.items()}
    others = [kind for kind in weights if kind != "append"]
    for kind in random.sample(others, random.randrange(0, len(others) - 3)):
        del weights[kind]
    return random.choices(list(weights), list(weights.values()), k=random.randrange(4, 26))
