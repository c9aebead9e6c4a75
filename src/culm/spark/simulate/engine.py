"""Running one scenario: all nodes of a round at once.

The simple way is an object for each node and a loop over its calls; in Python a round of a million nodes would take
seconds. Here what a node knows is one 64-bit word, with a bit for each log that grew. A session compares two words: the
caller gets ``theirs & ~mine``, and its cost follows from the number of bits that move (``culm.spark.simulate.costs``).
All sessions of a round are a few operations on arrays. A million nodes take about 100 MB, and a round some tenths of a
second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from culm.spark.simulate.model import Chance

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from culm.spark.simulate.costs import Costs
    from culm.spark.simulate.model import Nodes, Round, Scenario

    Words = npt.NDArray[np.uint64]
    Counts = npt.NDArray[np.int64]


class RoundResult(NamedTuple):
    """The network after a round, and the cost of the round; round 0 is the beginning.

    ``informed``: nodes that know everything; ``coverage``: the mean share of the new entries that nodes know.
    ``seconds``: the simulated time since the beginning. All others are of this round: ``sessions``, ``failed`` calls,
    ``messages``, ``bytes`` of everything; ``entry_bytes`` of new entries and payloads, as often as they were sent;
    ``duplicate_bytes`` of those among them that their receiver got from another node as well; ``busiest_bytes`` of the
    node that sent and received most.
    """

    round: int
    seconds: float
    online: int
    informed: int
    informed_online: int
    coverage: float
    sessions: int
    failed: int
    messages: int
    bytes: int
    entry_bytes: int
    duplicate_bytes: int
    busiest_bytes: int


def simulate(scenario: Scenario, costs: Costs) -> Iterator[RoundResult]:
    """The rounds of a scenario, until every node knows everything or ``max_rounds`` are over."""
    chance = Chance(scenario)
    knows = np.zeros(scenario.nodes, np.uint64)
    for bit, node in enumerate(chance.origins):
        knows[node] |= np.uint64(1 << bit)
    network = _Network(scenario, costs, knows)
    yield network.result(0, np.ones(scenario.nodes, np.bool_), _Traffic(scenario.nodes, costs))
    for number, round_ in enumerate(chance.rounds(), 1):
        yield network.step(number, round_)
        if number == scenario.max_rounds or network.is_done:
            return


class _Traffic:
    """The sums of one round: sessions, messages and bytes, and the bytes of each node."""

    def __init__(self, nodes: int, costs: Costs) -> None:
        self._costs = costs
        self._bytes = np.array(costs.bytes, np.int64)
        self._trips = np.array(costs.messages, np.int64)
        self.of_node: Counts = np.zeros(nodes, np.int64)
        self.sessions = self.failed = self.delivered = self.messages = self.bytes = self.longest = 0

    def add(self, callers: Nodes, called: Nodes, moved: npt.NDArray[np.uint8]) -> None:
        """Add sessions between these nodes; ``moved`` is how many logs each session brought up to date."""
        counts = np.bincount(moved, minlength=len(self._bytes))
        self.sessions += len(callers)
        self.delivered += int(counts @ np.arange(len(counts)))
        self.messages += int(counts @ self._trips)
        self.bytes += int(counts @ self._bytes)
        if len(moved):
            self.longest = max(self.longest, int(self._trips[np.flatnonzero(counts)].max()))
        each = self._bytes[moved]
        self.of_node[callers] += each  # no node is among the callers twice, so none of these additions is lost
        self.of_node += np.bincount(called, each, len(self.of_node)).astype(np.int64)


class _Network:
    def __init__(self, scenario: Scenario, costs: Costs, knows: Words) -> None:
        self._scenario = scenario
        self._costs = costs
        self._knows = knows
        self._everything = np.uint64((1 << scenario.origins) - 1)
        self._seconds = 0.0

    @property
    def is_done(self) -> bool:
        """Whether every node knows everything."""
        return bool((self._knows == self._everything).all())

    def step(self, number: int, round_: Round) -> RoundResult:
        """Run one round. All sessions see the nodes as they were before it, so their order does not matter."""
        scenario = self._scenario
        before, after = self._knows, self._knows.copy()
        traffic = _Traffic(scenario.nodes, self._costs)
        for callers, called, failed in round_.calls:
            mine, theirs = before[callers], before[called]
            given = mine & ~theirs if scenario.direction != "pull" else np.zeros_like(mine)
            taken = theirs & ~mine if scenario.direction != "push" else np.zeros_like(mine)
            after[callers] |= taken
            some = np.flatnonzero(given)
            np.bitwise_or.at(after, called[some], given[some])
            traffic.add(callers, called, np.bitwise_count(given) + np.bitwise_count(taken))
            traffic.failed += failed
        self._knows = after
        learned = int(np.bitwise_count(after).sum(dtype=np.int64) - np.bitwise_count(before).sum(dtype=np.int64))
        slowest = int(traffic.of_node.max()) / scenario.bandwidth + traffic.longest * scenario.latency
        self._seconds += max(scenario.interval, slowest)
        return self.result(number, round_.online, traffic, learned)

    def result(self, number: int, online: npt.NDArray[np.bool_], traffic: _Traffic, learned: int = 0) -> RoundResult:
        scenario = self._scenario
        informed = self._knows == self._everything
        known = int(np.bitwise_count(self._knows).sum(dtype=np.int64))
        return RoundResult(
            round=number,
            seconds=self._seconds,
            online=int(online.sum()),
            informed=int(informed.sum()),
            informed_online=int((informed & online).sum()),
            coverage=known / (scenario.nodes * scenario.origins),
            sessions=traffic.sessions,
            failed=traffic.failed,
            messages=traffic.messages,
            bytes=traffic.bytes,
            entry_bytes=traffic.delivered * self._costs.log_bytes,
            duplicate_bytes=(traffic.delivered - learned) * self._costs.log_bytes,
            busiest_bytes=int(traffic.of_node.max()),
        )
