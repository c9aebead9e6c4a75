"""A session with the jars of one table format, as ``make lakehouse`` has set it up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from culm.spark import run, session
from tests.lakehouse.page import on_the_page
from tests.spark.verification.test_state import bundle
from tests.spark.worse_logs import WorseLogs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

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
def conf(environment: Path, kind: str, warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the settings of the page, for ``SPARK_CONF_DIR``."""
    (settings,) = on_the_page("properties", kind)
    settings = settings.replace("/opt/jars", str(environment / "jars")).replace("/srv/lake", str(warehouse))
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
