"""A report on what a verification found: a page for people, and the same numbers as tables.

::

    from culm.spark import report

    made = report.run("results", Path("report"))

The page must stay small and the driver must not run out of memory, whatever the inputs. So everything that can be large
(logs, authors, forks, rejects) is written as a table, and only some rows of it come to the page; everything else is
counts by a few hundred kinds.

``source`` is the subject of a report: the folder of a verification, or a state. Its verdicts become ``stretches``, a
run-length encoding. Everything is counted from these by ``steps``. ``job`` has the queries, which are written once and
run on either engine (``runtime.engine``), and makes the small tables: ``culm spark report`` runs it. ``numbers`` names
all columns. ``page`` makes the HTML from ``templates``, with charts.
"""

from culm.spark.report.job import DEFAULT_LOGS, MOST_LOGS, PAGE, run
from culm.spark.report.numbers import Report

__all__ = ["DEFAULT_LOGS", "MOST_LOGS", "PAGE", "Report", "run"]
