"""Who gives how much, so that no peer gives too much: the planner's balance, and the bound that it is compared with.

The items of all logs fall into *classes*: those that the same peers can give. A class S has an amount B(S) in bytes, to
be shared out among its peers; a peer p has a capacity c(p). What is sought is the least t such that no peer gives more
than t c(p). That is a linear program with a variable for each class and member: a million of them for 100,000 logs. A
solver that moves along corners does not come to an end there. One that moves through the inside does, but cuts nearly
every class, which makes many more transfers (``bench/balance.py`` measures both). So the shares are found by repeated
weighting, and the bound tells how close they are.

For example, A and B have 100 bytes that somebody wants, and A alone has 60 more. With equal capacities the balance is A
20 + 60, B 80: both give 80, which is half of all, and so the best that is possible.

*The bound.* For any set of peers P, the classes inside P can be given by nobody else. So some peer of P gives at least
``sum of B(S) for S inside P / sum of c(p) for p in P`` times its capacity, in any plan whatever. By the duality of
flows and cuts the best of these bounds is the optimum t itself. Here the sets tried are the peers in the order of how
much they are loaded, the first one, the first two and so on; at the optimum the best set is one of them.

*The shares.* Each peer has a weight, and a class is shared out in proportion to the weights of its peers. Peers that
give more than the bound lose weight by the factor of their excess, those that give less gain, again and again, until
the most loaded peer is within ``TOLERANCE`` of the bound.

*Costs.* Where bytes of peers differ in cost, a price stands on each peer's capacity. Weights are
``exp(-beta (cost + price))``; prices rise where more is given than allowed and sink to nothing where there is room,
while beta grows. Any prices give a bound, too (weak duality): no plan in which nobody gives more than u c(p) costs less
than ``sum of B(S) min over S of (cost + price) - sum of price(p) u c(p)``.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TOLERANCE = 1.002
"""The weighting ends once the greatest load is within 0.2 % of the bound. A smaller value takes more rounds, for a
difference that no peer notices."""

# Rounds of weighting at most, without costs and with them, so that a hard input does not run for ever. The best shares
# found so far are used then.
_ROUNDS, _COST_ROUNDS = 2000, 600

# The weighting also ends after so many rounds in which the greatest load sank by less than this part of it.
_PATIENCE, _PROGRESS = 100, 1e-4

_LEAST_LOG_WEIGHT = -300.0  # Below the greatest weight. e^-300 is no share at all, but no underflow to 0 either.

# With costs, the weights of a class's peers differ by the factor exp(beta * difference of costs). A small beta at first
# lets prices settle while all peers give something; a large one at last makes a dear peer give next to nothing. The
# unit is one by the span of all costs.
_FIRST_BETA, _LAST_BETA = 5.0, 400.0

_SLACK = 1.02  # The cheap plan aims 2 % below the limit, because its last round meets what it aims at only nearly.

# Classes up to this part of the greatest load are not cut: one peer gives all of it. That saves transfers, and changes
# the greatest load by less than that part.
_SMALL = 0.001

_LEAST_SHARE = 0.01  # Of the mean share in a class: a peer with less gives nothing, since it is not worth a transfer.


class PeerTerms(NamedTuple):
    """The terms of a peer: its capacity (any unit, the same for all; above 0) and the cost of a byte."""

    capacity: int = 1
    cost: float = 0.0


class Class(NamedTuple):
    """Items that any of ``members`` can give, ``amount`` bytes in all.

    ``is_whole``: nobody else can give them. False where members were left out to keep the problem small. Such a class
    is shared out like any other, but is left out of the bound: somebody outside it could give its items after all.
    """

    members: tuple[str, ...]
    amount: int
    is_whole: bool = True


class Balance(NamedTuple):
    """The shares, and the bounds to compare them with.

    ``shares``: for each class the bytes that each member gives; they add up to its amount. ``load_bound``: in every
    plan some peer has at least this ratio of load to capacity. ``cost_bound``: no plan whose greatest ratio is at most
    ``limit`` costs less.
    """

    shares: list[list[int]]
    load_bound: Fraction
    limit: float
    cost_bound: float


class _Problem:
    """The classes as arrays: entry k says that peer ``peer[k]`` is a member of class ``owner[k]``."""

    def __init__(self, classes: Sequence[Class], terms: Mapping[str, PeerTerms]) -> None:
        self.classes = classes
        self.names = sorted({name for item in classes for name in item.members})
        index = {name: at for at, name in enumerate(self.names)}
        lengths = np.array([len(item.members) for item in classes], np.int64)
        self.peer: Ints = np.array([index[name] for item in classes for name in item.members], np.int64)
        self.owner: Ints = np.repeat(np.arange(len(classes)), lengths)
        self.starts: Ints = np.cumsum(lengths) - lengths
        self.amount: Floats = np.array([float(item.amount) for item in classes])
        self.is_whole = np.array([item.is_whole for item in classes])
        self.capacity: Floats = np.array([float(terms[name].capacity) for name in self.names])
        self.cost: Floats = np.array([terms[name].cost for name in self.names])

    def parts(self, log_weight: Floats) -> tuple[Floats, Floats]:
        """Each member's part of its class, from 0 to 1, and each peer's load, by these weights of the peers."""
        weight = log_weight[self.peer]
        weight = np.exp(weight - np.maximum.reduceat(weight, self.starts)[self.owner])
        part = weight / np.add.reduceat(weight, self.starts)[self.owner]
        return part, self.loads(part)

    def loads(self, part: Floats) -> Floats:
        """Each peer's load in bytes, by its parts."""
        return np.bincount(self.peer, part * self.amount[self.owner], len(self.names)).astype(np.float64)

    def tight_sets(self, ratio: Floats) -> tuple[float, float, Ints]:
        """The ratio to aim at, and the best bound of the sets of the most loaded peers, with that set.

        The two differ by the classes that are not whole, which have to be given but have no part in the bound.
        """
        order = np.argsort(-ratio, kind="stable")
        last = np.maximum.reduceat(np.argsort(order)[self.peer], self.starts)  # place of the least loaded member
        room = np.cumsum(self.capacity[order])
        aim = np.cumsum(np.bincount(last, self.amount, len(order))) / room
        bounds = np.cumsum(np.bincount(last, self.amount * self.is_whole, len(order))) / room
        best = int(np.argmax(bounds))
        return float(aim.max()), float(bounds[best]), order[: best + 1]


