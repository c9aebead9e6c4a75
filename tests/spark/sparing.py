"""Settings with which a Spark session of the tests costs little, here and in programs that the tests start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Much Java runs once, on little: compiling it well takes longer than it saves, and so does code for each query.
SPARING = {
    "spark.sql.shuffle.partitions": "4",  # more tasks than cores, few enough to cost little
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
}


def write_defaults(folder: Path) -> Path:
    """Make a folder with these settings, for ``SPARK_CONF_DIR``."""
    folder.mkdir(exist_ok=True)
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in SPARING.items()))
    return folder
