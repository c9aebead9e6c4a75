"""The mark of streams that can end with the entries that are held when they start. PySpark 4.1 has no such mark."""

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nothing: a class to inherit from."""


__all__ = ["SupportsTriggerAvailableNow"]