def balance(classes: Sequence[Class], terms: Mapping[str, PeerTerms], *, limit: float | None = None) -> Balance:
    """Share out the classes among their members.

    ``terms`` has all members. ``limit``: the ratio of load to capacity up to which a cheap peer is used before a dear
    one; None: a tenth more than the best balance needs. If the best balance needs more than ``limit``, that counts
    instead. The same classes in the same order give the same result.
    """
    if not any(item.amount for item in classes):
        return Balance([[0] * len(item.members) for item in classes], Fraction(0), limit or 0.0, 0.0)
    problem = _Problem(classes, terms)
    part, most, tight = _evenly(problem)
    allowed = max(most, limit if limit is not None else 1.1 * most)
    cost_bound = _least_cost(problem, np.zeros(len(problem.names)), allowed)
    if np.ptp(problem.cost) > 0:
        part, cost_bound = _cheaply(problem, part, allowed)
    chosen = {problem.names[at] for at in tight}
    inside = sum(item.amount for item in classes if item.is_whole and chosen.issuperset(item.members))
    # Counted once more as an exact fraction, so that rounding cannot make the bound too high.
    load_bound = Fraction(inside, sum(terms[name].capacity for name in chosen))
    return Balance(_whole_bytes(problem, part), load_bound, allowed, cost_bound)


