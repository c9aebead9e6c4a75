"""How far Spark is: the number of tasks of the running stages, and how many of them are done.

A session of this process has to be asked, so a thread asks it several times a second. A Spark Connect server has no
such interface, but calls a handler.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from pyspark.sql import SparkSession

_SECONDS = 0.2  # Between two questions to Spark: often enough for a bar that moves, too seldom to cost anything.


class Watcher(Protocol):
    """Somebody who wants to know how far Spark is."""

    def tasks(self, done: int, total: int) -> None:
        """Called with the tasks of the stages that run now, and how many of them are done; 0 of 0 if none runs.

        Called on a thread of its own.
        """


@contextmanager
def watched(spark: SparkSession, watcher: Watcher | None) -> Iterator[None]:
    """Keep the watcher informed during this block; with None do nothing."""
    if watcher is None:
        yield
        return
    if _is_remote(spark):
        handler = _handler(watcher)
        spark.registerProgressHandler(handler)
        try:
            yield
        finally:
            spark.removeProgressHandler(handler)
            watcher.tasks(0, 0)
        return
    over = threading.Event()
    thread = threading.Thread(target=_look, args=(spark, watcher, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        watcher.tasks(0, 0)


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _look(spark: SparkSession, watcher: Watcher, over: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not over.wait(_SECONDS):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # noqa: BLE001 - Spark has ended; the job itself reports why
            return
        found = [stage for stage in stages if stage is not None]
        watcher.tasks(sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found))


def _handler(watcher: Watcher) -> Any:  # noqa: ANN401 - what Spark Connect calls
    def handle(stages: Sequence[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:  # noqa: ARG001
        found = stages or ()
        watcher.tasks(sum(stage.num_completed_tasks for stage in found), sum(stage.num_tasks for stage in found))

    return handle
