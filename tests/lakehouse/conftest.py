"""A session with the jars of one table format, as ``make lakehouse`` has set it up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import fs

from culm.spark import run, session
from tests.lakehouse.page import on_the_page
from tests.spark.conftest import s3_server
from tests.spark.verification.test_state import bundle
from tests.spark.worse_logs import WorseLogs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession

__all__ = ["s3_server"]

_QUICK = """
spark.sql.shuffle.partitions 1
spark.databricks.delta.snapshotPartitions 1
spark.driver.extraJavaOptions -XX:+UseSerialGC -XX:TieredStopAtLevel=1
"""


@pytest.fixture(scope="session")
def environment() -> Path:
    """The folder of the environment, which has the name of its format."""
    return Path(os.environ["CULM_LAKEHOUSE"]).absolute()


@pytest.fixture(scope="session")
def kind(environment: Path) -> str:
    """The format."""
    return environment.name


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which tables are."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="session")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days' results: ``monday``; ``tuesday``, what the state says is new since then; ``both``, in one run."""
    folder = tmp_path_factory.mktemp("days")
    items = WorseLogs(seed=5, count=12).items
    inputs = [bundle(folder / "1", items[::2]), bundle(folder / "2", items[1::2])]
    run(inputs[:1], folder / "monday", state=folder / "state")
    run(inputs[1:], folder / "tuesday", state=folder / "state")
    run(inputs, folder / "both")
    return folder


@pytest.fixture(scope="session")
def bucket(s3_server: str) -> Iterator[FileSystem]:
    """The files of an S3 server with the page's bucket ``lake``. The environment has its address and the keys."""
    values = {"AWS_ENDPOINT_URL": s3_server, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**values, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}.items():
            patch.setenv(name, value)
        system = fs.S3FileSystem(endpoint_override=s3_server, region="us-east-1", allow_bucket_creation=True)
        system.create_dir("lake")
        yield system


@pytest.fixture(scope="session")
def conf(
    environment: Path,
    kind: str,
    warehouse: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Path:
    """A folder with the settings of the page, for ``SPARK_CONF_DIR``; those for S3 among them where there are jars."""
    (settings,) = on_the_page("properties", kind)
    if kind == "delta":
        request.getfixturevalue("bucket")  # Java takes the environment from when it is started
        settings += on_the_page("properties", "s3")[0]
    jars = environment.parent / "jars"
    for on_page, here in {
        "/opt/jars": jars / kind,
        "/opt/s3-jars": jars / f"{kind}-s3",
        "/srv/lake": warehouse,
    }.items():
        settings = settings.replace(on_page, str(here))
    folder = tmp_path_factory.mktemp("conf")
    (folder / "spark-defaults.conf").write_text(settings + _QUICK)
    return folder


@pytest.fixture(scope="session")
def spark(conf: Path, days: Path) -> Iterator[SparkSession]:
    """The one session, with the settings of the page. ``days`` come first, because a run takes an active session."""
    assert (days / "both").is_dir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(conf))
        patch.chdir(days)  # Java takes the page's relative paths from where it was started
        running = session("local[1]")
    yield running
    running.stop()
