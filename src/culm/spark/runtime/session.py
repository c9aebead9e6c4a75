"""A Spark session that suits Culm: quiet, on this machine's loopback, with this interpreter in its workers.

To change that, point ``SPARK_CONF_DIR`` to a folder of your own. Its ``spark-defaults.conf`` wins over the settings
here, and its ``log4j2.properties`` says what is logged.
"""

from __future__ import annotations

import atexit
import os
import re
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from culm.errors import ConfigError
from culm.spark.runtime.java import java_home
from culm.staging import staged_folder

# Logging is off, because a task that fails would fill the screen with stack traces; the exception says it as well. The
# gateway's level is set apart, because Spark would otherwise announce that it changes it.
_LOG4J = """status = error
rootLogger.level = off
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""

_CONNECT_SECONDS = 5  # until a master counts as unreachable: long for a network, short beside Spark's own minute

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
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    check_reachable(master)
    if master.startswith("sc://"):
        ours = {name: value for name, value in (config or {}).items() if name.startswith("spark.sql.")}
        return _started(SparkSession.builder.remote(master).appName(app_name), master, ours)
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    stack = ExitStack()
    atexit.register(stack.close)
    # The folder stays locked while this process lives, so that a later one removes it if this one is killed.
    scratch = stack.enter_context(staged_folder(Path(tempfile.gettempdir(), "spark")))
    (scratch / "log4j2.properties").write_text(_LOG4J)
    chosen = _own_settings(os.environ.get("SPARK_CONF_DIR"), scratch)
    os.environ["SPARK_CONF_DIR"] = str(scratch)
    settings = {
        **_SETTINGS,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **chosen,
        **(config or {}),
    }
    return _started(SparkSession.builder.master(master).appName(app_name), master, settings)


def _own_settings(folder: str | None, scratch: Path) -> dict[str, str]:
    """The settings of the user's own configuration; its ``log4j2.properties`` replaces ours in ``scratch``."""
    if folder is None or Path(folder) == scratch:
        return {}
    logs, defaults = Path(folder) / "log4j2.properties", Path(folder) / "spark-defaults.conf"
    if logs.is_file():
        (scratch / logs.name).write_bytes(logs.read_bytes())
    if not defaults.is_file():
        return {}
    lines = (line.strip() for line in defaults.read_text().splitlines())
    pairs = (re.split(r"\s*=\s*|\s+", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {name: value for name, *values in pairs for value in values}


def _started(builder: SparkSession.Builder, master: str, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # noqa: BLE001 - whatever Spark raises, its user needs one line
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise ConfigError(f"cannot start Spark at {master}: {reason}") from None
