"""Culm's logs as a data source of Spark: ``format("culm")``, for reading, writing and streaming.

::

    entries = spark.read.format("culm").load("node.culm")
    some = spark.read.format("culm").options(fromSeqnum=100, payloads=True).load(["a.bundle", "b.culm"])
    entries.write.format("culm").save("export")                    # bundles, which `culm import` takes
    spark.readStream.format("culm").load("node.culm")              # a store that grows
    spark.readStream.format("culm").option("logs", "AUTHOR/1").load("intervals://alice.example:7979")

Spark finds the source by its name where Culm is installed. Rows are ``culm.spark.source.rows.ENTRIES``: entries as they
were found, unverified, and rejects. Options are ``culm.spark.source.options``.

A filter such as ``WHERE seqnum > 100`` reads everything first. Spark could tell the source about it, but in PySpark
4.3.0 a second query on the same DataFrame then returns rows of the first one. So authors, logs and numbers are options.
"""

from __future__ import annotations

from culm.spark.source.source import CulmSource

__all__ = ["CulmSource"]
