"""A report on what a verification found: a page for people, and the same numbers as tables.

::

    from culm.spark import report

    made = report.run("results", Path("report"))

The page must stay small and the driver must not run out of memory, whatever the inputs. So everything that can be large
(logs, authors, forks, rejects) is written as a table, and only some rows of it come to the page; everything else is
counts by a few hundred kinds.

``source`` is the subject of a report: the folder of a verification, or a state. ``counting`` is the interface of the
two engines that count, Spark (``sql``, ``tables``) and this process (``plain``, ``entries``, ``sums``), which give the
same numbers. ``counts`` and ``strips`` work on what either counted; ``numbers`` names all columns. ``page`` makes the
HTML (``sections``, ``logs``, ``charts``, ``html``, ``style``). ``job`` does all of it: ``culm spark report`` runs it.
"""

from culm.spark.report.job import DEFAULT_LOGS, MOST_LOGS, PAGE, Report, run

__all__ = ["DEFAULT_LOGS", "MOST_LOGS", "PAGE", "Report", "run"]
