"""Running one scenario: all nodes of a round at once.

The simple way is an object for each node and a loop over its calls; in Python a round of a million nodes would take
seconds. Here what a node knows is one 64-bit word, with a bit for each log that grew. A session compares two words: the
caller gets ``theirs & ~mine``, and its cost follows from the number of bits that move (``culm.simulation.costs``). All
sessions of a round are a few operations on arrays. A million nodes take about 100 MB, and a round some tenths of a
second.
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from culm.simulation.chance import Calls, Chance, Round
from culm.simulation.costs import Costs
from culm.simulation.scenario import Scenario

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
    everything = np.uint64((1 << scenario.origins) - 1)
    knows = np.zeros(scenario.nodes, np.uint64)
    for bit, node in enumerate(chance.origins):
        knows[node] |= np.uint64(1 << bit)
    known, seconds = scenario.origins, 0.0
    trips = np.array(costs.messages)
    beginning = Round(np.ones(scenario.nodes, np.bool_), [])
    for number, (online, calls) in enumerate(chain([beginning], chance.rounds())):
        knows, counts, of_node = _step(scenario, costs, knows, calls)
        before, known = known, int(np.bitwise_count(knows).sum(dtype=np.int64))
        busiest, delivered = int(of_node.max()), int(counts @ np.arange(len(counts)))
        if number:
            longest = int(trips[counts > 0].max(initial=0))
            seconds += max(scenario.interval, busiest / scenario.bandwidth + longest * scenario.latency)
        informed = knows == everything
        yield RoundResult(
            round=number,
            seconds=seconds,
            online=int(online.sum()),
            informed=int(informed.sum()),
            informed_online=int((informed & online).sum()),
            coverage=known / (scenario.nodes * scenario.origins),
            sessions=int(counts.sum()),
            failed=sum(one.failed for one in calls),
            messages=int(counts @ trips),
            bytes=int(counts @ np.array(costs.bytes)),
            entry_bytes=delivered * costs.log_bytes,
            duplicate_bytes=(delivered - known + before) * costs.log_bytes,
            busiest_bytes=busiest,
        )
        if number and (number == scenario.max_rounds or informed.all()):
            return


def _step(scenario: Scenario, costs: Costs, before: Words, calls: list[Calls]) -> tuple[Words, Counts, Counts]:
    """What nodes know after a round, how many sessions brought n logs up to date, and the bytes of each node.

    All sessions see the nodes as they were before the round, so their order does not matter.
    """
    after, sizes = before.copy(), np.array(costs.bytes, np.int64)
    counts, of_node = np.zeros(len(sizes), np.int64), np.zeros(scenario.nodes, np.int64)
    for callers, called, _ in calls:
        mine, theirs = before[callers], before[called]
        given = mine & ~theirs if scenario.direction != "pull" else np.zeros_like(mine)
        taken = theirs & ~mine if scenario.direction != "push" else np.zeros_like(mine)
        after[callers] |= taken  # No node is among the callers twice, so none of these additions is lost.
        some = np.flatnonzero(given)
        np.bitwise_or.at(after, called[some], given[some])
        moved = np.bitwise_count(given) + np.bitwise_count(taken)
        counts += np.bincount(moved, minlength=len(sizes))
        of_node[callers] += sizes[moved]
        of_node += np.bincount(called, sizes[moved], scenario.nodes).astype(np.int64)
    return after, counts, of_node
