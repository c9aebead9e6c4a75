"""The pipeline on Spark, for more logs than one machine can hold. Needs the extra: ``culm[spark]``.

A node verifies entry by entry as they arrive, in one store. The pipeline verifies what lies in many stores and files at
once, and gives the same verdicts::

    from culm import spark

    session = spark.session()
    entries = spark.read(session, ["node-1.culm", "node-2.culm", "s3a://bucket/*.bundle"])
    verdicts = spark.verify(entries)

``run`` does all of it, from paths to a folder of Parquet tables, on top of an earlier run if there is a ``State``.
``register`` makes functions for SQL. ``culm.spark.verify`` explains how entries are verified. Everything else has
modules of its own: ``forks`` and ``forks_job``, ``select``, ``fingerprint``, ``reconcile``, ``plan``, ``simulate``,
``report``. A command runs a module named ``job`` or ``*_job``.
Importing this package loads neither Spark nor Arrow, so that ``culm`` starts without them.
"""

from culm.spark.functions import register
from culm.spark.job import run
from culm.spark.reading import read, read_entries
from culm.spark.session import session
from culm.spark.state import State
from culm.spark.summary import Summary
from culm.spark.verify import rejects, verify

__all__ = ["State", "Summary", "read", "read_entries", "register", "rejects", "run", "session", "verify"]
