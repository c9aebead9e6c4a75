"""The pipeline on Spark, for more logs than one machine can hold. Needs the extra: ``culm[spark]``.

A node verifies entry by entry as they arrive, in one store. The pipeline verifies what lies in many stores and files at
once, and gives the same verdicts::

    from culm import spark

    session = spark.session()
    entries = spark.read(session, ["node-1.culm", "node-2.culm", "s3a://bucket/*.bundle"])
    verdicts = spark.verify(entries)

``follow`` does the same with entries that arrive, and ``replayed`` reads its change feed.
``run`` does all of it, from paths to a folder of Parquet tables, on top of an earlier run if there is a ``State``.
``register`` makes functions for SQL. ``verification.verify`` explains how entries are verified. The folders::

    storage, reading, batches    where data lie; inputs, cut into tasks; many entries taken apart and checked at once
    verification                 verdicts, proofs of forks, states; tables of other formats
    following                    entries that arrive: a query, its change feed, where that goes
    select, plan, report, reconciliation    what else one wants to know of many logs, a folder each
    source                       ``spark.read.format("culm")``
    runtime                      tables, the two engines, sessions, and the shell that every job is wrapped in

A command runs a module named ``job``, or one of ``reconciliation``.
Importing this package takes half a second, for it loads Spark and Arrow, or raises a ``ConfigError`` that says how to
install them. So no other part of Culm imports it before it is needed.
"""

from importlib.util import find_spec

from culm.errors import ConfigError

# Before the other imports, because the first of them would say no more than that there is no such module.
for _needed in ("pyspark", "pyarrow", "pandas"):  # Spark's Arrow functions look for pandas
    if find_spec(_needed) is None:
        raise ConfigError('Spark is not installed: pip install "culm[spark]"')

from culm.spark.following.delivery import replayed
from culm.spark.following.job import follow
from culm.spark.functions import function, register
from culm.spark.reading.entries import read, read_entries
from culm.spark.runtime.session import session
from culm.spark.verification.job import Summary, run
from culm.spark.verification.state import State
from culm.spark.verification.verify import rejects, verify

__all__ = [
    "State",
    "Summary",
    "follow",
    "function",
    "read",
    "read_entries",
    "register",
    "rejects",
    "replayed",
    "run",
    "session",
    "verify",
]
