"""A Spark session for a job: the active one, or one that is started for the job and stopped after it.

Spark's errors carry pages of stack traces, in two languages and from several processes. A user needs the one line that
names the cause. The original error stays chained to the one raised here, so that a debugger still finds it.

A job's progress is the number of tasks of the running stages, and how many of them are done. A session of this process
has to be asked for these, so a thread asks it several times a second. A Spark Connect server has no such interface, but
calls a handler.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from culm.errors import CulmError
from culm.spark.runtime.session import session

# First an error that Culm raised in a worker: its message was written for users. Else the last line of a Python
# traceback or of a chain of Java's causes, since the last one is the root cause.
_OURS = re.compile(r"^(?:culm\.errors\.)\w+: (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^(?:Caused by: )?[\w.]+(?:Error|Exception|Exit): (.+)$", re.MULTILINE)

_SECONDS = 0.2  # Between two questions to Spark: often enough for a bar that moves, too seldom to cost anything.


class Watcher(Protocol):
    """Somebody who wants to know how far Spark is."""

    def tasks(self, done: int, total: int) -> None:
        """Called with the tasks of the stages that run now, and how many of them are done; 0 of 0 if none runs.

        Called on a thread of its own.
        """


def is_running() -> bool:
    """Whether a session is active in this process."""
    return SparkSession.getActiveSession() is not None


@contextmanager
def running(master: str, say: Callable[[str], None], config: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """The active session, which is left running, or one at ``master`` for this block.

    ``config`` adds to the settings of a session that is started here. ``say`` is called with a line when that begins;
    if it is a ``Watcher`` too, it also learns how many tasks are done.

    ``ConfigError`` if Java or the master is missing. ``CulmError`` with one line for every error of Spark's.
    """
    with one_line_failures():
        active = SparkSession.getActiveSession()
        if active is None:
            say(f"starting Spark ({master})")
        found = active or session(master, config=config)
        try:
            with _watched(found, say if hasattr(say, "tasks") else None):
                yield found
        finally:
            if active is None:
                found.stop()


def silent(_line: str) -> None:
    """For callers that want no progress lines: does nothing."""


# -- errors ---------------------------------------------------------------------------------------------------------


@contextmanager
def one_line_failures() -> Iterator[None]:
    """Turn every error that Spark raises in this block into a ``CulmError`` of one line."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise CulmError(f"Spark: {first_cause(str(error))}") from error
    except (ConnectionRefusedError, ConnectionResetError) as error:  # the socket of Spark's Java process is closed
        raise CulmError("Spark: its Java process has ended; it may have been killed or run out of memory") from error


def first_cause(text: str) -> str:
    """The line of an error's text that names the cause, else its first line, else ``no reason given``."""
    for pattern in (_OURS, _RAISED):
        found = pattern.findall(text)
        if found:
            return str(found[0 if pattern is _OURS else -1]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


# -- progress -------------------------------------------------------------------------------------------------------


@contextmanager
def _watched(spark: SparkSession, watcher: Watcher | None) -> Iterator[None]:
    """Keep the watcher informed during this block; with None do nothing."""
    if watcher is None:
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_look, args=(spark, watcher, over), daemon=True)
    handler = _handler(watcher)
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect")
    if is_remote:
        spark.registerProgressHandler(handler)
    else:
        thread.start()
    try:
        yield
    finally:
        if is_remote:
            spark.removeProgressHandler(handler)
        else:
            over.set()
            thread.join()
        watcher.tasks(0, 0)


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
