"""Culm's logs as a data source of Spark: ``format("culm")``, for reading, writing and streaming.

::

    entries = spark.read.format("culm").load("node.culm")
    some = spark.read.format("culm").options(range="100..", payloads=True).load(["a.bundle", "s3a://logs/*.culm"])
    entries.write.format("culm").mode("append").save("export")     # bundles, which `culm import` takes
    spark.readStream.format("culm").load("node.culm")              # a store that grows
    spark.readStream.format("culm").load("s3a://logs/drop")        # a folder into which bundles are dropped
    spark.readStream.format("culm").option("home", "stream").load("culm://KEY@alice.example:7979")
    spark.readStream.format("culm").option("log", "AUTHOR/1").load("intervals://alice.example:7979")

Spark finds the source by its name where Culm is installed. Rows are ``culm.spark.source.rows.ENTRIES``: entries as
they were found, unverified, and rejects. Options are ``culm.spark.source.rows``.

A filter such as ``WHERE seqnum > 100`` reads everything first, and so does a selection of columns. Spark could tell the
source about filters, but in PySpark 4.3.0 a second query on the same DataFrame then returns rows of the first one. So
authors, logs, numbers and columns are options; ``culm.spark.read`` has them as arguments.
"""
