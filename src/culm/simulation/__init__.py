"""Simulating gossip: how fast, and at what cost in bytes, new entries reach up to ten million nodes.

Running so many real nodes is out of reach. Two ideas replace them. What a node knows is a single machine word, and all
nodes of a round are moved by a few operations on arrays (``engine``). What a session costs is not simulated at all: it
is measured once for each kind of session, with two real nodes (``sessions``), and the sessions are counted (``costs``).

::

    from culm.simulation import Scenario, run_scenarios

    found = run_scenarios([Scenario(nodes=10**5, loss=loss) for loss in (0, 0.1, 0.3)])
    print(found.convergence[0]["rounds_all"])

``scenario`` has the parameters, ``chance`` all that is random about them. A scenario cannot be divided, because each
round needs the one before, so a sweep runs its scenarios side by side in processes (``sweep``). ``results`` makes a
folder of tables and charts (``plots``) of them: what ``culm simulate`` runs.
"""

from culm.simulation.scenario import Scenario
from culm.simulation.sweep import Simulation, run_scenarios

__all__ = ["Scenario", "Simulation", "run_scenarios"]
