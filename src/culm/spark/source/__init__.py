"""Culm's logs as a data source of Spark: ``format("culm")``, for reading, writing and streaming.

::

    entries = spark.read.format("culm").load("node.culm")
    some = spark.read.format("culm").options(fromSeqnum=100, payloads=True).load(["a.bundle", "b.culm"])
    entries.write.format("culm").save("export")                    # bundles, which `culm import` takes
    spark.readStream.format("culm").load("node.culm")              # a store that grows
    spark.readStream.format("culm").option("logs", "AUTHOR/1").load("intervals://alice.example:7979")

Spark finds it by its name where Culm is installed. Rows are ``culm.spark.source.rows.ENTRIES``: entries as they were
found, unverified, and rejects. Options are ``culm.spark.source.options``. Filters are not pushed down: PySpark 4.3.0
gives wrong rows for a source that takes them. Ranges are options instead.
"""

from __future__ import annotations

from culm.spark.source.source import CulmSource

__all__ = ["CulmSource"]
