"""The pipeline on Spark, when there are more logs than one machine takes. Needs the extra: ``culm[spark]``.

::

    from culm import spark

    session = spark.session()
    entries = session.read.format("culm").load(["node-1.culm", "node-2.culm", "export.bundle"])
    verdicts = spark.verify(entries)

``run`` does the whole, from paths to a folder of Parquet tables, on top of an earlier run if there is a ``State``.
What else there is has modules of its own: ``forks`` and ``forks_job``, ``select``, ``fingerprint``, ``reconcile``,
``plan``, ``simulate``, ``report``. Importing this loads neither Spark nor Arrow.
"""

from culm.spark.job import run
from culm.spark.read import read_entries
from culm.spark.session import session
from culm.spark.state import State
from culm.spark.summary import Summary
from culm.spark.verify import rejects, verify

__all__ = ["State", "Summary", "read_entries", "rejects", "run", "session", "verify"]
