"""Sharing out bytes among peers: the planner's own balance, and the same as a linear program for HiGHS.

As many classes as two rounds over 100,000 logs have, of 50 peers that are drawn with skew, so that some of them are in
many classes. HiGHS solves for the least greatest load, by each of its methods. It is no
dependency of Culm: `pip install highspy` to measure it, too.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.cost import measured, memory
from bench.harness import Figure, say
from culm.spark.plan.balance import Class, PeerTerms, balance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Solved = tuple[float, int]  # the greatest load (infinite: none was found in the time), classes that are cut

CLASSES = 186_000
PEERS = 50
SECONDS = 900.0  # for one of HiGHS's methods: nobody waits longer for a plan that the rest of takes three minutes
METHODS = ("ipm", "simplex", "pdlp")


def run(size: int = CLASSES, seconds: float = SECONDS) -> list[Figure]:
    """Measure with so many classes."""
    made = classes(size)
    terms = dict.fromkeys({name for item in made for name in item.members}, PeerTerms())
    bound = float(balance(made, terms).load_bound)
    works: dict[str, Callable[[], Solved]] = {"ours": lambda: ours(made, terms)}
    if find_spec("highspy"):
        works |= {f"HiGHS {name}": lambda name=name: highs(made, name, seconds) for name in METHODS}  # type: ignore[misc]
    return [figure for name, work in works.items() for figure in _figures(f"balance {size:,}: {name}", work, bound)]


def _figures(name: str, work: Callable[[], Solved], bound: float) -> list[Figure]:
    say(name)
    before = memory()
    with measured() as cost:
        load, cut = work()
    found = f"{load / bound - 1:.1e} above the bound, {cut:,} classes cut" if load < np.inf else "no plan in time"
    return [
        Figure(f"{name}, CPU", cost.cpu, "s", found),
        Figure(f"{name}, memory", (cost.peak - before) / 1e6, "MB"),
    ]


def classes(size: int) -> list[Class]:
    """Different classes of four to six peers, with amounts that vary as those of logs do."""
    random = np.random.default_rng(1)
    found: dict[tuple[str, ...], int] = {}
    while len(found) < size:
        drawn = (random.random(int(random.integers(4, 7))) ** 2 * PEERS).astype(int)
        members = tuple(sorted({f"peer {number}" for number in drawn.tolist()}))
        found[members] = found.get(members, 0) + int(random.integers(1, 400)) * 1300
    return [Class(members, amount) for members, amount in sorted(found.items())]


def ours(made: list[Class], terms: dict[str, PeerTerms]) -> Solved:
    """The planner's balance."""
    found = balance(made, terms)
    return _greatest((item.members, share) for item, share in zip(made, found.shares, strict=True))


def _greatest(shared: Iterable[tuple[tuple[str, ...], list[Any]]]) -> Solved:
    loads: dict[str, float] = {}
    cut = 0
    for members, share in shared:
        cut += sum(amount > 0 for amount in share) > 1
        for name, amount in zip(members, share, strict=True):
            loads[name] = loads.get(name, 0.0) + amount
    return max(loads.values()), cut


def highs(made: list[Class], method: str, seconds: float) -> Solved:
    """The linear program: a variable for each class and member, and the greatest load, in parts of the mean load."""
    solver = import_module("highspy")
    lengths = np.array([len(item.members) for item in made])
    names = sorted({name for item in made for name in item.members})
    index = {name: at for at, name in enumerate(names)}
    peer = np.array([index[name] for item in made for name in item.members])
    amount = np.array([float(item.amount) for item in made])
    mean, count, rows = amount.sum() / len(names), len(peer), len(made)
    problem = solver.HighsLp()
    problem.num_col_, problem.num_row_ = count + 1, rows + len(names)
    problem.col_cost_ = np.append(np.zeros(count), 1.0)
    problem.col_lower_, problem.col_upper_ = np.zeros(count + 1), np.full(count + 1, np.inf)
    problem.row_lower_ = np.concatenate((amount / mean, np.full(len(names), -np.inf)))
    problem.row_upper_ = np.concatenate((amount / mean, np.zeros(len(names))))
    matrix = problem.a_matrix_
    matrix.format_ = solver.MatrixFormat.kColwise
    matrix.start_ = np.append(np.arange(count + 1) * 2, 2 * count + len(names)).astype(np.int32)
    of_class = np.stack((np.repeat(np.arange(rows), lengths), rows + peer), 1).ravel()
    matrix.index_ = np.concatenate((of_class, rows + np.arange(len(names)))).astype(np.int32)
    matrix.value_ = np.append(np.ones(2 * count), -np.ones(len(names)))
    program = solver.Highs()
    # No crossover from an inner point to a corner: that takes much longer than all before it.
    options = {"output_flag": False, "solver": method, "run_crossover": "off", "time_limit": seconds, "threads": 1}
    for option, value in options.items():
        program.setOptionValue(option, value)
    program.passModel(problem)
    program.run()
    if program.getModelStatus() != solver.HighsModelStatus.kOptimal:
        return np.inf, 0
    part = np.array(program.getSolution().col_value)[:count] * mean
    shares = np.split(np.where(part > 0.5, part, 0.0), np.cumsum(lengths)[:-1])
    return _greatest((item.members, share.tolist()) for item, share in zip(made, shares, strict=True))
