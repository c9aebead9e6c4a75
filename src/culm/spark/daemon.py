"""The process that Spark's Python workers are forked from. It has imported everything they need.

Spark starts a worker for each core, and again whenever one has been idle for a minute. Each would spend a second or two
on importing Arrow, numpy and Culm. A forked process has its parent's modules, so workers forked from here start at
once. Spark runs this module because of the setting ``spark.python.daemon.module`` (``culm.spark.session``).
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
    # Workers collect garbage after each task. Frozen objects are left out of that; the modules never become garbage.
    gc.freeze()
    manager()
