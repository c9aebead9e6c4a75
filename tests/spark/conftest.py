"""What the tests of the pipeline share: one Spark session, and the data set with every defect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.spark import session
from tests.spark.defects import DataSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of the test run: starting another would take ten seconds."""
    config = {
        "spark.sql.shuffle.partitions": "4",  # more tasks than cores, few enough to cost little
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",  # small data sets still make several batches
        # Much Java runs once, on little: compiling it well takes longer than it saves, and so does code for each query.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    running = session("local[2]", config=config)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    """The inputs with every defect."""
    return DataSet(tmp_path_factory.mktemp("defects"))
