"""The model, and what happens in it by chance.

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

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from culm.simulation.scenario import Scenario

Bools = npt.NDArray[np.bool_]
Nodes = npt.NDArray[np.int32]


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
