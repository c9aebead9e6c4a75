"""The model: what a simulated network of nodes is, and what happens in it by chance.

All nodes act in rounds, in step. At the beginning every node is online and knows the entries of ``logs`` logs. Then
``origins`` of these logs have grown, each at one node. In a round

1. online nodes leave with probability ``leave``, offline ones come back with ``rejoin``;
2. every online node calls ``fanout`` others: neighbours in a fixed random graph where all have ``degree`` of them,
   or any node if ``degree`` is 0. A call fails if the other is offline, or the link is down (probability ``loss``);
3. in each call that does not fail the two have one session of the protocol, and exchange what either lacks, as of
   the beginning of the round. ``direction``: ``both`` ways, as the protocols do; or ``push``, the caller gives; or
   ``pull``, it gets.

What several callers send to one node in the same round counts once as news and otherwise as duplicate. Nodes forget
nothing while they are offline. The simulation ends when all nodes, the offline ones included, know everything.

All chance is drawn in ``Chance``; an engine only computes what follows from it. So the tests can run a second engine,
without vectors, on the same chance, and compare the two.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from culm.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]
    Nodes = npt.NDArray[np.int32]

PROTOCOLS = ("bushbaby", "intervals", "proposals", "negentropy")
DIRECTIONS = ("both", "push", "pull")
MOST_NODES = 10_000_000  # A round holds several arrays of one value for each node in the memory of one task.
MOST_ORIGINS = 64  # What a node knows is one 64-bit word, with a bit for each log that grew.


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run: ``entries`` new entries with payloads of ``payload`` bytes, in ``origins`` logs, each at another node.

    ``logs`` and ``log_entries``: how many logs all nodes hold at the beginning, and entries in each; announcing them
    costs bytes in every session. ``bandwidth``: bytes a second that a node can send and receive together. ``latency``:
    seconds for one way. ``interval``: the least seconds from round to round. ``max_rounds``: the simulation ends there
    even if some node lacks something. ``_BOUNDS`` has the range of each number; ``ConfigError`` for anything else.
    """

    nodes: int = 1000
    protocol: str = "bushbaby"
    degree: int = 8
    fanout: int = 1
    direction: str = "both"
    loss: float = 0.0
    leave: float = 0.0
    rejoin: float = 0.2
    entries: int = 100
    origins: int = 1
    payload: int = 1000
    logs: int = 100
    log_entries: int = 100
    bandwidth: float = 1.25e6
    latency: float = 0.05
    interval: float = 1.0
    max_rounds: int = 500
    seed: int = 1

    def __post_init__(self) -> None:
        """Check all parameters; ``ConfigError`` names the one that is wrong."""
        for name, least, most in _BOUNDS:
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigError(f"a simulation with {name} {value}; accepted: {least} to {most}")
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"there is no protocol {self.protocol!r}; choose one of {', '.join(PROTOCOLS)}")
        if self.direction not in DIRECTIONS:
            raise ConfigError(f"there is no direction {self.direction!r}; choose one of {', '.join(DIRECTIONS)}")
        if self.degree % 2 or (self.degree and self.degree >= self.nodes):
            raise ConfigError(f"a degree of {self.degree} among {self.nodes} nodes; accepted: 0 or a lower even number")
        if self.origins > min(self.entries, self.nodes, self.logs):
            raise ConfigError(f"{self.origins} origins; accepted: not more than entries, nodes or logs")
        if self.entries % self.origins:
            raise ConfigError(f"{self.entries} entries cannot be divided evenly among {self.origins} origins")

    def as_dict(self) -> dict[str, int | float | str]:
        """The parameters by name."""
        return asdict(self)

    @property
    def entries_each(self) -> int:
        """How many new entries each log that grew has."""
        return self.entries // self.origins


NAMES = tuple(field.name for field in fields(Scenario))

# The range of each number. The lower bounds are what makes sense. The upper ones keep arrays within a worker's memory
# (nodes, degree, fanout), or refuse what can only be a slip of the keyboard.
_BOUNDS = (
    ("nodes", 2, MOST_NODES),
    ("degree", 0, 256),
    ("fanout", 1, 64),
    ("loss", 0.0, 1.0),
    ("leave", 0.0, 1.0),
    ("rejoin", 0.0, 1.0),
    ("entries", 1, 10**9),
    ("origins", 1, MOST_ORIGINS),
    ("payload", 0, 2**40),
    ("logs", 1, 10**7),
    ("log_entries", 0, 10**9),
    ("bandwidth", 1.0, 1e15),
    ("latency", 0.0, 1e6),
    ("interval", 0.0, 1e9),
    ("max_rounds", 1, 100_000),
    ("seed", 0, 2**63 - 1),
)


class Calls(NamedTuple):
    """One call of every online node: callers and called of those that succeeded, ``failed`` counts the others.

    No node is among the callers twice, so that arrays can be indexed by them.
    """

    callers: Nodes
    called: Nodes
    failed: int


class Round(NamedTuple):
    """The chance of one round: which nodes are online, and ``fanout`` times the calls."""

    online: Bools
    calls: list[Calls]


class Chance:
    """Everything random about a scenario, from its seed: the same seed gives the same rounds."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._rng = np.random.Generator(np.random.PCG64(scenario.seed))
        self.origins: list[int] = self._rng.permutation(scenario.nodes)[: scenario.origins].tolist()
        self._neighbours = _graph(scenario.nodes, scenario.degree, self._rng)

    def rounds(self) -> Iterator[Round]:
        """The chance of round after round, without end."""
        scenario, rng = self._scenario, self._rng
        online = np.ones(scenario.nodes, np.bool_)
        while True:
            if scenario.leave:
                lot = rng.random(scenario.nodes, np.float32)
                online = np.where(online, lot >= scenario.leave, lot < scenario.rejoin)
            yield Round(online, [self._calls(online) for _ in range(scenario.fanout)])

    def _calls(self, online: Bools) -> Calls:
        scenario, rng = self._scenario, self._rng
        callers = np.flatnonzero(online).astype(np.int32)
        if self._neighbours is None:
            called = rng.integers(0, scenario.nodes - 1, len(callers), np.int32)
            called += called >= callers
        else:
            called = self._neighbours[callers, rng.integers(0, scenario.degree, len(callers), np.int16)]
        good = online[called]
        if scenario.loss:
            good &= rng.random(len(callers), np.float32) >= scenario.loss
        return Calls(callers[good], called[good], int(len(callers) - good.sum()))


def _graph(nodes: int, degree: int, rng: np.random.Generator) -> npt.NDArray[np.int32] | None:
    """The neighbours of each node, ``degree`` of them, or None if there is no graph.

    The graph is the union of ``degree / 2`` random circles through all nodes. Each circle gives every node two
    neighbours, and connects all of them, so that news can always reach everybody.
    """
    if not degree:
        return None
    neighbours = np.empty((nodes, degree), np.int32)
    for circle in range(0, degree, 2):
        order = rng.permutation(nodes).astype(np.int32)
        neighbours[order, circle] = np.roll(order, -1)
        neighbours[order, circle + 1] = np.roll(order, 1)
    return neighbours
