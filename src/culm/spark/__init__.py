"""Verifying logs with Spark, when there are more of them than one machine takes. Needs the extra: ``culm[spark]``.

::

    from culm import spark

    session = spark.session()
    entries = spark.read_entries(session, ["node-1.culm", "node-2.culm", "export.bundle"])
    verdicts = spark.verify(session, entries)

``run`` does the whole, from paths to a folder of Parquet tables. Importing this loads neither Spark nor Arrow.
"""

from culm.spark.job import run
from culm.spark.read import read_entries
from culm.spark.session import session
from culm.spark.summary import Summary
from culm.spark.verify import rejects, verify

__all__ = ["Summary", "read_entries", "rejects", "run", "session", "verify"]