def _evenly(problem: _Problem) -> tuple[Floats, float, Ints]:
    """Parts with nearly the least greatest ratio, that ratio, and the set of peers that gives the best bound."""
    log_weight = np.log(problem.capacity)
    best_part, least, aim, bound, since = np.zeros(0), np.inf, 0.0, -1.0, 0
    tight = np.arange(len(problem.names))
    for round_ in range(_ROUNDS):
        part, load = problem.parts(log_weight)
        ratio = load / problem.capacity
        if ratio.max() < least * (1 - _PROGRESS):
            best_part, least, since = part, float(ratio.max()), round_
        aimed, found, peers = problem.tight_sets(ratio)
        aim = max(aim, aimed)
        if found > bound:
            bound, tight = found, peers
        if least <= aim * TOLERANCE or round_ - since > _PATIENCE:
            break
        log_weight = log_weight - np.clip(np.log(np.maximum(ratio / aim, 1e-300)), -1, 4)
        log_weight = np.maximum(log_weight - log_weight.max(), _LEAST_LOG_WEIGHT)
    return best_part, least, tight


def _cheaply(problem: _Problem, even: Floats, limit: float) -> tuple[Floats, float]:
    """Parts that keep to the limit and cost little, and a bound on the cost; ``even`` if no round kept to the limit."""
    span = float(np.ptp(problem.cost))
    price = np.zeros(len(problem.names))
    base = (problem.cost - problem.cost.min()) / span
    best_part, least, bound = even, np.inf, 0.0
    for round_ in range(_COST_ROUNDS):
        beta = _FIRST_BETA * (_LAST_BETA / _FIRST_BETA) ** min(1.0, round_ / (0.7 * _COST_ROUNDS))
        part, load = problem.parts(np.log(problem.capacity) - beta * (base + price))
        ratio = load / (problem.capacity * limit)
        cost = float((load * base).sum())
        if ratio.max() <= 1 and cost < least:
            best_part, least = part, cost
        bound = max(bound, _least_cost(problem, price * span, limit))
        price = np.maximum(0, price + np.clip(np.log(np.maximum(ratio * _SLACK, 1e-300)), -1, 2) / beta)
    return best_part, bound


def _least_cost(problem: _Problem, price: Floats, limit: float) -> float:
    """The bound on the cost that these prices prove; any prices give one."""
    dearest = (problem.cost + price)[problem.peer]
    given = np.minimum.reduceat(dearest, problem.starts) * problem.amount * problem.is_whole
    return float(given.sum() - (price * problem.capacity).sum() * limit)


def _whole_bytes(problem: _Problem, part: Floats) -> list[list[int]]:
    """The parts as whole numbers of bytes that add up to the classes' amounts.

    Small classes are not cut, which makes fewer transfers. Each goes to the member that still has most to give. The
    largest classes come first, so that small ones even out what rounding left, and the balance is off by no more than
    small classes.
    """
    left = problem.loads(part) / problem.capacity
    small = _SMALL * float(left.max())
    shares: list[list[int]] = [[] for _ in problem.classes]
    for at in sorted(range(len(shares)), key=lambda at: -problem.classes[at].amount):
        amount, start = problem.classes[at].amount, int(problem.starts[at])
        rows = slice(start, start + len(problem.classes[at].members))
        peers, of_class = problem.peer[rows], part[rows]
        given = np.where(of_class * len(of_class) >= _LEAST_SHARE, of_class, 0.0)
        capacity = problem.capacity[peers]
        if amount <= small * float(capacity[given > 0].min()):
            given = np.arange(len(peers)) == np.argmax(np.where(given > 0, left[peers], -np.inf))
        shares[at] = _cut(amount, given.tolist())
        left[peers] -= np.array(shares[at], np.float64) / capacity
    return shares


def _cut(amount: int, parts: list[float]) -> list[int]:
    """An amount divided in proportion to the parts; the greatest part gets what rounding down leaves."""
    total = Fraction(sum(parts))
    share = [int(Fraction(one) * amount / total) for one in parts]
    share[parts.index(max(parts))] += amount - sum(share)
    return share
