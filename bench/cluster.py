"""The verification on two workers of a standalone cluster, beside the same job in one process of two threads."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.harness import Figure
from bench.pipeline import CORES, FOLDER, LOG, SIZES, entries, on_spark, rate, warm_session
from bench.sparkcluster import Cluster
from culm.spark.runtime.shell import SETTINGS

SIZE = min(max(SIZES), 1_000_000)
MEMORY = "2g"  # of each worker
_SETTINGS = {
    **SETTINGS,
    "spark.executor.memory": "1g",
    "spark.executor.extraJavaOptions": SETTINGS["spark.driver.extraJavaOptions"],
}


def run() -> list[Figure]:
    """Measure: first here, then there."""
    with warm_session() as spark:
        place = entries(spark, f"even-{SIZE}", SIZE // LOG)
        here = {signatures: on_spark([place], signatures, count=SIZE) for signatures in ("all", "heads")}
    with (
        tempfile.TemporaryDirectory(dir=FOLDER) as folder,
        Cluster(Path(folder), workers=CORES, memory=MEMORY) as cluster,
        warm_session(cluster.url, _SETTINGS),
    ):
        figures = []
        for signatures, beside in here.items():
            cost = on_spark([place], signatures, count=SIZE)
            name, local = f"{SIZE:,} on {CORES} workers of a cluster, {signatures}", f"local[{CORES}]"
            figures.append(rate(name, SIZE, cost, local, SIZE / beside.cpu))
            figures.append(Figure(f"{name}: time", cost.wall, "s", local, cost.wall / beside.wall))
        return figures
