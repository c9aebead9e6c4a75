"""Simulating gossip: how fast, and at what cost in bytes, new entries reach up to ten million nodes.

Running so many real nodes is out of reach. Two ideas replace them. What a node knows is a single machine word, and all
nodes of a round are moved by a few operations on arrays (``engine``). What a session costs is not simulated at all: it
is measured once for each kind of session, with the real protocol objects, and the sessions are counted (``costs``).

::

    from culm.spark.simulate import Scenario, run_scenarios

    found = run_scenarios(session, [Scenario(nodes=10**5, loss=loss) for loss in (0, 0.1, 0.3)])
    found.convergence.show()

``model`` says what a scenario is. Each scenario is one task of Spark, and they run side by side (``scenarios``).
``talk`` holds the real sessions that are measured, on the driver, before the scenarios start. ``job`` is a whole sweep
with its charts (``plots``): what ``culm spark simulate`` runs.
"""

from culm.spark.simulate.model import Scenario
from culm.spark.simulate.scenarios import CONVERGENCE, ROUNDS, Simulation, run_scenarios

__all__ = ["CONVERGENCE", "ROUNDS", "Scenario", "Simulation", "run_scenarios"]
