"""Gossip among many nodes, scenario by scenario, on Spark.

::

    from culm.spark.simulate import Scenario, run_scenarios

    found = run_scenarios(session, [Scenario(nodes=10**5, loss=loss) for loss in (0, 0.1, 0.3)])
    found.convergence.show()

``model`` says what a scenario is. Each is one task, of vectorised numpy (``engine``); scenarios run side by side
(``scenarios``). What a session costs is measured before, on the driver, with real sessions (``costs``, ``talk``).
``job`` is a whole sweep with its charts (``plots``): what ``culm spark simulate`` runs.
"""

from culm.spark.simulate.model import Scenario
from culm.spark.simulate.scenarios import CONVERGENCE, ROUNDS, Simulation, run_scenarios

__all__ = ["CONVERGENCE", "ROUNDS", "Scenario", "Simulation", "run_scenarios"]
