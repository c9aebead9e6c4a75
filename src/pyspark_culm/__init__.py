"""The module that makes ``spark.read.format("culm")`` work without registration.

For a format it does not know, PySpark looks for modules whose names begin with ``pyspark_`` and registers the class
``DefaultSource`` in each. The source itself is ``culm.spark.source``.
"""

from culm.spark.source.source import CulmSource as DefaultSource

__all__ = ["DefaultSource"]
