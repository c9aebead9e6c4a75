"""Errors of Spark as one line.

Spark's errors carry pages of stack traces, in two languages and from several processes. A user needs the one line that
names the cause. The original error stays chained to the one raised here, so that a debugger still finds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from culm.errors import CulmError

# First an error that Culm raised in a worker: its message was written for users. Else the last line of a Python
# traceback or of a chain of Java's causes, since the last one is the root cause.
_OURS = re.compile(r"^(?:culm\.errors\.)\w+: (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^(?:Caused by: )?[\w.]+(?:Error|Exception|Exit): (.+)$", re.MULTILINE)


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
