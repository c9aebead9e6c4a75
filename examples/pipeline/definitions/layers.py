"""The layers of the pipeline that need Culm: entries, verdicts, and the names by which people know authors.

Shows: ``format("culm")``, ``spark.verify`` and ``spark.function`` in a declarative pipeline of Spark's.
Run: ``spark-pipelines run`` in the folder above. It reads what lies in the folder ``inputs`` there.
"""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from culm import spark as culm

SPARK = SparkSession.active()
# The definitions are read in the folder of spark-pipeline.yml.
FOUND = SPARK.read.format("culm").load(str(Path("inputs").absolute()))
# Made outside of a query function, because there nobody may ask which columns a table has.
VERDICTS = culm.verify(FOUND)


@dp.materialized_view(comment="What the inputs hold, unverified, once for each copy; rejects have a reason")
def entries() -> DataFrame:
    """The first layer."""
    return FOUND


@dp.materialized_view(comment="The verdict on every distinct entry")
def verdicts() -> DataFrame:
    """The second layer."""
    return VERDICTS


@dp.temporary_view
def named() -> DataFrame:
    """The verdicts with the author's name, for the reports in SQL: a pipeline lets nobody register functions."""
    return SPARK.table("verdicts").select("*", culm.function("culm_author")("author").alias("name"))
