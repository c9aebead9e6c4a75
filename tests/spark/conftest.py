"""What the tests of the pipeline share: one Spark session, and the data set with every defect."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

import pytest
from pyarrow import fs

from culm.spark import session
from tests.spark.defects import DataSet
from tests.spark.sparing import SPARING, write_defaults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of the test run: starting another would take ten seconds."""
    # Small data sets still make several batches.
    config = {**SPARING, "spark.sql.execution.arrow.maxRecordsPerBatch": "100"}
    running = session("local[2]", config=config)
    yield running
    running.stop()


@pytest.fixture
def sparing_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that the test starts have Spark sessions that cost little."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(write_defaults(tmp_path / "settings")))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    """The inputs with every defect."""
    return DataSet(tmp_path_factory.mktemp("defects"))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server on the loopback."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it would print a line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, FileSystem]:
    """A new bucket, as a URI, and the file system it is in. The environment says where the server is, and the keys."""
    name = f"bucket-{secrets.token_hex(8)}"
    values = {"AWS_ENDPOINT_URL": s3_server, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    for setting, value in {**values, "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(setting, value)
    system = fs.S3FileSystem(endpoint_override=s3_server, region="us-east-1", allow_bucket_creation=True)
    system.create_dir(name)
    return f"s3a://{name}", system
