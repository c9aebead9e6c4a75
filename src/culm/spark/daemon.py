"""The process that Spark's Python workers are forked from, with what they need loaded already.

Spark starts a worker for each core, and again whenever one has been idle for a minute. Each would spend a second or two
on importing Arrow, numpy and Culm; forked from here, they have them. Spark runs this by the setting
``spark.python.daemon.module`` (``culm.spark.session``).
"""

from __future__ import annotations

import gc

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pyspark.sql.pandas.serializers
import pyspark.worker
from pyspark.daemon import manager

import culm.spark.plain
import culm.spark.source.rows

LOADED = (pa, pd, pyspark, culm)

if __name__ == "__main__":
    gc.freeze()  # what is loaded stays: workers look for garbage after each task, and need not look at all of this
    manager()
