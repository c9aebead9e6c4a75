"""What Spark finds by the name of the format: ``spark.read.format("culm")`` imports this, without registration.

The source itself is ``culm.spark.source``.
"""

from culm.spark.source import CulmSource as DefaultSource

__all__ = ["DefaultSource"]
