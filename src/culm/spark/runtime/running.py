"""A Spark session for a job: the active one, or one that is started for the job and stopped after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from culm.spark.runtime.failures import one_line_failures
from culm.spark.runtime.session import session
from culm.spark.runtime.watching import Watcher, watched


def is_running() -> bool:
    """Whether a session is active in this process."""
    return SparkSession.getActiveSession() is not None


@contextmanager
def running(master: str, say: Callable[[str], None], config: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """The active session, which is left running, or one at ``master`` for this block.

    ``config`` adds to the settings of a session that is started here. ``say`` is called with a line when that begins;
    if it is a ``watching.Watcher`` too, it also learns how many tasks are done.

    ``ConfigError`` if Java or the master is missing. ``CulmError`` with one line for every error of Spark's.
    """
    with one_line_failures():
        active = SparkSession.getActiveSession()
        watcher: Watcher | None = say if hasattr(say, "tasks") else None
        if active is not None:
            with watched(active, watcher):
                yield active
            return
        say(f"starting Spark ({master})")
        started = session(master, config=config)
        try:
            with watched(started, watcher):
                yield started
        finally:
            started.stop()


def silent(_line: str) -> None:
    """For callers that want no progress lines: does nothing."""
