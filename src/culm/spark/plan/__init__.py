"""Who fetches what from whom, so that everyone is served with few bytes and no peer gives too much.

::

    from culm.spark.plan import plan

    result = plan(session, have, want)
    result.transfers.show()
    print(result.summary())

Four steps (``culm.spark.plan.planning``). Tables that say who has and who wants which ranges are read and checked
(``given``, ``rows``), and all rows of a log brought together. Each log is swept to see who lacks what and who has it
(``sweep``), and the bytes are counted by the sets of peers that have them. These classes are shared out on the driver
(``balance``), which also gives the lower bound. A second pass over the logs cuts the shares into transfers (``split``).

``job`` is the whole of it, from paths to a folder: what ``culm spark plan`` runs.

The plan is the same for the same rows, however they are distributed and ordered.
"""

from culm.spark.plan.planning import plan
from culm.spark.plan.tables import Plan, PlanSummary

__all__ = ["Plan", "PlanSummary", "plan"]
