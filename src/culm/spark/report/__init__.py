"""A page for people, and tables, on what a verification found.

::

    from culm.spark import report

    made = report.run("results", Path("report"))

``source`` is what a report is about: the folder of a verification, or a state. ``counting`` is what is asked for, of
Spark (``sql``, ``tables``) or of this process (``plain``, ``entries``, ``sums``): tables of logs, authors and forks,
and counts that stay small (``counts``, ``strips``); ``numbers`` says what they are called and how they are kept.
``page`` sets them (``sections``, ``logs``, ``charts``, ``html``, ``style``). ``job`` is the whole: what ``culm spark
report`` runs.
"""

from culm.spark.report.job import DEFAULT_LOGS, MOST_LOGS, PAGE, Report, run

__all__ = ["DEFAULT_LOGS", "MOST_LOGS", "PAGE", "Report", "run"]
