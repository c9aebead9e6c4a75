"""What goes wrong inside Spark, told in one line.

Spark's errors carry pages of stack traces, of two languages and several processes. The cause stays chained to the
error that is raised here, for whoever debugs.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from culm.errors import ConfigError, CulmError

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_INSTALLED = 'Spark is not installed: pip install "culm[spark]"'

# An error that Culm raised in a worker; the last line of a traceback, or of a chain of Java's.
_OURS = re.compile(r"^(?:culm\.errors\.)\w+: (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^(?:Caused by: )?[\w.]+(?:Error|Exception|Exit): (.+)$", re.MULTILINE)


def check_installed() -> None:
    """Raise ``ConfigError`` if what the pipeline needs is not installed."""
    try:
        for needed in ("pyspark", "pyarrow", "pandas"):  # Spark's Arrow functions look for pandas
            import_module(needed)
    except ImportError as error:
        raise ConfigError(NOT_INSTALLED) from error


@contextmanager
def one_line_failures() -> Iterator[None]:
    """Raise ``CulmError`` with one line for everything that Spark raises; ``ConfigError`` if it is not installed."""
    check_installed()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise CulmError(f"Spark: {first_cause(str(error))}") from error
    except (ConnectionRefusedError, ConnectionResetError) as error:  # nobody is at its Java process's socket
        raise CulmError("Spark: its process has ended") from error


def first_cause(text: str) -> str:
    """The line of an error's text that tells most: the error raised in a worker, else the first line there is."""
    for pattern in (_OURS, _RAISED):
        found = pattern.findall(text)
        if found:
            return str(found[0 if pattern is _OURS else -1]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
