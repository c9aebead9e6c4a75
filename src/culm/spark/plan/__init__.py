"""Planning who fetches what from whom: everyone gets what it wants, with few bytes, and no peer gives too much.

The simple way is to let each requester choose a source. Popular sources are then overloaded while others idle, and
nobody can say how much better a plan could be. Planning every entry by itself is exact, but millions of entries are too
many for an optimiser. The way chosen: items that the same peers hold are alike, so only the bytes of each such *class*
matter. There are far fewer classes than items. They are shared out on the driver, with a bound that no plan can beat;
then the shares are cut into transfers of ranges, in parallel.

::

    from culm.spark.plan import plan

    result = plan(session, have, want)
    result.transfers.show()
    print(result.summary())

Four steps (``culm.spark.plan.job``):

1. The tables are read and checked, and all rows of a log brought together (``given``, ``rows``).
2. Each log is swept: who lacks what, and who has it (``sweep``). The bytes are counted by class.
3. The driver shares the classes out among their peers, and computes the bound (``balance``).
4. A second pass over the logs cuts the shares into transfers (``split``).

``job`` does all of it, from paths to a folder: ``culm spark plan`` runs it. The plan is the same for the same rows,
however they are ordered and divided.
"""

from culm.spark.plan.job import Plan, PlanSummary, plan

__all__ = ["Plan", "PlanSummary", "plan"]
